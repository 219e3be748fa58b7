/* Programs of threads: what the passes launches, barriers and unify make of them, that they still
 * compute the same, and what they refuse. */
#include <string.h>

#include "tests/support/schedule_fuzz.h"
#include "tests/unit/compiler-core/lower/support.h"

#define MATMUL             \
    "program matmul\n"     \
    "input x: f32[8,12]\n" \
    "input w: f32[12,8]\n" \
    "output y: f32[8,8]\n" \
    "block mm(m:8, n:8 | k:12): y[m, n] sum= x[m, k]*w[k, n]\n"

/* Tiles of 4 x 4 by groups of 2 x 2 threads, both operands staged in shared memory. */
#define TILED                                                                                    \
    "cache_read(mm, x, \"shared\")\ncache_read(mm, w, \"shared\")\ncache_write(mm, \"local\")\n" \
    "split(mm.m, 2, 2, 2)\nsplit(mm.n, 2, 2, 2)\nsplit(mm.k, 3, 4)\n"                            \
    "reorder(mm.m.0, mm.n.0, mm.k.0, mm.m.1, mm.n.1, mm.k.1, mm.m.2, mm.n.2)\n"                  \
    "bind(mm.m.0, \"block.y\")\nbind(mm.n.0, \"block.x\")\n"                                     \
    "bind(mm.m.1, \"thread.y\")\nbind(mm.n.1, \"thread.x\")\n"                                   \
    "decompose_reduction(mm, mm.k.0)\n"                                                          \
    "compute_at(x.read, mm.k.0)\ncompute_at(w.read, mm.k.0)\n"                                   \
    "reverse_compute_at(mm.write, mm.n.0)\n"                                                     \
    "split(mm.write.m, 2, 2)\nsplit(mm.write.n, 2, 2)\n"                                         \
    "reorder(mm.write.m.0, mm.write.n.0, mm.write.m.1, mm.write.n.1)\n"                          \
    "bind(mm.write.m.0, \"thread.y\")\nbind(mm.write.n.0, \"thread.x\")\n"                       \
    "fuse(x.read.d0, x.read.d1)\nsplit(x.read.d0.f, 4, 4)\nbind(x.read.d0.f.1, \"thread.x\")\n"

static void a_tiled_product_keeps_its_meaning(void **state) {
    kiln_program *te = parse_in(*state, MATMUL);
    kiln_lowered lowered;
    expect_ok(grid_equals(te, replay_text(te, TILED), 1, &lowered));
    assert_int_equal(lowered.run_launches.count, 1);
    const kiln_launch *launch = &lowered.run_launches.launch[0];
    expect_str(launch->entry, "run.0");
    assert_int_equal(launch->grid_size[0], 2);
    assert_int_equal(launch->grid_size[1], 2);
    assert_int_equal(launch->grid_size[2], 1);
    assert_int_equal(launch->group_size[0], 4); /* the longest nest */
    assert_int_equal(launch->group_size[1], 2);
    assert_int_equal(launch->shared_bytes, 2 * 16 * sizeof(float));
    assert_int_equal(launch->local_bytes, 4 * sizeof(float));
    assert_int_equal(launch->arg_count, 3);
    assert_true(launch->barrier_count > 0);
}

/* Fork-join before barriers and unify, barriers behind: both compute the same, behind every pass.
 */
static void every_pass_keeps_the_meaning(void **state) {
    static const char *const pass[] = {
#define X(name, function, lists) #name,
#include "compiler-core/lower/lower.def"
#undef X
    };
    kiln_program *te = parse_in(*state, MATMUL);
    kiln_program *scheduled = replay_text(te, TILED);
    kiln_target target = x86_target(*state, 3, 1);
    expect_computes(te, scheduled, 1);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(pass); i++) {
        kiln_strbuf text = {0};
        expect_ok(kiln_lower_explain_by(scheduled, &target, KILN_LOWER_GRID, kiln_str_from(pass[i]),
                                        *state, &text));
        expect_computes(te, parse_in(*state, text.data), 1);
        kiln_strbuf_deinit(&text);
    }
}

