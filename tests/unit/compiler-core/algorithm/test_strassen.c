/* Seven products of blocks compute what eight do. */
#include <math.h>

#include "base/macros.h"
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/rules/space.h"
#include "tests/support/test.h"
#include "tests/unit/compiler-core/algorithm/support.h"
#include "tests/unit/compiler-core/sched/support.h"

static const kiln_algorithm strassen = KILN_ALGORITHM_STRASSEN;

/* x[m, k] times constant weights [k, n]. */
static kiln_program *product(kiln_arena *arena, int64_t m, int64_t n, int64_t k) {
    kiln_program *te = matmul_program(arena, m, n, k);
    te->buffer.data[kiln_program_find_buffer(te, KILN_STR("w"))].role = KILN_ROLE_CONSTANT;
    return te;
}

static kiln_program *applied(const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = kiln_algorithm_apply(strassen, te, arena);
    assert_non_null(p);
    expect_ok(kiln_program_verify(p));
    return p;
}

/* Small integers: every sum is exact. */
static void expect_same(const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = applied(te, arena);
    kiln_program_make_loops(p);
    expect_ok(same_result(te, p, arena));
}

static void products_of_matrices_are_the_same(void **state) {
    expect_same(product(*state, 32, 200, 200), *state);
    expect_same(product(*state, 34, 130, 512), *state);
}

static void convolutions_with_one_tap_are_the_same(void **state) {
    static const conv_shape shapes[] = {
        {.n = 1, .ic = 200, .h = 4, .w = 9, .oc = 202, .kh = 1, .kw = 1, .stride = 1},
        {.n = 3,
         .ic = 200,
         .h = 3,
         .w = 4,
         .oc = 200,
         .kh = 1,
         .kw = 1,
         .stride = 1,
         .epilogue = true},
        {.n = 1, .ic = 200, .h = 11, .w = 12, .oc = 200, .kh = 1, .kw = 1, .stride = 2},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(shapes); i++)
        expect_same(conv_program(*state, &shapes[i]), *state);
}

static void what_a_sum_begins_with_is_kept(void **state) {
    expect_same(parsed(*state, "program p\ninput x: f32[32,200]\nconstant w: f32[200,200]\n"
                               "output y: f32[32,200]\n"
                               "block m(m:32, n:200 | k:200): y[m, n] sum= x[m, k]*w[k, n] "
                               "init 3.0\n"),
                *state);
}

static void seven_eighths_of_the_products_are_left(void **state) {
    kiln_program *te = product(*state, 64, 256, 256);
    assert_true(kiln_algorithm_executed_flops(strassen, applied(te, *state)) ==
                kiln_program_flops(te) * 7 / 8);
}

