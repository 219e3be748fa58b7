#include "base/dtype.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "tests/support/test.h"

static const kiln_dtype all[] = {
#define X(name, text, size, kind, ctype, number) KILN_##name,
#include "base/dtype.def"
#undef X
};

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void every_type_is_found_by_name_and_onnx_number(void **state) {
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(all); i++) {
        kiln_dtype found = KILN_DTYPE_NONE;
        assert_true(kiln_dtype_find(kiln_str_from(kiln_dtype_name(all[i])), &found));
        assert_int_equal(found, all[i]);
        assert_int_equal(kiln_dtype_is_float(all[i]),
                         kiln_dtype_kind_of(all[i]) == KILN_KIND_FLOAT);
    }
}

static void narrow_floats_are_computed_in_f32(void **state) {
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(all); i++) {
        const bool narrow = kiln_dtype_is_float(all[i]) && kiln_dtype_size(all[i]) < 4;
        assert_int_equal(kiln_dtype_computed(all[i]), narrow ? KILN_F32 : all[i]);
    }
}

static void unknown_names_are_not_found(void **state) {
    (void)state;
    kiln_dtype found = KILN_F32;
    assert_false(kiln_dtype_find(KILN_STR(""), &found));
    assert_false(kiln_dtype_find(KILN_STR("f3"), &found));
    assert_false(kiln_dtype_find(KILN_STR("F32"), &found));
    assert_int_equal(found, KILN_F32);
}

static void every_half_survives_a_round_trip(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        uint16_t half = (uint16_t)bits;
        float f16 = kiln_f16_to_f32(half), bf16 = kiln_bf16_to_f32(half);
        if (isnan(f16))
            assert_true(isnan(kiln_f16_to_f32(kiln_f32_to_f16(f16))));
        else
            assert_int_equal(kiln_f32_to_f16(f16), half);
        if (isnan(bf16))
            assert_true(isnan(kiln_bf16_to_f32(kiln_f32_to_bf16(bf16))));
        else
            assert_int_equal(kiln_f32_to_bf16(bf16), half);
    }
}

/* The nearest f16 by search over all of them, ties to the even one. */
static uint16_t nearest_f16(float value) {
    uint16_t best = 0;
    double best_distance = (double)INFINITY;
    for (uint32_t bits = 0; bits < 0x7c00; bits++) {
        double distance = fabs((double)kiln_f16_to_f32((uint16_t)bits) - (double)value);
        bool better = distance < best_distance || (distance == best_distance && bits % 2 == 0);
        if (better) best = (uint16_t)bits, best_distance = distance;
    }
    return best;
}

static void f16_rounds_to_nearest_even(void **state) {
    (void)state;
    const float value[] = {0x1p-25f,     0x1.000002p-25f, 0x1.8p-24f, 0x1.ffcp-15f,
                           0x1.ffep-15f, 0x1.002p0f,      0x1.006p0f, 0x1.0021p0f,
                           0.1f,         3.14159265f,     65503.9f,   2047.5f};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(value); i++) {
        assert_int_equal(kiln_f32_to_f16(value[i]), nearest_f16(value[i]));
        assert_int_equal(kiln_f32_to_f16(-value[i]), nearest_f16(value[i]) | 0x8000);
    }
}