static void nests_become_one_with_barriers_and_guards(void **state) {
    kiln_program *te = parse_in(*state, "program p\ninput x: f32[2,6]\noutput y: f32[2,4]\n"
                                        "temp t: f32[2,6]\n"
                                        "block a(i:2, j:6): t[i, j] = x[i, j]\n"
                                        "block b(i:2, j:4): y[i, j] = t[i, j] + t[i, j + 2]\n");
    kiln_program *scheduled = replay_text(te, "compute_at(a, b.i)\nbind(b.i, \"block.x\")\n"
                                              "bind(b.j, \"thread.x\")\nbind(a.j, \"thread.x\")\n");
    expect_grid_text(scheduled, "unroll",
                     "  bind(block.x) b.i in 2:\n"
                     "    alloc t:\n"
                     "      bind(thread.x) thread.x in 6:\n"
                     "        t[0, thread.x] = x[b.i, thread.x]\n"
                     "        barrier\n"
                     "        if thread.x < 4:\n"
                     "          y[b.i, thread.x] = t[0, thread.x] + t[0, thread.x + 2]\n");
    expect_ok(grid_equals(te, scheduled, 1, NULL));
}

static void statements_between_nests_are_the_first_thread_s(void **state) {
    kiln_program *te = parse_in(*state, "program p\ninput x: f32[2,4]\noutput y: f32[2,4]\n"
                                        "temp s: f32[2]\n"
                                        "block s(i:2 | j:4): s[i] sum= x[i, j]\n"
                                        "block y(i:2, j:4): y[i, j] = x[i, j]/s[i]\n");
    kiln_program *scheduled = replay_text(te, "compute_at(s, y.i)\nbind(y.i, \"block.x\")\n"
                                              "bind(y.j, \"thread.y\")\n");
    expect_grid_text(scheduled, "unroll",
                     "  bind(block.x) y.i in 2:\n"
                     "    alloc s:\n"
                     "      bind(thread.y) thread.y in 4:\n"
                     "        if thread.y < 1:\n"
                     "          s[0] = 0.0\n"
                     "          s[0] = s[0] + x[y.i, 0]\n"
                     "          for s.j'3 in 1..4:\n"
                     "            s[0] = s[0] + x[y.i, s.j'3]\n"
                     "        barrier\n"
                     "        y[y.i, thread.y] = x[y.i, thread.y]/s[0]\n");
    expect_ok(grid_equals(te, scheduled, 1, NULL));
}

static void each_root_statement_is_a_launch(void **state) {
    kiln_program *te = parse_in(*state, "program p\ninput x: f32[8]\nconstant c: f32[8]\n"
                                        "output y: f32[8]\ntemp d: f32[8]\ntemp t: f32[8]\n"
                                        "block d(i:8): d[i] = c[i] + c[7 - i]\n"
                                        "block t(i:8): t[i] = x[i]*2.0\n"
                                        "block y(i:8): y[i] = t[7 - i] + d[i]\n");
    kiln_program *scheduled =
        replay_text(te, "bind(d.i, \"thread.x\")\nbind(t.i, \"thread.x\")\n"
                        "split(y.i, 2, 4)\nbind(y.i.0, \"block.x\")\nbind(y.i.1, \"thread.x\")\n");
    kiln_lowered lowered;
    expect_ok(grid_equals(te, scheduled, 1, &lowered));
    assert_int_equal(lowered.prepare_launches.count, 1);
    expect_str(lowered.prepare_launches.launch[0].entry, "prepare.0");
    assert_int_equal(lowered.run_launches.count, 2);
    assert_int_equal(lowered.run_launches.temp_count, 1); /* t lies in device memory */
    assert_int_equal(lowered.run_launches.scratch_bytes, 8 * sizeof(float));
    assert_int_equal(lowered.run_launches.launch[0].barrier_count, 0);
    assert_int_equal(lowered.run_launches.launch[0].shared_bytes, 0);
    assert_int_equal(lowered.run_launches.launch[1].grid_size[0], 2);
}

