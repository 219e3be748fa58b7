/* Rules for blocks that pick among cases, and the spaces of algorithms made of them. */
#include <string.h>

#include "base/macros.h"
#include "compiler-core/rules/rules.h"
#include "compiler-core/rules/space.h"
#include "tests/unit/compiler-core/sched/support.h"

static void cases_are_iterators_compared_with_constants(void **state) {
    kiln_program *p = parsed(
        *state, "program p\ninput x: f32[4,64]\noutput y: f32[4,64]\noutput z: f32[4,64]\n"
                "block two(p:4, c:64): y[p, c] = select(p == 0, x[0, c], x[1, c])\n"
                "block rest(i:4, c:64): z[i, c] = select(floormod(i, 2) == 1, x[i, c], 0.0)\n");
    kiln_picks picks;
    assert_true(kiln_sketch_picks(p, 1, &picks));
    assert_int_equal(picks.iters, 1);
    assert_int_equal(picks.by[0], 0);
    assert_true(kiln_sketch_picks(p, 2, &picks));
    assert_int_equal(picks.iters, 1);
    assert_int_equal(picks.by[0], 2);
}

/* A long iterator would be unrolled into too much code, and a sum has an order to keep. */
static void other_blocks_do_not_pick(void **state) {
    kiln_program *p = parsed(
        *state, "program p\ninput x: f32[64,64]\noutput y: f32[64,64]\noutput z: f32[4]\n"
                "output u: f32[64,64]\n"
                "block long(i:64, c:64): y[i, c] = select(i == 0, x[0, c], x[1, c])\n"
                "block sum(i:4 | k:64): z[i] sum= select(i == 0, x[0, k], x[1, k]) init 0.0\n"
                "block less(i:64, c:64): u[i, c] = select(i < 2, x[0, c], x[1, c])\n");
    for (kiln_block b = 1; b <= 3; b++) assert_false(kiln_sketch_picks(p, b, NULL));
}

static bool has_line(const kiln_trace *trace, const char *line) {
    kiln_strbuf text = {0};
    kiln_trace_print(trace, &text);
    bool has = strstr(text.data, line) != NULL;
    kiln_strbuf_deinit(&text);
    return has;
}

/* Lanes along what all operands have in common, cases unrolled around them. */
static void transforms_are_unrolled_around_lanes(void **state) {
    kiln_program *p = parsed(
        *state, "program p\ninput x: f32[4,3,64]\noutput y: f32[4,3,64]\n"
                "block y(p:4, i:3, c:64): y[p, i, c] = select(p == 0, x[0, i, c] - x[2, i, c], "
                "select(p == 1, x[1, i, c] + x[2, i, c], x[3, i, c]))\n");
    kiln_space space;
    expect_ok(kiln_space_create(p, &avx2, *state, &space));
    assert_true(has_line(&space.sketch[0].preferred, "reorder(y.i, y.c.0, y.p, y.c.1)\n"));
    assert_true(has_line(&space.sketch[0].preferred, "vectorize(y.c.1)\nunroll(y.p)\n"));
    kiln_trace trace;
    kiln_program *scheduled = NULL;
    expect_ok(kiln_space_default(&space, *state, &trace, &scheduled));
    expect_ok(same_result(p, scheduled, *state));
}

/* A bias along the lanes is read as a vector; weights that lie across them would be gathered. */
static void constants_along_the_lanes_are_vectors(void **state) {
    kiln_program *along =
        parsed(*state, "program p\ninput x: f32[4,64]\nconstant b: f32[64]\noutput y: f32[4,64]\n"
                       "block y(p:4, c:64): y[p, c] = select(p == 0, x[0, c], x[1, c]) + b[c]\n");
    kiln_program *across = parsed(
        *state, "program p\ninput x: f32[4,64]\nconstant w: f32[64,2]\noutput y: f32[4,64]\n"
                "block y(p:4, c:64): y[p, c] = select(p == 0, x[0, c]*w[c, 0], x[1, c]*w[c, 1])\n");
    kiln_space space;
    expect_ok(kiln_space_create(along, &avx2, *state, &space));
    assert_true(has_line(&space.sketch[0].preferred, "vectorize(y.c.1)\n"));
    expect_ok(kiln_space_create(across, &avx2, *state, &space));
    assert_false(has_line(&space.sketch[0].preferred, "vectorize("));
}

