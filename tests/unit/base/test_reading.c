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

/* Kernels bound by arithmetic, by memory and by both, at two speeds of a board that drifts in
 * either part: what is said of each was seen, and they are not called different. */
static void figures_at_two_speeds_of_a_board_are_compared_at_one(void **state) {
    (void)state;
    kiln_rand rand;
    kiln_rand_init(&rand, 7);
    for (int round = 0; round < 2000; round++) {
        const double share = kiln_rand_unit(&rand);
        kiln_reading reading[2];
        for (int k = 0; k < 2; k++) {
            const kiln_drift_ratio drift = {0.9 + 0.6 * kiln_rand_unit(&rand),
                                            0.8 + 0.7 * kiln_rand_unit(&rand)};
            const double slower = pow(drift.arithmetic, share) * pow(drift.memory, 1 - share);
            double ns[COUNT];
            for (int i = 0; i < COUNT; i++)
                ns[i] = 1e6 * slower * (1 + 0.004 * (kiln_rand_unit(&rand) - 0.5));
            const kiln_samples samples = samples_of(ns, COUNT, share * slower, drift);
            reading[k] = kiln_reading_of(&samples);
            assert_true(reading[k].least_ns <= reading[k].time_ns);
            assert_true(reading[k].least_ns >= 1e6 * slower * 0.998);
            assert_true(fabs(reading[k].slower - log(slower)) < 0.01);
        }
        assert_false(kiln_reading_differs(&reading[0], &reading[1]));
        reading[1].time_ns *= 2; /* another kernel, whatever the board did */
        assert_true(kiln_reading_differs(&reading[0], &reading[1]));
    }
}

static void a_kernel_without_flops_is_memorys(void **state) {
    (void)state;
    double ns[COUNT];
    fill(ns, 1e6);
    kiln_samples samples = samples_of(ns, COUNT, 0, (kiln_drift_ratio){1.04, 1.2});
    assert_true(fabs(kiln_reading_of(&samples).slower - log(1.2)) < 1e-9);
    samples = samples_of(ns, COUNT, 1, (kiln_drift_ratio){1.04, 1.2}); /* at the peak */
    assert_true(fabs(kiln_reading_of(&samples).slower - log(1.04)) < 1e-9);
    samples.peak_flops = 0;
    assert_true(fabs(kiln_reading_of(&samples).slower - log(1.2)) < 1e-9);
    samples.drift = (kiln_drift_ratio){0}; /* no part is used: nothing is known */
    assert_true(kiln_reading_of(&samples).slower == 0);
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

/* Somebody who comes and goes beside the kernel: who is there, or not, at one try is so at the next
 * but for `moves` of the time; some of what he does is seen, and the try taken again. */
typedef struct neighbour {
    const char *name;
    double there, moves, slowed, seen;
} neighbour;

static const neighbour nobody = {"nobody", 0, 1, 1, 0};
static const neighbour boards[] = {
    {"a program on the same core, mostly seen", 0.5, 0.5, 1.3, 0.95},
    {"a thread of the same core, half of it seen", 0.4, 0.3, 1.06, 0.5},
    {"one that is rarely seen and hardly matters", 0.5, 0.2, 1.02, 0.1},
    {"one that is nearly always there", 0.9, 0.2, 1.2, 0.95},
    {"one that stays for longer than half a trial", 0.6, 0.05, 1.1, 0.8},
};

static kiln_reading measure(kiln_rand *rand, double truth_ns, const neighbour *by) {
    double ns[COUNT];
    const double own = truth_ns * exp(KILN_READING_QUIET_SPREAD * kiln_rand_normal(rand));
    bool there = kiln_rand_unit(rand) < by->there;
    kiln_samples samples = samples_of(ns, 0, 0.5, (kiln_drift_ratio){1, 1});
    while (samples.count < COUNT) {
        if (kiln_rand_unit(rand) < by->moves) there = kiln_rand_unit(rand) < by->there;
        if (there && kiln_rand_unit(rand) < by->seen)
            samples.again++;
        else
            ns[samples.count++] = own * (there ? 1 + (by->slowed - 1) * kiln_rand_unit(rand) : 1) *
                                  (1 + 0.002 * kiln_rand_unit(rand));
    }
    samples.flops = 0.5 * PEAK * 1e-3;
    return kiln_reading_of(&samples);
}

/* Share of pairs that are called different. */
static double share_different(double apart, const neighbour *by) {
    kiln_rand rand;
    kiln_rand_init(&rand, 11);
    uint32_t different = 0;
    for (int round = 0; round < 4000; round++) {
        const kiln_reading a = measure(&rand, 1e6, by), b = measure(&rand, 1e6 * apart, by);
        different += kiln_reading_differs(&a, &b);
    }
    return different / 4000.0;
}

static void identical_kernels_are_rarely_called_different(void **state) {
    (void)state;
    assert_true(share_different(1, &nobody) <= 0.05);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(boards); i++) {
        const double share = share_different(1, &boards[i]);
        if (share > 0.05) fail_msg("%s: %.3f are", boards[i].name, share);
    }
}

static void different_kernels_are_told_apart(void **state) {
    (void)state;
    assert_true(share_different(1.07, &nobody) > 0.85);
    assert_true(share_different(1.1, &nobody) > 0.99);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(boards); i++)
        assert_true(share_different(1.2, &boards[i]) > 0.5);
}

static void few_samples_are_trusted_less(void **state) {
    (void)state;
    const double ns[] = {1e6, 1.01e6, 1.02e6};
    double many[COUNT];
    for (int i = 0; i < COUNT; i++) many[i] = ns[i % 3];
    const kiln_samples few = samples_of(ns, 3, 0.5, (kiln_drift_ratio){1, 1});
    const kiln_samples all = samples_of(many, COUNT, 0.5, (kiln_drift_ratio){1, 1});
    assert_true(kiln_reading_of(&few).doubt > kiln_reading_of(&all).doubt);
}

static void samples_that_took_many_tries_are_trusted_less(void **state) {
    (void)state;
    double ns[COUNT];
    for (int i = 0; i < COUNT; i++) ns[i] = 1e6 + 2e3 * i;
    kiln_samples samples = samples_of(ns, COUNT, 0.5, (kiln_drift_ratio){1, 1});
    const double sure = kiln_reading_of(&samples).doubt;
    samples.again = 4 * COUNT;
    assert_true(kiln_reading_of(&samples).doubt > 1.5 * sure);
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
        cmocka_unit_test(figures_at_two_speeds_of_a_board_are_compared_at_one),
        cmocka_unit_test(a_kernel_without_flops_is_memorys),
        cmocka_unit_test(samples_of_no_time_say_nothing),
        cmocka_unit_test(identical_kernels_are_rarely_called_different),
        cmocka_unit_test(different_kernels_are_told_apart),
        cmocka_unit_test(few_samples_are_trusted_less),
        cmocka_unit_test(samples_that_took_many_tries_are_trusted_less),
        cmocka_unit_test(gains_count_from_where_they_are_sure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
