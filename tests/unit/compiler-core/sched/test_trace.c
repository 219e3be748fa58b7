/* Traces: text and bytes give them back, replay closes decisions, errors say where. */
#include "compiler-core/sched/trace.h"

#include <math.h>
#include <string.h>

#include "base/rand.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/sched/prim.h"
#include "compiler-core/sched/replay.h"
#include "tests/unit/compiler-core/sched/support.h"

/* One line for each primitive and sampler, in an order in which all apply to conv_program. */
static const char every_primitive[] = "inline(bias)\n"
                                      "rfactor(conv, \"kw\", 3)\n"
                                      "cache_read(conv.part, w, \"global\")\n"
                                      "pad(w.read, \"d0\", 8)\n"
                                      "transform_layout(w.read, \"d0/{0},d1,d2,d3,d0%{0}\", 8)\n"
                                      "t0 = perfect_tile(conv.part.oc, 2, 4) = [1, 4]\n"
                                      "split(conv.part.oc, t0[0], t0[1])\n"
                                      "c1 = categorical(1, 2, 5) = 2\n"
                                      "split(conv.part.ow, -1, c1)\n"
                                      "reorder(conv.part.n, conv.part.oc.0, conv.part.oh, "
                                      "conv.part.ow.0, conv.part.ic, conv.part.kh, "
                                      "conv.part.kw.0, conv.part.kw.1, "
                                      "conv.part.ow.1, conv.part.oc.1)\n"
                                      "l2 = location(pad, 3) = 3\n"
                                      "compute_at(pad, l2)\n"
                                      "reverse_compute_at(relu, conv.ow)\n"
                                      "decompose_reduction(conv.part, conv.part.ic)\n"
                                      "prefetch(w.read, conv.part.kh, 1)\n"
                                      "vectorize(conv.part.oc.1)\n"
                                      "unroll(conv.part.ow.1)\n"
                                      "set_scope(sum, \"global\")\n"
                                      "c3 = choice(2, 1, 5, 5, 1) = 0\n"
                                      "split(pad.w, -1, c3[0]*c3[1])\n"
                                      "annotate(pad.w.0, \"note=here\")\n"
                                      "cache_write(relu, \"global\")\n"
                                      "divide(relu.write, \"w\", 5)\n"
                                      "merge(relu.write, \"w.0,w.1\")\n"
                                      "gather(relu.write, y.acc, \"global\")\n"
                                      "fuse(relu.write.c, relu.write.h)\n"
                                      "parallel(relu.write.n)\n"
                                      "bind(conv.n, \"block.x\")\n"
                                      "vthread(conv.oc)\n"
                                      "cache_read(conv.part, w.read, \"shared\")\n"
                                      "swizzle(w.read.read, 4, 2, 2, 1)\n"
                                      "compute_at(w.read.read, conv.part.kh)\n"
                                      "pipeline(conv.part.kh, 2)\n"
                                      "producer(conv.part.kh, 1)\n"
                                      "resident(conv.n, 2)\n";

/* The same for what takes a product of bytes. */
static const char every_primitive_of_bytes[] = "split(dot.n, -1, 4)\n"
                                               "decompose_reduction(dot, dot.m)\n"
                                               "tensorize(dot.n.1, \"sdot\")\n";

/* The same for what widens bytes. */
static const char every_primitive_of_words[] = "unit_product(b, x, \"i\", 2)\n";
static const char words_program[] = "program p\ninput x: i8[4]\noutput y: i32[4]\n"
                                    "block b(i:4): y[i] = i32(x[i])\n";

/* The same for a program that another takes the place of. */
static const char every_beginning[] = "algorithm(\"winograd_2x2_3x3\")\n"
                                      "unroll(conv.tiles.p)\n";

static const conv_shape small_conv = {1, 2, 5, 5, 4, 3, 3, 1, 1, true};

static kiln_trace parse_trace(kiln_arena *arena, const char *text) {
    kiln_trace trace;
    kiln_status st = kiln_trace_parse(kiln_str_from(text), arena, &trace);
    if (st) fail_msg("%s", kiln_status_text(st));
    return trace;
}

static char *print_trace(kiln_arena *arena, const kiln_trace *trace) {
    kiln_strbuf out = {0};
    kiln_trace_print(trace, &out);
    char *text = kiln_str_dup(arena, kiln_strbuf_view(&out));
    kiln_strbuf_deinit(&out);
    return text;
}