/* Convolutions whose rows are even and odd, small and with an epilogue. */
static const conv_shape shapes[] = {
    {.n = 1, .ic = 16, .h = 8, .w = 8, .oc = 16, .kh = 3, .kw = 3, .stride = 1, .padding = 1},
    {.n = 2,
     .ic = 12,
     .h = 7,
     .w = 9,
     .oc = 20,
     .kh = 3,
     .kw = 3,
     .stride = 1,
     .padding = 1,
     .epilogue = true},
    {.n = 1, .ic = 8, .h = 5, .w = 4, .oc = 8, .kh = 3, .kw = 3, .stride = 1},
};

static void spaces_hold_the_algorithms_that_apply_and_begin_with_the_direct_form(void **state) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(shapes); i++) {
        kiln_program *te = conv_program(*state, &shapes[i]);
        kiln_space space;
        expect_ok(kiln_space_create(te, &avx2, *state, &space));
        assert_int_equal(kiln_trace_algorithm(&space.sketch[0].preferred), KILN_ALGORITHM_DIRECT);
        uint32_t winograd = 0;
        for (uint32_t s = 0; s < space.sketch_count; s++)
            winograd +=
                kiln_trace_algorithm(&space.sketch[s].open) == KILN_ALGORITHM_WINOGRAD_2X2_3X3;
        assert_in_range(winograd, 1, space.sketch_count - 1);
    }
    kiln_space space;
    expect_ok(kiln_space_create(matmul_program(*state, 16, 16, 16), &avx2, *state, &space));
    for (uint32_t s = 0; s < space.sketch_count; s++)
        assert_int_equal(kiln_trace_algorithm(&space.sketch[s].open), KILN_ALGORITHM_DIRECT);
}

static void schedules_of_every_algorithm_compute_the_task(void **state) {
    kiln_rand rand;
    kiln_rand_init(&rand, 3);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(shapes); i++) {
        kiln_program *te = conv_program(*state, &shapes[i]), *scheduled = NULL;
        kiln_space space;
        expect_ok(kiln_space_create(te, &avx2, *state, &space));
        for (uint32_t s = 0; s < space.sketch_count; s++) {
            const kiln_algorithm algorithm = kiln_trace_algorithm(&space.sketch[s].open);
            if (algorithm == KILN_ALGORITHM_DIRECT) continue;
            expect_ok(
                kiln_trace_replay(&space.sketch[s].preferred, te, NULL, *state, &scheduled, NULL));
            expect_ok(same_result_by(algorithm, te, scheduled, *state));
            kiln_trace closed;
            kiln_status st =
                kiln_trace_replay(&space.sketch[s].open, te, &rand, *state, &scheduled, &closed);
            if (kiln_status_code(st) == KILN_ILLEGAL_SCHEDULE)
                kiln_status_free(st); /* a draw may be */
            else
                expect_ok(st ? st : same_result_by(algorithm, te, scheduled, *state));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(cases_are_iterators_compared_with_constants),
        test_with_arena(other_blocks_do_not_pick),
        test_with_arena(transforms_are_unrolled_around_lanes),
        test_with_arena(constants_along_the_lanes_are_vectors),
        test_with_arena(spaces_hold_the_algorithms_that_apply_and_begin_with_the_direct_form),
        test_with_arena(schedules_of_every_algorithm_compute_the_task),
    };
    return cmocka_run_group_tests_name("compiler-core/rules/transform", tests, NULL, NULL);
}
