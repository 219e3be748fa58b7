/* Sums whose steps threads share: right in the interpreters, within limits, and one launch. */
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/rules/gpu.h"
#include "compiler-core/rules/space.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/lower/support.h"
#include "tests/unit/compiler-core/rules/support.h"

static const char *const device[] = {"h200", "opencl:some"};

/* Few results of many steps, with extents that do not divide. */
static const char *const program[] = {
    /* steps far apart, results side by side */
    "program columns\ninput x: f32[900]\ninput w: f32[900,70]\noutput y: f32[70]\n"
    "block mul(j:70 | k:900): y[j] sum= x[k] * w[k, j] init 0.0\n",
    "program row\ninput x: f32[1,300]\ninput w: f32[300,45]\ninput b: f32[45]\ntemp s: f32[1,45]\n"
    "output y: f32[1,45]\nblock mul(i:1, j:45 | k:300): s[i, j] sum= x[i, k] * w[k, j] init 0.0\n"
    "block act(i:1, j:45): y[i, j] = max(s[i, j] + b[j], 0.0)\n",
    /* two iterators, the inner one shorter than a warp */
    "program mean\ninput x: f32[1,37,13,13]\ntemp s: f32[1,37]\noutput y: f32[1,37]\n"
    "block sum(n:1, c:37 | h:13, v:13): s[n, c] sum= x[n, c, h, v] init 0.0\n"
    "block scale(n:1, c:37): y[n, c] = s[n, c] * 0.00591716\n",
    /* the result goes on to more elements than it has */
    "program centre\ninput x: f32[5,19,20]\ntemp s: f32[5]\noutput y: f32[5,19,20]\n"
    "block sum(n:5 | h:19, v:20): s[n] sum= x[n, h, v] init 0.0\n"
    "block less(n:5, h:19, v:20): y[n, h, v] = x[n, h, v] - s[n] * 0.0026316\n",
    "program channels\ninput x: f32[2,150,6,7]\noutput y: f32[2,6,7]\n"
    "block most(n:2, h:6, v:7 | c:150): y[n, h, v] max= x[n, c, h, v] init -inf\n",
    /* one result */
    "program all\ninput x: f32[21,50]\noutput y: f32[]\n"
    "block sum( | i:21, j:50): y[] sum= x[i, j] init 0.0\n",
    "program flat\ninput x: f32[3,6,6]\ntemp s: f32[1,1,1]\noutput y: f32[]\n"
    "block sum( | i:3, j:6, k:6): s[0, 0, 0] sum= x[i, j, k] init 0.0\n"
    "block out(): y[] = s[0, 0, 0]\n",
    "program inner\ninput x: f32[70]\ninput z: f32[70]\noutput y: f32[]\n"
    "block sum( | i:70): y[] sum= x[i] * z[i] init 0.0\n",
};

static kiln_space space_of(kiln_arena *arena, const kiln_program *te, const char *target) {
    kiln_target *t = KILN_ARENA_NEW(arena, kiln_target);
    kiln_space space;
    *t = target_of(arena, target);
    expect_ok(kiln_space_create(te, t, arena, &space));
    return space;
}

static int64_t threads_of(const kiln_launch *l) {
    return (int64_t)l->group_size[0] * l->group_size[1] * l->group_size[2];
}

static void steps_are_shared_in_one_launch(void **state) {
    for (size_t d = 0; d < KILN_ARRAY_COUNT(device); d++)
        for (size_t i = 0; i < KILN_ARRAY_COUNT(program); i++) {
            kiln_program *te = parsed(*state, program[i]), *scheduled;
            const kiln_space space = space_of(*state, te, device[d]);
            kiln_trace trace;
            kiln_lowered lowered;
            expect_ok(kiln_space_default(&space, *state, &trace, &scheduled));
            expect_ok(kiln_program_verify(scheduled));
            expect_computes(te, scheduled, i);
            kiln_status st = grid_equals_on(te, scheduled, space.target, i, &lowered);
            if (st) fail_msg("%s on %s: %s", program[i], device[d], kiln_status_text(st));
            assert_int_equal(lowered.run_launches.count, 1);
            const kiln_launch *l = &lowered.run_launches.launch[0];
            assert_true(l->shared_bytes > 0 && l->barrier_count > 0);
            assert_int_equal(threads_of(l) % kiln_gpu_limits_of(space.target).warp, 0);
        }
}

#define DRAWS 12 /* of each program on each device */

static void what_is_drawn_is_right_and_within_limits(void **state) {
    kiln_rand rand;
    kiln_rand_init(&rand, 3);
    for (size_t d = 0; d < KILN_ARRAY_COUNT(device); d++)
        for (size_t i = 0; i < KILN_ARRAY_COUNT(program); i++) {
            kiln_program *te = parsed(*state, program[i]), *scheduled;
            const kiln_space space = space_of(*state, te, device[d]);
            const kiln_gpu_limits limits = kiln_gpu_limits_of(space.target);
            for (uint32_t k = 0; k < DRAWS; k++) {
                kiln_trace trace;
                kiln_lowered lowered;
                kiln_status st =
                    kiln_trace_replay(&space.sketch[0].open, te, &rand, *state, &scheduled, &trace);
                if (!st) st = grid_equals_on(te, scheduled, space.target, k, &lowered);
                if (st) fail_msg("%s on %s: %s", program[i], device[d], kiln_status_text(st));
                for (uint32_t n = 0; n < lowered.run_launches.count; n++) {
                    const kiln_launch *l = &lowered.run_launches.launch[n];
                    assert_true(threads_of(l) <= limits.threads);
                    assert_true((int64_t)l->shared_bytes <= limits.shared_bytes);
                }
            }
        }
}