static void every_primitive_has_a_line_that_applies(void **state) {
    kiln_arena *arena = *state;
    const char *const text[] = {every_primitive, every_primitive_of_bytes, every_primitive_of_words,
                                every_beginning};
    bool seen[KILN_PRIM_COUNT] = {false};
    for (uint32_t t = 0; t < KILN_ARRAY_COUNT(text); t++) {
        kiln_trace trace = parse_trace(arena, text[t]);
        for (uint32_t i = 0; i < trace.count; i++) seen[trace.instruction[i].prim] = true;
    }
    for (uint32_t i = 0; i < KILN_PRIM_COUNT; i++)
        if (!seen[i]) fail_msg("%s is not tried", kiln_prim_name((kiln_prim)i));
    schedule(conv_program(arena, &small_conv), every_primitive);
    schedule(bytes_program(arena, 3, 8, 4), every_primitive_of_bytes);
    schedule(parsed(arena, words_program), every_primitive_of_words);
    schedule(conv_program(arena, &small_conv), every_beginning);
}

static void the_algorithm_comes_first_and_must_apply(void **state) {
    kiln_program *te = conv_program(*state, &small_conv);
    expect_illegal(te, "unroll(conv.ow)\nalgorithm(\"winograd_2x2_3x3\")\n",
                   "before anything is scheduled");
    expect_illegal(te, "algorithm(\"fourier\")\n", "no algorithm \"fourier\"");
    expect_illegal(matmul_program(*state, 4, 4, 4), "algorithm(\"winograd_2x2_3x3\")\n",
                   "does not apply to matmul");
    kiln_trace trace = parse_trace(*state, every_beginning);
    assert_int_equal(kiln_trace_algorithm(&trace), KILN_ALGORITHM_WINOGRAD_2X2_3X3);
    trace = parse_trace(*state, every_primitive);
    assert_int_equal(kiln_trace_algorithm(&trace), KILN_ALGORITHM_DIRECT);
}

static void numbers_of_primitives_are_unique_and_lead_back(void **state) {
    (void)state;
    for (uint32_t i = 0; i < KILN_PRIM_COUNT; i++) {
        kiln_prim found;
        assert_true(kiln_prim_from_number(kiln_prim_number((kiln_prim)i), &found));
        assert_int_equal(found, i);
        assert_true(kiln_prim_find(kiln_str_from(kiln_prim_name((kiln_prim)i)), &found));
        assert_int_equal(found, i);
    }
    kiln_prim found;
    assert_false(kiln_prim_from_number(0, &found));
    assert_false(kiln_prim_find(KILN_STR("tile"), &found));
}

static void text_comes_back_as_it_was(void **state) {
    kiln_arena *arena = *state;
    const char *const text[] = {every_primitive, every_primitive_of_bytes};
    for (uint32_t t = 0; t < 2; t++) {
        kiln_trace trace = parse_trace(arena, text[t]);
        assert_string_equal(print_trace(arena, &trace), text[t]);
    }
}

static void names_with_odd_characters_are_quoted(void **state) {
    kiln_arena *arena = *state;
    const char text[] = "split(\"layer \\\"1\\\".c\", 2, -1)\nunroll(a/b.c'2)\n";
    kiln_trace trace = parse_trace(arena, text);
    assert_true(kiln_str_is(trace.instruction[0].operand[0].text, "layer \"1\".c"));
    assert_string_equal(print_trace(arena, &trace), text);
}

static void bytes_come_back_as_they_were(void **state) {
    kiln_arena *arena = *state;
    kiln_trace trace = parse_trace(arena, every_primitive), decoded;
    kiln_strbuf bytes = {0};
    kiln_trace_encode(&trace, &bytes);
    assert_true(bytes.size < 700); /* a few hundred bytes: every record has one */
    assert_null(kiln_trace_decode(kiln_strbuf_view(&bytes), arena, &decoded));
    assert_string_equal(print_trace(arena, &decoded), every_primitive);
    kiln_hash128 a = kiln_trace_hash(&trace), b = kiln_trace_hash(&decoded);
    assert_memory_equal(&a, &b, sizeof a);
    kiln_strbuf_deinit(&bytes);
}

