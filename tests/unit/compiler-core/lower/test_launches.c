/* Programs of threads: what the passes launches, barriers and unify make of them, that they still
 * compute the same, and what they refuse. */
#include <string.h>

#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/pass.h"
#include "tests/support/interpreter.h"
#include "tests/support/program_generate.h"
#include "tests/support/schedule_fuzz.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/codegen/draw.h"
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
    expect_str(launch->entry, "run_0");
    assert_int_equal(launch->grid_size[0], 2);
    assert_int_equal(launch->grid_size[1], 2);
    assert_int_equal(launch->grid_size[2], 1);
    assert_int_equal(launch->group_size[0], 4); /* the longest nest */
    assert_int_equal(launch->group_size[1], 2);
    assert_int_equal(launch->shared_bytes, 2 * 16 * sizeof(float));
    assert_int_equal(launch->local_bytes, 4 * sizeof(float));
    assert_int_equal(launch->arg_count, 3);
    assert_int_equal(launch->barrier_count, 2); /* before the fetches and behind both of them */
}

/* One group of 2 x 2 threads with 2 x 2 virtual threads each, whose elements lie 4 apart. */
#define VIRTUAL(scope, order)                                                                    \
    "cache_read(mm, x, \"shared\")\ncache_read(mm, w, \"shared\")\ncache_write(mm, \"" scope     \
    "\")\n"                                                                                      \
    "split(mm.m, 1, 2, 2, 2)\nsplit(mm.n, 1, 2, 2, 2)\nsplit(mm.k, 3, 4)\nreorder(" order ")\n"  \
    "bind(mm.m.0, \"block.y\")\nbind(mm.n.0, \"block.x\")\n"                                     \
    "bind(mm.m.2, \"thread.y\")\nbind(mm.n.2, \"thread.x\")\nvthread(mm.m.1)\nvthread(mm.n.1)\n" \
    "decompose_reduction(mm, mm.k.0)\n"                                                          \
    "compute_at(x.read, mm.k.0)\ncompute_at(w.read, mm.k.0)\n"                                   \
    "fuse(x.read.d0, x.read.d1)\nsplit(x.read.d0.f, -1, 4)\nbind(x.read.d0.f.1, \"thread.x\")\n" \
    "reverse_compute_at(mm.write, mm.n.0)\n"                                                     \
    "split(mm.write.m, 2, 2, 2)\nsplit(mm.write.n, 2, 2, 2)\n"                                   \
    "reorder(mm.write.m.1, mm.write.n.1, mm.write.m.0, mm.write.n.0, mm.write.m.2, "             \
    "mm.write.n.2)\n"                                                                            \
    "bind(mm.write.m.1, \"thread.y\")\nbind(mm.write.n.1, \"thread.x\")\n"                       \
    "vthread(mm.write.m.0)\nvthread(mm.write.n.0)\n"
#define AROUND "mm.m.0, mm.n.0, mm.m.1, mm.n.1, mm.k.0, mm.m.2, mm.n.2, mm.k.1, mm.m.3, mm.n.3"
#define INSIDE "mm.m.0, mm.n.0, mm.k.0, mm.m.2, mm.n.2, mm.m.1, mm.n.1, mm.k.1, mm.m.3, mm.n.3"

#define PIPELINE "pipeline(mm.k.0, 2)\n"
/* By copies; more stages than iterations are as many as there can be. */
#define COPIES(stages) "pipeline(mm.k.0, " #stages ")\n"

static const char *const scheduled_texts[] = {
    TILED,           VIRTUAL("local", AROUND),           VIRTUAL("local", INSIDE),
    TILED PIPELINE,  VIRTUAL("local", AROUND) PIPELINE,  VIRTUAL("local", INSIDE) PIPELINE,
    TILED COPIES(3), VIRTUAL("local", AROUND) COPIES(4), VIRTUAL("local", INSIDE) COPIES(3)};

static void every_pass_keeps_the_meaning(void **state) {
    kiln_program *te = parse_in(*state, MATMUL);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(scheduled_texts); i++)
        expect_meaning_behind_every_pass(*state, te, scheduled_texts[i]);
}

/* What a thread keeps for its virtual threads is one small tile without the gaps between them,
 * which constants choose: it can be in registers. What no virtual thread makes differently is made
 * once. */
static void virtual_threads_stand_in_one_body(void **state) {
    static const char *const order[] = {AROUND, INSIDE};
    kiln_program *te = parse_in(*state, MATMUL);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(order); i++) {
        kiln_lowered lowered;
        const char *trace = i ? VIRTUAL("local", INSIDE) : VIRTUAL("local", AROUND);
        expect_ok(grid_equals(te, replay_text(te, trace), 1, &lowered));
        const kiln_launch *launch = &lowered.run_launches.launch[0];
        assert_int_equal(launch->local_bytes, 16 * sizeof(float));
        assert_int_equal(launch->shared_bytes, 64 * sizeof(float));
    }
}

/* Parts that lie apart by two strides, 16 and 4, stand together just so. */
static void gaps_of_several_strides_are_closed(void **state) {
    kiln_program *te =
        parse_in(*state, "program p\ninput x: f32[2,32]\noutput y: f32[2,32]\ntemp t: f32[2,32]\n"
                         "block t(n:2, i:32): t[n, i] = x[n, i]*2.0\n"
                         "block y(n:2, i:32): y[n, i] = t[n, i] + 1.0\n");
    kiln_lowered lowered;
    kiln_program *scheduled =
        replay_text(te, "set_scope(t, \"local\")\nbind(y.n, \"block.x\")\ncompute_at(t, y.n)\n"
                        "split(y.i, 2, 2, 2, 4)\nreorder(y.i.1, y.i.3, y.i.0, y.i.2)\n"
                        "bind(y.i.1, \"thread.y\")\nbind(y.i.3, \"thread.x\")\n"
                        "split(t.i, 2, 2, 2, 4)\nreorder(t.i.1, t.i.3, t.i.0, t.i.2)\n"
                        "bind(t.i.1, \"thread.y\")\nbind(t.i.3, \"thread.x\")\n");
    expect_ok(grid_equals(te, scheduled, 1, &lowered));
    assert_int_equal(lowered.run_launches.launch[0].local_bytes, 4 * sizeof(float));
}

