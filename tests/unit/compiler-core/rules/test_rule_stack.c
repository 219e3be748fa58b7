/* The rule "stack": reductions in series, each in a tile in the loops of the next. */
#include <stdio.h>

#include "tests/unit/compiler-core/rules/support.h"

#include "base/macros.h"
#include "compiler-core/rules/space.h"

/* A program that grows by a reduction and what follows it. */
typedef struct series {
    kiln_strbuf head, body;
    char from[16]; /* the buffer that the next one reads */
    int channels, size, blocks;
} series;

enum { SIZE = 7, CHANNELS = 8 };

static void pad(series *p, int by, const char *with) {
    const int size = p->size + 2 * by, at = p->blocks;
    kiln_strbuf_printf(&p->head, "temp pad%d: f32[1,%d,%d,%d]\n", at, p->channels, size, size);
    kiln_strbuf_printf(&p->body,
                       "block pad%d(n:1, c:%d, h:%d, w:%d): pad%d[n, c, h, w] = select(and(and(and("
                       "%d <= h, h < %d), %d <= w), w < %d), %s[n, c, h - %d, w - %d], %s)\n",
                       at, p->channels, size, size, at, by, p->size + by, by, p->size + by, p->from,
                       by, by, with);
    p->size = size;
    snprintf(p->from, sizeof p->from, "pad%d", at);
}

/* 'p' a product over channels, 'd' a depthwise convolution of 3x3 ('e': of stride 2), 'c' one over
 * channels, 'm' a maximum of 3x3 of stride 2 ('n': of 2x2), 's' a sum of 3x3. */
static void add(series *p, char kind, int channels, bool is_last) {
    const bool windows = kind != 'p', is_max = kind == 'm' || kind == 'n',
               mixes = kind == 'p' || kind == 'c', weighs = !is_max && kind != 's';
    const int taps = !windows      ? 1
                     : kind == 'n' ? 2
                                   : 3,
              in = p->channels, stride = is_max || kind == 'e' ? 2 : 1, at = p->blocks++;
    if (windows && kind != 'n') pad(p, 1, is_max ? "-inf" : "0.0");
    if (!mixes) channels = in;
    p->size = (p->size - taps) / stride + 1;
    if (weighs)
        kiln_strbuf_printf(&p->head, "constant k%d: f32[%d,%d,%d,%d]\nconstant b%d: f32[%d]\n", at,
                           channels, mixes ? in : 1, taps, taps, at, channels);
    kiln_strbuf_printf(&p->head, "temp s%d: f32[1,%d,%d,%d]\n%s y%d: f32[1,%d,%d,%d]\n", at,
                       channels, p->size, p->size, is_last ? "output" : "temp", at, channels,
                       p->size, p->size);
    kiln_strbuf_printf(&p->body, "block r%d(n:1, o:%d, h:%d, w:%d | ", at, channels, p->size,
                       p->size);
    if (mixes) kiln_strbuf_printf(&p->body, "i:%d, ", in);
    kiln_strbuf_printf(
        &p->body, "kh:%d, kw:%d): s%d[n, o, h, w] %s= %s[n, %s, h*%d + kh, w*%d + kw]", taps, taps,
        at, is_max ? "max" : "sum", p->from, mixes ? "i" : "o", stride, stride);
    if (weighs) kiln_strbuf_printf(&p->body, "*k%d[o, %s, kh, kw]", at, mixes ? "i" : "0");
    kiln_strbuf_printf(&p->body, " init %s\n", is_max ? "-inf" : "0.0");
    kiln_strbuf_printf(&p->body, "block f%d(n:1, o:%d, h:%d, w:%d): y%d[n, o, h, w] = ", at,
                       channels, p->size, p->size, at);
    if (weighs)
        kiln_strbuf_printf(&p->body, "max(s%d[n, o, h, w] + b%d[o], 0.0)\n", at, at);
    else
        kiln_strbuf_printf(&p->body, "s%d[n, o, h, w] + 0.5\n", at);
    p->channels = channels;
    snprintf(p->from, sizeof p->from, "y%d", at);
}

