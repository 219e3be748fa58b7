/* The arithmetic of `kiln quantize`: histograms of activations, scales derived from them, and
 * errors. Pure; used by the command, which runs the model, and by the front end, which writes the
 * quantised model.
 *
 * A real number x becomes the signed byte round(x / scale) + zero, cut to [-128, 127]. Activations
 * use all 256 bytes, and 0 is represented exactly. Weights use [-127, 127] and zero 0. Rounding is
 * to the nearest, halves to even, as QuantizeLinear rounds. With fewer bits an activation is one of
 * [-2^(bits-1), 2^(bits-1) - 1], and a weight as well, but those of one bit are -1 and 1. */
#ifndef KILN_COMPILER_CORE_QUANTIZE_QUANTIZE_H
#define KILN_COMPILER_CORE_QUANTIZE_QUANTIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

/* ---- histograms ------------------------------------------------------------------------------ */

/* Half of the bins are on each side of 0. A range of one sign is at least 2048 bins wide: eight for
 * each byte. */
#define KILN_HISTOGRAM_BINS 8192

/* Zero-initialised: empty. A bin is 2^exponent wide, so that when the range grows bins are merged
 * in pairs exactly, and the order of the elements does not matter. */
typedef struct kiln_histogram {
    uint64_t count; /* elements */
    uint64_t zeros; /* elements that are 0: not in any bin, because they are always exact */
    double low, high;
    int exponent; /* meaningless while all elements are 0 */
    uint64_t bin[KILN_HISTOGRAM_BINS];
} kiln_histogram;

/* False: an element is infinite or NaN; nothing was added then. */
KILN_MUST_USE bool kiln_histogram_add(kiln_histogram *h, const float *data, size_t count);
void kiln_histogram_merge(kiln_histogram *into, const kiln_histogram *from);

/* ---- scales ---------------------------------------------------------------------------------- */

typedef enum kiln_quantize_method {
#define X(id, name, function, doc) KILN_QUANTIZE_##id,
#include "compiler-core/quantize/methods.def"
#undef X
    KILN_QUANTIZE_METHOD_COUNT
} kiln_quantize_method;

/* INVALID_ARGUMENT: no such method; the note lists them. */
KILN_MUST_USE kiln_status kiln_quantize_method_find(kiln_str name,
                                                    kiln_quantize_method *out_method);

typedef struct kiln_quantization {
    float scale;   /* above 0 */
    int32_t zero;  /* an integer of `bits` bits, signed */
    uint32_t bits; /* 1 to 8 */
} kiln_quantization;

/* The form of the integers. */
typedef struct kiln_quantize_form {
    uint32_t bits; /* 1 to 8 */
    bool shift;    /* scales are powers of two and zero points 0: requantisation is a shift. With 1
                      bit only of weights */
} kiln_quantize_form;

/* The quantisation of an activation. An empty histogram and one of zeros get scale 1. */
kiln_quantization kiln_quantize_activation(const kiln_histogram *h, kiln_quantize_method method,
                                           kiln_quantize_form form);
/* The scale of weights of magnitude `largest` whose products with activations of `input_scale` are
 * added to a bias of magnitude `bias`. It is larger where bias / (input_scale * scale) would exceed
 * 30 bits.
 */
float kiln_quantize_weights(double largest, double bias, double input_scale, bool shift);
/* The scale of weights of fewer than 8 bits, and their levels, [count]. One bit: the mean magnitude
 * and the signs (Rastegari et al. 2016, section 3.1); more: those of least squared error, searched
 * on a sample of the weights and then refined on all, alternating with the levels. */
float kiln_quantize_weights_few(const float *weight, size_t count, kiln_quantize_form form,
                                int8_t *out_level);

/* The byte of x, of 8 bits; `least` is -128 for activations, -127 for weights. */
int8_t kiln_quantize_byte(double x, kiln_quantization q, int32_t least);
/* The real numbers of the lowest and the highest integer. */
double kiln_quantization_low(kiln_quantization q);
double kiln_quantization_high(kiln_quantization q);
/* Share of the elements beyond these numbers by more than half a step. */
double kiln_quantize_clipped(const kiln_histogram *h, kiln_quantization q);

/* ---- errors ---------------------------------------------------------------------------------- */

/* Sums over elements; zero-initialised: none. */
typedef struct kiln_quantize_error {
    double reference2, actual2, product, error2; /* sums of squares and products */
    double largest, largest_error;               /* magnitudes */
} kiln_quantize_error;

void kiln_quantize_error_add(kiln_quantize_error *e, const float *reference, const float *actual,
                             size_t count);
/* Signal to quantisation noise in dB; infinite without an error. */
double kiln_quantize_error_sqnr(const kiln_quantize_error *e);
/* The largest error over the largest magnitude; 0 where there is neither. */
double kiln_quantize_error_relative(const kiln_quantize_error *e);
/* 1 where both are zero. */
double kiln_quantize_error_cosine(const kiln_quantize_error *e);

#endif
