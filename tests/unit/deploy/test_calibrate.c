/* What is made of made-up readings. */
#include "deploy/runtime/calibrate.h"

#include <math.h>

#include "tests/support/test.h"

#define HZ 2e9 /* 2 cycles a nanosecond */

/* `rounds` alike, of `ns` for `work`. */
static void put(kiln_calibrate_readings *r, kiln_figure figure, double work, double ns,
                uint32_t rounds) {
    r->of[figure].work = work;
    for (uint32_t i = 0; i < rounds; i++) r->of[figure].ns[r->of[figure].count++] = ns;
}

static kiln_calibrate_readings clocked(void) {
    kiln_calibrate_readings r = {0};
    put(&r, KILN_FIGURE_CLOCK, 1000, 500, 5);
    put(&r, KILN_FIGURE_WIDE_CLOCK, 1000, 500, 5);
    return r;
}

/* Latencies by size of a processor with these caches; the last is memory's. */
static void put_curve(kiln_calibrate_readings *r, const double *bytes, const double *ns,
                      uint32_t levels) {
    for (double octave = 16384; octave < 67108864; octave *= 2)
        for (int quarter = 4; quarter < 8; quarter++) {
            const double size = octave * quarter / 4;
            uint32_t level = 0;
            while (level < levels && size > bytes[level]) level++;
            r->point_bytes[r->point_count] = size;
            r->point_ns[r->point_count++] = ns[level];
        }
}

static void work_over_time_counts_in_cycles(void **state) {
    (void)state;
    kiln_calibrate_readings r = clocked();
    put(&r, KILN_FIGURE_VECTOR, 1200, 300, 5);   /* of 600 cycles */
    put(&r, KILN_FIGURE_LATENCY, 100, 200, 5);   /* 400 cycles */
    put(&r, KILN_FIGURE_DIVIDE, 100, 250, 5);    /* 500 cycles */
    put(&r, KILN_FIGURE_L2_RATE, 32000, 500, 5); /* 1000 cycles */
    const kiln_calibrate_report report = kiln_calibrate_settle(&r);
    const double *figure = report.calibration.figure;
    assert_true(figure[KILN_FIGURE_CLOCK] == HZ && figure[KILN_FIGURE_VECTOR] == 2 &&
                figure[KILN_FIGURE_LATENCY] == 4 && figure[KILN_FIGURE_DIVIDE] == 5 &&
                figure[KILN_FIGURE_L2_RATE] == 32);
    assert_int_equal(report.doubt[KILN_FIGURE_VECTOR], KILN_CALIBRATE_SURE);
    assert_int_equal(report.doubt[KILN_FIGURE_STORES], KILN_CALIBRATE_ABSENT);
    assert_true(figure[KILN_FIGURE_STORES] == 0);
}

/* Vectors may make a core slow; cycles are those of the slow clock. */
static void vectors_count_by_their_own_clock(void **state) {
    (void)state;
    kiln_calibrate_readings r = {0};
    put(&r, KILN_FIGURE_CLOCK, 1000, 250, 5);
    put(&r, KILN_FIGURE_WIDE_CLOCK, 1000, 500, 5);
    put(&r, KILN_FIGURE_VECTOR, 1200, 300, 5);
    put(&r, KILN_FIGURE_FORK, 10, 250, 5);
    const kiln_calibrate_report report = kiln_calibrate_settle(&r);
    assert_true(report.calibration.figure[KILN_FIGURE_VECTOR] == 2);
    assert_true(report.calibration.figure[KILN_FIGURE_FORK] == 100); /* of 4 GHz */
}

static void disturbed_rounds_do_not_count(void **state) {
    (void)state;
    kiln_calibrate_readings r = clocked();
    put(&r, KILN_FIGURE_VECTOR, 1200, 900, 30);
    put(&r, KILN_FIGURE_VECTOR, 1200, 302, 2);
    put(&r, KILN_FIGURE_VECTOR, 1200, 300, 1);
    const kiln_calibrate_report report = kiln_calibrate_settle(&r);
    assert_true(report.calibration.figure[KILN_FIGURE_VECTOR] == 2);
}

