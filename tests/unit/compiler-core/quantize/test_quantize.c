/* Histograms, ranges, scales and errors of quantisation. */
#include "compiler-core/quantize/quantize.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "base/rand.h"
#include "tests/support/test.h"

static void assert_near(double actual, double expected, double apart) {
    if (!(fabs(actual - expected) <= apart)) fail_msg("%.17g, expected %.17g", actual, expected);
}

static kiln_histogram *empty(void **state) { return KILN_ARENA_NEW(*state, kiln_histogram); }

static kiln_histogram *histogram_of(void **state, const float *data, size_t count) {
    kiln_histogram *h = empty(state);
    assert_true(kiln_histogram_add(h, data, count));
    return h;
}

static float *normal(void **state, size_t count, uint64_t seed) {
    kiln_rand rand;
    float *data = KILN_ARENA_ARRAY(*state, float, count);
    kiln_rand_init(&rand, seed);
    for (size_t i = 0; i < count; i++) data[i] = (float)kiln_rand_normal(&rand);
    return data;
}

/* ---- histograms ------------------------------------------------------------------------------ */

static void the_order_of_elements_does_not_matter(void **state) {
    float data[4000];
    memcpy(data, normal(state, 4000, 1), sizeof data);
    for (int i = 0; i < 4000; i++) data[i] *= ldexpf(1, i / 500 - 4);
    const kiln_histogram *whole = histogram_of(state, data, 4000);
    kiln_histogram *forth = empty(state), *back = empty(state), *merged = empty(state);
    for (int i = 0; i < 4000; i += 500) {
        assert_true(kiln_histogram_add(forth, data + i, 500));
        assert_true(kiln_histogram_add(back, data + 3500 - i, 500));
        kiln_histogram_merge(merged, histogram_of(state, data + 3500 - i, 500));
    }
    assert_memory_equal(forth, whole, sizeof *whole);
    assert_memory_equal(back, whole, sizeof *whole);
    assert_memory_equal(merged, whole, sizeof *whole);
}

static void elements_are_counted_where_they_lie(void **state) {
    const float data[] = {0, 0, 1, -1, 0.5f, -0.0f};
    const kiln_histogram *h = histogram_of(state, data, KILN_ARRAY_COUNT(data));
    const int half = KILN_HISTOGRAM_BINS / 2;
    assert_int_equal(h->count, 6);
    assert_int_equal(h->zeros, 3);
    assert_true(h->low == -1 && h->high == 1 && h->exponent == 1 - 12);
    assert_int_equal(h->bin[half + half / 2], 1);
    assert_int_equal(h->bin[half - half / 2], 1);
    assert_int_equal(h->bin[half + half / 4], 1);
}

static void what_is_not_finite_is_refused_and_not_counted(void **state) {
    const float bad[][2] = {{1, NAN}, {INFINITY, 1}, {-INFINITY, INFINITY}};
    kiln_histogram *h = empty(state);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++)
        assert_false(kiln_histogram_add(h, bad[i], 2));
    assert_memory_equal(h, empty(state), sizeof *h);
}

static void tiny_and_huge_elements_have_bins(void **state) {
    const float data[] = {1e-45f, 3.4e38f, -3.4e38f};
    const kiln_histogram *h = histogram_of(state, data, 3);
    uint64_t sum = 0;
    for (int i = 0; i < KILN_HISTOGRAM_BINS; i++) sum += h->bin[i];
    assert_int_equal(sum, 3);
    kiln_histogram *slow = empty(state);
    for (int i = 0; i < 3; i++) assert_true(kiln_histogram_add(slow, data + i, 1));
    assert_memory_equal(slow, h, sizeof *h);
}

/* ---- scales ---------------------------------------------------------------------------------- */

