/* Measuring itself: what is left of it is plausible whatever else runs. */
#include "deploy/runtime/calibrate.h"
#include "tests/support/test.h"

static void what_was_measured_is_plausible(void **state) {
    (void)state;
    const kiln_calibrate_readings r = kiln_calibrate_measure();
    const kiln_calibrate_report report = kiln_calibrate_settle(&r);
    assert_true(r.of[KILN_FIGURE_CLOCK].count > 0 && r.of[KILN_FIGURE_CLOCK].work > 0);
    for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++) {
        for (uint32_t k = 0; k < r.of[i].count; k++)
            assert_true(r.of[i].ns[k] >= 1 && r.of[i].work > 0);
        assert_int_equal(report.calibration.figure[i] != 0, report.doubt[i] == KILN_CALIBRATE_SURE);
    }
    for (uint32_t i = 1; i < r.point_count; i++)
        assert_true(r.point_bytes[i] > r.point_bytes[i - 1]);
    assert_true(kiln_figures_is_plausible(&report.calibration));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_measured_is_plausible)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
