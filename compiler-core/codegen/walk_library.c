/* Functions of C's library for builders that have none (kiln_builder_ops.call is NULL): of f32,
 * computed in f64, whose 29 additional bits make Taylor series and simple reductions precise
 * enough; the result is rounded once. Those of f64 are in walk_library_wide.c. Errors are at most
 * 0.51 ulp (test_walk_library.c); for sin, cos and tan only below 2^40: beyond that the angle is
 * not reduced, and they are 0 or 1. These functions are not critical for tuned kernels. */
#include <math.h>

#include "base/check.h"
#include "compiler-core/codegen/walk.h"
#include "compiler-core/codegen/walk_float.h"

/* (log(1 + x) - log(1 - x)) / 2, |x| <= 0.18 */
static kiln_ssa atanh_near_zero(kiln_walk *w, kiln_ssa x) {
    static const double table[] = {1. / 3, 1. / 5, 1. / 7, 1. / 9, 1. / 11, 1. / 13, 1. / 15};
    return ODD_SERIES(w, x, table);
}

/* log(2^n m) = n ln 2 + log(m), m in [sqrt(1/2), sqrt(2)), for normal numbers. */
static kiln_ssa log_of(kiln_walk *w, kiln_ssa x) {
    kiln_ssa bits = wide_bits(w, x);
    kiln_ssa above = bits_op(w, KILN_BUILD_SUB, bits, 0x3fe6a09e667f3bcd);
    kiln_ssa exponent = bits_op(w, KILN_BUILD_ASHR, above, 52);
    kiln_ssa scale = bits_op(w, KILN_BUILD_SHL, exponent, 52);
    kiln_ssa m = wide_float(w, kiln_walk_compute(w, KILN_BUILD_SUB, bits, scale));
    kiln_ssa n = kiln_walk_convert(w, KILN_CONVERT_SIGNED_TO_FLOAT, exponent, KILN_SSA_F64);
    kiln_ssa above_one = sub(w, m, k(w, m, 1));
    kiln_ssa half = atanh_near_zero(w, quotient(w, above_one, add(w, m, k(w, m, 1))));
    kiln_ssa y = kiln_walk_fma(w, n, k(w, x, 0.693147180559945309), add(w, half, half));
    y = choose_at(w, KILN_BUILD_OEQ, x, INFINITY, x, y);
    y = choose_at(w, KILN_BUILD_OEQ, x, 0, k(w, x, -INFINITY), y);
    y = choose_at(w, KILN_BUILD_OLT, x, 0, k(w, x, NAN), y);
    return kiln_walk_select(w, kiln_walk_compute(w, KILN_BUILD_UNO, x, x), x, y);
}

/* exp(x) = 2^n exp(r), |r| <= ln 2 / 2; beyond the bounds an f32 is 0 or infinite anyway. */
static kiln_ssa exp_of(kiln_walk *w, kiln_ssa x) {
    static const double table[] = {1,          1,           1. / 2,       1. / 6,
                                   1. / 24,    1. / 120,    1. / 720,     1. / 5040,
                                   1. / 40320, 1. / 362880, 1. / 3628800, 1. / 39916800};
    x = within(w, x, -700, 700);
    kiln_ssa scaled = mul(w, x, k(w, x, 1.44269504088896341));
    kiln_ssa n = kiln_walk_compute(w, KILN_BUILD_ROUND_EVEN, scaled, NULL);
    kiln_ssa r = kiln_walk_fma(w, n, k(w, x, -0.693147180559945286), x);
    r = kiln_walk_fma(w, n, k(w, x, -2.3190468138462996e-17), r);
    kiln_ssa p = HORNER(w, r, table);
    kiln_ssa exponent = kiln_walk_convert(w, KILN_CONVERT_FLOAT_TO_SIGNED, n, KILN_SSA_I64);
    kiln_ssa biased = bits_op(w, KILN_BUILD_ADD, exponent, 1023);
    return mul(w, p, wide_float(w, bits_op(w, KILN_BUILD_SHL, biased, 52)));
}

/* ---- angles ---------------------------------------------------------------------------------- */

