/* Functions of f64 for builders that have no library of C's, in straight-line arithmetic with fused
 * multiply-adds. Numbers that need more than 53 bits are pairs: `high` is the rounded number, `low`
 * the rest, so that a pair has about 100 bits. Logarithms are pairs, because powers need 64 bits of
 * them; functions that are logarithms of a pair use them.
 *
 * Errors, which test_walk_library.c checks against long double: 1 ulp of exp, log, sin, cos
 * and pow; 2 of tan, sinh, cosh, asinh, acosh, atanh and erf; 3 of tanh, asin, acos, atan and
 * sigmoid; rem is exact. For sin, cos and tan this holds below 2^40: beyond that the angle is not
 * reduced, and they are 0 or 1. */
#include <math.h>

#include "base/check.h"
#include "compiler-core/codegen/walk.h"
#include "compiler-core/codegen/walk_float.h"

/* Added to a number below 2^51, it leaves the nearest integer in the low bits. */
#define MAGIC 0x1.8p52
#define MAGIC_BITS 0x4338000000000000

/* ln 2: its first part has 32 bits, so that products with exponents are exact. */
#define LN2_HIGH 0x1.62e42fefp-1
#define LN2_LOW 0x1.473de6af278edp-34

/* ---- pairs ----------------------------------------------------------------------------------- */

typedef struct pair {
    kiln_ssa high, low;
} pair;

/* Exact: Knuth's sum of two numbers of any sizes. */
static pair sum_of(kiln_walk *w, kiln_ssa a, kiln_ssa b) {
    kiln_ssa sum = add(w, a, b), of_b = sub(w, sum, a), of_a = sub(w, sum, of_b);
    kiln_ssa rest_a = sub(w, a, of_a), rest_b = sub(w, b, of_b);
    return (pair){sum, add(w, rest_a, rest_b)};
}

static pair product_of(kiln_walk *w, pair a, pair b) {
    kiln_ssa high = mul(w, a.high, b.high);
    kiln_ssa low = kiln_walk_fma(w, a.high, b.high, negated(w, high));
    low = kiln_walk_fma(w, a.high, b.low, low);
    return (pair){high, kiln_walk_fma(w, a.low, b.high, low)};
}

static pair quotient_of(kiln_walk *w, pair a, pair b) {
    kiln_ssa high = quotient(w, a.high, b.high), minus = negated(w, high);
    kiln_ssa rest = add(w, kiln_walk_fma(w, minus, b.high, a.high), a.low);
    rest = kiln_walk_fma(w, minus, b.low, rest);
    return (pair){high, quotient(w, rest, b.high)};
}

/* The square root of a pair >= 0. */
static pair root_of(kiln_walk *w, pair a) {
    kiln_ssa high = root(w, a.high);
    kiln_ssa rest = add(w, kiln_walk_fma(w, negated(w, high), high, a.high), a.low);
    kiln_ssa low = quotient(w, rest, add(w, high, high));
    return (pair){high, choose_at(w, KILN_BUILD_OEQ, high, 0, high, low)};
}

/* ---- exponentials and logarithms ---------------------------------------------------------------
 */

static kiln_ssa power_of_two(kiln_walk *w, kiln_ssa exponent) {
    kiln_ssa biased = bits_op(w, KILN_BUILD_ADD, exponent, 1023);
    return wide_float(w, bits_op(w, KILN_BUILD_SHL, biased, 52));
}

/* 2^shift exp(x + low), |low| at most an ulp of x (NULL: 0): exp(x) = 2^n exp(r), |r| <= ln 2 / 2.
 */
