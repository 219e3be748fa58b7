/* What run.py builds again with each planted fault: lowered programs compute what their expressions
 * say. Random programs and schedules, and schedules by hand for what chance meets too seldom. It
 * takes a second, so that dozens of faults can be tried. */
#include <string.h>

#include "compiler-core/rules/space.h"
#include "tests/support/program_generate.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/lower/support.h"

#define PLAIN_PROGRAMS 150
#define SCHEDULED_PROGRAMS 150
#define DRAWS 2

static kiln_program *generate(kiln_arena *arena, uint64_t seed, uint32_t blocks_max) {
    const kiln_generate_options options = {
        .blocks_max = blocks_max, .points_max = 200, .floats_only = seed % 2 == 0};
    kiln_rand r;
    kiln_rand_init(&r, seed);
    return kiln_program_generate(&r, &options, arena);
}

/* A refusal is fine where a schedule was drawn: register buffers may not fit. */
static void expect_equal_or_refused(const kiln_program *te, const kiln_program *scheduled,
                                    const kiln_target *target, uint64_t seed) {
    kiln_status_free(lowered_equals(te, scheduled, target, seed)); /* refused */
}

static void random_programs_keep_their_meaning(void **state) {
    for (uint64_t seed = 1; seed <= PLAIN_PROGRAMS; seed++) {
        kiln_arena_reset(*state);
        kiln_target target = x86_target(*state, 3, 1);
        kiln_program *te = generate(*state, seed, 5);
        expect_ok(lowered_equals(te, unscheduled(te), &target, seed));
    }
}

static void random_schedules_keep_their_meaning(void **state) {
    for (uint64_t seed = 1; seed <= SCHEDULED_PROGRAMS; seed++) {
        kiln_arena_reset(*state);
        kiln_rand draw;
        kiln_space space;
        kiln_rand_init(&draw, seed);
        kiln_target target = x86_target(*state, 2 + (int)(seed % 3), seed % 2 ? 1 : 3);
        kiln_program *te = generate(*state, seed, 2);
        expect_ok(kiln_space_create(te, &target, *state, &space));
        for (uint32_t i = 0; i < DRAWS; i++) {
            kiln_trace trace;
            kiln_program *scheduled;
            expect_ok(kiln_space_sample(&space, &draw, *state, &trace, &scheduled));
            expect_equal_or_refused(te, scheduled, &target, seed);
        }
    }
}

/* ---- by hand --------------------------------------------------------------------------------- */

#define CONV                                                                                       \
    "program conv_relu\n"                                                                          \
    "input x: f32[1,4,7,7]\n"                                                                      \
    "constant w: f32[10,4,3,3]\n"                                                                  \
    "constant b: f32[10]\n"                                                                        \
    "output y: f32[1,10,7,7]\n"                                                                    \
    "temp pad: f32[1,4,9,9]\n"                                                                     \
    "temp conv: f32[1,10,7,7]\n"                                                                   \
    "block pad(n:1, c:4, h:9, w:9): pad[n, c, h, w] = select(and(and(1 <= h, h < 8), and(1 <= w, " \
    "w < 8)), "                                                                                    \
    "x[n, c, h - 1, w - 1], 0.0)\n"                                                                \
    "block conv(n:1, oc:10, oh:7, ow:7 | ic:4, kh:3, kw:3): conv[n, oc, oh, ow] sum= "             \
    "pad[n, ic, oh + kh, ow + kw]*w[oc, ic, kh, kw]\n"                                             \
    "block relu(n:1, oc:10, oh:7, ow:7): y[n, oc, oh, ow] = max(conv[n, oc, oh, ow] + b[oc], "     \
    "0.0)\n"
#define DENSE                  \
    "program dense\n"          \
    "input x: f32[6,20]\n"     \
    "constant w: f32[20,24]\n" \
    "output y: f32[6,24]\n"    \
    "block dense(m:6, n:24 | k:20): y[m, n] sum= x[m, k]*w[k, n]\n"