static void truncated_bytes_are_refused(void **state) {
    kiln_arena *arena = *state;
    kiln_trace trace = parse_trace(arena, every_primitive), decoded;
    kiln_strbuf bytes = {0};
    kiln_trace_encode(&trace, &bytes);
    for (size_t size = 0; size < bytes.size; size++) {
        kiln_status st = kiln_trace_decode((kiln_str){bytes.data, size}, arena, &decoded);
        assert_int_equal(kiln_status_code(st), KILN_DATA_LOSS);
        kiln_status_free(st);
    }
    kiln_strbuf_char(&bytes, '\0');
    kiln_status st = kiln_trace_decode(kiln_strbuf_view(&bytes), arena, &decoded);
    assert_int_equal(kiln_status_code(st), KILN_DATA_LOSS);
    kiln_status_free(st);
    kiln_strbuf_deinit(&bytes);
}

static void bad_text_is_refused_with_its_place(void **state) {
    static const struct {
        const char *text, *why;
    } row[] = {
        {"split(c.j, 2\n", "1:13: , or ) is expected"},
        {"unroll(c.i)\nspilt(c.j, 2, 5)\n", "2:1: there is no such primitive"},
        {"perfect_tile(c.j, 2, 4) = ?\n", "a sampler is written NAME = sampler(...) = DECISION"},
        {"c0 = split(c.j, 2, 5) = ?\n", "other primitives without"},
        {"x = categorical(1, 2) = ?\n", "samplers are named by letter and number"},
        {"c1 = categorical(1, 2) = ?\n", "samplers are named by letter and number"},
        {"split(c.j, t0[0], 5)\n", "there is no such sampler before this line"},
        {"t0 = perfect_tile(c.j, 2, 4) = [2, 5\n", "] is expected"},
        {"t0 = perfect_tile(c.j, 2) = ?\n", "too few operands"},
        {"unroll(c.i, c.j)\n", "too many operands"},
        {"annotate(c.i, \"open\n", "the quoted text does not end"},
        {"unroll(c.i) x\n", "end of line is expected"},
        {"split(c.j, 99999999999999999999, 2)\n", "an integer is expected"},
    };
    kiln_arena *arena = *state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        kiln_trace trace;
        kiln_status st = kiln_trace_parse(kiln_str_from(row[i].text), arena, &trace);
        if (kiln_status_code(st) != KILN_INVALID_ARGUMENT ||
            !strstr(kiln_status_text(st), row[i].why))
            fail_msg("%s: '%s' instead of '%s'", row[i].text, kiln_status_text(st), row[i].why);
        kiln_status_free(st);
    }
}

/* ---- replay ---- */

static void open_decisions_are_drawn_and_closed(void **state) {
    kiln_arena *arena = *state;
    kiln_program *te = chain_program(arena, 6, 12), *p, *again;
    kiln_trace open = parse_trace(
        arena, "t0 = perfect_tile(c.j, 3, 4) = ?\nsplit(c.j, t0[0], t0[1], t0[2])\n"
               "l1 = location(a, 8) = ?\ncompute_at(a, l1)\nc2 = categorical(2, 3) = ?\n"
               "split(c.i, -1, c2)\n");
    kiln_rand rand;
    kiln_rand_init(&rand, 1);
    for (int round = 0; round < 50; round++) {
        kiln_trace closed;
        assert_null(kiln_trace_replay(&open, te, &rand, arena, &p, &closed));
        assert_false(open.instruction[0].decided);
        assert_true(closed.instruction[0].decided);
        assert_null(same_result(te, p, arena));
        assert_null(kiln_trace_replay(&closed, te, NULL, arena, &again, NULL));
        kiln_hash128 a = kiln_program_hash(p), b = kiln_program_hash(again);
        assert_memory_equal(&a, &b, sizeof a);
    }
}

static void expect_replay_error(kiln_program *te, const char *text, kiln_code code,
                                const char *why) {
    kiln_trace trace = parse_trace(te->arena, text);
    kiln_status st = kiln_trace_replay(&trace, te, NULL, te->arena, NULL, NULL);
    if (kiln_status_code(st) != code || !strstr(kiln_status_text(st), why))
        fail_msg("'%s' instead of '%s'", kiln_status_text(st), why);
    kiln_status_free(st);
}

static void open_decisions_need_a_generator(void **state) {
    expect_replay_error(chain_program(*state, 6, 10), "c0 = categorical(1, 2) = ?\n",
                        KILN_FAILED_PRECONDITION,
                        "instruction 1 (categorical): the decision is open");
}

