/* One large reduction in tiles of groups of threads. */
#include <string.h>

#include "compiler-core/lower/lower.h"
#include "compiler-core/rules/group.h"
#include "compiler-core/sched/trace.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/rules/support.h"

#define PRODUCT              \
    "program p\n"            \
    "input x: f32[24,40]\n"  \
    "input w: f32[40,20]\n"  \
    "output y: f32[24,20]\n" \
    "block mul(i:24, j:20 | k:40): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n"

#define CONVOLUTION                                                                      \
    "program c\n"                                                                        \
    "input x: f32[6,12,12]\n"                                                            \
    "constant w: f32[5,6,3,3]\n"                                                         \
    "constant b: f32[5]\n"                                                               \
    "temp s: f32[5,10,10]\n"                                                             \
    "output y: f32[5,10,10]\n"                                                           \
    "block conv(o:5, h:10, v:10 | i:6, r:3, q:3): s[o, h, v] sum= x[i, h + r, v + q] * " \
    "w[o, i, r, q] init 0.0\n"                                                           \
    "block relu(o:5, h:10, v:10): y[o, h, v] = max(s[o, h, v] + b[o], 0.0)\n"

/* The sketch with these options, sound, and what its lines say. */
static char *sketch_of(kiln_arena *arena, const char *text, const char *device, uint32_t options,
                       kiln_launches *out_launches) {
    kiln_program *te = parsed(arena, text);
    kiln_target *target = KILN_ARENA_NEW(arena, kiln_target);
    kiln_lowered lowered;
    kiln_strbuf lines = {0};
    *target = target_of(arena, device);
    kiln_sched s = kiln_sched_begin(te, target, arena);
    kiln_sketch_result made = kiln_sketch_group_tile(&s, options);
    if (made.end != KILN_SKETCH_MADE) fail_msg("%s", made.reason);
    expect_sound(&s, te);
    expect_ok(kiln_lower(s.program, target, arena, &lowered));
    *out_launches = lowered.run_launches;
    kiln_trace_print(kiln_sched_trace(&s), &lines);
    char *copy = kiln_str_dup(arena, kiln_strbuf_view(&lines));
    kiln_strbuf_deinit(&lines);
    return copy;
}

static void both_operands_of_a_product_are_shared(void **state) {
    kiln_launches launches;
    const char *lines = sketch_of(*state, PRODUCT, "null,group=16", 0, &launches);
    expect_contains(lines, "cache_read(mul, x, \"shared\")\ncache_read(mul, w, \"shared\")\n");
    assert_int_equal(launches.count, 1);
    const kiln_launch *l = &launches.launch[0];
    assert_true(l->group_size[0] * l->group_size[1] <= 16);
    assert_true(l->group_size[0] * l->group_size[1] >= 4);
    assert_true(l->grid_size[0] * l->grid_size[1] > 1);
    assert_true(l->barrier_count > 0);
    assert_int_equal(l->shared_count, 2);
    assert_int_equal(l->local_count, 1);
}

static void direct_reads_need_no_shared_memory(void **state) {
    kiln_launches launches;
    const char *lines = sketch_of(*state, PRODUCT, "null,group=16", 1, &launches);
    assert_null(strstr(lines, "cache_read"));
    assert_int_equal(launches.launch[0].shared_bytes, 0);
    assert_int_equal(launches.launch[0].barrier_count, 0);
}

/* What follows takes the sums from the memory of each thread. */
static void a_window_is_shared_and_the_follower_goes_along(void **state) {
    kiln_launches launches;
    for (uint32_t options = 0; options < 2; options++) {
        const char *lines = sketch_of(*state, CONVOLUTION, "null", options, &launches);
        expect_contains(lines, "reverse_compute_at(relu, ");
        assert_int_equal(launches.count, 1);
        assert_int_equal(launches.scratch_bytes, 0);
        assert_int_equal(launches.launch[0].shared_count, options ? 0 : 2);
    }
}

/* Small shared memory makes small tiles. */
static void tiles_fit_into_what_groups_share(void **state) {
    kiln_launches launches;
    (void)sketch_of(*state, PRODUCT, "null,shared=256", 0, &launches);
    assert_true(launches.launch[0].shared_bytes <= 256);
    kiln_program *te = parsed(*state, PRODUCT);
    kiln_target target = target_of(*state, "null,shared=4");
    kiln_sched s = kiln_sched_begin(te, &target, *state);
    assert_int_equal(kiln_sketch_group_tile(&s, 0).end, KILN_SKETCH_NONE);
}

static void programs_without_one_reduction_are_for_another_rule(void **state) {
    static const char *const text[] = {
        "program p\ninput x: f32[8]\noutput y: f32[8]\nblock y(i:8): y[i] = exp(x[i])\n",
        "program p\ninput x: f32[8,8]\ntemp s: f32[8]\noutput y: f32[8]\n"
        "block s(i:8 | j:8): s[i] sum= x[i, j] init 0.0\n"
        "block y(i:8 | j:8): y[i] sum= x[j, i] * s[i] init 0.0\n",
        "program p\ninput x: f32[8]\noutput y: f32[]\nblock y(| i:8): y[] sum= x[i] init 0.0\n",
    };
    kiln_target target = target_of(*state, "null");
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        kiln_sched s = kiln_sched_begin(parsed(*state, text[i]), &target, *state);
        assert_int_equal(kiln_sketch_group_tile(&s, 0).end, KILN_SKETCH_NEVER);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(both_operands_of_a_product_are_shared),
        test_with_arena(direct_reads_need_no_shared_memory),
        test_with_arena(a_window_is_shared_and_the_follower_goes_along),
        test_with_arena(tiles_fit_into_what_groups_share),
        test_with_arena(programs_without_one_reduction_are_for_another_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