/* The kinds one after the other; products make 16 channels of 8 and the other way. */
static const kiln_program *series_of(kiln_arena *arena, const char *kinds) {
    series p = {.from = "x", .channels = CHANNELS, .size = SIZE};
    for (const char *kind = kinds; *kind; kind++)
        add(&p, *kind, p.channels == CHANNELS ? 16 : CHANNELS, !kind[1]);
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "program series\ninput x: f32[1,%d,%d,%d]\n%.*s%.*s", CHANNELS, SIZE,
                       SIZE, (int)p.head.size, p.head.data, (int)p.body.size, p.body.data);
    const kiln_program *te = parsed(arena, kiln_str_dup(arena, kiln_strbuf_view(&text)));
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&p.head);
    kiln_strbuf_deinit(&p.body);
    return te;
}

static const char *const all_series[] = {"dp", "ep", "pd", "pdp", "pep", "cm",  "cn",
                                         "pc", "mp", "np", "cs",  "pcp", "dpdp"};

/* Caches so small that nothing stays without rounds of rows. */
static kiln_target small_target(uint32_t threads) {
    kiln_target target = avx2_target(threads);
    target.l2_bytes = 1 << 11;
    return target;
}

static void each_series_is_right_in_rounds_and_as_a_whole(void **state) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(all_series); i++)
        for (uint32_t threads = 1; threads <= 2; threads++) {
            const kiln_program *te = series_of(*state, all_series[i]);
            kiln_target target = small_target(threads);
            kiln_sched s = kiln_sched_begin(te, &target, *state);
            kiln_sketch_result result = kiln_sketch_stack(&s, 0);
            if (result.end != KILN_SKETCH_MADE) fail_msg("%s: %s", all_series[i], result.reason);
            expect_sound(&s, te);
            if (threads > 1) continue;
            s = kiln_sched_begin(te, &avx2, *state);
            assert_int_equal(kiln_sketch_stack(&s, 0).end, KILN_SKETCH_MADE);
            expect_sound(&s, te);
        }
}

/* Everything but the last reduction stands in its rounds of rows, in registers of its own. */
static void all_reductions_run_in_rounds_of_rows(void **state) {
    const kiln_program *te = series_of(*state, "pdp");
    kiln_target target = small_target(1);
    kiln_sched s = kiln_sched_begin(te, &target, *state);
    assert_int_equal(kiln_sketch_stack(&s, 0).end, KILN_SKETCH_MADE);
    const kiln_sched_loop round = kiln_sched_loop_around(&s, block_of(&s, "r2"), 1);
    assert_true(kiln_sched_extent(&s, round) > 1);
    static const char *const inside[] = {"r0", "f0", "r1", "f1", "f2"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(inside); i++)
        assert_int_equal(kiln_sched_loop_around(&s, block_of(&s, inside[i]), 1).var, round.var);
    static const char *const registers[] = {"s0", "s1", "s2"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(registers); i++)
        assert_int_equal(s.program->buffer.data[buffer_of(&s, registers[i])].scope,
                         KILN_SCOPE_REGISTER);
}

/* What makes the default schedules of a depthwise convolution and a product over channels, and of
 * an inverted residual: the padding is not computed, and the widest buffer holds some channels of
 * some rows. */
