/* Helpers to build alternatives of sums: sums with given coefficients, the choice of one value
 * among a few, and a block whose sum is replaced by results of other blocks. Private to
 * algorithm/. */
#ifndef KILN_COMPILER_CORE_ALGORITHM_COMBINE_H
#define KILN_COMPILER_CORE_ALGORITHM_COMBINE_H

#include "compiler-core/ir/ir.h"

/* sum of coefficient[i] * value[i], without products by 0, 1 and -1. */
kiln_expr kiln_combine(kiln_program *p, const double *coefficient, const kiln_expr *value,
                       int64_t count);
/* value[which]; `which` runs over [0, count). Loops over it are unrolled, which leaves one of them.
 */
kiln_expr kiln_pick(kiln_program *p, kiln_expr which, const kiln_expr *value, int64_t count);
/* Replaces the block's sum: it becomes `value` plus the initial value of the sum, without reduce
 * iterators. */
void kiln_block_replace_sum(kiln_program *p, kiln_block block, kiln_expr value);

#endif
