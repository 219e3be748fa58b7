/* The time of a launch from its counts: what limits a unit, what overlaps, and what waits. */
#include "compiler-core/cost/launch_gpu.h"

#include <math.h>

#include "tests/support/targets.h"
#include "tests/unit/compiler-core/sched/support.h"

/* Warp groups of 128 threads that multiply for 1,000 cycles of all tensor cores a group of a
 * launch, in 10 blocks of the reduction; `producers`: one more of them fetches. */
static kiln_gpu_launch products(const kiln_target *target, uint32_t groups, bool producers) {
    kiln_gpu_launch l = {.used = true,
                         .group_size = {32, 4, groups + producers},
                         .producers = producers,
                         .groups = target->cores,
                         .threads = 128.0 * (groups + producers),
                         .shared_bytes = 160e3,
                         .held = {.by_threads = true, .by_groups = true, .shares = true},
                         .accumulators = 64,
                         .stages = 3,
                         .tensor = 1000,
                         .fetches = 10,
                         .drains = 10};
    kiln_gpu_launch_hold(target, &l);
    return l;
}

static double cycles_of(const kiln_target *target, kiln_gpu_launch l) {
    kiln_gpu_launch_finish(target, &l);
    return (l.ns - target->gpu->launch_ns) * target->gpu->clock_hz / 1e9;
}

/* Where all threads meet between blocks no group multiplies for a while; where others fetch, one
 * group fills the gap of the other, and a single one has none to do so. */
static void a_producer_lets_groups_fill_each_others_gaps(void **state) {
    const kiln_target h200 = target_of(*state, "h200");
    const double two = cycles_of(&h200, products(&h200, 2, true)),
                 together = cycles_of(&h200, products(&h200, 2, false)),
                 one = cycles_of(&h200, products(&h200, 1, true));
    assert_true(fabs(together - two - 640) < 1e-6);
    assert_true(fabs(one - two - 640) < 1e-6);
}

/* A warp issues at most one instruction a cycle, one that only fetches as well. */
static void the_busiest_warp_bounds_a_group(void **state) {
    const kiln_target h200 = target_of(*state, "h200");
    kiln_gpu_launch l = products(&h200, 2, true);
    const double before = cycles_of(&h200, l);
    l.producer_instructions = 1000;
    assert_true(cycles_of(&h200, l) == before);
    l.producer_instructions = 5000;
    assert_true(cycles_of(&h200, l) > 5000 && cycles_of(&h200, l) < 5000 + before);
    l.producer_instructions = 0;
    l.warp_instructions = 5000;
    assert_true(cycles_of(&h200, l) > 5000);
}

static double tensor_of(const kiln_target *target, bool by_groups) {
    kiln_gpu_launch l = products(target, 2, false);
    l.held.by_groups = by_groups;
    kiln_gpu_launch_finish(target, &l);
    return 1000 / l.term[KILN_GPU_TENSOR];
}

/* Power limits all products, and single warps do not reach what warp groups do. */
static void tensor_cores_do_not_reach_their_full_rate(void **state) {
    const kiln_target h200 = target_of(*state, "h200"), a100 = target_of(*state, "a100");
    assert_true(fabs(tensor_of(&h200, true) - h200.gpu->tensor_share) < 1e-9);
    assert_true(tensor_of(&h200, false) < 0.9 * tensor_of(&h200, true));
    assert_true(fabs(tensor_of(&a100, false) - a100.gpu->tensor_share) < 1e-9);
}

/* Bytes over the rate that kernels reach, and nothing else where that takes longest. */
static void the_l2_bounds_what_reads_much(void **state) {
    const kiln_target h200 = target_of(*state, "h200");
    kiln_gpu_launch l = products(&h200, 2, true);
    l.l2_bytes = 1.61e9; /* 4096 cubed in halves, in tiles of 128x256: an H200 took 229 us */
    kiln_gpu_launch_finish(&h200, &l);
    assert_int_equal(l.bound, KILN_GPU_L2);
    assert_true(l.ns > 1.61e9 / 9.7e12 * 1e9);
    assert_true(fabs(l.ns / 229e3 - 1) < 0.1);
}

static void a_unit_holds_what_all_of_its_limits_allow(void **state) {
    const kiln_target h200 = target_of(*state, "h200");
    kiln_gpu_launch l = products(&h200, 2, false);
    assert_int_equal(l.limit, KILN_GPU_BY_SHARED);
    assert_int_equal(l.occupancy, 1);
    l.shared_bytes = 0;
    l.threads = 1024;
    kiln_gpu_launch_hold(&h200, &l);
    assert_true(l.limit == KILN_GPU_BY_THREADS || l.limit == KILN_GPU_BY_REGISTERS);
    assert_true(l.occupancy <= 2);
    assert_true(l.waves == l.groups / (l.occupancy * h200.cores));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_producer_lets_groups_fill_each_others_gaps),
        test_with_arena(the_busiest_warp_bounds_a_group),
        test_with_arena(tensor_cores_do_not_reach_their_full_rate),
        test_with_arena(the_l2_bounds_what_reads_much),
        test_with_arena(a_unit_holds_what_all_of_its_limits_allow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