static void defaults_have_these_lines(void **state) {
    static const struct {
        const char *kinds, *line;
    } expected[] = {
        {"dp", "c4 = categorical(4, 2, 1) = 1\nsplit(r1.h.0, -1, c4)\n"},
        {"dp", "compute_at(f0, r1.h.0.0)\ncompute_at(r0, r1.h.0.0)\n"},
        {"dp", "inline(pad1)\nreverse_compute_at(f0, r0.w.0.1)\n"},
        {"dp", "set_scope(s0, \"register\")\n"},
        {"pdp", "compute_at(f1, r2.h.0.0)\ncompute_at(r1, r2.h.0.0)\n"},
        {"pdp", "location(f0, 4) = 4\ncompute_at(f0, l13)\ncompute_at(r0, l13)\n"},
        {"pdp", "inline(pad2)\nreverse_compute_at(f1, r1.w.0.1)\n"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(expected); i++) {
        kiln_target target = small_target(1);
        kiln_strbuf text = {0};
        kiln_sched s = kiln_sched_begin(series_of(*state, expected[i].kinds), &target, *state);
        assert_int_equal(kiln_sketch_stack(&s, 0).end, KILN_SKETCH_MADE);
        kiln_trace_print(kiln_sched_trace(&s), &text);
        expect_contains(kiln_str_dup(*state, kiln_strbuf_view(&text)), expected[i].line);
        kiln_strbuf_deinit(&text);
    }
}

/* The space takes the rule, and what is drawn from it is right. */
static void draws_are_right(void **state) {
    kiln_rand rand;
    kiln_rand_init(&rand, 35);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(all_series); i++) {
        const kiln_program *te = series_of(*state, all_series[i]);
        kiln_target target = small_target(1);
        kiln_space space;
        const kiln_space_options options = {.accuracy = {.exact = true}};
        expect_ok(kiln_space_create_with(te, &target, &options, *state, &space));
        assert_string_equal(space.rule, "stack");
        for (uint32_t draw = 0; draw < 2; draw++) {
            kiln_trace trace;
            kiln_program *drawn = NULL;
            expect_ok(kiln_space_sample(&space, &rand, *state, &trace, &drawn));
            expect_ok(same_result(te, drawn, *state));
        }
    }
}

static const char attention[] =
    "program attention\ninput q: f32[1,2,24,16]\ninput k: f32[1,2,24,16]\n"
    "input v: f32[1,2,24,16]\ntemp s: f32[1,2,24,24]\ntemp t: f32[1,2,24,24]\n"
    "temp m: f32[1,2,24]\ntemp e: f32[1,2,24,24]\ntemp z: f32[1,2,24]\n"
    "temp a: f32[1,2,24,24]\noutput y: f32[1,2,24,16]\n"
    "block scores(n:1, h:2, i:24, j:24 | c:16): s[n, h, i, j] sum= q[n, h, i, c]*k[n, h, j, c] "
    "init "
    "0.0\n"
    "block scale(n:1, h:2, i:24, j:24): t[n, h, i, j] = s[n, h, i, j]*0.25\n"
    "block max(n:1, h:2, i:24 | j:24): m[n, h, i] max= t[n, h, i, j] init -inf\n"
    "block exp(n:1, h:2, i:24, j:24): e[n, h, i, j] = max(t[n, h, i, j] - m[n, h, i], -1.0)\n"
    "block sum(n:1, h:2, i:24 | j:24): z[n, h, i] sum= e[n, h, i, j] init 0.0\n"
    "block share(n:1, h:2, i:24, j:24): a[n, h, i, j] = e[n, h, i, j]*z[n, h, i]\n"
    "block values(n:1, h:2, i:24, c:16 | j:24): y[n, h, i, c] sum= a[n, h, i, j]*v[n, h, j, c] "
    "init "
    "0.0\n";

static const char normalised[] =
    "program normalised\ninput x: f32[24,16]\ninput r: f32[24,32]\nconstant w: f32[16,32]\n"
    "temp s: f32[24,32]\ntemp t: f32[24,32]\ntemp m: f32[24]\ntemp d: f32[24,32]\n"
    "temp v: f32[24]\noutput y: f32[24,32]\n"
    "block product(i:24, j:32 | k:16): s[i, j] sum= x[i, k]*w[k, j] init 0.0\n"
    "block add(i:24, j:32): t[i, j] = s[i, j] + r[i, j]\n"
    "block mean(i:24 | j:32): m[i] sum= t[i, j] init 0.0\n"
    "block diff(i:24, j:32): d[i, j] = t[i, j] - m[i]\n"
    "block var(i:24 | j:32): v[i] sum= d[i, j]*d[i, j] init 0.0\n"
    "block out(i:24, j:32): y[i, j] = d[i, j]*2.0 + v[i]\n";