/* Each virtual thread makes a temp of its own, of which all elements are made anew. */
static void what_a_virtual_thread_makes_is_its_own(void **state) {
    kiln_program *te = parse_in(*state, "program p\ninput x: f32[4,8]\noutput y: f32[4,8]\n"
                                        "temp t: f32[4,8]\n"
                                        "block t(i:4, j:8): t[i, j] = x[i, j]\n"
                                        "block y(i:4, j:8): y[i, j] = t[i, 7 - j] + t[i, j]\n");
    kiln_program *scheduled =
        replay_text(te, "bind(y.i, \"block.x\")\nsplit(y.j, 2, 4)\nbind(y.j.1, \"thread.x\")\n"
                        "vthread(y.j.0)\ncompute_at(t, y.j.0)\nbind(t.j, \"thread.x\")\n");
    expect_grid_text(scheduled, "vthread",
                     "  bind(block.x) y.i in 4:\n"
                     "    bind(thread.x) t.j in 8:\n"
                     "      t[y.i, t.j] = x[y.i, t.j]\n"
                     "    bind(thread.x) y.j.1 in 4:\n"
                     "      unroll y.j.0'2 in 2:\n"
                     "        y[y.i, y.j.0'2*4 + y.j.1] = t[y.i, 7 - y.j.0'2*4 - y.j.1] + "
                     "t[y.i, y.j.0'2*4 + y.j.1]\n");
    expect_ok(grid_equals(te, scheduled, 1, NULL));
    /* Neighbours make some of the same elements. */
    te = parse_in(*state, "program p\ninput x: f32[6]\noutput y: f32[4,3]\ntemp t: f32[6]\n"
                          "block t(k:6): t[k] = x[k]*2.0\n"
                          "block y(i:4, j:3): y[i, j] = t[i + j]\n");
    scheduled = replay_text(te, "bind(y.j, \"thread.x\")\nvthread(y.i)\ncompute_at(t, y.i)\n"
                                "bind(t.k, \"thread.x\")\n");
    expect_grid_text(scheduled, "vthread",
                     "  bind(thread.x) t.k in 3:\n"
                     "    unroll y.i'2 in 4:\n"
                     "      t'2[y.i'2, y.i'2 + t.k] = x[y.i'2 + t.k]*2.0\n"
                     "  bind(thread.x) y.j in 3:\n"
                     "    unroll y.i'3 in 4:\n"
                     "      y[y.i'3, y.j] = t'2[y.i'3, y.i'3 + y.j]\n");
    expect_computes(te, scheduled, 1);
}

static void expect_refused(void **state, const char *te_text, const char *trace, const char *why) {
    kiln_program *te = parse_in(*state, te_text);
    expect_error(grid_equals(te, replay_text(te, trace), 1, NULL), ILLEGAL_SCHEDULE, why);
}

/* Two slots, loads before the work and stores behind it, one barrier in each iteration: before the
 * work, behind the loads. */
static void a_pipeline_fetches_ahead_through_registers(void **state) {
    kiln_program *te = parse_in(*state, "program p\ninput x: f32[3,4]\noutput y: f32[4]\n"
                                        "temp t: f32[3,4]\n"
                                        "block t(k:3, i:4): t[k, i] = x[k, i]*2.0\n"
                                        "block y(i:4 | k:3): y[i] sum= t[k, 3 - i]\n");
    kiln_program *scheduled =
        replay_text(te, "split(y.i, 1, 4)\nreorder(y.i.0, y.k, y.i.1)\nbind(y.i.0, \"block.x\")\n"
                        "decompose_reduction(y, y.k)\ncompute_at(t, y.k)\n"
                        "set_scope(t, \"shared\")\nbind(t.i, \"thread.x\")\n"
                        "bind(y.i.1, \"thread.x\")\nbind(y.init.i.1, \"thread.x\")\n"
                        "pipeline(y.k, 2)\n");
    expect_grid_text(scheduled, "unroll",
                     "  bind(block.x) y.i.0 in 1:\n"
                     "    alloc t'2:\n"
                     "      bind(thread.x) thread.x in 4:\n"
                     "        y[thread.x] = 0.0\n"
                     "        alloc t'2.next:\n"
                     "          t'2.next[0, 0] = x[0, thread.x]*2.0\n"
                     "          t'2[0, 0, thread.x] = t'2.next[0, 0]\n"
                     "        for y.k in 2:\n"
                     "          alloc t'2.next'2:\n"
                     "            t'2.next'2[0, 0] = x[y.k + 1, thread.x]*2.0\n"
                     "            barrier\n"
                     "            y[thread.x] = y[thread.x] + t'2[y.k, 0, 3 - thread.x]\n"
                     "            t'2[floormod(y.k + 1, 2), 0, thread.x] = t'2.next'2[0, 0]\n"
                     "        barrier\n"
                     "        y[thread.x] = y[thread.x] + t'2[0, 0, 3 - thread.x]\n");
    expect_ok(grid_equals(te, scheduled, 1, NULL));
}