static kiln_ssa exp_of(kiln_walk *w, kiln_ssa x, kiln_ssa low, int64_t shift) {
    static const double table[] = {1. / 2,          1. / 6,        1. / 24,        1. / 120,
                                   1. / 720,        1. / 5040,     1. / 40320,     1. / 362880,
                                   1. / 3628800,    1. / 39916800, 1. / 479001600, 1. / 6227020800,
                                   1. / 87178291200};
    x = within(w, x, -800, 800);
    kiln_ssa shifted = kiln_walk_fma(w, x, k(w, x, 0x1.71547652b82fep+0), k(w, x, MAGIC));
    kiln_ssa n = sub(w, shifted, k(w, x, MAGIC));
    kiln_ssa first = kiln_walk_fma(w, n, k(w, x, -LN2_HIGH), x);
    kiln_ssa rest = mul(w, n, k(w, x, -LN2_LOW));
    pair r = sum_of(w, first, low ? add(w, rest, low) : rest);
    /* 1 + r.high is rounded once; what it misses is added with the smaller terms. */
    kiln_ssa square = mul(w, r.high, r.high), tail = HORNER(w, r.high, table);
    tail = kiln_walk_fma(w, square, tail, r.low);
    pair head = sum_of(w, k(w, x, 1), r.high);
    kiln_ssa p = add(w, head.high, add(w, head.low, tail));
    /* Two factors, because 2^n alone may overflow although the product does not. */
    kiln_ssa exponent = bits_op(w, KILN_BUILD_SUB, wide_bits(w, shifted), MAGIC_BITS - shift);
    kiln_ssa half = bits_op(w, KILN_BUILD_ASHR, exponent, 1);
    kiln_ssa other = kiln_walk_compute(w, KILN_BUILD_SUB, exponent, half);
    p = mul(w, p, power_of_two(w, half));
    return mul(w, p, power_of_two(w, other));
}

/* log(m), m in [sqrt(1/2), sqrt(2)): twice s + s^3 (1/3 + s^2 / 5 + ...) with s = (m - 1) / (m +
 * 1).
 */
static pair log_near_one(kiln_walk *w, kiln_ssa m) {
    static const double table[] = {1. / 5,  1. / 7,  1. / 9,  1. / 11, 1. / 13, 1. / 15,
                                   1. / 17, 1. / 19, 1. / 21, 1. / 23, 1. / 25, 1. / 27};
    kiln_ssa zero = k(w, m, 0), one = k(w, m, 1);
    pair below = {sub(w, m, one), zero}, above = sum_of(w, m, one);
    pair s = quotient_of(w, below, above), square = product_of(w, s, s);
    pair factor = sum_of(w, k(w, m, 0x1.5555555555555p-2),
                         mul(w, square.high, HORNER(w, square.high, table)));
    factor.low = add(w, factor.low, k(w, m, 0x1.5555555555555p-56));
    pair cubic = product_of(w, s, product_of(w, square, factor));
    pair half = sum_of(w, s.high, cubic.high);
    kiln_ssa low = add(w, half.low, add(w, s.low, cubic.low));
    return (pair){add(w, half.high, half.high), add(w, low, low)};
}

/* log(2^n m) = n ln 2 + log(m); -inf of 0, NaN below. */
static pair log_of(kiln_walk *w, kiln_ssa x) {
    kiln_ssa is_tiny = kiln_walk_compute(w, KILN_BUILD_OLT, x, k(w, x, 0x1p-1022));
    kiln_ssa normal = kiln_walk_select(w, is_tiny, mul(w, x, k(w, x, 0x1p54)), x);
    kiln_ssa bits = wide_bits(w, normal);
    kiln_ssa above = bits_op(w, KILN_BUILD_SUB, bits, 0x3fe6a09e667f3bcd);
    kiln_ssa exponent = bits_op(w, KILN_BUILD_ASHR, above, 52);
    kiln_ssa scale = bits_op(w, KILN_BUILD_SHL, exponent, 52);
    kiln_ssa m = wide_float(w, kiln_walk_compute(w, KILN_BUILD_SUB, bits, scale));
    kiln_ssa n = kiln_walk_convert(w, KILN_CONVERT_SIGNED_TO_FLOAT, exponent, KILN_SSA_F64);
    n = sub(w, n, kiln_walk_select(w, is_tiny, k(w, x, 54), k(w, x, 0)));
    pair near = log_near_one(w, m);
    pair y = sum_of(w, mul(w, n, k(w, x, LN2_HIGH)), near.high);
    kiln_ssa rest = kiln_walk_fma(w, n, k(w, x, LN2_LOW), near.low);
    y = sum_of(w, y.high, add(w, y.low, rest));

    kiln_ssa high = choose_at(w, KILN_BUILD_OEQ, x, INFINITY, x, y.high);
    high = choose_at(w, KILN_BUILD_OEQ, x, 0, k(w, x, -INFINITY), high);
    high = choose_at(w, KILN_BUILD_FUGE, x, 0, high, k(w, x, NAN));
    high = choose(w, KILN_BUILD_UNO, x, x, x, high);
    kiln_ssa low = choose_at(w, KILN_BUILD_OGT, x, 0, y.low, k(w, x, 0));
    return (pair){high, choose_at(w, KILN_BUILD_OEQ, x, INFINITY, k(w, x, 0), low)};
}

