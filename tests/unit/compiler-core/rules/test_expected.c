/* What algorithms of a task are expected to take. */
#include "compiler-core/rules/expected.h"

#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/rules/space.h"
#include "tests/unit/compiler-core/sched/support.h"

static double cycles_of(kiln_algorithm algorithm, conv_shape shape, kiln_arena *arena) {
    kiln_target target;
    expect_ok(kiln_target_parse(KILN_STR("x86-64-v4"), arena, &target));
    kiln_program *te = conv_program(arena, &shape);
    return kiln_expected_cycles(kiln_algorithm_apply(algorithm, te, arena), &target);
}

static void direct_sums_run_at_the_peak(void **state) {
    const double products = 28 * 28 * 64 * 64 * 9;
    const conv_shape shape = square_conv(28, 64);
    assert_true(kiln_expected_work(conv_program(*state, &shape)) == products);
    assert_true(kiln_expected_steps(conv_program(*state, &shape)) == 64 * 9);
    assert_true(cycles_of(KILN_ALGORITHM_DIRECT, shape, *state) == products / 16 / 2);
}

/* Many tiles: few products count. Few tiles: weights that arrive count. */
static void larger_tiles_pay_on_larger_images(void **state) {
    const conv_shape large = square_conv(56, 64), small = square_conv(7, 512);
    const double direct = cycles_of(KILN_ALGORITHM_DIRECT, large, *state),
                 two = cycles_of(KILN_ALGORITHM_WINOGRAD_2X2_3X3, large, *state),
                 four = cycles_of(KILN_ALGORITHM_WINOGRAD_4X4_3X3, large, *state);
    assert_true(two < 0.85 * direct && four < 0.85 * two);
    assert_true(cycles_of(KILN_ALGORITHM_WINOGRAD_6X6_3X3, small, *state) >
                cycles_of(KILN_ALGORITHM_DIRECT, small, *state));
}

/* Products of few channels are little beside transforms. */
static void few_channels_stay_direct(void **state) {
    conv_shape shape = square_conv(112, 3);
    shape.oc = 64;
    assert_true(cycles_of(KILN_ALGORITHM_WINOGRAD_4X4_3X3, shape, *state) >
                0.85 * cycles_of(KILN_ALGORITHM_DIRECT, shape, *state));
}

/* Where an instruction adds two products of halves at once. */
static void products_of_halves_take_half_the_time(void **state) {
    kiln_target with, without;
    const conv_shape shape = square_conv(28, 64);
    kiln_program *te = conv_program(*state, &shape),
                 *halves = kiln_algorithm_apply(KILN_ALGORITHM_BF16_PRODUCTS, te, *state);
    expect_ok(kiln_target_parse(KILN_STR("x86-64-v4,features=+avx512bf16"), *state, &with));
    expect_ok(kiln_target_parse(KILN_STR("x86-64-v4"), *state, &without));
    const double direct = kiln_expected_cycles(te, &with);
    assert_true(kiln_expected_cycles(halves, &with) == direct / 2);
    assert_true(kiln_expected_cycles(halves, &without) == direct);
}

/* A device multiplies halves on its tensor cores, but rounding them first is one more launch; sums
 * at the vectors' peak are left to those who transform little. */
static void devices_have_rates_of_their_own(void **state) {
    kiln_target target;
    expect_ok(kiln_target_parse(KILN_STR("h200"), *state, &target));
    const struct {
        kiln_algorithm algorithm;
        conv_shape shape;
        double least, most; /* of the direct form's time */
    } row[] = {{KILN_ALGORITHM_F16_PRODUCTS, square_conv(56, 256), 1.0 / 16, 0.3},
               {KILN_ALGORITHM_F16_PRODUCTS, square_conv(7, 8), 1.5, 2.1},
               {KILN_ALGORITHM_WINOGRAD_4X4_3X3, square_conv(56, 512), 0.2, 0.85},
               {KILN_ALGORITHM_WINOGRAD_4X4_3X3, square_conv(7, 8), 1.5, 6}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_program *te = conv_program(*state, &row[i].shape);
        const double direct = kiln_expected_cycles(te, &target),
                     other = kiln_expected_cycles(
                         kiln_algorithm_apply(row[i].algorithm, te, *state), &target);
        if (other < row[i].least * direct || other > row[i].most * direct)
            fail_msg("row %zu: %.4f of the direct form's time", i, other / direct);
    }
}

static kiln_algorithm default_of(conv_shape shape, const kiln_space_options *options,
                                 kiln_arena *arena) {
    kiln_target target;
    kiln_space space;
    kiln_trace trace;
    expect_ok(kiln_target_parse(KILN_STR("x86-64-v4"), arena, &target));
    kiln_program *te = conv_program(arena, &shape);
    expect_ok(kiln_space_create_with(te, &target, options, arena, &space));
    expect_ok(kiln_space_default(&space, arena, &trace, NULL));
    return kiln_trace_algorithm(&trace);
}

static void the_default_is_of_the_algorithm_that_is_expected_to_be_fastest(void **state) {
    const kiln_layout row = {0}, *const given[] = {&row, NULL, &row};
    const kiln_space_options any = {0}, exact = {.accuracy.exact = true},
                             tight = {.accuracy.error_max = 2e-6}, row_major = {.row_major = true},
                             rows = {.layout = given};
    const conv_shape shape = square_conv(28, 64);
    assert_int_equal(default_of(shape, &any, *state), KILN_ALGORITHM_WINOGRAD_6X6_3X3);
    assert_int_equal(default_of(shape, &tight, *state), KILN_ALGORITHM_WINOGRAD_2X2_3X3);
    assert_int_equal(default_of(shape, &exact, *state), KILN_ALGORITHM_DIRECT);
    assert_int_equal(default_of(shape, &row_major, *state), KILN_ALGORITHM_DIRECT);
    assert_int_equal(default_of(shape, &rows, *state), KILN_ALGORITHM_DIRECT);
    assert_int_equal(default_of(square_conv(7, 512), &any, *state),
                     KILN_ALGORITHM_WINOGRAD_2X2_3X3_FIXED);
    assert_int_equal(default_of(square_conv(8, 16), &any, *state), KILN_ALGORITHM_DIRECT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(direct_sums_run_at_the_peak),
        test_with_arena(larger_tiles_pay_on_larger_images),
        test_with_arena(few_channels_stay_direct),
        test_with_arena(products_of_halves_take_half_the_time),
        test_with_arena(devices_have_rates_of_their_own),
        test_with_arena(the_default_is_of_the_algorithm_that_is_expected_to_be_fastest),
    };
    return cmocka_run_group_tests_name("compiler-core/rules/expected", tests, NULL, NULL);
}