#define SOFTMAX                                           \
    "program softmax\n"                                   \
    "input x: f32[5,11]\n"                                \
    "output y: f32[5,11]\n"                               \
    "temp m: f32[5]\n"                                    \
    "temp e: f32[5,11]\n"                                 \
    "temp s: f32[5]\n"                                    \
    "block m(i:5 | j:11): m[i] max= x[i, j]\n"            \
    "block e(i:5, j:11): e[i, j] = exp(x[i, j] - m[i])\n" \
    "block s(i:5 | j:11): s[i] sum= e[i, j]\n"            \
    "block y(i:5, j:11): y[i, j] = e[i, j]/s[i]\n"
#define CLAMP                                                                                     \
    "program clamp\n"                                                                             \
    "input x: i32[37]\n"                                                                          \
    "output y: i32[37]\n"                                                                         \
    "block clamp(i:37): y[i] = x[min(i, 36)] + x[max(i, 0)] + select(and(i < 30, i < 20), 1i32, " \
    "0i32) + "                                                                                    \
    "select(and(3 <= i, 5 <= i), 2i32, 0i32)\n"
#define TWICE                               \
    "program twice\n"                       \
    "input x: f32[37]\n"                    \
    "output y: f32[37]\n"                   \
    "temp t: f32[37]\n"                     \
    "block double(i:37): t[i] = x[i]*2.0\n" \
    "block add(i:37): y[i] = t[i] + 1.0\n"
#define SHIFT                                                                                      \
    "program shift\n"                                                                              \
    "input x: i32[37]\n"                                                                           \
    "output y: i32[37]\n"                                                                          \
    "block shift(i:37): y[i] = select(i < 30, x[i + 7], 0i32) + select(3 <= i, x[i - 3], 9i32) + " \
    "select(i == 20, x[i], 0i32)\n"

/* Conditions on rows that share parts, some of which change in a row. */
#define BAND                                                                                 \
    "program band\n"                                                                         \
    "input x: i32[8,9]\n"                                                                    \
    "output y: i32[8,9]\n"                                                                   \
    "block band(i:8, j:9): y[i, j] = select(and(and(2 <= i, i < 5), 1 <= j), 1i32, 0i32) + " \
    "select(2 <= i, 10i32, 0i32) + select(and(i < 5, 3 <= j), 100i32, 0i32) + "              \
    "select(and(2 <= i, i < 5), x[i, j], 0i32)\n"

/* Sums that look like those with a padding: one is filled with ones, one adds its weights. */
#define FILLED                                                                                   \
    "program filled\n"                                                                           \
    "input x: f32[9]\n"                                                                          \
    "input w: f32[3]\n"                                                                          \
    "output y: f32[9]\n"                                                                         \
    "output z: f32[9]\n"                                                                         \
    "block product(i:9 | k:3): y[i] sum= select(and(1 <= i + k, i + k < 10), x[i + k - 1], 1.0)" \
    "*w[k]\n"                                                                                    \
    "block addend(i:9 | k:3): z[i] sum= select(and(1 <= i + k, i + k < 10), x[i + k - 1], 0.0)"  \
    " + w[k]\n"

/* Accumulators in registers, packed weights, halves of the image in parallel. */
#define CONV_TILED                                                                               \
    "cache_read(conv, w, global)\n"                                                              \
    "transform_layout(w.read, \"d0/8,d1,d2,d3,d0%8\")\n"                                         \
    "cache_write(conv, register)\n"                                                              \
    "split(conv.oc, 2, 8)\n"                                                                     \
    "split(conv.ow, 2, 4)\n"                                                                     \
    "reorder(conv.oc.0, conv.oh, conv.ow.0, conv.ic, conv.kh, conv.kw, conv.ow.1, conv.oc.1)\n"  \
    "decompose_reduction(conv, conv.ic)\n"                                                       \
    "reverse_compute_at(conv.write, conv.ow.0)\n"                                                \
    "reverse_compute_at(relu, conv.ow.0)\n"                                                      \
    "compute_at(pad, conv.oh)\n"                                                                 \
    "reorder(conv.write.ow, conv.write.oc)\nreorder(relu.ow, relu.oc)\nreorder(conv.init.ow.1, " \
    "conv.init.oc.1)\n"                                                                          \
    "unroll(conv.ow.1)\nunroll(conv.init.ow.1)\nunroll(conv.write.ow)\n"                         \
    "vectorize(conv.oc.1)\nvectorize(conv.init.oc.1)\nvectorize(conv.write.oc)\nvectorize(relu." \
    "oc)\n"                                                                                      \
    "parallel(conv.oh)\n"
