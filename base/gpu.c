#include "base/gpu.h"

#include <math.h>

#include "base/check.h"
#include "base/macros.h"

static const kiln_gpu gpu_table[] = {
#define X(name_, is_cpu_, capability_, features_, warp_, unit_threads_, unit_groups_,           \
          unit_registers_, thread_registers_, group_threads_, group_shared, static_shared,      \
          unit_shared, reserved_shared, load, units_, clock_mhz, l2_kib, memory_mib, memory_gb, \
          l2_gb, shared, issue_, launch, f64, f32, f16, bf16, i32, i8, special_, tensor_f64,    \
          tensor_f32, tensor_f16, tensor_i8, tensor_percent)                                    \
    {.name = name_,                                                                             \
     .features = features_,                                                                     \
     .is_cpu = is_cpu_,                                                                         \
     .capability = capability_,                                                                 \
     .warp = warp_,                                                                             \
     .units = units_,                                                                           \
     .unit_threads = unit_threads_,                                                             \
     .unit_groups = unit_groups_,                                                               \
     .unit_registers = unit_registers_,                                                         \
     .unit_shared_bytes = unit_shared,                                                          \
     .thread_registers = thread_registers_,                                                     \
     .group_threads = group_threads_,                                                           \
     .group_shared_bytes = group_shared,                                                        \
     .static_shared_bytes = static_shared,                                                      \
     .reserved_shared_bytes = reserved_shared,                                                  \
     .load_bytes = load,                                                                        \
     .l2_bytes = (uint64_t)(l2_kib) << 10,                                                      \
     .memory_bytes = (uint64_t)(memory_mib) << 20,                                              \
     .clock_hz = clock_mhz * 1e6,                                                               \
     .memory_rate = memory_gb * 1e9,                                                            \
     .l2_rate = l2_gb * 1e9,                                                                    \
     .shared_rate = shared,                                                                     \
     .issue = issue_,                                                                           \
     .launch_ns = launch,                                                                       \
     .multiply_adds = {[KILN_F64] = f64,                                                        \
                       [KILN_F32] = f32,                                                        \
                       [KILN_F16] = f16,                                                        \
                       [KILN_BF16] = bf16,                                                      \
                       [KILN_I32] = i32,                                                        \
                       [KILN_U32] = i32,                                                        \
                       [KILN_I8] = i8,                                                          \
                       [KILN_U8] = i8},                                                         \
     .tensor_multiply_adds = {[KILN_F64] = tensor_f64,                                          \
                              [KILN_F32] = tensor_f32,                                          \
                              [KILN_F16] = tensor_f16,                                          \
                              [KILN_BF16] = tensor_f16,                                         \
                              [KILN_I8] = tensor_i8,                                            \
                              [KILN_U8] = tensor_i8},                                           \
     .tensor_share = (tensor_percent) / 100.0,                                                  \
     .special = special_,                                                                       \
     .is_generic = name_[0] == 's' && name_[1] == 'm' && name_[2] == '_'},
#include "base/gpus.def"
#undef X
};

const kiln_gpu *kiln_gpu_find(kiln_str name) {
    for (uint32_t i = 0; i < kiln_gpu_count(); i++)
        if (kiln_str_is(name, gpu_table[i].name)) return &gpu_table[i];
    return NULL;
}

uint32_t kiln_gpu_count(void) { return KILN_ARRAY_COUNT(gpu_table); }

const kiln_gpu *kiln_gpu_at(uint32_t index) {
    KILN_CHECK(index < kiln_gpu_count());
    return &gpu_table[index];
}

/* Whether `row` may be the device that `gpu` describes. */
static bool may_be(const kiln_gpu *gpu, const kiln_gpu *row) {
    return row == gpu || (gpu->is_generic && row->capability == gpu->capability);
}

/* Most products per cycle and unit, of the type or of any (NONE). */
static double most_products(const kiln_gpu *gpu, kiln_dtype dtype, bool tensor) {
    double most = 0;
    for (uint32_t i = 0; i < KILN_DTYPE_COUNT; i++)
        if (dtype == KILN_DTYPE_NONE || dtype == (kiln_dtype)i)
            most =
                fmax(most, fmax(gpu->multiply_adds[i], tensor ? gpu->tensor_multiply_adds[i] : 0));
    return most;
}

static double peak_flops(const kiln_gpu *gpu, kiln_dtype dtype, bool tensor) {
    double most = 0;
    for (uint32_t i = 0; gpu->capability && i < kiln_gpu_count(); i++) {
        const kiln_gpu *row = &gpu_table[i];
        if (may_be(gpu, row))
            most = fmax(most, 2 * most_products(row, dtype, tensor) * row->units * row->clock_hz);
    }
    return most;
}

double kiln_gpu_peak_flops(const kiln_gpu *gpu, kiln_dtype dtype) {
    return peak_flops(gpu, dtype, true);
}

double kiln_gpu_vector_peak_flops(const kiln_gpu *gpu, kiln_dtype dtype) {
    return peak_flops(gpu, dtype, false);
}

double kiln_gpu_peak_bytes(const kiln_gpu *gpu) {
    double most = 0;
    for (uint32_t i = 0; gpu->capability && i < kiln_gpu_count(); i++)
        if (may_be(gpu, &gpu_table[i])) most = fmax(most, gpu_table[i].memory_rate);
    return most;
}
