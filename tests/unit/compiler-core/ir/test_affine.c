/* Intervals and linear forms. */
#include "compiler-core/ir/affine.h"
#include "tests/unit/compiler-core/ir/support.h"

static void sums_of_independent_variables_have_exact_bounds(void **state) {
    kiln_program *p = *state;
    kiln_expr x = var(p, "x", 10);
    kiln_expr y = var(p, "y", 4);
    kiln_interval b = kiln_expr_bounds(p, plus(p, sub(p, times(p, x, 3), y), 5), NULL);
    assert_int_equal(b.low, 2);
    assert_int_equal(b.high, 32);
    b = kiln_expr_bounds(p, sub(p, add(p, x, y), x), NULL);
    assert_int_equal(b.low, 0);
    assert_int_equal(b.high, 3);
}

static void loads_lie_in_the_range_of_their_buffer(void **state) {
    kiln_program *p = parse(*state, "program p\ninput x: u8[4] range(0, 3)\ninput z: u8[4]\n"
                                    "output y: i64[4]\noutput u: i64[4]\n"
                                    "block b(i:4): y[i] = min(i64(x[i]) + 1, 4)\n"
                                    "block c(i:4): u[i] = min(i64(z[i]) + 1, 4)\n");
    expect_text(p, kiln_expr_simplify(p, p->block.data[1].value, NULL), "i64(x[\"b:i\"]) + 1");
    expect_text(p, kiln_expr_simplify(p, p->block.data[2].value, NULL),
                "min(i64(z[\"c:i\"]) + 1, 4)");
}

static void affine_forms_list_terms_and_coefficients(void **state) {
    kiln_program *p = *state;
    kiln_expr x = var(p, "x", 10);
    kiln_expr y = var(p, "y", 10);
    kiln_affine a;
    assert_true(kiln_affine_of(p, plus(p, add(p, times(p, add(p, x, y), 3), x), 7), NULL, &a));
    assert_int_equal(a.constant, 7);
    assert_int_equal(a.term_count, 2);
    assert_int_equal(kiln_affine_coefficient(p, &a, 1), 4);
    assert_int_equal(kiln_affine_coefficient(p, &a, 2), 3);
    expect_text(p, kiln_affine_to_expr(p, &a), "x*4 + y*3 + 7");
}

/* Each sum uses the one before twice: taken apart one by one, the last would be 2^60 summands. */
static void shared_sums_are_taken_apart_once(void **state) {
    kiln_program *p = *state;
    kiln_expr x = var(p, "x", 3), e = x, before = x;
    for (uint32_t i = 0; i < 60; i++) e = add(p, e, e);
    kiln_interval b = kiln_expr_bounds(p, e, NULL);
    assert_int_equal(b.low, 0);
    assert_int_equal(b.high, INT64_C(2) << 60);
    e = add(p, x, x);
    for (uint32_t i = 0; i < 80; i++) { /* Fibonacci's numbers */
        kiln_expr sum = add(p, e, before);
        before = e;
        e = sum;
    }
    kiln_affine a;
    assert_true(kiln_affine_of(p, e, NULL, &a));
    assert_int_equal(a.term_count, 1);
    assert_int_equal(a.coefficient[0], INT64_C(99194853094755497)); /* the 83rd */
}

static void intervals_that_overflow_are_unknown(void **state) {
    (void)state;
    const kiln_interval unknown = {INT64_MIN, INT64_MAX}, small = {-3, 5},
                        large = {0, INT64_MAX - 2};
    kiln_interval sum = kiln_interval_add(small, small), tripled = kiln_interval_scale(small, -3);
    assert_int_equal(sum.low, -6);
    assert_int_equal(sum.high, 10);
    assert_int_equal(tripled.low, -15);
    assert_int_equal(tripled.high, 9);
    assert_false(kiln_interval_is_bounded(kiln_interval_add(unknown, small)));
    assert_false(kiln_interval_is_bounded(kiln_interval_add(large, small)));
    assert_false(kiln_interval_is_bounded(kiln_interval_scale(unknown, 2)));
    assert_false(kiln_interval_is_bounded(kiln_interval_scale(large, 2)));
    assert_false(kiln_interval_is_bounded(kiln_interval_scale(small, INT64_MIN)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(sums_of_independent_variables_have_exact_bounds),
        PROGRAM_TEST(loads_lie_in_the_range_of_their_buffer),
        PROGRAM_TEST(affine_forms_list_terms_and_coefficients),
        PROGRAM_TEST(shared_sums_are_taken_apart_once),
        cmocka_unit_test(intervals_that_overflow_are_unknown),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/affine", tests, NULL, NULL);
}
