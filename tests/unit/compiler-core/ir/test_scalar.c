/* One operator on one element, in every class of dtype. */
#include "compiler-core/ir/scalar.h"

#include <math.h>

#include "tests/unit/compiler-core/ir/support.h"

static int64_t apply_int(kiln_expr_op op, kiln_dtype dtype, int64_t a, int64_t b) {
    const kiln_scalar operand[] = {{.i = a}, {.i = b}};
    return kiln_scalar_apply(op, dtype, dtype, operand).i;
}

static double apply_float(kiln_expr_op op, double a, double b) {
    const kiln_scalar operand[] = {{.f = a}, {.f = b}};
    return kiln_scalar_apply(op, KILN_F64, KILN_F64, operand).f;
}

static void integers_wrap_as_their_dtype(void **state) {
    (void)state;
    assert_int_equal(apply_int(KILN_EXPR_ADD, KILN_I8, 127, 1), -128);
    assert_int_equal(apply_int(KILN_EXPR_MUL, KILN_U8, 16, 17), 16);
    assert_int_equal(apply_int(KILN_EXPR_SUB, KILN_U16, 0, 1), 65535);
    assert_int_equal(apply_int(KILN_EXPR_ADD, KILN_I64, INT64_MAX, 1), INT64_MIN);
    assert_int_equal(apply_int(KILN_EXPR_NEG, KILN_I32, INT32_MIN, 0), INT32_MIN);
    assert_int_equal(apply_int(KILN_EXPR_POW, KILN_I32, 3, 4), 81);
    assert_int_equal(apply_int(KILN_EXPR_POW, KILN_I32, 3, -1), 0);
    assert_int_equal(apply_int(KILN_EXPR_POW, KILN_I32, -1, -3), -1);
}

static void division_is_total_and_rounds_as_named(void **state) {
    (void)state;
    assert_int_equal(apply_int(KILN_EXPR_DIV, KILN_I32, -7, 2), -3);
    assert_int_equal(apply_int(KILN_EXPR_REM, KILN_I32, -7, 2), -1);
    assert_int_equal(apply_int(KILN_EXPR_FLOORDIV, KILN_I32, -7, 2), -4);
    assert_int_equal(apply_int(KILN_EXPR_FLOORMOD, KILN_I32, -7, 2), 1);
    assert_int_equal(apply_int(KILN_EXPR_FLOORMOD, KILN_I32, 7, -2), -1);
    assert_int_equal(apply_int(KILN_EXPR_DIV, KILN_I32, 7, 0), 0);
    assert_int_equal(apply_int(KILN_EXPR_REM, KILN_U64, 7, 0), 0);
    assert_int_equal(apply_int(KILN_EXPR_DIV, KILN_I64, INT64_MIN, -1), INT64_MIN);
    assert_true(apply_float(KILN_EXPR_FLOORMOD, -7, 2) == 1);
    assert_true(apply_float(KILN_EXPR_REM, -7, 2) == -1);
}

static void u64_above_the_signed_range_is_compared_and_divided_unsigned(void **state) {
    (void)state;
    const int64_t huge = -1; /* the bits of 2^64 - 1 */
    assert_int_equal(apply_int(KILN_EXPR_MAX, KILN_U64, huge, 5), huge);
    assert_int_equal(apply_int(KILN_EXPR_MIN, KILN_U64, huge, 5), 5);
    assert_int_equal(apply_int(KILN_EXPR_DIV, KILN_U64, huge, 2), INT64_MAX);
    assert_int_equal(apply_int(KILN_EXPR_SHR, KILN_U64, huge, 63), 1);
    const kiln_scalar operand[] = {{.i = 5}, {.i = huge}};
    assert_int_equal(kiln_scalar_apply(KILN_EXPR_LT, KILN_U64, KILN_BOOL, operand).i, 1);
    assert_true(kiln_scalar_apply(KILN_EXPR_CAST, KILN_U64, KILN_F64, &operand[1]).f == 0x1p64);
}

static void shifts_beyond_the_width_give_zero(void **state) {
    (void)state;
    assert_int_equal(apply_int(KILN_EXPR_SHL, KILN_U8, 1, 8), 0);
    assert_int_equal(apply_int(KILN_EXPR_SHL, KILN_U8, 3, 7), 128);
    assert_int_equal(apply_int(KILN_EXPR_SHR, KILN_I8, -2, 1), -1);
    assert_int_equal(apply_int(KILN_EXPR_SHR, KILN_I8, -2, -1), 0);
}

