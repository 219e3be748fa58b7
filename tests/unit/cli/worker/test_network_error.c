/* Which alternatives a network gives up for its budget. */
#include "cli/worker/network_error.h"

#include "base/macros.h"
#include "tests/support/test.h"

static kiln_network_part part(double error) { return (kiln_network_part){.error = error}; }

static void the_largest_errors_go_first(void **state) {
    (void)state;
    kiln_network_part list[] = {part(1e-6), part(4e-5), part(3e-5)};
    assert_true(kiln_network_take_back(list, KILN_ARRAY_COUNT(list), 2e-4, 1.5e-4));
    assert_true(!list[0].taken_back && list[1].taken_back && !list[2].taken_back);
    /* what is left makes more than was expected: the next one goes, although it ought to do */
    assert_true(kiln_network_take_back(list, KILN_ARRAY_COUNT(list), 1.6e-4, 1.5e-4));
    assert_true(!list[0].taken_back && list[2].taken_back);
}

static void as_many_go_as_are_expected_to_be_needed(void **state) {
    (void)state;
    kiln_network_part list[] = {part(1e-5), part(1e-5), part(1e-5), part(1e-5)};
    assert_true(kiln_network_take_back(list, KILN_ARRAY_COUNT(list), 2e-4, 1e-4));
    uint32_t taken = 0;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(list); i++) taken += list[i].taken_back;
    assert_int_equal(taken, 3); /* of four equal ones one makes half of the error */
}

static void in_the_end_there_is_nothing_to_take_back(void **state) {
    (void)state;
    kiln_network_part list[] = {part(1e-5), part(0)};
    assert_true(kiln_network_take_back(list, KILN_ARRAY_COUNT(list), 1, 1e-9));
    assert_true(list[0].taken_back);
    while (kiln_network_take_back(list, KILN_ARRAY_COUNT(list), 1, 1e-9)) continue;
    assert_true(list[1].taken_back);
    assert_false(kiln_network_take_back(NULL, 0, 1, 1e-9));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_errors_go_first),
        cmocka_unit_test(as_many_go_as_are_expected_to_be_needed),
        cmocka_unit_test(in_the_end_there_is_nothing_to_take_back),
    };
    return cmocka_run_group_tests_name("cli/worker/network_error", tests, NULL, NULL);
}
