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

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(sums_of_independent_variables_have_exact_bounds),
        PROGRAM_TEST(affine_forms_list_terms_and_coefficients),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/affine", tests, NULL, NULL);
}
