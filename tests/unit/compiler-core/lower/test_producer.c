/* Pipelines whose threads of their own fetch: that they mean what they meant behind every pass,
 * that the interpreter finds what tokens do not order, and what is refused. */
#include <string.h>

#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/pass.h"
#include "tests/support/interpreter.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/lower/support.h"

#define MATMUL               \
    "program matmul\n"       \
    "input x: f32[16,20]\n"  \
    "input w: f32[20,32]\n"  \
    "output y: f32[16,32]\n" \
    "block mm(m:16, n:32 | k:20): y[m, n] sum= x[m, k]*w[k, n]\n"

/* Tiles of 8 x 16 by groups of 4 x 8 threads, of `groups` in thread.z; 5 blocks of 4 steps. */
#define WORK(groups)                                                                             \
    "cache_read(mm, x, \"shared\")\ncache_read(mm, w, \"shared\")\ncache_write(mm, \"local\")\n" \
    "split(mm.m, -1, " groups ", 4, 2)\nsplit(mm.n, 2, 8, 2)\nsplit(mm.k, 5, 4)\n"               \
    "reorder(mm.m.0, mm.n.0, mm.k.0, mm.m.1, mm.m.2, mm.n.1, mm.k.1, mm.m.3, mm.n.2)\n"          \
    "bind(mm.m.0, \"block.y\")\nbind(mm.n.0, \"block.x\")\nbind(mm.m.1, \"thread.z\")\n"         \
    "bind(mm.m.2, \"thread.y\")\nbind(mm.n.1, \"thread.x\")\n"                                   \
    "decompose_reduction(mm, mm.k.0)\n"                                                          \
    "compute_at(x.read, mm.k.0)\ncompute_at(w.read, mm.k.0)\n"                                   \
    "reverse_compute_at(mm.write, mm.n.0)\n"                                                     \
    "split(mm.write.m, " groups ", 4, 2)\nsplit(mm.write.n, 8, 2)\n"                             \
    "reorder(mm.write.m.0, mm.write.m.1, mm.write.n.0, mm.write.m.2, mm.write.n.1)\n"            \
    "bind(mm.write.m.0, \"thread.z\")\nbind(mm.write.m.1, \"thread.y\")\n"                       \
    "bind(mm.write.n.0, \"thread.x\")\n"
/* One group goes through both rows of blocks, one after the other. */
#define IN_TURN                                                                                  \
    "cache_read(mm, x, \"shared\")\ncache_read(mm, w, \"shared\")\ncache_write(mm, \"local\")\n" \
    "split(mm.m, 2, 4, 2)\nsplit(mm.n, 2, 8, 2)\nsplit(mm.k, 5, 4)\n"                            \
    "reorder(mm.n.0, mm.m.0, mm.k.0, mm.m.1, mm.n.1, mm.k.1, mm.m.2, mm.n.2)\n"                  \
    "bind(mm.n.0, \"block.x\")\nbind(mm.m.1, \"thread.y\")\nbind(mm.n.1, \"thread.x\")\n"        \
    "decompose_reduction(mm, mm.k.0)\n"                                                          \
    "compute_at(x.read, mm.k.0)\ncompute_at(w.read, mm.k.0)\n"                                   \
    "reverse_compute_at(mm.write, mm.m.0)\n"                                                     \
    "split(mm.write.m, 4, 2)\nsplit(mm.write.n, 8, 2)\n"                                         \
    "reorder(mm.write.m.0, mm.write.n.0, mm.write.m.1, mm.write.n.1)\n"                          \
    "bind(mm.write.m.0, \"thread.y\")\nbind(mm.write.n.0, \"thread.x\")\n"
/* All threads of the producer fetch the one, those of a row the other. */
#define FETCHES                                                              \
    "fuse(x.read.d0, x.read.d1)\nsplit(x.read.d0.f, -1, 4, 8)\n"             \
    "bind(x.read.d0.f.1, \"thread.y\")\nbind(x.read.d0.f.2, \"thread.x\")\n" \
    "reorder(x.read.d0.f.1, x.read.d0.f.2, x.read.d0.f.0)\n"                 \
    "fuse(w.read.d0, w.read.d1)\nsplit(w.read.d0.f, -1, 8)\n"                \
    "reorder(w.read.d0.f.1, w.read.d0.f.0)\nbind(w.read.d0.f.1, \"thread.x\")\n"
/* Threads of all groups fetch the one; only threads of one axis fetch the other. */
#define BY_GROUPS(groups)                                                    \
    "fuse(x.read.d0, x.read.d1)\nsplit(x.read.d0.f, -1, " groups ", 8)\n"    \
    "bind(x.read.d0.f.1, \"thread.z\")\nbind(x.read.d0.f.2, \"thread.x\")\n" \
    "reorder(x.read.d0.f.1, x.read.d0.f.2, x.read.d0.f.0)\n"
