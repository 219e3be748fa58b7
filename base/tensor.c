#include "base/tensor.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/kernel_abi.h"
#include "base/macros.h"
#include "base/small_float.h"

int64_t kiln_shape_count(const kiln_shape *shape) {
    int64_t count = 1;
    for (uint32_t i = 0; i < shape->rank; i++) count *= shape->dim[i];
    return count;
}

bool kiln_shape_equal(const kiln_shape *a, const kiln_shape *b) {
    if (a->rank != b->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

void kiln_shape_print(const kiln_shape *shape, kiln_strbuf *out) {
    kiln_strbuf_char(out, '[');
    for (uint32_t i = 0; i < shape->rank; i++)
        kiln_strbuf_printf(out, "%s%lld", i ? "," : "", (long long)shape->dim[i]);
    kiln_strbuf_char(out, ']');
}

kiln_status kiln_shape_bytes(const kiln_shape *shape, kiln_dtype dtype, size_t *out_bytes) {
    if (shape->rank > KILN_RANK_MAX)
        return KILN_ERROR(OUT_OF_RANGE, "a tensor has %u dimensions; at most %d are supported",
                          shape->rank, KILN_RANK_MAX);
    size_t elements_max = KILN_TENSOR_BYTES_MAX / kiln_dtype_size(dtype), elements = 1;
    bool empty = false;
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (shape->dim[i] < 0)
            return KILN_ERROR(OUT_OF_RANGE, "dimension %u of a tensor is %lld", i,
                              (long long)shape->dim[i]);
        if (shape->dim[i] == 0)
            empty = true;
        else if ((uint64_t)shape->dim[i] > elements_max / elements)
            return KILN_ERROR(OUT_OF_RANGE, "a tensor is larger than %zu bytes",
                              KILN_TENSOR_BYTES_MAX);
        else
            elements *= (size_t)shape->dim[i];
    }
    *out_bytes = empty ? 0 : elements * kiln_dtype_size(dtype);
    return KILN_OK;
}

kiln_tensor kiln_tensor_create(kiln_arena *arena, kiln_dtype dtype, const kiln_shape *shape) {
    kiln_tensor tensor = {dtype, *shape, NULL};
    tensor.data =
        kiln_arena_alloc_aligned(arena, KILN_KERNEL_ALIGNMENT, kiln_tensor_bytes(&tensor));
    return tensor;
}

size_t kiln_tensor_bytes(const kiln_tensor *t) {
    return (size_t)kiln_shape_count(&t->shape) * kiln_dtype_size(t->dtype);
}

/* The i-th output of splitmix64 from a scrambled seed: random access, 64 good bits. */
static uint64_t bits_at(uint64_t seed, uint64_t i) {
    uint64_t z = seed * UINT64_C(0xd1342543de82ef95) + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Bits of a float type's significand, the leading one included. */
static int precision_of(kiln_dtype type) {
    const kiln_small_float *small = kiln_small_float_of(type);
    if (small) return (int)small->fraction_bits + 1;
    return type == KILN_F64 ? 53 : type == KILN_F32 ? 24 : type == KILN_F16 ? 11 : 8;
}

/* Multiples of a power of two that the type holds exactly, so that no rounding rule is involved:
 * (bits >> shift) * scale + offset. Types without a sign have powers of two alone:
 * 2^-((bits >> shift) + offset). */
typedef struct float_rule {
    int shift;
    double scale, offset;
    bool is_power;
} float_rule;

static float_rule float_rule_of(kiln_dtype type, kiln_fill fill) {
    const kiln_small_float *small = kiln_small_float_of(type);
    int precision = precision_of(type);
    const bool uniform = fill == KILN_FILL_UNIFORM;
    if (small && !kiln_small_float_sign(small))
        return (float_rule){.shift = uniform ? 61 : 63, .offset = uniform, .is_power = true};
    if (uniform) {
        if (small) precision = KILN_MIN(precision, small->bias - 1 + (int)small->fraction_bits);
        return (float_rule){63 - precision, ldexp(1, -precision), -1.0, false};
    }
    return (float_rule){65 - precision, ldexp(1, 1 - precision), 0.5, false};
}

static double float_at(uint64_t bits, const float_rule *rule) {
    const double drawn = (double)(bits >> rule->shift);
    return rule->is_power ? ldexp(1, -(int)(drawn + rule->offset))
                          : drawn * rule->scale + rule->offset;
}

static int64_t integer_at(uint64_t bits, kiln_dtype_kind kind, kiln_fill fill) {
    if (kind == KILN_KIND_BOOL) return fill == KILN_FILL_UNIFORM ? (int64_t)(bits >> 63) : 1;
    if (fill == KILN_FILL_POSITIVE) return 1 + (int64_t)(bits % 15);
    return kind == KILN_KIND_INT ? (int64_t)(bits >> 56) - 128 : (int64_t)(bits >> 57);
}

bool kiln_range_fits(const kiln_range *range, kiln_dtype dtype) {
    const kiln_dtype_kind kind = kiln_dtype_kind_of(dtype);
    if ((kind != KILN_KIND_INT && kind != KILN_KIND_UINT) || kiln_dtype_size(dtype) > 4)
        return false;
    const int64_t values = (int64_t)1 << 8 * kiln_dtype_size(dtype),
                  low = kind == KILN_KIND_INT ? -values / 2 : 0;
    return range->step > 0 && range->low >= low && range->high < low + values &&
           range->low <= range->high && (range->high - range->low) % range->step == 0 &&
           (range->high - range->low) / range->step < KILN_RANGE_COUNT_MAX;
}

void kiln_fill_range(void *data, kiln_dtype dtype, size_t count, uint64_t seed,
                     const kiln_range *range) {
    KILN_CHECK(kiln_range_fits(range, dtype));
    const uint64_t values = (uint64_t)((range->high - range->low) / range->step) + 1;
    for (size_t i = 0; i < count; i++)
        kiln_dtype_store_i64(dtype, data, i,
                             range->low +
                                 (int64_t)((bits_at(seed, i) >> 32) * values >> 32) * range->step);
}

void kiln_fill_data(void *data, kiln_dtype dtype, size_t count, uint64_t seed, kiln_fill fill) {
    kiln_dtype_kind kind = kiln_dtype_kind_of(dtype);
    KILN_CHECK(fill != KILN_FILL_RANGE);
    if (fill == KILN_FILL_ZERO) {
        if (count) memset(data, 0, count * kiln_dtype_size(dtype));
    } else if (kind == KILN_KIND_FLOAT) {
        const float_rule rule = float_rule_of(dtype, fill);
        if (dtype == KILN_F32) { /* the usual case on boards, without a call per element */
            float *to = data;
            for (size_t i = 0; i < count; i++) to[i] = (float)float_at(bits_at(seed, i), &rule);
            return;
        }
        for (size_t i = 0; i < count; i++)
            kiln_dtype_store_f64(dtype, data, i, float_at(bits_at(seed, i), &rule));
    } else {
        for (size_t i = 0; i < count; i++)
            kiln_dtype_store_i64(dtype, data, i, integer_at(bits_at(seed, i), kind, fill));
    }
}

/* |a - b| of two integers, exact below 2^53. */
static double integer_distance(kiln_dtype type, int64_t a, int64_t b) {
    bool below = type == KILN_U64 ? (uint64_t)a < (uint64_t)b : a < b;
    return (double)(below ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b);
}

/* Distance of one element, and both values as doubles. Infinite when only one side is finite; 0
 * when both are not a number or the same infinity. */
static double element_distance(const kiln_tensor *actual, const kiln_tensor *expected, size_t i,
                               double *a, double *r) {
    kiln_dtype type = actual->dtype;
    *a = kiln_dtype_load_f64(type, actual->data, i);
    *r = kiln_dtype_load_f64(type, expected->data, i);
    if (!kiln_dtype_is_float(type))
        return integer_distance(type, kiln_dtype_load_i64(type, actual->data, i),
                                kiln_dtype_load_i64(type, expected->data, i));
    if (isfinite(*a) && isfinite(*r)) return fabs(*a - *r);
    bool same = (isnan(*a) && isnan(*r)) || *a == *r;
    return same ? 0 : (double)INFINITY;
}

kiln_compare kiln_tensor_compare(const kiln_tensor *actual, const kiln_tensor *expected,
                                 double rtol, double atol) {
    KILN_CHECK(actual->dtype == expected->dtype);
    KILN_CHECK(kiln_shape_equal(&actual->shape, &expected->shape));
    kiln_compare result = {0};
    double dot = 0, actual_square = 0, expected_square = 0, worst = -1;
    size_t count = (size_t)kiln_shape_count(&actual->shape);
    for (size_t i = 0; i < count; i++) {
        double a, r;
        double distance = element_distance(actual, expected, i, &a, &r);
        result.max_abs = KILN_MAX(result.max_abs, distance);
        if (isfinite(r)) result.max_ref = KILN_MAX(result.max_ref, fabs(r));
        if (isfinite(a) && isfinite(r)) {
            dot += a * r;
            actual_square += a * a;
            expected_square += r * r;
        }
        double excess = distance - (isfinite(r) ? atol + rtol * fabs(r) : 0);
        if (excess <= 0) continue;
        result.mismatches++;
        if (excess > worst) result.first_index = i;
        worst = KILN_MAX(worst, excess);
    }
    double norms = sqrt(actual_square) * sqrt(expected_square);
    result.cosine = norms > 0 ? dot / norms : actual_square == expected_square;
    return result;
}
