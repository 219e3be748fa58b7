/* Expressions: one id per structure, exact folding, rewriting. */
#include <math.h>

#include "compiler-core/ir/ir_text.h"
#include "tests/unit/compiler-core/ir/support.h"

static kiln_expr load(kiln_program *p, const char *name, kiln_dtype dtype) {
    const kiln_shape scalar = {.rank = 0};
    return kiln_expr_load(
        p, kiln_buffer_create(p, kiln_str_from(name), dtype, KILN_ROLE_INPUT, &scalar), NULL, 0);
}

static void equal_structure_has_one_id(void **state) {
    kiln_program *p = *state;
    kiln_expr x = var(p, "x", 10);
    kiln_expr y = var(p, "y", 10);
    assert_int_equal(add(p, times(p, x, 3), y), add(p, times(p, x, 3), y));
    assert_int_not_equal(add(p, x, y), add(p, y, x));
    assert_int_equal(kiln_expr_float(p, KILN_F32, NAN), kiln_expr_float(p, KILN_F32, -NAN));
    assert_int_not_equal(kiln_expr_float(p, KILN_F32, 0.0), kiln_expr_float(p, KILN_F32, -0.0));
    assert_int_not_equal(kiln_expr_int(p, KILN_I32, 1), kiln_expr_int(p, KILN_I64, 1));
}

static void ids_stay_the_same_when_the_table_grows(void **state) {
    kiln_program *p = *state;
    kiln_expr x = var(p, "x", 10);
    kiln_expr first[1000];
    for (int64_t i = 0; i < 1000; i++) first[i] = times(p, x, i + 2);
    for (int64_t i = 0; i < 1000; i++) assert_int_equal(times(p, x, i + 2), first[i]);
}

static void integer_identities_fold(void **state) {
    kiln_program *p = *state;
    kiln_expr x = var(p, "x", 10);
    kiln_expr zero = kiln_expr_index(p, 0);
    assert_int_equal(plus(p, x, 0), x);
    assert_int_equal(times(p, x, 1), x);
    assert_int_equal(times(p, x, 0), zero);
    assert_int_equal(sub(p, x, x), zero);
    assert_int_equal(floordiv(p, x, 1), x);
    assert_int_equal(floormod(p, x, 1), zero);
    expect_text(p, plus(p, plus(p, x, 3), 4), "x + 7");
    expect_text(p, times(p, times(p, x, 3), 4), "x*12");
    expect_text(p, add(p, kiln_expr_index(p, 3), x), "x + 3");
    expect_text(p, sub(p, x, kiln_expr_index(p, 3)), "x - 3");
    expect_text(p, compare(p, KILN_EXPR_LE, x, x), "true");
}

static void float_identities_fold_only_where_exact(void **state) {
    kiln_program *p = *state;
    kiln_expr x = load(p, "x", KILN_F32);
    kiln_expr zero = kiln_expr_float(p, KILN_F32, 0);
    kiln_expr one = kiln_expr_float(p, KILN_F32, 1);
    assert_int_equal(kiln_expr_binary(p, KILN_EXPR_MUL, x, one), x);
    assert_int_equal(kiln_expr_binary(p, KILN_EXPR_SUB, x, zero), x);
    assert_int_equal(add(p, x, kiln_expr_float(p, KILN_F32, -0.0)), x);
    expect_text(p, add(p, x, zero), "x[] + 0.0");                           /* -0 + 0 is +0 */
    expect_text(p, kiln_expr_binary(p, KILN_EXPR_MUL, x, zero), "x[]*0.0"); /* NaN, inf, -0 */
    expect_text(p, sub(p, x, x), "x[] - x[]");                              /* NaN, inf */
    expect_text(p, compare(p, KILN_EXPR_EQ, x, x), "x[] == x[]");           /* NaN */
    expect_text(p, add(p, add(p, x, one), one), "x[] + 1.0 + 1.0");         /* rounds twice */
    expect_text(p, compare(p, KILN_EXPR_LT, x, x), "false");
}

static void constants_fold_in_their_dtype(void **state) {
    kiln_program *p = *state;
    kiln_expr big = kiln_expr_int(p, KILN_U8, 200);
    expect_text(p, add(p, big, big), "144u8");
    expect_text(p, kiln_expr_cast(p, KILN_U8, kiln_expr_float(p, KILN_F32, 300)), "255u8");
    expect_text(p, kiln_expr_float(p, KILN_F16, 0.1), "0.1f16");
    expect_text(p, kiln_expr_float(p, KILN_F32, 16777217.0), "16777216.0");
    expect_text(p, kiln_expr_unary(p, KILN_EXPR_TF32, kiln_expr_float(p, KILN_F32, 2049)),
                "2.05e+03");
    expect_text(p, kiln_expr_unary(p, KILN_EXPR_SQRT, kiln_expr_float(p, KILN_F64, 2)),
                "1.4142135623730951f64");
}

