/* The rules for GPUs: what they make is right, within the limits of the target, and the same
 * whatever things are called. */
#include <string.h>

#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/rules/gpu.h"
#include "compiler-core/rules/space.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/lower/support.h"
#include "tests/unit/compiler-core/rules/support.h"

static const char *const device[] = {"h200", "a100", "opencl:some"};

/* One of each pattern, with extents that do not divide. */
static const char *const program[] = {
    "program product\ninput x: f32[48,40]\ninput w: f32[40,36]\noutput y: f32[48,36]\n"
    "block mul(i:48, j:36 | k:40): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n",
    "program batched\ninput x: f32[3,17,24]\ninput w: f32[3,19,24]\noutput y: f32[3,17,19]\n"
    "block mul(n:3, i:17, j:19 | k:24): y[n, i, j] sum= x[n, i, k] * w[n, j, k] init 0.0\n",
    "program convolution\ninput x: f32[2,8,11,11]\nconstant w: f32[12,8,3,3]\nconstant b: f32[12]\n"
    "temp p: f32[2,8,13,13]\ntemp s: f32[2,12,11,11]\noutput y: f32[2,12,11,11]\n"
    "block around(n:2, c:8, h:13, v:13): p[n, c, h, v] = select(and(and(1 <= h, h < 12), "
    "and(1 <= v, v < 12)), x[n, c, h - 1, v - 1], 0.0)\n"
    "block conv(n:2, o:12, h:11, v:11 | i:8, r:3, q:3): s[n, o, h, v] sum= p[n, i, h + r, v + q] * "
    "w[o, i, r, q] init 0.0\n"
    "block relu(n:2, o:12, h:11, v:11): y[n, o, h, v] = max(s[n, o, h, v] + b[o], 0.0)\n",
    "program strides\ninput x: f32[1,6,15,15]\nconstant w: f32[8,6,3,3]\noutput y: f32[1,8,7,7]\n"
    "block conv(n:1, o:8, h:7, v:7 | i:6, r:3, q:3): y[n, o, h, v] sum= x[n, i, 2*h + r, 2*v + q] "
    "* w[o, i, r, q] init 0.0\n",
    "program depthwise\ninput x: f32[1,6,12,12]\nconstant w: f32[6,3,3]\noutput y: f32[1,6,10,10]\n"
    "block conv(n:1, c:6, h:10, v:10 | r:3, q:3): y[n, c, h, v] sum= x[n, c, h + r, v + q] * "
    "w[c, r, q] init 0.0\n",
    "program pooling\ninput x: f32[1,5,9,9]\noutput y: f32[1,5,4,4]\n"
    "block pool(n:1, c:5, h:4, v:4 | r:3, q:3): y[n, c, h, v] max= x[n, c, 2*h + r, 2*v + q] init "
    "-inf\n",
    "program softmax\ninput x: f32[7,83]\ntemp m: f32[7]\ntemp e: f32[7,83]\ntemp s: f32[7]\n"
    "output y: f32[7,83]\nblock m(i:7 | r:83): m[i] max= x[i, r] init -inf\n"
    "block e(i:7, j:83): e[i, j] = exp(x[i, j] - m[i])\n"
    "block s(i:7 | r:83): s[i] sum= e[i, r] init 0.0\n"
    "block y(i:7, j:83): y[i, j] = e[i, j] / s[i]\n",
    "program norm\ninput x: f32[5,64]\nconstant g: f32[64]\ntemp s: f32[5]\ntemp v: f32[5]\n"
    "output y: f32[5,64]\nblock s(i:5 | r:64): s[i] sum= x[i, r] init 0.0\n"
    "block v(i:5 | r:64): v[i] sum= (x[i, r] - s[i] / 64.0) * (x[i, r] - s[i] / 64.0) init 0.0\n"
    "block y(i:5, j:64): y[i, j] = (x[i, j] - s[i] / 64.0) * (1.0 / sqrt(v[i] + 0.001)) * g[j]\n",
    "program vector\ninput x: f32[96]\nconstant w: f32[10,96]\noutput y: f32[10]\n"
    "block mul(i:10 | k:96): y[i] sum= w[i, k] * x[k] init 0.0\n",
    "program chain\ninput x: f32[9,28]\ninput z: f32[9,28]\noutput y: f32[9,28]\n"
    "block a(i:9, j:28): y[i, j] = max(x[i, j] + z[i, j], 0.0) * 0.5\n",
    "program turned\ninput x: f32[30,14]\noutput y: f32[14,30]\n"
    "block t(i:14, j:30): y[i, j] = x[j, i]\n",
    "program pair\ninput x: f32[12,20]\ninput w: f32[20,16]\ninput u: f32[16,24]\n"
    "temp h: f32[12,16]\ntemp r: f32[12,16]\noutput y: f32[12,24]\n"
    "block one(i:12, j:16 | k:20): h[i, j] sum= x[i, k] * w[k, j] init 0.0\n"
    "block act(i:12, j:16): r[i, j] = tanh(h[i, j])\n"
    "block two(i:12, j:24 | k:16): y[i, j] sum= r[i, k] * u[k, j] init 0.0\n",
    "program halves\ninput x: f16[40,48]\nconstant w: f16[36,48]\nconstant b: f32[36]\n"
    "temp s: f32[40,36]\noutput y: f16[40,36]\n"
    "block mul(i:40, j:36 | k:48): s[i, j] sum= f32(x[i, k]) * f32(w[j, k]) init 0.0\n"
    "block relu(i:40, j:36): y[i, j] = f16(max(s[i, j] + b[j], 0.0))\n",
};

