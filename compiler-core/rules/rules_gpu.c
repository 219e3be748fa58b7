/* The rules for GPUs. */
#include "base/macros.h"
#include "compiler-core/rules/gpu.h"

/* Devices simulated in software have no row in gpus.def: they are treated as a GPU that runs a few
 * groups at once. */
static const kiln_gpu software = {
    .warp = 1,
    .units = 4,
    .unit_threads = 1024,
    .unit_groups = 1,
    .unit_registers = 65536,
    .unit_shared_bytes = 1 << 20,
    .thread_registers = 255,
    .load_bytes = 4,
    .clock_hz = 1e9,
    .memory_rate = 16e9,
    .l2_rate = 16e9,
    .shared_rate = 16,
    .issue = 4,
};

kiln_gpu_limits kiln_gpu_limits_of(const kiln_target *target) {
    const kiln_gpu *gpu = target->gpu ? target->gpu : &software;
    return (kiln_gpu_limits){
        .threads = target->group_threads,
        .warp = gpu->warp,
        .shared_bytes = target->shared_bytes,
        .registers = gpu->thread_registers,
        .fetch_bytes = KILN_MIN(target->vector_bytes, 16),
        .units = gpu->units,
        .unit_threads = gpu->unit_threads,
        .unit_groups = gpu->unit_groups,
        .unit_shared_bytes = KILN_MAX(gpu->unit_shared_bytes, target->shared_bytes),
        .unit_registers = gpu->unit_registers,
        .reserved_bytes = gpu->reserved_shared_bytes,
        .issue = gpu->issue,
        /* Most copied bytes come from the L2. */
        .copy_rate = gpu->l2_rate * KILN_GPU_L2_SHARE / gpu->clock_hz / gpu->units,
    };
}

static const kiln_rule rules[] = {
    {"warp", KILN_ARRAY_COUNT(kiln_gpu_tile_option), kiln_gpu_tile_option, kiln_sketch_gpu_warp},
    {"tile", 1, kiln_gpu_tile_option, kiln_sketch_gpu_tile}, /* without the last options */
    {"rows", 0, NULL, kiln_sketch_gpu_rows},
    {"spread", 0, NULL, kiln_sketch_gpu_spread},
};
const kiln_rule_set kiln_rules_gpu = {KILN_ARRAY_COUNT(rules), rules};