/* Each iteration of k fills the tile anew; its first barrier is the one before that. */
static void a_loop_around_nests_ends_in_a_barrier(void **state) {
    kiln_program *te = parse_in(*state, "program p\ninput x: f32[2,4]\noutput y: f32[4]\n"
                                        "temp t: f32[2,4]\n"
                                        "block t(k:2, i:4): t[k, i] = x[k, i]\n"
                                        "block y(i:4 | k:2): y[i] sum= t[k, 3 - i]\n");
    kiln_program *scheduled =
        replay_text(te, "reorder(y.k, y.i)\ndecompose_reduction(y, y.k)\ncompute_at(t, y.k)\n"
                        "set_scope(t, \"shared\")\nbind(t.i, \"thread.x\")\n"
                        "bind(y.i, \"thread.x\")\nbind(y.init.i, \"thread.x\")\n");
    expect_grid_text(scheduled, "unroll",
                     "  bind(thread.x) thread.x in 4:\n"
                     "    y[thread.x] = 0.0\n"
                     "  alloc t:\n"
                     "    bind(thread.x) thread.x'2 in 4:\n"
                     "      for y.k in 2:\n"
                     "        t[0, thread.x'2] = x[y.k, thread.x'2]\n"
                     "        barrier\n"
                     "        y[thread.x'2] = y[thread.x'2] + t[0, 3 - thread.x'2]\n"
                     "        barrier\n");
    expect_ok(grid_equals(te, scheduled, 1, NULL));
}

/* A thread adds to what another one wrote in the iteration before. */
static void a_nest_that_follows_itself_has_a_barrier(void **state) {
    const char *text = "program p\ninput x: f32[3,4]\noutput y: f32[4]\n"
                       "block y(i:4 | k:3): y[i] sum= x[k, i] without init\n"
                       "block y.init(i:4) of y: y[i] = 0.0\n%s";
    kiln_arena *arena = *state;
    kiln_program *te = parse_in(arena, "program p\ninput x: f32[3,4]\noutput y: f32[4]\n"
                                       "block y(i:4 | k:3): y[i] sum= x[k, i] init 0.0\n");
    kiln_program *loops =
        parse_in(arena, kiln_arena_printf(arena, text,
                                          "loops:\n"
                                          "  bind(thread.x) j in 4:\n    block y.init(i=j)\n"
                                          "  for k in 3:\n"
                                          "    bind(thread.x) t in 4:\n"
                                          "      block y(i=floormod(t + k, 4), k=k)\n"));
    kiln_lowered lowered;
    expect_ok(grid_equals(te, loops, 1, &lowered));
    assert_int_equal(lowered.run_launches.launch[1].barrier_count, 1);
}

static void conditions_on_data_around_nests_are_refused(void **state) {
    kiln_program *loops = parse_in(*state, "program p\ninput x: f32[4]\noutput y: f32[4]\n"
                                           "block y(i:4): y[i] = x[i]\n"
                                           "loops:\n"
                                           "  if x[0] < 1.0:\n"
                                           "    bind(thread.x) t in 4:\n      block y(i=t)\n");
    kiln_target target = x86_target(*state, 3, 1);
    kiln_lowered lowered;
    expect_error(kiln_lower_by(loops, &target, KILN_LOWER_GRID, *state, &lowered), ILLEGAL_SCHEDULE,
                 "a condition around thread nests depends on data");
}

static void expect_refused(void **state, const char *te_text, const char *trace, const char *why) {
    kiln_program *te = parse_in(*state, te_text);
    expect_error(grid_equals(te, replay_text(te, trace), 1, NULL), ILLEGAL_SCHEDULE, why);
}

#define TWO                                  \
    "program p\ninput x: f32[4,8]\n"         \
    "output y: f32[4,8]\ntemp t: f32[4,8]\n" \
    "block t(i:4, j:8): t[i, j] = x[i, j]\n" \
    "block y(i:4, j:8): y[i, j] = t[i, 7 - j]\n"

