#include "base/dtype.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/small_float.h"

typedef struct dtype_info {
    const char *name;
    size_t size;
    kiln_dtype_kind kind;
} dtype_info;

static const dtype_info dtype_table[KILN_DTYPE_COUNT] = {
#define X(name, text, size, kind, ctype, number) [number] = {text, size, KILN_KIND_##kind},
#include "base/dtype.def"
#undef X
};

static const dtype_info *info_of(kiln_dtype type) {
    KILN_CHECK((unsigned)type < KILN_DTYPE_COUNT && dtype_table[type].name);
    return &dtype_table[type];
}

size_t kiln_dtype_size(kiln_dtype type) { return info_of(type)->size; }

kiln_dtype_kind kiln_dtype_kind_of(kiln_dtype type) { return info_of(type)->kind; }

uint8_t kiln_dtype_dlpack(kiln_dtype type) {
    static const uint8_t of_kind[] = {
        [KILN_KIND_FLOAT] = 2, [KILN_KIND_INT] = 0, [KILN_KIND_UINT] = 1, [KILN_KIND_BOOL] = 6};
    const kiln_small_float *small = kiln_small_float_of(type);
    return small ? small->dlpack : type == KILN_BF16 ? 4 : of_kind[info_of(type)->kind];
}

bool kiln_dtype_is_float(kiln_dtype type) { return info_of(type)->kind == KILN_KIND_FLOAT; }

kiln_dtype kiln_dtype_computed(kiln_dtype type) {
    return kiln_dtype_is_float(type) && kiln_dtype_size(type) < 4 ? KILN_F32 : type;
}

const char *kiln_dtype_name(kiln_dtype type) { return info_of(type)->name; }

bool kiln_dtype_find(kiln_str name, kiln_dtype *out_type) {
    for (unsigned i = 1; i < KILN_DTYPE_COUNT; i++)
        if (dtype_table[i].name && kiln_str_is(name, dtype_table[i].name)) {
            *out_type = (kiln_dtype)i;
            return true;
        }
    return false;
}

static float float_from(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_from(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float kiln_f16_to_f32(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
             fraction = bits & 0x3ff;
    if (exponent == 31) return float_from(sign | 0x7f800000 | fraction << 13);
    if (exponent > 0) return float_from(sign | (exponent + 112) << 23 | fraction << 13);
    float magnitude = (float)fraction * 0x1p-24f; /* subnormal or zero: exact */
    return sign ? -magnitude : magnitude;
}

uint16_t kiln_f32_to_f16(float value) {
    uint32_t bits = bits_from(value), magnitude = bits & 0x7fffffff;
    uint32_t sign = bits >> 16 & 0x8000;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x1ff)); /* a quiet NaN */
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00);    /* from 65520 on: infinity */
    if (magnitude >= 0x38800000) {
        uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
        return (uint16_t)(sign | (rounded - 0x38000000) >> 13);
    }
    uint32_t exponent = magnitude >> 23;
    if (exponent < 102) return (uint16_t)sign; /* below half of the smallest subnormal */
    uint32_t significand = (magnitude & 0x7fffff) | 0x800000, shift = 126 - exponent;
    uint32_t kept = significand >> shift, rest = significand & ((1u << shift) - 1),
             half = 1u << (shift - 1);
    if (rest > half || (rest == half && (kept & 1))) kept++;
    return (uint16_t)(sign | kept);
}

float kiln_bf16_to_f32(uint16_t bits) { return float_from((uint32_t)bits << 16); }