/* Of what a thread fetches first 41 elements are too many at once: 14, 14 and 13 are; of two rows
 * of 20 halves. Later iterations fetch all at once as ever. */
static void a_large_first_block_comes_in_rounds(void **state) {
    static const struct {
        const char *size, *fetch, *first;
    } row[] = {{"164", "split(t.i, 41, 4)\nreorder(t.i.1, t.i.0)\nbind(t.i.1, \"thread.x\")\n",
                "      for t.i.0'2'2 in 2:\n"
                "        unroll t.i.0'3 in 14:\n"
                "          t'2.next[t.i.0'3] = x[0, t.i.1'2 + t.i.0'2'2*56 + t.i.0'3*4]*2.0\n"
                "        unroll t.i.0'4 in 14:\n"
                "          t'2[0, 0, t.i.1'2 + t.i.0'2'2*56 + t.i.0'4*4] = t'2.next[t.i.0'4]\n"
                "      unroll t.i.0'5 in 13:\n"
                "        t'2.next'2[t.i.0'5] = x[0, t.i.1'2 + t.i.0'5*4 + 112]*2.0\n"
                "      unroll t.i.0'6 in 13:\n"
                "        t'2[0, 0, t.i.1'2 + t.i.0'6*4 + 112] = t'2.next'2[t.i.0'6]\n"
                "    for y.k in 2:\n"},
               {"160",
                "split(t.i, 2, 20, 4)\nreorder(t.i.2, t.i.0, t.i.1)\n"
                "bind(t.i.2, \"thread.x\")\n",
                "      for t.i.0'2 in 2:\n"
                "        for t.i.1'2'2 in 2:\n"
                "          unroll t.i.1'3 in 10:\n"}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_program *te =
            parse_in(*state, kiln_arena_printf(*state,
                                               "program p\ninput x: f32[3,%s]\noutput y: f32[%s]\n"
                                               "temp t: f32[3,%s]\n"
                                               "block t(k:3, i:%s): t[k, i] = x[k, i]*2.0\n"
                                               "block y(i:%s | k:3): y[i] sum= t[k, %s - 1 - i]\n",
                                               row[i].size, row[i].size, row[i].size, row[i].size,
                                               row[i].size, row[i].size));
        const char *trace = kiln_arena_printf(
            *state,
            "split(y.i, 1, -1, 4)\nreorder(y.i.0, y.k, y.i.2, y.i.1)\nbind(y.i.0, \"block.x\")\n"
            "decompose_reduction(y, y.k)\ncompute_at(t, y.k)\nset_scope(t, \"shared\")\n%s"
            "bind(y.i.2, \"thread.x\")\nbind(y.init.i.2, \"thread.x\")\npipeline(y.k, 2)\n",
            row[i].fetch);
        kiln_target target = target_of(*state, "cuda:sm_80");
        kiln_program *scheduled = replay_text(te, trace);
        expect_contains(lowered_text(scheduled, &target, "pipeline"), row[i].first);
        expect_ok(grid_equals(te, scheduled, 1, NULL));
        expect_meaning_behind_every_pass(*state, te, trace);
    }
}

#define ROWS_OF(value)                                 \
    "program p\ninput x: f32[5,4]\noutput y: f32[4]\n" \
    "temp t: f32[5,4]\n"                               \
    "block t(k:5, i:4): t[k, i] = " value "\n"         \
    "block y(i:4 | k:5): y[i] sum= t[k, 3 - i]\n"
#define ROWS_AHEAD(stages)                                                     \
    "split(y.i, 1, 4)\nreorder(y.i.0, y.k, y.i.1)\nbind(y.i.0, \"block.x\")\n" \
    "decompose_reduction(y, y.k)\ncompute_at(t, y.k)\n"                        \
    "set_scope(t, \"shared\")\nbind(t.i, \"thread.x\")\n"                      \
    "bind(y.i.1, \"thread.x\")\nbind(y.init.i.1, \"thread.x\")\npipeline(y.k, " #stages ")\n"

/* A slot per stage, one barrier in each iteration, behind the wait for the oldest group. */
static void a_pipeline_of_copies_waits_for_the_oldest(void **state) {
    kiln_program *te = parse_in(*state, ROWS_OF("x[k, i]"));
    kiln_program *scheduled = replay_text(te, ROWS_AHEAD(3));
    kiln_target target = target_of(*state, "cuda:sm_80");
    kiln_strbuf text = {0};
    kiln_lowered lowered;
    expect_ok(kiln_lower_explain(scheduled, &target, KILN_STR(""), *state, &text));
    expect_contains(
        text.data, "        for y.k'4 in 3:\n"
                   "          wait(0, 1)\n"
                   "          barrier\n"
                   "          copy(0) t'2[floormod(y.k'4 + 2, 3), 0, thread.x'7] = "
                   "x[y.k'4 + 2, thread.x'7]\n"
                   "          commit(0)\n"
                   "          y[thread.x'7] = y[thread.x'7] + t'2[y.k'4, 0, 3 - thread.x'7]\n"
                   "        for y.k'5 in 3..5:\n"
                   "          wait(0, 1)\n"
                   "          barrier\n"
                   "          commit(0)\n"
                   "          y[thread.x'7] = y[thread.x'7] + t'2[y.k'5 - 3, 0, 3 - thread.x'7]\n");
    kiln_strbuf_deinit(&text);
    expect_ok(grid_equals_on(te, scheduled, &target, 1, &lowered));
    assert_int_equal(lowered.run_launches.launch[0].shared_bytes, 3 * 4 * sizeof(float));
    assert_int_equal(lowered.run_launches.launch[0].barrier_count, 2); /* none before the loops */
    expect_meaning_behind_every_pass(*state, te, ROWS_AHEAD(3));
    expect_meaning_behind_every_pass(*state, te, ROWS_AHEAD(8)); /* five iterations: six slots */
}

