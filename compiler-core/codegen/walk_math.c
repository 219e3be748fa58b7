/* Float operators. exp, log, tanh, erf and sigmoid of f32 are polynomials in straight-line IR, the
 * same for scalars and vectors, so that a schedule does not change results; functions of f64 and
 * rarer ones call the C library lane by lane, or those of walk_library.c if there is none.
 *
 * Coefficients are minimax fits of relative error, found by Remez exchange in exact rational
 * arithmetic and rounded to f32. Errors below were measured against the C library in f64 over every
 * 64th f32 of the domain with FMA (tests/unit/compiler-core/codegen/test_walk_math.c checks them;
 * without FMA about one ulp more). */
#include <math.h>

#include "base/check.h"
#include "compiler-core/codegen/walk.h"
#include "compiler-core/codegen/walk_float.h"

/* The bound when x is beyond it; x itself when it is NaN. */
static kiln_ssa at_most(kiln_walk *w, kiln_ssa x, double bound) {
    return choose(w, KILN_BUILD_OLT, k(w, x, bound), x, k(w, x, bound), x);
}
static kiln_ssa at_least(kiln_walk *w, kiln_ssa x, double bound) {
    return choose(w, KILN_BUILD_OGT, k(w, x, bound), x, k(w, x, bound), x);
}

kiln_ssa kiln_walk_horner(kiln_walk *w, kiln_ssa x, const double *coefficient, uint32_t count) {
    kiln_ssa v = k(w, x, coefficient[count - 1]);
    for (uint32_t i = count - 1; i-- > 0;) v = kiln_walk_fma(w, v, x, k(w, x, coefficient[i]));
    return v;
}

/* ln 2 in two parts: the first has 15 bits, so that its product with an exponent is exact. */
#define LN2_HIGH 0.693145751953125
#define LN2_LOW 1.428606765330187e-06

static kiln_ssa as_bits(kiln_walk *w, kiln_ssa v) {
    return kiln_walk_convert(w, KILN_CONVERT_BITS, v, KILN_SSA_I32);
}
static kiln_ssa as_float(kiln_walk *w, kiln_ssa bits) {
    return kiln_walk_convert(w, KILN_CONVERT_BITS, bits, KILN_SSA_F32);
}

static kiln_ssa power_of_two(kiln_walk *w, kiln_ssa exponent) {
    kiln_ssa biased = bits_op(w, KILN_BUILD_ADD, exponent, 127);
    return as_float(w, bits_op(w, KILN_BUILD_SHL, biased, 23));
}

/* exp(x) = 2^n exp(r), |r| <= ln 2 / 2. Error at most 1 ulp (denormal results: 1 of the last
 * place). */
static kiln_ssa math_exp(kiln_walk *w, kiln_ssa x) {
    static const double table[] = {0.499999931, 0.166665148, 0.0416684568, 0.00836941883,
                                   0.00138131446};
    /* Adding 1.5 * 2^23 leaves the nearest integer in the low mantissa bits. */
    const double magic = 12582912.0;
    x = at_least(w, at_most(w, x, 89.0), -105.0);
    kiln_ssa shifted = kiln_walk_fma(w, x, k(w, x, 1.44269504088896341), k(w, x, magic));
    kiln_ssa n = sub(w, shifted, k(w, x, magic));
    kiln_ssa r = kiln_walk_fma(w, n, k(w, x, -LN2_HIGH), x);
    r = kiln_walk_fma(w, n, k(w, x, -LN2_LOW), r);
    kiln_ssa tail = HORNER(w, r, table);
    kiln_ssa p = kiln_walk_fma(w, mul(w, r, r), tail, r);
    p = add(w, p, k(w, x, 1.0));
    kiln_ssa scaled = w->b->ops->scale ? w->b->ops->scale(w->b, p, n) : NULL;
    if (scaled) return scaled;
    /* Two factors, because 2^n alone may overflow although the product does not. */
    kiln_ssa exponent = bits_op(w, KILN_BUILD_SUB, as_bits(w, shifted), 0x4b400000);
    kiln_ssa half = bits_op(w, KILN_BUILD_ASHR, exponent, 1);
    kiln_ssa rest = kiln_walk_compute(w, KILN_BUILD_SUB, exponent, half);
    kiln_ssa last = power_of_two(w, rest);
    return mul(w, mul(w, p, power_of_two(w, half)), last);
}

