#include "base/small_float.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "tests/support/test.h"

/* What ONNX's tables of float8 say of each type: the largest and the smallest number, the codes of
 * 1, of an infinity (0: none) and of a NaN. */
static const struct {
    kiln_dtype dtype;
    double largest, smallest;
    uint8_t one, infinity, nan;
} row[] = {
    {KILN_F8E4M3FN, 448, 0x1p-9, 0x38, 0, 0x7f},
    {KILN_F8E4M3FNUZ, 240, 0x1p-10, 0x40, 0, 0x80},
    {KILN_F8E5M2, 57344, 0x1p-16, 0x3c, 0x7c, 0x7e},
    {KILN_F8E5M2FNUZ, 57344, 0x1p-17, 0x40, 0, 0x80},
    {KILN_F8E8M0, 0x1p127, 0x1p-127, 127, 0, 0xff},
    {KILN_F4E2M1, 6, 0.5, 2, 0, 0x8},
};

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static bool is_power(size_t i) { return row[i].dtype == KILN_F8E8M0; }

static void types_have_the_ends_of_their_specification(void **state) {
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const kiln_small_float *f = kiln_small_float_of(row[i].dtype);
        assert_non_null(f);
        assert_true(kiln_small_float_largest(f) == row[i].largest);
        assert_true((double)kiln_small_to_f32(f, is_power(i) ? 0 : 1) == row[i].smallest);
        assert_int_equal(kiln_f32_to_small(f, 1), row[i].one);
        assert_int_equal(kiln_f32_to_small(f, NAN), row[i].nan);
        if (row[i].infinity) {
            assert_true(isinf(kiln_small_to_f32(f, row[i].infinity)));
            assert_int_equal(kiln_f32_to_small(f, INFINITY), row[i].infinity);
        }
    }
    assert_null(kiln_small_float_of(KILN_F16));
    assert_null(kiln_small_float_of(KILN_U8));
    assert_null(kiln_small_float_of(KILN_DTYPE_NONE));
}

/* Codes that are no numbers, by the specifications: all others are. */
static bool is_nan_code(kiln_dtype dtype, uint32_t code) {
    switch ((int)dtype) {
    case KILN_F8E4M3FN: return (code & 0x7f) == 0x7f;
    case KILN_F8E5M2: return (code & 0x7f) > 0x7c;
    case KILN_F8E4M3FNUZ:
    case KILN_F8E5M2FNUZ: return code == 0x80;
    case KILN_F8E8M0: return code == 0xff;
    default: return false;
    }
}

static void every_code_survives_a_round_trip(void **state) {
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const kiln_small_float *f = kiln_small_float_of(row[i].dtype);
        const uint32_t codes = row[i].dtype == KILN_F4E2M1 ? 16 : 256;
        for (uint32_t code = 0; code < codes; code++) {
            const float value = kiln_small_to_f32(f, (uint8_t)code);
            assert_int_equal(isnan(value) != 0, is_nan_code(row[i].dtype, code));
            if (!isnan(value)) assert_int_equal(kiln_f32_to_small(f, value), code);
        }
    }
}

/* The nearest number of either sign by search over all codes, ties to the even one; powers of two:
 * to the larger one. */
static uint8_t nearest(const kiln_small_float *f, size_t i, float value) {
    uint8_t best = 0;
    double best_distance = (double)INFINITY;
    for (uint32_t code = 0; code <= f->largest; code++) {
        const double distance =
            fabs((double)kiln_small_to_f32(f, (uint8_t)code) - fabs((double)value));
        if (distance < best_distance ||
            (distance == best_distance && (is_power(i) || code % 2 == 0)))
            best = (uint8_t)code, best_distance = distance;
    }
    if (signbit(value) && (best || f->has_negative_zero)) best |= (uint8_t)kiln_small_float_sign(f);
    return best;
}

