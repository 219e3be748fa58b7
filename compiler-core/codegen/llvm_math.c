/* Float operators. exp, log, tanh, erf and sigmoid of f32 are polynomials in straight-line IR,
 * alike for scalars and vectors, so that a schedule does not change results; everything of f64 and
 * the rarer functions call the C library lane by lane.
 *
 * Coefficients are minimax fits of relative error, found by Remez exchange in exact rational
 * arithmetic and rounded to f32. Errors below were measured against the C library in f64 over every
 * 64th f32 of the domain with FMA (tests/unit/compiler-core/test_llvm_math.c checks them; without
 * FMA about one ulp more). */
#include <math.h>

#include "base/check.h"
#include "compiler-core/codegen/llvm_emit.h"

static LLVMValueRef k(LLVMValueRef like, double value) {
    return kiln_llvm_constant(LLVMTypeOf(like), value);
}

static LLVMValueRef add(kiln_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFAdd(e->builder, a, b, "");
}
static LLVMValueRef sub(kiln_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFSub(e->builder, a, b, "");
}
static LLVMValueRef mul(kiln_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFMul(e->builder, a, b, "");
}
static LLVMValueRef quotient(kiln_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFDiv(e->builder, a, b, "");
}
static LLVMValueRef absolute(kiln_llvm_emitter *e, LLVMValueRef a) {
    return kiln_llvm_unary_intrinsic(e, "llvm.fabs", a);
}

static LLVMValueRef with_sign_of(kiln_llvm_emitter *e, LLVMValueRef magnitude, LLVMValueRef sign) {
    LLVMTypeRef type = LLVMTypeOf(magnitude);
    return kiln_llvm_intrinsic(e, "llvm.copysign", &type, 1, (LLVMValueRef[]){magnitude, sign}, 2);
}

static LLVMValueRef choose(kiln_llvm_emitter *e, LLVMRealPredicate predicate, LLVMValueRef a,
                           LLVMValueRef b, LLVMValueRef yes, LLVMValueRef no) {
    return LLVMBuildSelect(e->builder, LLVMBuildFCmp(e->builder, predicate, a, b, ""), yes, no, "");
}

/* The bound when x is beyond it; x itself when it is NaN. */
static LLVMValueRef at_most(kiln_llvm_emitter *e, LLVMValueRef x, double bound) {
    return choose(e, LLVMRealOLT, k(x, bound), x, k(x, bound), x);
}
static LLVMValueRef at_least(kiln_llvm_emitter *e, LLVMValueRef x, double bound) {
    return choose(e, LLVMRealOGT, k(x, bound), x, k(x, bound), x);
}

/* coefficient[0] + x * (coefficient[1] + ...) */
static LLVMValueRef horner(kiln_llvm_emitter *e, LLVMValueRef x, const double *coefficient,
                           uint32_t count) {
    LLVMValueRef v = k(x, coefficient[count - 1]);
    for (uint32_t i = count - 1; i-- > 0;) v = kiln_llvm_fma(e, v, x, k(x, coefficient[i]));
    return v;
}
#define HORNER(e, x, table) horner(e, x, table, KILN_ARRAY_COUNT(table))

/* ln 2 in two parts: the first has 15 bits, so that its product with an exponent is exact. */
#define LN2_HIGH 0.693145751953125
#define LN2_LOW 1.428606765330187e-06

static LLVMTypeRef int_like(kiln_llvm_emitter *e, LLVMValueRef v) {
    return kiln_llvm_type_like(kiln_llvm_int(e, 32), LLVMTypeOf(v));
}

static LLVMValueRef power_of_two(kiln_llvm_emitter *e, LLVMValueRef exponent, LLVMTypeRef type) {
    LLVMTypeRef bits = LLVMTypeOf(exponent);
    LLVMValueRef biased = LLVMBuildAdd(e->builder, exponent, kiln_llvm_constant_int(bits, 127), "");
    return LLVMBuildBitCast(e->builder,
                            LLVMBuildShl(e->builder, biased, kiln_llvm_constant_int(bits, 23), ""),
                            type, "");
}