#define DENSE_TILED                                                                             \
    "cache_write(dense, register)\nsplit(dense.m, 2, 3)\nsplit(dense.n, 3, 8)\n"                \
    "reorder(dense.m.0, dense.n.0, dense.k, dense.m.1, dense.n.1)\ndecompose_reduction(dense, " \
    "dense.k)\n"                                                                                \
    "reverse_compute_at(dense.write, "                                                          \
    "dense.n.0)\nunroll(dense.m.1)\nvectorize(dense.n.1)\nunroll(dense.init.m.1)\n"             \
    "vectorize(dense.init.n.1)\nunroll(dense.write.m)\nvectorize(dense.write.n)\n"

static const struct hand_row {
    const char *name, *te, *trace;
    int level;
    uint32_t threads;
} hand_table[] = {
    {"conv, padding under the rows", CONV,
     "compute_at(pad, conv.oh)\nreverse_compute_at(relu, conv.ow)\n", 3, 1},
    {"conv, rows in parallel", CONV,
     "compute_at(pad, conv.oh)\nparallel(conv.oh)\nreverse_compute_at(relu, conv.oc)\n", 3, 4},
    {"conv, padding inlined, rows split", CONV,
     "inline(pad)\nsplit(conv.oh, 2, 4)\nsplit(conv.ow, 3, 3)\nparallel(conv.oh.0)\n", 3, 4},
    {"conv, padding inlined, columns unrolled around channels", CONV,
     "inline(pad)\ncache_write(conv, register)\nsplit(conv.oc, -1, 8)\nsplit(conv.ow, -1, 4)\n"
     "reorder(conv.oc.0, conv.oh, conv.ow.0, conv.ic, conv.kh, conv.kw, conv.ow.1, conv.oc.1)\n"
     "decompose_reduction(conv, conv.ic)\nreverse_compute_at(conv.write, conv.ow.0)\n"
     "reorder(conv.write.ow, conv.write.oc)\nreorder(conv.init.ow.1, conv.init.oc.1)\n"
     "unroll(conv.ow.1)\nunroll(conv.init.ow.1)\nunroll(conv.write.ow)\n"
     "vectorize(conv.oc.1)\nvectorize(conv.init.oc.1)\nvectorize(conv.write.oc)\n",
     3, 1},
    {"conv, padding inlined, vectors along rows", CONV,
     "inline(pad)\ncache_write(conv, global)\nvectorize(relu.ow)\n", 3, 1},
    {"dense, columns in vectors of 24", DENSE,
     "reorder(dense.m, dense.k, dense.n)\ndecompose_reduction(dense, dense.k)\n"
     "vectorize(dense.n)\nvectorize(dense.init.n)\n",
     3, 1},
    {"dense, columns in vectors with a rest", DENSE,
     "split(dense.n, 2, 13)\nreorder(dense.m, dense.n.0, dense.k, dense.n.1)\n"
     "vectorize(dense.n.1)\n",
     2, 1},
    {"dense, a tile in registers", DENSE, DENSE_TILED, 3, 1},
    {"dense, packed weights", DENSE,
     "cache_read(dense, w, global)\ntransform_layout(w.read, \"d1/8,d0,d1%8\")\n", 3, 1},
    {"dense, two packed copies", DENSE,
     "cache_read(dense, w, global)\ncache_read(dense, w.read, global)\n", 3, 1},
    {"dense, padded columns", DENSE,
     "cache_write(dense, global)\npad(dense, n, 16)\nsplit(dense.n, 4, 8)\n"
     "reorder(dense.m, dense.n.0, dense.k, dense.n.1)\nvectorize(dense.n.1)\n",
     3, 1},
    {"dense, a long unrolled nest", DENSE, "unroll(dense.m)\nunroll(dense.n)\nunroll(dense.k)\n", 3,
     1},
    {"softmax, row by row in parallel", SOFTMAX,
     "reverse_compute_at(s, e.i)\nreverse_compute_at(y, e.i)\ncompute_at(m, e.i)\n"
     "parallel(e.i)\n",
     3, 4},
    {"softmax, vectors", SOFTMAX, "vectorize(e.j)\nvectorize(y.j)\n", 3, 1},
    {"shift, serial", SHIFT, "", 3, 1},
    {"shift, split", SHIFT, "split(shift.i, 5, 8)\n", 3, 1},
    {"padding of rows in parallel, a few columns at a time", CONV,
     "split(pad.w, -1, 3)\nunroll(pad.w.1)\nunroll(pad.w.0)\nunroll(pad.c)\nparallel(pad.h)\n", 3,
     4},
    {"conv, channels and rows fused and shared, with tails of both", CONV,
     "split(conv.oc, -1, 4)\nsplit(conv.oh, -1, 2)\n"
     "reorder(conv.oc.0, conv.oh.0, conv.ow, conv.ic, conv.kh, conv.kw, conv.oh.1, conv.oc.1)\n"
     "fuse(conv.oc.0, conv.oh.0)\nparallel(conv.oc.0.f)\n",
     3, 4},
    {"shift, in parallel", SHIFT, "split(shift.i, 10, 4)\nparallel(shift.i.0)\n", 3, 4},
    {"shift, vectors", SHIFT, "split(shift.i, 5, 8)\nvectorize(shift.i.1)\n", 4, 1},
    {"clamp", CLAMP, "", 3, 1},
    {"clamp, split", CLAMP, "split(clamp.i, 5, 8)\n", 3, 1},
    {"band", BAND, "", 3, 1},
    {"filled", FILLED, "unroll(product.k)\nunroll(addend.k)\n", 3, 1},
    {"conv, tiled", CONV, CONV_TILED, 3, 4},
};

