/* Floats of at most 8 bits, one in each byte: formats and conversions. Numbers are stored so and
 * computed in f32 or wider (docs/decisions/0164-floats-of-eight-bits.md). */
#ifndef KILN_BASE_SMALL_FLOAT_H
#define KILN_BASE_SMALL_FLOAT_H

#include "base/dtype.h"

/* A row of small_floats.def. */
typedef struct kiln_small_float {
    uint32_t exponent_bits, fraction_bits;
    int32_t bias;
    uint8_t largest, above, nan;
    bool has_negative_zero;
    uint8_t dlpack; /* DLDataTypeCode */
} kiln_small_float;

/* NULL: the type is not one of these. */
const kiln_small_float *kiln_small_float_of(kiln_dtype type);
/* The bit of the sign; 0: the format has none. */
uint32_t kiln_small_float_sign(const kiln_small_float *format);
/* The largest number. */
double kiln_small_float_largest(const kiln_small_float *format);

/* Exact. */
float kiln_small_to_f32(const kiln_small_float *format, uint8_t code);
/* To nearest, halves to even, without saturation: what is too large, and infinity, becomes `above`.
 * E8M0: halves upwards, what is too small becomes the smallest number, and a negative number NaN.
 */
uint8_t kiln_f32_to_small(const kiln_small_float *format, float value);

#endif
