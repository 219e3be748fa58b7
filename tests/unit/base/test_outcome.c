#include "base/outcome.h"

#include "tests/support/test.h"

static void every_outcome_and_blame_is_found_by_its_name(void **state) {
    (void)state;
    for (int i = 0; i < KILN_OUTCOME_COUNT; i++) {
        kiln_outcome found = KILN_OUTCOME_COUNT;
        assert_true(kiln_outcome_find(kiln_str_from(kiln_outcome_name((kiln_outcome)i)), &found));
        assert_int_equal(found, i);
    }
    for (int i = 0; i < KILN_BLAME_COUNT; i++) {
        kiln_blame found = KILN_BLAME_COUNT;
        assert_true(kiln_blame_find(kiln_str_from(kiln_blame_name((kiln_blame)i)), &found));
        assert_int_equal(found, i);
    }
}

static void unknown_names_are_not_found(void **state) {
    (void)state;
    kiln_outcome outcome;
    kiln_blame blame;
    assert_false(kiln_outcome_find(KILN_STR(""), &outcome));
    assert_false(kiln_outcome_find(KILN_STR("OK"), &outcome));
    assert_false(kiln_blame_find(KILN_STR("someone"), &blame));
}

static void only_the_candidates_own_faults_train_the_model(void **state) {
    (void)state;
    for (int i = 0; i < KILN_OUTCOME_COUNT; i++) {
        kiln_blame blame = kiln_outcome_blame((kiln_outcome)i);
        assert_int_equal(kiln_outcome_trains((kiln_outcome)i),
                         blame == KILN_BLAME_NONE || blame == KILN_BLAME_CANDIDATE);
    }
    assert_int_equal(kiln_outcome_blame(KILN_OUTCOME_BOARD_LOST), KILN_BLAME_BOARD);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_outcome_and_blame_is_found_by_its_name),
        cmocka_unit_test(unknown_names_are_not_found),
        cmocka_unit_test(only_the_candidates_own_faults_train_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