/* Sums along rows stand between products, or behind one: in rounds as well, in lanes. */
static void reductions_of_rows_are_computed_in_rounds(void **state) {
    static const struct {
        const char *text, *inside[4];
    } cases[] = {{attention, {"scores", "max", "exp", "sum"}},
                 {normalised, {"product", "mean", "var", "add"}}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(cases); i++) {
        const kiln_program *te = parsed(*state, cases[i].text);
        for (uint32_t threads = 1; threads <= 2; threads++) {
            kiln_target target = small_target(threads);
            kiln_sched s = kiln_sched_begin(te, &target, *state);
            const kiln_sketch_result result = kiln_sketch_stack(&s, 0);
            if (result.end != KILN_SKETCH_MADE) fail_msg("%zu: %s", i, result.reason);
            expect_sound(&s, te);
            const kiln_sched_loop outermost =
                kiln_sched_loop_around(&s, block_of(&s, cases[i].inside[0]), 0);
            for (uint32_t b = 0; b < 4; b++)
                assert_int_equal(
                    kiln_sched_loop_around(&s, block_of(&s, cases[i].inside[b]), 0).var,
                    outermost.var);
        }
        kiln_target target = small_target(1);
        kiln_space space;
        kiln_rand rand;
        kiln_rand_init(&rand, 36);
        expect_ok(kiln_space_create(te, &target, *state, &space));
        assert_string_equal(space.rule, "stack");
        for (uint32_t draw = 0; draw < 4; draw++) {
            kiln_trace trace;
            kiln_program *drawn = NULL;
            expect_ok(kiln_space_sample(&space, &rand, *state, &trace, &drawn));
            expect_ok(same_result(te, drawn, *state));
        }
    }
}

/* 140 keys are two blocks of 70: all that is computed of one stands in the loop over blocks, in
 * rounds of rows, and what combines blocks behind it. */
static const char long_attention[] =
    "program attention\ninput q: f32[2,5,8]\ninput k: f32[2,8,140]\n"
    "input v: f32[2,140,8]\ntemp s: f32[2,5,140]\ntemp t: f32[2,5,140]\n"
    "temp m: f32[2,5]\ntemp e: f32[2,5,140]\ntemp z: f32[2,5]\ntemp r: f32[2,5]\n"
    "temp a: f32[2,5,140]\noutput y: f32[2,5,8]\n"
    "block scores(h:2, i:5, j:140 | c:8): s[h, i, j] sum= q[h, i, c]*k[h, c, j] init 0.0\n"
    "block scaled(h:2, i:5, j:140): t[h, i, j] = select(j <= i*30, s[h, i, j]*0.25, -inf)\n"
    "block max(h:2, i:5 | j:140): m[h, i] max= t[h, i, j] init -inf\n"
    "block exp(h:2, i:5, j:140): e[h, i, j] = exp(t[h, i, j] - m[h, i])\n"
    "block sum(h:2, i:5 | j:140): z[h, i] sum= e[h, i, j] init 0.0\n"
    "block scale(h:2, i:5): r[h, i] = 1.0/z[h, i]\n"
    "block share(h:2, i:5, j:140): a[h, i, j] = e[h, i, j]*r[h, i]\n"
    "block values(h:2, i:5, c:8 | j:140): y[h, i, c] sum= a[h, i, j]*v[h, j, c] init 0.0\n";

