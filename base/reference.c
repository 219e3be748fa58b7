#include "base/reference.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/integer.h"
#include "base/small_float.h"

#define REFERENCE_ALIGNMENT 64

static const char reference_magic[8] = {'K', 'I', 'L', 'N', 'R', 'E', 'F', '1'};

typedef struct reference_header {
    char magic[8];
    uint32_t output_count, zero;
} reference_header;

typedef struct reference_entry {
    uint32_t dtype, rank;
    int64_t dim[KILN_RANK_MAX];
    uint64_t value_offset, bound_offset;
} reference_entry;

static void append_block(kiln_strbuf *out, uint64_t offset, const void *data, size_t size) {
    static const char zeros[REFERENCE_ALIGNMENT] = {0};
    kiln_strbuf_append(out, zeros, (size_t)offset - out->size);
    kiln_strbuf_append(out, data, size);
}

void kiln_reference_encode(const kiln_reference *reference, kiln_strbuf *out) {
    KILN_CHECK(out->size == 0);
    KILN_CHECK(reference->output_count <= KILN_REFERENCE_OUTPUTS_MAX);
    reference_header header = {.output_count = reference->output_count};
    memcpy(header.magic, reference_magic, sizeof header.magic);
    reference_entry entry[KILN_REFERENCE_OUTPUTS_MAX] = {0};

    size_t end = sizeof header + sizeof entry[0] * reference->output_count;
    for (uint32_t i = 0; i < reference->output_count; i++) {
        const kiln_reference_output *output = &reference->output[i];
        size_t count = (size_t)kiln_shape_count(&output->shape);
        entry[i].dtype = (uint32_t)output->dtype;
        entry[i].rank = output->shape.rank;
        memcpy(entry[i].dim, output->shape.dim, sizeof output->shape.dim[0] * output->shape.rank);
        entry[i].value_offset = KILN_ALIGN_UP(end, REFERENCE_ALIGNMENT);
        end = (size_t)entry[i].value_offset + count * kiln_dtype_size(output->dtype);
        if (!output->bound) continue;
        entry[i].bound_offset = KILN_ALIGN_UP(end, REFERENCE_ALIGNMENT);
        end = (size_t)entry[i].bound_offset + count * sizeof(float);
    }

    kiln_strbuf_append(out, &header, sizeof header);
    kiln_strbuf_append(out, entry, sizeof entry[0] * reference->output_count);
    for (uint32_t i = 0; i < reference->output_count; i++) {
        const kiln_reference_output *output = &reference->output[i];
        size_t count = (size_t)kiln_shape_count(&output->shape);
        append_block(out, entry[i].value_offset, output->value,
                     count * kiln_dtype_size(output->dtype));
        if (output->bound)
            append_block(out, entry[i].bound_offset, output->bound, count * sizeof(float));
    }
}

/* Whether [offset, offset + size) is an aligned block inside `total` bytes. */
static bool block_fits(uint64_t offset, uint64_t size, size_t total) {
    return offset % REFERENCE_ALIGNMENT == 0 && offset <= total && size <= total - offset;
}

static kiln_status decode_output(kiln_str bytes, uint32_t index, kiln_reference_output *output) {
    reference_entry entry;
    memcpy(&entry, bytes.data + sizeof(reference_header) + sizeof entry * index, sizeof entry);
    if (entry.dtype == KILN_DTYPE_NONE || entry.dtype >= KILN_DTYPE_COUNT)
        return KILN_ERROR(DATA_LOSS, "reference output %u: dtype %u is unknown", index,
                          entry.dtype);
    if (entry.rank > KILN_RANK_MAX)
        return KILN_ERROR(DATA_LOSS, "reference output %u: rank %u is above %u", index, entry.rank,
                          KILN_RANK_MAX);

    *output = (kiln_reference_output){.dtype = (kiln_dtype)entry.dtype, .shape.rank = entry.rank};
    for (uint32_t d = 0; d < entry.rank; d++) {
        if (entry.dim[d] < 0)
            return KILN_ERROR(DATA_LOSS, "reference output %u: a negative extent", index);
        output->shape.dim[d] = entry.dim[d];
    }
    size_t value_bytes = 0;
    kiln_status st = kiln_shape_bytes(&output->shape, output->dtype, &value_bytes);
    if (st) return kiln_status_note(st, "reference output %u", index);
    if (!block_fits(entry.value_offset, value_bytes, bytes.size))
        return KILN_ERROR(DATA_LOSS, "reference output %u: its values lie outside of the blob",
                          index);
    output->value = bytes.data + entry.value_offset;

    size_t bound_bytes = value_bytes / kiln_dtype_size(output->dtype) * sizeof(float);
    if ((entry.bound_offset != 0) != kiln_dtype_is_float(output->dtype))
        return KILN_ERROR(DATA_LOSS,
                          "reference output %u: bounds belong to float outputs, and only to them",
                          index);
    if (entry.bound_offset == 0) return KILN_OK;
    if (!block_fits(entry.bound_offset, bound_bytes, bytes.size))
        return KILN_ERROR(DATA_LOSS, "reference output %u: its bounds lie outside of the blob",
                          index);
    output->bound = (const float *)(const void *)(bytes.data + entry.bound_offset);
    return KILN_OK;
}

