/* Index arithmetic: quasi-affine normal form, intervals, simplification. All over integer
 * expressions whose variables have ranges (kiln_var_info). */
#ifndef KILN_COMPILER_CORE_IR_AFFINE_H
#define KILN_COMPILER_CORE_IR_AFFINE_H

#include "compiler-core/ir/ir.h"

#define KILN_AFFINE_TERMS_MAX 32

/* constant + sum(coefficient[i] * term[i]); terms are VAR, FLOORDIV, FLOORMOD or other opaque
 * expressions, distinct, in increasing id order, coefficients non-zero. */
typedef struct kiln_affine {
    int64_t constant;
    uint32_t term_count;
    kiln_expr term[KILN_AFFINE_TERMS_MAX];
    int64_t coefficient[KILN_AFFINE_TERMS_MAX];
} kiln_affine;

typedef struct kiln_interval {
    int64_t low, high; /* inclusive; saturated at INT64_MIN / INT64_MAX */
} kiln_interval;

/* False when either end is unknown: then arithmetic may have wrapped, and the interval proves
 * nothing.
 */
bool kiln_interval_is_bounded(kiln_interval i);
/* Intervals of sums and multiples; unknown when an operand is, or when an end overflows. */
kiln_interval kiln_interval_add(kiln_interval a, kiln_interval b);
kiln_interval kiln_interval_scale(kiln_interval a, int64_t factor);

/* Exact bounds for affine expressions with independent variables, safe bounds otherwise.
 * `range` overrides variables' ranges: [var count] or NULL. */
kiln_interval kiln_expr_bounds(const kiln_program *p, kiln_expr e, const kiln_interval *range);
/* Simplest equal expression: normal form, floordiv/floormod of c*x + r split where c is a multiple
 * of the divisor and r stays in [0, divisor), comparisons decided by bounds, min/max/select
 * resolved, bool algebra. Works on any expression (value expressions have only their indices and
 * conditions simplified). */
kiln_expr kiln_expr_simplify(kiln_program *p, kiln_expr e, const kiln_interval *range);
/* Normal form of e after simplification; false when it has more than KILN_AFFINE_TERMS_MAX terms.
 */
bool kiln_affine_of(kiln_program *p, kiln_expr e, const kiln_interval *range, kiln_affine *out);
/* The sum as an expression: positive terms, then subtracted terms, then the constant. */
kiln_expr kiln_affine_to_expr(kiln_program *p, const kiln_affine *affine);
/* The coefficient of the variable itself; 0: there is no such term. */
int64_t kiln_affine_coefficient(const kiln_program *p, const kiln_affine *affine, kiln_var var);
/* True only when proved for every value of the variables. */
bool kiln_expr_prove(kiln_program *p, kiln_expr condition);
/* Values of some variables. */
typedef struct kiln_var_values {
    uint32_t count;
    const kiln_var *var;  /* [count] */
    const int64_t *value; /* [count] */
} kiln_var_values;
/* The value of an integer expression of these variables alone, computed directly. False: it has
 * other variables, loads, selects or floats. */
bool kiln_expr_value(const kiln_program *p, kiln_expr e, const kiln_var_values *at,
                     int64_t *out_value);
/* Offset in elements of a logical index in the buffer's physical layout, simplified. */
kiln_expr kiln_buffer_offset(kiln_program *p, kiln_buffer buffer, const kiln_expr *index);

#endif
