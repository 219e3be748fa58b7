/* Sums of products whose weights are multiples of a step per channel. */
#include <math.h>

#include "base/macros.h"
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/facts/prepare.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/rules/space.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"
#include "tests/unit/compiler-core/algorithm/support.h"
#include "tests/unit/compiler-core/sched/support.h"

static const kiln_algorithm fixed = KILN_ALGORITHM_FIXED_WEIGHTS;

/* x[m, k] times constant weights [k, n]. */
static kiln_program *product(kiln_arena *arena, int64_t m, int64_t n, int64_t k) {
    kiln_program *te = matmul_program(arena, m, n, k);
    for (kiln_buffer b = 1; b < te->buffer.count; b++)
        if (kiln_str_is(te->buffer.data[b].name, "w")) te->buffer.data[b].role = KILN_ROLE_CONSTANT;
    return te;
}

static void weights_become_16_bits_and_a_step_each(void **state) {
    const kiln_program *te = product(*state, 2, 24, 100);
    kiln_program *p = kiln_algorithm_apply(fixed, te, *state);
    uint32_t multiples = 0, steps = 0;
    expect_ok(kiln_program_verify(p));
    for (kiln_buffer b = 1; b < p->buffer.count; b++) {
        const kiln_buffer_info *info = &p->buffer.data[b];
        multiples += info->dtype == KILN_I16 && kiln_shape_count(&info->shape) == 2400;
        steps += info->role == KILN_ROLE_TEMP && info->shape.rank == 1 && info->shape.dim[0] == 24;
    }
    assert_int_equal(multiples, 1);
    assert_int_equal(steps, 1);
    assert_int_equal(p->block.count, te->block.count + 3);
}

static void every_sum_of_the_task_has_its_own(void **state) {
    const kiln_program *te =
        parsed(*state, "program two\ninput x: f32[1,64]\ninput h: f32[1,64]\n"
                       "constant w: f32[64,8]\nconstant r: f32[64,8]\n"
                       "temp a: f32[1,8]\ntemp b: f32[1,8]\noutput y: f32[1,8]\n"
                       "block a(m:1, n:8 | k:64): a[m, n] sum= x[m, k]*w[k, n] init 0.0\n"
                       "block b(m:1, n:8 | k:64): b[m, n] sum= h[m, k]*r[k, n] init 1.0\n"
                       "block y(m:1, n:8): y[m, n] = a[m, n] + b[m, n]\n");
    kiln_program *p = kiln_algorithm_apply(fixed, te, *state);
    expect_ok(kiln_program_verify(p));
    assert_int_equal(p->block.count, te->block.count + 6);
    kiln_program_make_loops(p);
    assert_true(error_on_random_data(te, p, 1, 0, *state).relative <=
                kiln_algorithm_relative_error(fixed));
}

static void other_computations_are_left_alone(void **state) {
    static const char *const text[] = {
        /* weights that are computed by another kernel would be rounded at each run */
        "program p\ninput x: f32[1,64]\ninput w: f32[64,8]\noutput y: f32[1,8]\n"
        "block m(m:1, n:8 | k:64): y[m, n] sum= x[m, k]*w[k, n] init 0.0\n",
        /* each weight is read for 64 outputs */
        "program p\ninput x: f32[64,64]\nconstant w: f32[64,8]\noutput y: f32[64,8]\n"
        "block m(m:64, n:8 | k:64): y[m, n] sum= x[m, k]*w[k, n] init 0.0\n",
        /* few products: nothing bounds the error by the magnitudes of the products */
        "program p\ninput x: f32[1,63]\nconstant w: f32[63,8]\noutput y: f32[1,8]\n"
        "block m(m:1, n:8 | k:63): y[m, n] sum= x[m, k]*w[k, n] init 0.0\n",
        /* a maximum is no sum */
        "program p\ninput x: f32[1,64]\nconstant w: f32[64,8]\noutput y: f32[1,8]\n"
        "block m(m:1, n:8 | k:64): y[m, n] max= x[m, k]*w[k, n] init 0.0\n",
        /* a part of the weights */
        "program p\ninput x: f32[1,64]\nconstant w: f32[64,16]\noutput y: f32[1,8]\n"
        "block m(m:1, n:8 | k:64): y[m, n] sum= x[m, k]*w[k, n] init 0.0\n",
        /* not by rows and columns */
        "program p\ninput x: f32[1,64]\nconstant w: f32[80]\noutput y: f32[1,8]\n"
        "block m(m:1, n:8 | k:64): y[m, n] sum= x[m, k]*w[k + n] init 0.0\n",
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
        assert_null(kiln_algorithm_apply(fixed, parsed(*state, text[i]), *state));
}

/* Neither too narrow for what is right, nor so wide that a sum with a product too many would pass.
 */
static void errors_stay_within_the_bound(void **state) {
    static const int64_t products[] = {64, 300, 1000};
    for (size_t k = 0; k < KILN_ARRAY_COUNT(products); k++) {
        kiln_program *te = product(*state, 1, 24, products[k]);
        kiln_program *p = kiln_algorithm_apply(fixed, te, *state);
        assert_non_null(p);
        kiln_program_make_loops(p);
        const double factor = kiln_algorithm_error_factor(fixed, te);
        double worst = 0;
        for (uint64_t seed = 0; seed < 8; seed++)
            worst = fmax(worst, error_on_random_data(te, p, seed, 0, *state).in_bounds);
        print_message("%lld products: %.3g of %.3g\n", (long long)products[k], worst, factor);
        assert_true(worst <= factor && worst > factor / 200);
    }
}

/* The algorithm of the default schedule. */
static kiln_algorithm preferred(const kiln_program *te, kiln_accuracy accuracy, kiln_arena *arena) {
    const kiln_space_options options = {.accuracy = accuracy};
    kiln_space space;
    expect_ok(kiln_space_create_with(te, &avx2, &options, arena, &space));
    return kiln_trace_algorithm(&space.sketch[space.preferred].preferred);
}

static void it_is_the_default_where_weights_come_from_afar(void **state) {
    const int64_t far = (int64_t)avx2.l2_bytes; /* elements of four bytes: four caches */
    assert_int_equal(preferred(product(*state, 1, far / 1024, 1024), (kiln_accuracy){0}, *state),
                     fixed);
    assert_int_equal(
        preferred(product(*state, 1, far / 1024, 1024), (kiln_accuracy){.exact = true}, *state),
        KILN_ALGORITHM_DIRECT);
    assert_int_equal(
        preferred(product(*state, 1, far / 1024, 1024), (kiln_accuracy){.error_max = 1e-6}, *state),
        KILN_ALGORITHM_DIRECT);
    assert_int_equal(preferred(product(*state, 1, 64, 256), (kiln_accuracy){0}, *state),
                     KILN_ALGORITHM_DIRECT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(weights_become_16_bits_and_a_step_each),
        test_with_arena(every_sum_of_the_task_has_its_own),
        test_with_arena(other_computations_are_left_alone),
        test_with_arena(errors_stay_within_the_bound),
        test_with_arena(it_is_the_default_where_weights_come_from_afar),
    };
    return cmocka_run_group_tests_name("compiler-core/algorithm/fixed", tests, NULL, NULL);
}