/* x - n pi / 2, |result| <= pi / 4 */
static kiln_ssa reduced(kiln_walk *w, kiln_ssa x, kiln_ssa *out_quadrant) {
    kiln_ssa turns = mul(w, x, k(w, x, 0.636619772367581343));
    kiln_ssa n = kiln_walk_compute(w, KILN_BUILD_ROUND_EVEN, turns, NULL);
    kiln_ssa r = kiln_walk_fma(w, n, k(w, x, -1.57079632679489656), x);
    r = kiln_walk_fma(w, n, k(w, x, -6.12323399573676604e-17), r);
    *out_quadrant = kiln_walk_convert(w, KILN_CONVERT_FLOAT_TO_SIGNED, n, KILN_SSA_I64);
    r = choose_at(w, KILN_BUILD_OLT, absolute(w, x), 0x1p40, r, k(w, x, 0));
    return choose_at(w, KILN_BUILD_OLT, absolute(w, x), INFINITY, r, k(w, x, NAN));
}

/* sin(x + shift pi / 2); the sign of zero is kept if shift is 0 */
static kiln_ssa sine(kiln_walk *w, kiln_ssa x, int64_t shift) {
    static const double odd[] = {-1. / 6,     1. / 120,       -1. / 5040,
                                 1. / 362880, -1. / 39916800, 1. / 6227020800};
    static const double even[] = {1,          -1. / 2,       1. / 24,        -1. / 720,
                                  1. / 40320, -1. / 3628800, 1. / 479001600, -1. / 87178291200};
    kiln_ssa quadrant, r = reduced(w, x, &quadrant);
    quadrant = bits_op(w, KILN_BUILD_ADD, quadrant, shift);
    kiln_ssa of_sine = ODD_SERIES(w, r, odd), of_cosine = HORNER(w, mul(w, r, r), even);
    kiln_ssa is_other = bits_op(w, KILN_BUILD_NE, bits_op(w, KILN_BUILD_AND, quadrant, 1), 0);
    kiln_ssa is_below = bits_op(w, KILN_BUILD_NE, bits_op(w, KILN_BUILD_AND, quadrant, 2), 0);
    kiln_ssa size = kiln_walk_select(w, is_other, of_cosine, of_sine);
    kiln_ssa other = kiln_walk_compute(w, KILN_BUILD_FNEG, size, NULL);
    size = kiln_walk_select(w, is_below, other, size);
    return shift ? size : choose_at(w, KILN_BUILD_OEQ, x, 0, x, size);
}

#define HALF_PI 1.57079632679489662

/* First replaces |x| by 1 / |x| if that is smaller, then takes the angle to pi / 4: the series is
 * used up to 0.42. */
static kiln_ssa arc_tangent(kiln_walk *w, kiln_ssa x) {
    static const double table[] = {-1. / 3,  1. / 5,  -1. / 7,  1. / 9,  -1. / 11, 1. / 13,
                                   -1. / 15, 1. / 17, -1. / 19, 1. / 21, -1. / 23, 1. / 25};
    kiln_ssa size = absolute(w, x), inverse = quotient(w, k(w, x, 1), size);
    kiln_ssa small = choose_at(w, KILN_BUILD_OGT, size, 1, inverse, size);
    kiln_ssa below = sub(w, small, k(w, x, 1));
    kiln_ssa turned = quotient(w, below, add(w, small, k(w, x, 1)));
    kiln_ssa is_turned = kiln_walk_compute(w, KILN_BUILD_OGT, small, k(w, x, 0.4142135623730951));
    kiln_ssa angle = ODD_SERIES(w, kiln_walk_select(w, is_turned, turned, small), table);
    angle = add(w, angle, kiln_walk_select(w, is_turned, k(w, x, HALF_PI / 2), k(w, x, 0)));
    angle = choose_at(w, KILN_BUILD_OGT, size, 1, sub(w, k(w, x, HALF_PI), angle), angle);
    return with_sign_of(w, angle, x);
}

static kiln_ssa arc_sine(kiln_walk *w, kiln_ssa x) {
    kiln_ssa above = add(w, k(w, x, 1), x), below = sub(w, k(w, x, 1), x);
    return arc_tangent(w, quotient(w, x, root(w, mul(w, above, below))));
}

/* ---- hyperbolic functions ---------------------------------------------------------------------
 */