/* log(2^n m) = n ln 2 + log(m), m in [sqrt(1/2), sqrt(2)). Error at most 1 ulp. */
static kiln_ssa math_log(kiln_walk *w, kiln_ssa x) {
    static const double table[] = {0.333333126,  -0.250000096, 0.200021186,
                                   -0.166679958, 0.142195536,  -0.124055901,
                                   0.118881553,  -0.116756429, 0.0674664419};
    kiln_ssa tiny = kiln_walk_compute(w, KILN_BUILD_OLT, x, k(w, x, 0x1p-126));
    kiln_ssa normal = kiln_walk_select(w, tiny, mul(w, x, k(w, x, 0x1p23)), x);
    kiln_ssa bits = as_bits(w, normal);
    kiln_ssa above = bits_op(w, KILN_BUILD_SUB, bits, 0x3f3504f3);
    kiln_ssa exponent = bits_op(w, KILN_BUILD_ASHR, above, 23);
    kiln_ssa scale = bits_op(w, KILN_BUILD_SHL, exponent, 23);
    kiln_ssa m = as_float(w, kiln_walk_compute(w, KILN_BUILD_SUB, bits, scale));
    kiln_ssa n = kiln_walk_convert(w, KILN_CONVERT_SIGNED_TO_FLOAT, exponent, KILN_SSA_F32);
    n = sub(w, n, kiln_walk_select(w, tiny, k(w, x, 23.0), k(w, x, 0.0)));

    kiln_ssa f = sub(w, m, k(w, x, 1.0)), square = mul(w, f, f);
    kiln_ssa tail = HORNER(w, f, table);
    kiln_ssa y = mul(w, mul(w, square, f), tail);
    y = kiln_walk_fma(w, n, k(w, x, LN2_LOW), y);
    y = kiln_walk_fma(w, square, k(w, x, -0.5), y);
    y = kiln_walk_fma(w, n, k(w, x, LN2_HIGH), add(w, y, f));
    y = choose(w, KILN_BUILD_OEQ, x, k(w, x, INFINITY), x, y);
    y = choose(w, KILN_BUILD_OEQ, x, k(w, x, 0.0), k(w, x, -INFINITY), y);
    return choose(w, KILN_BUILD_FUGE, x, k(w, x, 0.0), choose(w, KILN_BUILD_UNO, x, x, x, y),
                  k(w, x, NAN));
}

/* An odd polynomial near 0, 1 - 2 / (exp(2x) + 1) elsewhere. Error at most 2 ulp. */
static kiln_ssa math_tanh(kiln_walk *w, kiln_ssa x) {
    static const double table[] = {-0.333332819, 0.133314422, -0.0537397151, 0.0206390873,
                                   -0.0057049871};
    kiln_ssa a = absolute(w, x), square = mul(w, x, x);
    kiln_ssa tail = HORNER(w, square, table);
    kiln_ssa small = kiln_walk_fma(w, mul(w, x, square), tail, x);
    kiln_ssa power = math_exp(w, add(w, a, a));
    kiln_ssa large = sub(w, k(w, x, 1.0), quotient(w, k(w, x, 2.0), add(w, power, k(w, x, 1.0))));
    return choose(w, KILN_BUILD_OLT, a, k(w, x, 0.625), small, with_sign_of(w, large, x));
}

/* An odd polynomial near 0, 1 - exp(t p(t)) elsewhere; 1 in f32 from 3.92 on. Error at most 2 ulp.
 */
static kiln_ssa math_erf(kiln_walk *w, kiln_ssa x) {
    static const double near_zero[] = {0.128379148,   -0.376124811,  0.112816825,
                                       -0.0267617194, 0.00498594003, -0.00059537393};
    static const double far[] = {-1.12851436,  -0.635718316,   -0.105261842,
                                 0.0228899634, -0.00321495534, 0.000213984917};
    kiln_ssa t = at_most(w, absolute(w, x), 3.95), square = mul(w, x, x);
    kiln_ssa small = kiln_walk_fma(w, x, HORNER(w, square, near_zero), x);
    kiln_ssa large = sub(w, k(w, x, 1.0), math_exp(w, mul(w, t, HORNER(w, t, far))));
    return choose(w, KILN_BUILD_OLT, t, k(w, x, 0.925), small, with_sign_of(w, large, x));
}