/* Many results, or few steps: a thread for each result. */
static void sums_that_fill_the_device_are_left_alone(void **state) {
    static const char *const other[] = {
        "program many\ninput x: f32[8,100,200,200]\noutput y: f32[8,200,200]\n"
        "block most(n:8, h:200, v:200 | c:100): y[n, h, v] max= x[n, c, h, v] init -inf\n",
        "program few\ninput x: f32[3,2]\noutput y: f32[]\n"
        "block sum( | i:3, j:2): y[] sum= x[i, j] init 0.0\n",
        /* two iterators index one dimension of the result, by sizes that no tile divides */
        "program groups\ninput x: f32[2,4,6]\ninput w: f32[6,2,3]\ninput b: f32[6]\n"
        "temp s: f32[2,6,4]\noutput y: f32[2,6,4]\n"
        "block conv(n:2, g:2, o:3, h:4 | i:2, r:3): s[n, g*3 + o, h] sum= x[n, g*2 + i, h + r] * "
        "w[g*3 + o, i, r] init 0.0\n"
        "block act(n:2, c:6, h:4): y[n, c, h] = s[n, c, h] + b[c]\n",
        "program short\ninput x: f32[40,4]\noutput y: f32[40]\n"
        "block most(n:40 | c:4): y[n] max= x[n, c] init -inf\n",
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(other); i++) {
        kiln_program *te = parsed(*state, other[i]);
        const kiln_space space = space_of(*state, te, "h200");
        kiln_trace trace;
        kiln_program *scheduled;
        kiln_lowered lowered;
        expect_ok(kiln_space_default(&space, *state, &trace, &scheduled));
        expect_ok(kiln_lower(scheduled, space.target, *state, &lowered));
        assert_int_equal(lowered.run_launches.count, 1);
        assert_int_equal(lowered.run_launches.launch[0].shared_bytes, 0);
        if (i > 0) expect_ok(grid_equals_on(te, scheduled, space.target, i, NULL)); /* small */
    }
}

/* Rows of several dimensions, whose sums have dimensions of extent 1; further results read them. */
static void rows_of_several_dimensions_are_normalised(void **state) {
    static const char text[] =
        "program norm\ninput x: f32[2,3,4,5]\ninput g: f32[3,4,5]\noutput y: f32[2,3,4,5]\n"
        "output mean: f32[2,1,1,1]\noutput scale: f32[2,1,1,1]\n"
        "temp s: f32[2,1,1,1]\ntemp m: f32[2,1,1,1]\ntemp q: f32[2,1,1,1]\n"
        "temp v: f32[2,1,1,1]\n"
        "block s(i:2 | a:3, b:4, c:5): s[i, 0, 0, 0] sum= x[i, a, b, c] init 0.0\n"
        "block m(i:2, j:1, k:1, l:1): m[i, j, k, l] = s[i, 0, 0, 0] / 60.0\n"
        "block q(i:2 | a:3, b:4, c:5): q[i, 0, 0, 0] sum= (x[i, a, b, c] - m[i, 0, 0, 0]) * "
        "(x[i, a, b, c] - m[i, 0, 0, 0]) init 0.0\n"
        "block v(i:2, j:1, k:1, l:1): v[i, j, k, l] = 1.0 / sqrt(q[i, 0, 0, 0] / 60.0 + 0.001)\n"
        "block y(i:2, j:3, k:4, l:5): y[i, j, k, l] = (x[i, j, k, l] - m[i, 0, 0, 0]) * "
        "v[i, 0, 0, 0] * g[j, k, l]\n"
        "block w(i:2, j:1, k:1, l:1): mean[i, j, k, l] = m[i, 0, 0, 0]\n"
        "block z(i:2, j:1, k:1, l:1): scale[i, j, k, l] = v[i, 0, 0, 0]\n";
    for (size_t d = 0; d < KILN_ARRAY_COUNT(device); d++) {
        kiln_program *te = parsed(*state, text), *scheduled;
        const kiln_space space = space_of(*state, te, device[d]);
        kiln_trace trace;
        kiln_lowered lowered;
        expect_ok(kiln_space_default(&space, *state, &trace, &scheduled));
        expect_ok(kiln_program_verify(scheduled));
        expect_computes(te, scheduled, d);
        expect_ok(grid_equals_on(te, scheduled, space.target, d, &lowered));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(steps_are_shared_in_one_launch),
        test_with_arena(what_is_drawn_is_right_and_within_limits),
        test_with_arena(sums_that_fill_the_device_are_left_alone),
        test_with_arena(rows_of_several_dimensions_are_normalised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