static void select_and_double_negation_fold(void **state) {
    kiln_program *p = *state;
    kiln_expr x = load(p, "x", KILN_F32);
    kiln_expr y = load(p, "y", KILN_F32);
    kiln_expr yes = kiln_expr_int(p, KILN_BOOL, 1);
    kiln_expr unknown = compare(p, KILN_EXPR_LT, x, y);
    assert_int_equal(kiln_expr_select(p, yes, x, y), x);
    assert_int_equal(kiln_expr_select(p, unknown, x, x), x);
    assert_int_equal(kiln_expr_unary(p, KILN_EXPR_NEG, kiln_expr_unary(p, KILN_EXPR_NEG, x)), x);
    assert_int_equal(kiln_expr_binary(p, KILN_EXPR_AND, unknown, yes), unknown);
    assert_int_equal(kiln_expr_cast(p, KILN_F32, x), x);
}

static void type_errors_are_told(void **state) {
    kiln_program *p = *state;
    kiln_expr x = load(p, "x", KILN_F32);
    kiln_expr i = load(p, "i", KILN_I32);
    kiln_expr b = load(p, "b", KILN_BOOL);
    const kiln_expr mixed[] = {x, i};
    const kiln_expr bools[] = {b, b};
    const kiln_expr selects[] = {x, x, x};
    assert_non_null(kiln_expr_type_error(p, KILN_EXPR_ADD, mixed, 2));
    assert_non_null(kiln_expr_type_error(p, KILN_EXPR_ADD, bools, 2));
    assert_non_null(kiln_expr_type_error(p, KILN_EXPR_ADD, &x, 1));
    assert_non_null(kiln_expr_type_error(p, KILN_EXPR_EXP, &i, 1));
    assert_non_null(kiln_expr_type_error(p, KILN_EXPR_TF32, &i, 1));
    assert_null(kiln_expr_type_error(p, KILN_EXPR_TF32, &x, 1));
    assert_non_null(kiln_expr_type_error(p, KILN_EXPR_NOT, &x, 1));
    assert_non_null(kiln_expr_type_error(p, KILN_EXPR_SELECT, selects, 3));
    assert_null(kiln_expr_type_error(p, KILN_EXPR_AND, bools, 2));
    assert_null(kiln_expr_type_error(p, KILN_EXPR_MAX, bools, 2));
}

/* x -> y and y -> x at once: a replacement is not replaced again. */
static void substitution_is_simultaneous(void **state) {
    kiln_program *p = *state;
    kiln_expr x = var(p, "x", 10);
    kiln_expr y = var(p, "y", 10);
    const kiln_expr swap[] = {0, y, x};
    expect_text(p, kiln_expr_substitute(p, add(p, times(p, x, 2), y), swap), "y*2 + x");
    const kiln_expr zero_and_y[] = {0, kiln_expr_index(p, 0), times(p, y, 2)};
    expect_text(p, kiln_expr_substitute(p, add(p, y, x), zero_and_y), "y*2");
}

static void shared_parts_are_visited_once(void **state) {
    kiln_program *p = *state;
    kiln_expr e = load(p, "x", KILN_F32);
    for (int i = 0; i < 60; i++) e = kiln_expr_binary(p, KILN_EXPR_MUL, e, e); /* 2^60 paths */
    const kiln_expr nothing[] = {0, 0};
    kiln_var_create(p, KILN_STR("v"), 0, 1);
    assert_int_equal(kiln_expr_substitute(p, e, nothing), e);
    assert_false(kiln_expr_uses_var(p, e, 1));
}

static void count_load(kiln_program *p, kiln_expr e, void *context) {
    assert_int_equal(kiln_expr_get(p, e)->op, KILN_EXPR_LOAD);
    ++*(int *)context;
}

static void loads_are_visited_once_each(void **state) {
    kiln_program *p = *state;
    kiln_expr x = load(p, "x", KILN_F32);
    kiln_expr y = load(p, "y", KILN_F32);
    int count = 0;
    kiln_expr_visit_loads(p, add(p, add(p, x, y), x), 0, count_load, &count);
    assert_int_equal(count, 2);
    kiln_expr_visit_loads(p, add(p, add(p, x, y), x), kiln_expr_get(p, y)->payload.id, count_load,
                          &count);
    assert_int_equal(count, 3);
}

static void combiners_have_identities(void **state) {
    kiln_program *p = *state;
    expect_text(p, kiln_expr_identity(p, KILN_COMBINE_MAX, KILN_F32), "-inf");
    expect_text(p, kiln_expr_identity(p, KILN_COMBINE_MIN, KILN_I8), "127i8");
    expect_text(p, kiln_expr_identity(p, KILN_COMBINE_MAX, KILN_U8), "0u8");
    expect_text(p, kiln_expr_identity(p, KILN_COMBINE_PROD, KILN_F64), "1.0f64");
    expect_text(p, kiln_expr_identity(p, KILN_COMBINE_MIN, KILN_I64), "9223372036854775807");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(equal_structure_has_one_id),
        PROGRAM_TEST(ids_stay_the_same_when_the_table_grows),
        PROGRAM_TEST(integer_identities_fold),
        PROGRAM_TEST(float_identities_fold_only_where_exact),
        PROGRAM_TEST(constants_fold_in_their_dtype),
        PROGRAM_TEST(select_and_double_negation_fold),
        PROGRAM_TEST(type_errors_are_told),
        PROGRAM_TEST(substitution_is_simultaneous),
        PROGRAM_TEST(shared_parts_are_visited_once),
        PROGRAM_TEST(loads_are_visited_once_each),
        PROGRAM_TEST(combiners_have_identities),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/expr", tests, NULL, NULL);
}
