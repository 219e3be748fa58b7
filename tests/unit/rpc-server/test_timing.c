/* Measuring rules on a made-up clock. */
#include <math.h>
#include <string.h>

#include "base/rand.h"
#include "base/reading.h"
#include "rpc-server/timing.h"
#include "tests/support/test.h"

/* A kernel whose run takes `base_ns`, plus what `shape` says about the n-th measurement. */
typedef struct machine {
    double base_ns, noise;
    double drift; /* the first measurements are slower by this, falling by half each time */
    uint32_t calls;
    uint64_t runs, total_ns;
    kiln_rand rand;
} machine;

static kiln_timing_spent run(void *context, uint32_t runs) {
    machine *m = context;
    double one = m->base_ns * (1 + m->noise * kiln_rand_unit(&m->rand));
    for (uint32_t i = 0; i < 60 && m->drift > 0; i++) {
        if (i < m->calls) continue;
        one += m->base_ns * m->drift / (double)(UINT64_C(1) << m->calls);
        break;
    }
    m->calls++;
    m->runs += runs;
    const uint64_t elapsed_ns = (uint64_t)(one * runs);
    m->total_ns += elapsed_ns;
    return (kiln_timing_spent){elapsed_ns, 0};
}

static const kiln_msg_policy search_policy = {.samples_min = 5,
                                              .samples_max = 20,
                                              .interval = 0.01,
                                              .sample_ns = 1000000,
                                              .total_ns = 50000000};

/* Nobody looks how fast the board is. */
static const kiln_timing_reference unread = {0};

static kiln_timing measure(machine *m, const kiln_msg_policy *policy, uint64_t overhead_ns) {
    kiln_rand_init(&m->rand, 7);
    kiln_timing_source source = {run, m, overhead_ns};
    kiln_timing timing;
    const uint64_t first_ns = run(m, 1).elapsed_ns;
    kiln_timing_turn turn = {
        .source = source,
        .runs = kiln_timing_warm_up(&source, policy, first_ns, &KILN_TIMING_WARM_CORE),
        .timing = &timing};
    m->total_ns = 0;
    kiln_timing_sample(&turn, 1, &unread, policy, 0);
    return timing;
}

static void a_quiet_kernel_needs_the_fewest_samples(void **state) {
    (void)state;
    machine m = {.base_ns = 300000};
    kiln_timing timing = measure(&m, &search_policy, 20);
    assert_int_equal(timing.sample_count, 5);
    assert_int_equal(timing.stop, KILN_STOP_CONVERGED);
    assert_int_equal(timing.sample_ns[0], 300000 * timing.runs - 20);
}

static void a_sample_is_long_enough_for_policy_and_timer(void **state) {
    (void)state;
    machine m = {.base_ns = 100};
    kiln_timing timing = measure(&m, &search_policy, 20);
    for (uint32_t i = 0; i < timing.sample_count; i++)
        assert_true(timing.sample_ns[i] + 20 >= search_policy.sample_ns);
    m = (machine){.base_ns = 100};
    timing = measure(&m, &search_policy, 50000); /* a bad timer: 200 times its cost is 10 ms */
    for (uint32_t i = 0; i < timing.sample_count; i++)
        assert_true(timing.sample_ns[i] + 50000 >= 50000 * KILN_TIMING_OVERHEADS);
}

static void a_long_kernel_is_not_run_more_than_it_must(void **state) {
    (void)state;
    machine m = {.base_ns = 40e6};
    kiln_timing timing = measure(&m, &search_policy, 20);
    assert_int_equal(timing.runs, 1);
    assert_int_equal(timing.sample_count, 5);
    assert_int_equal(m.runs, 6); /* the first call was warm-up enough */
}

static void a_run_that_is_as_long_as_a_sample_is_one(void **state) {
    (void)state;
    machine m = {.base_ns = 1e6};
    assert_int_equal(measure(&m, &search_policy, 20).runs, 1);
}

static kiln_timing_spent count_runs(void *context, uint32_t runs) {
    *(uint32_t *)context = runs;
    return (kiln_timing_spent){UINT64_C(1000) * runs, 0};
}

static void warm_up_goes_by_quarters_of_a_sample(void **state) {
    (void)state;
    uint32_t runs = 0;
    const kiln_timing_source source = {count_runs, &runs, 20};
    const uint32_t sample =
        kiln_timing_warm_up(&source, &search_policy, 1000, &KILN_TIMING_WARM_CORE);
    assert_int_equal(sample, 1001);
    assert_int_equal(runs, 250);
}

