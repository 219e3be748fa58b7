/* Softmax between two products, in blocks of keys, computes what it does as a whole. */
#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/rules/space.h"
#include "tests/support/interpreter.h"
#include "tests/support/test.h"
#include "tests/unit/compiler-core/algorithm/support.h"
#include "tests/unit/compiler-core/sched/support.h"

enum { HEADS = 2, ROWS = 3, SIZE = 4 };

typedef attention_shape shape;

#define BY_QUOTIENT "e[h, i, j]/l[h, i]"
#define BY_SCALE "e[h, i, j]*r[h, i]"

static kiln_program *applied(kiln_algorithm algorithm, const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = kiln_algorithm_apply(algorithm, te, arena);
    assert_non_null(p);
    expect_ok(kiln_program_verify(p));
    return p;
}

static const kiln_algorithm by_128 = KILN_ALGORITHM_KEY_BLOCKS_128;

#define SCALED "s[h, i, j]*0.125"
#define CAUSAL "select(j <= i*70, s[h, i, j]*0.125, -inf)" /* a row of which only key 0 is left */
#define ADDED "s[h, i, j]*0.125 + w[i, j]"
#define BLOCK_MASKED "select(j < 128, -inf, s[h, i, j]*0.125)"
#define LOWEST "select(j < 128, -3e38, s[h, i, j]*0.125)"

/* Even and odd lengths, whole vectors and others, masks that leave nothing of a block. */
static void results_are_those_of_the_whole(void **state) {
    static const shape shapes[] = {
        {"f32", 256, SCALED, BY_QUOTIENT, 3},
        {"f32", 256, SCALED, BY_SCALE, 3},
        {"f32", 192, SCALED, BY_SCALE, 3},
        {"f32", 231, SCALED, BY_SCALE, 3},
        {"f32", 485, CAUSAL, BY_SCALE, 3},
        {"f32", 256, CAUSAL, BY_QUOTIENT, 3},
        {"f32", 256, ADDED, BY_SCALE, 3},
        {"f32", 384, BLOCK_MASKED, BY_SCALE, 3},
        {"f32", 384, LOWEST, BY_QUOTIENT, 3},
        {"f64", 256, "s[h, i, j]*0.125f64", BY_SCALE, 3},
        {"f64", 231, "select(j <= i*70, s[h, i, j], -1.0f64/0.0f64)", BY_SCALE, 3},
        {"f64", 384, "select(j < 128, -1.0f64/0.0f64, s[h, i, j])", BY_QUOTIENT, 3},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(shapes); i++) {
        const kiln_program *te = attention_program(*state, &shapes[i]);
        kiln_program *p = applied(by_128, te, *state);
        kiln_program_make_loops(p);
        kiln_status st = same_result_by(by_128, te, p, *state);
        if (st) fail_msg("%zu: %s", i, kiln_status_text(st));
    }
}

/* Of a row without any key both forms give NaN, and of no other row. */
static void rows_without_keys_are_no_numbers(void **state) {
    const kiln_program *te = attention_program(
        *state, &(shape){"f32", 256, "select(i == 1, -inf, s[h, i, j])", BY_SCALE, 3});
    kiln_program *p = applied(by_128, te, *state);
    kiln_program_make_loops(p);
    const kiln_program *form[] = {te, p};
    for (uint32_t f = 0; f < 2; f++) {
        kiln_tensor tensor[5];
        const kiln_arg_buffers arg = kiln_program_args(form[f]);
        assert_int_equal(arg.count, KILN_ARRAY_COUNT(tensor));
        for (uint32_t i = 0; i < arg.count; i++) {
            const kiln_buffer_info *b = &form[f]->buffer.data[arg.buffer[i]];
            tensor[i] = kiln_tensor_create(*state, b->dtype, &b->shape);
            for (int64_t e = 0; e < kiln_shape_count(&b->shape); e++)
                kiln_dtype_store_f64(b->dtype, tensor[i].data, (size_t)e, 0.5);
        }
        expect_ok(f ? kiln_loop_eval(p, tensor, arg.count) : kiln_te_eval(te, tensor, arg.count));
        for (uint32_t e = 0; e < HEADS * ROWS * SIZE; e++) {
            const float y = ((const float *)tensor[arg.count - 1].data)[e];
            if (e / SIZE % ROWS == 1)
                assert_true(isnan(y));
            else
                assert_true(fabsf(y - 0.5f) < 1e-6f);
        }
    }
}