/* A padding is stored where there is nothing to copy; what is not 0 there as well. */
static void a_fill_value_is_stored_and_the_rest_copied(void **state) {
    kiln_program *te =
        parse_in(*state, ROWS_OF("select(and(1 <= k + i, k + i < 6), x[min(k + i, 4), i], 7.0)"));
    kiln_target target = target_of(*state, "cuda:sm_90a");
    kiln_strbuf text = {0};
    expect_meaning_behind_every_pass(*state, te, ROWS_AHEAD(4));
    expect_ok(
        kiln_lower_explain(replay_text(te, ROWS_AHEAD(4)), &target, KILN_STR(""), *state, &text));
    expect_contains(text.data, "copy(0) t");
    expect_contains(text.data, " = 7.0");
    kiln_strbuf_deinit(&text);
}

/* What is made of what was fetched is work, and not fetched ahead with it. */
static void what_is_made_of_what_is_fetched_comes_in_its_turn(void **state) {
    kiln_program *te = parse_in(*state, "program p\ninput x: f32[4,4]\noutput y: f32[4]\n"
                                        "temp t: f32[4,4]\ntemp u: f32[4,4]\n"
                                        "block t(k:4, i:4): t[k, i] = x[k, i]\n"
                                        "block u(k:4, i:4): u[k, i] = t[k, 3 - i]*2.0\n"
                                        "block y(i:4 | k:4): y[i] sum= u[k, 3 - i]\n");
    kiln_program *scheduled = replay_text(
        te, "split(y.i, 1, 4)\nreorder(y.i.0, y.k, y.i.1)\nbind(y.i.0, \"block.x\")\n"
            "decompose_reduction(y, y.k)\ncompute_at(u, y.k)\ncompute_at(t, y.k)\n"
            "set_scope(t, \"shared\")\nset_scope(u, \"shared\")\nbind(t.i, \"thread.x\")\n"
            "bind(u.i, \"thread.x\")\nbind(y.i.1, \"thread.x\")\n"
            "bind(y.init.i.1, \"thread.x\")\npipeline(y.k, 2)\n");
    kiln_lowered lowered;
    expect_ok(grid_equals(te, scheduled, 1, &lowered));
    assert_int_equal(lowered.run_launches.launch[0].shared_bytes, (2 * 4 + 4) * sizeof(float));
}

static void pipelines_that_cannot_be_are_refused(void **state) {
    expect_refused(state, MATMUL, TILED "pipeline(mm.k.0, 3)\n",
                   "loop mm.k.0 has 3 stages; more than 2 need asynchronous copies");
    kiln_program *te = parse_in(*state, ROWS_OF("x[k, i]*2.0"));
    kiln_target target = target_of(*state, "cuda:sm_80");
    expect_error(grid_equals_on(te, replay_text(te, ROWS_AHEAD(3)), &target, 1, NULL),
                 ILLEGAL_SCHEDULE,
                 "loop y.k has 3 stages; more than 2 need fetches that are copies");
    target = target_of(*state, "opencl");
    te = parse_in(*state, ROWS_OF("x[k, i]"));
    expect_error(grid_equals_on(te, replay_text(te, ROWS_AHEAD(3)), &target, 1, NULL),
                 ILLEGAL_SCHEDULE, "more than 2 need asynchronous copies, which the target lacks");
    expect_refused(state, MATMUL,
                   "cache_read(mm, x, \"global\")\nbind(mm.m, \"thread.x\")\n"
                   "compute_at(x.read, mm.n)\npipeline(mm.n, 2)\n",
                   "loop mm.n is a pipeline inside of a thread");
    expect_refused(state, MATMUL,
                   "cache_read(mm, x, \"global\")\ncompute_at(x.read, mm.n)\npipeline(mm.n, 2)\n",
                   "no statement of it fetches into shared memory");
}

#define ROWS(parts)                                                      \
    "rfactor(s, \"j\", " #parts ")\n"                                    \
    "reverse_compute_at(s, s.part.i)\nreverse_compute_at(y, s.part.i)\n" \
    "bind(s.part.i, \"block.x\")\nbind(s.part.j.1, \"thread.x\")\n"      \
    "set_scope(s.part, \"shared\")\nset_scope(s, \"shared\")\nbind(y.j, \"thread.x\")\n"

/* The threads that made the parts add them up in halves, behind a barrier each. */
static void parts_of_threads_are_summed_by_threads(void **state) {
    static const struct {
        const char *trace, *combiner;
        uint32_t barriers; /* behind the parts, between steps, behind the last, behind the sum */
    } row[] = {{ROWS(8), "sum", 1 + 2 + 1 + 1},
               {ROWS(5), "max", 1 + 2 + 1 + 1},
               {ROWS(7), "prod", 1 + 2 + 1 + 1},
               {ROWS(2), "min", 1 + 1}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_lowered lowered;
        kiln_program *te = parse_in(
            *state, kiln_arena_printf(*state,
                                      "program p\ninput x: f32[3,37]\noutput y: f32[3,37]\n"
                                      "temp s: f32[3]\n"
                                      "block s(i:3 | j:37): s[i] %s= x[i, j]\n"
                                      "block y(i:3, j:37): y[i, j] = x[i, j] + s[i]\n",
                                      row[i].combiner));
        kiln_program *scheduled = replay_text(te, row[i].trace);
        expect_ok(grid_equals(te, scheduled, 1, &lowered));
        assert_int_equal(lowered.run_launches.launch[0].barrier_count, row[i].barriers);
        expect_meaning_behind_every_pass(*state, te, row[i].trace);
    }
}