static void noise_takes_more_samples_up_to_the_caps(void **state) {
    (void)state;
    machine m = {.base_ns = 100000, .noise = 0.5};
    kiln_timing timing = measure(&m, &search_policy, 20);
    assert_int_equal(timing.sample_count, 20);
    assert_int_equal(timing.stop, KILN_STOP_COUNT_CAP);
    m = (machine){.base_ns = 8e6, .noise = 0.5};
    timing = measure(&m, &search_policy, 20);
    assert_int_equal(timing.stop, KILN_STOP_TIME_CAP);
    assert_in_range(timing.sample_count, 5, 8);
    assert_in_range(m.total_ns, search_policy.total_ns, search_policy.total_ns + (uint64_t)12e6);
}

static void warm_up_lasts_until_times_are_steady(void **state) {
    (void)state;
    machine m = {.base_ns = 500000, .drift = 4};
    kiln_timing timing = measure(&m, &search_policy, 20);
    /* The first calls took five times as long; no sample may still be 5 % above the truth. */
    for (uint32_t i = 0; i < timing.sample_count; i++)
        assert_true((double)timing.sample_ns[i] / timing.runs < 500000 * 1.05);
}

/* A device's clock that rises slowly: steps of a few per cent look steady to a core's warm-up. */
static kiln_timing_spent run_rising(void *context, uint32_t runs) {
    double *speed = context;
    *speed = KILN_MIN(*speed * 1.02, 1);
    return (kiln_timing_spent){(uint64_t)(1e6 * runs / *speed), 0};
}

static void a_device_is_warm_when_its_clock_holds(void **state) {
    (void)state;
    double speed = 0.2;
    const kiln_timing_source source = {run_rising, &speed, 20};
    (void)kiln_timing_warm_up(&source, &search_policy, 5000000, &KILN_TIMING_WARM_CORE);
    assert_true(speed < 0.5);
    speed = 0.2;
    (void)kiln_timing_warm_up(&source, &search_policy, 5000000, &KILN_TIMING_WARM_DEVICE);
    assert_true(speed == 1);
}

static void warm_up_of_a_restless_kernel_ends(void **state) {
    (void)state;
    machine m = {.base_ns = 1000, .noise = 3};
    kiln_timing timing = measure(&m, &search_policy, 20);
    assert_true(timing.sample_count >= 5 && m.runs < 1000000);
}

static void a_kernel_without_time_is_not_divided_by(void **state) {
    (void)state;
    machine m = {.base_ns = 0};
    kiln_timing timing = measure(&m, &search_policy, 20);
    assert_true(timing.runs >= 1 && timing.sample_ns[0] == 1);
}

static void policies_beyond_the_limits_are_cut(void **state) {
    (void)state;
    kiln_msg_policy policy = search_policy;
    policy.samples_min = policy.samples_max = UINT32_MAX;
    policy.interval = 0;
    machine m = {.base_ns = 1e6, .noise = 0.5};
    kiln_timing timing = measure(&m, &policy, 20);
    assert_int_equal(timing.sample_count, KILN_TIMING_SAMPLES_MAX);
}

static void a_clear_loser_stops_after_its_first_samples(void **state) {
    (void)state;
    machine m = {.base_ns = 2e6, .noise = 0.5};
    kiln_timing timing;
    kiln_timing_turn turn = {.source = {run, &m, 0}, .runs = 1, .timing = &timing};
    kiln_rand_init(&m.rand, 7);
    kiln_timing_sample(&turn, 1, &unread, &search_policy, 1.9e6);
    assert_int_equal(timing.stop, KILN_STOP_RACED);
    assert_int_equal(timing.sample_count, KILN_TIMING_RACE_SAMPLES);
    kiln_timing_sample(&turn, 1, &unread, &search_policy, 3e6);
    assert_true(timing.stop != KILN_STOP_RACED && timing.sample_count >= 5);
}