static bool is_f32(kiln_walk *w, kiln_ssa v) { return kiln_walk_type(w, v).scalar == KILN_SSA_F32; }

static kiln_ssa exponential(kiln_walk *w, kiln_ssa x) {
    if (is_f32(w, x)) return math_exp(w, x);
    return w->b->ops->call ? kiln_walk_libm(w, "exp", &x, 1)
                           : kiln_walk_library(w, KILN_EXPR_EXP, &x, 1);
}

/* 1 / (1 + exp(-x)) with an exponential that cannot overflow. Error at most 3 ulp. */
static kiln_ssa math_sigmoid(kiln_walk *w, kiln_ssa x) {
    kiln_ssa power = exponential(w, kiln_walk_compute(w, KILN_BUILD_FNEG, absolute(w, x), NULL));
    kiln_ssa numerator = choose(w, KILN_BUILD_OLT, x, k(w, x, 0.0), power, k(w, x, 1.0));
    return quotient(w, numerator, add(w, power, k(w, x, 1.0)));
}

/* ---- exact operators ------------------------------------------------------------------------- */

/* b when it wins or is NaN; a when a is NaN. When one operand is a constant that is not NaN this is
 * one machine instruction. */
static kiln_ssa extreme(kiln_walk *w, kiln_build_op wins, kiln_ssa a, kiln_ssa b) {
    if (w->b->ops->is_constant(w->b, b) && !w->b->ops->is_constant(w->b, a)) {
        kiln_ssa swap = a;
        a = b;
        b = swap;
    }
    kiln_ssa best = choose(w, wins, a, b, a, b);
    return w->b->ops->is_constant(w->b, a) ? best : choose(w, KILN_BUILD_UNO, a, a, a, best);
}

static kiln_ssa remainder_of(kiln_walk *w, kiln_ssa a, kiln_ssa b) {
    const kiln_ssa v[] = {a, b};
    return w->b->ops->call ? kiln_walk_compute(w, KILN_BUILD_FREM, a, b)
                           : kiln_walk_library(w, KILN_EXPR_REM, v, 2);
}

static kiln_ssa floor_modulo(kiln_walk *w, kiln_ssa a, kiln_ssa b) {
    kiln_ssa zero = k(w, a, 0.0);
    kiln_ssa r = remainder_of(w, a, b);
    kiln_ssa below = kiln_walk_compute(w, KILN_BUILD_OLT, b, zero);
    kiln_ssa negative = kiln_walk_compute(w, KILN_BUILD_OLT, r, zero);
    kiln_ssa differ = kiln_walk_compute(w, KILN_BUILD_XOR, negative, below);
    kiln_ssa inexact = kiln_walk_compute(w, KILN_BUILD_UNE, r, zero);
    kiln_ssa moved = add(w, r, b);
    return kiln_walk_select(w, kiln_walk_compute(w, KILN_BUILD_AND, differ, inexact), moved, r);
}

/* ---- dispatch -------------------------------------------------------------------------------- */

typedef kiln_ssa (*polynomial)(kiln_walk *w, kiln_ssa x);

/* How each function is computed: `inline_f32`, or the C function called `name`. */
static const struct function_row {
    const char *name;
    polynomial inline_f32;
} function_table[KILN_EXPR_OP_COUNT] = {
    [KILN_EXPR_EXP] = {"exp", math_exp},    [KILN_EXPR_LOG] = {"log", math_log},
    [KILN_EXPR_TANH] = {"tanh", math_tanh}, [KILN_EXPR_ERF] = {"erf", math_erf},
    [KILN_EXPR_SIN] = {"sin", NULL},        [KILN_EXPR_COS] = {"cos", NULL},
    [KILN_EXPR_TAN] = {"tan", NULL},        [KILN_EXPR_ASIN] = {"asin", NULL},
    [KILN_EXPR_ACOS] = {"acos", NULL},      [KILN_EXPR_ATAN] = {"atan", NULL},
    [KILN_EXPR_SINH] = {"sinh", NULL},      [KILN_EXPR_COSH] = {"cosh", NULL},
    [KILN_EXPR_ASINH] = {"asinh", NULL},    [KILN_EXPR_ACOSH] = {"acosh", NULL},
    [KILN_EXPR_ATANH] = {"atanh", NULL},
};