/* Handles `x.high` 0 or infinite, where `x.low` is NaN. */
static kiln_ssa log_of_pair(kiln_walk *w, pair x) {
    pair y = log_of(w, x.high);
    kiln_ssa rest = quotient(w, x.low, x.high);
    rest = choose(w, KILN_BUILD_UNO, rest, rest, k(w, rest, 0), rest);
    return add(w, y.high, add(w, y.low, rest));
}

/* x^y for x >= 0. Where exp_of gives 0 or infinity the lower part may be NaN, and is not needed.
 */
static kiln_ssa power(kiln_walk *w, kiln_ssa x, kiln_ssa y) {
    pair log = log_of(w, x), exponent = product_of(w, log, (pair){y, k(w, y, 0)});
    kiln_ssa low =
        choose_at(w, KILN_BUILD_OLT, absolute(w, exponent.high), 800, exponent.low, k(w, y, 0));
    return exp_of(w, exponent.high, low, 0);
}

/* ---- angles ---------------------------------------------------------------------------------- */

#define HALF_PI 0x1.921fb54442d18p+0
#define HALF_PI_NEXT 0x1.1a62633145c07p-54
#define HALF_PI_LAST -0x1.f1976b7ed8fbcp-110

/* x - n pi / 2, at most about pi / 4. The first difference is exact: its terms are multiples of
 * 2^-53, and it is below 1. */
static pair reduced(kiln_walk *w, kiln_ssa x, kiln_ssa *out_quadrant) {
    kiln_ssa shifted = kiln_walk_fma(w, x, k(w, x, 0x1.45f306dc9c883p-1), k(w, x, MAGIC));
    kiln_ssa n = sub(w, shifted, k(w, x, MAGIC));
    kiln_ssa first = kiln_walk_fma(w, n, k(w, x, -HALF_PI), x);
    kiln_ssa next = mul(w, n, k(w, x, -HALF_PI_NEXT));
    kiln_ssa missing = kiln_walk_fma(w, n, k(w, x, -HALF_PI_NEXT), negated(w, next));
    missing = kiln_walk_fma(w, n, k(w, x, -HALF_PI_LAST), missing);
    pair r = sum_of(w, first, next);
    r = sum_of(w, r.high, add(w, r.low, missing));
    *out_quadrant = wide_bits(w, shifted); /* only the lowest two bits are valid */
    kiln_ssa size = absolute(w, x), zero = k(w, x, 0);
    r.high = choose_at(w, KILN_BUILD_OLT, size, 0x1p40, r.high, zero);
    r.high = choose_at(w, KILN_BUILD_OLT, size, INFINITY, r.high, k(w, x, NAN));
    r.low = choose_at(w, KILN_BUILD_OLT, size, 0x1p40, r.low, zero);
    return r;
}

static kiln_ssa sine_near_zero(kiln_walk *w, pair r, kiln_ssa square) {
    static const double table[] = {
        -1. / 6,        1. / 120,        -1. / 5040,         1. / 362880,
        -1. / 39916800, 1. / 6227020800, -1. / 1307674368e3, 1. / 355687428096e3};
    kiln_ssa cubic = mul(w, r.high, square), tail = HORNER(w, square, table);
    tail = mul(w, cubic, tail);
    kiln_ssa slope = fma_of(w, square, k(w, square, -0.5), 1); /* of r.low */
    return add(w, r.high, kiln_walk_fma(w, r.low, slope, tail));
}

static kiln_ssa cosine_near_zero(kiln_walk *w, pair r, kiln_ssa square) {
    static const double table[] = {
        1. / 24,        -1. / 720,         1. / 40320,         -1. / 3628800,
        1. / 479001600, -1. / 87178291200, 1. / 20922789888e3, -1. / 6402373705728e3};
    pair head = sum_of(w, k(w, square, 1), mul(w, square, k(w, square, -0.5)));
    kiln_ssa fourth = mul(w, square, square), tail = HORNER(w, square, table);
    tail = mul(w, fourth, tail);
    tail = kiln_walk_fma(w, negated(w, r.high), r.low, tail);
    return add(w, head.high, add(w, head.low, tail));
}