/* Rows of 70, whose parts are made by threads of x, of several rows, or in a loop. */
#define SUMS(combiner, dtype)                                                             \
    kiln_arena_printf(*state,                                                             \
                      "program p\ninput x: %s[3,70]\noutput y: %s[3,70]\ntemp s: %s[3]\n" \
                      "block s(i:3 | j:70): s[i] %s= x[i, j]\n"                           \
                      "block y(i:3, j:70): y[i, j] = x[i, j] + s[i]\n",                   \
                      dtype, dtype, dtype, combiner)

/* Of programs without constants: what the launches of two targets compute. */
static void expect_same_bits(const kiln_program *te, const kiln_program *scheduled,
                             const kiln_target *a, const kiln_target *b) {
    const kiln_target *target[] = {a, b};
    kiln_tensor arg[2][8];
    for (size_t i = 0; i < KILN_ARRAY_COUNT(target); i++) {
        kiln_lowered lowered;
        expect_ok(kiln_lower(scheduled, target[i], te->arena, &lowered));
        const uint32_t count = make_args(te, 3, arg[i]);
        expect_ok(kiln_loop_eval(lowered.run, arg[i], count));
        assert_memory_equal(arg[0][count - 1].data, arg[i][count - 1].data,
                            kiln_tensor_bytes(&arg[i][count - 1]));
    }
}

/* The last 32 parts, or as many as there are, are summed by lanes of one warp without barriers; all
 * bits are as in the tree of a target whose threads exchange nothing. */
static void lanes_of_a_warp_sum_the_last_parts(void **state) {
    static const struct {
        int parts;
        const char *combiner, *dtype;
        bool lanes;
        uint32_t barriers; /* behind the parts, between steps, behind the last, behind the sum */
    } row[] = {
        {64, "sum", "f32", true, 1 + 1 + 1 + 1},  {32, "max", "f32", true, 1 + 1 + 1},
        {8, "sum", "f32", true, 1 + 1 + 1},       {64, "min", "i32", true, 1 + 1 + 1 + 1},
        {48, "sum", "f32", false, 1 + 5 + 1 + 1}, {64, "sum", "f64", false, 1 + 5 + 1 + 1},
    };
    kiln_target cuda = target_of(*state, "cuda:sm_80"), other = target_of(*state, "opencl");
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_lowered lowered;
        kiln_strbuf text = {0};
        kiln_program *te = parse_in(*state, SUMS(row[i].combiner, row[i].dtype));
        const char *trace = kiln_arena_printf(
            *state,
            "rfactor(s, \"j\", %d)\nreverse_compute_at(s, s.part.i)\n"
            "reverse_compute_at(y, s.part.i)\nbind(s.part.i, \"block.x\")\n"
            "bind(s.part.j.1, \"thread.x\")\nset_scope(s.part, \"shared\")\n"
            "set_scope(s, \"shared\")\nsplit(y.j, -1, 64)\nbind(y.j.1, \"thread.x\")\n",
            row[i].parts);
        kiln_program *scheduled = replay_text(te, trace);
        expect_ok(kiln_lower_explain(scheduled, &cuda, KILN_STR(""), *state, &text));
        if ((strstr(text.data, "@exchange(") != NULL) != row[i].lanes)
            fail_msg("%zu: %s", i, text.data);
        kiln_strbuf_deinit(&text);
        expect_ok(grid_equals_on(te, scheduled, &cuda, 1, &lowered));
        assert_int_equal(lowered.run_launches.launch[0].barrier_count, row[i].barriers);
        expect_meaning_behind_every_pass(*state, te, trace);
        expect_same_bits(te, scheduled, &cuda, &other);
    }
}

/* Threads that are no whole warps have no lanes for all parts. */
static void warps_that_are_not_whole_exchange_nothing(void **state) {
    kiln_target target = target_of(*state, "cuda:sm_80");
    kiln_program *te = parse_in(*state, SUMS("sum", "f32"));
    kiln_strbuf text = {0};
    kiln_program *scheduled = replay_text(te, ROWS(8));
    expect_ok(kiln_lower_explain(scheduled, &target, KILN_STR(""), *state, &text));
    assert_null(strstr(text.data, "@exchange"));
    kiln_strbuf_deinit(&text);
    expect_ok(grid_equals_on(te, scheduled, &target, 1, NULL));
}

/* Parts that something else reads, and parts that are summed several times, stay what they are. */
static void parts_that_are_needed_again_are_left_alone(void **state) {
    static const char *const loops[] = {
        "  bind(block.x) b in 1:\n"
        "    bind(thread.x) q in 4:\n      t[q] = x[q]\n"
        "    s[0] = 0.0\n"
        "    for j in 4:\n      s[0] = s[0] + t[j]\n"
        "    bind(thread.x) l in 4:\n      y[l] = t[l]\n",
        "  bind(block.x) b in 1:\n"
        "    bind(thread.x) q in 4:\n      t[q] = x[q]\n"
        "    for k in 3:\n"
        "      s[k] = 0.0\n"
        "      for j in 4:\n        s[k] = s[k] + t[j]\n"
        "      bind(thread.x) l in 4:\n        y[l] = s[k]\n",
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(loops); i++) {
        kiln_strbuf before = {0}, after = {0};
        kiln_target target = x86_target(*state, 3, 1);
        kiln_lowering l = {
            .target = &target,
            .arena = *state,
            .run = parse_in(*state, kiln_arena_printf(*state,
                                                      "program p\ninput x: f32[4]\n"
                                                      "output y: f32[4]\noutput s: f32[3]\n"
                                                      "temp t: f32[4] scope(shared)\nloops:\n%s",
                                                      loops[i])),
            .list = KILN_LOWER_GRID};
        kiln_program_print(l.run, &before);
        expect_ok(kiln_lower_crossthread(&l));
        kiln_program_print(l.run, &after);
        assert_string_equal(before.data, after.data);
        kiln_strbuf_deinit(&before);
        kiln_strbuf_deinit(&after);
    }
}

