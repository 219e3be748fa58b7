#include "cli/common/roofline.h"

#include <string.h>

#include "base/macros.h"
#include "deploy/runtime/device.h"
#include "deploy/runtime/peak.h"

#define MEMORY_BYTES ((size_t)128 << 20) /* more than caches of one core's share hold */

kiln_status kiln_roofline_measure(kiln_arena *arena, kiln_roofline *out) {
    kiln_target native;
    kiln_arena scratch;
    kiln_status st = kiln_target_native(arena, &native);
    if (st) return st;
    kiln_arena_init(&scratch, 0);
    char *memory = kiln_arena_alloc_aligned(&scratch, 64, MEMORY_BYTES);
    memset(memory, 1, MEMORY_BYTES); /* pages of their own: untouched ones are all the same page */
    size_t cached = native.l2_bytes ? native.l2_bytes / 2 : 0;
    *out = (kiln_roofline){.peak_flops = kiln_peak_flops(),
                           .memory_bytes = kiln_peak_read(memory, MEMORY_BYTES),
                           .cache_bytes = cached ? kiln_peak_read(memory, cached) : 0,
                           .l2_bytes = native.l2_bytes,
                           .memory_of = "this machine"};
    kiln_arena_deinit(&scratch);
    return KILN_OK;
}

/* Of the first input. */
static kiln_dtype operand_type(const kiln_program *te) {
    kiln_dtype dtype = KILN_F32;
    for (uint32_t i = te ? te->buffer.count : 0; i-- > 1;)
        if (te->buffer.data[i].role == KILN_ROLE_INPUT) dtype = te->buffer.data[i].dtype;
    return dtype;
}

static double multiply_adds_of(const kiln_gpu *gpu, const kiln_program *te) {
    const kiln_dtype dtype = operand_type(te);
    const double tensor = dtype == KILN_F32 ? 0 : gpu->tensor_multiply_adds[dtype],
                 rate = KILN_MAX(gpu->multiply_adds[dtype], tensor);
    return rate > 0 ? rate : gpu->multiply_adds[KILN_F32]; /* computed in f32 */
}

kiln_status kiln_roofline_of(const kiln_target *target, const kiln_program *te, kiln_arena *arena,
                             kiln_roofline *out) {
    const kiln_device_row *device = kiln_device_row_for(kiln_payload_of(target->kind));
    const kiln_gpu *gpu = target->gpu;
    if (device && device->counts) {
        *out = (kiln_roofline){.memory_of = device->name};
        return KILN_OK;
    }
    if (!gpu || gpu->is_cpu) return kiln_roofline_measure(arena, out);
    *out =
        (kiln_roofline){.peak_flops = 2 * multiply_adds_of(gpu, te) * target->cores * gpu->clock_hz,
                        .memory_bytes = gpu->memory_rate,
                        .cache_bytes = gpu->l2_rate,
                        .l2_bytes = target->l2_bytes,
                        .memory_of = kiln_arena_printf(arena, "the row %s", gpu->name)};
    return KILN_OK;
}

/* Algorithms of other precisions round what they multiply, so they may use tensor cores. */
static bool computes_in_f32(const kiln_db_record *record, const kiln_program *te) {
    const kiln_algorithm algorithm = kiln_algorithm_find(record->algorithm);
    return te && operand_type(te) == KILN_F32 && algorithm < KILN_ALGORITHM_COUNT &&
           kiln_algorithm_precision(algorithm) == KILN_PRECISION_F32;
}

double kiln_roofline_peak_of(const kiln_db_record *record, const kiln_target *target,
                             const kiln_program *te) {
    const double told = record->peak_flops;
    if (!target->gpu || !computes_in_f32(record, te)) return told;
    const double vectors = kiln_gpu_vector_peak_flops(target->gpu, KILN_F32);
    return vectors > 0 ? KILN_MIN(told, vectors) : told;
}

double kiln_program_argument_bytes(const kiln_program *te) {
    double bytes = 0;
    for (uint32_t i = 1; i < te->buffer.count; i++) {
        const kiln_buffer_info *buffer = &te->buffer.data[i];
        if (buffer->role != KILN_ROLE_TEMP)
            bytes +=
                (double)kiln_shape_count(&buffer->shape) * (double)kiln_dtype_size(buffer->dtype);
    }
    return bytes;
}

double kiln_roof(const kiln_roofline *machine, double intensity, kiln_bound *out_bound) {
    double memory = intensity * machine->memory_bytes;
    bool both = machine->peak_flops > 0 && machine->memory_bytes > 0;
    *out_bound = !both                          ? KILN_BOUND_UNKNOWN
                 : memory < machine->peak_flops ? KILN_BOUND_MEMORY
                                                : KILN_BOUND_ARITHMETIC;
    return *out_bound == KILN_BOUND_MEMORY ? memory : machine->peak_flops;
}