/* sin(x + shift pi / 2); the sign of zero is kept if shift is 0 */
static kiln_ssa sine(kiln_walk *w, kiln_ssa x, int64_t shift) {
    kiln_ssa quadrant;
    pair r = reduced(w, x, &quadrant);
    quadrant = bits_op(w, KILN_BUILD_ADD, quadrant, shift);
    kiln_ssa square = mul(w, r.high, r.high);
    kiln_ssa of_sine = sine_near_zero(w, r, square), of_cosine = cosine_near_zero(w, r, square);
    kiln_ssa is_other = bits_op(w, KILN_BUILD_NE, bits_op(w, KILN_BUILD_AND, quadrant, 1), 0);
    kiln_ssa is_below = bits_op(w, KILN_BUILD_NE, bits_op(w, KILN_BUILD_AND, quadrant, 2), 0);
    kiln_ssa size = kiln_walk_select(w, is_other, of_cosine, of_sine);
    size = kiln_walk_select(w, is_below, negated(w, size), size);
    return shift ? size : choose_at(w, KILN_BUILD_OEQ, x, 0, x, size);
}

/* First replaces |x| by 1 / |x| if that is smaller, then takes the angle to pi / 4: the series is
 * used up to 0.42. */
static kiln_ssa arc_tangent(kiln_walk *w, kiln_ssa x) {
    static const double table[] = {-1. / 3,  1. / 5,  -1. / 7,  1. / 9,  -1. / 11, 1. / 13,
                                   -1. / 15, 1. / 17, -1. / 19, 1. / 21, -1. / 23, 1. / 25,
                                   -1. / 27, 1. / 29, -1. / 31, 1. / 33, -1. / 35, 1. / 37,
                                   -1. / 39, 1. / 41, -1. / 43};
    kiln_ssa size = absolute(w, x), one = k(w, x, 1), zero = k(w, x, 0);
    kiln_ssa inverse = quotient(w, one, size);
    kiln_ssa small = choose_at(w, KILN_BUILD_OGT, size, 1, inverse, size);
    kiln_ssa below = sub(w, small, one), turned = quotient(w, below, add(w, small, one));
    kiln_ssa is_turned = kiln_walk_compute(w, KILN_BUILD_OGT, small, k(w, x, 0.4142135623730951));
    kiln_ssa angle = ODD_SERIES(w, kiln_walk_select(w, is_turned, turned, small), table);
    kiln_ssa low = kiln_walk_select(w, is_turned, k(w, x, HALF_PI_NEXT / 2), zero);
    angle = add(w, angle, low);
    angle = add(w, angle, kiln_walk_select(w, is_turned, k(w, x, HALF_PI / 2), zero));
    kiln_ssa other = sub(w, k(w, x, HALF_PI), sub(w, angle, k(w, x, HALF_PI_NEXT)));
    angle = choose_at(w, KILN_BUILD_OGT, size, 1, other, angle);
    return with_sign_of(w, angle, x);
}

static kiln_ssa arc_sine(kiln_walk *w, kiln_ssa x) {
    kiln_ssa above = add(w, k(w, x, 1), x), below = sub(w, k(w, x, 1), x);
    return arc_tangent(w, quotient(w, x, root(w, mul(w, above, below))));
}

static kiln_ssa arc_cosine(kiln_walk *w, kiln_ssa x) {
    kiln_ssa above = add(w, k(w, x, 1), x), below = sub(w, k(w, x, 1), x);
    kiln_ssa half = arc_tangent(w, root(w, quotient(w, below, above)));
    return add(w, half, half);
}

/* ---- hyperbolic functions ----------------------------------------------------------------------
 */

/* |x| <= 1 */
static kiln_ssa hyperbolic_near_zero(kiln_walk *w, kiln_ssa x) {
    static const double table[] = {1. / 6,
                                   1. / 120,
                                   1. / 5040,
                                   1. / 362880,
                                   1. / 39916800,
                                   1. / 6227020800,
                                   1. / 1307674368e3,
                                   1. / 355687428096e3,
                                   1. / 121645100408832e3};
    return ODD_SERIES(w, x, table);
}