static void schedules_by_hand_keep_their_meaning(void **state) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(hand_table); i++) {
        const struct hand_row *row = &hand_table[i];
        kiln_arena_reset(*state);
        kiln_target target = x86_target(*state, row->level, row->threads);
        kiln_program *te = parse_in(*state, row->te);
        kiln_status st = lowered_equals(te, replay_text(te, row->trace), &target, i);
        if (st) fail_msg("%s: %s", row->name, kiln_status_text(st));
    }
}

/* Statements of a kind that stand in the tree below `stmt`. */
static uint32_t count_below(const kiln_program *p, kiln_stmt stmt,
                            bool (*counts)(const kiln_program *, kiln_stmt)) {
    uint32_t count = counts(p, stmt);
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
        count += count_below(p, p->stmt.data[stmt].child.data[i], counts);
    return count;
}

static bool is_loop(const kiln_program *p, kiln_stmt s, kiln_loop_kind kind) {
    return p->stmt.data[s].kind == KILN_STMT_FOR && p->stmt.data[s].loop_kind == kind;
}
static bool is_parallel(const kiln_program *p, kiln_stmt s) {
    return is_loop(p, s, KILN_LOOP_PARALLEL);
}
static bool is_once(const kiln_program *p, kiln_stmt s) {
    return p->stmt.data[s].kind == KILN_STMT_FOR && p->stmt.data[s].extent <= 1;
}
static bool is_wide(const kiln_program *p, kiln_stmt s) {
    return is_loop(p, s, KILN_LOOP_VECTORIZE) && p->stmt.data[s].extent > 32;
}
static bool is_long_unroll(const kiln_program *p, kiln_stmt s) {
    return is_loop(p, s, KILN_LOOP_UNROLL) && p->stmt.data[s].extent == 20;
}
static bool is_alloc(const kiln_program *p, kiln_stmt s) {
    return p->stmt.data[s].kind == KILN_STMT_ALLOC;
}
static bool is_alloc_in_lanes(const kiln_program *p, kiln_stmt s) {
    bool inside = false;
    for (kiln_stmt at = s; at; at = p->stmt.data[at].parent)
        inside |= is_loop(p, at, KILN_LOOP_VECTORIZE);
    return inside && is_alloc(p, s);
}
static void find_select(kiln_program *p, kiln_expr e, void *context) {
    (void)p;
    (void)e;
    *(bool *)context = true;
}
static bool is_select(const kiln_program *p, kiln_stmt s) {
    bool found = false;
    if (p->stmt.data[s].kind == KILN_STMT_STORE)
        kiln_expr_visit_selects((kiln_program *)p, p->stmt.data[s].value, find_select, &found);
    return found;
}
static bool is_if(const kiln_program *p, kiln_stmt s) {
    return p->stmt.data[s].kind == KILN_STMT_IF;
}

