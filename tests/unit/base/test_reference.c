#include "base/reference.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "base/rand.h"
#include "tests/support/test.h"

static const float value[6] = {1, -2, 3, 0, 1e10f, 5}, bound[6] = {0.1f, 0.1f, 0, 0.5f, 1, 1};
static const int8_t exact[3] = {1, -128, 127};

static kiln_reference example(void) {
    return (kiln_reference){
        .output_count = 2,
        .output = {{.dtype = KILN_F32, .shape = {2, {2, 3}}, .value = value, .bound = bound},
                   {.dtype = KILN_I8, .shape = {1, {3}}, .value = exact}}};
}

/* Decodes from an aligned copy in the arena. */
static kiln_status decode(kiln_arena *arena, kiln_str bytes, kiln_reference *out) {
    return kiln_reference_decode(
        (kiln_str){kiln_arena_copy(arena, bytes.data, bytes.size), bytes.size}, out);
}

static void blob_round_trips(void **state) {
    kiln_reference reference = example(), decoded;
    kiln_strbuf bytes = {0}, again = {0};
    kiln_reference_encode(&reference, &bytes);
    expect_ok(decode(*state, kiln_strbuf_view(&bytes), &decoded));
    assert_memory_equal(decoded.output[0].value, value, sizeof value);
    assert_memory_equal(decoded.output[0].bound, bound, sizeof bound);
    assert_memory_equal(decoded.output[1].value, exact, sizeof exact);
    assert_null(decoded.output[1].bound);
    kiln_reference_encode(&decoded, &again);
    assert_true(kiln_str_equal(kiln_strbuf_view(&bytes), kiln_strbuf_view(&again)));
    kiln_strbuf_deinit(&bytes);
    kiln_strbuf_deinit(&again);
}

static void every_truncation_is_refused(void **state) {
    kiln_reference reference = example(), decoded;
    kiln_strbuf bytes = {0};
    kiln_reference_encode(&reference, &bytes);
    for (size_t size = 0; size < bytes.size; size++) {
        kiln_arena_reset(*state);
        expect_error(decode(*state, kiln_str_slice(kiln_strbuf_view(&bytes), 0, size), &decoded),
                     DATA_LOSS, "reference");
    }
    kiln_strbuf_deinit(&bytes);
}

static void mutations_never_lead_outside_of_the_blob(void **state) {
    kiln_reference reference = example(), decoded;
    kiln_strbuf bytes = {0};
    kiln_rand r;
    kiln_rand_init(&r, 1);
    kiln_reference_encode(&reference, &bytes);
    for (int round = 0; round < 20000; round++) {
        kiln_arena_reset(*state);
        char *copy = kiln_arena_copy(*state, bytes.data, bytes.size);
        for (int flips = 0; flips < 3; flips++)
            copy[kiln_rand_below(&r, 16 + 2 * 88)] = (char)kiln_rand_u64(&r);
        kiln_status st = kiln_reference_decode((kiln_str){copy, bytes.size}, &decoded);
        for (uint32_t i = 0; !st && i < decoded.output_count; i++) {
            const char *begin = decoded.output[i].value;
            size_t size = (size_t)kiln_shape_count(&decoded.output[i].shape) *
                          kiln_dtype_size(decoded.output[i].dtype);
            assert_true(begin >= copy && begin + size <= copy + bytes.size);
        }
        kiln_status_free(st);
    }
    kiln_strbuf_deinit(&bytes);
}

static void outputs_within_their_bounds_are_right(void **state) {
    (void)state;
    kiln_reference reference = example();
    float actual[6] = {1.09f, -2.09f, 3, 0.4f, 1e10f, 4.1f};
    kiln_reference_check check = kiln_reference_compare(&reference.output[0], actual, 1);
    assert_int_equal(check.mismatch_count, 0);
    assert_true(check.error <= 1 && check.max_abs_error > 0.8 && check.max_abs_error < 1);
    actual[2] = 3.001f; /* bound 0: only rounding is allowed */
    actual[3] = 0.6f;
    check = kiln_reference_compare(&reference.output[0], actual, 1);
    assert_int_equal(check.mismatch_count, 2);
    assert_int_equal(check.worst_index, 2);
    assert_true(check.error > 1 && check.worst_expected == 3);
    check = kiln_reference_compare(&reference.output[0], actual, 3); /* 0.1 off, 0.1 allowed: 0.3 */
    assert_int_equal(check.mismatch_count, 1);
}

static void not_a_number_and_integers_are_exact(void **state) {
    (void)state;
    const float expected[3] = {NAN, INFINITY, 1}, wide[3] = {1e9f, 1e9f, 1e9f},
                other[3] = {1, -INFINITY, NAN};
    kiln_reference_output output = {
        .dtype = KILN_F32, .shape = {1, {3}}, .value = expected, .bound = wide};
    assert_int_equal(kiln_reference_compare(&output, expected, 1).mismatch_count, 0);
    assert_int_equal(kiln_reference_compare(&output, other, 1).mismatch_count, 3);
    /* A mean of nothing: its bound is no number either. What has a value needs a bound. */
    const float none[3] = {NAN, NAN, NAN};
    output.bound = none;
    assert_int_equal(kiln_reference_compare(&output, expected, 1).mismatch_count, 2);
    assert_int_equal(kiln_reference_compare(&output, other, 1).mismatch_count, 3);
    kiln_reference reference = example();
    int8_t near[3] = {1, -128, 126};
    assert_int_equal(kiln_reference_compare(&reference.output[1], exact, 1).mismatch_count, 0);
    kiln_reference_check check = kiln_reference_compare(&reference.output[1], near, 1);
    assert_int_equal(check.mismatch_count, 1);
    assert_int_equal(check.worst_index, 2);
}

static void seeds_of_arguments_differ(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 10; i++)
        for (uint32_t j = 0; j < 10; j++) {
            assert_int_equal(kiln_input_seed(1, i) == kiln_input_seed(1, j), i == j);
            assert_true(kiln_input_seed(1, i) != kiln_input_seed(2, j));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(blob_round_trips),
        test_with_arena(every_truncation_is_refused),
        test_with_arena(mutations_never_lead_outside_of_the_blob),
        cmocka_unit_test(outputs_within_their_bounds_are_right),
        cmocka_unit_test(not_a_number_and_integers_are_exact),
        cmocka_unit_test(seeds_of_arguments_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