/* 4-byte registers of a thread, against what it gets of its unit's. */
static void registers_of_a_thread_are_counted(void **state) {
    static const struct {
        const char *target;
        int columns;
        const char *why;
    } row[] = {
        {"cuda:sm_90", 232, NULL},
        {"cuda:sm_90", 240,
         "buffer y.acc needs 240 registers of a thread with those around it, and 22 more are "
         "needed; a thread of a group of 64 has 255"},
        {"cuda:sm_90", 0, "a thread of a group of 1024 has 64"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const int n = row[i].columns ? row[i].columns : 48, m = row[i].columns ? 64 : 1024;
        kiln_program *te = parse_in(
            *state, kiln_arena_printf(*state,
                                      "program p\ninput x: f32[%d,2]\ninput w: f32[2,%d]\n"
                                      "output y: f32[%d,%d]\n"
                                      "block mm(m:%d, n:%d | k:2): y[m, n] sum= x[m, k]*w[k, n]\n",
                                      m, n, m, n, m, n));
        kiln_program *scheduled =
            replay_text(te, "cache_write(mm, \"register\")\nreorder(mm.m, mm.k, mm.n)\n"
                            "bind(mm.m, \"thread.x\")\ndecompose_reduction(mm, mm.k)\n"
                            "reverse_compute_at(mm.write, mm.m)\nunroll(mm.n)\nunroll(mm.init.n)\n"
                            "unroll(mm.write.n)\n");
        kiln_target target;
        kiln_lowered lowered;
        expect_ok(kiln_target_parse(kiln_str_from(row[i].target), *state, &target));
        kiln_status st = kiln_lower(scheduled, &target, *state, &lowered);
        if (row[i].why) {
            expect_error(st, ILLEGAL_SCHEDULE, row[i].why);
        } else {
            expect_ok(st);
            assert_int_equal(lowered.registers, n);
        }
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
    expect_str(lowered.prepare_launches.launch[0].entry, "prepare_0");
    assert_int_equal(lowered.run_launches.count, 2);
    assert_int_equal(lowered.run_launches.temp_count, 1); /* t lies in device memory */
    assert_int_equal(lowered.run_launches.scratch_bytes, 8 * sizeof(float));
    assert_int_equal(lowered.run_launches.launch[0].barrier_count, 0);
    assert_int_equal(lowered.run_launches.launch[0].shared_bytes, 0);
    assert_int_equal(lowered.run_launches.launch[1].grid_size[0], 2);
}

/* Each iteration of k fills the tile anew, behind what the one before read. */
static void a_loop_around_nests_begins_with_a_barrier(void **state) {
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
                     "        barrier\n"
                     "        t[0, thread.x'2] = x[y.k, thread.x'2]\n"
                     "        barrier\n"
                     "        y[thread.x'2] = y[thread.x'2] + t[0, 3 - thread.x'2]\n");
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

static uint32_t count_barriers(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    uint32_t count = s->kind == KILN_STMT_BARRIER;
    for (uint32_t i = 0; i < s->child.count; i++) count += count_barriers(p, s->child.data[i]);
    return count;
}

static kiln_tensor filled_tensor(kiln_arena *arena, int64_t rows, int64_t columns) {
    kiln_tensor t = kiln_tensor_create(arena, KILN_F32, &(kiln_shape){2, {rows, columns}});
    for (int64_t i = 0; i < rows * columns; i++) ((float *)t.data)[i] = (float)i;
    return t;
}

/* Slots of a ring: what is written for the next iteration needs no barrier beside what is read of
 * this one; a condition around nests leaves open whether its barrier is met. */
static void barriers_are_as_few_as_keep_the_order(void **state) {
    static const struct {
        const char *loops;
        uint32_t barriers;
    } row[] = {
        {"  bind(block.x) b in 1:\n"
         "    bind(thread.x) i in 4:\n      t[0, i] = x[0, i]\n"
         "    for k in 3:\n"
         "      bind(thread.x) j in 4:\n        y[k, j] = t[floormod(k, 2), 3 - j]\n"
         "      bind(thread.x) l in 4:\n        t[floormod(k + 1, 2), l] = x[k + 1, l]\n"
         "    bind(thread.x) m in 4:\n      y[3, m] = t[1, 3 - m]\n",
         2},
        {"  bind(block.x) b in 1:\n"
         "    bind(thread.x) i in 4:\n      t[0, i] = x[0, i]\n"
         "    for k in 3:\n"
         "      bind(thread.x) j in 4:\n        y[k, j] = t[floormod(k*2, 2), 3 - j]\n"
         "      bind(thread.x) l in 4:\n        t[floormod(k*2 + 2, 2), l] = x[k + 1, l]\n"
         "    bind(thread.x) m in 4:\n      y[3, m] = t[0, 3 - m]\n",
         3},
        {"  bind(block.x) b in 1:\n"
         "    bind(thread.x) i in 4:\n      t[0, i] = x[0, i]\n"
         "    bind(thread.x) n in 4:\n      y[2, n] = t[0, 3 - n]\n"
         "    for k in 2:\n"
         "      bind(thread.x) j in 4:\n        y[k, j] = t[floormod(k, 2), 3 - j]\n"
         "      bind(thread.x) l in 4:\n        t[floormod(k + 1, 2), l] = x[k + 1, l]\n"
         "    bind(thread.x) m in 4:\n      y[3, m] = t[0, 3 - m]\n",
         4},
        {"  bind(block.x) b in 1:\n"
         "    for k in 4:\n"
         "      bind(thread.x) i in 4:\n        t[0, i] = x[k, i]\n"
         "      if k < 2:\n"
         "        bind(thread.x) j in 4:\n          y[k, j] = t[0, 3 - j]\n"
         "      bind(thread.x) l in 4:\n        y[k, l] = t[0, 3 - l]\n",
         3},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const char *text = kiln_arena_printf(*state,
                                             "program p\ninput x: f32[4,4]\noutput y: f32[4,4]\n"
                                             "temp t: f32[2,4] scope(shared)\nloops:\n%s",
                                             row[i].loops);
        kiln_target target = x86_target(*state, 3, 1);
        kiln_lowering l = {.target = &target,
                           .arena = *state,
                           .run = parse_in(*state, text),
                           .list = KILN_LOWER_GRID};
        expect_ok(kiln_lower_launches(&l));
        expect_ok(kiln_lower_barriers(&l));
        expect_ok(kiln_lower_unify(&l));
        assert_int_equal(count_barriers(l.run, l.run->root), row[i].barriers);
        kiln_tensor arg[2] = {filled_tensor(*state, 4, 4), filled_tensor(*state, 4, 4)};
        expect_ok(kiln_loop_eval(l.run, arg, 2));
    }
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
    /* It need not be said. */
    expect_ok(grid_equals(te,
                          replay_text(te, "compute_at(t, y.i)\nbind(y.i, \"block.x\")\n"
                                          "bind(y.j, \"thread.x\")\nbind(t.j, \"thread.x\")\n"),
                          1, &lowered));
    assert_int_equal(lowered.run_launches.launch[0].local_bytes, sizeof(float));
    assert_int_equal(lowered.run_launches.launch[0].shared_bytes, 0);
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
         "launch run_0: thread.x 4, thread.y 2, thread.z 1 make 8 threads; a group of "
         "the target has 7 at most"},
        {"null,shared=127",
         "launch run_0: its groups share 128 bytes, 64 of them x.read; the target "
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
                            "# launch run_0: grid 2 x 2 x 1, group 4 x 2 x 1, barriers ");
        }
        kiln_strbuf_deinit(&text);
    }
}

