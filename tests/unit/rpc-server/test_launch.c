/* What the launcher decides (docs/decisions/0153-rolling-upgrades.md). */
#include "rpc-server/launch.h"

#include <string.h>

#include "base/clock.h"
#include "tests/support/test.h"

#define S KILN_NS_PER_S

/* A server that asked for upgrade 7 with 30 s. */
static kiln_launch asked(void) {
    kiln_launch launch = {0};
    kiln_launch_ask(&launch, 7, 30 * S);
    return launch;
}

/* Its new version is on trial since second 100. */
static kiln_launch on_trial(void) {
    kiln_launch launch = asked();
    assert_int_equal(kiln_launch_ended(&launch, "ended"), KILN_LAUNCH_INSTALL);
    assert_int_equal(kiln_launch_installed(&launch, 100 * S, NULL), KILN_LAUNCH_TRY);
    return launch;
}

static void a_server_that_ends_by_itself_ends_the_launcher(void **state) {
    (void)state;
    kiln_launch launch = {0};
    assert_int_equal(kiln_launch_next_ns(&launch), UINT64_MAX);
    assert_int_equal(kiln_launch_ended(&launch, "ended with code 1"), KILN_LAUNCH_EXIT);
}

static void a_confirmed_version_is_committed_and_runs_on(void **state) {
    (void)state;
    kiln_launch launch = on_trial();
    assert_int_equal(kiln_launch_next_ns(&launch), 130 * S);
    assert_int_equal(kiln_launch_confirmed(&launch), KILN_LAUNCH_COMMIT);
    assert_int_equal(kiln_launch_committed(&launch, NULL), KILN_LAUNCH_TELL);
    assert_string_equal(launch.failure, "");
    assert_int_equal(kiln_launch_next_ns(&launch), UINT64_MAX);
    assert_int_equal(kiln_launch_tick(&launch, 1000 * S), KILN_LAUNCH_NOTHING);
    assert_int_equal(kiln_launch_confirmed(&launch), KILN_LAUNCH_NOTHING); /* repeated */
    assert_int_equal(kiln_launch_ended(&launch, "ended"), KILN_LAUNCH_EXIT);
}

static void a_release_that_cannot_be_installed_leaves_the_old_version(void **state) {
    (void)state;
    kiln_launch launch = asked();
    assert_int_equal(kiln_launch_ended(&launch, "ended"), KILN_LAUNCH_INSTALL);
    assert_int_equal(kiln_launch_installed(&launch, 0, "no space left"), KILN_LAUNCH_RUN);
    assert_string_equal(launch.failure, "no space left");
    assert_int_equal(launch.number, 7);
    assert_int_equal(kiln_launch_ended(&launch, "ended"), KILN_LAUNCH_EXIT);
}

static void a_version_that_ends_or_does_not_start_is_given_up(void **state) {
    (void)state;
    kiln_launch launch = on_trial();
    assert_int_equal(kiln_launch_ended(&launch, "was ended by signal 11"), KILN_LAUNCH_RUN);
    assert_string_equal(launch.failure,
                        "the new version was ended by signal 11 before it had confirmed");
    assert_int_equal(launch.state, KILN_LAUNCH_RUNNING);
}

static void a_version_that_is_late_is_killed(void **state) {
    (void)state;
    kiln_launch launch = on_trial();
    assert_int_equal(kiln_launch_tick(&launch, 130 * S - 1), KILN_LAUNCH_NOTHING);
    assert_int_equal(kiln_launch_tick(&launch, 130 * S), KILN_LAUNCH_KILL);
    assert_int_equal(kiln_launch_tick(&launch, 131 * S), KILN_LAUNCH_NOTHING);
    assert_int_equal(kiln_launch_confirmed(&launch), KILN_LAUNCH_NOTHING); /* too late */
    assert_int_equal(kiln_launch_ended(&launch, "was ended by signal 9"), KILN_LAUNCH_RUN);
    assert_non_null(strstr(launch.failure, "within 30 s"));
}

static void a_version_that_gives_up_is_killed_for_its_own_reason(void **state) {
    (void)state;
    kiln_launch launch = on_trial();
    assert_int_equal(kiln_launch_gave_up(&launch, "one bit is wrong"), KILN_LAUNCH_KILL);
    assert_int_equal(kiln_launch_gave_up(&launch, "again"), KILN_LAUNCH_NOTHING);
    assert_int_equal(kiln_launch_ended(&launch, "was ended by signal 9"), KILN_LAUNCH_RUN);
    assert_string_equal(launch.failure, "one bit is wrong");
}

static void a_version_that_cannot_be_put_in_its_place_is_given_up(void **state) {
    (void)state;
    kiln_launch launch = on_trial();
    assert_int_equal(kiln_launch_confirmed(&launch), KILN_LAUNCH_COMMIT);
    assert_int_equal(kiln_launch_committed(&launch, "read-only"), KILN_LAUNCH_KILL);
    assert_int_equal(kiln_launch_ended(&launch, "was ended by signal 9"), KILN_LAUNCH_RUN);
    assert_string_equal(launch.failure, "read-only");
}

static void a_version_on_trial_cannot_ask_for_another(void **state) {
    (void)state;
    kiln_launch launch = on_trial();
    kiln_launch_ask(&launch, 8, S);
    assert_int_equal(launch.number, 7);
    assert_int_equal(kiln_launch_ended(&launch, "ended with code 0"), KILN_LAUNCH_RUN);
}

static void who_runs_the_old_version_may_ask_again(void **state) {
    (void)state;
    kiln_launch launch = on_trial();
    kiln_launch_ended(&launch, "ended with code 1");
    assert_int_equal(kiln_launch_gave_up(&launch, "not on trial"), KILN_LAUNCH_NOTHING);
    kiln_launch_ask(&launch, 8, S);
    assert_string_equal(launch.failure, "");
    assert_int_equal(kiln_launch_ended(&launch, "ended"), KILN_LAUNCH_INSTALL);
}

static void nothing_is_started_once_it_stops(void **state) {
    (void)state;
    kiln_launch launch = asked();
    kiln_launch_stop(&launch);
    assert_int_equal(kiln_launch_ended(&launch, "ended"), KILN_LAUNCH_EXIT);
    launch = asked();
    kiln_launch_ended(&launch, "ended");
    kiln_launch_stop(&launch);
    assert_int_equal(kiln_launch_installed(&launch, 0, NULL), KILN_LAUNCH_EXIT);
    launch = on_trial();
    kiln_launch_stop(&launch);
    assert_int_equal(kiln_launch_ended(&launch, "ended"), KILN_LAUNCH_EXIT);
    launch = on_trial();
    kiln_launch_gave_up(&launch, "why");
    kiln_launch_stop(&launch);
    assert_int_equal(kiln_launch_ended(&launch, "ended"), KILN_LAUNCH_EXIT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_ends_by_itself_ends_the_launcher),
        cmocka_unit_test(a_confirmed_version_is_committed_and_runs_on),
        cmocka_unit_test(a_release_that_cannot_be_installed_leaves_the_old_version),
        cmocka_unit_test(a_version_that_ends_or_does_not_start_is_given_up),
        cmocka_unit_test(a_version_that_is_late_is_killed),
        cmocka_unit_test(a_version_that_gives_up_is_killed_for_its_own_reason),
        cmocka_unit_test(a_version_that_cannot_be_put_in_its_place_is_given_up),
        cmocka_unit_test(a_version_on_trial_cannot_ask_for_another),
        cmocka_unit_test(who_runs_the_old_version_may_ask_again),
        cmocka_unit_test(nothing_is_started_once_it_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