static void blocks_of_keys_are_finished_one_after_the_other(void **state) {
    static const char *const inside[] = {"scores.blocks", "scaled.blocks", "max.blocks",
                                         "exp.blocks",    "sum.blocks",    "share.blocks"},
                             *const behind[] = {"values.max", "values.weight", "values.sum"};
    const kiln_algorithm algorithm = KILN_ALGORITHM_KEY_BLOCKS_128;
    const kiln_program *te = parsed(*state, long_attention);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        kiln_target target = small_target(threads);
        kiln_sched s = kiln_sched_begin(te, &target, *state);
        assert_true(kiln_sched_algorithm(&s, algorithm));
        const kiln_sketch_result result = kiln_sketch_stack(&s, 0);
        if (result.end != KILN_SKETCH_MADE) fail_msg("%s", result.reason);
        const kiln_sched_loop round = kiln_sched_loop_around(&s, block_of(&s, "values.blocks"), 0),
                              keys = kiln_sched_loop_around(&s, block_of(&s, "values.blocks"), 1);
        assert_int_equal(kiln_sched_extent(&s, keys), 2);
        for (size_t i = 0; i < KILN_ARRAY_COUNT(inside); i++)
            assert_int_equal(kiln_sched_loop_around(&s, block_of(&s, inside[i]), 1).var, keys.var);
        for (size_t i = 0; i < KILN_ARRAY_COUNT(behind); i++) {
            const kiln_block b = block_of(&s, behind[i]);
            assert_int_equal(kiln_sched_loop_around(&s, b, 0).var, round.var);
            assert_int_not_equal(kiln_sched_loop_around(&s, b, 1).var, keys.var);
        }
        expect_ok(same_result_by(algorithm, te, s.program, *state));
    }
    kiln_target target = small_target(2);
    kiln_space space;
    kiln_rand rand;
    kiln_rand_init(&rand, 49);
    expect_ok(kiln_space_create(te, &target, *state, &space));
    assert_int_equal(space.sketch_count, 2);
    for (uint32_t draw = 0; draw < 8; draw++) {
        kiln_trace trace;
        kiln_program *drawn = NULL;
        expect_ok(kiln_space_sample(&space, &rand, *state, &trace, &drawn));
        expect_ok(same_result_by(algorithm, te, drawn, *state));
    }
}

static void expect_never(kiln_arena *arena, const char *text, const char *reason) {
    kiln_sched s = kiln_sched_begin(parsed(arena, text), &avx2, arena);
    const kiln_sketch_result result = kiln_sketch_stack(&s, 0);
    assert_int_equal(result.end, KILN_SKETCH_NEVER);
    expect_contains(result.reason, reason);
}

static void other_programs_are_for_other_rules(void **state) {
    kiln_sched s = kiln_sched_begin(series_of(*state, "c"), &avx2, *state);
    assert_int_equal(kiln_sketch_stack(&s, 0).end, KILN_SKETCH_NEVER);
    expect_never(*state,
                 "program p\ninput x: f32[1,6,8,16]\ntemp m: f32[1,8,16]\ntemp e: f32[1,6,8,16]\n"
                 "temp s: f32[1,8,16]\noutput y: f32[1,6,8,16]\n"
                 "block max(n:1, h:8, w:16 | c:6): m[n, h, w] max= x[n, c, h, w] init -inf\n"
                 "block exp(n:1, c:6, h:8, w:16): e[n, c, h, w] = exp(x[n, c, h, w] - m[n, h, w])\n"
                 "block sum(n:1, h:8, w:16 | c:6): s[n, h, w] sum= e[n, c, h, w] init 0.0\n"
                 "block out(n:1, c:6, h:8, w:16): y[n, c, h, w] = e[n, c, h, w]/s[n, h, w]\n",
                 "no series of tiles");
    expect_never(*state,
                 "program p\ninput a: f32[8,16]\ninput b: f32[8,16]\nconstant u: f32[16,16]\n"
                 "constant v: f32[16,16]\ntemp s: f32[8,16]\ntemp t: f32[8,16]\noutput y: "
                 "f32[8,16]\n"
                 "block s(i:8, j:16 | k:16): s[i, j] sum= a[i, k]*u[k, j] init 0.0\n"
                 "block t(i:8, j:16 | k:16): t[i, j] sum= b[i, k]*v[k, j] init 0.0\n"
                 "block y(i:8, j:16): y[i, j] = s[i, j] + t[i, j]\n",
                 "no series of tiles");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(each_series_is_right_in_rounds_and_as_a_whole),
        test_with_arena(all_reductions_run_in_rounds_of_rows),
        test_with_arena(defaults_have_these_lines),
        test_with_arena(draws_are_right),
        test_with_arena(reductions_of_rows_are_computed_in_rounds),
        test_with_arena(blocks_of_keys_are_finished_one_after_the_other),
        test_with_arena(other_programs_are_for_other_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
