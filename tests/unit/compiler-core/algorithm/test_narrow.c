/* Sums of products whose factors are rounded to halves. */
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

static const kiln_algorithm of_weights[] = {KILN_ALGORITHM_BF16_WEIGHTS,
                                            KILN_ALGORITHM_F16_WEIGHTS};

static kiln_program *narrow(kiln_algorithm algorithm, const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = kiln_algorithm_apply(algorithm, te, arena);
    if (p) expect_ok(kiln_program_verify(p));
    return p;
}

/* Halves hold them exactly. */
static void small_integers_are_exact(void **state) {
    const conv_shape shape = {
        .n = 1, .ic = 5, .h = 3, .w = 3, .oc = 3, .kh = 3, .kw = 3, .stride = 1, .epilogue = true};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(of_weights); i++) {
        kiln_program *te = conv_program(*state, &shape);
        kiln_program *p = narrow(of_weights[i], te, *state);
        assert_non_null(p);
        kiln_program_make_loops(p);
        expect_ok(same_result(te, p, *state));
    }
}

static void every_sum_of_the_task_is_narrowed(void **state) {
    const kiln_program *te =
        parsed(*state, "program two\ninput x: f32[1,8]\ninput h: f32[1,8]\nconstant w: f32[8,8]\n"
                       "constant r: f32[8,8]\ntemp a: f32[1,8]\ntemp b: f32[1,8]\n"
                       "output y: f32[1,8]\n"
                       "block a(m:1, n:8 | k:8): a[m, n] sum= x[m, k]*w[k, n] init 0.0\n"
                       "block b(m:1, n:8 | k:8): b[m, n] sum= h[m, k]*r[k, n] init 0.0\n"
                       "block y(m:1, n:8): y[m, n] = a[m, n] + b[m, n]\n");
    const kiln_program *p = narrow(KILN_ALGORITHM_BF16_WEIGHTS, te, *state);
    uint32_t halves = 0;
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        halves += p->buffer.data[b].dtype == KILN_BF16;
    assert_int_equal(halves, 2);
    assert_int_equal(p->block.count, te->block.count + 2);
}

static void other_computations_are_left_alone(void **state) {
    static const char *const text[] = {
        /* weights that are computed by another kernel would be rounded at each run */
        "program p\ninput x: f32[1,8]\ninput w: f32[8,8]\noutput y: f32[1,8]\n"
        "block m(m:1, n:8 | k:8): y[m, n] sum= x[m, k]*w[k, n] init 0.0\n",
        /* each weight is read for 64 outputs */
        "program p\ninput x: f32[64,8]\nconstant w: f32[8,8]\noutput y: f32[64,8]\n"
        "block m(m:64, n:8 | k:8): y[m, n] sum= x[m, k]*w[k, n] init 0.0\n",
        /* a maximum is no sum */
        "program p\ninput x: f32[1,8]\nconstant w: f32[8,8]\noutput y: f32[1,8]\n"
        "block m(m:1, n:8 | k:8): y[m, n] max= x[m, k]*w[k, n] init 0.0\n",
        /* the model's own halves */
        "program p\ninput x: f16[1,8]\nconstant w: f16[8,8]\noutput y: f16[1,8]\n"
        "block m(m:1, n:8 | k:8): y[m, n] sum= x[m, k]*w[k, n] init 0f16\n",
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
        for (size_t k = 0; k < KILN_ARRAY_COUNT(of_weights); k++)
            assert_null(narrow(of_weights[k], parsed(*state, text[i]), *state));
}

/* The bound's second part, for few and for many products: neither too narrow for what is right nor
 * so wide that a sum with a product too many would pass. */
static void errors_stay_within_the_bound(void **state) {
    static const int64_t products[] = {8, 64, 1000};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(of_weights); i++)
        for (size_t k = 0; k < KILN_ARRAY_COUNT(products); k++) {
            kiln_program *te = matmul_program(*state, 1, 24, products[k]);
            for (kiln_buffer b = 1; b < te->buffer.count; b++)
                if (kiln_str_is(te->buffer.data[b].name, "w"))
                    te->buffer.data[b].role = KILN_ROLE_CONSTANT;
            kiln_program *p = narrow(of_weights[i], te, *state);
            assert_non_null(p);
            kiln_program_make_loops(p);
            const double factor = kiln_algorithm_error_factor(of_weights[i], te);
            double worst = 0;
            for (uint64_t seed = 0; seed < 8; seed++)
                worst = fmax(worst, error_on_random_data(te, p, seed, 0, *state).in_bounds);
            print_message("%s, %lld products: %.3g of %.3g\n", kiln_algorithm_name(of_weights[i]),
                          (long long)products[k], worst, factor);
            assert_true(worst <= factor && worst > factor / 50);
        }
}