/* Two rows of groups, in clusters of two that lie along n. */
#define CLUSTERED                                                                        \
    "cache_read(mm, x, \"shared\")\nsplit(mm.m, 2, 4)\nsplit(mm.n, 2, 2, 2)\n"           \
    "reorder(mm.m.0, mm.n.0, mm.n.1, mm.m.1, mm.n.2, mm.k)\nbind(mm.m.0, \"block.y\")\n" \
    "bind(mm.n.0, \"block.x\")\nbind(mm.n.1, \"cluster\")\nbind(mm.m.1, \"thread.x\")\n" \
    "compute_at(x.read, mm.n.1)\nbind(x.read.d1, \"thread.x\")\n"

static void groups_of_a_cluster_follow_one_another_along_x(void **state) {
    kiln_program *te = parse_in(*state, MATMUL);
    const kiln_program *scheduled = replay_text(te, CLUSTERED);
    kiln_target target = target_of(*state, "cuda:sm_90");
    kiln_lowered lowered;
    kiln_strbuf text = {0};
    expect_ok(grid_equals_on(te, scheduled, &target, 1, &lowered));
    assert_int_equal(lowered.run_launches.count, 1);
    const kiln_launch *launch = &lowered.run_launches.launch[0];
    assert_int_equal(launch->grid_size[0], 4);
    assert_int_equal(launch->grid_size[1], 2);
    assert_int_equal(launch->cluster, 2);
    assert_int_not_equal(launch->cluster_var, 0);
    assert_int_not_equal(launch->cluster_var, launch->grid_var[0]);
    assert_int_equal(launch->group_size[0], 12);
    assert_int_equal(launch->shared_count, 1);
    expect_ok(kiln_lower_explain(scheduled, &target, KILN_STR(""), *state, &text));
    expect_contains(text.data, "# launch run_0: grid 4 x 2 x 1, cluster 2, group 12 x 1 x 1, ");
    kiln_strbuf_deinit(&text);
}

static void clusters_are_refused_where_there_are_none(void **state) {
    static const struct {
        const char *target, *why;
    } row[] = {
        {"cuda:sm_80", "mm.n.1 is bound to cluster, and the target has no clusters"},
        {"opencl", "mm.n.1 is bound to cluster, and the target has no clusters"},
        {"null", "mm.n.1 is bound to cluster, and the target has no clusters"},
    };
    kiln_program *te = parse_in(*state, MATMUL);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target target = target_of(*state, row[i].target);
        kiln_lowered lowered;
        expect_error(kiln_lower(replay_text(te, CLUSTERED), &target, *state, &lowered),
                     ILLEGAL_SCHEDULE, row[i].why);
    }
}

