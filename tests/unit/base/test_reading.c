/* What is made of samples, on made-up ones with fixed seeds. */
#include "base/reading.h"

#include <math.h>

#include "base/rand.h"
#include "tests/support/test.h"

#define PEAK 100e9
#define COUNT 20

/* A kernel that takes `ns` at the share `share` of the peak. */
static kiln_samples samples_of(const double *ns, size_t count, double share,
                               kiln_drift_ratio drift) {
    return (kiln_samples){
        .ns = ns, .count = count, .drift = drift, .flops = share * PEAK * 1e-3, .peak_flops = PEAK};
}

static void fill(double *ns, double value) {
    for (int i = 0; i < COUNT; i++) ns[i] = value;
}

static void an_undisturbed_figure_is_the_samples(void **state) {
    (void)state;
    double ns[COUNT];
    fill(ns, 1e6);
    const kiln_samples known = samples_of(ns, COUNT, 0.5, (kiln_drift_ratio){1, 1});
    const kiln_samples unknown = samples_of(ns, COUNT, 0.5, (kiln_drift_ratio){0, 0});
    assert_true(kiln_reading_of(&known).time_ns == 1e6);
    assert_true(kiln_reading_of(&unknown).time_ns == 1e6);
    assert_true(fabs(kiln_reading_of(&known).doubt - 2.1 * KILN_READING_QUIET_SPREAD) < 1e-12);
}

static void samples_that_a_neighbour_lengthened_do_not_count(void **state) {
    (void)state;
    double ns[COUNT];
    fill(ns, 1e6);
    for (int i = 0; i < 12; i++) ns[i] *= 1.3; /* most of them */
    const kiln_samples samples = samples_of(ns, COUNT, 0.5, (kiln_drift_ratio){1, 1});
    const kiln_reading reading = kiln_reading_of(&samples);
    assert_true(reading.time_ns == 1e6);
    assert_true(reading.doubt > 0.1); /* but nobody is sure of it */
}

/* Kernels bound by arithmetic, by memory and by both, on boards that drifted in either part. */
static void corrected_figures_are_within_one_percent_of_the_truth(void **state) {
    (void)state;
    kiln_rand rand;
    kiln_rand_init(&rand, 7);
    for (int round = 0; round < 2000; round++) {
        const double share = kiln_rand_unit(&rand);
        const kiln_drift_ratio drift = {0.96 + 0.088 * kiln_rand_unit(&rand),
                                        0.85 + 0.39 * kiln_rand_unit(&rand)};
        const double slower = pow(drift.arithmetic, share) * pow(drift.memory, 1 - share);
        double ns[COUNT];
        for (int i = 0; i < COUNT; i++)
            ns[i] = 1e6 * slower * (1 + 0.004 * (kiln_rand_unit(&rand) - 0.5));
        /* The share is known by the measured time only. */
        const kiln_samples samples = samples_of(ns, COUNT, share, drift);
        const kiln_reading reading = kiln_reading_of(&samples);
        assert_false(kiln_reading_is_out(&drift));
        if (fabs(log(slower)) < 0.05) assert_true(fabs(reading.time_ns / 1e6 - 1) < 0.01);
        assert_true(fabs(log(reading.time_ns / 1e6)) < reading.doubt);
    }
}

static void beyond_the_band_is_marked_and_doubted(void **state) {
    (void)state;
    double ns[COUNT];
    fill(ns, 1.4e6);
    const kiln_drift_ratio slow = {1.5, 1.1}, fast = {0.9, 1}, crowded = {1, 1.5},
                           near = {1.04, 1.2};
    assert_true(kiln_reading_is_out(&slow) && kiln_reading_is_out(&fast));
    assert_true(kiln_reading_is_out(&crowded));
    assert_false(kiln_reading_is_out(&near));
    const kiln_samples samples = samples_of(ns, COUNT, 1.4, slow);
    const kiln_reading reading = kiln_reading_of(&samples);
    /* To the edge of the band, and the rest is doubt: the truth is somewhere between. */
    assert_true(reading.time_ns < 1.4e6 && reading.time_ns > 1.3e6);
    assert_true(reading.time_ns * exp(-reading.doubt) < 1.4e6 / 1.5);
}

