#include "base/small_float.h"
#include "base/tensor.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "tests/support/test.h"

static void shapes_count_compare_and_print(void **state) {
    (void)state;
    kiln_shape scalar = {0}, image = {4, {1, 64, 56, 56}}, empty = {2, {3, 0}};
    kiln_strbuf text = {0};
    assert_int_equal(kiln_shape_count(&scalar), 1);
    assert_int_equal(kiln_shape_count(&image), 200704);
    assert_int_equal(kiln_shape_count(&empty), 0);
    assert_true(kiln_shape_equal(&image, &image));
    assert_false(kiln_shape_equal(&image, &empty));
    kiln_shape_print(&image, &text);
    kiln_shape_print(&scalar, &text);
    assert_string_equal(text.data, "[1,64,56,56][]");
    kiln_strbuf_deinit(&text);
}

static void sizes_that_do_not_fit_are_refused(void **state) {
    (void)state;
    size_t bytes = 77;
    const kiln_shape bad[] = {{1, {-1}},
                              {1, {INT64_MAX}},
                              {2, {INT64_MAX, INT64_MAX}},
                              {3, {1 << 20, 1 << 20, 1 << 20}},
                              {1, {((int64_t)1 << 32) + 1}},
                              {2, {0, -1}},
                              {9, {1}}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++)
        expect_error(kiln_shape_bytes(&bad[i], KILN_F32, &bytes), OUT_OF_RANGE, "");
    assert_int_equal(bytes, 77);
    kiln_shape largest = {1, {(int64_t)1 << 32}}, empty = {2, {0, 5}};
    expect_ok(kiln_shape_bytes(&largest, KILN_F32, &bytes));
    assert_int_equal(bytes, KILN_TENSOR_BYTES_MAX);
    expect_ok(kiln_shape_bytes(&empty, KILN_F64, &bytes));
    assert_int_equal(bytes, 0);
}

static void created_tensors_are_zero_and_aligned(void **state) {
    kiln_shape shape = {2, {3, 5}};
    kiln_tensor tensor = kiln_tensor_create(*state, KILN_F32, &shape);
    assert_int_equal((uintptr_t)tensor.data % 64, 0);
    assert_int_equal(kiln_tensor_bytes(&tensor), 60);
    for (size_t i = 0; i < 15; i++) assert_true(((float *)tensor.data)[i] == 0);
}

static void expect_fills(kiln_arena *arena, int first, int end, const char *expected) {
    kiln_strbuf text = {0};
    for (int type = first; type < end; type++)
        for (int fill = KILN_FILL_UNIFORM; fill <= KILN_FILL_POSITIVE; fill++) {
            char hash[KILN_HASH128_TEXT];
            size_t size = 1000 * kiln_dtype_size((kiln_dtype)type);
            void *data = kiln_arena_alloc(arena, size);
            kiln_fill_data(data, (kiln_dtype)type, 1000, 42, (kiln_fill)fill);
            kiln_hash128_print(kiln_hash128_of(data, size), hash);
            kiln_strbuf_printf(&text, "%s %d %s\n", kiln_dtype_name((kiln_dtype)type), fill, hash);
        }
    char hash[KILN_HASH128_TEXT];
    kiln_hash128_print(kiln_hash128_of(text.data, text.size), hash);
    assert_string_equal(hash, expected);
    kiln_strbuf_deinit(&text);
}

/* Boards and reference makers fill alone and must agree for ever, so the bytes are pinned. */
static void fill_never_changes(void **state) {
    expect_fills(*state, 1, KILN_F8E4M3FN, "48442ac8620bcce31b5c030026ef2cdb");
    expect_fills(*state, KILN_F8E4M3FN, KILN_DTYPE_COUNT, "f10301910a4a7080aa4bb2a68bddc8e0");
}

static void fill_depends_on_seed_and_place_only(void **state) {
    (void)state;
    float whole[100], part[10], other[100];
    kiln_fill_data(whole, KILN_F32, 100, 1, KILN_FILL_UNIFORM);
    kiln_fill_data(part, KILN_F32, 10, 1, KILN_FILL_UNIFORM);
    kiln_fill_data(other, KILN_F32, 100, 2, KILN_FILL_UNIFORM);
    assert_memory_equal(whole, part, sizeof part);
    assert_memory_not_equal(whole, other, sizeof other);
}

