/* Whose times teach whom: cores of one architecture and GPUs of one family, the nearer the more;
 * never an emulator. */
#include "tests/support/test.h"
#include "tuner/target_similarity.h"

static uint32_t similarity(kiln_arena *arena, const char *a, const char *b) {
    kiln_target x, y;
    assert_null(kiln_target_parse(kiln_str_from(a), arena, &x));
    assert_null(kiln_target_parse(kiln_str_from(b), arena, &y));
    assert_int_equal(kiln_target_similarity(&x, &y), kiln_target_similarity(&y, &x));
    return kiln_target_similarity(&x, &y);
}

static void cores_of_one_architecture_are_akin(void **state) {
    assert_true(similarity(*state, "rpi3", "rpi4") > 0);
    assert_true(similarity(*state, "x86-64", "x86-64-v4") > 0);
    assert_int_equal(similarity(*state, "rpi4", "pynq"), 0);
    assert_int_equal(similarity(*state, "rpi4", "x86-64"), 0);
    assert_int_equal(similarity(*state, "null", "null"), 0);
}

static void gpus_of_one_family_are_akin(void **state) {
    static const char *const order[] = {"h100", "cuda:sm_90,mcpu=h200", "cuda:sm_90"};
    for (size_t i = 1; i < KILN_ARRAY_COUNT(order); i++)
        assert_true(similarity(*state, "h100", order[i - 1]) >
                    similarity(*state, "h100", order[i]));
    assert_true(similarity(*state, "h100", "cuda:sm_90") > 0);
    assert_true(similarity(*state, "a100", "cuda:sm_80") > 0);
    assert_int_equal(similarity(*state, "h100", "a100"), 0);
    assert_int_equal(similarity(*state, "h100", "opencl:h100"), 0);
    assert_true(similarity(*state, "opencl:x", "opencl:x,units=2") > 0);
    assert_int_equal(similarity(*state, "opencl:x", "opencl:y"), 0);
    assert_int_equal(similarity(*state, "opencl:x", "opencl:x,emulated"), 0);
    assert_true(similarity(*state, "opencl:x,emulated", "opencl:x,emulated,units=2") > 0);
}

static void times_under_an_emulator_teach_no_processor(void **state) {
    assert_int_equal(similarity(*state, "rpi4,emulated", "rpi4"), 0);
    assert_int_equal(similarity(*state, "rpi4,emulated", "rpi3"), 0);
    assert_true(similarity(*state, "rpi4,emulated", "rpi3,emulated") > 0);
}

static void the_nearest_core_comes_first(void **state) {
#define HASWELL "cpu:x86_64-unknown-linux-gnu,mcpu=haswell"
    static const char *const order[] = {"x86-64-v3,cores=4", "x86-64-v3,threads=2", HASWELL,
                                        HASWELL ",threads=2", "x86-64"};
    for (size_t i = 1; i < KILN_ARRAY_COUNT(order); i++)
        assert_true(similarity(*state, "x86-64-v3", order[i - 1]) >
                    similarity(*state, "x86-64-v3", order[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(cores_of_one_architecture_are_akin),
        test_with_arena(gpus_of_one_family_are_akin),
        test_with_arena(times_under_an_emulator_teach_no_processor),
        test_with_arena(the_nearest_core_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