static void groups_along_x_are_counted_with_their_clusters(void **state) {
    kiln_program *te = parse_in(*state, "program p\ninput x: f32[1]\noutput y: f32[1073741824, 4]\n"
                                        "block y(i:1073741824, j:4): y[i, j] = x[0]\n");
    kiln_target target = target_of(*state, "cuda:sm_90");
    kiln_lowered lowered;
    expect_error(kiln_lower(replay_text(te, "bind(y.i, \"block.x\")\nbind(y.j, \"cluster\")\n"),
                            &target, *state, &lowered),
                 ILLEGAL_SCHEDULE,
                 "has 4294967296 groups along x, 4 in each cluster; 2147483647 at most");
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
    for (uint64_t seed = 1; seed <= 1000; seed++)
        if (!schedule_fuzz_pair(seed, NULL, &counts, &report)) fail_msg("%s", report.data);
    kiln_strbuf_deinit(&report);
    assert_true(counts.lowered > 350); /* few are refused, and many have groups of threads */
    assert_true(counts.groups > 100);
    assert_true(counts.grids > 30);
    assert_true(counts.clusters > 10);
    assert_true(counts.barriers > 20);
    assert_true(counts.shared > 10);
    assert_true(counts.overlaps > 10);
    assert_true(counts.exchanges > 5);
    assert_true(counts.warps > 3);
}

static void random_schedules_keep_their_meaning_as_items(void **state) {
    (void)state;
    kiln_arena arena;
    uint32_t lowered = 0;
    kiln_arena_init(&arena, 0);
    for (uint64_t seed = 1; seed <= 300; seed++) {
        kiln_arena_reset(&arena);
        const kiln_generate_options options = {.blocks_max = 4, .points_max = 300};
        kiln_target target = target_of(&arena, "opencl:x,vector=32,units=2,emulated");
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        kiln_program *te = kiln_program_generate(&rand, &options, &arena);
        kiln_program *scheduled = draw_schedule(te, &rand, 30);
        if (!schedule_is_sound(te, scheduled, seed)) continue;
        kiln_status st = items_equal(te, scheduled, &target, seed);
        lowered += st == NULL;
        kiln_status_free(st);
    }
    kiln_arena_deinit(&arena);
    assert_true(lowered > 150);
}

/* Of a, b, c and d in a row, all but c run in order: b is read by c, a by d. */
static void what_no_groups_share_is_one_launch_for_processors(void **state) {
    kiln_target target = target_of(*state, "opencl:x,vector=32,units=2,emulated");
    kiln_program *te = parse_in(*state, "program p\ninput x: f32[8]\noutput y: f32[8]\n"
                                        "temp a: f32[8]\ntemp b: f32[8]\ntemp c: f32[8]\n"
                                        "block a(i:8): a[i] = x[7 - i]*2.0\n"
                                        "block b(i:8): b[i] = a[7 - i] + 1.0\n"
                                        "block c(i:8): c[i] = b[7 - i]*3.0\n"
                                        "block y(i:8): y[i] = c[7 - i] + a[i]\n");
    kiln_program *scheduled = replay_text(te, "parallel(c.i)\n");
    kiln_lowered lowered;
    expect_ok(items_equal(te, scheduled, &target, 1));
    expect_ok(kiln_lower(scheduled, &target, *state, &lowered));
    assert_int_equal(lowered.run_launches.count, 3);
    assert_int_equal(lowered.run_launches.launch[0].grid_size[0], 1);
    assert_int_equal(lowered.run_launches.launch[1].grid_size[0], 8);
    assert_int_equal(lowered.run_launches.launch[2].grid_size[0], 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(what_no_groups_share_is_one_launch_for_processors),
        test_with_arena(a_tiled_product_keeps_its_meaning),
        test_with_arena(every_pass_keeps_the_meaning),
        test_with_arena(virtual_threads_stand_in_one_body),
        test_with_arena(gaps_of_several_strides_are_closed),
        test_with_arena(what_a_virtual_thread_makes_is_its_own),
        test_with_arena(a_pipeline_fetches_ahead_through_registers),
        test_with_arena(what_is_made_of_what_is_fetched_comes_in_its_turn),
        test_with_arena(a_large_first_block_comes_in_rounds),
        test_with_arena(a_pipeline_of_copies_waits_for_the_oldest),
        test_with_arena(a_fill_value_is_stored_and_the_rest_copied),
        test_with_arena(pipelines_that_cannot_be_are_refused),
        test_with_arena(parts_of_threads_are_summed_by_threads),
        test_with_arena(lanes_of_a_warp_sum_the_last_parts),
        test_with_arena(warps_that_are_not_whole_exchange_nothing),
        test_with_arena(parts_that_are_needed_again_are_left_alone),
        test_with_arena(registers_of_a_thread_are_counted),
        test_with_arena(nests_become_one_with_barriers_and_guards),
        test_with_arena(statements_between_nests_are_the_first_thread_s),
        test_with_arena(each_root_statement_is_a_launch),
        test_with_arena(a_loop_around_nests_begins_with_a_barrier),
        test_with_arena(a_nest_that_follows_itself_has_a_barrier),
        test_with_arena(barriers_are_as_few_as_keep_the_order),
        test_with_arena(conditions_on_data_around_nests_are_refused),
        test_with_arena(scopes_that_cannot_be_are_refused),
        test_with_arena(what_one_thread_touches_is_its_own),
        test_with_arena(nests_that_are_too_many_threads_together_are_refused),
        test_with_arena(launches_beyond_the_limits_of_the_target_are_refused),
        test_with_arena(groups_of_a_cluster_follow_one_another_along_x),
        test_with_arena(clusters_are_refused_where_there_are_none),
        test_with_arena(groups_along_x_are_counted_with_their_clusters),
        test_with_arena(a_temp_of_a_group_becomes_shared_and_of_a_thread_local),
        cmocka_unit_test(random_schedules_keep_their_meaning),
        cmocka_unit_test(random_schedules_keep_their_meaning_as_items),
    };
    return cmocka_run_group_tests_name("compiler-core/lower/launches", tests, NULL, NULL);
}