static void temps_are_allocated_and_small(void **state) {
    kiln_target target = x86_target(*state, 3, 1);
    kiln_lowered lowered;
    kiln_program *te = parse_in(*state, CONV);
    expect_ok(kiln_lower(replay_text(te, "compute_at(pad, conv.oh)\n"), &target, *state, &lowered));
    kiln_buffer pad = kiln_program_find_buffer(lowered.run, KILN_STR("pad"));
    assert_int_equal(kiln_shape_count(&lowered.run->buffer.data[pad].shape), 4 * 3 * 9);
    assert_true(count_below(lowered.run, lowered.run->root, is_alloc) > 0);
}

/* What no schedule makes today: loops that do not start at 0, and temps of lanes. */
static void programs_by_hand_keep_their_meaning(void **state) {
    kiln_target target = x86_target(*state, 3, 1);
    kiln_program *te = parse_in(*state, TWICE);
    kiln_program *loops = parse_in(*state, TWICE "loops:\n"
                                                 "  vectorize k in 3..40:\n"
                                                 "    block double(i=k - 3)\n"
                                                 "    block add(i=k - 3)\n");
    kiln_lowered lowered;
    expect_ok(lowered_equals(te, loops, &target, 1));
    expect_ok(kiln_lower(loops, &target, *state, &lowered));
    assert_int_equal(count_below(lowered.run, lowered.run->root, is_alloc_in_lanes), 0);
}

static void constants_are_packed_before_the_first_run(void **state) {
    kiln_target target = x86_target(*state, 3, 1);
    kiln_lowered lowered;
    kiln_program *te = parse_in(*state, DENSE);
    expect_ok(
        kiln_lower(replay_text(te, "cache_read(dense, w, global)\n"), &target, *state, &lowered));
    assert_non_null(lowered.prepare);
    assert_int_equal(lowered.arg_count, 4);
    static const char *const name[] = {"x", "w", "y", "w.read"};
    static const bool prepare[] = {false, true, false, true}, run[] = {true, false, true, true};
    for (uint32_t i = 0; i < lowered.arg_count; i++) {
        expect_str(lowered.arg[i].name, name[i]);
        assert_int_equal(lowered.arg[i].in_prepare != 0, prepare[i]);
        assert_int_equal(lowered.arg[i].in_run != 0, run[i]);
    }
}

static void expect_none(void **state, const char *te_text, const char *trace,
                        bool (*bad)(const kiln_program *, kiln_stmt)) {
    kiln_target target = x86_target(*state, 3, 1);
    kiln_lowered lowered;
    expect_ok(kiln_lower(replay_text(parse_in(*state, te_text), trace), &target, *state, &lowered));
    assert_int_equal(count_below(lowered.run, lowered.run->root, bad), 0);
}

static void one_thread_has_no_parallel_loops(void **state) {
    expect_none(state, DENSE, "parallel(dense.m)\n", is_parallel);
}
static void loops_that_run_once_are_gone(void **state) { expect_none(state, CONV, "", is_once); }
static void simplify_removes_loops_that_run_once(void **state) {
    kiln_target target = x86_target(*state, 3, 1);
    const kiln_program *loops = unscheduled(parse_in(*state, CONV));
    assert_non_null(strstr(lowered_text(loops, &target, "blocks"), "for conv.n in 1:"));
    assert_null(strstr(lowered_text(loops, &target, "simplify"), " in 1:"));
}
static void vectors_are_cut_to_hardware(void **state) {
    expect_none(
        state,
        "program copy\ninput x: f32[64]\noutput y: f32[64]\nblock copy(i:64): y[i] = x[i] + 1.0\n",
        "vectorize(copy.i)\n", is_wide);
}
static void unrolled_nests_stay_short(void **state) {
    expect_none(
        state, DENSE,
        "reorder(dense.k, dense.m, dense.n)\nunroll(dense.m)\nunroll(dense.n)\nunroll(dense.k)\n",
        is_long_unroll);
}
/* A sum asks before it adds, so nothing chooses between a product and zero. */
static void products_with_a_padding_are_left_out(void **state) {
    expect_none(state, CONV, "inline(pad)\nunroll(conv.kh)\nunroll(conv.kw)\n", is_select);
}
/* The rest of a loop is a part of its own, whose extent is known, so no condition is left anywhere.
 */
