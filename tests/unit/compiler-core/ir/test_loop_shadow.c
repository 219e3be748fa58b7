/* What shadow memory finds in programs of threads, asynchronous copies and units, each beside the
 * program that is right. */
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/ir/support.h"

/* Runs with x = 1, 2, 3, ...; the first output is left in `*out`. */
static kiln_status run(const kiln_program *test, const char *text, kiln_tensor *out) {
    kiln_program *p = parse(test, text);
    kiln_tensor args[64];
    uint32_t count = make_args(p, 1, args);
    kiln_arg_buffers arg = kiln_program_args(p);
    for (uint32_t i = 0; i < count; i++) {
        bool is_output = p->buffer.data[arg.buffer[i]].role == KILN_ROLE_OUTPUT;
        if (is_output) *out = args[i];
        for (int64_t k = 0; !is_output && k < kiln_shape_count(&args[i].shape); k++)
            kiln_dtype_store_f64(args[i].dtype, args[i].data, (size_t)k, (double)(k + 1));
    }
    return kiln_loop_eval(p, args, count);
}

static void expect_output(void **state, const char *text, const double *wanted) {
    kiln_tensor out;
    kiln_status st = run(*state, text, &out);
    if (st) fail_msg("%s", kiln_status_text(st));
    for (int64_t i = 0; i < kiln_shape_count(&out.shape); i++)
        assert_true(kiln_dtype_load_f64(out.dtype, out.data, (size_t)i) == wanted[i]);
}

static void expect_finding(void **state, const char *text, const char *part) {
    kiln_tensor out;
    expect_error(run(*state, text, &out), FAILED_PRECONDITION, part);
}

/* Parts of a program, put together. */
static const char *join(void **state, const char *a, const char *b, const char *c) {
    const kiln_program *test = *state;
    return kiln_arena_printf(test->arena, "%s%s%s", a, b, c);
}

/* ---- threads ---- */

/* Each group reverses its four elements through shared memory, twice. */
#define REVERSE                        \
    "program reverse\n"                \
    "input x: f32[8]\n"                \
    "output y: f32[8]\n"               \
    "temp s: f32[4] scope(shared)\n"   \
    "loops:\n"                         \
    "  bind(block.x) b in 2:\n"        \
    "    alloc s:\n"                   \
    "      bind(thread.y) u in 2:\n"   \
    "        bind(thread.x) t in 2:\n" \
    "          for k in 2:\n"          \
    "            s[u*2 + t] = x[b*4 + u*2 + t] + f32(k)\n"
#define READ_BACK "            y[b*4 + u*2 + t] = s[3 - u*2 - t]\n"
#define BARRIER "            barrier\n"

static void threads_of_a_group_run_in_step(void **state) {
    expect_output(state, join(state, REVERSE BARRIER, READ_BACK, BARRIER),
                  (const double[]){5, 4, 3, 2, 9, 8, 7, 6});
}

static void a_missing_barrier_names_both_accesses(void **state) {
    expect_finding(state, join(state, REVERSE, READ_BACK, BARRIER),
                   "s[3] is read and written by several threads without a barrier");
    expect_finding(
        state, join(state, REVERSE BARRIER, READ_BACK, ""),
        "s[0] is written and touched by several threads without a barrier between them, "
        "the store to s, k=1, t=0, u=0, b=0; the other access: the store to y, u=1, t=1");
}

static void threads_that_never_meet_race_in_whatever_order_they_run(void **state) {
    expect_finding(state,
                   "program p\ninput x: f32[4]\noutput y: f32[4]\nloops:\n"
                   "  bind(thread.x) t in 4:\n"
                   "    y[t] = x[t]\n"
                   "    if t < 1:\n"
                   "      y[3] = 0.0\n",
                   "y[3] is written and touched by several threads");
    expect_finding(state,
                   "program p\ninput x: f32[4]\noutput y: f32[4]\noutput z: f32[4]\nloops:\n"
                   "  bind(thread.x) t in 4:\n"
                   "    y[t] = x[t]\n"
                   "    barrier\n"
                   "    z[t] = y[floormod(t + 1, 4)]\n"
                   "    y[t] = 1.0\n",
                   "y[0] is written and touched by several threads without a barrier between them, "
                   "the store to y, t=0; the other access: the store to z, t=3");
}