static kiln_ssa hyperbolic_sine(kiln_walk *w, kiln_ssa x) {
    kiln_ssa size = absolute(w, x), half = exp_of(w, size, NULL, -1); /* exp(|x|) / 2 */
    kiln_ssa large = sub(w, half, quotient(w, k(w, x, 0.25), half));
    kiln_ssa small = hyperbolic_near_zero(w, x);
    return choose_at(w, KILN_BUILD_OLT, size, 1, small, with_sign_of(w, large, x));
}

static kiln_ssa hyperbolic_cosine(kiln_walk *w, kiln_ssa x) {
    kiln_ssa half = exp_of(w, absolute(w, x), NULL, -1);
    return add(w, half, quotient(w, k(w, x, 0.25), half));
}

static kiln_ssa hyperbolic_tangent(kiln_walk *w, kiln_ssa x) {
    kiln_ssa size = absolute(w, x), of_cosine = hyperbolic_cosine(w, x);
    kiln_ssa small = quotient(w, hyperbolic_near_zero(w, x), of_cosine);
    kiln_ssa square = exp_of(w, add(w, size, size), NULL, 0);
    kiln_ssa rest = quotient(w, k(w, x, 2), add(w, square, k(w, x, 1)));
    kiln_ssa large = sub(w, k(w, x, 1), rest);
    return choose_at(w, KILN_BUILD_OLT, size, 1, small, with_sign_of(w, large, x));
}

/* log((1 + |x|) / (1 - |x|)) / 2 */
static kiln_ssa inverse_hyperbolic_tangent(kiln_walk *w, kiln_ssa x) {
    kiln_ssa size = absolute(w, x), one = k(w, x, 1);
    pair above = sum_of(w, one, size), below = sum_of(w, one, negated(w, size));
    kiln_ssa log = log_of_pair(w, quotient_of(w, above, below));
    return with_sign_of(w, mul(w, log, k(w, x, 0.5)), x);
}

/* log(x + root(x^2 + square)), x >= 0, `square` 1 or -1; log(2 x) where its square is too large. */
static kiln_ssa inverse_hyperbolic(kiln_walk *w, kiln_ssa x, double square) {
    pair of_x = {x, k(w, x, 0)}, other = product_of(w, of_x, of_x);
    pair under = sum_of(w, other.high, k(w, x, square));
    under.low = add(w, under.low, other.low);
    pair leg = root_of(w, under), sum = sum_of(w, x, leg.high);
    kiln_ssa is_large = kiln_walk_compute(w, KILN_BUILD_OGT, x, k(w, x, 0x1p60));
    sum.high = kiln_walk_select(w, is_large, x, sum.high);
    sum.low = kiln_walk_select(w, is_large, k(w, x, 0), add(w, sum.low, leg.low));
    kiln_ssa log = log_of_pair(w, sum);
    kiln_ssa twice = kiln_walk_select(w, is_large, k(w, x, LN2_HIGH + LN2_LOW), k(w, x, 0));
    return add(w, log, twice);
}

/* ---- the error function ------------------------------------------------------------------------
 */

/* Taylor series below 1; 1 - exp(-x^2) p(u) up to 6, u = (x - 2) / (x + 2), and 1 from there on.
 * The coefficients of p interpolate erfc(x) exp(x^2) at Chebyshev's points of [1, 6], in 50
 * digits. */