static void ranges_have_all_of_their_integers_and_no_others(void **state) {
    kiln_arena *arena = *state;
    static const struct {
        kiln_dtype dtype;
        kiln_range range;
        const char *hash; /* boards and reference makers agree for ever */
    } row[] = {
        {KILN_I8, {-1, 1, 2}, "3fa5d44cd9ec0cf5b10b904fdba18262"},
        {KILN_U8, {0, 3, 1}, "55fcf4b2da2a9d11ee45f38182452d92"},
        {KILN_I32, {-70000, 70000, 20000}, "ff54a3d9d4594951a8a4f23349ce9073"},
    };
    enum { COUNT = 1000 };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const kiln_range *range = &row[i].range;
        const size_t size = COUNT * kiln_dtype_size(row[i].dtype);
        void *data = kiln_arena_alloc(arena, size);
        kiln_fill_range(data, row[i].dtype, COUNT, 42, range);
        uint32_t seen = 0;
        for (size_t k = 0; k < COUNT; k++) {
            const int64_t value = kiln_dtype_load_i64(row[i].dtype, data, k);
            assert_true(value >= range->low && value <= range->high);
            assert_int_equal((value - range->low) % range->step, 0);
            seen |= 1u << (value - range->low) / range->step;
        }
        assert_int_equal(seen, (2u << (range->high - range->low) / range->step) - 1);
        char hash[KILN_HASH128_TEXT];
        kiln_hash128_print(kiln_hash128_of(data, size), hash);
        assert_string_equal(hash, row[i].hash);
    }
}

