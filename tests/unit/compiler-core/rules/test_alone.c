/* Blocks that stand alone: lanes along what is contiguous, whatever the program. */
#include "base/macros.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/rules/support.h"

static void lanes_are_halved_until_they_are_more_than_half_full(void **state) {
    (void)state;
    assert_int_equal(kiln_sketch_lanes(&avx2, KILN_F32, 100), 8);
    assert_int_equal(kiln_sketch_lanes(&avx2, KILN_F32, 5), 8);
    assert_int_equal(kiln_sketch_lanes(&avx2, KILN_F32, 4), 4);
    assert_int_equal(kiln_sketch_lanes(&avx2, KILN_F32, 1), 1);
    assert_int_equal(kiln_sketch_lanes(&avx2, KILN_I8, 100), 32);
}

static void the_nearest_value_is_the_first_of_equals(void **state) {
    (void)state;
    static const int64_t value[] = {2, 6, 10};
    assert_int_equal(kiln_sketch_nearest(value, 3, 1), 0);
    assert_int_equal(kiln_sketch_nearest(value, 3, 4), 0);
    assert_int_equal(kiln_sketch_nearest(value, 3, 7), 1);
    assert_int_equal(kiln_sketch_nearest(value, 3, 99), 2);
}

static const char transposed[] = "program p\ninput x: f32[40,24]\noutput y: f32[24,40]\n"
                                 "block t(i:24, j:40): y[i, j] = x[j, i]\n";

/* The layout of what is written says which iterator is contiguous. */
static void contiguous_iterators_follow_layouts(void **state) {
    kiln_program *p = parsed(*state, transposed);
    kiln_pattern pattern;
    assert_true(kiln_pattern_of(p, 1, &pattern));
    assert_int_equal(kiln_sketch_contiguous_iter(p, &pattern), 1);
    assert_false(kiln_sketch_reads_contiguously(p, &pattern, 1));
    assert_true(kiln_sketch_reads_contiguously(p, &pattern, 0));
    p->buffer.data[pattern.to.buffer].layout =
        (kiln_layout){3,
                      {{.dim = 0, .divisor = 8},
                       {.dim = 1, .divisor = 1},
                       {.dim = 0, .divisor = 1, .modulus = 8}}};
    assert_int_equal(kiln_sketch_contiguous_iter(p, &pattern), 0);
}

/* Squares of what is written and what is read along. */
static void pointwise_blocks_run_in_lanes(void **state) {
    kiln_program *te = parsed(*state, transposed);
    kiln_sched s = kiln_sched_begin(te, &avx2, *state);
    assert_int_equal(kiln_sketch_any(&s, 0).end, KILN_SKETCH_MADE);
    expect_lines(&s, 0,
                 "split(t.j, -1, 8)\nsplit(t.i, -1, 8)\nreorder(t.i.0, t.j.0, t.i.1, t.j.1)\n"
                 "unroll(t.i.1)\nvectorize(t.j.1)\n");
    expect_sound(&s, te);
}

/* Of halves registers hold sixteen rows. */
static void squares_of_halves_have_sixteen_rows(void **state) {
    kiln_program *te = parsed(*state, "program p\ninput x: bf16[64,32]\noutput y: bf16[32,64]\n"
                                      "block t(i:32, j:64): y[i, j] = x[j, i]\n");
    const kiln_target target = target_of(*state, "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v4");
    kiln_sched s = kiln_sched_begin(te, &target, *state);
    assert_int_equal(kiln_sketch_any(&s, 0).end, KILN_SKETCH_MADE);
    expect_lines(&s, 0,
                 "split(t.j, -1, 16)\nsplit(t.i, -1, 16)\nreorder(t.i.0, t.j.0, t.i.1, t.j.1)\n"
                 "unroll(t.i.1)\nvectorize(t.j.1)\n");
    expect_sound(&s, te);
}

