/* Pads a sum of products for an instruction that takes several steps at once: where the number of
 * steps is no multiple, products with zeros are added. Private to this folder. */
#ifndef KILN_COMPILER_CORE_ALGORITHM_STEPS_H
#define KILN_COMPILER_CORE_ALGORITHM_STEPS_H

#include "compiler-core/ir/ir.h"

typedef struct kiln_steps {
    int padded;                     /* reduce iterator whose extent is padded; -1: none */
    int64_t extent;                 /* its padded extent; 0: no iterator runs along one dimension of
                                     * both loads */
    uint32_t data_dim, weights_dim; /* dimensions that this iterator alone indexes */
} kiln_steps;

/* The only dimension of a load whose index depends on an iterator; -1: there are none or
 * several. */
int kiln_steps_dim_moved(const kiln_program *p, kiln_expr load, kiln_var var);
/* The same, if the index is the iterator itself. */
int kiln_steps_dim_along(const kiln_program *p, kiln_expr load, kiln_var var);
/* The padding of `block`, which sums up products of two loads. Instructions take `at_once` steps of
 * the longest reduce iterator that runs along one dimension of both loads. */
kiln_steps kiln_steps_find(const kiln_program *p, kiln_block block, kiln_expr data,
                           kiln_expr weights, int64_t at_once);
/* `value` where `index` is below `extent`, the elements along a dimension, and 0 beyond. */
kiln_expr kiln_steps_or_zero(kiln_program *p, kiln_expr value, kiln_expr index, int64_t extent);
/* Extends the block's reduce iterator by the added steps, if any. */
void kiln_steps_extend(kiln_program *p, kiln_block block, const kiln_steps *steps);

#endif