/* exp(x) = 2^n exp(r), |r| <= ln 2 / 2. Error at most 1 ulp (denormal results: 1 of the last
 * place). */
static LLVMValueRef math_exp(kiln_llvm_emitter *e, LLVMValueRef x) {
    static const double table[] = {0.499999931, 0.166665148, 0.0416684568, 0.00836941883,
                                   0.00138131446};
    /* Adding 1.5 * 2^23 leaves the nearest integer in the low mantissa bits. */
    const double magic = 12582912.0;
    LLVMTypeRef type = LLVMTypeOf(x), bits = int_like(e, x);
    x = at_least(e, at_most(e, x, 89.0), -105.0);
    LLVMValueRef shifted = kiln_llvm_fma(e, x, k(x, 1.44269504088896341), k(x, magic));
    LLVMValueRef n = sub(e, shifted, k(x, magic));
    LLVMValueRef r = kiln_llvm_fma(e, n, k(x, -LN2_HIGH), x);
    r = kiln_llvm_fma(e, n, k(x, -LN2_LOW), r);
    LLVMValueRef p = kiln_llvm_fma(e, mul(e, r, r), HORNER(e, r, table), r);
    p = add(e, p, k(x, 1.0));
    /* Two factors, since 2^n alone may leave the range where the product does not. */
    LLVMValueRef exponent = LLVMBuildBitCast(e->builder, shifted, bits, "");
    exponent = LLVMBuildSub(e->builder, exponent, kiln_llvm_constant_int(bits, 0x4b400000), "");
    LLVMValueRef half = LLVMBuildAShr(e->builder, exponent, kiln_llvm_constant_int(bits, 1), "");
    LLVMValueRef rest = LLVMBuildSub(e->builder, exponent, half, "");
    return mul(e, mul(e, p, power_of_two(e, half, type)), power_of_two(e, rest, type));
}

/* log(2^n m) = n ln 2 + log(m), m in [sqrt(1/2), sqrt(2)). Error at most 1 ulp. */
static LLVMValueRef math_log(kiln_llvm_emitter *e, LLVMValueRef x) {
    static const double table[] = {0.333333126,  -0.250000096, 0.200021186,
                                   -0.166679958, 0.142195536,  -0.124055901,
                                   0.118881553,  -0.116756429, 0.0674664419};
    LLVMTypeRef type = LLVMTypeOf(x), ints = int_like(e, x);
    LLVMValueRef tiny = LLVMBuildFCmp(e->builder, LLVMRealOLT, x, k(x, 0x1p-126), "");
    LLVMValueRef normal = LLVMBuildSelect(e->builder, tiny, mul(e, x, k(x, 0x1p23)), x, "");
    LLVMValueRef bits = LLVMBuildBitCast(e->builder, normal, ints, "");
    LLVMValueRef above =
        LLVMBuildSub(e->builder, bits, kiln_llvm_constant_int(ints, 0x3f3504f3), "");
    LLVMValueRef exponent = LLVMBuildAShr(e->builder, above, kiln_llvm_constant_int(ints, 23), "");
    LLVMValueRef scale = LLVMBuildShl(e->builder, exponent, kiln_llvm_constant_int(ints, 23), "");
    LLVMValueRef m =
        LLVMBuildBitCast(e->builder, LLVMBuildSub(e->builder, bits, scale, ""), type, "");
    LLVMValueRef n = LLVMBuildSIToFP(e->builder, exponent, type, "");
    n = sub(e, n, LLVMBuildSelect(e->builder, tiny, k(x, 23.0), k(x, 0.0), ""));

    LLVMValueRef f = sub(e, m, k(x, 1.0)), square = mul(e, f, f);
    LLVMValueRef y = mul(e, mul(e, square, f), HORNER(e, f, table));
    y = kiln_llvm_fma(e, n, k(x, LN2_LOW), y);
    y = kiln_llvm_fma(e, square, k(x, -0.5), y);
    y = kiln_llvm_fma(e, n, k(x, LN2_HIGH), add(e, y, f));
    y = choose(e, LLVMRealOEQ, x, k(x, INFINITY), x, y);
    y = choose(e, LLVMRealOEQ, x, k(x, 0.0), k(x, -INFINITY), y);
    return choose(
        e, LLVMRealUGE, x, k(x, 0.0),
        LLVMBuildSelect(e->builder, LLVMBuildFCmp(e->builder, LLVMRealUNO, x, x, ""), x, y, ""),
        k(x, NAN));
}