static void full_tiles_carry_no_condition(void **state) {
    expect_none(
        state,
        "program copy\ninput x: f32[37]\noutput y: f32[37]\nblock copy(i:37): y[i] = x[i] + 1.0\n",
        "split(copy.i, 5, 8)\n", is_if);
}

static bool is_if_in_loop(const kiln_program *p, kiln_stmt s) {
    bool inside = false;
    for (kiln_stmt at = s; at; at = p->stmt.data[at].parent)
        inside |= is_loop(p, at, KILN_LOOP_SERIAL);
    return inside && is_if(p, s);
}
static void full_tiles_of_shared_loops_carry_no_condition(void **state) {
    kiln_target target = x86_target(*state, 3, 2);
    kiln_lowered lowered;
    kiln_program *te = parse_in(*state, "program copy\ninput x: f32[6,37]\noutput y: f32[6,37]\n"
                                        "block copy(i:6, j:37): y[i, j] = x[i, j] + 1.0\n");
    const char *trace = "split(copy.j, -1, 8)\nfuse(copy.i, copy.j.0)\nparallel(copy.i.f)\n";
    expect_ok(kiln_lower(replay_text(te, trace), &target, *state, &lowered));
    assert_int_equal(count_below(lowered.run, lowered.run->root, is_if_in_loop), 0);
}

static bool is_choice(const kiln_program *p, kiln_stmt s) {
    const kiln_stmt_info *info = &p->stmt.data[s];
    return info->kind == KILN_STMT_STORE && kiln_expr_get(p, info->value)->op == KILN_EXPR_SELECT;
}

/* Whether a row is inside is asked once a row, also where rows are fused and cannot be split. */
static void rows_are_chosen_outside_of_their_loop(void **state) {
    expect_none(state,
                "program rows\ninput x: f32[3,2,8]\noutput y: f32[4,2,8]\n"
                "block rows(a:4, c:2, b:8): y[a, c, b] = select(1 <= a, x[a - 1, c, b], 0.0)\n",
                "fuse(rows.a, rows.c)\n", is_choice);
}

static void expect_refused(void **state, const char *trace, const char *why) {
    kiln_target target = x86_target(*state, 3, 1);
    kiln_program *te = parse_in(*state, DENSE);
    expect_error(lowered_equals(te, replay_text(te, trace), &target, 1), ILLEGAL_SCHEDULE, why);
}

static void registers_that_cannot_be_are_refused(void **state) {
    expect_refused(state,
                   "cache_write(dense, register)\nreverse_compute_at(dense.write, "
                   "dense.m)\nunroll(dense.write.n)\n",
                   "dense.n, which is not unrolled");
    expect_refused(state,
                   "cache_write(dense, register)\nsplit(dense.n, 3, 8)\nreorder(dense.n.0, "
                   "dense.k, dense.m, dense.n.1)\n"
                   "decompose_reduction(dense, dense.k)\nreverse_compute_at(dense.write, "
                   "dense.n.0)\nunroll(dense.m)\n"
                   "unroll(dense.init.m)\nunroll(dense.write.m)\nunroll(dense.n.1)\nunroll(dense."
                   "init.n.1)\nunroll(dense.write.n)\n",
                   "vector registers");
}

static void instructions_that_the_target_lacks_are_refused(void **state) {
    kiln_target target = x86_target(*state, 3, 1);
    kiln_program *te = parse_in(
        *state, "program p\ninput a: i8[3,4]\nconstant b: i8[4,4]\noutput c: i32[3,4]\n"
                "block dot(m:3, n:4 | k:4): c[m, n] sum= i32(a[m, k])*i32(b[n, k]) init 0i32\n");
    const char *trace = "decompose_reduction(dot, dot.m)\ntensorize(dot.n, \"sdot\")\n";
    expect_error(lowered_equals(te, replay_text(te, trace), &target, 1), ILLEGAL_SCHEDULE,
                 "dot.k uses sdot, which needs dotprod");
}

