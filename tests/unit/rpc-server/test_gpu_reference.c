/* The reference work on devices: on a CUDA driver without a device (tests/support/fake_cuda.h),
 * whose clock the test sets, and on PoCL through the real contained child, as if it were a GPU.
 * This program is its own helper and child. */
#include "rpc-server/reference_kernel_device.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "rpc-server/drift.h"
#include "rpc-server/find_device.h"
#include "rpc-server/golden.h"
#include "rpc-server/verdict.h"
#include "tests/support/fake_cuda.h"
#include "tests/unit/rpc-server/served.h"

static fake_cuda *fake;
static fake_cuda fresh;
static uint32_t passes, passes_threads; /* of the memory part: what it was told */

static void reference_memory(const uint32_t grid[3], const uint32_t group[3], void **parameter) {
    passes = **(const uint32_t *const *)parameter[0];
    passes_threads = grid[0] * group[0];
}

/* A clock that rises with each launch, to where one takes 10 us. */
static void reference_f32(const uint32_t grid[3], const uint32_t group[3], void **parameter) {
    (void)grid, (void)group, (void)parameter;
    if (fake->launch_us > 10) fake->launch_us--;
}

/* The driver's times are floats. */
static bool is_about(double value, double expected) {
    return fabs(value - expected) < 0.001 * expected;
}

static int set_driver(void **state) {
    *fake = fresh;
    fake->kernel[0].entry = "reference_memory", fake->kernel[0].run = reference_memory;
    fake->kernel[1].entry = "reference_f32", fake->kernel[1].run = reference_f32;
    return arena_set_up(state);
}

static kiln_device *open_cuda(void) {
    kiln_device *device = NULL;
    expect_ok(kiln_device_open(KILN_DEVICE_CUDA, NULL, &device));
    return device;
}

static void a_round_waits_until_the_clock_holds(void **state) {
    (void)state;
    kiln_device *device = open_cuda();
    kiln_device_reference *reference = NULL;
    expect_ok(kiln_device_reference_create(device, &reference));
    fake->launch_us = 60;
    const kiln_reference_kernel_round round = kiln_device_reference_measure(reference);
    for (int s = 0; s < KILN_REFERENCE_KERNEL_STATE_COUNT; s++) {
        assert_true(is_about(round.reading[s].arithmetic_ns, 10000));
        assert_true(is_about(round.reading[s].memory_ns, 10000));
    }
    const kiln_reference_kernel_norm norm = kiln_reference_kernel_norm_of(&round, 1);
    assert_int_equal(norm.arithmetic.use, KILN_PART_USED);
    assert_int_equal(norm.memory.use, KILN_PART_USED);
    fake->launch_us = 20; /* what falls behind is seen */
    const kiln_reference_kernel_times slow = kiln_device_reference_take(reference);
    const kiln_drift_ratio ratio = kiln_drift_ratio_of(&slow, &norm);
    assert_true(kiln_drift_is_slow(&ratio, &norm));
    kiln_device_reference_destroy(reference);
    kiln_device_close(device);
    assert_int_equal(fake->allocations + fake->complaints, 0);
}

static void peaks_are_those_of_each_operand_type(void **state) {
    (void)state;
    kiln_device *device = open_cuda();
    kiln_device_reference *reference = NULL;
    expect_ok(kiln_device_reference_create(device, &reference));
    const kiln_reference_kernel_round round = kiln_device_reference_measure(reference);
    const double threads = 132 * 4 * 256; /* of an H200 */
    assert_true(is_about(round.peak_flops, 2.0 * 8 * 2048 * threads / 10e-6));
    assert_true(round.dtype_flops[KILN_F32] == round.peak_flops);
    assert_true(
        is_about(round.dtype_flops[KILN_F16], 2.0 * 16 * 8 * 16 / 32 * 2048 * threads / 10e-6));
    assert_true(round.dtype_flops[KILN_BF16] == round.dtype_flops[KILN_F16]);
    assert_true(round.dtype_flops[KILN_I8] == 2 * round.dtype_flops[KILN_F16]);
    assert_true(round.dtype_flops[KILN_F64] == 0);
    /* Twice the last cache, read once. */
    assert_int_equal(passes_threads, threads);
    const uint64_t bytes = (uint64_t)passes * passes_threads * 16;
    const uint64_t cache = kiln_device_target(device)->gpu->l2_bytes;
    assert_in_range(bytes, 2 * cache, 2 * cache + passes_threads * UINT64_C(16));
    kiln_device_reference_destroy(reference);
    kiln_device_close(device);
}