static void kernels_in_turns_get_as_many_samples_as_each_other(void **state) {
    (void)state;
    machine m[] = {{.base_ns = 1e6}, {.base_ns = 1e6, .noise = 0.5}, {.base_ns = 2e6}};
    kiln_timing timing[3];
    kiln_timing_turn turn[3];
    for (int i = 0; i < 3; i++) {
        kiln_rand_init(&m[i].rand, 7);
        turn[i] = (kiln_timing_turn){.source = {run, &m[i], 0}, .runs = 1, .timing = &timing[i]};
    }
    /* The first and the last would be done after five; the bound is for kernels that run alone. */
    kiln_timing_sample(turn, 3, &unread, &search_policy, 1);
    for (int i = 0; i < 3; i++) assert_int_equal(timing[i].sample_count, 20);
    assert_int_equal(timing[0].stop, KILN_STOP_CONVERGED);
    assert_int_equal(timing[1].stop, KILN_STOP_COUNT_CAP);
}

/* A kernel that takes longer behind another one, whose data is in the caches then. */
typedef struct tenant {
    const void **last; /* who ran before; shared */
} tenant;

static kiln_timing_spent run_as_tenant(void *context, uint32_t runs) {
    const tenant *self = context;
    const uint64_t cold_ns = *self->last == self ? 0 : 300000;
    *self->last = self;
    return (kiln_timing_spent){runs * UINT64_C(1000000) + cold_ns, 0};
}

static void samples_in_turns_are_as_warm_as_samples_alone(void **state) {
    (void)state;
    const void *last = NULL;
    tenant tenants[] = {{&last}, {&last}};
    kiln_timing timing[2];
    kiln_timing_turn turn[2];
    for (int i = 0; i < 2; i++)
        turn[i] = (kiln_timing_turn){
            .source = {run_as_tenant, &tenants[i], 0}, .runs = 1, .timing = &timing[i]};
    kiln_timing_sample(turn, 2, &unread, &search_policy, 0);
    for (int i = 0; i < 2; i++)
        for (uint32_t k = 0; k < timing[i].sample_count; k++)
            assert_int_equal(timing[i].sample_ns[k], 1000000);
}

/* ---- Boards that others use: a made-up clock on which neighbours come and go ---- */

#define USUAL_NS 5000.0 /* of either part of the reference kernel */

/* A board on which all work takes `slower` times as long, but for the share of time that it is
 * `busy`: then, for BURST_NS, `slowed` times. */
typedef struct board {
    double slower, slowed, busy;
    double taken; /* share of measurements in which another takes its turn on the core */
    double kernel_ns;
    uint64_t now_ns;
    kiln_rand rand;
    uint64_t burst_until_ns, rest_until_ns;
} board;

#define BURST_NS 4e6
#define TURN_NS 700000u

static double speed_of(board *b) {
    if (b->busy <= 0) return b->slower;
    if (b->now_ns >= b->burst_until_ns && b->now_ns >= b->rest_until_ns) {
        b->burst_until_ns = b->now_ns + (uint64_t)(BURST_NS * (0.5 + kiln_rand_unit(&b->rand)));
        b->rest_until_ns = b->burst_until_ns + (uint64_t)(BURST_NS * (1 - b->busy) / b->busy *
                                                          (0.5 + kiln_rand_unit(&b->rand)));
    }
    return b->slower * (b->now_ns < b->burst_until_ns ? b->slowed : 1);
}

static uint64_t pass(board *b, double ns) {
    const double spent = ns * speed_of(b);
    b->now_ns += (uint64_t)spent;
    return (uint64_t)spent;
}

static kiln_timing_spent run_on(void *context, uint32_t runs) {
    board *b = context;
    kiln_timing_spent spent = {0};
    for (uint32_t i = 0; i < runs; i++)
        spent.elapsed_ns += pass(b, b->kernel_ns * (1 + 0.004 * kiln_rand_unit(&b->rand)));
    if (b->taken > 0 && kiln_rand_unit(&b->rand) < b->taken) spent.away_ns = TURN_NS;
    spent.elapsed_ns += spent.away_ns;
    return spent;
}

static kiln_reference_kernel_times take_on(void *context) {
    board *b = context;
    return (kiln_reference_kernel_times){(double)pass(b, USUAL_NS), (double)pass(b, USUAL_NS)};
}

#define BAND 0.05
static const kiln_reference_kernel_norm usual_norm = {
    {.use = KILN_PART_USED, .usual_ns = USUAL_NS, .band = BAND},
    {.use = KILN_PART_USED, .usual_ns = USUAL_NS, .band = BAND}};