static void minmax_spreads_256_bytes_over_what_was_seen(void **state) {
    const float data[] = {-1, 4.1f, 0.3f};
    const kiln_quantization q = kiln_quantize_activation(
        histogram_of(state, data, 3), KILN_QUANTIZE_MINMAX, (kiln_quantize_form){8, false});
    assert_near(q.scale, 0.02, 1e-7);
    assert_int_equal(q.zero, -78);
    assert_int_equal(kiln_quantize_byte(-1, q, -128), -128);
    assert_int_equal(kiln_quantize_byte(4.1, q, -128), 127);
    assert_int_equal(kiln_quantize_byte(0, q, -128), q.zero);
    assert_int_equal(kiln_quantize_byte(1e9, q, -128), 127);
    assert_int_equal(kiln_quantize_byte(-1e9, q, -127), -127);
}

/* What a rectifier makes has 0 as its lowest byte, so that clamping to bytes rectifies. */
static void ranges_include_zero(void **state) {
    const float above[] = {2, 5.1f}, below[] = {-5.1f, -3}, none[] = {0, 0};
    for (int m = 0; m < KILN_QUANTIZE_METHOD_COUNT; m++) {
        const kiln_quantize_method method = (kiln_quantize_method)m;
        kiln_quantization q = kiln_quantize_activation(histogram_of(state, above, 2), method,
                                                       (kiln_quantize_form){8, false});
        assert_int_equal(q.zero, -128);
        assert_true(kiln_quantization_low(q) == 0);
        q = kiln_quantize_activation(histogram_of(state, below, 2), method,
                                     (kiln_quantize_form){8, false});
        assert_int_equal(q.zero, 127);
        assert_true(kiln_quantization_high(q) == 0);
        q = kiln_quantize_activation(histogram_of(state, none, 2), method,
                                     (kiln_quantize_form){8, false});
        assert_true(q.scale == 1 && q.zero == 0);
        q = kiln_quantize_activation(empty(state), method, (kiln_quantize_form){8, true});
        assert_true(q.scale == 1 && q.zero == 0);
    }
}

static void percentile_leaves_out_one_in_ten_thousand(void **state) {
    enum { COUNT = 200000 };
    float *data = KILN_ARENA_ARRAY(*state, float, COUNT);
    for (int i = 0; i < COUNT; i++) data[i] = (float)(i % 1000) / 1000;
    for (int i = 0; i < 20; i++) data[i] = 50; /* exactly 0.01 % */
    const kiln_histogram *h = histogram_of(state, data, COUNT);
    const kiln_quantization q =
        kiln_quantize_activation(h, KILN_QUANTIZE_PERCENTILE, (kiln_quantize_form){8, false});
    assert_near(kiln_quantization_high(q), 1, 0.02);
    assert_near(kiln_quantize_clipped(h, q), 1e-4, 1e-9);
    data[20] = 50; /* one more: it stays */
    const kiln_quantization wide = kiln_quantize_activation(
        histogram_of(state, data, COUNT), KILN_QUANTIZE_PERCENTILE, (kiln_quantize_form){8, false});
    assert_near(kiln_quantization_high(wide), 50, 1e-3);
}

static double squared_error(const float *data, size_t count, kiln_quantization q) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double back =
            (kiln_quantize_byte((double)data[i], q, -128) - q.zero) * (double)q.scale;
        sum += ((double)data[i] - back) * ((double)data[i] - back);
    }
    return sum;
}