/* Each middle of two numbers and its neighbours, subnormal f32 numbers included. */
static void numbers_are_rounded_to_the_nearest(void **state) {
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const kiln_small_float *f = kiln_small_float_of(row[i].dtype);
        for (uint32_t code = 0; code < f->largest; code++) {
            const double low = (double)kiln_small_to_f32(f, (uint8_t)code),
                         high = (double)kiln_small_to_f32(f, (uint8_t)(code + 1));
            const float middle = (float)((low + high) / 2);
            const float value[] = {middle, nextafterf(middle, 0), nextafterf(middle, INFINITY)};
            for (size_t k = 0; k < KILN_ARRAY_COUNT(value); k++) {
                assert_int_equal(kiln_f32_to_small(f, value[k]), nearest(f, i, value[k]));
                if (!is_power(i))
                    assert_int_equal(kiln_f32_to_small(f, -value[k]), nearest(f, i, -value[k]));
            }
        }
    }
}

/* What lies beyond the middle between the largest number and the next one that the format would
 * have. */
static void large_numbers_become_what_the_row_says(void **state) {
    (void)state;
    static const struct {
        kiln_dtype dtype;
        float value;
        uint8_t code;
    } large[] = {
        {KILN_F8E4M3FN, 464, 0x7e},       {KILN_F8E4M3FN, 464.0001f, 0x7f},
        {KILN_F8E4M3FN, -INFINITY, 0xff}, {KILN_F8E4M3FNUZ, 247.9999f, 0x7f},
        {KILN_F8E4M3FNUZ, 248, 0x80},     {KILN_F8E4M3FNUZ, -1e30f, 0x80},
        {KILN_F8E5M2, 61439.99f, 0x7b},   {KILN_F8E5M2, 61440, 0x7c},
        {KILN_F8E5M2, -61440, 0xfc},      {KILN_F8E5M2FNUZ, 61439.99f, 0x7f},
        {KILN_F8E5M2FNUZ, 61440, 0x80},   {KILN_F4E2M1, 7, 0x7},
        {KILN_F4E2M1, -INFINITY, 0xf},    {KILN_F8E8M0, 0x1.7fffp127f, 0xfe},
        {KILN_F8E8M0, 0x1.8p127f, 0xff},  {KILN_F8E8M0, INFINITY, 0xff},
        {KILN_F8E8M0, -1, 0xff},          {KILN_F8E8M0, 0, 0},
        {KILN_F8E8M0, -0.0f, 0},          {KILN_F8E8M0, 0x1p-149f, 0},
        {KILN_F8E4M3FN, -0x1p-20f, 0x80}, {KILN_F8E4M3FNUZ, -0x1p-20f, 0},
        {KILN_F8E5M2FNUZ, -0.0f, 0},      {KILN_F8E5M2, -0.0f, 0x80},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(large); i++)
        assert_int_equal(kiln_f32_to_small(kiln_small_float_of(large[i].dtype), large[i].value),
                         large[i].code);
    assert_true(kiln_small_to_f32(kiln_small_float_of(KILN_F8E8M0), 0) == float_of(0x00400000));
}

/* A double is rounded once: through f32 it would be a tie. */
static void doubles_are_rounded_once(void **state) {
    (void)state;
    uint8_t code = 0;
    kiln_dtype_store_f64(KILN_F8E4M3FN, &code, 0, 1.0625 + 0x1p-40);
    assert_int_equal(code, 0x39);
    kiln_dtype_store_f64(KILN_F8E4M3FN, &code, 0, 1.0625);
    assert_int_equal(code, 0x38);
    kiln_dtype_store_f64(KILN_F4E2M1, &code, 0, 1e300);
    assert_int_equal(code, 0x7);
    kiln_dtype_store_i64(KILN_F8E5M2, &code, 0, -3);
    assert_true(kiln_dtype_load_f64(KILN_F8E5M2, &code, 0) == -3);
    assert_int_equal(kiln_dtype_load_i64(KILN_F8E5M2, &code, 0), -3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_have_the_ends_of_their_specification),
        cmocka_unit_test(every_code_survives_a_round_trip),
        cmocka_unit_test(numbers_are_rounded_to_the_nearest),
        cmocka_unit_test(large_numbers_become_what_the_row_says),
        cmocka_unit_test(doubles_are_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