static bool is_out(const kiln_timing *timing) {
    const kiln_msg_env cool = {0};
    return kiln_drift_is_out(&timing->drift, &usual_norm, &cool, &cool);
}

static kiln_timing measure_on(board *b, double race_ns) {
    static kiln_timing_turn turn;
    kiln_timing timing;
    const kiln_timing_reference reference = {take_on, b, usual_norm};
    turn = (kiln_timing_turn){.source = {run_on, b, 0}, .runs = 1, .timing = &timing};
    kiln_timing_sample(&turn, 1, &reference, &search_policy, race_ns);
    return timing;
}

/* As a trial's result is read. */
static kiln_reading read_on(const board *b, const kiln_timing *timing) {
    double ns[KILN_TIMING_SAMPLES_MAX];
    for (uint32_t i = 0; i < timing->sample_count; i++)
        ns[i] = (double)timing->sample_ns[i] / timing->runs;
    return kiln_reading_of(&(kiln_samples){.ns = ns,
                                           .count = timing->sample_count,
                                           .again = timing->again_count,
                                           .drift = timing->drift,
                                           .flops = b->kernel_ns * 50, /* half the peak */
                                           .peak_flops = 100e9});
}

static void a_quiet_board_costs_nothing(void **state) {
    (void)state;
    board b = {.slower = 1, .kernel_ns = 1e6};
    const kiln_timing timing = measure_on(&b, 0);
    assert_int_equal(timing.sample_count, 5);
    assert_int_equal(timing.again_count, 0);
    assert_true(timing.drift.arithmetic == 1 && timing.drift.memory == 1);
}

/* It is what was seen; how far the board was from usual is told beside it. */
static void slow_drift_in_band_is_told_and_taken_as_it_is(void **state) {
    (void)state;
    for (double slower = 0.96; slower < 1.05; slower += 0.01) {
        board b = {.slower = slower, .kernel_ns = 1e6};
        const kiln_timing timing = measure_on(&b, 0);
        const kiln_reading reading = read_on(&b, &timing);
        assert_int_equal(timing.again_count, 0);
        assert_true(fabs(reading.time_ns / 1e6 - slower) < 0.005);
        assert_true(fabs(timing.drift.arithmetic - slower) < 0.001);
        assert_true(fabs(log(reading.time_ns / 1e6) - reading.slower) < reading.doubt);
        assert_false(is_out(&timing));
    }
}

static void samples_beside_a_neighbour_are_taken_again(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        board b = {.slower = 1, .slowed = 1.5, .busy = 0.5, .kernel_ns = 1e6};
        kiln_rand_init(&b.rand, seed);
        const kiln_timing timing = measure_on(&b, 0);
        const kiln_reading reading = read_on(&b, &timing);
        assert_false(is_out(&timing));
        assert_in_range(timing.sample_count, 5, 20);
        assert_true(fabs(reading.time_ns / 1e6 - 1) < 0.01);
    }
}

/* Others come and go for as long as a trial lasts: patience bounds what that costs. */
static void a_core_that_is_mostly_shared_ends_patience(void **state) {
    (void)state;
    board b = {.slower = 1, .taken = 0.7, .kernel_ns = 1e6};
    kiln_rand_init(&b.rand, 5);
    const kiln_timing timing = measure_on(&b, 0);
    assert_in_range(timing.sample_count, search_policy.samples_min, search_policy.samples_max);
    assert_true(timing.again_count > 0);
    assert_true(b.now_ns < (KILN_TIMING_PATIENCE + 1) * search_policy.total_ns + 20000000);
}

/* What the reference kernel around them does not show. */
static void samples_that_others_took_the_core_from_are_taken_again(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        board b = {.slower = 1, .taken = 0.5, .kernel_ns = 1e6};
        kiln_rand_init(&b.rand, seed);
        const kiln_timing timing = measure_on(&b, 0);
        assert_int_equal(timing.sample_count, 5);
        for (uint32_t i = 0; i < timing.sample_count; i++)
            assert_in_range(timing.sample_ns[i], 1000000, 1010000);
        assert_true(timing.drift.arithmetic == 1 && timing.drift.memory == 1);
    }
}

static void a_core_that_is_always_shared_is_marked_and_taken_as_it_is(void **state) {
    (void)state;
    board b = {.slower = 1, .taken = 1, .kernel_ns = 1e6};
    const kiln_timing timing = measure_on(&b, 0);
    assert_int_equal(timing.sample_count, 5);
    assert_int_equal(timing.again_count, KILN_TIMING_DISTURBED_MAX - 1);
    assert_true(is_out(&timing));
}

