#include "base/small_float.h"

#include <math.h>
#include <string.h>

static const kiln_small_float small_table[KILN_DTYPE_COUNT] = {
#define X(name, exponent, fraction, bias, largest, above, nan, negative_zero, dlpack) \
    [KILN_##name] = {exponent, fraction, bias, largest, above, nan, negative_zero, dlpack},
#include "base/small_floats.def"
#undef X
};

const kiln_small_float *kiln_small_float_of(kiln_dtype type) {
    const bool is_row = (unsigned)type < KILN_DTYPE_COUNT && small_table[type].exponent_bits;
    return is_row ? &small_table[type] : NULL;
}

uint32_t kiln_small_float_sign(const kiln_small_float *f) {
    return f->fraction_bits ? 1u << (f->exponent_bits + f->fraction_bits) : 0;
}

double kiln_small_float_largest(const kiln_small_float *f) {
    return (double)kiln_small_to_f32(f, f->largest);
}

float kiln_small_to_f32(const kiln_small_float *f, uint8_t code) {
    const uint32_t sign = kiln_small_float_sign(f), magnitude = sign ? code & (sign - 1) : code;
    const uint32_t fraction = magnitude & ((1u << f->fraction_bits) - 1);
    const int exponent = (int)(magnitude >> f->fraction_bits);
    const float of_sign = code & sign ? -1.0f : 1.0f;
    if (code == f->nan && !f->has_negative_zero) return NAN;
    if (magnitude > f->largest)
        return copysignf(magnitude == f->above && f->above != f->nan ? INFINITY : NAN, of_sign);
    if (!sign) return ldexpf(1, exponent - f->bias);
    const uint32_t whole = exponent ? fraction | 1u << f->fraction_bits : fraction;
    const int least = exponent ? exponent : 1;
    return of_sign * ldexpf((float)whole, least - f->bias - (int)f->fraction_bits);
}

/* Powers of two; 1.5 of a power is rounded up. */
static uint8_t power_of_two(const kiln_small_float *f, float value) {
    int exponent;
    if (isnan(value) || value < 0 || isinf(value)) return f->nan;
    const float half = frexpf(value, &exponent); /* in [0.5, 1) */
    const int code = exponent - 1 + f->bias + (half >= 0.75f);
    return value == 0 || code < 0 ? 0 : code > f->largest ? f->above : (uint8_t)code;
}

uint8_t kiln_f32_to_small(const kiln_small_float *f, float value) {
    if (kiln_small_float_sign(f) == 0) return power_of_two(f, value);
    const uint8_t sign = signbit(value) ? (uint8_t)kiln_small_float_sign(f) : 0;
    if (isnan(value)) return f->nan | sign;
    if (isinf(value)) return f->above | sign;
    int exponent;
    frexpf(value, &exponent); /* |value| < 2^exponent */
    if (exponent < 2 - f->bias || value == 0) exponent = 2 - f->bias;
    /* In units of the last place: an integer, which a carry makes the next power of two. */
    const double units = rint(ldexp(fabs((double)value), 1 + (int)f->fraction_bits - exponent));
    const uint32_t code =
        (uint32_t)((exponent - 2 + f->bias) << f->fraction_bits) + (uint32_t)units;
    if (code > f->largest) return f->above | sign;
    return code == 0 && !f->has_negative_zero ? 0 : (uint8_t)code | sign;
}