kiln_status kiln_reference_decode(kiln_str bytes, kiln_reference *out_reference) {
    KILN_CHECK((uintptr_t)bytes.data % 16 == 0);
    reference_header header;
    if (bytes.size < sizeof header)
        return KILN_ERROR(DATA_LOSS, "reference blob of %zu bytes is shorter than its header",
                          bytes.size);
    memcpy(&header, bytes.data, sizeof header);
    if (memcmp(header.magic, reference_magic, sizeof header.magic) != 0)
        return KILN_ERROR(DATA_LOSS,
                          "this is not a reference blob (it does not start with KILNREF1)");
    if (header.output_count > KILN_REFERENCE_OUTPUTS_MAX ||
        bytes.size < sizeof header + sizeof(reference_entry) * header.output_count)
        return KILN_ERROR(DATA_LOSS, "reference blob of %zu bytes cannot hold %u outputs",
                          bytes.size, header.output_count);

    kiln_reference reference = {.output_count = header.output_count};
    for (uint32_t i = 0; i < header.output_count; i++) {
        kiln_status st = decode_output(bytes, i, &reference.output[i]);
        if (st) return st;
    }
    *out_reference = reference;
    return KILN_OK;
}

/* Rounding step and smallest normal number of each float type: the error of storing a result. */
typedef struct float_limits {
    double epsilon, smallest;
} float_limits;

static float_limits limits_of(kiln_dtype dtype) {
    const kiln_small_float *small = kiln_small_float_of(dtype);
    if (small)
        return (float_limits){ldexp(1, -(int)small->fraction_bits), ldexp(1, 1 - small->bias)};
    switch ((int)dtype) {
    case KILN_F64: return (float_limits){0x1p-52, 0x1p-1022};
    case KILN_F16: return (float_limits){0x1p-10, 0x1p-14};
    case KILN_BF16: return (float_limits){0x1p-7, 0x1p-126};
    default: return (float_limits){0x1p-23, 0x1p-126};
    }
}

/* Records an element that is worse than all before or not finite. */
static void note_element(kiln_reference_check *check, size_t i, double actual, double expected,
                         double bound, double allowed) {
    double error = fabs(actual - expected) / allowed;
    if (isnan(expected))
        error = isnan(actual) ? 0 : INFINITY;
    else if (isnan(bound))
        error = INFINITY;
    else if (isnan(error))
        error = actual == expected ? 0 : INFINITY;
    if (error > 1) check->mismatch_count++;
    if (error <= check->error && i > 0) return;
    check->error = error;
    check->worst_index = i;
    check->worst_actual = actual, check->worst_expected = expected, check->worst_bound = bound;
}

static void compare_floats(const kiln_reference_output *expected, const void *actual, size_t count,
                           double error_factor, kiln_reference_check *check) {
    const float_limits limits = limits_of(expected->dtype);
    const bool is_f32 = expected->dtype == KILN_F32;
    for (size_t i = 0; i < count; i++) {
        double a = is_f32 ? (double)((const float *)actual)[i]
                          : kiln_dtype_load_f64(expected->dtype, actual, i);
        double r = is_f32 ? (double)((const float *)expected->value)[i]
                          : kiln_dtype_load_f64(expected->dtype, expected->value, i);
        double bound = error_factor * (double)expected->bound[i];
        double allowed = bound + limits.epsilon * fabs(r) + limits.smallest;
        double distance = fabs(a - r), magnitude = fabs(r);
        if (magnitude > check->magnitude && isfinite(magnitude)) check->magnitude = magnitude;
        if (distance > check->max_abs_error && isfinite(distance)) check->max_abs_error = distance;
        /* Nearly every element is right and not the worst, which a product shows without a
         * division. Non-finite values fail a comparison and are examined. */
        if (distance <= check->error * allowed && distance <= allowed && distance < INFINITY)
            continue;
        note_element(check, i, a, r, bound, allowed);
    }
}

static void compare_exactly(const kiln_reference_output *expected, const void *actual, size_t count,
                            kiln_reference_check *check) {
    const size_t size = kiln_dtype_size(expected->dtype);
    if (count == 0 || memcmp(actual, expected->value, count * size) == 0) return;
    for (size_t i = 0; i < count; i++) {
        if (memcmp((const char *)actual + i * size, (const char *)expected->value + i * size,
                   size) == 0)
            continue;
        double a = kiln_dtype_load_f64(expected->dtype, actual, i);
        double r = kiln_dtype_load_f64(expected->dtype, expected->value, i);
        check->max_abs_error = fmax(check->max_abs_error, fabs(a - r));
        if (check->mismatch_count == 0)
            check->worst_index = i, check->worst_actual = a, check->worst_expected = r;
        check->mismatch_count++;
    }
    check->error = INFINITY;
}

kiln_reference_check kiln_reference_compare(const kiln_reference_output *expected,
                                            const void *actual, double error_factor) {
    kiln_reference_check check = {0};
    size_t count = (size_t)kiln_shape_count(&expected->shape);
    if (expected->bound)
        compare_floats(expected, actual, count, error_factor, &check);
    else
        compare_exactly(expected, actual, count, &check);
    return check;
}

uint64_t kiln_input_seed(uint64_t seed, uint32_t index) {
    return kiln_hash64(&index, sizeof index, seed);
}