/* Against every range in fine steps, measured on the elements themselves. */
static void mse_finds_a_range_near_the_best(void **state) {
    enum { COUNT = 400000, STEPS = 100 };
    kiln_histogram *h = empty(state);
    kiln_rand rand;
    kiln_rand_init(&rand, 7);
    float *data = KILN_ARENA_ARRAY(*state, float, COUNT);
    for (int i = 0; i < COUNT; i++) data[i] = (float)(2 * kiln_rand_unit(&rand) - 1);
    data[5] = 1.5f;
    assert_true(kiln_histogram_add(h, data, COUNT));
    const kiln_quantization q = kiln_quantize_activation(h, KILN_QUANTIZE_MSE,
                                                         (kiln_quantize_form){8, false}),
                            all = kiln_quantize_activation(h, KILN_QUANTIZE_MINMAX,
                                                           (kiln_quantize_form){8, false});
    const double error = squared_error(data, COUNT, q), of_all = squared_error(data, COUNT, all);
    assert_true(error < 0.8 * of_all);
    for (int i = 1; i < STEPS; i++) {
        const float most = 1.5f * (float)i / STEPS, limit[] = {-fminf(1, most), most};
        const kiln_histogram *within = histogram_of(state, limit, 2);
        const kiln_quantization other =
            kiln_quantize_activation(within, KILN_QUANTIZE_MINMAX, (kiln_quantize_form){8, false});
        assert_true(error < 1.05 * squared_error(data, COUNT, other));
    }
}

static void shifts_are_powers_of_two_around_zero(void **state) {
    const kiln_histogram *h = histogram_of(state, normal(state, 1000, 3), 1000);
    for (int m = 0; m < KILN_QUANTIZE_METHOD_COUNT; m++) {
        int exponent;
        const kiln_quantization q =
            kiln_quantize_activation(h, (kiln_quantize_method)m, (kiln_quantize_form){8, true});
        assert_true(frexpf(q.scale, &exponent) == 0.5f);
        assert_int_equal(q.zero, 0);
    }
    const kiln_quantization all =
        kiln_quantize_activation(h, KILN_QUANTIZE_MINMAX, (kiln_quantize_form){8, true});
    assert_true(kiln_quantization_high(all) >= fmax(h->high, -h->low));
    assert_true(kiln_quantization_high(all) < 2 * fmax(h->high, -h->low));
}

static void weights_are_symmetric_and_leave_room_for_the_bias(void **state) {
    (void)state;
    assert_near(kiln_quantize_weights(1.27, 0, 1, false), 0.01, 1e-9);
    assert_true(kiln_quantize_weights(1.27, 0, 1, true) == 1.0f / 64);
    assert_true(kiln_quantize_weights(0, 0, 1, false) == 1);
    const double input = 1e-6, bias = 3;
    const float scale = kiln_quantize_weights(1e-4, bias, input, false);
    assert_true((double)scale > 1e-4 / 127 && bias / (input * (double)scale) < 1.1e9);
    assert_true(kiln_quantize_weights(0, bias, input, false) == scale);
}

