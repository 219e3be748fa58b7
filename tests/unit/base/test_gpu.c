/* Rows of gpus.def agree with each other and with what the vendor publishes. */
#include "base/gpu.h"

#include <math.h>

#include "tests/support/test.h"

static const kiln_gpu *row(const char *name) {
    const kiln_gpu *gpu = kiln_gpu_find(kiln_str_from(name));
    assert_non_null(gpu);
    return gpu;
}

static void limits_of_a_group_are_within_those_of_a_unit(void **state) {
    (void)state;
    for (uint32_t i = 0; i < kiln_gpu_count(); i++) {
        const kiln_gpu *gpu = kiln_gpu_at(i);
        assert_ptr_equal(kiln_gpu_find(kiln_str_from(gpu->name)), gpu);
        assert_true(gpu->static_shared_bytes <= gpu->group_shared_bytes);
        assert_true(gpu->group_shared_bytes + gpu->reserved_shared_bytes <= gpu->unit_shared_bytes);
        assert_true(gpu->is_cpu || gpu->group_threads <= gpu->unit_threads);
        assert_true(gpu->warp && gpu->unit_threads % gpu->warp == 0);
        assert_true(gpu->load_bytes && (gpu->load_bytes & (gpu->load_bytes - 1)) == 0);
        assert_true(gpu->memory_bytes > gpu->l2_bytes && gpu->l2_rate > gpu->memory_rate);
        assert_true(gpu->multiply_adds[KILN_F32] > 0 && gpu->issue > 0 && gpu->clock_hz > 0);
        assert_true(gpu->tensor_share > 0.5 && gpu->tensor_share <= 1);
        /* No unit issues more multiply-adds of f32 than it has lanes for. */
        assert_true(gpu->is_cpu || gpu->multiply_adds[KILN_F32] <= gpu->issue * gpu->warp);
    }
    assert_null(kiln_gpu_find(KILN_STR("sm_10")));
}

/* The datasheets' TFLOP/s; tensor cores of Hopper come out 8 % higher (gpus.def). */
static void peaks_are_those_of_the_datasheets(void **state) {
    static const struct {
        const char *name;
        kiln_dtype dtype;
        double tera, slack;
    } of[] = {{"a100", KILN_F16, 312, 0.01},    {"a100", KILN_F32, 156, 0.01},
              {"a100", KILN_I8, 624, 0.01},     {"a100", KILN_F64, 19.5, 0.01},
              {"h200", KILN_BF16, 989.4, 0.09}, {"h100", KILN_I8, 1979, 0.09},
              {"h200", KILN_F64, 67, 0.01}};
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(of); i++) {
        const double tera = kiln_gpu_peak_flops(row(of[i].name), of[i].dtype) / 1e12;
        assert_true(tera > of[i].tera * 0.99 && tera < of[i].tera * (1 + of[i].slack));
    }
    /* Without tensor cores. */
    const kiln_gpu *h200 = row("h200"), *a100 = row("a100");
    assert_true(fabs(2 * h200->multiply_adds[KILN_F32] * h200->units * h200->clock_hz - 67e12) <
                0.2e12);
    assert_true(fabs(2 * a100->multiply_adds[KILN_F32] * a100->units * a100->clock_hz - 19.5e12) <
                0.1e12);
    assert_true(kiln_gpu_peak_flops(h200, KILN_DTYPE_NONE) == kiln_gpu_peak_flops(h200, KILN_I8));
}

static void an_unnamed_device_may_be_as_fast_as_any_of_its_capability(void **state) {
    (void)state;
    const kiln_gpu *generic = row("sm_90");
    assert_true(generic->is_generic && !row("h200")->is_generic);
    assert_true(kiln_gpu_peak_flops(generic, KILN_F32) ==
                kiln_gpu_peak_flops(row("h200"), KILN_F32));
    assert_true(kiln_gpu_peak_bytes(generic) == 4.8e12);
    assert_true(kiln_gpu_peak_bytes(row("h100")) < 4.8e12);
    assert_true(kiln_gpu_peak_flops(row("opencl"), KILN_F32) == 0); /* not known */
    assert_true(kiln_gpu_vector_peak_flops(row("opencl"), KILN_F32) == 0);
    assert_true(8 * kiln_gpu_vector_peak_flops(generic, KILN_F32) ==
                kiln_gpu_peak_flops(generic, KILN_F32));
    assert_true(kiln_gpu_peak_bytes(row("opencl")) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_of_a_group_are_within_those_of_a_unit),
        cmocka_unit_test(peaks_are_those_of_the_datasheets),
        cmocka_unit_test(an_unnamed_device_may_be_as_fast_as_any_of_its_capability),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