static kiln_ssa hyperbolic_sine(kiln_walk *w, kiln_ssa x) {
    static const double table[] = {1. / 6, 1. / 120, 1. / 5040, 1. / 362880, 1. / 39916800};
    kiln_ssa size = absolute(w, x), power = exp_of(w, size);
    kiln_ssa twice = sub(w, power, quotient(w, k(w, x, 1), power));
    kiln_ssa large = with_sign_of(w, mul(w, twice, k(w, x, 0.5)), x);
    return choose_at(w, KILN_BUILD_OLT, size, 0.5, ODD_SERIES(w, x, table), large);
}

static kiln_ssa hyperbolic_cosine(kiln_walk *w, kiln_ssa x) {
    kiln_ssa power = exp_of(w, absolute(w, x));
    kiln_ssa twice = add(w, power, quotient(w, k(w, x, 1), power));
    return mul(w, twice, k(w, x, 0.5));
}

static kiln_ssa inverse_hyperbolic_tangent(kiln_walk *w, kiln_ssa x) {
    kiln_ssa above = add(w, k(w, x, 1), x), below = sub(w, k(w, x, 1), x);
    kiln_ssa large = mul(w, log_of(w, quotient(w, above, below)), k(w, x, 0.5));
    kiln_ssa small = atanh_near_zero(w, x);
    return choose_at(w, KILN_BUILD_OLT, absolute(w, x), 0.17, small, large);
}

static kiln_ssa inverse_hyperbolic_sine(kiln_walk *w, kiln_ssa x) {
    kiln_ssa size = absolute(w, x), hypotenuse = root(w, fma_of(w, x, x, 1));
    kiln_ssa large = with_sign_of(w, log_of(w, add(w, size, hypotenuse)), x);
    kiln_ssa small = atanh_near_zero(w, quotient(w, x, hypotenuse));
    return choose_at(w, KILN_BUILD_OLT, size, 0.17, small, large);
}

static kiln_ssa inverse_hyperbolic_cosine(kiln_walk *w, kiln_ssa x) {
    kiln_ssa above = sub(w, x, k(w, x, 1)), sum = add(w, x, k(w, x, 1));
    kiln_ssa leg = mul(w, root(w, above), root(w, sum));
    return log_of(w, add(w, x, leg));
}

/* ---- of two numbers ----------------------------------------------------------------------------
 */

/* x^y from |x|^y, with C's rules for zeros, infinities and negative numbers. */
static kiln_ssa power(kiln_walk *w, kiln_ssa x, kiln_ssa y, kiln_ssa result) {
    kiln_ssa size = absolute(w, x);
    kiln_ssa half = mul(w, y, k(w, y, 0.5));
    kiln_ssa is_whole =
        kiln_walk_compute(w, KILN_BUILD_OEQ, kiln_walk_compute(w, KILN_BUILD_FLOOR, y, NULL), y);
    kiln_ssa is_odd = kiln_walk_compute(w, KILN_BUILD_UNE,
                                        kiln_walk_compute(w, KILN_BUILD_FLOOR, half, NULL), half);
    is_odd = kiln_walk_compute(w, KILN_BUILD_AND, is_odd, is_whole);
    kiln_ssa with_sign = with_sign_of(w, result, x);
    result = kiln_walk_select(w, is_odd, with_sign, result);
    kiln_ssa is_negative = kiln_walk_compute(w, KILN_BUILD_OLT, x, k(w, x, 0));
    is_negative = kiln_walk_compute(w, KILN_BUILD_AND, is_negative,
                                    kiln_walk_compute(w, KILN_BUILD_OGT, x, k(w, x, -INFINITY)));
    kiln_ssa no_root =
        kiln_walk_compute(w, KILN_BUILD_AND, is_negative, kiln_walk_not(w, is_whole));
    result = kiln_walk_select(w, no_root, k(w, x, NAN), result);
    kiln_ssa is_infinite = kiln_walk_compute(w, KILN_BUILD_OEQ, absolute(w, y), k(w, y, INFINITY));
    kiln_ssa is_one = kiln_walk_compute(w, KILN_BUILD_OEQ, size, k(w, x, 1));
    kiln_ssa stays = kiln_walk_compute(w, KILN_BUILD_AND, is_infinite, is_one);
    result = kiln_walk_select(w, stays, k(w, x, 1), result);
    result = choose_at(w, KILN_BUILD_OEQ, x, 1, x, result);
    return choose_at(w, KILN_BUILD_OEQ, y, 0, k(w, y, 1), result);
}

