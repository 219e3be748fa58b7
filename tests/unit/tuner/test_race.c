/* Who is stopped early. */
#include "tests/support/test.h"
#include "tuner/race.h"

static void nobody_is_stopped_before_enough_is_known(void **state) {
    (void)state;
    kiln_tuner_race race = {0};
    for (uint32_t i = 1; i < KILN_TUNER_RACE_RANK; i++) {
        kiln_tuner_race_take(&race, 100);
        assert_true(kiln_tuner_race_bound_ns(&race) == 0);
    }
    kiln_tuner_race_take(&race, 0); /* no result */
    assert_true(kiln_tuner_race_bound_ns(&race) == 0);
}

static void the_bound_is_the_fastest_ranks_last(void **state) {
    (void)state;
    kiln_tuner_race race = {0};
    const double result[] = {900, 500, 800, 100, 700, 600, 300};
    for (size_t i = 0; i < 7; i++) kiln_tuner_race_take(&race, result[i]);
    assert_true(race.fastest_ns[0] == 100 && race.fastest_ns[4] == 700);
    assert_true(kiln_tuner_race_bound_ns(&race) == 700);
}

static void what_is_near_the_best_is_measured_to_its_end(void **state) {
    (void)state;
    kiln_tuner_race race = {0};
    for (int i = 0; i < 20; i++) kiln_tuner_race_take(&race, 100 + i);
    assert_true(kiln_tuner_race_bound_ns(&race) == 100 * KILN_TUNER_RACE_FACTOR);
}

static void nobody_races_against_a_time_that_was_not_confirmed(void **state) {
    (void)state;
    kiln_tuner_race race = {0};
    for (int i = 0; i < 5; i++) kiln_tuner_race_take(&race, 100 + 100 * i);
    kiln_tuner_race_judge(&race, 280);
    assert_true(race.fastest_ns[0] == 280 && race.fastest_ns[1] == 280);
    assert_true(race.fastest_ns[2] == 300 && race.fastest_ns[4] == 500);
    assert_true(kiln_tuner_race_bound_ns(&race) == 280 * KILN_TUNER_RACE_FACTOR);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_stopped_before_enough_is_known),
        cmocka_unit_test(the_bound_is_the_fastest_ranks_last),
        cmocka_unit_test(what_is_near_the_best_is_measured_to_its_end),
        cmocka_unit_test(nobody_races_against_a_time_that_was_not_confirmed),
    };
    return cmocka_run_group_tests_name("tuner/race", tests, NULL, NULL);
}