uint16_t kiln_f32_to_bf16(float value) {
    uint32_t bits = bits_from(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40); /* a quiet NaN */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float kiln_f32_to_tf32(float value) {
    const uint32_t bits = bits_from(value), dropped = 0x1fff; /* 13 of 23 */
    const uint32_t above =
        isnan(value) ? bits | 0x400000 /* a quiet NaN */ : bits + (dropped + 1) / 2;
    return float_from(above & ~dropped);
}

/* Rounds to odd, so that a second rounding to a narrower type gives what one rounding would have
 * given (Boldo and Melquiond 2008). */
static float round_to_odd(double value) {
    float nearest = (float)value;
    if ((double)nearest == value || isnan(value)) return nearest;
    uint32_t bits = bits_from(nearest);
    if (fabs((double)nearest) > fabs(value)) bits--;
    return float_from(bits | 1);
}

/* One element of C type `type`, whatever its alignment. */
#define LOAD(type, data, index, out) \
    memcpy(&(out), (const char *)(data) + (index) * sizeof(type), sizeof(type))
#define STORE(type, data, index, in) \
    memcpy((char *)(data) + (index) * sizeof(type), &(in), sizeof(type))

static double load_narrow(kiln_dtype type, const void *data, size_t index) {
    const kiln_small_float *small = kiln_small_float_of(type);
    uint16_t bits;
    if (small) return (double)kiln_small_to_f32(small, ((const uint8_t *)data)[index]);
    LOAD(uint16_t, data, index, bits);
    return (double)(type == KILN_F16 ? kiln_f16_to_f32(bits) : kiln_bf16_to_f32(bits));
}

/* Floats that are stored as their bits. */
static bool is_narrow(kiln_dtype type) {
    return kiln_dtype_is_float(type) && kiln_dtype_size(type) < 4;
}

double kiln_dtype_load_f64(kiln_dtype type, const void *data, size_t index) {
    if (is_narrow(type)) return load_narrow(type, data, index);
    switch (type) {
#define X(name, text, size, kind, ctype, number) \
    case KILN_##name: {                          \
        ctype value;                             \
        LOAD(ctype, data, index, value);         \
        return (double)value;                    \
    }
#include "base/dtype.def"
#undef X
    case KILN_DTYPE_NONE:
    case KILN_DTYPE_COUNT: break;
    }
    kiln_check_failed("type is a dtype", __FILE__, __LINE__);
}

/* Truncates and saturates to [low, high]; not-a-number gives 0. Both bounds are exact doubles. */
static int64_t saturate(double value, double low, double high) {
    if (isnan(value)) return 0;
    if (value <= low) return (int64_t)low;
    if (value >= high) return high >= 0x1p63 ? INT64_MAX : (int64_t)high;
    return (int64_t)value;
}

int64_t kiln_dtype_load_i64(kiln_dtype type, const void *data, size_t index) {
    if (kiln_dtype_is_float(type))
        return saturate(kiln_dtype_load_f64(type, data, index), -0x1p63, 0x1p63);
    switch (type) {
#define X(name, text, size, kind, ctype, number) \
    case KILN_##name: {                          \
        ctype value;                             \
        LOAD(ctype, data, index, value);         \
        return (int64_t)value;                   \
    }
#include "base/dtype.def"
#undef X
    case KILN_DTYPE_NONE:
    case KILN_DTYPE_COUNT: break;
    }
    kiln_check_failed("type is a dtype", __FILE__, __LINE__);
}

static void store_float(kiln_dtype type, void *data, size_t index, double value) {
    if (type == KILN_F64) {
        STORE(double, data, index, value);
    } else if (type == KILN_F32) {
        float narrow = (float)value;
        STORE(float, data, index, narrow);
    } else {
        float odd = round_to_odd(value);
        const kiln_small_float *small = kiln_small_float_of(type);
        if (small) {
            ((uint8_t *)data)[index] = kiln_f32_to_small(small, odd);
            return;
        }
        uint16_t bits = type == KILN_F16 ? kiln_f32_to_f16(odd) : kiln_f32_to_bf16(odd);
        STORE(uint16_t, data, index, bits);
    }
}

void kiln_dtype_store_f64(kiln_dtype type, void *data, size_t index, double value) {
    int bits = (int)kiln_dtype_size(type) * 8;
    switch (kiln_dtype_kind_of(type)) {
    case KILN_KIND_FLOAT: store_float(type, data, index, value); break;
    case KILN_KIND_BOOL: kiln_dtype_store_i64(type, data, index, value != 0); break;
    case KILN_KIND_INT: {
        double limit = ldexp(1.0, bits - 1);
        kiln_dtype_store_i64(type, data, index,
                             saturate(value, -limit, bits == 64 ? limit : limit - 1));
        break;
    }
    case KILN_KIND_UINT:
        if (bits < 64) {
            kiln_dtype_store_i64(type, data, index, saturate(value, 0, ldexp(1.0, bits) - 1));
        } else {
            uint64_t whole = !(value > 0) ? 0 : value >= 0x1p64 ? UINT64_MAX : (uint64_t)value;
            STORE(uint64_t, data, index, whole);
        }
        break;
    }
}

void kiln_dtype_store_i64(kiln_dtype type, void *data, size_t index, int64_t value) {
    if (type == KILN_BOOL) value = value != 0;
    if (is_narrow(type)) {
        store_float(type, data, index, (double)value);
        return;
    }
    switch (type) {
#define X(name, text, size, kind, ctype, number) \
    case KILN_##name: {                          \
        ctype narrow = (ctype)value;             \
        STORE(ctype, data, index, narrow);       \
        return;                                  \
    }
#include "base/dtype.def"
#undef X
    case KILN_DTYPE_NONE:
    case KILN_DTYPE_COUNT: break;
    }
    kiln_check_failed("type is a dtype", __FILE__, __LINE__);
}