/* The product's operations are the same; no buffer of one row has all of its keys. */
static void scores_are_those_of_a_block(void **state) {
    kiln_program *te = attention_program(*state, &(shape){"f32", 256, SCALED, BY_SCALE, 3}),
                 *p = applied(by_128, te, *state);
    const kiln_block scores = kiln_program_find_block(p, KILN_STR("scores.blocks"));
    const kiln_shape *to = &p->buffer.data[p->block.data[scores].buffer].shape;
    assert_int_equal(to->dim[0], 2);
    assert_int_equal(to->dim[to->rank - 1], 128);
    assert_true(kiln_algorithm_executed_flops(by_128, p) < 1.2 * kiln_program_flops(te));
}

static void other_computations_are_left_alone(void **state) {
    static const shape shapes[] = {
        {"f32", 96, SCALED, BY_SCALE, 3},  /* too few keys */
        {"f32", 257, SCALED, BY_SCALE, 3}, /* nothing divides them */
        {"f32", 256, SCALED, "e[h, i, j]/m[h, i]", 3},
        {"f32", 256, SCALED, "e[h, i, j]*l[h, i]", 3},
        {"f32", 256, SCALED, "e[h, i, j]/l[h, 0]", 3}, /* the sum of another row */
        {"f32", 256, "w[i, j]*2.0", BY_SCALE, 3},      /* scores that no product makes */
        {"f32", 256, "s[h, i, 255 - j]", BY_SCALE, 3}, /* and that lie elsewhere */
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(shapes); i++)
        if (kiln_algorithm_apply(by_128, attention_program(*state, &shapes[i]), *state))
            fail_msg("%zu", i);
}

static void errors_stay_within_the_bound(void **state) {
    static const kiln_algorithm all[] = {KILN_ALGORITHM_KEY_BLOCKS_128,
                                         KILN_ALGORITHM_KEY_BLOCKS_256,
                                         KILN_ALGORITHM_KEY_BLOCKS_512};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(all); i++) {
        kiln_program *te = attention_program(*state, &(shape){"f32", 1024, SCALED, BY_SCALE, 3}),
                     *p = applied(all[i], te, *state);
        double worst = 0, relative = 0;
        kiln_program_make_loops(p);
        for (uint64_t seed = 0; seed < 4; seed++) {
            const random_error error =
                error_on_random_data(te, p, seed, seed % 2 ? 0.5 : 0, *state);
            worst = fmax(worst, error.in_bounds);
            relative = fmax(relative, error.relative);
        }
        const double factor = kiln_algorithm_error_factor(all[i], te);
        print_message("%.3g of %.3g, %.3g\n", worst, factor, relative);
        assert_true(worst <= factor && worst > factor / 1e6);
        assert_true(relative <= kiln_algorithm_relative_error(all[i]));
    }
}

static kiln_algorithm preferred(kiln_program *te, kiln_arena *arena) {
    const kiln_space_options options = {0};
    kiln_space space;
    expect_ok(kiln_space_create_with(te, &avx2, &options, arena, &space));
    return kiln_trace_algorithm(&space.sketch[space.preferred].preferred);
}

/* Where whole rows of scores are long. */
static void it_is_the_default_for_long_sequences(void **state) {
    kiln_program *longer = attention_program(*state, &(shape){"f32", 1024, SCALED, BY_SCALE, 512}),
                 *shorter = attention_program(*state, &(shape){"f32", 512, SCALED, BY_SCALE, 1024});
    assert_int_equal(preferred(longer, *state), KILN_ALGORITHM_KEY_BLOCKS_256);
    assert_int_equal(preferred(shorter, *state), KILN_ALGORITHM_DIRECT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(results_are_those_of_the_whole),
        test_with_arena(rows_without_keys_are_no_numbers),
        test_with_arena(scores_are_those_of_a_block),
        test_with_arena(other_computations_are_left_alone),
        test_with_arena(errors_stay_within_the_bound),
        test_with_arena(it_is_the_default_for_long_sequences),
    };
    return cmocka_run_group_tests_name("compiler-core/algorithm/key_blocks", tests, NULL, NULL);
}