/* 16 bits in memory: rounded where weights are packed, not where they are used. */
static void weights_are_rounded_when_they_are_loaded(void **state) {
    kiln_program *te = matmul_program(*state, 1, 64, 64);
    for (kiln_buffer b = 1; b < te->buffer.count; b++)
        if (kiln_str_is(te->buffer.data[b].name, "w")) te->buffer.data[b].role = KILN_ROLE_CONSTANT;
    const kiln_space_options options = {.accuracy = {.precision = KILN_PRECISION_BF16}};
    kiln_space space;
    expect_ok(kiln_space_create_with(te, &avx2, &options, *state, &space));
    uint32_t seen = 0;
    for (uint32_t s = 0; s < space.sketch_count; s++) {
        if (kiln_trace_algorithm(&space.sketch[s].preferred) != KILN_ALGORITHM_BF16_WEIGHTS)
            continue;
        kiln_program *p = NULL;
        expect_ok(kiln_trace_replay(&space.sketch[s].preferred, te, NULL, *state, &p, NULL));
        const kiln_nests nests = kiln_nests_of(p, *state);
        for (kiln_buffer b = 1; b < p->buffer.count; b++)
            seen += p->buffer.data[b].dtype == KILN_BF16 && nests.constant[b];
    }
    assert_true(seen > 0);
    expect_ok(kiln_space_create(te, &avx2, *state, &space));
    for (uint32_t s = 0; s < space.sketch_count; s++)
        assert_int_equal(kiln_algorithm_precision(kiln_trace_algorithm(&space.sketch[s].open)),
                         KILN_PRECISION_F32);
}

/* Where an instruction multiplies halves both factors are rounded, all of its sketches use it,
 * and the default is one of them. */
static void products_of_halves_are_for_their_instruction(void **state) {
    static const char *const name[] = {
        "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v4,features=+avx512bf16",
        "cpu:aarch64-unknown-linux-gnu,mcpu=neoverse-v1", "x86-64-v3"};
    const conv_shape shape = {
        .n = 1, .ic = 64, .h = 16, .w = 16, .oc = 64, .kh = 1, .kw = 1, .stride = 1};
    const kiln_program *te = conv_program(*state, &shape);
    const kiln_space_options options = {.accuracy = {.precision = KILN_PRECISION_BF16}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(name); i++) {
        const kiln_target target = target_of(*state, name[i]);
        kiln_space space;
        uint32_t with = 0, without = 0;
        expect_ok(kiln_space_create_with(te, &target, &options, *state, &space));
        for (uint32_t s = 0; s < space.sketch_count; s++) {
            const kiln_trace *trace = &space.sketch[s].preferred;
            bool tensor = false;
            if (kiln_trace_algorithm(trace) != KILN_ALGORITHM_BF16_PRODUCTS) continue;
            for (uint32_t k = 0; k < trace->count; k++)
                tensor |= trace->instruction[k].prim == KILN_PRIM_TENSORIZE;
            *(tensor ? &with : &without) += 1;
        }
        assert_int_equal(without, 0);
        assert_int_equal(with > 0, i < 2);
        assert_int_equal(kiln_trace_algorithm(&space.sketch[space.preferred].preferred) ==
                             KILN_ALGORITHM_BF16_PRODUCTS,
                         i < 2);
    }
}

/* FMLAL multiplies f16 as they are, at the rate of floats, so no default schedule takes them. */
static void products_of_f16_are_for_cores_that_multiply_them(void **state) {
    static const char *const name[] = {"cpu:aarch64-unknown-linux-gnu,mcpu=neoverse-n2",
                                       "cpu:aarch64-unknown-linux-gnu,mcpu=cortex-a76",
                                       "x86-64-v3"};
    kiln_program *te = matmul_program(*state, 64, 64, 64);
    const kiln_space_options options = {.accuracy = {.precision = KILN_PRECISION_F16}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(name); i++) {
        const kiln_target target = target_of(*state, name[i]);
        kiln_space space;
        uint32_t found = 0;
        expect_ok(kiln_space_create_with(te, &target, &options, *state, &space));
        for (uint32_t s = 0; s < space.sketch_count; s++)
            found +=
                kiln_trace_algorithm(&space.sketch[s].preferred) == KILN_ALGORITHM_F16_PRODUCTS;
        assert_int_equal(found > 0, i == 0);
        assert_int_equal(kiln_trace_algorithm(&space.sketch[space.preferred].preferred),
                         KILN_ALGORITHM_DIRECT);
    }
}