static kiln_space space_of(kiln_arena *arena, const kiln_program *te, const char *target) {
    static const kiln_space_options options = {.keeps_refused = true};
    kiln_target *t = KILN_ARENA_NEW(arena, kiln_target);
    kiln_space space;
    *t = target_of(arena, target);
    expect_ok(kiln_space_create_with(te, t, &options, arena, &space));
    return space;
}

/* Threads in whole warps and within the limits, on top of what lowering refuses. */
static void expect_within(const kiln_space *space, const kiln_launches *launches, bool in_warps) {
    const kiln_gpu_limits l = kiln_gpu_limits_of(space->target);
    for (uint32_t i = 0; i < launches->count; i++) {
        const kiln_launch *at = &launches->launch[i];
        const int64_t threads = (int64_t)at->group_size[0] * at->group_size[1] * at->group_size[2];
        assert_true(threads <= l.threads);
        assert_true((int64_t)at->shared_bytes <= l.shared_bytes);
        /* Sums are in registers, never in memory; what a thread keeps of a row may be. */
        if (at->local_bytes && strcmp(space->rule, "rows") != 0)
            fail_msg("%.*s on %.*s: launch %u has memory of each thread",
                     KILN_STR_ARG(space->te->name), KILN_STR_ARG(space->target->triple), i);
        assert_true(!in_warps || threads == 1 || threads % l.warp == 0);
    }
}

/* ---- what is made ---------------------------------------------------------------------------- */

static void expect_default_is_right(kiln_arena *arena, size_t i, const char *on, bool in_warps) {
    kiln_program *te = parsed(arena, program[i]);
    const kiln_space space = space_of(arena, te, on);
    kiln_trace trace;
    kiln_program *scheduled;
    kiln_lowered lowered;
    expect_ok(kiln_space_default(&space, arena, &trace, &scheduled));
    expect_ok(kiln_program_verify(scheduled));
    expect_computes(te, scheduled, i);
    kiln_status st = grid_equals_on(te, scheduled, space.target, i, &lowered);
    if (st) fail_msg("%s on %s: %s", program[i], on, kiln_status_text(st));
    expect_within(&space, &lowered.run_launches, in_warps);
}