static void ones_are_counted_within_the_width(void **state) {
    (void)state;
    const int64_t none = 0; /* the second operand is not looked at */
    assert_int_equal(apply_int(KILN_EXPR_POPCOUNT, KILN_U8, 0xb1, none), 4);
    assert_int_equal(apply_int(KILN_EXPR_POPCOUNT, KILN_I8, -1, none), 8);
    assert_int_equal(apply_int(KILN_EXPR_POPCOUNT, KILN_I16, -2, none), 15);
    assert_int_equal(apply_int(KILN_EXPR_POPCOUNT, KILN_U32, 0xffffffff, none), 32);
    assert_int_equal(apply_int(KILN_EXPR_POPCOUNT, KILN_I64, -1, none), 64);
    assert_int_equal(apply_int(KILN_EXPR_POPCOUNT, KILN_I64, 0, none), 0);
}

static void minimum_and_maximum_keep_nan(void **state) {
    (void)state;
    assert_true(isnan(apply_float(KILN_EXPR_MIN, NAN, 1)));
    assert_true(isnan(apply_float(KILN_EXPR_MIN, 1, NAN)));
    assert_true(isnan(apply_float(KILN_EXPR_MAX, NAN, 1)));
    assert_true(isnan(apply_float(KILN_EXPR_MAX, 1, NAN)));
}

static void casts_saturate_truncate_and_round(void **state) {
    (void)state;
    kiln_scalar x = {.f = 300.7};
    assert_int_equal(kiln_scalar_apply(KILN_EXPR_CAST, KILN_F32, KILN_U8, &x).i, 255);
    x.f = -1.9;
    assert_int_equal(kiln_scalar_apply(KILN_EXPR_CAST, KILN_F32, KILN_I32, &x).i, -1);
    x.f = NAN;
    assert_int_equal(kiln_scalar_apply(KILN_EXPR_CAST, KILN_F32, KILN_I32, &x).i, 0);
    x.f = 0.1;
    assert_true(kiln_scalar_apply(KILN_EXPR_CAST, KILN_F64, KILN_F32, &x).f == (double)0.1f);
    assert_int_equal(kiln_scalar_apply(KILN_EXPR_CAST, KILN_F64, KILN_BOOL, &x).i, 1);
    x.i = 257;
    assert_int_equal(kiln_scalar_apply(KILN_EXPR_CAST, KILN_I32, KILN_U8, &x).i, 1);
    x.i = 256; /* not zero, although its low byte is */
    assert_int_equal(kiln_scalar_apply(KILN_EXPR_CAST, KILN_I32, KILN_BOOL, &x).i, 1);
}

static void rounding_is_to_even(void **state) {
    (void)state;
    assert_true(apply_float(KILN_EXPR_ROUND, 2.5, 0) == 2);
    assert_true(apply_float(KILN_EXPR_ROUND, 3.5, 0) == 4);
    assert_true(apply_float(KILN_EXPR_ROUND, -0.5, 0) == 0);
}

static void tf32_keeps_ten_bits_of_mantissa(void **state) {
    (void)state;
    const kiln_scalar tie = {.f = 2049}, below = {.f = -2050.75};
    assert_true(kiln_scalar_apply(KILN_EXPR_TF32, KILN_F32, KILN_F32, &tie).f == 2050);
    assert_true(kiln_scalar_apply(KILN_EXPR_TF32, KILN_F32, KILN_F32, &below).f == -2050);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_wrap_as_their_dtype),
        cmocka_unit_test(division_is_total_and_rounds_as_named),
        cmocka_unit_test(u64_above_the_signed_range_is_compared_and_divided_unsigned),
        cmocka_unit_test(shifts_beyond_the_width_give_zero),
        cmocka_unit_test(ones_are_counted_within_the_width),
        cmocka_unit_test(minimum_and_maximum_keep_nan),
        cmocka_unit_test(casts_saturate_truncate_and_round),
        cmocka_unit_test(rounding_is_to_even),
        cmocka_unit_test(tf32_keeps_ten_bits_of_mantissa),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/scalar", tests, NULL, NULL);
}
