/* Features of grids of groups of threads, beside what lowering makes of the same program. */
#include "compiler-core/cost/features_grid.h"

#include <math.h>

#include "base/null_code.h"
#include "compiler-core/lower/lower.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/sched/support.h"

static const char product[] =
    "program p\ninput x: f32[8,16]\ninput w: f32[16,4]\n"
    "output y: f32[8,4]\n"
    "block mul(i:8, j:4 | k:16): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n";

static const char tiles[] =
    "cache_read(mul, x, \"shared\")\ncache_read(mul, w, \"shared\")\ncache_write(mul, \"local\")\n"
    "split(mul.i, 2, 4)\nsplit(mul.j, 2, 2)\nsplit(mul.k, 4, 4)\n"
    "reorder(mul.i.0, mul.j.0, mul.k.0, mul.i.1, mul.j.1, mul.k.1)\n"
    "bind(mul.i.0, \"block.y\")\nbind(mul.j.0, \"block.x\")\n"
    "bind(mul.i.1, \"thread.x\")\nbind(mul.j.1, \"thread.y\")\n"
    "decompose_reduction(mul, mul.k.0)\n"
    "compute_at(x.read, mul.k.0)\ncompute_at(w.read, mul.k.0)\n"
    "reverse_compute_at(mul.write, mul.j.0)\n"
    "bind(mul.write.i, \"thread.x\")\nbind(mul.write.j, \"thread.y\")\n"
    "bind(x.read.d0, \"thread.x\")\nbind(w.read.d0, \"thread.x\")\n";

static double count_of(const float *vector, kiln_grid_feature feature) {
    return round(exp2((double)vector[feature]) - 1);
}

static void a_tile_is_counted_as_lowering_makes_it(void **state) {
    float f[KILN_GRID_FEATURE_COUNT];
    kiln_target target = target_of(*state, "null");
    kiln_program *p = schedule(parsed(*state, product), tiles);
    kiln_lowered lowered;
    expect_ok(kiln_lower(p, &target, *state, &lowered));
    const kiln_launch *l = &lowered.run_launches.launch[0];
    kiln_features_grid.compute(p, &target, *state, f);
    assert_int_equal((int64_t)count_of(f, KILN_GRID_LAUNCHES), 1);
    assert_int_equal((int64_t)count_of(f, KILN_GRID_GROUPS), l->grid_size[0] * l->grid_size[1]);
    assert_int_equal((int64_t)count_of(f, KILN_GRID_THREADS), l->group_size[0] * l->group_size[1]);
    assert_int_equal((int64_t)count_of(f, KILN_GRID_SHARED_BYTES), l->shared_bytes);
    assert_int_equal((int64_t)count_of(f, KILN_GRID_TICKS_LAUNCHES), KILN_NULL_TICKS_LAUNCH);
    /* A thread: its first value, four times four elements of x and two of w, 16 sums, a result. */
    assert_int_equal((int64_t)count_of(f, KILN_GRID_STATEMENTS), 1 + 4 * (4 + 2) + 16 + 1);
    assert_true(kiln_features_grid.fits(f));
}

static void threads_in_parallel_are_predicted_to_be_faster(void **state) {
    float serial[KILN_GRID_FEATURE_COUNT], tiled[KILN_GRID_FEATURE_COUNT];
    kiln_target target = target_of(*state, "null"), small = target_of(*state, "null,group=4"),
                narrow = target_of(*state, "null,shared=64");
    kiln_program *te = parsed(*state, product);
    kiln_features_grid.compute(schedule(te, ""), &target, *state, serial);
    kiln_features_grid.compute(schedule(te, tiles), &target, *state, tiled);
    assert_true(tiled[KILN_GRID_NS] + 3 < serial[KILN_GRID_NS]); /* by more than 8 */
    kiln_features_grid.compute(schedule(te, tiles), &small, *state, tiled);
    assert_false(kiln_features_grid.fits(tiled));
    kiln_features_grid.compute(schedule(te, tiles), &narrow, *state, tiled);
    assert_false(kiln_features_grid.fits(tiled));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_tile_is_counted_as_lowering_makes_it),
        test_with_arena(threads_in_parallel_are_predicted_to_be_faster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