/* Exact: quotients of f32 have less than 278 bits before the point; each round takes 52 of them. */
static kiln_ssa remainder_of(kiln_walk *w, kiln_ssa x, kiln_ssa y) {
    kiln_ssa left = absolute(w, x), size = absolute(w, y);
    for (int shift = 260; shift >= 0; shift -= 52) {
        kiln_ssa step = mul(w, size, k(w, y, ldexp(1, shift)));
        kiln_ssa times = quotient(w, left, step);
        times = kiln_walk_compute(w, KILN_BUILD_FLOOR, times, NULL);
        times = kiln_walk_compute(w, KILN_BUILD_FNEG, times, NULL);
        kiln_ssa rest = kiln_walk_fma(w, times, step, left);
        /* The quotient was rounded: it may be one too many. */
        kiln_ssa more = add(w, rest, step);
        left = choose_at(w, KILN_BUILD_OLT, rest, 0, more, rest);
    }
    left = with_sign_of(w, left, x);
    kiln_ssa is_beyond = kiln_walk_compute(w, KILN_BUILD_OEQ, size, k(w, y, INFINITY));
    is_beyond =
        kiln_walk_compute(w, KILN_BUILD_AND, is_beyond,
                          kiln_walk_compute(w, KILN_BUILD_OLT, absolute(w, x), k(w, x, INFINITY)));
    return kiln_walk_select(w, is_beyond, x, left);
}

/* ---- dispatch -------------------------------------------------------------------------------- */

static kiln_ssa apply(kiln_walk *w, kiln_expr_op op, kiln_ssa x, kiln_ssa y) {
    switch (op) {
    case KILN_EXPR_POW: {
        kiln_ssa of_size = exp_of(w, mul(w, y, log_of(w, absolute(w, x))));
        return power(w, x, y, of_size);
    }
    case KILN_EXPR_REM: return remainder_of(w, x, y);
    case KILN_EXPR_SIN: return sine(w, x, 0);
    case KILN_EXPR_COS: return sine(w, x, 1);
    case KILN_EXPR_TAN: {
        kiln_ssa of_sine = sine(w, x, 0);
        return quotient(w, of_sine, sine(w, x, 1));
    }
    case KILN_EXPR_ASIN: return arc_sine(w, x);
    case KILN_EXPR_ACOS: return sub(w, k(w, x, HALF_PI), arc_sine(w, x));
    case KILN_EXPR_ATAN: return arc_tangent(w, x);
    case KILN_EXPR_SINH: return hyperbolic_sine(w, x);
    case KILN_EXPR_COSH: return hyperbolic_cosine(w, x);
    case KILN_EXPR_ASINH: return inverse_hyperbolic_sine(w, x);
    case KILN_EXPR_ACOSH: return inverse_hyperbolic_cosine(w, x);
    case KILN_EXPR_ATANH: return inverse_hyperbolic_tangent(w, x);
    default: break;
    }
    KILN_CHECK(op == KILN_EXPR_OP_COUNT); /* no such function */
    return NULL;
}

kiln_ssa kiln_walk_library(kiln_walk *w, kiln_expr_op op, const kiln_ssa *v, uint32_t count) {
    kiln_ssa x = v[0], y = count > 1 ? v[1] : NULL;
    if (kiln_walk_type(w, x).scalar == KILN_SSA_F64)
        return op == KILN_EXPR_POW ? power(w, x, y, kiln_walk_wide(w, op, absolute(w, x), y))
                                   : kiln_walk_wide(w, op, x, y);
    x = kiln_walk_convert(w, KILN_CONVERT_FLOAT, x, KILN_SSA_F64);
    if (y) y = kiln_walk_convert(w, KILN_CONVERT_FLOAT, y, KILN_SSA_F64);
    return kiln_walk_convert(w, KILN_CONVERT_FLOAT, apply(w, op, x, y), KILN_SSA_F32);
}