static void a_board_that_stays_slow_is_marked_and_taken_as_it_is(void **state) {
    (void)state;
    board b = {.slower = 1.4, .kernel_ns = 1e6};
    const kiln_timing timing = measure_on(&b, 0);
    assert_true(is_out(&timing));
    assert_int_equal(timing.sample_count, 5);
    assert_int_equal(timing.again_count, KILN_TIMING_DISTURBED_MAX - 1);
    /* What is said of the board says how far off it may be. */
    const kiln_reading reading = read_on(&b, &timing);
    assert_true(fabs(log(reading.time_ns / 1e6) - reading.slower) < reading.doubt);
}

static void a_sick_board_makes_no_loser(void **state) {
    (void)state;
    board slow = {.slower = 1.4, .kernel_ns = 1e6}, quiet = {.slower = 1, .kernel_ns = 1.4e6};
    assert_true(measure_on(&slow, 1.2e6).stop != KILN_STOP_RACED);
    assert_true(measure_on(&quiet, 1.2e6).stop == KILN_STOP_RACED);
}

static void rounds_stay_whole_when_disturbed_ones_go(void **state) {
    (void)state;
    static kiln_timing_turn turn[2];
    kiln_timing timing[2];
    board b = {.slower = 1, .slowed = 1.5, .busy = 0.6, .kernel_ns = 1e6};
    kiln_rand_init(&b.rand, 3);
    const kiln_timing_reference reference = {take_on, &b, usual_norm};
    for (int i = 0; i < 2; i++)
        turn[i] = (kiln_timing_turn){.source = {run_on, &b, 0}, .runs = 1, .timing = &timing[i]};
    kiln_timing_sample(turn, 2, &reference, &search_policy, 0);
    assert_int_equal(timing[0].sample_count, timing[1].sample_count);
    assert_true(timing[0].sample_count >= search_policy.samples_min);
    for (uint32_t i = 0; i < timing[0].sample_count; i++)
        assert_false(turn[0].arithmetic[i] > 1.05 || turn[1].arithmetic[i] > 1.05);
}

static void the_timer_costs_something(void **state) {
    (void)state;
    assert_true(kiln_timing_overhead_ns() >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quiet_kernel_needs_the_fewest_samples),
        cmocka_unit_test(a_sample_is_long_enough_for_policy_and_timer),
        cmocka_unit_test(a_long_kernel_is_not_run_more_than_it_must),
        cmocka_unit_test(a_run_that_is_as_long_as_a_sample_is_one),
        cmocka_unit_test(warm_up_goes_by_quarters_of_a_sample),
        cmocka_unit_test(noise_takes_more_samples_up_to_the_caps),
        cmocka_unit_test(warm_up_lasts_until_times_are_steady),
        cmocka_unit_test(a_device_is_warm_when_its_clock_holds),
        cmocka_unit_test(warm_up_of_a_restless_kernel_ends),
        cmocka_unit_test(a_kernel_without_time_is_not_divided_by),
        cmocka_unit_test(policies_beyond_the_limits_are_cut),
        cmocka_unit_test(a_clear_loser_stops_after_its_first_samples),
        cmocka_unit_test(kernels_in_turns_get_as_many_samples_as_each_other),
        cmocka_unit_test(samples_in_turns_are_as_warm_as_samples_alone),
        cmocka_unit_test(a_quiet_board_costs_nothing),
        cmocka_unit_test(slow_drift_in_band_is_told_and_taken_as_it_is),
        cmocka_unit_test(samples_beside_a_neighbour_are_taken_again),
        cmocka_unit_test(samples_that_others_took_the_core_from_are_taken_again),
        cmocka_unit_test(a_core_that_is_mostly_shared_ends_patience),
        cmocka_unit_test(a_core_that_is_always_shared_is_marked_and_taken_as_it_is),
        cmocka_unit_test(a_board_that_stays_slow_is_marked_and_taken_as_it_is),
        cmocka_unit_test(a_sick_board_makes_no_loser),
        cmocka_unit_test(rounds_stay_whole_when_disturbed_ones_go),
        cmocka_unit_test(the_timer_costs_something),
    };
    return cmocka_run_group_tests_name("rpc-server/timing", tests, NULL, NULL);
}