static void a_barrier_orders_no_other_group(void **state) {
    expect_finding(state,
                   "program p\ninput x: f32[4]\noutput y: f32[4]\noutput z: f32[4]\nloops:\n"
                   "  bind(block.x) b in 2:\n"
                   "    bind(thread.x) t in 2:\n"
                   "      y[b*2 + t] = x[t]\n"
                   "      barrier\n"
                   "      z[b*2 + t] = y[t]\n",
                   "y[0] is read and written in several iterations of concurrent loop b");
}

static void threads_have_memory_of_their_own(void **state) {
    expect_output(state,
                  "program p\ninput x: f32[4]\noutput y: f32[4]\n"
                  "temp a: f32[1] scope(local)\ntemp s: f32[4] scope(shared)\nloops:\n"
                  "  alloc s:\n"
                  "    bind(thread.x) t in 4:\n"
                  "      alloc a:\n"
                  "        a[0] = x[t]\n"
                  "        s[t] = x[t]\n"
                  "        barrier\n"
                  "        y[t] = a[0] + s[3 - t]\n",
                  (const double[]){5, 5, 5, 5});
    expect_finding(state,
                   "program p\ninput x: f32[4]\noutput y: f32[4]\n"
                   "temp a: f32[4] scope(local)\nloops:\n"
                   "  bind(thread.x) t in 4:\n"
                   "    alloc a:\n"
                   "      a[t] = x[t]\n"
                   "      barrier\n"
                   "      y[t] = a[3 - t]\n",
                   "a[3] is read and was never written");
}

static void a_barrier_that_some_threads_miss_is_found(void **state) {
    const char *text = "program p\ninput x: f32[4]\noutput y: f32[4]\n"
                       "temp a: f32[1] scope(local)\nloops:\n"
                       "  bind(thread.x) t in 4:\n"
                       "    alloc a:\n"
                       "      a[0] = x[%s]\n"
                       "      if a[0] < 3.0:\n"
                       "        barrier\n"
                       "      y[t] = x[t]\n";
    const kiln_program *test = *state;
    expect_output(state, kiln_arena_printf(test->arena, text, "1"), (const double[]){1, 2, 3, 4});
    expect_finding(state, kiln_arena_printf(test->arena, text, "t"),
                   "differs between thread 2 and thread 0 of the nest of t");
}

static void nests_one_after_another_need_no_barrier(void **state) {
    expect_output(state,
                  "program p\ninput x: f32[4]\noutput y: f32[4]\ntemp s: f32[4]\n"
                  "block a(i:4): s[i] = x[i]\nblock b(i:4): y[i] = s[3 - i]\nloops:\n"
                  "  bind(block.x) g in 1:\n"
                  "    bind(thread.x) t in 4:\n      block a(i=t)\n"
                  "    bind(thread.x) u in 4:\n      block b(i=u)\n",
                  (const double[]){4, 3, 2, 1});
}

/* ---- lanes ---- */

/* Each lane adds what the one `away` has; a group has as many lanes as said. */
#define LANES(lanes, condition, away)                                          \
    "program lanes\ninput x: f32[64]\noutput y: f32[64]\n"                     \
    "temp a: f32[1] scope(register)\ntemp b: f32[1] scope(register)\nloops:\n" \
    "  bind(thread.y) u in 1:\n    bind(thread.x) t in " lanes ":\n"           \
    "      y[t] = x[t]\n      alloc a:\n        alloc b:\n"                    \
    "          a[0] = x[t]\n"                                                  \
    "          if " condition ":\n"                                            \
    "            b[0] = a[0] @exchange(\"" away "\")\n"                        \
    "            y[t] = a[0] + b[0]\n"

static void lanes_exchange_what_they_have(void **state) {
    double wanted[64];
    for (uint32_t i = 0; i < 64; i++) wanted[i] = i < 32 ? (i + 1) + ((i ^ 4) + 1) : i + 1;
    expect_output(state, LANES("64", "t < 32", "4"), wanted);
}

static void an_exchange_needs_all_lanes_of_its_warp(void **state) {
    expect_finding(state, LANES("64", "t < 40", "4"),
                   "an exchange is under a condition that differs between thread 40 and thread 32");
    expect_finding(state, LANES("12", "t < 12", "4"), "lane 8 exchanges with lane 12 of 12");
    expect_finding(state,
                   "program p\ninput x: f32[1]\noutput y: f32[1]\n"
                   "temp a: f32[1] scope(register)\nloops:\n  a[0] = x[0]\n"
                   "  y[0] = a[0] @exchange(\"1\")\n",
                   "an exchange is outside of thread loops");
}