/* An odd polynomial near 0, 1 - 2 / (exp(2x) + 1) elsewhere. Error at most 2 ulp. */
static LLVMValueRef math_tanh(kiln_llvm_emitter *e, LLVMValueRef x) {
    static const double table[] = {-0.333332819, 0.133314422, -0.0537397151, 0.0206390873,
                                   -0.0057049871};
    LLVMValueRef a = absolute(e, x), square = mul(e, x, x);
    LLVMValueRef small = kiln_llvm_fma(e, mul(e, x, square), HORNER(e, square, table), x);
    LLVMValueRef power = math_exp(e, add(e, a, a));
    LLVMValueRef large = sub(e, k(x, 1.0), quotient(e, k(x, 2.0), add(e, power, k(x, 1.0))));
    return choose(e, LLVMRealOLT, a, k(x, 0.625), small, with_sign_of(e, large, x));
}

/* An odd polynomial near 0, 1 - exp(t p(t)) elsewhere; 1 in f32 from 3.92 on. Error at most 2 ulp.
 */
static LLVMValueRef math_erf(kiln_llvm_emitter *e, LLVMValueRef x) {
    static const double near_zero[] = {0.128379148,   -0.376124811,  0.112816825,
                                       -0.0267617194, 0.00498594003, -0.00059537393};
    static const double far[] = {-1.12851436,  -0.635718316,   -0.105261842,
                                 0.0228899634, -0.00321495534, 0.000213984917};
    LLVMValueRef t = at_most(e, absolute(e, x), 3.95), square = mul(e, x, x);
    LLVMValueRef small = kiln_llvm_fma(e, x, HORNER(e, square, near_zero), x);
    LLVMValueRef large = sub(e, k(x, 1.0), math_exp(e, mul(e, t, HORNER(e, t, far))));
    return choose(e, LLVMRealOLT, t, k(x, 0.925), small, with_sign_of(e, large, x));
}

static LLVMValueRef exponential(kiln_llvm_emitter *e, LLVMValueRef x) {
    bool is_f32 = LLVMGetTypeKind(kiln_llvm_scalar_type(LLVMTypeOf(x))) == LLVMFloatTypeKind;
    return is_f32 ? math_exp(e, x) : kiln_llvm_libm(e, "exp", &x, 1);
}

/* 1 / (1 + exp(-x)) with an exponential that cannot overflow. Error at most 3 ulp. */
static LLVMValueRef math_sigmoid(kiln_llvm_emitter *e, LLVMValueRef x) {
    LLVMValueRef power = exponential(e, LLVMBuildFNeg(e->builder, absolute(e, x), ""));
    LLVMValueRef numerator = choose(e, LLVMRealOLT, x, k(x, 0.0), power, k(x, 1.0));
    return quotient(e, numerator, add(e, power, k(x, 1.0)));
}

/* ---- exact operators ------------------------------------------------------------------------- */

/* b when it wins or is NaN; a when a is NaN. When one operand is a constant that is not NaN this is
 * one machine instruction. */
static LLVMValueRef extreme(kiln_llvm_emitter *e, LLVMRealPredicate wins, LLVMValueRef a,
                            LLVMValueRef b) {
    if (LLVMIsConstant(b) && !LLVMIsConstant(a)) {
        LLVMValueRef swap = a;
        a = b;
        b = swap;
    }
    LLVMValueRef best = choose(e, wins, a, b, a, b);
    return LLVMIsConstant(a) ? best : choose(e, LLVMRealUNO, a, a, a, best);
}

