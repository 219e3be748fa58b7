/* The board's speed against its own past. */
#include "rpc-server/drift.h"
#include "tests/support/test.h"

static double after(kiln_drift *drift, uint32_t count, double speed) {
    double ratio = 0;
    for (uint32_t i = 0; i < count; i++) ratio = kiln_drift_take(drift, speed);
    return ratio;
}

static void nothing_is_said_before_the_board_is_known(void **state) {
    (void)state;
    kiln_drift drift = {0};
    assert_true(after(&drift, KILN_DRIFT_KNOWN - 1, 100) == 0);
    assert_true(after(&drift, 1, 100) == 1);
}

static void a_slower_clock_shows_at_once_and_becomes_usual(void **state) {
    (void)state;
    kiln_drift drift = {0};
    after(&drift, 100, 100);
    assert_true(kiln_drift_take(&drift, 80) == 1.25);
    assert_true(after(&drift, KILN_DRIFT_WINDOW, 80) == 1);
}

static void one_odd_reading_moves_no_other(void **state) {
    (void)state;
    kiln_drift drift = {0};
    after(&drift, 10, 100);
    kiln_drift_take(&drift, 1);
    assert_true(kiln_drift_take(&drift, 100) == 1);
}

static void samples_are_out_of_band_by_drift_or_throttling(void **state) {
    (void)state;
    const kiln_msg_env cool = {.throttle_count = 7}, hot = {.throttle_bits = 4},
                       hotter = {.throttle_count = 8};
    assert_false(kiln_drift_is_out(0, &cool, &cool));
    assert_false(kiln_drift_is_out(1.04, &cool, &cool));
    assert_true(kiln_drift_is_out(1.06, &cool, &cool));
    assert_true(kiln_drift_is_out(0.94, &cool, &cool));
    assert_true(kiln_drift_is_out(1, &cool, &hot));
    assert_true(kiln_drift_is_out(1, &hot, &cool));
    assert_true(kiln_drift_is_out(1, &cool, &hotter));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_said_before_the_board_is_known),
        cmocka_unit_test(a_slower_clock_shows_at_once_and_becomes_usual),
        cmocka_unit_test(one_odd_reading_moves_no_other),
        cmocka_unit_test(samples_are_out_of_band_by_drift_or_throttling),
    };
    return cmocka_run_group_tests_name("rpc-server/drift", tests, NULL, NULL);
}