#define BOUND(count, axis)                                            \
    "fuse(x.read.d0, x.read.d1)\nsplit(x.read.d0.f, -1, " count ")\n" \
    "bind(x.read.d0.f.1, \"" axis "\")\nreorder(x.read.d0.f.1, x.read.d0.f.0)\n"
#define PRODUCER(stages) "pipeline(mm.k.0, " stages ")\nproducer(mm.k.0, 1)\n"

static const char *const traces[] = {
    WORK("1") FETCHES PRODUCER("2"),        WORK("2") FETCHES PRODUCER("3"),
    WORK("2") FETCHES PRODUCER("8"),                                       /* 5 slots */
    IN_TURN FETCHES PRODUCER("3"),          IN_TURN FETCHES PRODUCER("8"), /* of 10 iterations */
    WORK("2") BY_GROUPS("2") PRODUCER("3"), WORK("2") BOUND("2", "thread.z") PRODUCER("2"),
};

static void every_pass_keeps_the_meaning(void **state) {
    static const char *const pass[] = {
#define X(name, function, lists) #name,
#include "compiler-core/lower/lower.def"
#undef X
    };
    kiln_program *te = parse_in(*state, MATMUL);
    kiln_target target = target_of(*state, "cuda:sm_90a");
    for (size_t t = 0; t < KILN_ARRAY_COUNT(traces); t++)
        for (size_t i = 0; i < KILN_ARRAY_COUNT(pass); i++) {
            kiln_strbuf text = {0};
            expect_ok(kiln_lower_explain_by(replay_text(te, traces[t]), &target, KILN_LOWER_GRID,
                                            kiln_str_from(pass[i]), *state, &text));
            expect_computes(te, parse_in(*state, text.data), 1);
            kiln_strbuf_deinit(&text);
        }
}

/* Its threads are one more in thread.z, and places of tokens lie behind what is shared. */
static void the_producer_is_the_last_of_the_group(void **state) {
    kiln_program *te = parse_in(*state, MATMUL);
    kiln_target target = target_of(*state, "cuda:sm_90a");
    kiln_lowered lowered;
    expect_ok(grid_equals_on(te, replay_text(te, traces[1]), &target, 1, &lowered));
    const kiln_launch *launch = &lowered.run_launches.launch[0];
    const uint32_t tiles = 3 * (16 * 4 + 4 * 16) * sizeof(float);
    assert_int_equal(launch->group_size[0], 8);
    assert_int_equal(launch->group_size[1], 4);
    assert_int_equal(launch->group_size[2], 3);
    assert_int_equal(launch->token_slots, 3);
    assert_int_equal(launch->token_offset, tiles);
    assert_int_equal(launch->shared_bytes, tiles + 2 * 3 * KILN_TOKEN_PLACE_BYTES);
    assert_int_equal(launch->barrier_count, 1); /* before the loop */
}

static kiln_str replaced(kiln_arena *arena, const char *text, const char *what,
                         const char *instead) {
    const char *at = strstr(text, what);
    assert_non_null(at);
    return kiln_str_from(
        kiln_arena_printf(arena, "%.*s%s%s", (int)(at - text), text, instead, at + strlen(what)));
}

/* What runs in program order and is right by luck is an error, with both accesses. */
static void what_no_token_orders_is_found(void **state) {
    static const struct {
        uint32_t trace;
        const char *what, *instead, *why;
    } fault[] = {
        {1, "token pop load compute at mm.k.0 of 3\n", "barrier\n", "never popped"},
        {1, "token push load compute at mm.k.0 of 3\n", "barrier\n",
         "that was not pushed before: deadlock"},
        {1, "token push compute load at 2 of 3\n", "barrier\n", "says that it is number"},
        {1, "token push load compute at mm.k.0 of 3\n",
         "token push load compute at mm.k.0 + 1 of 3\n",
         "token 0 from load to compute says that it is number 1"},
        /* one slot fewer than tokens */
        {1, "floormod(mm.k.0, 3)", "floormod(mm.k.0, 2)", "no token orders that"},
        /* the second tile of a group counts from 0 again */
        {3, "mm.m.0*5", "mm.m.0*0", "says that it is number"},
    };
    kiln_arena *arena = *state;
    kiln_program *te = parse_in(arena, MATMUL);
    kiln_target target = target_of(arena, "cuda:sm_90a");
    for (size_t i = 0; i < KILN_ARRAY_COUNT(fault); i++) {
        kiln_program *p = NULL;
        kiln_strbuf text = {0};
        expect_ok(kiln_lower_explain(replay_text(te, traces[fault[i].trace]), &target, KILN_STR(""),
                                     arena, &text));
        kiln_tensor arg[3];
        for (uint32_t a = 0; a < 3; a++)
            arg[a] = kiln_tensor_create(arena, KILN_F32, &te->buffer.data[a + 1].shape);
        expect_ok(kiln_program_parse(replaced(arena, text.data, fault[i].what, fault[i].instead),
                                     arena, &p));
        expect_error(kiln_loop_eval(p, arg, 3), FAILED_PRECONDITION, fault[i].why);
        kiln_strbuf_deinit(&text);
    }
}