static void other_computations_are_left_alone(void **state) {
    static const char *const text[] = {
        /* weights that are computed by another kernel would be added up at each run */
        "program p\ninput x: f32[32,200]\ninput w: f32[200,200]\noutput y: f32[32,200]\n"
        "block m(m:32, n:200 | k:200): y[m, n] sum= x[m, k]*w[k, n] init 0.0\n",
        /* an odd number of rows, of columns, of steps */
        "program p\ninput x: f32[33,200]\nconstant w: f32[200,200]\noutput y: f32[33,200]\n"
        "block m(m:33, n:200 | k:200): y[m, n] sum= x[m, k]*w[k, n] init 0.0\n",
        "program p\ninput x: f32[32,200]\nconstant w: f32[200,201]\noutput y: f32[32,201]\n"
        "block m(m:32, n:201 | k:200): y[m, n] sum= x[m, k]*w[k, n] init 0.0\n",
        "program p\ninput x: f32[32,201]\nconstant w: f32[201,200]\noutput y: f32[32,200]\n"
        "block m(m:32, n:200 | k:201): y[m, n] sum= x[m, k]*w[k, n] init 0.0\n",
        /* few columns, few rows */
        "program p\ninput x: f32[32,200]\nconstant w: f32[200,198]\noutput y: f32[32,198]\n"
        "block m(m:32, n:198 | k:200): y[m, n] sum= x[m, k]*w[k, n] init 0.0\n",
        "program p\ninput x: f32[30,200]\nconstant w: f32[200,200]\noutput y: f32[30,200]\n"
        "block m(m:30, n:200 | k:200): y[m, n] sum= x[m, k]*w[k, n] init 0.0\n",
        /* a maximum is no sum; two taps share data */
        "program p\ninput x: f32[32,200]\nconstant w: f32[200,200]\noutput y: f32[32,200]\n"
        "block m(m:32, n:200 | k:200): y[m, n] max= x[m, k]*w[k, n] init 0.0\n",
        "program p\ninput x: f32[33,200]\nconstant w: f32[2,200,200]\noutput y: f32[32,200]\n"
        "block m(m:32, n:200 | k:200, t:2): y[m, n] sum= x[m + t, k]*w[t, k, n] init 0.0\n",
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
        assert_null(kiln_algorithm_apply(strassen, parsed(*state, text[i]), *state));
}

/* Neither too narrow for what is right, nor so wide that a mistake would pass. */
static void errors_stay_within_the_bound(void **state) {
    kiln_program *te = product(*state, 32, 200, 200), *p = applied(te, *state);
    double worst = 0;
    kiln_program_make_loops(p);
    for (uint64_t seed = 0; seed < 4; seed++)
        worst =
            fmax(worst, error_on_random_data(te, p, seed, seed % 2 ? 0.5 : 0, *state).in_bounds);
    const double factor = kiln_algorithm_error_factor(strassen, te);
    print_message("%.3g of %.3g\n", worst, factor);
    assert_true(worst <= factor && worst > factor / 1000);
}

/* The algorithm of the default schedule. */
static kiln_algorithm preferred(kiln_program *te, bool exact, kiln_arena *arena) {
    const kiln_space_options options = {.accuracy = {.exact = exact}};
    kiln_space space;
    expect_ok(kiln_space_create_with(te, &avx2, &options, arena, &space));
    return kiln_trace_algorithm(&space.sketch[space.preferred].preferred);
}

static void it_is_the_default_for_matrices_of_many_steps(void **state) {
    assert_int_equal(preferred(product(*state, 128, 768, 768), false, *state), strassen);
    assert_int_equal(preferred(product(*state, 128, 768, 768), true, *state),
                     KILN_ALGORITHM_DIRECT);
    assert_int_equal(preferred(product(*state, 128, 768, 256), false, *state),
                     KILN_ALGORITHM_DIRECT);
    const conv_shape image = {
        .n = 1, .ic = 512, .h = 14, .w = 14, .oc = 512, .kh = 1, .kw = 1, .stride = 1};
    assert_int_equal(preferred(conv_program(*state, &image), false, *state), KILN_ALGORITHM_DIRECT);
}

/* Schedules of matrices and of images, in groups of rows and apart. */
static void sketches_keep_the_result(void **state) {
    static const conv_shape image = {.n = 1,
                                     .ic = 176,
                                     .h = 8,
                                     .w = 5,
                                     .oc = 256,
                                     .kh = 1,
                                     .kw = 1,
                                     .stride = 1,
                                     .epilogue = true};
    kiln_program *const te[] = {product(*state, 32, 256, 176), conv_program(*state, &image)};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(te); i++) {
        kiln_space space;
        uint32_t tried = 0;
        expect_ok(kiln_space_create(te[i], &avx2, *state, &space));
        for (uint32_t k = 0; k < space.sketch_count; k++) {
            kiln_program *p = NULL;
            kiln_trace closed;
            if (kiln_trace_algorithm(&space.sketch[k].preferred) != strassen) continue;
            expect_ok(
                kiln_trace_replay(&space.sketch[k].preferred, te[i], NULL, *state, &p, &closed));
            expect_ok(same_result_by(strassen, te[i], p, *state));
            tried++;
        }
        assert_int_equal(tried, 4); /* orders of vectors, with and without groups */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(products_of_matrices_are_the_same),
        test_with_arena(convolutions_with_one_tap_are_the_same),
        test_with_arena(what_a_sum_begins_with_is_kept),
        test_with_arena(seven_eighths_of_the_products_are_left),
        test_with_arena(other_computations_are_left_alone),
        test_with_arena(errors_stay_within_the_bound),
        test_with_arena(it_is_the_default_for_matrices_of_many_steps),
        test_with_arena(sketches_keep_the_result),
    };
    return cmocka_run_group_tests_name("compiler-core/algorithm/strassen", tests, NULL, NULL);
}