/* ---- copies ---- */

/* Two stages: while one half of s is read, the other is on its way. */
#define STAGED                               \
    "program staged\n"                       \
    "input x: f32[4]\n"                      \
    "output y: f32[4]\n"                     \
    "temp s: f32[2,2] scope(shared)\n"       \
    "loops:\n"                               \
    "  alloc s:\n"                           \
    "    bind(thread.x) t in 2:\n"           \
    "      copy(0) s[0, t] = x[t]\n"         \
    "      commit(0)\n"                      \
    "      for k in 2:\n"                    \
    "        if k < 1:\n"                    \
    "          copy(0) s[1, t] = x[t + 2]\n" \
    "          commit(0)\n"                  \
    "          wait(0, %s)\n"                \
    "        if 1 <= k:\n"                   \
    "          wait(0, %s)\n"                \
    "        barrier\n"                      \
    "        y[k*2 + t] = s[k, 1 - t]\n"     \
    "        %s\n"

static const char *staged(void **state, const char *first, const char *last, const char *end) {
    const kiln_program *test = *state;
    return kiln_arena_printf(test->arena, STAGED, first, last, end);
}

static void copies_land_where_they_are_waited_for(void **state) {
    expect_output(state, staged(state, "1", "0", "barrier"), (const double[]){2, 1, 4, 3});
}

static void a_wait_too_late_is_found(void **state) {
    expect_finding(state, staged(state, "2", "0", "barrier"),
                   "s[0, 1] is read while a copy to it is in flight, the store to y, k=0, t=0; the "
                   "other access: the copy to s of thread 1");
    expect_finding(state, staged(state, "1", "1", "barrier"),
                   "s[1, 1] is read while a copy to it is in flight");
}

static void what_is_in_flight_is_left_alone(void **state) {
    const char *text = "program p\ninput x: f32[2]\noutput y: f32[2]\ntemp a: f32[2]\n"
                       "temp b: f32[2]\nloops:\n"
                       "  alloc a:\n    alloc b:\n"
                       "      a[0] = x[0]\n"
                       "      copy(1) b[0] = a[0]\n"
                       "      %s\n"
                       "      commit(1)\n"
                       "      wait(1, 0)\n"
                       "      y[0] = b[0]\n      y[1] = a[0]\n";
    const kiln_program *test = *state;
    expect_output(state, kiln_arena_printf(test->arena, text, "b[1] = a[0]"),
                  (const double[]){1, 1});
    expect_finding(state, kiln_arena_printf(test->arena, text, "a[0] = 2.0"),
                   "a[0] is written while a copy of it is in flight");
    expect_finding(state, kiln_arena_printf(test->arena, text, "b[0] = 2.0"),
                   "b[0] is written while a copy of it is in flight");
}

static void tokens_of_copies_are_waited_for_one_by_one(void **state) {
    const char *text = "program p\ninput x: f32[2]\noutput y: f32[2]\ntemp a: f32[2]\nloops:\n"
                       "  alloc a:\n"
                       "    copy(0) a[0] = x[0]\n    commit(0)\n"
                       "    copy(1) a[1] = x[1]\n    commit(1)\n"
                       "    wait(%s, 0)\n"
                       "    y[0] = a[0]\n"
                       "    wait(%s, 0)\n"
                       "    y[1] = a[1]\n";
    const kiln_program *test = *state;
    expect_output(state, kiln_arena_printf(test->arena, text, "0", "1"), (const double[]){1, 2});
    expect_finding(state, kiln_arena_printf(test->arena, text, "1", "0"),
                   "a[0] is read while a copy to it is in flight");
    expect_finding(state, kiln_arena_printf(test->arena, text, "0", "0"),
                   "a[1] is read while a copy to it is in flight");
}