static void decisions_that_do_not_fit_are_refused(void **state) {
    kiln_program *te = chain_program(*state, 6, 10);
    expect_replay_error(te, "t0 = perfect_tile(c.j, 2, 8) = [2, 4]\n", KILN_INVALID_ARGUMENT,
                        "does not multiply to the 10 iterations");
    expect_replay_error(te, "t0 = perfect_tile(c.j, 2, 8) = [10]\n", KILN_INVALID_ARGUMENT,
                        "does not multiply");
    expect_replay_error(te, "c0 = categorical(1, 2) = 2\n", KILN_INVALID_ARGUMENT,
                        "the decision is not one of 2");
    expect_replay_error(te, "c0 = choice(2, 1, 2, 3) = 0\n", KILN_INVALID_ARGUMENT,
                        "3 integers make no rows of 2");
    expect_replay_error(te, "l0 = location(a, 1) = 2\n", KILN_INVALID_ARGUMENT,
                        "the decision is not one of 2");
    expect_replay_error(te, "c0 = choice(2, 1, 2) = 0\nsplit(c.j, c0[2], 5)\n",
                        KILN_INVALID_ARGUMENT, "no sampler before it gives");
}

static void a_location_at_the_root_leaves_the_block_there(void **state) {
    kiln_arena *arena = *state;
    expect_loops(chain_program(arena, 2, 2), "l0 = location(a, 8) = 0\ncompute_at(a, l0)\n",
                 "  for a.i in 2:\n"
                 "    for a.j in 2:\n"
                 "      block a(i=a.i, j=a.j)\n"
                 "  for c.i in 2:\n"
                 "    for c.j in 2:\n"
                 "      block c(i=c.i, j=c.j)\n");
}

static void a_refused_primitive_leaves_the_program_as_it_was(void **state) {
    kiln_arena *arena = *state;
    kiln_program *p = chain_program(arena, 6, 10);
    kiln_program_make_loops(p);
    kiln_hash128 before = kiln_program_hash(p);
    kiln_prim_args args = {.block = kiln_program_find_block(p, KILN_STR("c")), .loop_count = 1};
    args.loop[0] = kiln_program_find_loop(p, KILN_STR("a.i"));
    assert_null(kiln_prim_apply(p, KILN_PRIM_REVERSE_COMPUTE_AT, &args));
    kiln_prim_args back = {.block = kiln_program_find_block(p, KILN_STR("a")),
                           .text = KILN_STR("global")};
    kiln_hash128 placed = kiln_program_hash(p);
    assert_memory_not_equal(&before, &placed, sizeof before);
    kiln_status st =
        kiln_prim_apply(p, KILN_PRIM_CACHE_WRITE, &back); /* fails after it has changed much */
    assert_int_equal(kiln_status_code(st), KILN_ILLEGAL_SCHEDULE);
    kiln_status_free(st);
    kiln_hash128 after = kiln_program_hash(p);
    assert_memory_equal(&placed, &after, sizeof after);
    assert_null(kiln_program_verify(p));
}

static void tilings_are_counted_and_enumerated(void **state) {
    (void)state;
    assert_int_equal(kiln_tilings_count(12, 2, 4), 4); /* 12x1 6x2 4x3 3x4 */
    assert_int_equal(kiln_tilings_count(12, 3, 100), 18);
    assert_int_equal(kiln_tilings_count(7, 2, 3), 1);
    assert_int_equal(kiln_tilings_count(7, 1, 3), 0);
    uint64_t count = kiln_tilings_count(24, 3, 6);
    int64_t previous[3] = {0, 0, 0};
    for (uint64_t i = 0; i < count; i++) {
        int64_t factor[3];
        kiln_tilings_at(24, 3, 6, i, factor);
        assert_int_equal(factor[0] * factor[1] * factor[2], 24);
        assert_true(factor[2] <= 6);
        assert_true(memcmp(previous, factor, sizeof factor) != 0);
        memcpy(previous, factor, sizeof factor);
    }
}