static void a_device_that_fails_has_no_reading(void **state) {
    (void)state;
    kiln_device *device = open_cuda();
    kiln_device_reference *reference = NULL;
    fake->fail_symbol = "cuModuleLoadDataEx", fake->fail_at = 2, fake->fail_code = 218;
    expect_error(kiln_device_reference_create(device, &reference), INVALID_ARGUMENT,
                 "the reference kernel reference_");
    assert_int_equal(fake->allocations + fake->modules, 0);
    expect_ok(kiln_device_reference_create(device, &reference));
    fake->fail_symbol = "cuLaunchKernel", fake->fail_at = 1, fake->fail_code = 700;
    const kiln_reference_kernel_times none = kiln_device_reference_take(reference);
    assert_true(none.arithmetic_ns == 0 && none.memory_ns == 0);
    kiln_device_reference_destroy(reference);
    kiln_device_close(device);
}

static void the_executor_goes_without_where_there_is_none(void **state) {
    (void)state;
    const kiln_executor_vtable *v = kiln_executor_find(KILN_STR("cuda"))->vtable;
    const kiln_executor_setup setup = {.name = "cuda"}, null_setup = {.name = "null"};
    kiln_reference_kernel_round round;
    void *device = NULL;
    expect_ok(v->open(&setup, &device));
    assert_true(v->round(device, &round) && round.peak_flops > 0);
    assert_true(v->reference(device).memory_ns > 0);
    v->close(device);
    assert_int_equal(fake->allocations + fake->complaints, 0);
    expect_ok(v->open(&setup, &device));
    fake->fail_symbol = "cuModuleLoadDataEx", fake->fail_at = 1, fake->fail_code = 218;
    assert_false(v->round(device, &round));
    assert_false(v->round(device, &round)); /* and is not tried again */
    v->close(device);
    expect_ok(v->open(&null_setup, &device));
    assert_false(v->round(device, &round));
    v->close(device);
}

/* PoCL has neither a clock nor rates of its own, so what its child measures is all there is. */
static void trials_of_a_device_use_its_own_reference_kernel(void **state) {
    static served f;
    static kiln_target as_gpu;
    kiln_found_device device;
    kiln_golden golden;
    expect_ok(kiln_target_parse(KILN_STR("opencl:pocl"), *state, &as_gpu));
    served_open(&f, KILN_TARGET_OPENCL, &as_gpu);
    kiln_status st =
        kiln_find_device(f.helper, kiln_executor_find(KILN_STR("opencl")), 0, &f.arena, &device);
    if (st) {
        kiln_status_free(st); /* no device, or no driver */
        served_close(&f);
        skip_because("no OpenCL device: install pocl-opencl-icd");
    }
    assert_int_equal(kiln_supervisor_norm(f.supervisor, 0)->arithmetic.use, KILN_PART_UNKNOWN);
    expect_ok(kiln_golden_open(kiln_arena_printf(&f.arena, "%s/golden", f.folder), &device.target,
                               &f.arena, &golden));
    const kiln_msg_trial trial = kiln_golden_trial();
    for (int i = 0; i < 2; i++) {
        served_run(&f, &trial, golden.artefact, golden.reference);
        served_expect(&f, KILN_OUTCOME_OK, KILN_BLAME_NONE, "");
        assert_true(f.result.peak_flops > 0);
        const kiln_reference_kernel_norm *norm = kiln_supervisor_norm(f.supervisor, 0);
        assert_int_not_equal(norm->arithmetic.use, KILN_PART_UNKNOWN);
        assert_true(norm->arithmetic.usual_ns > 0 && norm->memory.usual_ns > 0);
    }
    served_close(&f);
}

int main(int argc, char **argv) {
    if (kiln_helper_is_asked(argc, argv)) kiln_helper_main(argc, argv);
    if (argc < 2) return 2;
    (void)setenv("KILN_CUDA_LIBRARY", argv[1], 1);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    fake = library ? dlsym(library, "fake_cuda_state") : NULL;
    if (!fake) return 2;
    fresh = *fake;
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_driver, arena_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_round_waits_until_the_clock_holds),
        TEST(peaks_are_those_of_each_operand_type),
        TEST(a_device_that_fails_has_no_reading),
        TEST(the_executor_goes_without_where_there_is_none),
        TEST(trials_of_a_device_use_its_own_reference_kernel),
    };
    return cmocka_run_group_tests_name("rpc-server/gpu_reference", tests, NULL, NULL);
}