/* Halves that another kernel wrote are multiplied as they are; of the padded copy halves are made.
 */
static void data_in_halves_is_not_rounded_again(void **state) {
    const kiln_program *te =
        parsed(*state, "program p\ninput x: bf16[8,8]\nconstant w: f32[8,8]\ntemp t: f32[8,8]\n"
                       "output y: f32[8,8]\n"
                       "block c(m:8, k:8): t[m, k] = f32(x[m, k])\n"
                       "block y(m:8, n:8 | k:8): y[m, n] sum= t[m, k]*w[k, n] init 0.0\n");
    kiln_program *p = narrow(KILN_ALGORITHM_BF16_PRODUCTS, te, *state);
    assert_non_null(p);
    assert_true(p->block.data[1].removed);
    assert_int_equal(p->block.count, te->block.count + 1); /* of the weights */
    kiln_program_make_loops(p);

    te = parsed(*state, "program p\ninput x: bf16[8,8]\nconstant w: f32[10,8]\ntemp t: f32[8,8]\n"
                        "temp u: f32[8,10]\noutput y: f32[8,8]\n"
                        "block c(m:8, k:8): t[m, k] = f32(x[m, k])\n"
                        "block u(m:8, k:10): u[m, k] = select(k < 8, t[m, k], 0.0)\n"
                        "block y(m:8, n:8 | k:10): y[m, n] sum= u[m, k]*w[k, n] init 0.0\n");
    p = narrow(KILN_ALGORITHM_BF16_PRODUCTS, te, *state);
    assert_non_null(p);
    assert_int_equal(p->block.count, te->block.count + 1);
    assert_int_equal(p->buffer.data[p->block.data[2].buffer].dtype, KILN_BF16);
}

/* Attention's products: both factors are rounded, unless they are halves already. */
static void products_of_data_round_both_factors(void **state) {
    kiln_program *te = data_product_program(*state, 12, 24, 65);
    assert_null(narrow(KILN_ALGORITHM_BF16_PRODUCTS, te, *state));
    kiln_program *p = narrow(KILN_ALGORITHM_BF16_DATA, te, *state);
    assert_non_null(p);
    assert_int_equal(p->block.count, te->block.count + 2);
    kiln_program_make_loops(p);
    expect_ok(same_result(te, p, *state)); /* of small integers, the odd step padded */
    const double factor = kiln_algorithm_error_factor(KILN_ALGORITHM_BF16_DATA, te);
    double worst = 0;
    for (uint64_t seed = 0; seed < 8; seed++)
        worst = fmax(worst, error_on_random_data(te, p, seed, 0, *state).in_bounds);
    print_message("%.3g of %.3g\n", worst, factor);
    assert_true(worst <= factor && worst > factor / 50);

    te = parsed(*state, "program p\ninput x: bf16[8,8]\ninput w: bf16[8,8]\ntemp t: f32[8,8]\n"
                        "temp u: f32[8,8]\noutput y: f32[8,8]\n"
                        "block t(m:8, k:8): t[m, k] = f32(x[m, k])\n"
                        "block u(m:8, k:8): u[m, k] = f32(w[m, k])\n"
                        "block y(m:8, n:8 | k:8): y[m, n] sum= t[m, k]*u[k, n] init 0.0\n");
    p = narrow(KILN_ALGORITHM_BF16_DATA, te, *state);
    assert_non_null(p);
    assert_int_equal(p->block.count, te->block.count);
    assert_true(p->block.data[1].removed && p->block.data[2].removed);
}