static void bound_loops_need_launches(void **state) {
    expect_refused(state, "bind(dense.n, \"thread.x\")\n", "the target has no launches");
}

/* What a group shares is read behind a barrier, in one nest. */
static void launches_keep_their_meaning(void **state) {
    kiln_lowered lowered;
    kiln_program *te = parse_in(*state, SOFTMAX);
    expect_ok(grid_equals(te,
                          replay_text(te, "reverse_compute_at(s, e.i)\nreverse_compute_at(y, e.i)\n"
                                          "compute_at(m, e.i)\nbind(e.i, \"block.x\")\n"
                                          "bind(e.j, \"thread.x\")\nbind(y.j, \"thread.x\")\n"),
                          1, &lowered));
    assert_int_equal(lowered.run_launches.count, 1);
    assert_int_equal(lowered.run_launches.launch[0].barrier_count, 3);
    assert_int_equal(lowered.run_launches.launch[0].shared_count, 3);
    assert_int_equal(lowered.run_launches.launch[0].shared_bytes, 48 + 4); /* s lies where m was */
}

static void virtual_threads_are_no_loops_of_their_own(void **state) {
    kiln_program *te = parse_in(*state, SOFTMAX);
    kiln_program *scheduled = replay_text(te, "bind(e.i, \"block.x\")\nvthread(e.j)\n");
    kiln_strbuf text = {0};
    kiln_target target = x86_target(*state, 3, 1);
    expect_ok(kiln_lower_explain_by(scheduled, &target, KILN_LOWER_GRID, KILN_STR("unroll"), *state,
                                    &text));
    assert_null(strstr(text.data, "vthread"));
    expect_contains(text.data, "unroll e.j");
    kiln_strbuf_deinit(&text);
}

static void pipelines_are_no_loops_any_more(void **state) {
    kiln_program *te = parse_in(*state, "program p\ninput x: f32[4,8]\noutput y: f32[4,8]\n"
                                        "temp t: f32[4,8]\n"
                                        "block t(i:4, j:8): t[i, j] = x[i, j]\n"
                                        "block y(i:4, j:8): y[i, j] = t[i, 7 - j]\n");
    kiln_program *scheduled =
        replay_text(te, "split(y.i, 1, 4)\nbind(y.i.0, \"block.x\")\ncompute_at(t, y.i.1)\n"
                        "bind(t.j, \"thread.x\")\nbind(y.j, \"thread.x\")\npipeline(y.i.1, 2)\n");
    kiln_strbuf text = {0};
    kiln_target target = x86_target(*state, 3, 1);
    expect_ok(kiln_lower_explain_by(scheduled, &target, KILN_LOWER_GRID, KILN_STR("unroll"), *state,
                                    &text));
    assert_null(strstr(text.data, "pipeline"));
    kiln_strbuf_deinit(&text);
}

static void pipelines_of_copies_copy(void **state) {
    kiln_program *te = parse_in(*state, "program p\ninput x: f32[5,8]\noutput y: f32[8]\n"
                                        "temp t: f32[5,8]\n"
                                        "block t(k:5, j:8): t[k, j] = x[k, j]\n"
                                        "block y(j:8 | k:5): y[j] sum= t[k, 7 - j]\n");
    kiln_program *scheduled = replay_text(
        te, "split(y.j, 1, 8)\nreorder(y.j.0, y.k, y.j.1)\nbind(y.j.0, \"block.x\")\n"
            "decompose_reduction(y, y.k)\ncompute_at(t, y.k)\nset_scope(t, \"shared\")\n"
            "bind(t.j, \"thread.x\")\nbind(y.j.1, \"thread.x\")\n"
            "bind(y.init.j.1, \"thread.x\")\npipeline(y.k, 3)\n");
    kiln_target target = target_of(*state, "cuda:sm_80");
    kiln_strbuf text = {0};
    kiln_lowered lowered;
    expect_ok(kiln_lower_explain(scheduled, &target, KILN_STR(""), *state, &text));
    expect_contains(text.data, "copy(0) t");
    expect_contains(text.data, "wait(0, 1)");
    kiln_strbuf_deinit(&text);
    expect_ok(grid_equals_on(te, scheduled, &target, 1, &lowered));
}