/* No squares: what is read lies apart in steps of two, or is no whole number of vectors. */
static void lanes_are_read_one_by_one_where_there_are_no_squares(void **state) {
    static const char *const text[] = {
        "program p\ninput x: f32[40,48]\noutput y: f32[24,40]\n"
        "block t(i:24, j:40): y[i, j] = x[j, 2*i]\n",
        "program p\ninput x: f32[40,20]\noutput y: f32[20,40]\n"
        "block t(i:20, j:40): y[i, j] = x[j, i]\n",
        "program p\ninput x: f32[36,24]\noutput y: f32[24,36]\n"
        "block t(i:24, j:36): y[i, j] = x[j, i]\n",
        "program p\ninput x: i8[40,32]\noutput y: i8[32,40]\n"
        "block t(i:32, j:40): y[i, j] = x[j, i]\n",
    };
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        kiln_program *te = parsed(*state, text[i]);
        kiln_sched s = kiln_sched_begin(te, &avx2, *state);
        assert_int_equal(kiln_sketch_any(&s, 0).end, KILN_SKETCH_MADE);
        expect_lines(&s, 0,
                     i < 3 ? "split(t.j, -1, 8)\nreorder(t.i, t.j.0, t.j.1)\nvectorize(t.j.1)\n"
                           : "split(t.j, -1, 32)\nreorder(t.i, t.j.0, t.j.1)\nvectorize(t.j.1)\n");
        expect_sound(&s, te);
    }
}

/* Three channels brought side by side: lanes would be masked gathers. */
static void a_few_elements_from_apart_run_one_by_one(void **state) {
    kiln_program *te = parsed(*state, "program p\ninput x: f32[3,20]\noutput y: f32[20,3]\n"
                                      "block t(c:3, i:20): y[i, c] = x[c, i]\n");
    kiln_sched s = kiln_sched_begin(te, &avx2, *state);
    assert_int_equal(kiln_sketch_any(&s, 0).end, KILN_SKETCH_MADE);
    expect_lines(&s, 0, "reorder(t.i, t.c)\nunroll(t.c)\n");
    expect_sound(&s, te);
}

/* Lanes of a sum are several results, next to one another; a sum to one result has none. */
static void sums_run_in_lanes_only_along_contiguous_results(void **state) {
    kiln_program *te = parsed(*state, "program p\ninput x: f32[9,40]\noutput y: f32[40]\n"
                                      "output z: f32[9]\n"
                                      "block y(j:40 | i:9): y[j] sum= x[i, j] init 0.0\n"
                                      "block z(i:9 | j:40): z[i] sum= x[i, j] init 0.0\n");
    kiln_sched s = kiln_sched_begin(te, &avx2, *state);
    kiln_sketch_finish(&s);
    expect_lines(&s, 0, "split(y.j, -1, 8)\nreorder(y.j.0, y.i, y.j.1)\nvectorize(y.j.1)\n");
    expect_sound(&s, te);
}

/* What was touched already, or runs once before any measurement, is left as it is. */
static void only_untouched_blocks_are_finished(void **state) {
    kiln_program *te = parsed(*state, "program p\ninput x: f32[40]\nconstant w: f32[40]\n"
                                      "temp v: f32[40]\noutput y: f32[40]\noutput z: f32[40]\n"
                                      "block once(i:40): v[i] = w[i]*2.0\n"
                                      "block touched(i:40): y[i] = x[i] + v[i]\n"
                                      "block free(i:40): z[i] = x[i]\n");
    kiln_sched s = kiln_sched_begin(te, &avx2, *state);
    assert_true(kiln_sched_unroll(&s, kiln_sched_loop_of(&s, 2, 0)));
    kiln_sketch_finish(&s);
    expect_lines(&s, 1,
                 "split(free.i, -1, 8)\nreorder(free.i.0, free.i.1)\n"
                 "vectorize(free.i.1)\n");
    expect_sound(&s, te);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(lanes_are_halved_until_they_are_more_than_half_full),
        test_with_arena(the_nearest_value_is_the_first_of_equals),
        test_with_arena(contiguous_iterators_follow_layouts),
        test_with_arena(pointwise_blocks_run_in_lanes),
        test_with_arena(squares_of_halves_have_sixteen_rows),
        test_with_arena(lanes_are_read_one_by_one_where_there_are_no_squares),
        test_with_arena(a_few_elements_from_apart_run_one_by_one),
        test_with_arena(sums_run_in_lanes_only_along_contiguous_results),
        test_with_arena(only_untouched_blocks_are_finished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