/* Weights are another row's; a square's two factors are one. */
static void products_of_data_are_no_products_of_weights(void **state) {
    static const char *const text[] = {
        "program p\ninput x: f32[8,8]\nconstant w: f32[8,8]\noutput y: f32[8,8]\n"
        "block m(m:8, n:8 | k:8): y[m, n] sum= x[m, k]*w[k, n] init 0.0\n",
        "program p\ninput x: f32[8,8]\noutput y: f32[8,8]\n"
        "block m(m:8, n:8 | k:8): y[m, n] sum= x[m, k]*x[k, n] init 0.0\n",
        "program p\ninput x: f32[8,8]\ninput w: f32[8,8]\noutput y: f32[8,8]\n"
        "block m(m:8, n:8 | k:8): y[m, n] max= x[m, k]*w[k, n] init 0.0\n",
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
        assert_null(narrow(KILN_ALGORITHM_BF16_DATA, parsed(*state, text[i]), *state));
}

/* Scores of an attention, whose keys lie as the instruction's lanes want them: nothing is packed,
 * unless a sketch is asked to. */
static void data_of_products_is_read_where_it_lies(void **state) {
    const kiln_target target =
        target_of(*state, "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v4,features=+avx512bf16");
    const kiln_program *te =
        parsed(*state, "program p\ninput x: bf16[2,32,64]\ninput w: bf16[2,64,64]\n"
                       "temp t: f32[2,32,64]\ntemp u: f32[2,64,64]\noutput y: f32[2,32,64]\n"
                       "block t(b:2, m:32, k:64): t[b, m, k] = f32(x[b, m, k])\n"
                       "block u(b:2, k:64, n:64): u[b, k, n] = f32(w[b, k, n])\n"
                       "block y(b:2, m:32, n:64 | k:64): y[b, m, n] sum= t[b, m, k]*u[b, k, n] "
                       "init 0.0\n");
    const kiln_space_options options = {.accuracy = {.precision = KILN_PRECISION_BF16}};
    kiln_space space;
    uint32_t packed = 0, others = 0;
    expect_ok(kiln_space_create_with(te, &target, &options, *state, &space));
    assert_int_equal(kiln_trace_algorithm(&space.sketch[space.preferred].preferred),
                     KILN_ALGORITHM_BF16_DATA);
    for (uint32_t s = 0; s < space.sketch_count; s++) {
        const kiln_trace *trace = &space.sketch[s].preferred;
        bool copies = false, tensor = false;
        if (kiln_trace_algorithm(trace) != KILN_ALGORITHM_BF16_DATA) continue;
        for (uint32_t k = 0; k < trace->count; k++) {
            copies |= trace->instruction[k].prim == KILN_PRIM_CACHE_READ;
            tensor |= trace->instruction[k].prim == KILN_PRIM_TENSORIZE;
        }
        if (s == space.preferred) assert_true(tensor && !copies);
        *(copies ? &packed : &others) += 1;
    }
    assert_true(packed > 0 && others > 0);
}

/* The first layer of a network: 3 channels become 4, the fourth with zeros. */
static void odd_steps_are_padded_with_zeros(void **state) {
    const conv_shape shape = {
        .n = 1, .ic = 3, .h = 6, .w = 6, .oc = 8, .kh = 3, .kw = 3, .stride = 1, .padding = 1};
    kiln_program *te = conv_program(*state, &shape);
    kiln_program *p = narrow(KILN_ALGORITHM_BF16_PRODUCTS, te, *state);
    assert_non_null(p);
    kiln_program_make_loops(p);
    expect_ok(same_result(te, p, *state)); /* of small integers */
}

/* Windows of a depthwise convolution have no steps behind one another. */
static void products_without_steps_stay_floats(void **state) {
    const kiln_program *te =
        parsed(*state, "program p\ninput x: f32[8,10]\nconstant w: f32[8,3]\noutput y: f32[8,8]\n"
                       "block y(c:8, i:8 | k:3): y[c, i] sum= x[c, i + k]*w[c, k] init 0.0\n");
    assert_null(narrow(KILN_ALGORITHM_BF16_PRODUCTS, te, *state));
}

/* Else searches would end at the peak of f32. */
static void the_peak_of_halves_is_twice_that_of_floats(void **state) {
    const conv_shape shape = {
        .n = 1, .ic = 32, .h = 8, .w = 8, .oc = 32, .kh = 1, .kw = 1, .stride = 1};
    const kiln_program *te = conv_program(*state, &shape);
    const kiln_accuracy f32 = {0}, bf16 = {.precision = KILN_PRECISION_BF16};
    assert_true(kiln_algorithm_least_flops(te, &f32) == kiln_program_flops(te));
    assert_true(kiln_algorithm_least_flops(te, &bf16) == kiln_program_flops(te) / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(small_integers_are_exact),
        test_with_arena(every_sum_of_the_task_is_narrowed),
        test_with_arena(other_computations_are_left_alone),
        test_with_arena(errors_stay_within_the_bound),
        test_with_arena(weights_are_rounded_when_they_are_loaded),
        test_with_arena(products_of_halves_are_for_their_instruction),
        test_with_arena(products_of_f16_are_for_cores_that_multiply_them),
        test_with_arena(data_in_halves_is_not_rounded_again),
        test_with_arena(products_of_data_round_both_factors),
        test_with_arena(products_of_data_are_no_products_of_weights),
        test_with_arena(data_of_products_is_read_where_it_lies),
        test_with_arena(odd_steps_are_padded_with_zeros),
        test_with_arena(products_without_steps_stay_floats),
        test_with_arena(the_peak_of_halves_is_twice_that_of_floats),
    };
    return cmocka_run_group_tests_name("compiler-core/algorithm/narrow", tests, NULL, NULL);
}