static void halves_overflow_to_infinity(void **state) {
    (void)state;
    assert_int_equal(kiln_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(kiln_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(kiln_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(kiln_f32_to_bf16(float_of(0x7f7f7fff)), 0x7f7f);
    assert_int_equal(kiln_f32_to_bf16(float_of(0x7f7f8000)), 0x7f80);
    assert_true(isnan(kiln_f16_to_f32(kiln_f32_to_f16(float_of(0x7f800001)))));
    assert_true(isnan(kiln_bf16_to_f32(kiln_f32_to_bf16(float_of(0x7f800001)))));
}

/* To nearest, ties away from zero; the largest numbers overflow, and NaN stays NaN. */
static void tf32_rounds_ties_away(void **state) {
    (void)state;
    static const struct {
        uint32_t from, to;
    } row[] = {
        {0x3f800fff, 0x3f800000}, {0x3f801000, 0x3f802000}, {0xbf801000, 0xbf802000},
        {0x3f803000, 0x3f804000}, {0x3f802000, 0x3f802000}, {0x3fffffff, 0x40000000},
        {0x00001000, 0x00002000}, {0x80000fff, 0x80000000}, {0x7f7fefff, 0x7f7fe000},
        {0x7f7ff000, 0x7f800000}, {0x7f800000, 0x7f800000}, {0xff800000, 0xff800000},
    };
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const float got = kiln_f32_to_tf32(float_of(row[i].from)), want = float_of(row[i].to);
        assert_memory_equal(&got, &want, sizeof got);
    }
    assert_true(isnan(kiln_f32_to_tf32(float_of(0x7fffffff))));
}

static void doubles_are_rounded_to_halves_once(void **state) {
    (void)state;
    uint16_t half = 0;
    double just_above_tie =
        1.0 + 0x1p-11 + 0x1p-40; /* rounding to float first would make it a tie */
    kiln_dtype_store_f64(KILN_F16, &half, 0, just_above_tie);
    assert_int_equal(half, 0x3c01);
    kiln_dtype_store_f64(KILN_F16, &half, 0, -(1.0 + 3 * 0x1p-11 - 0x1p-40));
    assert_int_equal(half, 0xbc01);
}

static void floats_saturate_when_stored_as_integers(void **state) {
    (void)state;
    static const struct {
        kiln_dtype type;
        double value;
        int64_t stored;
    } row[] = {
        {KILN_I8, 127.9, 127},       {KILN_I8, 1e30, 127},         {KILN_I8, -128.9, -128},
        {KILN_I8, -1e30, -128},      {KILN_I8, -1.9, -1},          {KILN_U8, -1, 0},
        {KILN_U8, 256, 255},         {KILN_I16, 40000, 32767},     {KILN_U16, 70000, 65535},
        {KILN_I32, 3e9, INT32_MAX},  {KILN_I32, -3e9, INT32_MIN},  {KILN_U32, 5e9, UINT32_MAX},
        {KILN_I64, 1e19, INT64_MAX}, {KILN_I64, -1e19, INT64_MIN}, {KILN_U64, 1e20, -1},
        {KILN_U64, -5, 0},           {KILN_BOOL, 0.5, 1},          {KILN_BOOL, 0, 0},
        {KILN_I32, (double)NAN, 0},  {KILN_U64, (double)NAN, 0},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        uint64_t place = 0;
        kiln_dtype_store_f64(row[i].type, &place, 0, row[i].value);
        assert_int_equal(kiln_dtype_load_i64(row[i].type, &place, 0), row[i].stored);
    }
}

static void integers_wrap_when_stored_as_smaller_ones(void **state) {
    (void)state;
    uint64_t place = 0;
    kiln_dtype_store_i64(KILN_I8, &place, 0, 200);
    assert_int_equal(kiln_dtype_load_i64(KILN_I8, &place, 0), -56);
    kiln_dtype_store_i64(KILN_U8, &place, 0, -1);
    assert_int_equal(kiln_dtype_load_i64(KILN_U8, &place, 0), 255);
    kiln_dtype_store_i64(KILN_BOOL, &place, 0, 256);
    assert_int_equal(kiln_dtype_load_i64(KILN_BOOL, &place, 0), 1);
}

static void each_element_has_its_own_place(void **state) {
    (void)state;
    for (size_t t = 0; t < KILN_ARRAY_COUNT(all); t++) {
        unsigned char data[8 * 3 + 1] = {0};                 /* misaligned on purpose */
        const int64_t other = all[t] == KILN_F8E8M0 ? 2 : 0; /* which has no 0 */
        for (size_t i = 0; i < 3; i++) kiln_dtype_store_i64(all[t], data + 1, i, i % 2 ? 1 : other);
        for (size_t i = 0; i < 3; i++) {
            const int64_t stored = i % 2 ? 1 : other;
            assert_int_equal(kiln_dtype_load_i64(all[t], data + 1, i), stored);
            assert_true(kiln_dtype_load_f64(all[t], data + 1, i) == (double)stored);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_found_by_name_and_onnx_number),
        cmocka_unit_test(narrow_floats_are_computed_in_f32),
        cmocka_unit_test(unknown_names_are_not_found),
        cmocka_unit_test(every_half_survives_a_round_trip),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(halves_overflow_to_infinity),
        cmocka_unit_test(tf32_rounds_ties_away),
        cmocka_unit_test(doubles_are_rounded_to_halves_once),
        cmocka_unit_test(floats_saturate_when_stored_as_integers),
        cmocka_unit_test(integers_wrap_when_stored_as_smaller_ones),
        cmocka_unit_test(each_element_has_its_own_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