static LLVMValueRef floor_modulo(kiln_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    LLVMValueRef zero = k(a, 0.0);
    LLVMValueRef r = LLVMBuildFRem(e->builder, a, b, "");
    LLVMValueRef differ =
        LLVMBuildXor(e->builder, LLVMBuildFCmp(e->builder, LLVMRealOLT, r, zero, ""),
                     LLVMBuildFCmp(e->builder, LLVMRealOLT, b, zero, ""), "");
    LLVMValueRef inexact = LLVMBuildFCmp(e->builder, LLVMRealUNE, r, zero, "");
    return LLVMBuildSelect(e->builder, LLVMBuildAnd(e->builder, differ, inexact, ""), add(e, r, b),
                           r, "");
}

/* ---- dispatch -------------------------------------------------------------------------------- */

typedef LLVMValueRef (*polynomial)(kiln_llvm_emitter *e, LLVMValueRef x);

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

/* LLVM has no way for vectors of ARMv7, whose NEON has no instruction for it. Sizes from 2^23 (f64:
 * 2^52) on are whole. */
static LLVMValueRef round_even(kiln_llvm_emitter *e, LLVMValueRef a) {
    LLVMTypeRef type = LLVMTypeOf(a);
    if (e->target->arch != KILN_ARCH_ARM || LLVMGetTypeKind(type) != LLVMVectorTypeKind)
        return kiln_llvm_unary_intrinsic(e, "llvm.roundeven", a);
    const bool is_f32 = LLVMGetTypeKind(kiln_llvm_scalar_type(type)) == LLVMFloatTypeKind;
    LLVMValueRef size = absolute(e, a), whole = k(a, is_f32 ? 0x1p23 : 0x1p52);
    LLVMValueRef rounded = sub(e, add(e, size, whole), whole);
    return with_sign_of(e, choose(e, LLVMRealOLT, size, whole, rounded, size), a);
}

LLVMValueRef kiln_llvm_math(kiln_llvm_emitter *e, kiln_expr_op op, LLVMValueRef *v) {
    LLVMValueRef a = v[0];
    switch (op) {
    case KILN_EXPR_ADD: return add(e, a, v[1]);
    case KILN_EXPR_SUB: return sub(e, a, v[1]);
    case KILN_EXPR_MUL: return mul(e, a, v[1]);
    case KILN_EXPR_DIV: return quotient(e, a, v[1]);
    case KILN_EXPR_REM: return LLVMBuildFRem(e->builder, a, v[1], "");
    case KILN_EXPR_FLOORMOD: return floor_modulo(e, a, v[1]);
    case KILN_EXPR_MIN: return extreme(e, LLVMRealOLT, a, v[1]);
    case KILN_EXPR_MAX: return extreme(e, LLVMRealOGT, a, v[1]);
    case KILN_EXPR_POW: return kiln_llvm_libm(e, "pow", v, 2);
    case KILN_EXPR_NEG: return LLVMBuildFNeg(e->builder, a, "");
    case KILN_EXPR_ABS: return absolute(e, a);
    case KILN_EXPR_FLOOR: return kiln_llvm_unary_intrinsic(e, "llvm.floor", a);
    case KILN_EXPR_CEIL: return kiln_llvm_unary_intrinsic(e, "llvm.ceil", a);
    case KILN_EXPR_ROUND: return round_even(e, a);
    case KILN_EXPR_SQRT: return kiln_llvm_unary_intrinsic(e, "llvm.sqrt", a);
    case KILN_EXPR_SIGMOID: return math_sigmoid(e, a);
    case KILN_EXPR_ISNAN: return LLVMBuildFCmp(e->builder, LLVMRealUNO, a, a, "");
    case KILN_EXPR_ISINF:
        return LLVMBuildFCmp(e->builder, LLVMRealOEQ, absolute(e, a), k(a, INFINITY), "");
    default: break;
    }
    const struct function_row *row = &function_table[op];
    KILN_CHECK(row->name != NULL);
    bool is_f32 = LLVMGetTypeKind(kiln_llvm_scalar_type(LLVMTypeOf(a))) == LLVMFloatTypeKind;
    return row->inline_f32 && is_f32 ? row->inline_f32(e, a) : kiln_llvm_libm(e, row->name, v, 1);
}