static void expect_refused(void **state, const char *trace, const char *target_text,
                           const char *why) {
    kiln_program *te = parse_in(*state, MATMUL);
    kiln_target target = target_of(*state, target_text);
    expect_error(grid_equals_on(te, replay_text(te, trace), &target, 1, NULL), ILLEGAL_SCHEDULE,
                 why);
}

static void producers_that_cannot_be_are_refused(void **state) {
    expect_refused(state, traces[0], "cuda:sm_80",
                   "loop mm.k.0 has a producer, which waits for phases of barriers");
    expect_refused(state, traces[0], "opencl", "the target has none");
    expect_refused(state, WORK("2") BOUND("16", "thread.x") PRODUCER("3"), "cuda:sm_90a",
                   "a producer of 8 x 4 threads, as its work has; its fetches take 16 x 1");
    /* Rows of four threads, of eight in all. */
    expect_refused(state,
                   "cache_read(mm, x, \"shared\")\nsplit(mm.m, 2, 8)\nsplit(mm.k, 5, 4)\n"
                   "reorder(mm.m.0, mm.k.0, mm.m.1, mm.n, mm.k.1)\nbind(mm.m.0, \"block.x\")\n"
                   "bind(mm.m.1, \"thread.x\")\ndecompose_reduction(mm, mm.k.0)\n"
                   "compute_at(x.read, mm.k.0)\n" PRODUCER("3"),
                   "cuda:sm_90a", "a producer of 8 threads, which are no whole warps");
    /* Sums lie in memory that all threads see. */
    expect_refused(state,
                   "cache_read(mm, x, \"shared\")\nsplit(mm.k, 5, 4)\n"
                   "reorder(mm.m, mm.k.0, mm.n, mm.k.1)\nbind(mm.m, \"block.x\")\n"
                   "bind(mm.n, \"thread.x\")\ndecompose_reduction(mm, mm.k.0)\n"
                   "compute_at(x.read, mm.k.0)\n" PRODUCER("3"),
                   "cuda:sm_90a", "would have to wait for each other: they write y");
}

/* Two sums over rows of 32, each of a fetch of its own. */
#define SUMS(value)                                                         \
    "program p\ninput x: f32[8,32]\noutput y: f32[32]\noutput z: f32[32]\n" \
    "temp t: f32[8,32]\ntemp u: f32[8,32]\n"                                \
    "block t(k:8, i:32): t[k, i] = " value "\n"                             \
    "block y(i:32 | k:8): y[i] sum= t[k, 31 - i]\n"                         \
    "block u(k:8, i:32): u[k, i] = x[k, i]\n"                               \
    "block z(i:32 | k:8): z[i] sum= u[k, 31 - i]\n"
#define SUM(y, t)                                                                             \
    "cache_write(" y ", \"local\")\nsplit(" y ".i, 1, 32)\n"                                  \
    "reorder(" y ".i.0, " y ".k, " y ".i.1)\nbind(" y ".i.0, \"block.x\")\n"                  \
    "bind(" y ".i.1, \"thread.x\")\ndecompose_reduction(" y ", " y ".k)\n"                    \
    "compute_at(" t ", " y ".k)\nset_scope(" t ", \"shared\")\nbind(" t ".i, \"thread.x\")\n" \
    "reverse_compute_at(" y ".write, " y ".i.0)\nbind(" y ".write.i, \"thread.x\")\n"         \
    "pipeline(" y ".k, 3)\nproducer(" y ".k, 1)\n"

/* Each launch counts its own tokens; what is computed on the way is no copy. */
static void each_launch_has_tokens_of_its_own(void **state) {
    kiln_target target = target_of(*state, "cuda:sm_90");
    kiln_program *te = parse_in(*state, SUMS("x[k, i]"));
    kiln_lowered lowered;
    expect_ok(
        grid_equals_on(te, replay_text(te, SUM("y", "t") SUM("z", "u")), &target, 1, &lowered));
    assert_int_equal(lowered.run_launches.count, 2);
    assert_int_equal(lowered.run_launches.launch[1].token_slots, 3);
    te = parse_in(*state, SUMS("x[k, i]*2.0"));
    expect_error(grid_equals_on(te, replay_text(te, SUM("y", "t")), &target, 1, NULL),
                 ILLEGAL_SCHEDULE, "loop y.k has a producer, and none of its fetches is a copy");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_pass_keeps_the_meaning),
        test_with_arena(the_producer_is_the_last_of_the_group),
        test_with_arena(what_no_token_orders_is_found),
        test_with_arena(producers_that_cannot_be_are_refused),
        test_with_arena(each_launch_has_tokens_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