static void methods_are_found_by_name(void **state) {
    (void)state;
    kiln_quantize_method method = KILN_QUANTIZE_MINMAX;
    expect_ok(kiln_quantize_method_find(KILN_STR("mse"), &method));
    assert_int_equal(method, KILN_QUANTIZE_MSE);
    expect_error(kiln_quantize_method_find(KILN_STR("entropy"), &method), INVALID_ARGUMENT,
                 "there is no method 'entropy'; there are minmax, percentile, mse");
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void errors_add_up_over_calls(void **state) {
    (void)state;
    const float reference[] = {3, 4, 0}, actual[] = {3, 4.5f, 0};
    kiln_quantize_error e = {0};
    assert_true(kiln_quantize_error_cosine(&e) == 1 && kiln_quantize_error_relative(&e) == 0);
    kiln_quantize_error_add(&e, reference, actual, 2);
    kiln_quantize_error_add(&e, reference + 2, actual + 2, 1);
    assert_near(kiln_quantize_error_sqnr(&e), 20, 1e-9); /* 25 over 0.25 */
    assert_near(kiln_quantize_error_relative(&e), 0.125, 1e-12);
    assert_near(kiln_quantize_error_cosine(&e), 27 / (5 * sqrt(29.25)), 1e-12);
    kiln_quantize_error same = {0};
    kiln_quantize_error_add(&same, reference, reference, 3);
    assert_true(isinf(kiln_quantize_error_sqnr(&same)));
}

/* ---- few bits -------------------------------------------------------------------------------- */

static void weights_of_one_bit_are_signs_and_their_mean_magnitude(void **state) {
    (void)state;
    const float weight[] = {1, -3, 0, -0.5f, 0.5f}, none[] = {0, 0};
    int8_t level[5];
    const kiln_quantize_form one = {1, false}, shift = {1, true};
    assert_near(kiln_quantize_weights_few(weight, 5, one, level), 1, 1e-6);
    assert_memory_equal(level, ((int8_t[]){1, -1, 1, -1, 1}), 5);
    const float twice[] = {3, -3};
    assert_true(kiln_quantize_weights_few(twice, 2, shift, level) == 4);
    assert_true(kiln_quantize_weights_few(none, 2, one, level) < 1e-20f); /* as good as 0 */
}

static void weights_that_are_levels_keep_them(void **state) {
    (void)state;
    const float two[] = {-0.5f, 0, 0.25f, -0.25f, 0.25f}, four[] = {-16, 14, 2, -6, 10, 4};
    int8_t level[6];
    assert_near(kiln_quantize_weights_few(two, 5, (kiln_quantize_form){2, false}, level), 0.25,
                1e-6);
    assert_memory_equal(level, ((int8_t[]){-2, 0, 1, -1, 1}), 5);
    assert_near(kiln_quantize_weights_few(four, 6, (kiln_quantize_form){4, false}, level), 2, 1e-6);
    assert_memory_equal(level, ((int8_t[]){-8, 7, 1, -3, 5, 2}), 6);
    const float zeros[] = {0, 0};
    kiln_quantize_weights_few(zeros, 2, (kiln_quantize_form){2, false}, level);
    assert_memory_equal(level, ((int8_t[]){0, 0}), 2);
}

/* Steps of least squared error for what a rectifier leaves of normal numbers, by integrating over
 * their density: 0.650 with four levels, 1.225 with two. */
static void few_levels_of_rectified_normal_numbers_lie_where_they_should(void **state) {
    enum { COUNT = 200000 };
    float *data = normal(state, COUNT, 7);
    for (int i = 0; i < COUNT; i++) data[i] = fmaxf(data[i], 0);
    const kiln_histogram *h = histogram_of(state, data, COUNT);
    kiln_quantization q =
        kiln_quantize_activation(h, KILN_QUANTIZE_MSE, (kiln_quantize_form){2, false});
    assert_int_equal(q.bits, 2);
    assert_int_equal(q.zero, -2);
    assert_near(q.scale, 0.65, 0.03);
    assert_near(kiln_quantization_high(q), 3 * q.scale, 1e-6);
    q = kiln_quantize_activation(h, KILN_QUANTIZE_MSE, (kiln_quantize_form){1, false});
    assert_near(q.scale, 1.225, 0.06);
    assert_true(kiln_quantization_low(q) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(the_order_of_elements_does_not_matter),
        test_with_arena(elements_are_counted_where_they_lie),
        test_with_arena(what_is_not_finite_is_refused_and_not_counted),
        test_with_arena(tiny_and_huge_elements_have_bins),
        test_with_arena(minmax_spreads_256_bytes_over_what_was_seen),
        test_with_arena(ranges_include_zero),
        test_with_arena(percentile_leaves_out_one_in_ten_thousand),
        test_with_arena(mse_finds_a_range_near_the_best),
        test_with_arena(shifts_are_powers_of_two_around_zero),
        test_with_arena(weights_are_symmetric_and_leave_room_for_the_bias),
        cmocka_unit_test(methods_are_found_by_name),
        cmocka_unit_test(errors_add_up_over_calls),
        cmocka_unit_test(weights_of_one_bit_are_signs_and_their_mean_magnitude),
        cmocka_unit_test(weights_that_are_levels_keep_them),
        test_with_arena(few_levels_of_rectified_normal_numbers_lie_where_they_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