static void a_figure_that_scatters_is_left_out(void **state) {
    (void)state;
    kiln_calibrate_readings r = clocked();
    for (uint32_t i = 0; i < 20; i++) put(&r, KILN_FIGURE_VECTOR, 1200, 300 * pow(1.2, i), 1);
    const kiln_calibrate_report report = kiln_calibrate_settle(&r);
    assert_true(report.calibration.figure[KILN_FIGURE_VECTOR] == 0);
    assert_int_equal(report.doubt[KILN_FIGURE_VECTOR], KILN_CALIBRATE_SCATTERS);
    expect_contains(kiln_calibrate_doubt_text(report.doubt[KILN_FIGURE_VECTOR]), "scatter");
}

static void what_no_processor_has_is_left_out(void **state) {
    (void)state;
    kiln_calibrate_readings r = clocked();
    put(&r, KILN_FIGURE_VECTOR, 1200, 10, 5);
    put(&r, KILN_FIGURE_DIVIDE, 1, 1e9, 5);
    const kiln_calibrate_report report = kiln_calibrate_settle(&r);
    assert_true(report.calibration.figure[KILN_FIGURE_VECTOR] == 0);
    assert_int_equal(report.doubt[KILN_FIGURE_VECTOR], KILN_CALIBRATE_IMPLAUSIBLE);
    assert_int_equal(report.doubt[KILN_FIGURE_DIVIDE], KILN_CALIBRATE_IMPLAUSIBLE);
    assert_true(kiln_figures_is_plausible(&report.calibration));
}

static void without_a_clock_nothing_is_known(void **state) {
    (void)state;
    kiln_calibrate_readings r = {0};
    put(&r, KILN_FIGURE_VECTOR, 1200, 300, 5);
    const kiln_calibrate_report report = kiln_calibrate_settle(&r);
    assert_true(kiln_figures_is_empty(&report.calibration));
}

/* The same processor gives the same schedules, whatever a reading's last digits are. */
static void figures_are_those_of_processors(void **state) {
    (void)state;
    kiln_calibrate_readings r = clocked();
    put(&r, KILN_FIGURE_VECTOR, 1200, 311, 5);
    put(&r, KILN_FIGURE_LOADS, 1200, 289, 5);
    put(&r, KILN_FIGURE_LATENCY, 100, 207, 5);
    put(&r, KILN_FIGURE_DIVIDE, 100, 251, 5);
    put(&r, KILN_FIGURE_STORES, 340, 500, 5); /* 0.34: no half is near */
    const kiln_calibrate_report report = kiln_calibrate_settle(&r);
    const double *figure = report.calibration.figure;
    assert_true(figure[KILN_FIGURE_VECTOR] == 2 && figure[KILN_FIGURE_LOADS] == 2 &&
                figure[KILN_FIGURE_LATENCY] == 4 && figure[KILN_FIGURE_DIVIDE] == 5);
    assert_true(fabs(figure[KILN_FIGURE_STORES] - 0.34) < 1e-9);
}

static void caches_end_where_latency_rises(void **state) {
    (void)state;
    static const double bytes[] = {48 << 10, 1 << 20, 12 << 20}, ns[] = {2, 7, 24, 120};
    kiln_calibrate_readings r = clocked();
    put_curve(&r, bytes, ns, 3);
    const kiln_calibrate_report report = kiln_calibrate_settle(&r);
    const double *figure = report.calibration.figure;
    assert_true(figure[KILN_FIGURE_L1_BYTES] == 48 << 10 &&
                figure[KILN_FIGURE_L2_BYTES] == 1 << 20 &&
                figure[KILN_FIGURE_L3_BYTES] == 12 << 20);
    assert_true(figure[KILN_FIGURE_L1_LATENCY] == 4 && figure[KILN_FIGURE_L2_LATENCY] == 14 &&
                figure[KILN_FIGURE_L3_LATENCY] == 48 && figure[KILN_FIGURE_MEMORY_LATENCY] == 240);
}