static void threads_sum_what_threads_made(void **state) {
    kiln_lowered lowered;
    kiln_program *te = parse_in(*state, "program p\ninput x: f32[3,37]\noutput y: f32[3]\n"
                                        "block s(i:3 | j:37): y[i] sum= x[i, j]\n");
    kiln_program *scheduled =
        replay_text(te, "rfactor(s, \"j\", 8)\nreverse_compute_at(s, s.part.i)\n"
                        "bind(s.part.i, \"block.x\")\nbind(s.part.j.1, \"thread.x\")\n");
    expect_ok(grid_equals(te, scheduled, 1, &lowered));
    assert_int_equal(lowered.run_launches.launch[0].barrier_count, 1 + 2 + 1);
}

/* Parallel loops of processors behind the interface of a GPU. */
static void parallel_loops_at_the_root_are_groups_of_one_item(void **state) {
    kiln_target target = target_of(*state, "opencl:x,units=2,emulated");
    kiln_program *te = parse_in(*state, "program p\ninput x: f32[6,8]\ntemp t: f32[6,8]\n"
                                        "output y: f32[6,8]\noutput z: f32[6,8]\n"
                                        "output w: f32[6,8]\n"
                                        "block t(i:6, j:8): t[i, j] = x[i, j]*2.0\n"
                                        "block y(i:6, j:8): y[i, j] = t[i, 7 - j]\n"
                                        "block z(i:6, j:8): z[i, j] = x[5 - i, j]\n"
                                        "block w(i:6, j:8): w[i, j] = z[i, j]*3.0\n");
    kiln_program *scheduled = replay_text(te, "parallel(y.i)\ncompute_at(t, y.i)\nparallel(z.j)\n");
    kiln_lowered lowered;
    expect_ok(kiln_lower(scheduled, &target, *state, &lowered));
    const kiln_launch *launch = lowered.run_launches.launch;
    assert_int_equal(lowered.run_launches.count, 2); /* w follows z, and both run in order */
    assert_int_equal(launch[0].grid_size[0], 6);
    assert_int_equal(launch[0].group_size[0], 1);
    assert_int_equal(launch[0].local_bytes, 8 * sizeof(float)); /* t of one item */
    assert_int_equal(launch[1].grid_size[0], 1); /* its parallel loop stands inside */
    assert_false(launch[0].uses_scratch);
    expect_ok(items_equal(te, scheduled, &target, 1));
}

static void registers_are_counted(void **state) {
    kiln_target target = x86_target(*state, 3, 1);
    kiln_lowered lowered;
    kiln_program *te = parse_in(*state, DENSE);
    expect_ok(kiln_lower(replay_text(te, DENSE_TILED), &target, *state, &lowered));
    assert_int_equal(lowered.registers, 3); /* 3 rows of one vector of 8 */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(schedules_by_hand_keep_their_meaning),
        test_with_arena(programs_by_hand_keep_their_meaning),
        test_with_arena(random_programs_keep_their_meaning),
        test_with_arena(random_schedules_keep_their_meaning),
        test_with_arena(constants_are_packed_before_the_first_run),
        test_with_arena(temps_are_allocated_and_small),
        test_with_arena(one_thread_has_no_parallel_loops),
        test_with_arena(loops_that_run_once_are_gone),
        test_with_arena(simplify_removes_loops_that_run_once),
        test_with_arena(vectors_are_cut_to_hardware),
        test_with_arena(unrolled_nests_stay_short),
        test_with_arena(products_with_a_padding_are_left_out),
        test_with_arena(full_tiles_carry_no_condition),
        test_with_arena(full_tiles_of_shared_loops_carry_no_condition),
        test_with_arena(rows_are_chosen_outside_of_their_loop),
        test_with_arena(registers_that_cannot_be_are_refused),
        test_with_arena(instructions_that_the_target_lacks_are_refused),
        test_with_arena(bound_loops_need_launches),
        test_with_arena(launches_keep_their_meaning),
        test_with_arena(virtual_threads_are_no_loops_of_their_own),
        test_with_arena(pipelines_are_no_loops_any_more),
        test_with_arena(pipelines_of_copies_copy),
        test_with_arena(threads_sum_what_threads_made),
        test_with_arena(parallel_loops_at_the_root_are_groups_of_one_item),
        test_with_arena(registers_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