/* Index by index the same as three loops would find. */
static void tilings_come_in_ascending_order(void **state) {
    (void)state;
    for (int64_t last_max = 1; last_max <= 60; last_max += 7) {
        uint64_t index = 0;
        for (int64_t a = 1; a <= 60; a++)
            for (int64_t b = 1; b <= 60; b++) {
                if (60 % (a * b) != 0 || 60 / (a * b) > last_max) continue;
                int64_t factor[3];
                kiln_tilings_at(60, 3, last_max, index++, factor);
                assert_int_equal(factor[0], a);
                assert_int_equal(factor[1], b);
                assert_int_equal(factor[2], 60 / (a * b));
            }
        assert_int_equal(kiln_tilings_count(60, 3, last_max), index);
    }
}

/* As long as a loop can get: trying every number up to it would take hours. */
static void long_loops_have_tilings_at_once(void **state) {
    (void)state;
    const int64_t longest = INT64_C(1) << 40;
    int64_t factor[8], product = 1;
    assert_int_equal(kiln_tilings_count(longest, 8, longest), 62891499); /* 47 choose 7 */
    kiln_tilings_at(longest, 8, longest, 62891498, factor);
    for (uint32_t i = 0; i < 8; i++) product *= factor[i];
    assert_int_equal(product, longest);
    assert_int_equal(factor[0], longest);
    assert_int_equal(kiln_tilings_count(INT64_C(1099511627689), 2, 64), 1); /* a prime */
}

static double distance_to(const int64_t *wanted, const int64_t *factor, uint32_t parts) {
    double distance = 0;
    for (uint32_t i = 0; i < parts; i++)
        distance += fabs(log2((double)factor[i] / (double)wanted[i])) * (i > 0 ? 2 : 1);
    return distance;
}

/* The first of the nearest ones, as if every tiling had been tried. */
static void tiles_that_do_not_fit_become_the_nearest_that_do(void **state) {
    enum { PARTS = 3, EXTENT = 360, LAST_MAX = 24 };
    kiln_arena *arena = *state;
    kiln_program *te = parsed(arena, "program p\ninput x: f32[360]\noutput y: f32[360]\n"
                                     "block c(a:360): y[a] = x[a]\n");
    kiln_rand rand;
    kiln_rand_init(&rand, 1);
    for (int draw = 0; draw < 40; draw++) {
        int64_t wanted[PARTS], factor[PARTS], nearest[PARTS] = {0};
        for (int i = 0; i < PARTS; i++) wanted[i] = (int64_t)kiln_rand_range(&rand, 1, 40);
        for (uint64_t at = 0; at < kiln_tilings_count(EXTENT, PARTS, LAST_MAX); at++) {
            kiln_tilings_at(EXTENT, PARTS, LAST_MAX, at, factor);
            if (at == 0 || distance_to(wanted, factor, PARTS) < distance_to(wanted, nearest, PARTS))
                memcpy(nearest, factor, sizeof nearest);
        }
        kiln_trace closed,
            trace = parse_trace(
                arena,
                kiln_arena_printf(arena, "t0 = perfect_tile(c.a, %d, %d) = [%d, %d, %d]\n", PARTS,
                                  LAST_MAX, (int)wanted[0], (int)wanted[1], (int)wanted[2]));
        assert_null(kiln_trace_replay_snapping(&trace, te, &rand, arena, NULL, &closed));
        assert_int_equal(closed.instruction[0].decision_count, PARTS);
        for (int i = 0; i < PARTS; i++)
            assert_int_equal(closed.instruction[0].decision[i], nearest[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_primitive_has_a_line_that_applies),
        test_with_arena(the_algorithm_comes_first_and_must_apply),
        test_with_arena(numbers_of_primitives_are_unique_and_lead_back),
        test_with_arena(text_comes_back_as_it_was),
        test_with_arena(names_with_odd_characters_are_quoted),
        test_with_arena(bytes_come_back_as_they_were),
        test_with_arena(truncated_bytes_are_refused),
        test_with_arena(bad_text_is_refused_with_its_place),
        test_with_arena(open_decisions_are_drawn_and_closed),
        test_with_arena(open_decisions_need_a_generator),
        test_with_arena(decisions_that_do_not_fit_are_refused),
        test_with_arena(tiles_that_do_not_fit_become_the_nearest_that_do),
        test_with_arena(a_location_at_the_root_leaves_the_block_there),
        test_with_arena(a_refused_primitive_leaves_the_program_as_it_was),
        test_with_arena(tilings_are_counted_and_enumerated),
        test_with_arena(tilings_come_in_ascending_order),
        test_with_arena(long_loops_have_tilings_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
