/* Floats of at most 8 bits (base/small_float.h) from and to F32, by integer instructions. */
#include "base/small_float.h"
#include "compiler-core/codegen/walk.h"

#define F32_FRACTION_BITS 23
#define F32_BIAS 127
#define F32_MAGNITUDE 0x7fffffff
#define F32_INFINITY 0x7f800000
#define F32_NAN 0x7fc00000

static kiln_ssa op(kiln_walk *w, kiln_build_op what, kiln_ssa v, int64_t constant) {
    return kiln_walk_compute(w, what, v, kiln_walk_integer(w, v, constant));
}

/* `yes` where `condition` holds, else `no`. */
static kiln_ssa constant_where(kiln_walk *w, kiln_ssa condition, int64_t yes, kiln_ssa no) {
    return kiln_walk_select(w, condition, kiln_walk_integer(w, no, yes), no);
}

static kiln_ssa bits_of(kiln_walk *w, kiln_ssa v) {
    return kiln_walk_convert(w, KILN_CONVERT_BITS, v, KILN_SSA_I32);
}

static kiln_ssa float_of(kiln_walk *w, kiln_ssa bits) {
    return kiln_walk_convert(w, KILN_CONVERT_BITS, bits, KILN_SSA_F32);
}

/* 2^exponent, a normal number. */
static double power(int exponent) {
    double value = 1;
    for (; exponent > 0; exponent--) value *= 2;
    for (; exponent < 0; exponent++) value /= 2;
    return value;
}

/* How far left the fraction lies in an f32. */
static uint32_t shift_of(const kiln_small_float *f) { return F32_FRACTION_BITS - f->fraction_bits; }

/* The exponent of the last place of subnormal numbers. */
static int last_place(const kiln_small_float *f) { return 1 - f->bias - (int)f->fraction_bits; }

/* Of formats without a sign; an exponent of 0 is a subnormal f32. */
static kiln_ssa from_power(kiln_walk *w, const kiln_small_float *f, kiln_ssa code) {
    kiln_ssa bits = op(w, KILN_BUILD_SHL, code, F32_FRACTION_BITS);
    bits = constant_where(w, op(w, KILN_BUILD_EQ, code, 0), 1 << (F32_FRACTION_BITS - 1), bits);
    return float_of(w, constant_where(w, op(w, KILN_BUILD_EQ, code, f->nan), F32_NAN, bits));
}

kiln_ssa kiln_walk_from_small(kiln_walk *w, const kiln_small_float *f, kiln_ssa byte) {
    const uint32_t sign = kiln_small_float_sign(f), shift = shift_of(f);
    kiln_ssa code = kiln_walk_convert(w, KILN_CONVERT_UNSIGNED, byte, KILN_SSA_I32);
    if (!sign) return from_power(w, f, code);
    kiln_ssa magnitude = op(w, KILN_BUILD_AND, code, sign - 1);
    kiln_ssa normal = op(w, KILN_BUILD_ADD, op(w, KILN_BUILD_SHL, magnitude, shift),
                         (int64_t)(F32_BIAS - f->bias) << F32_FRACTION_BITS);
    kiln_ssa subnormal =
        kiln_walk_convert(w, KILN_CONVERT_SIGNED_TO_FLOAT, magnitude, KILN_SSA_F32);
    subnormal = kiln_walk_compute(w, KILN_BUILD_FMUL, subnormal,
                                  kiln_walk_real(w, subnormal, power(last_place(f))));
    kiln_ssa is_small = op(w, KILN_BUILD_SLT, magnitude, INT64_C(1) << f->fraction_bits);
    kiln_ssa bits = kiln_walk_select(w, is_small, bits_of(w, subnormal), normal);
    if (f->above != f->nan && f->above > f->largest)
        bits = constant_where(w, op(w, KILN_BUILD_EQ, magnitude, f->above), F32_INFINITY, bits);
    const uint32_t from = f->above == f->nan ? f->largest + 1u : f->above + 1u;
    if (f->has_negative_zero && from < sign)
        bits = constant_where(w, op(w, KILN_BUILD_UGE, magnitude, from), F32_NAN, bits);
    kiln_ssa of_sign = op(w, KILN_BUILD_AND, code, sign);
    of_sign = op(w, KILN_BUILD_SHL, of_sign, 31 - (f->exponent_bits + f->fraction_bits));
    bits = kiln_walk_compute(w, KILN_BUILD_OR, bits, of_sign);
    if (!f->has_negative_zero)
        bits = constant_where(w, op(w, KILN_BUILD_EQ, code, f->nan), F32_NAN, bits);
    return float_of(w, bits);
}

