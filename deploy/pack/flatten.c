#include "deploy/pack/flatten.h"

#include "base/hash.h"
#include "base/macros.h"
#include "base/map.h"

/* A flat plan under construction. */
typedef struct flattening {
    kiln_arena *arena;
    kiln_module_plan *plan;
    kiln_map kernels, constants; /* by the digest of their bytes: number in the plan */
    const uint32_t *kernel;      /* of the bucket that is being added: number in the plan */
    const uint32_t *buffer;
    uint32_t first_step;
} flattening;

/* The number of these bytes if they are known, or `next`. */
static uint32_t number_of(kiln_map *known, kiln_str bytes, uint32_t next) {
    uint64_t number = next;
    kiln_digest digest;
    kiln_digest_of(bytes.data, bytes.size, &digest);
    const kiln_str key = {(const char *)digest.byte, sizeof digest.byte};
    if (!kiln_map_find(known, key, &number)) (void)kiln_map_put(known, key, number);
    return (uint32_t)number;
}

static const uint32_t *add_kernels(flattening *f, const kiln_module_plan *from) {
    kiln_module_plan *to = f->plan;
    uint32_t *number = KILN_ARENA_ARRAY(f->arena, uint32_t, from->kernel_count + 1);
    for (uint32_t i = 0; i < from->kernel_count; i++) {
        number[i] = number_of(&f->kernels, from->kernel[i], to->kernel_count);
        if (number[i] == to->kernel_count) to->kernel[to->kernel_count++] = from->kernel[i];
    }
    return number;
}

static const uint32_t *add_buffers(flattening *f, const kiln_module_plan *from) {
    kiln_module_plan *to = f->plan;
    const uint32_t first = to->buffer_count;
    uint32_t *number = KILN_ARENA_ARRAY(f->arena, uint32_t, from->buffer_count + 1);
    for (uint32_t i = 0; i < from->buffer_count; i++) {
        const kiln_plan_buffer *b = &from->buffer[i];
        number[i] = to->buffer_count;
        if (b->storage == KILN_STORAGE_CONSTANT)
            number[i] = number_of(&f->constants, (kiln_str){b->data, (size_t)b->size_bytes},
                                  to->buffer_count);
        if (number[i] == to->buffer_count) to->buffer[to->buffer_count++] = *b;
    }
    for (uint32_t i = first; i < to->buffer_count; i++) { /* all numbers are known by now */
        kiln_plan_buffer *b = &to->buffer[i];
        if (b->storage == KILN_STORAGE_ALIAS) b->source = number[b->source];
        if (b->stride) b->loop += f->first_step;
    }
    return number;
}

static uint32_t buffer_of(const flattening *f, uint32_t buffer) {
    return buffer == KILN_PLAN_NONE ? KILN_PLAN_NONE : f->buffer[buffer];
}

static void add_step(flattening *f, const kiln_plan_step *from) {
    kiln_plan_step step = *from;
    uint32_t *arg = KILN_ARENA_ARRAY(f->arena, uint32_t, from->arg_count + 1);
    for (uint32_t i = 0; i < from->arg_count; i++) arg[i] = f->buffer[from->arg[i]];
    step.arg = arg;
    if (step.action == KILN_ACTION_KERNEL) step.kernel = f->kernel[from->kernel];
    if (step.action == KILN_ACTION_EVENT) step.after += f->first_step;
    if (step.action == KILN_ACTION_LOOP) {
        step.count = buffer_of(f, from->count);
        step.condition = buffer_of(f, from->condition);
        step.index = buffer_of(f, from->index);
    }
    f->plan->step[f->plan->step_count++] = step;
}

static kiln_plan_port *add_ports(const flattening *f, const kiln_plan_port *from, uint32_t count) {
    kiln_plan_port *port = KILN_ARENA_ARRAY(f->arena, kiln_plan_port, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        port[i] = from[i];
        port[i].buffer = f->buffer[from[i].buffer];
    }
    return port;
}

static kiln_flat_bucket add_bucket(flattening *f, const kiln_module_bucket *from) {
    const kiln_module_plan *plan = &from->plan;
    f->first_step = f->plan->step_count;
    f->kernel = add_kernels(f, plan);
    f->buffer = add_buffers(f, plan);
    for (uint32_t i = 0; i < plan->step_count; i++) add_step(f, &plan->step[i]);
    f->plan->arena_bytes = KILN_MAX(f->plan->arena_bytes, plan->arena_bytes);
    return (kiln_flat_bucket){.size = from->size,
                              .median_ns = from->median_ns,
                              .input = add_ports(f, plan->input, plan->input_count),
                              .output = add_ports(f, plan->output, plan->output_count),
                              .first_step = f->first_step,
                              .step_count = plan->step_count};
}

void kiln_flatten(const kiln_module_sizes *sizes, kiln_arena *arena, kiln_flat *out_flat) {
    uint32_t kernels = 0, buffers = 0, steps = 0;
    for (uint32_t i = 0; i < sizes->bucket_count; i++) {
        kernels += sizes->bucket[i].plan.kernel_count;
        buffers += sizes->bucket[i].plan.buffer_count;
        steps += sizes->bucket[i].plan.step_count;
    }
    kiln_flat flat = {.plan = sizes->bucket[0].plan,
                      .bucket_count = sizes->bucket_count,
                      .bucket = KILN_ARENA_ARRAY(arena, kiln_flat_bucket, sizes->bucket_count)};
    kiln_module_plan *plan = &flat.plan;
    plan->kernel = KILN_ARENA_ARRAY(arena, kiln_str, kernels + 1);
    plan->buffer = KILN_ARENA_ARRAY(arena, kiln_plan_buffer, buffers + 1);
    plan->step = KILN_ARENA_ARRAY(arena, kiln_plan_step, steps + 1);
    plan->kernel_count = plan->buffer_count = plan->step_count = 0;
    flattening f = {.arena = arena, .plan = plan};
    kiln_map_init(&f.kernels);
    kiln_map_init(&f.constants);
    for (uint32_t i = 0; i < sizes->bucket_count; i++)
        flat.bucket[i] = add_bucket(&f, &sizes->bucket[i]);
    kiln_map_deinit(&f.kernels);
    kiln_map_deinit(&f.constants);
    plan->input = flat.bucket[0].input;
    plan->output = flat.bucket[0].output;
    *out_flat = flat;
}