static void defaults_are_right_on_every_target(void **state) {
    for (size_t d = 0; d < KILN_ARRAY_COUNT(device); d++)
        for (size_t i = 0; i < KILN_ARRAY_COUNT(program); i++)
            expect_default_is_right(*state, i, device[d], true);
}

/* Results are distributed to as many threads as a group has. */
static void groups_below_a_warp_have_schedules(void **state) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(program); i++) {
        expect_default_is_right(*state, i, "opencl:some,group=16", false);
        expect_default_is_right(*state, i, "opencl:some,group=1,shared=1", false);
    }
}

/* Also of groups whose most threads are no whole warps. */
static void groups_that_are_no_whole_warps_have_schedules(void **state) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(program); i++)
        expect_default_is_right(*state, i, "opencl:some,group=100,shared=64", true);
}

static void each_pattern_has_its_rule(void **state) {
    static const char *const rule[] = {"tile",   "tile", "tile", "tile", "spread",
                                       "spread", "rows", "rows", "rows", "spread",
                                       "spread", "tile", "warp"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(program); i++)
        assert_string_equal(space_of(*state, parsed(*state, program[i]), "h200").rule, rule[i]);
}

/* All but the results of a tile stay where the threads of a group are: one launch. */
static void what_belongs_together_is_one_launch(void **state) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(program); i++) {
        const kiln_space space = space_of(*state, parsed(*state, program[i]), "h200");
        kiln_trace trace;
        kiln_program *scheduled;
        kiln_lowered lowered;
        expect_ok(kiln_space_default(&space, *state, &trace, &scheduled));
        expect_ok(kiln_lower(scheduled, space.target, *state, &lowered));
        assert_int_equal(lowered.run_launches.count, strstr(program[i], "program pair") ? 2 : 1);
    }
}

/* A dimension of 0: nothing to compute, or sums of nothing, which are what they begin with. */
static void results_without_elements_are_made(void **state) {
    static const char *const empty[] = {
        "program chain\ninput x: f32[0,28]\noutput y: f32[0,28]\n"
        "block a(i:0, j:28): y[i, j] = x[i, j] * 0.5\n",
        "program chain\ninput x: f32[0]\noutput y: f32[0]\nblock a(i:0): y[i] = x[i] * 0.5\n",
        "program product\ninput x: f32[48,40]\ninput w: f32[40,0]\noutput y: f32[48,0]\n"
        "block mul(i:48, j:0 | k:40): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n",
        "program product\ninput x: f32[48,0]\ninput w: f32[0,36]\noutput y: f32[48,36]\n"
        "block mul(i:48, j:36 | k:0): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n",
        "program softmax\ninput x: f32[0,83]\ntemp m: f32[0]\noutput y: f32[0,83]\n"
        "block m(i:0 | r:83): m[i] max= x[i, r] init -inf\n"
        "block y(i:0, j:83): y[i, j] = exp(x[i, j] - m[i])\n",
        "program rows\ninput x: f32[7,0]\noutput y: f32[7]\n"
        "block m(i:7 | r:0): y[i] max= x[i, r] init -inf\n",
    };
    static const char *const target[] = {"h200", "opencl:some", "null", "opencl,emulated"};
    for (size_t d = 0; d < KILN_ARRAY_COUNT(target); d++)
        for (size_t i = 0; i < KILN_ARRAY_COUNT(empty); i++) {
            kiln_program *te = parsed(*state, empty[i]);
            const kiln_space space = space_of(*state, te, target[d]);
            kiln_trace trace;
            kiln_program *scheduled;
            kiln_lowered lowered;
            expect_ok(kiln_space_default(&space, *state, &trace, &scheduled));
            expect_computes(te, scheduled, i);
            kiln_status st = grid_equals_on(te, scheduled, space.target, i, &lowered);
            if (st) fail_msg("%s on %s: %s", empty[i], target[d], kiln_status_text(st));
            assert_int_equal(lowered.run_launches.count, 1);
            for (uint32_t k = 0; k < KILN_LAUNCH_DIMS; k++)
                assert_true(lowered.run_launches.launch[0].grid_size[k] > 0 &&
                            lowered.run_launches.launch[0].group_size[k] > 0);
        }
}