static kiln_ssa error_function(kiln_walk *w, kiln_ssa x) {
    static const double far[] = {
        0.25539567631050575,     -0.42718584741395849,    0.24165819424246585,
        -0.078978581015706109,   0.0037328924043978336,   0.0069974617369715783,
        -0.00084714325299195005, -0.00098197694110386418, 4.3555586865754817e-05,
        0.00017435947400205157,  2.7527175557227246e-05,  -2.7562209161129353e-05,
        -1.3998283772784976e-05, 1.3058577122278017e-06,  4.0117496473250669e-06,
        1.2725676618402281e-06,  -1.1352571477273627e-06};
    double near_zero[18], factorial = 1;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(near_zero); i++) {
        factorial *= -(double)(i + 1);
        near_zero[i] = 0x1.20dd750429b6dp+0 / (factorial * (2 * i + 3));
    }
    kiln_ssa t = absolute(w, x), square = mul(w, x, x);
    t = choose_at(w, KILN_BUILD_OGT, t, 6, k(w, x, 6), t);
    kiln_ssa tail = mul(w, square, HORNER(w, square, near_zero));
    kiln_ssa factor = add(w, tail, k(w, x, 0x1.06eba8214db69p-3)); /* 2 / sqrt(pi) - 1 */
    kiln_ssa small = kiln_walk_fma(w, x, factor, x);
    kiln_ssa below = sub(w, t, k(w, x, 2)), u = quotient(w, below, add(w, t, k(w, x, 2)));
    kiln_ssa bell = exp_of(w, mul(w, negated(w, t), t), NULL, 0);
    kiln_ssa large = sub(w, k(w, x, 1), mul(w, bell, HORNER(w, u, far)));
    return choose_at(w, KILN_BUILD_OLT, t, 1, small, with_sign_of(w, large, x));
}

/* ---- remainders ------------------------------------------------------------------------------ */

/* Exact: quotients have less than 2,098 bits before the point, and each round takes 52 of them.
 * Rounds whose multiple of y is infinite, or exceeds the rest, subtract nothing. */
static kiln_ssa remainder_of(kiln_walk *w, kiln_ssa x, kiln_ssa y) {
    enum { ROUND_BITS = 52, PART_BITS = 1000 };
    kiln_ssa left = absolute(w, x), part[3] = {absolute(w, y)};
    for (uint32_t i = 1; i < KILN_ARRAY_COUNT(part); i++)
        part[i] = mul(w, part[i - 1], k(w, y, ldexp(1, PART_BITS)));
    for (int shift = 2080; shift >= 0; shift -= ROUND_BITS) {
        kiln_ssa factor = k(w, y, ldexp(1, shift % PART_BITS));
        kiln_ssa step = mul(w, part[shift / PART_BITS], factor);
        kiln_ssa times = kiln_walk_compute(w, KILN_BUILD_FLOOR, quotient(w, left, step), NULL);
        kiln_ssa rest = kiln_walk_fma(w, negated(w, times), step, left);
        /* The quotient was rounded: it may be one too many. */
        rest = choose_at(w, KILN_BUILD_OLT, rest, 0, add(w, rest, step), rest);
        left = choose(w, KILN_BUILD_FUGE, left, step, rest, left);
    }
    return with_sign_of(w, left, x);
}

/* ---- dispatch -------------------------------------------------------------------------------- */

kiln_ssa kiln_walk_wide(kiln_walk *w, kiln_expr_op op, kiln_ssa x, kiln_ssa y) {
    switch (op) {
    case KILN_EXPR_POW: return power(w, x, y);
    case KILN_EXPR_REM: return remainder_of(w, x, y);
    case KILN_EXPR_EXP: return exp_of(w, x, NULL, 0);
    case KILN_EXPR_LOG: return log_of(w, x).high;
    case KILN_EXPR_TANH: return hyperbolic_tangent(w, x);
    case KILN_EXPR_ERF: return error_function(w, x);
    case KILN_EXPR_SIN: return sine(w, x, 0);
    case KILN_EXPR_COS: return sine(w, x, 1);
    case KILN_EXPR_TAN: {
        kiln_ssa of_sine = sine(w, x, 0);
        return quotient(w, of_sine, sine(w, x, 1));
    }
    case KILN_EXPR_ASIN: return arc_sine(w, x);
    case KILN_EXPR_ACOS: return arc_cosine(w, x);
    case KILN_EXPR_ATAN: return arc_tangent(w, x);
    case KILN_EXPR_SINH: return hyperbolic_sine(w, x);
    case KILN_EXPR_COSH: return hyperbolic_cosine(w, x);
    case KILN_EXPR_ASINH: return with_sign_of(w, inverse_hyperbolic(w, absolute(w, x), 1), x);
    case KILN_EXPR_ACOSH:
        return choose_at(w, KILN_BUILD_FUGE, x, 1, inverse_hyperbolic(w, x, -1), k(w, x, NAN));
    case KILN_EXPR_ATANH: return inverse_hyperbolic_tangent(w, x);
    default: break;
    }
    KILN_CHECK(op == KILN_EXPR_OP_COUNT); /* no such function */
    return NULL;
}
