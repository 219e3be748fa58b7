/* Precisions and the budgets that come with them. */
#include "base/accuracy.h"

#include "tests/support/test.h"

static void precisions_are_found_by_name(void **state) {
    (void)state;
    for (uint32_t i = 0; i < KILN_PRECISION_COUNT; i++) {
        const char *name = kiln_precision_name((kiln_precision)i);
        assert_int_equal(kiln_precision_find(kiln_str_from(name)), i);
    }
    assert_int_equal(kiln_precision_find(KILN_STR("f64")), KILN_PRECISION_COUNT);
    assert_int_equal(kiln_precision_find(KILN_STR("")), KILN_PRECISION_COUNT);
}

static void narrow_precisions_bring_a_wider_budget(void **state) {
    (void)state;
    kiln_accuracy accuracy = {0};
    assert_true(kiln_accuracy_error_max(&accuracy) == 1e-4);
    accuracy.precision = KILN_PRECISION_BF16;
    assert_true(kiln_accuracy_error_max(&accuracy) == 2e-2);
    accuracy.error_max = 1e-3;
    assert_true(kiln_accuracy_error_max(&accuracy) == 1e-3);
    accuracy = (kiln_accuracy){.precision = KILN_PRECISION_AUTO};
    assert_true(kiln_accuracy_error_max(&accuracy) == 1e-4);
}

static void budgets_are_told_in_words(void **state) {
    (void)state;
    kiln_strbuf text = {0};
    kiln_accuracy_print(&(kiln_accuracy){0}, &text);
    assert_string_equal(text.data, "f32, errors up to 0.0001");
    kiln_strbuf_reset(&text);
    kiln_accuracy_print(&(kiln_accuracy){.exact = true}, &text);
    assert_string_equal(text.data, "f32, direct sums only");
    kiln_strbuf_deinit(&text);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(precisions_are_found_by_name),
        cmocka_unit_test(narrow_precisions_bring_a_wider_budget),
        cmocka_unit_test(budgets_are_told_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