/* Vectors of ARMv7 and small microcontrollers have no instruction for it, and LLVM would call the C
 * library. Magnitudes from 2^23 (f64: 2^52) on are integers. */
static kiln_ssa round_even(kiln_walk *w, kiln_ssa a) {
    const kiln_arch arch = w->target->arch;
    if (arch != KILN_ARCH_THUMB && (arch != KILN_ARCH_ARM || !kiln_walk_is_vector(w, a)))
        return kiln_walk_compute(w, KILN_BUILD_ROUND_EVEN, a, NULL);
    kiln_ssa size = absolute(w, a), whole = k(w, a, is_f32(w, a) ? 0x1p23 : 0x1p52);
    kiln_ssa rounded = sub(w, add(w, size, whole), whole);
    return with_sign_of(w, choose(w, KILN_BUILD_OLT, size, whole, rounded, size), a);
}

/* As kiln_f32_to_tf32: half a unit is added to the magnitude, so that ties go away from zero. */
static kiln_ssa round_tf32(kiln_walk *w, kiln_ssa a) {
    const int64_t dropped = 0x1fff;
    kiln_ssa bits = kiln_walk_convert(w, KILN_CONVERT_BITS, a, KILN_SSA_I32);
    kiln_ssa above =
        kiln_walk_compute(w, KILN_BUILD_ADD, bits, kiln_walk_integer(w, bits, (dropped + 1) / 2));
    kiln_ssa quiet =
        kiln_walk_compute(w, KILN_BUILD_OR, bits, kiln_walk_integer(w, bits, 0x400000));
    kiln_ssa is_nan = kiln_walk_compute(w, KILN_BUILD_UNO, a, a);
    bits = kiln_walk_select(w, is_nan, quiet, above);
    bits = kiln_walk_compute(w, KILN_BUILD_AND, bits, kiln_walk_integer(w, bits, ~dropped));
    return kiln_walk_convert(w, KILN_CONVERT_BITS, bits, KILN_SSA_F32);
}

kiln_ssa kiln_walk_math(kiln_walk *w, kiln_expr_op op, const kiln_ssa *v) {
    kiln_ssa a = v[0];
    switch (op) {
    case KILN_EXPR_ADD: return add(w, a, v[1]);
    case KILN_EXPR_SUB: return sub(w, a, v[1]);
    case KILN_EXPR_MUL: return mul(w, a, v[1]);
    case KILN_EXPR_DIV: return quotient(w, a, v[1]);
    case KILN_EXPR_REM: return remainder_of(w, a, v[1]);
    case KILN_EXPR_FLOORMOD: return floor_modulo(w, a, v[1]);
    case KILN_EXPR_MIN: return extreme(w, KILN_BUILD_OLT, a, v[1]);
    case KILN_EXPR_MAX: return extreme(w, KILN_BUILD_OGT, a, v[1]);
    case KILN_EXPR_POW:
        return w->b->ops->call ? kiln_walk_libm(w, "pow", v, 2) : kiln_walk_library(w, op, v, 2);
    case KILN_EXPR_NEG: return kiln_walk_compute(w, KILN_BUILD_FNEG, a, NULL);
    case KILN_EXPR_ABS: return absolute(w, a);
    case KILN_EXPR_FLOOR: return kiln_walk_compute(w, KILN_BUILD_FLOOR, a, NULL);
    case KILN_EXPR_CEIL: return kiln_walk_compute(w, KILN_BUILD_CEIL, a, NULL);
    case KILN_EXPR_ROUND: return round_even(w, a);
    case KILN_EXPR_SQRT: return kiln_walk_compute(w, KILN_BUILD_SQRT, a, NULL);
    case KILN_EXPR_SIGMOID: return math_sigmoid(w, a);
    case KILN_EXPR_TF32: return round_tf32(w, a);
    case KILN_EXPR_ISNAN: return kiln_walk_compute(w, KILN_BUILD_UNO, a, a);
    case KILN_EXPR_ISINF:
        return kiln_walk_compute(w, KILN_BUILD_OEQ, absolute(w, a), k(w, a, INFINITY));
    default: break;
    }
    const struct function_row *row = &function_table[op];
    KILN_CHECK(row->name != NULL);
    if (row->inline_f32 && is_f32(w, a)) return row->inline_f32(w, a);
    return w->b->ops->call ? kiln_walk_libm(w, row->name, v, 1) : kiln_walk_library(w, op, v, 1);
}
