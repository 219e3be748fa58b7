/* Blocks that stand alone on devices with groups of threads. */
#include "compiler-core/rules/group.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/rules/support.h"

static kiln_target device(kiln_arena *arena) { return target_of(arena, "null,group=16"); }

static void results_are_dealt_to_threads_in_order(void **state) {
    kiln_program *te = parsed(*state, "program p\ninput x: f32[40,24]\noutput y: f32[24,40]\n"
                                      "block t(i:24, j:40): y[i, j] = x[j, i]\n");
    kiln_target target = device(*state);
    kiln_sched s = kiln_sched_begin(te, &target, *state);
    assert_int_equal(kiln_sketch_group_spread(&s, 0).end, KILN_SKETCH_MADE);
    expect_lines(&s, 0,
                 "fuse(t.i, t.j)\nc0 = categorical(16, 8, 4, 2) = 0\nsplit(t.i.f, -1, c0)\n"
                 "bind(t.i.f.0, \"block.x\")\nbind(t.i.f.1, \"thread.x\")\n");
    expect_sound(&s, te);
}

/* No group has more threads than there are results. */
static void sums_stay_with_their_thread(void **state) {
    kiln_program *te = parsed(*state, "program p\ninput x: f32[5,9]\noutput y: f32[5]\n"
                                      "block y(i:5 | j:9): y[i] sum= x[i, j] init 0.0\n");
    kiln_target target = device(*state);
    kiln_sched s = kiln_sched_begin(te, &target, *state);
    assert_int_equal(kiln_sketch_group_spread(&s, 0).end, KILN_SKETCH_MADE);
    expect_lines(&s, 0,
                 "cache_write(y, \"local\")\nreorder(y.i, y.j)\n"
                 "c0 = categorical(8, 4, 2, 1) = 0\nsplit(y.i, -1, c0)\n"
                 "bind(y.i.0, \"block.x\")\nbind(y.i.1, \"thread.x\")\n"
                 "reverse_compute_at(y.write, y.i.1)\n");
    expect_sound(&s, te);
}

static void what_has_one_result_and_what_is_constant_is_left_alone(void **state) {
    kiln_program *te = parsed(*state, "program p\ninput x: f32[9]\nconstant w: f32[9]\n"
                                      "temp v: f32[9]\noutput y: f32[]\noutput z: f32[9]\n"
                                      "block v(i:9): v[i] = exp(w[i])\n"
                                      "block y(| j:9): y[] sum= x[j] init 0.0\n"
                                      "block z(i:9): z[i] = x[i] * v[i]\n");
    kiln_target target = device(*state);
    kiln_sched s = kiln_sched_begin(te, &target, *state);
    kiln_sketch_visit_alone(&s, kiln_group_spread_block);
    expect_lines(&s, 0,
                 "c0 = categorical(16, 8, 4, 2) = 0\nsplit(z.i, -1, c0)\n"
                 "bind(z.i.0, \"block.x\")\nbind(z.i.1, \"thread.x\")\n");
    expect_sound(&s, te);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(results_are_dealt_to_threads_in_order),
        test_with_arena(sums_stay_with_their_thread),
        test_with_arena(what_has_one_result_and_what_is_constant_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
