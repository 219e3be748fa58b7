#include "rpc-server/health.h"

#include <string.h>

#include "base/clock.h"
#include "tests/support/test.h"

#define S KILN_NS_PER_S

static int set_up(void **state) {
    static kiln_health health;
    kiln_health_init(&health, KILN_HEALTH_CHECK_NS, 5 * S);
    *state = &health;
    return 0;
}

static int tear_down(void **state) {
    kiln_health_deinit(*state);
    return 0;
}

static void check(kiln_health *h, const char *failure, uint64_t now_ns) {
    assert_true(kiln_health_wants_check(h, now_ns));
    kiln_health_check_begun(h, now_ns);
    assert_false(kiln_health_wants_check(h, now_ns) || kiln_health_may_start(h));
    kiln_health_checked(h, failure, now_ns);
}

static void nothing_is_measured_before_the_first_check(void **state) {
    kiln_health *h = *state;
    assert_false(kiln_health_may_start(h) || kiln_health_is_sick(h));
    check(h, NULL, 5 * S);
    assert_true(kiln_health_may_start(h));
    assert_false(kiln_health_wants_check(h, 5 * S));
}

static void a_kill_is_followed_by_a_check(void **state) {
    kiln_health *h = *state;
    check(h, NULL, 5 * S);
    kiln_health_killed(h, 7 * S);
    assert_false(kiln_health_may_start(h));
    check(h, NULL, 7 * S);
    assert_true(kiln_health_may_start(h));
}

static void faults_in_a_row_are_followed_by_a_check_and_good_trials_are_not(void **state) {
    kiln_health *h = *state;
    check(h, NULL, 5 * S);
    for (uint32_t i = 1; i < KILN_HEALTH_FAULTS; i++)
        kiln_health_ended(h, KILN_OUTCOME_CRASH, KILN_BLAME_CANDIDATE, 6 * S);
    kiln_health_ended(h, KILN_OUTCOME_WRONG_RESULT, KILN_BLAME_CANDIDATE, 6 * S);
    for (uint32_t i = 1; i < KILN_HEALTH_FAULTS; i++)
        kiln_health_ended(h, KILN_OUTCOME_INFRA, KILN_BLAME_BOARD, 6 * S);
    kiln_health_ended(h, KILN_OUTCOME_INFRA, KILN_BLAME_INFRA, 6 * S); /* not of this board */
    assert_true(kiln_health_may_start(h));
    kiln_health_ended(h, KILN_OUTCOME_TIMEOUT, KILN_BLAME_CANDIDATE, 6 * S);
    assert_false(kiln_health_may_start(h));
    check(h, NULL, 6 * S);
    assert_true(kiln_health_may_start(h));
}

static void a_board_that_fails_is_sick_until_it_passes_and_tries_ever_more_slowly(void **state) {
    kiln_health *h = *state;
    uint64_t now = 5 * S, wait = KILN_HEALTH_RETRY_NS;
    for (int i = 0; i < 12; i++) {
        check(h, "one bit is wrong", now);
        assert_false(kiln_health_may_start(h));
        assert_int_equal(kiln_health_is_sick(h), i > 0); /* one may be a neighbour's doing */
        if (i > 0) assert_string_equal(kiln_health_text(h), "one bit is wrong");
        assert_false(kiln_health_wants_check(h, now + wait - 1));
        assert_true(kiln_health_next_ns(h, now) <= now + wait);
        now += wait;
        wait = wait * 2 < KILN_HEALTH_RETRY_MAX_NS ? wait * 2 : KILN_HEALTH_RETRY_MAX_NS;
    }
    check(h, NULL, now);
    assert_true(kiln_health_may_start(h));
    assert_false(kiln_health_wants_check(h, now + KILN_HEALTH_PERIOD_NS - 1));
    assert_true(kiln_health_wants_check(h, now + KILN_HEALTH_PERIOD_NS)); /* now and then */
}

static void a_check_over_its_deadline_is_a_stray_until_it_is_gone(void **state) {
    kiln_health *h = *state;
    kiln_health_check_begun(h, 5 * S);
    assert_false(kiln_health_check_is_over(h, 5 * S + KILN_HEALTH_CHECK_NS - 1));
    assert_int_equal(kiln_health_next_ns(h, 5 * S), 5 * S + KILN_HEALTH_CHECK_NS);
    assert_true(kiln_health_check_is_over(h, 5 * S + KILN_HEALTH_CHECK_NS));
    assert_true(kiln_health_is_sick(h));
    assert_false(kiln_health_check_is_over(h, 20 * S)); /* it is told to die once */
    kiln_health_checked(h, "signal 9", 20 * S);
    assert_false(kiln_health_may_start(h));
    check(h, NULL, 20 * S + KILN_HEALTH_RETRY_NS);
    assert_false(kiln_health_is_sick(h));
}

static void a_stray_that_stays_asks_for_a_power_cycle_but_not_all_the_time(void **state) {
    kiln_health *h = *state;
    check(h, NULL, 5 * S);
    kiln_health_stray(h, true, 10 * S);
    assert_false(kiln_health_wants_check(h, 100 * S)); /* not beside a stray */
    assert_false(kiln_health_wants_cycle(h, 10 * S + KILN_HEALTH_STRAY_NS - 1));
    assert_true(kiln_health_wants_cycle(h, 10 * S + KILN_HEALTH_STRAY_NS));
    kiln_health_cycled(h, 40 * S);
    assert_false(kiln_health_wants_cycle(h, 40 * S + KILN_HEALTH_CYCLE_NS - 1));
    assert_int_equal(kiln_health_next_ns(h, 40 * S), 40 * S + KILN_HEALTH_CYCLE_NS);
    assert_true(kiln_health_wants_cycle(h, 40 * S + KILN_HEALTH_CYCLE_NS));
    kiln_health_stray(h, false, 700 * S);
    assert_false(kiln_health_wants_cycle(h, 3000 * S));
}

static void failed_checks_ask_for_a_power_cycle(void **state) {
    kiln_health *h = *state;
    uint64_t now = 5 * S;
    for (uint32_t i = 0; i < KILN_HEALTH_CHECKS; i++) {
        assert_false(kiln_health_wants_cycle(h, now));
        check(h, "slow", now);
        now += KILN_HEALTH_RETRY_MAX_NS;
    }
    assert_true(kiln_health_wants_cycle(h, now));
}

static void readings_count_by_themselves(void **state) {
    kiln_health *h = *state;
    check(h, NULL, 5 * S);
    kiln_health_reading(h, "too hot");
    assert_true(kiln_health_is_sick(h));
    kiln_health_reading(h, NULL);
    assert_true(kiln_health_may_start(h));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_measured_before_the_first_check),
        TEST(a_kill_is_followed_by_a_check),
        TEST(faults_in_a_row_are_followed_by_a_check_and_good_trials_are_not),
        TEST(a_board_that_fails_is_sick_until_it_passes_and_tries_ever_more_slowly),
        TEST(a_check_over_its_deadline_is_a_stray_until_it_is_gone),
        TEST(a_stray_that_stays_asks_for_a_power_cycle_but_not_all_the_time),
        TEST(failed_checks_ask_for_a_power_cycle),
        TEST(readings_count_by_themselves),
    };
    return cmocka_run_group_tests_name("rpc-server/health", tests, NULL, NULL);
}