static void two_caches_are_two(void **state) {
    (void)state;
    static const double bytes[] = {32 << 10, 512 << 10}, ns[] = {2, 8, 90};
    kiln_calibrate_readings r = clocked();
    put_curve(&r, bytes, ns, 2);
    const kiln_calibrate_report report = kiln_calibrate_settle(&r);
    assert_true(report.calibration.figure[KILN_FIGURE_L1_BYTES] == 32 << 10 &&
                report.calibration.figure[KILN_FIGURE_L2_BYTES] == 512 << 10 &&
                report.calibration.figure[KILN_FIGURE_L3_BYTES] == 0);
}

/* A neighbour lengthens some points. */
static void bumps_are_no_caches(void **state) {
    (void)state;
    static const double bytes[] = {32 << 10, 512 << 10, 8 << 20}, ns[] = {2, 7, 24, 120};
    kiln_calibrate_readings r = clocked();
    put_curve(&r, bytes, ns, 3);
    r.point_ns[1] *= 5;
    r.point_ns[8] *= 3;
    r.point_ns[17] *= 4;
    const kiln_calibrate_report report = kiln_calibrate_settle(&r);
    assert_true(report.calibration.figure[KILN_FIGURE_L1_BYTES] == 32 << 10 &&
                report.calibration.figure[KILN_FIGURE_L2_BYTES] == 512 << 10 &&
                report.calibration.figure[KILN_FIGURE_L3_BYTES] == 8 << 20);
}

static void what_the_system_tells_counts_where_it_is_near(void **state) {
    (void)state;
    static const double bytes[] = {48 << 10, 896 << 10, 4 << 20}, ns[] = {2, 7, 24, 120};
    kiln_calibrate_readings r = clocked();
    put_curve(&r, bytes, ns, 3);
    r.told_bytes[1] = 1 << 20;  /* whose pages share sets */
    r.told_bytes[2] = 32 << 20; /* of which others use the rest */
    const kiln_calibrate_report report = kiln_calibrate_settle(&r);
    assert_true(report.calibration.figure[KILN_FIGURE_L1_BYTES] == 48 << 10 &&
                report.calibration.figure[KILN_FIGURE_L2_BYTES] == 1 << 20 &&
                report.calibration.figure[KILN_FIGURE_L3_BYTES] == 0);
    assert_int_equal(report.doubt[KILN_FIGURE_L3_BYTES], KILN_CALIBRATE_DISPUTED);
}

static void no_curve_no_caches(void **state) {
    (void)state;
    kiln_calibrate_readings r = clocked();
    assert_true(kiln_calibrate_settle(&r).calibration.figure[KILN_FIGURE_L1_BYTES] == 0);
    r.point_count = 1;
    r.point_bytes[0] = 16384;
    r.point_ns[0] = 2;
    assert_true(kiln_calibrate_settle(&r).calibration.figure[KILN_FIGURE_L1_BYTES] == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_over_time_counts_in_cycles),
        cmocka_unit_test(vectors_count_by_their_own_clock),
        cmocka_unit_test(disturbed_rounds_do_not_count),
        cmocka_unit_test(a_figure_that_scatters_is_left_out),
        cmocka_unit_test(what_no_processor_has_is_left_out),
        cmocka_unit_test(without_a_clock_nothing_is_known),
        cmocka_unit_test(figures_are_those_of_processors),
        cmocka_unit_test(caches_end_where_latency_rises),
        cmocka_unit_test(two_caches_are_two),
        cmocka_unit_test(bumps_are_no_caches),
        cmocka_unit_test(what_the_system_tells_counts_where_it_is_near),
        cmocka_unit_test(no_curve_no_caches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