static kiln_ssa to_power(kiln_walk *w, const kiln_small_float *f, kiln_ssa v) {
    kiln_ssa bits = bits_of(w, v);
    const int64_t half = 1 << (F32_FRACTION_BITS - 1);
    /* Of subnormal numbers only those from 1.5 * 2^-127 on are rounded upwards. */
    kiln_ssa code = op(w, KILN_BUILD_ADD, bits, half);
    code = op(w, KILN_BUILD_LSHR, code, F32_FRACTION_BITS);
    code = constant_where(w, op(w, KILN_BUILD_ULT, bits, half + half / 2), 0, code);
    code = constant_where(w, op(w, KILN_BUILD_UGE, bits, F32_INFINITY), f->nan, code);
    /* -0 becomes the smallest number, as 0 does. */
    code = constant_where(w, op(w, KILN_BUILD_EQ, bits, INT32_MIN), 0, code);
    return kiln_walk_convert(w, KILN_CONVERT_UNSIGNED, code, KILN_SSA_I8);
}

/* The fraction is rounded by an addition to the bits, whose carry reaches the exponent; that of
 * subnormal numbers by adding a number whose last place is theirs. */
kiln_ssa kiln_walk_to_small(kiln_walk *w, const kiln_small_float *f, kiln_ssa v) {
    const uint32_t sign = kiln_small_float_sign(f), shift = shift_of(f);
    if (!sign) return to_power(w, f, v);
    kiln_ssa bits = bits_of(w, v);
    kiln_ssa magnitude = op(w, KILN_BUILD_AND, bits, F32_MAGNITUDE);
    kiln_ssa odd = op(w, KILN_BUILD_AND, op(w, KILN_BUILD_LSHR, magnitude, shift), 1);
    kiln_ssa normal = op(w, KILN_BUILD_ADD, magnitude, (INT64_C(1) << (shift - 1)) - 1);
    normal = op(w, KILN_BUILD_LSHR, kiln_walk_compute(w, KILN_BUILD_ADD, normal, odd), shift);
    normal = op(w, KILN_BUILD_SUB, normal, (int64_t)(F32_BIAS - f->bias) << f->fraction_bits);
    const int aligned = last_place(f) + F32_FRACTION_BITS;
    kiln_ssa subnormal = float_of(w, magnitude);
    subnormal = kiln_walk_compute(w, KILN_BUILD_FADD, subnormal,
                                  kiln_walk_real(w, subnormal, power(aligned)));
    subnormal = op(w, KILN_BUILD_SUB, bits_of(w, subnormal),
                   (int64_t)(F32_BIAS + aligned) << F32_FRACTION_BITS);
    kiln_ssa is_small =
        op(w, KILN_BUILD_SLT, magnitude, (int64_t)(F32_BIAS + 1 - f->bias) << F32_FRACTION_BITS);
    kiln_ssa code = kiln_walk_select(w, is_small, subnormal, normal);
    code = constant_where(w, op(w, KILN_BUILD_UGE, code, f->largest + 1), f->above, code);
    if (f->nan != f->above)
        code = constant_where(w, kiln_walk_compute(w, KILN_BUILD_UNO, v, v), f->nan, code);
    kiln_ssa of_sign = op(w, KILN_BUILD_LSHR, bits, 31 - (f->exponent_bits + f->fraction_bits));
    kiln_ssa result =
        kiln_walk_compute(w, KILN_BUILD_OR, code, op(w, KILN_BUILD_AND, of_sign, sign));
    if (!f->has_negative_zero) result = constant_where(w, op(w, KILN_BUILD_EQ, code, 0), 0, result);
    return kiln_walk_convert(w, KILN_CONVERT_UNSIGNED, result, KILN_SSA_I8);
}

kiln_ssa kiln_walk_to_odd(kiln_walk *w, kiln_ssa v) {
    kiln_ssa near = kiln_walk_convert(w, KILN_CONVERT_FLOAT, v, KILN_SSA_F32);
    kiln_ssa back = kiln_walk_convert(w, KILN_CONVERT_FLOAT, near, KILN_SSA_F64);
    kiln_ssa bits = bits_of(w, near);
    kiln_ssa is_above =
        kiln_walk_compute(w, KILN_BUILD_OGT, kiln_walk_compute(w, KILN_BUILD_FABS, back, NULL),
                          kiln_walk_compute(w, KILN_BUILD_FABS, v, NULL));
    kiln_ssa below = kiln_walk_select(w, is_above, op(w, KILN_BUILD_SUB, bits, 1), bits);
    kiln_ssa is_inexact = kiln_walk_compute(w, KILN_BUILD_UNE, back, v);
    return float_of(w, kiln_walk_select(w, is_inexact, op(w, KILN_BUILD_OR, below, 1), bits));
}