static void copies_that_nobody_waits_for_are_found(void **state) {
    const char *text = "program p\ninput x: f32[2]\noutput y: f32[2]\nloops:\n"
                       "  bind(thread.x) t in 2:\n"
                       "    copy(0) y[t] = x[t]\n"
                       "    %s\n"
                       "    %s\n";
    const kiln_program *test = *state;
    expect_output(state, kiln_arena_printf(test->arena, text, "commit(0)", "wait(0, 0)"),
                  (const double[]){1, 2});
    expect_finding(state, kiln_arena_printf(test->arena, text, "commit(0)", "wait(0, 1)"),
                   "a copy to y is never waited for (thread 0)");
    expect_finding(state, kiln_arena_printf(test->arena, text, "commit(0)", "wait(1, 0)"),
                   "a copy to y is never waited for");
    expect_finding(state, kiln_arena_printf(test->arena, text, "barrier", "wait(0, 0)"),
                   "a copy to y is never waited for");
}

static void a_copy_is_a_write_of_its_thread(void **state) {
    expect_finding(state,
                   "program p\ninput x: f32[2]\noutput y: f32[2]\ntemp s: f32[2] scope(shared)\n"
                   "loops:\n"
                   "  alloc s:\n"
                   "    bind(thread.x) t in 2:\n"
                   "      copy(0) s[t] = x[t]\n"
                   "      commit(0)\n"
                   "      wait(0, 0)\n"
                   "      y[t] = s[1 - t]\n",
                   "s[1] is read");
}

/* ---- units ---- */

/* A tile of two elements is loaded, doubled and stored, twice. */
#define TILES(free, full, done, gone)                                             \
    "program tiles\n"                                                             \
    "input x: f32[4]\n"                                                           \
    "output y: f32[4]\n"                                                          \
    "temp i: f32[2] scope(inp)\n"                                                 \
    "temp a: f32[2] scope(acc)\n"                                                 \
    "loops:\n"                                                                    \
    "  alloc i:\n"                                                                \
    "    alloc a:\n"                                                              \
    "      token push compute load\n"                                             \
    "      token push store compute\n"                                            \
    "      for k in 2:\n" free "        for p in 2 @unit(load):\n"                \
    "          i[p] = x[k*2 + p]\n" full "        for q in 2:\n"                  \
    "          a[q] = i[q]*2.0\n"                                                 \
    "        token push compute load\n" done "        for r in 2 @unit(store):\n" \
    "          y[k*2 + r] = a[r]\n" gone "      token pop compute load\n"         \
    "      token pop store compute\n"
#define FREE "        token pop compute load\n"
#define FULL                                                                                    \
    "        token push load compute\n        token pop load compute\n        token pop store " \
    "compute\n"
#define DONE "        token push compute store\n        token pop compute store\n"
#define GONE "        token push store compute\n"

static void units_are_ordered_by_tokens(void **state) {
    expect_output(state, TILES(FREE, FULL, DONE, GONE), (const double[]){2, 4, 6, 8});
}

static void a_missing_pair_of_tokens_names_both_accesses(void **state) {
    expect_finding(state, TILES(FREE, "        token pop store compute\n", DONE, GONE),
                   "i[0] is read by unit compute and no token orders that, the store to a, q=0, "
                   "k=0; the other access: the store to i, unit load");
    expect_finding(state, TILES(FREE, FULL, "", GONE), "a[0] is read by unit store");
    expect_finding(state, TILES("", FULL, DONE, GONE), "i[0] is written by unit load");
    expect_finding(
        state,
        TILES(FREE, "        token push load compute\n        token pop load compute\n", DONE, ""),
        "a[0] is written by unit compute");
}

/* A token says what was done before it was pushed, and nothing of what came later. */
static void what_follows_a_push_is_not_ordered_by_it(void **state) {
    const char *text = "program p\ninput x: f32[2]\noutput y: f32[2]\ntemp i: f32[2] scope(inp)\n"
                       "loops:\n"
                       "  alloc i:\n"
                       "    i[0] = x[0] @unit(load)\n"
                       "%s"
                       "    i[1] = x[1] @unit(load)\n"
                       "%s"
                       "    token pop load compute\n"
                       "    y[0] = i[0]\n    y[1] = i[1]\n";
    const char *push = "    token push load compute\n";
    const kiln_program *test = *state;
    expect_output(state, kiln_arena_printf(test->arena, text, "", push), (const double[]){1, 2});
    expect_finding(state, kiln_arena_printf(test->arena, text, push, ""),
                   "i[1] is read by unit compute and no token orders that");
}