static void scopes_that_cannot_be_are_refused(void **state) {
    expect_refused(state, TWO, "set_scope(t, \"shared\")\nbind(t.i, \"block.x\")\n",
                   "t has scope shared and several launches touch it");
    expect_refused(state, TWO,
                   "set_scope(t, \"shared\")\nbind(y.i, \"thread.x\")\ncompute_at(t, y.i)\n",
                   "t has scope shared and each thread has its own");
    expect_refused(state, TWO,
                   "set_scope(t, \"local\")\ncompute_at(t, y.i)\nbind(y.i, \"block.x\")\n"
                   "bind(y.j, \"thread.x\")\nbind(t.j, \"thread.x\")\n",
                   "t has scope local and several threads may touch one of its elements");
    expect_refused(state, TWO,
                   "set_scope(t, \"local\")\ncompute_at(t, y.i)\nbind(y.i, \"block.x\")\n"
                   "bind(y.j, \"thread.x\")\n",
                   "several threads may touch one of its elements");
}

#define SAME                                 \
    "program p\ninput x: f32[4,8]\n"         \
    "output y: f32[4,8]\ntemp t: f32[4,8]\n" \
    "block t(i:4, j:8): t[i, j] = x[i, j]\n" \
    "block y(i:4, j:8): y[i, j] = t[i, j]*2.0\n"

static void what_one_thread_touches_is_its_own(void **state) {
    kiln_program *te = parse_in(*state, SAME);
    kiln_lowered lowered;
    expect_ok(grid_equals(te,
                          replay_text(te, "set_scope(t, \"local\")\ncompute_at(t, y.i)\n"
                                          "bind(y.i, \"block.x\")\nsplit(y.j, 4, 2)\n"
                                          "split(t.j, 4, 2)\nbind(y.j.0, \"thread.x\")\n"
                                          "bind(t.j.0, \"thread.x\")\n"),
                          1, &lowered));
    assert_int_equal(lowered.run_launches.launch[0].local_bytes, 2 * sizeof(float));
    assert_int_equal(lowered.run_launches.launch[0].barrier_count, 0);
    /* Threads of the two nests have other elements. */
    expect_refused(state, SAME,
                   "set_scope(t, \"local\")\ncompute_at(t, y.i)\nbind(y.i, \"block.x\")\n"
                   "split(y.j, 4, 2)\nsplit(t.j, 2, 4)\nbind(y.j.0, \"thread.x\")\n"
                   "bind(t.j.0, \"thread.x\")\n",
                   "several threads may touch one of its elements");
    expect_refused(state, SAME,
                   "set_scope(t, \"local\")\ncompute_at(t, y.i)\nbind(y.i, \"block.x\")\n"
                   "bind(y.j, \"thread.x\")\nbind(t.j, \"thread.y\")\n",
                   "several threads may touch one of its elements");
    /* A thread reads what another one wrote, though both are told by the index. */
    expect_refused(state,
                   "program p\ninput x: f32[2,4,4]\noutput y: f32[2,4,4]\ntemp t: f32[2,4,4]\n"
                   "block t(b:2, i:4, j:4): t[b, i, j] = x[b, i, j]\n"
                   "block y(b:2, i:4, j:4): y[b, i, j] = t[b, j, i]\n",
                   "set_scope(t, \"local\")\ncompute_at(t, y.b)\nbind(y.b, \"block.x\")\n"
                   "bind(y.i, \"thread.y\")\nbind(y.j, \"thread.x\")\n"
                   "bind(t.i, \"thread.y\")\nbind(t.j, \"thread.x\")\n",
                   "several threads may touch one of its elements");
    /* The last element that a thread reads is the first of the next one. */
    expect_refused(state,
                   "program p\ninput x: f32[4,9]\noutput y: f32[4,4]\ntemp t: f32[4,9]\n"
                   "block t(i:4, j:9): t[i, j] = x[i, j]\n"
                   "block y(i:4, j:4): y[i, j] = t[i, j*2] + t[i, j*2 + 2]\n",
                   "set_scope(t, \"local\")\ncompute_at(t, y.i)\nbind(y.i, \"block.x\")\n"
                   "bind(y.j, \"thread.x\")\nsplit(t.j, -1, 2)\nbind(t.j.0, \"thread.x\")\n",
                   "several threads may touch one of its elements");
}

static void nests_that_are_too_many_threads_together_are_refused(void **state) {
    expect_refused(state,
                   "program p\ninput x: f32[2,64]\noutput y: f32[2,64]\ntemp t: f32[2,64]\n"
                   "block t(i:2, j:64): t[i, j] = x[i, j]\n"
                   "block y(i:2, j:64): y[i, j] = t[i, j]\n",
                   "compute_at(t, y.i)\nbind(y.i, \"block.x\")\nbind(y.j, \"thread.x\")\n"
                   "bind(t.j, \"thread.y\")\n",
                   "have 4096 threads together");
}

