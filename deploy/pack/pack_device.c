/* A module whose kernels are for a device with memory of its own: everything lies there but inputs
 * and outputs, which are the caller's, and are copied before the first step and behind the last
 * one. */
#include "base/check.h"
#include "deploy/pack/packer.h"
#include "deploy/runtime/device.h"

#define THE_DEVICE 1u /* in the module's plan */

/* What only the processor can look at would have to be copied back in each iteration. */
static kiln_status check_loops(const kiln_packer *p) {
    for (uint32_t s = 0; s < p->level[0].count; s++) {
        const kiln_plan_step *step = &p->level[0].data[s];
        if (step->action == KILN_ACTION_LOOP &&
            (step->count != KILN_PLAN_NONE || step->condition != KILN_PLAN_NONE ||
             step->index != KILN_PLAN_NONE))
            return KILN_ERROR(UNIMPLEMENTED,
                              "loop %.*s, whose length or number is computed, on a device with "
                              "memory of its own",
                              KILN_STR_ARG(step->name));
    }
    return KILN_OK;
}

static bool is_port(const kiln_plan_buffer *buffer) {
    return buffer->storage == KILN_STORAGE_INPUT || buffer->storage == KILN_STORAGE_OUTPUT;
}

/* Each buffer is on the device, or has a twin there: [buffers] the one that steps use. */
static const uint32_t *move_buffers(kiln_packer *p) {
    const uint32_t count = p->buffer.count;
    uint32_t *there = KILN_ARENA_ARRAY(p->arena, uint32_t, count);
    for (uint32_t i = 0; i < count; i++) {
        there[i] = i;
        if (is_port(&p->buffer.data[i])) {
            there[i] = p->buffer.count;
            kiln_vec_push_in(p->arena, &p->buffer,
                             ((kiln_plan_buffer){.storage = KILN_STORAGE_ARENA,
                                                 .size_bytes = p->buffer.data[i].size_bytes,
                                                 .device = THE_DEVICE}));
        } else {
            p->buffer.data[i].device = THE_DEVICE;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        if (p->buffer.data[i].storage == KILN_STORAGE_ALIAS)
            p->buffer.data[i].source = there[p->buffer.data[i].source];
    return there;
}

static void move_step(kiln_packer *p, const kiln_plan_step *step, const uint32_t *there) {
    kiln_plan_step moved = *step;
    uint32_t *arg = KILN_ARENA_ARRAY(p->arena, uint32_t, step->arg_count);
    for (uint32_t i = 0; i < step->arg_count; i++) arg[i] = there[step->arg[i]];
    moved.arg = arg;
    moved.device = step->action == KILN_ACTION_LOOP ? 0 : THE_DEVICE;
    kiln_packer_add_step(p, moved);
}

static void copy_ports(kiln_packer *p, kiln_module_storage storage, uint32_t count,
                       const uint32_t *there) {
    for (uint32_t i = 0; i < count; i++) {
        if (p->buffer.data[i].storage != storage) continue;
        bool in = storage == KILN_STORAGE_INPUT;
        kiln_packer_add_move(p, KILN_ACTION_COPY, in ? KILN_STR("input") : KILN_STR("output"),
                             in ? i : there[i], in ? there[i] : i);
        kiln_vec_last(&p->level[0]).device = THE_DEVICE;
    }
}

void kiln_packer_find_device(kiln_packer *p) {
    const kiln_device_row *row = kiln_device_row_for(kiln_payload_of(p->target->kind));
    p->alignment = KILN_KERNEL_ALIGNMENT;
    if (!row || row->memory == KILN_MEMORY_HOST) return;
    p->device_kind = (uint32_t)row->kind;
    p->alignment = kiln_memory_row_of(row->memory)->alignment;
}

kiln_status kiln_packer_move_to_device(kiln_packer *p) {
    if (p->kernel.count == 0) p->device_kind = 0; /* what only moves bytes is done here */
    if (!p->device_kind) return KILN_OK;
    kiln_status st = check_loops(p);
    if (st) return st;
    const uint32_t count = p->buffer.count, step_count = p->level[0].count;
    const kiln_plan_step *step = p->level[0].data;
    const uint32_t *there = move_buffers(p);
    KILN_CHECK(p->depth == 0);
    p->level[0].data = NULL;
    p->level[0].count = p->level[0].capacity = 0;
    copy_ports(p, KILN_STORAGE_INPUT, count, there);
    for (uint32_t s = 0; s < step_count; s++) move_step(p, &step[s], there);
    copy_ports(p, KILN_STORAGE_OUTPUT, count, there);
    kiln_packer_add_step(p, (kiln_plan_step){.action = KILN_ACTION_EVENT,
                                             .name = KILN_STR("outputs"),
                                             .op = KILN_STR("event"),
                                             .device = THE_DEVICE,
                                             .after = p->level[0].count - 1});
    return KILN_OK;
}
