/* The reference blob: a task's expected outputs and the bounds of a correct kernel's errors. The
 * tuner makes it once per task (the serial loop program accumulating in fp64, and once more on
 * absolute values) and sends it once; boards compare every candidate's whole output with it.
 *
 * Bytes, little-endian: "KILNREF1", u32 output count, u32 zero; per output u32 dtype, u32 rank,
 * i64 dim[KILN_RANK_MAX], u64 offset of the values, u64 offset of the bounds (0: compared exactly).
 * Then the data, each block 64-byte aligned: values row-major in the output's dtype; bounds one
 * float32 each. */
#ifndef KILN_BASE_REFERENCE_H
#define KILN_BASE_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"
#include "base/str.h"
#include "base/tensor.h"

#define KILN_REFERENCE_OUTPUTS_MAX 16
#define KILN_REFERENCE_BYTES_MAX ((size_t)256 << 20) /* values and bounds */
#define KILN_CHECKED_BYTES_MAX ((size_t)2 << 30)     /* with all other arguments of its task */

typedef struct kiln_reference_output {
    kiln_dtype dtype;
    kiln_shape shape;   /* logical */
    const void *value;  /* [count(shape)] row-major, of dtype */
    const float *bound; /* [count(shape)], n * eps * sum |a*b|; NULL for integers and bool, which
                           are exact */
} kiln_reference_output;

typedef struct kiln_reference {
    uint32_t output_count;
    kiln_reference_output output[KILN_REFERENCE_OUTPUTS_MAX];
} kiln_reference;

/* Appends to `out`, which must be empty (offsets count from its start). */
void kiln_reference_encode(const kiln_reference *reference, kiln_strbuf *out);
/* Views into `bytes`, which must be 16-byte aligned. DATA_LOSS names the field that is out of
 * range. */
KILN_MUST_USE kiln_status kiln_reference_decode(kiln_str bytes, kiln_reference *out_reference);

typedef struct kiln_reference_check {
    uint64_t mismatch_count;
    uint64_t worst_index; /* of the element furthest beyond (or nearest to) its bound */
    double worst_actual, worst_expected, worst_bound;
    double error;         /* max |actual - value| / allowed; <= 1 when all elements are right */
    double max_abs_error; /* max |actual - value| over finite elements */
    double magnitude;     /* max |value| over finite elements; 0 for what is compared exactly */
} kiln_reference_check;

/* Compares a whole output. Element i is right when |actual - value| <= error_factor * bound +
 * eps(dtype) * |value| + smallest normal(dtype) (both sides were rounded to dtype once; denormals
 * may be flushed); a NaN must meet a NaN and an infinity the same infinity. Integers and bool must
 * be equal. `actual`: [count(shape)] row-major, of dtype. `error_factor`: of the artefact's
 * manifest; 1 for the direct form. */
kiln_reference_check kiln_reference_compare(const kiln_reference_output *expected,
                                            const void *actual, double error_factor);

/* Seed of argument `index` (its place in the manifest) when a trial's seed is `seed`: the reference
 * maker and the boards fill inputs and constants with kiln_fill_data(.., kiln_input_seed(seed,
 * index), arg->fill), in logical row-major order. */
uint64_t kiln_input_seed(uint64_t seed, uint32_t index);

#endif