static void launches_beyond_the_limits_of_the_target_are_refused(void **state) {
    static const struct {
        const char *target, *why;
    } row[] = {
        {"null,group=8,shared=128", NULL},
        {"null,group=7",
         "launch run.0: thread.x 4, thread.y 2, thread.z 1 make 8 threads; a group of "
         "the target has 7 at most"},
        {"null,shared=127",
         "launch run.0: its groups share 128 bytes, 64 of them x.read; the target "
         "has 127"},
    };
    kiln_program *te = parse_in(*state, MATMUL);
    const kiln_program *scheduled = replay_text(te, TILED);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target target;
        kiln_lowered lowered;
        kiln_strbuf text = {0};
        expect_ok(kiln_target_parse(kiln_str_from(row[i].target), *state, &target));
        kiln_status st = kiln_lower(scheduled, &target, *state, &lowered),
                    explained = kiln_lower_explain(scheduled, &target, KILN_STR(""), *state, &text);
        if (row[i].why) {
            expect_error(st, ILLEGAL_SCHEDULE, row[i].why);
            expect_error(explained, ILLEGAL_SCHEDULE, row[i].why);
        } else {
            expect_ok(st);
            expect_ok(explained);
            expect_contains(text.data,
                            "# launch run.0: grid 2 x 2 x 1, group 4 x 2 x 1, barriers ");
        }
        kiln_strbuf_deinit(&text);
    }
}

static void a_temp_of_a_group_becomes_shared_and_of_a_thread_local(void **state) {
    kiln_program *te = parse_in(*state, TWO);
    kiln_lowered lowered;
    expect_ok(grid_equals(te,
                          replay_text(te, "compute_at(t, y.i)\nbind(y.i, \"block.x\")\n"
                                          "bind(y.j, \"thread.x\")\nbind(t.j, \"thread.x\")\n"),
                          1, &lowered));
    assert_int_equal(lowered.run_launches.launch[0].shared_count, 1);
    expect_ok(grid_equals(te, replay_text(te, "compute_at(t, y.i)\nbind(y.i, \"thread.x\")\n"), 1,
                          &lowered));
    assert_int_equal(lowered.run_launches.launch[0].local_count, 1);
}

static void random_schedules_keep_their_meaning(void **state) {
    (void)state;
    schedule_fuzz_counts counts = {0};
    kiln_strbuf report = {0};
    for (uint64_t seed = 1; seed <= 500; seed++)
        if (!schedule_fuzz_pair(seed, NULL, &counts, &report)) fail_msg("%s", report.data);
    kiln_strbuf_deinit(&report);
    assert_true(counts.lowered > 350); /* few are refused, and many have groups of threads */
    assert_true(counts.groups > 100);
    assert_true(counts.grids > 30);
    assert_true(counts.barriers > 20);
    assert_true(counts.shared > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_tiled_product_keeps_its_meaning),
        test_with_arena(every_pass_keeps_the_meaning),
        test_with_arena(nests_become_one_with_barriers_and_guards),
        test_with_arena(statements_between_nests_are_the_first_thread_s),
        test_with_arena(each_root_statement_is_a_launch),
        test_with_arena(a_loop_around_nests_ends_in_a_barrier),
        test_with_arena(a_nest_that_follows_itself_has_a_barrier),
        test_with_arena(conditions_on_data_around_nests_are_refused),
        test_with_arena(scopes_that_cannot_be_are_refused),
        test_with_arena(what_one_thread_touches_is_its_own),
        test_with_arena(nests_that_are_too_many_threads_together_are_refused),
        test_with_arena(launches_beyond_the_limits_of_the_target_are_refused),
        test_with_arena(a_temp_of_a_group_becomes_shared_and_of_a_thread_local),
        cmocka_unit_test(random_schedules_keep_their_meaning),
    };
    return cmocka_run_group_tests_name("compiler-core/lower/launches", tests, NULL, NULL);
}