static void a_kernel_without_flops_is_memorys(void **state) {
    (void)state;
    double ns[COUNT];
    fill(ns, 1.2e6);
    kiln_samples samples = samples_of(ns, COUNT, 0, (kiln_drift_ratio){1.04, 1.2});
    assert_true(fabs(kiln_reading_of(&samples).time_ns - 1e6) < 1);
    samples.peak_flops = 0;
    assert_true(fabs(kiln_reading_of(&samples).time_ns - 1e6) < 1);
}

static void samples_of_no_time_say_nothing(void **state) {
    (void)state;
    const double ns[] = {0};
    const kiln_samples samples = samples_of(ns, 1, 0.5, (kiln_drift_ratio){1, 1});
    const kiln_reading reading = kiln_reading_of(&samples);
    assert_true(reading.time_ns == 0);
    assert_false(kiln_reading_differs(&reading, &reading));
}

/* ---- Identical kernels in processes of their own, on quiet boards and on busy ones ---- */

/* `busy`: share of samples that were taken again; what a process has for itself grows with it. */
static kiln_reading measure(kiln_rand *rand, double truth_ns, double busy) {
    double ns[COUNT];
    const double spread = hypot(KILN_READING_QUIET_SPREAD, busy * KILN_READING_BUSY_SPREAD);
    const double own = truth_ns * exp(spread * kiln_rand_normal(rand));
    for (int i = 0; i < COUNT; i++) ns[i] = own * (1 + 0.01 * kiln_rand_normal(rand));
    kiln_samples samples = samples_of(ns, COUNT, 0.5, (kiln_drift_ratio){1, 1});
    samples.again = (size_t)(busy / (1 - busy) * COUNT);
    return kiln_reading_of(&samples);
}

/* Share of pairs that are called different. */
static double share_different(double apart, double busy) {
    kiln_rand rand;
    kiln_rand_init(&rand, 11);
    uint32_t different = 0;
    for (int round = 0; round < 2000; round++) {
        const kiln_reading a = measure(&rand, 1e6, busy), b = measure(&rand, 1e6 * apart, busy);
        different += kiln_reading_differs(&a, &b);
    }
    return different / 2000.0;
}

static void identical_kernels_are_rarely_called_different(void **state) {
    (void)state;
    assert_true(share_different(1, 0) <= 0.05);
    assert_true(share_different(1, 0.5) <= 0.05);
    assert_true(share_different(1, 0.8) <= 0.05);
}

static void different_kernels_are_told_apart(void **state) {
    (void)state;
    assert_true(share_different(1.03, 0) > 0.4);
    assert_true(share_different(1.1, 0) > 0.99);
    assert_true(share_different(1.1, 0.5) > 0.7);
}

static void gains_count_from_where_they_are_sure(void **state) {
    (void)state;
    double gain[COUNT];
    fill(gain, 1.01); /* less than where the buffers lie can do */
    assert_true(kiln_reading_gain_low(gain, COUNT) < 1);
    fill(gain, 1.03);
    assert_true(kiln_reading_gain_low(gain, COUNT) > 1);
    assert_true(kiln_reading_gain_low(gain, COUNT) < 1.03);
    for (int i = 0; i < COUNT; i += 2) gain[i] = 0.9;
    assert_true(kiln_reading_gain_low(gain, COUNT) < 0.9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_undisturbed_figure_is_the_samples),
        cmocka_unit_test(samples_that_a_neighbour_lengthened_do_not_count),
        cmocka_unit_test(corrected_figures_are_within_one_percent_of_the_truth),
        cmocka_unit_test(beyond_the_band_is_marked_and_doubted),
        cmocka_unit_test(a_kernel_without_flops_is_memorys),
        cmocka_unit_test(samples_of_no_time_say_nothing),
        cmocka_unit_test(identical_kernels_are_rarely_called_different),
        cmocka_unit_test(different_kernels_are_told_apart),
        cmocka_unit_test(gains_count_from_where_they_are_sure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
