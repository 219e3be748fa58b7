/* Steps of a sum of products that an instruction takes several of at once: where their number is
 * no multiple, products with zeros are added. Private to this folder. */
#ifndef KILN_COMPILER_CORE_ALGORITHM_STEPS_H
#define KILN_COMPILER_CORE_ALGORITHM_STEPS_H

#include "compiler-core/ir/ir.h"

typedef struct kiln_steps {
    int padded;                     /* reduce iterator that is no multiple; -1: none */
    int64_t extent;                 /* that it gets; 0: there are no steps along one dimension */
    uint32_t data_dim, weights_dim; /* that it alone indexes */
} kiln_steps;

/* The one dimension of a load whose index depends on an iterator; -1: there are none or several. */
int kiln_steps_dim_moved(const kiln_program *p, kiln_expr load, kiln_var var);
/* The same where the iterator alone is that index. */
int kiln_steps_dim_along(const kiln_program *p, kiln_expr load, kiln_var var);
/* Of `block`, which sums up products of two loads. The longest reduce iterator along one dimension
 * of both is the one that instructions take `at_once` steps of. */
kiln_steps kiln_steps_find(const kiln_program *p, kiln_block block, kiln_expr data,
                           kiln_expr weights, int64_t at_once);
/* `value` at `index` of what has `extent` elements along a dimension, and 0 beyond them. */
kiln_expr kiln_steps_or_zero(kiln_program *p, kiln_expr value, kiln_expr index, int64_t extent);
/* The block takes the steps that are added, if any. */
void kiln_steps_extend(kiln_program *p, kiln_block block, const kiln_steps *steps);

#endif
