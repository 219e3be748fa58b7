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
    kiln_accuracy wide = kiln_accuracy_default(KILN_PRECISION_F32);
    kiln_accuracy narrow = kiln_accuracy_default(KILN_PRECISION_BF16);
    assert_true(wide.error_max == 1e-4 && narrow.error_max == 2e-2);
    assert_true(!wide.exact && !narrow.exact);
    assert_int_equal(narrow.precision, KILN_PRECISION_BF16);
    assert_true(kiln_accuracy_default(KILN_PRECISION_AUTO).error_max == wide.error_max);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(precisions_are_found_by_name),
        cmocka_unit_test(narrow_precisions_bring_a_wider_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