/* ---- what is drawn --------------------------------------------------------------------------- */

#define DRAWS 1000 /* of all programs and targets together */

static void nothing_is_drawn_that_a_limit_forbids(void **state) {
    kiln_rand rand;
    kiln_rand_init(&rand, 7);
    kiln_arena scratch;
    kiln_arena_init(&scratch, (size_t)1 << 20);
    const uint32_t each =
        DRAWS / (uint32_t)(KILN_ARRAY_COUNT(device) * KILN_ARRAY_COUNT(program)) + 1;
    for (size_t d = 0; d < KILN_ARRAY_COUNT(device); d++)
        for (size_t i = 0; i < KILN_ARRAY_COUNT(program); i++) {
            kiln_program *te = parsed(*state, program[i]);
            const kiln_space space = space_of(*state, te, device[d]);
            for (uint32_t k = 0; k < each; k++) {
                kiln_program *scheduled;
                kiln_trace closed;
                kiln_lowered lowered;
                const kiln_sketch *sketch =
                    &space.sketch[kiln_rand_below(&rand, space.sketch_count)];
                kiln_status st =
                    kiln_trace_replay(&sketch->open, te, &rand, &scratch, &scheduled, &closed);
                if (!st) st = kiln_lower(scheduled, space.target, &scratch, &lowered);
                if (st) fail_msg("%s on %s: %s", program[i], device[d], kiln_status_text(st));
                expect_within(&space, &lowered.run_launches, true);
                kiln_arena_reset(&scratch);
            }
        }
    kiln_arena_deinit(&scratch);
}

/* A few of them, run: lowered as well as scheduled. */
static void what_is_drawn_is_right(void **state) {
    kiln_rand rand;
    kiln_rand_init(&rand, 11);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(program); i++) {
        kiln_program *te = parsed(*state, program[i]);
        for (uint32_t k = 0; k < 4; k++) {
            const kiln_space space = space_of(*state, te, k % 2 ? "h200" : "opencl:some");
            kiln_trace trace;
            kiln_program *scheduled;
            expect_ok(kiln_space_sample(&space, &rand, *state, &trace, &scheduled));
            const kiln_algorithm algorithm = kiln_trace_algorithm(&trace);
            if (algorithm != KILN_ALGORITHM_DIRECT) { /* with an error of its own */
                expect_ok(same_result_by(algorithm, te, scheduled, *state));
                continue;
            }
            expect_computes(te, scheduled, k);
            expect_ok(grid_equals_on(te, scheduled, space.target, k, NULL));
        }
    }
}

/* Of 64 drawn tiles some have each number of stages that the target can have, parts of a thread
 * that lie apart, rows that lie apart, and less straight code. */
static void every_choice_of_a_tile_is_drawn(void **state) {
    static const char *const h200[] = {"@pipeline(\"2\")",
                                       "@pipeline(\"3\")",
                                       "@pipeline(\"4\")",
                                       "vthread mul.j.1 in 2",
                                       "d0+4)",
                                       "unroll mul.k.1.1 in 4",
                                       "unroll mul.k.1.1 in 2",
                                       NULL},
                             *const opencl[] = {"@pipeline(\"2\")", "vthread mul.j.1 in 2", "d0+4)",
                                                NULL};
    static const char text[] =
        "program product\ninput x: f32[512,256]\ninput w: f32[256,512]\noutput y: f32[512,512]\n"
        "block mul(i:512, j:512 | k:256): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n";
    for (int d = 0; d < 2; d++) {
        kiln_program *te = parsed(*state, text);
        const kiln_space space = space_of(*state, te, d ? "opencl:some" : "h200");
        kiln_strbuf all = {0};
        kiln_rand rand;
        kiln_rand_init(&rand, 3);
        for (uint32_t k = 0; k < 64; k++) {
            kiln_program *scheduled;
            kiln_trace closed;
            expect_ok(
                kiln_trace_replay(&space.sketch[0].open, te, &rand, *state, &scheduled, &closed));
            kiln_program_print(scheduled, &all);
        }
        for (const char *const *word = d ? opencl : h200; *word; word++)
            if (!strstr(all.data, *word)) fail_msg("no %s in what is drawn", *word);
        if (d) assert_null(strstr(all.data, "@pipeline(\"3\")"));
        kiln_strbuf_deinit(&all);
    }
}