static void ranges_that_a_dtype_cannot_have_do_not_fit(void **state) {
    (void)state;
    static const struct {
        kiln_dtype dtype;
        kiln_range range;
        bool fits;
    } row[] = {
        {KILN_U8, {0, 255, 1}, true},     {KILN_U8, {-1, 3, 1}, false},
        {KILN_U8, {0, 256, 1}, false},    {KILN_I8, {-128, 127, 1}, true},
        {KILN_I8, {1, 0, 1}, false},      {KILN_I8, {0, 1, 0}, false},
        {KILN_I8, {-1, 1, 3}, false},     {KILN_F32, {0, 1, 1}, false},
        {KILN_BOOL, {0, 1, 1}, false},    {KILN_I64, {0, 1, 1}, false},
        {KILN_I32, {0, 65536, 1}, false}, {KILN_U32, {INT64_MIN, INT64_MAX, 1}, false},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        assert_int_equal(kiln_range_fits(&row[i].range, row[i].dtype), row[i].fits);
}

static void fill_stays_in_its_range(void **state) {
    kiln_arena *arena = *state;
    enum { COUNT = 20000 };
    for (int type = 1; type < KILN_DTYPE_COUNT; type++)
        for (int fill = KILN_FILL_UNIFORM; fill <= KILN_FILL_ZERO; fill++) {
            kiln_dtype dtype = (kiln_dtype)type;
            kiln_dtype_kind kind = kiln_dtype_kind_of(dtype);
            void *data = kiln_arena_alloc(arena, COUNT * kiln_dtype_size(dtype));
            kiln_fill_data(data, dtype, COUNT, 7, (kiln_fill)fill);
            const kiln_small_float *small = kiln_small_float_of(dtype);
            const double step = !small ? 0.01 : ldexp(1, -(int)small->fraction_bits);
            double low = 1e9, high = -1e9;
            for (size_t i = 0; i < COUNT; i++) {
                double value = kiln_dtype_load_f64(dtype, data, i);
                assert_true(kind != KILN_KIND_FLOAT || value == 0 || fabs(value) >= 0x1p-24 ||
                            fill == KILN_FILL_ZERO);
                low = fmin(low, value), high = fmax(high, value);
            }
            if (fill == KILN_FILL_ZERO)
                assert_true(low == (dtype == KILN_F8E8M0 ? 0x1p-127 : 0) && high == low);
            else if (dtype == KILN_F8E8M0)
                assert_true(low == (fill == KILN_FILL_UNIFORM ? 0x1p-8 : 0.5) &&
                            high == (fill == KILN_FILL_UNIFORM ? 0.5 : 1));
            else if (kind == KILN_KIND_BOOL)
                assert_true(low == (fill == KILN_FILL_UNIFORM ? 0 : 1) && high == 1);
            else if (kind == KILN_KIND_FLOAT && fill == KILN_FILL_UNIFORM)
                assert_true(low >= -1 && low < -1 + step && high < 1 && high >= 1 - step);
            else if (kind == KILN_KIND_FLOAT)
                assert_true(low >= 0.5 && low < 0.5 + step && high < 1.5 && high >= 1.5 - step);
            else if (fill == KILN_FILL_POSITIVE)
                assert_true(low == 1 && high == 15);
            else
                assert_true(low == (kind == KILN_KIND_INT ? -128 : 0) && high == 127);
        }
}

static kiln_compare compared(kiln_arena *arena, const float *actual, const float *expected,
                             int64_t count, double rtol, double atol) {
    kiln_shape shape = {1, {count}};
    kiln_tensor a = kiln_tensor_create(arena, KILN_F32, &shape),
                e = kiln_tensor_create(arena, KILN_F32, &shape);
    memcpy(a.data, actual, kiln_tensor_bytes(&a));
    memcpy(e.data, expected, kiln_tensor_bytes(&e));
    return kiln_tensor_compare(&a, &e, rtol, atol);
}

static void comparison_counts_what_is_beyond_tolerance(void **state) {
    const float expected[] = {1, 100, 0, -4}, actual[] = {1.0005f, 100.2f, 1e-8f, -4};
    kiln_compare c = compared(*state, actual, expected, 4, 1e-3, 1e-7);
    assert_int_equal(c.mismatches, 1);
    assert_int_equal(c.first_index, 1);
    assert_true(fabs(c.max_abs - 0.2) < 1e-4 && c.max_ref == 100 && c.cosine > 0.999999);
    c = compared(*state, actual, expected, 4, 1e-2, 1e-7);
    assert_int_equal(c.mismatches, 0);
    c = compared(*state, expected, expected, 4, 0, 0);
    assert_int_equal(c.mismatches, 0);
}

static void not_a_number_and_infinity_match_only_themselves(void **state) {
    const float expected[] = {NAN, INFINITY, -INFINITY, 1, 1, NAN, INFINITY};
    const float same[] = {NAN, INFINITY, -INFINITY, 1, 1, NAN, INFINITY},
                other[] = {1, -INFINITY, 1, NAN, INFINITY, INFINITY, 1};
    assert_int_equal(compared(*state, same, expected, 7, 0, 0).mismatches, 0);
    assert_int_equal(compared(*state, other, expected, 7, 1e9, 1e9).mismatches, 7);
}

static void integers_are_compared_exactly(void **state) {
    kiln_arena *arena = *state;
    kiln_shape shape = {1, {2}};
    kiln_tensor a = kiln_tensor_create(arena, KILN_I64, &shape),
                e = kiln_tensor_create(arena, KILN_I64, &shape);
    ((int64_t *)a.data)[1] = ((int64_t)1 << 60) + 1; /* one apart, equal as doubles */
    ((int64_t *)e.data)[1] = (int64_t)1 << 60;
    kiln_compare c = kiln_tensor_compare(&a, &e, 0, 0);
    assert_int_equal(c.mismatches, 1);
    assert_int_equal(c.first_index, 1);
    assert_true(c.max_abs == 1);
    assert_int_equal(kiln_tensor_compare(&a, &e, 0, 1).mismatches, 0);
}

static void empty_and_zero_tensors_are_alike(void **state) {
    const float zero[] = {0, 0};
    kiln_compare c = compared(*state, zero, zero, 0, 0, 0);
    assert_true(c.mismatches == 0 && c.cosine == 1);
    c = compared(*state, zero, zero, 2, 0, 0);
    assert_true(c.mismatches == 0 && c.cosine == 1);
    const float one[] = {1, 0};
    assert_true(compared(*state, one, zero, 2, 0, 2).cosine == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_count_compare_and_print),
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
        test_with_arena(created_tensors_are_zero_and_aligned),
        test_with_arena(fill_never_changes),
        cmocka_unit_test(fill_depends_on_seed_and_place_only),
        test_with_arena(ranges_have_all_of_their_integers_and_no_others),
        cmocka_unit_test(ranges_that_a_dtype_cannot_have_do_not_fit),
        test_with_arena(fill_stays_in_its_range),
        test_with_arena(comparison_counts_what_is_beyond_tolerance),
        test_with_arena(not_a_number_and_infinity_match_only_themselves),
        test_with_arena(integers_are_compared_exactly),
        test_with_arena(empty_and_zero_tensors_are_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
