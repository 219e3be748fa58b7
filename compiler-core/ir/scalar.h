/* One operator on one element: the arithmetic shared by constant folding and both interpreters, so
 * that they agree. Floats are held in double and are not rounded by an operator (only by CAST and
 * at stores); integers are wrapped to their dtype after each operator. */
#ifndef KILN_COMPILER_CORE_IR_SCALAR_H
#define KILN_COMPILER_CORE_IR_SCALAR_H

#include "base/integer.h"
#include "compiler-core/ir/ir.h"

/* `f` for float dtypes, `i` for integers and bool (u64: its bits). */
typedef union kiln_scalar {
    double f;
    int64_t i;
} kiln_scalar;

/* Any operator except leaves, LOAD and SELECT (which is lazy). `from` is the operands' dtype, `to`
 * the result's; `operand` is [operand count of op]. */
kiln_scalar kiln_scalar_apply(kiln_expr_op op, kiln_dtype from, kiln_dtype to,
                              const kiln_scalar *operand);
/* The operator that a combiner applies; none for NONE. (expr.c) */
extern const kiln_expr_op kiln_combiner_op[KILN_COMBINE_COUNT];
/* The value after a store to `dtype` and a load back: floats rounded, integers wrapped. */
kiln_scalar kiln_scalar_round(kiln_dtype dtype, kiln_scalar value);
/* The element `index` of an array in memory. */
kiln_scalar kiln_scalar_load(kiln_dtype dtype, const void *data, size_t index);
/* Stores an element, rounded or wrapped to the dtype. */
void kiln_scalar_store(kiln_dtype dtype, void *data, size_t index, kiln_scalar value);

#endif