/* ---- what is not made ------------------------------------------------------------------------ */

static const char *refusals_of(const kiln_space *space, kiln_arena *arena) {
    kiln_strbuf text = {0};
    kiln_space_print_refused(space, &text);
    const char *copy = kiln_str_dup(arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

static void an_empty_space_names_the_limit(void **state) {
    kiln_program *te = parsed(*state, program[0]);
    kiln_space space = space_of(*state, te, "opencl:some,shared=64");
    assert_string_equal(space.rule, "spread");
    expect_contains(refusals_of(&space, *state), "no tile keeps to the shared bytes of a group");
    expect_contains(refusals_of(&space, *state), "exceed 64 shared bytes");
    space = space_of(*state, te, "opencl:some,group=16");
    expect_contains(refusals_of(&space, *state), "no tile keeps to the threads of a group");
    space = space_of(*state, parsed(*state, program[6]), "opencl:some,group=16");
    expect_contains(refusals_of(&space, *state), "it runs 16 threads, a warp has 32");
}

/* Copies `text` with each `from` replaced. */
static char *renamed(kiln_arena *arena, const char *text, const char *from, const char *to) {
    kiln_strbuf out = {0};
    const size_t size = strlen(from);
    for (const char *at = text; *at;) {
        if (strncmp(at, from, size) == 0) {
            kiln_strbuf_text(&out, to);
            at += size;
        } else {
            kiln_strbuf_char(&out, *at++);
        }
    }
    char *copy = kiln_str_dup(arena, kiln_strbuf_view(&out));
    kiln_strbuf_deinit(&out);
    return copy;
}

static void names_make_no_difference(void **state) {
    static const char *const name[][2] = {
        {"conv", "zork"}, {"around", "qqq"}, {"relu", "blip"}, {"mul", "fold"}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(program); i++) {
        const char *other = program[i];
        kiln_strbuf one = {0}, two = {0};
        kiln_space space = space_of(*state, parsed(*state, program[i]), "h200");
        kiln_space_print(&space, &one);
        const char *wanted = kiln_str_dup(*state, kiln_strbuf_view(&one));
        for (size_t k = 0; k < KILN_ARRAY_COUNT(name); k++) {
            other = renamed(*state, other, name[k][0], name[k][1]);
            wanted = renamed(*state, wanted, name[k][0], name[k][1]);
        }
        space = space_of(*state, parsed(*state, other), "h200");
        kiln_space_print(&space, &two);
        assert_string_equal(two.data, wanted);
        kiln_strbuf_deinit(&one);
        kiln_strbuf_deinit(&two);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(defaults_are_right_on_every_target),
        test_with_arena(groups_below_a_warp_have_schedules),
        test_with_arena(groups_that_are_no_whole_warps_have_schedules),
        test_with_arena(each_pattern_has_its_rule),
        test_with_arena(what_belongs_together_is_one_launch),
        test_with_arena(results_without_elements_are_made),
        test_with_arena(nothing_is_drawn_that_a_limit_forbids),
        test_with_arena(what_is_drawn_is_right),
        test_with_arena(every_choice_of_a_tile_is_drawn),
        test_with_arena(an_empty_space_names_the_limit),
        test_with_arena(names_make_no_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
