/* The board's speed against its own past. */
#include "rpc-server/drift.h"
#include "tests/support/test.h"

static void take(kiln_drift *drift, uint32_t count, double arithmetic_ns, double memory_ns) {
    for (uint32_t i = 0; i < count; i++)
        kiln_drift_take(drift, &(kiln_pace){arithmetic_ns, memory_ns});
}

static kiln_drift_ratio ratio(const kiln_drift *drift, double arithmetic_ns, double memory_ns) {
    const kiln_pace usual = kiln_drift_usual(drift);
    return kiln_drift_ratio_of(&(kiln_pace){arithmetic_ns, memory_ns}, &usual);
}

static void nothing_is_said_before_the_board_is_known(void **state) {
    (void)state;
    kiln_drift drift = {0};
    take(&drift, KILN_DRIFT_KNOWN - 1, 100, 10);
    assert_true(ratio(&drift, 100, 10).arithmetic == 0);
    assert_true(ratio(&drift, 100, 10).memory == 0);
    take(&drift, 1, 100, 10);
    assert_true(ratio(&drift, 100, 10).arithmetic == 1);
    assert_true(ratio(&drift, 100, 10).memory == 1);
}

static void the_parts_drift_by_themselves(void **state) {
    (void)state;
    kiln_drift drift = {0};
    take(&drift, 20, 100, 10);
    const kiln_drift_ratio now = ratio(&drift, 125, 8);
    assert_true(now.arithmetic == 1.25 && now.memory == 0.8);
}

static void a_neighbour_that_is_mostly_there_is_not_usual(void **state) {
    (void)state;
    kiln_drift drift = {0};
    for (int i = 0; i < 8; i++) {
        take(&drift, 7, 150, 15);
        take(&drift, 1, 100, 10);
    }
    assert_true(ratio(&drift, 100, 10).arithmetic == 1);
    assert_true(ratio(&drift, 150, 15).memory == 1.5);
}

static void what_stays_becomes_usual(void **state) {
    (void)state;
    kiln_drift drift = {0};
    take(&drift, 100, 100, 10);
    take(&drift, KILN_DRIFT_WINDOW, 125, 10);
    assert_true(ratio(&drift, 125, 10).arithmetic == 1);
    take(&drift, KILN_DRIFT_WINDOW / KILN_DRIFT_FASTER, 100, 10);
    assert_true(ratio(&drift, 100, 10).arithmetic == 1); /* faster is believed sooner */
}

static void one_odd_reading_is_not_usual(void **state) {
    (void)state;
    kiln_drift drift = {0};
    take(&drift, 40, 100, 10);
    take(&drift, 1, 1, 1);
    assert_true(ratio(&drift, 100, 10).arithmetic == 1);
}

static void samples_are_out_of_band_by_drift_or_throttling(void **state) {
    (void)state;
    const kiln_msg_env cool = {0}, hot = {.throttle_bits = 4}, hotter = {.throttle_count = 1};
    const kiln_drift_ratio unknown = {0}, same = {1, 1}, near = {1.04, 1.2}, slow = {1.06, 1},
                           fast = {0.94, 1}, crowded = {1, 1.3};
    assert_false(kiln_drift_is_out(&unknown, &cool, &cool));
    assert_false(kiln_drift_is_out(&near, &cool, &cool));
    assert_true(kiln_drift_is_out(&slow, &cool, &cool));
    assert_true(kiln_drift_is_out(&fast, &cool, &cool));
    assert_true(kiln_drift_is_out(&crowded, &cool, &cool));
    assert_true(kiln_drift_is_out(&same, &cool, &hot));
    assert_true(kiln_drift_is_out(&same, &hot, &cool));
    assert_true(kiln_drift_is_out(&same, &cool, &hotter));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_said_before_the_board_is_known),
        cmocka_unit_test(the_parts_drift_by_themselves),
        cmocka_unit_test(a_neighbour_that_is_mostly_there_is_not_usual),
        cmocka_unit_test(what_stays_becomes_usual),
        cmocka_unit_test(one_odd_reading_is_not_usual),
        cmocka_unit_test(samples_are_out_of_band_by_drift_or_throttling),
    };
    return cmocka_run_group_tests_name("rpc-server/drift", tests, NULL, NULL);
}