/* Threads with z = 1 copy two elements, those with z = 0 read them in the other order, twice. */
#define THREADS(starts, wanted, index, full, last)                                              \
    "program p\ninput x: f32[4]\noutput y: f32[4]\ntemp i: f32[2] scope(shared)\n"              \
    "loops:\n  alloc i:\n"                                                                      \
    "    bind(thread.z) z in 2:\n      bind(thread.x) t in 2:\n" starts "        for k in 2:\n" \
    "          token pop compute load at k of " wanted "          if z == 1:\n"                 \
    "            copy(0) i[" index "] = x[k*2 + " index "] @unit(load)\n" full                  \
    "          token pop load compute at k of 1\n"                                              \
    "          if z == 0:\n            y[k*2 + t] = i[1 - t]\n" last
#define ONE_START "        token push compute load at 0 of 1\n"
#define FULL_AT_K "          token push load compute at k of 1\n"
#define ONE_LAST                                        \
    "          token push compute load at k + 1 of 1\n" \
    "        token pop compute load at 2 of 1\n"
#define TWO_STARTS \
    "        token push compute load at 0 of 2\n        token push compute load at 1 of 2\n"
#define TWO_LAST                                        \
    "          token push compute load at k + 2 of 2\n" \
    "        token pop compute load at 2 of 2\n        token pop compute load at 3 of 2\n"

/* Threads of a unit may take turns with an element where a token came back in between. */
static void threads_of_units_are_ordered_by_tokens(void **state) {
    static const double wanted[] = {2, 1, 4, 3};
    expect_output(state, THREADS(ONE_START, "1\n", "t", FULL_AT_K, ONE_LAST), wanted);
    expect_output(state, THREADS(ONE_START, "1\n", "floormod(t + k, 2)", FULL_AT_K, ONE_LAST),
                  wanted);
    expect_finding(state, THREADS(ONE_START, "1\n", "0", FULL_AT_K, ONE_LAST), "in flight");
    expect_finding(state, THREADS(TWO_STARTS, "2\n", "t", FULL_AT_K, TWO_LAST),
                   "i[0] is written by unit load and no token orders that");
    expect_finding(state, THREADS(ONE_START, "1\n", "t", "", ONE_LAST),
                   "unit compute waits for a token of load that was not pushed before: deadlock");
    expect_finding(state,
                   THREADS(ONE_START, "1\n", "t",
                           "          token push load compute at k + 1 of 1\n", ONE_LAST),
                   "token 0 from load to compute says that it is number 1");
}

static void tokens_are_conserved(void **state) {
    expect_finding(state, TILES(FREE, FULL, DONE, ""),
                   "unit compute waits for a token of store that was not pushed before: deadlock");
    expect_finding(state, TILES(FREE, FULL, DONE, GONE GONE),
                   "2 tokens from store to compute are never popped");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(threads_of_a_group_run_in_step),
        PROGRAM_TEST(a_missing_barrier_names_both_accesses),
        PROGRAM_TEST(threads_that_never_meet_race_in_whatever_order_they_run),
        PROGRAM_TEST(a_barrier_orders_no_other_group),
        PROGRAM_TEST(threads_have_memory_of_their_own),
        PROGRAM_TEST(a_barrier_that_some_threads_miss_is_found),
        PROGRAM_TEST(nests_one_after_another_need_no_barrier),
        PROGRAM_TEST(lanes_exchange_what_they_have),
        PROGRAM_TEST(an_exchange_needs_all_lanes_of_its_warp),
        PROGRAM_TEST(copies_land_where_they_are_waited_for),
        PROGRAM_TEST(a_wait_too_late_is_found),
        PROGRAM_TEST(what_is_in_flight_is_left_alone),
        PROGRAM_TEST(tokens_of_copies_are_waited_for_one_by_one),
        PROGRAM_TEST(copies_that_nobody_waits_for_are_found),
        PROGRAM_TEST(a_copy_is_a_write_of_its_thread),
        PROGRAM_TEST(units_are_ordered_by_tokens),
        PROGRAM_TEST(a_missing_pair_of_tokens_names_both_accesses),
        PROGRAM_TEST(what_follows_a_push_is_not_ordered_by_it),
        PROGRAM_TEST(threads_of_units_are_ordered_by_tokens),
        PROGRAM_TEST(tokens_are_conserved),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/loop_shadow", tests, NULL, NULL);
}
