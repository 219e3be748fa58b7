/* A module whose kernels are for a device with memory of its own: everything lies there but inputs
 * and outputs, which are the caller's, and are copied before the first step and behind the last
 * one. What a loop asks of the processor (how often it runs, whether it goes on) is copied back
 * when it is needed, and the number of the iteration is copied there in each. Of an output that has
 * as many rows as a loop runs each row is copied out in its iteration: behind the last one there is
 * nothing to copy. */
#include "base/check.h"
#include "deploy/pack/packer.h"
#include "deploy/runtime/device.h"

#define THE_DEVICE 1u /* in the module's plan */

/* Where buffers are. The processor keeps ports, and what it looks at or writes itself: conditions
 * and numbers of loops. */
typedef struct moving {
    kiln_packer *p;
    const kiln_plan_step *step; /* [step_count] as they were */
    bool *kept;                 /* [buffers before] by the processor */
    bool *grows;     /* [buffers before] outputs of as many rows as a loop runs, and such rows */
    uint32_t *there; /* [buffers before] the one that the device's steps use */
} moving;

static bool is_port(const kiln_plan_buffer *buffer) {
    return buffer->storage == KILN_STORAGE_INPUT || buffer->storage == KILN_STORAGE_OUTPUT;
}

static uint32_t add_temp(kiln_packer *p, uint64_t size_bytes, uint32_t device) {
    const kiln_plan_buffer temp = {
        .storage = KILN_STORAGE_ARENA, .size_bytes = size_bytes, .device = device};
    kiln_vec_push_in(p->arena, &p->buffer, temp);
    return p->buffer.count - 1;
}

static void find_kept(moving *m, uint32_t step_count) {
    for (uint32_t i = 0; i < m->p->buffer.count; i++) m->kept[i] = is_port(&m->p->buffer.data[i]);
    for (uint32_t s = 0; s < step_count; s++) {
        const kiln_plan_step *step = &m->step[s];
        if (step->action != KILN_ACTION_LOOP) continue;
        if (step->condition != KILN_PLAN_NONE) m->kept[step->condition] = true;
        if (step->index != KILN_PLAN_NONE) m->kept[step->index] = true;
    }
}

static void find_growing(moving *m) {
    const kiln_packer *p = m->p;
    for (uint32_t i = 0; i < p->buffer.count; i++) {
        const kiln_plan_buffer *b = &p->buffer.data[kiln_packer_root(p, i)];
        m->grows[i] = b->storage == KILN_STORAGE_OUTPUT && b->source < p->graph->output.count &&
                      kiln_loop_grows(p->graph, p->graph->output.data[b->source]);
    }
}

/* Each buffer is on the device, or has a twin there; but what grows is the processor's alone. */
static void move_buffers(moving *m) {
    kiln_packer *p = m->p;
    const uint32_t count = p->buffer.count;
    for (uint32_t i = 0; i < count; i++) {
        m->there[i] = i;
        if (m->grows[i]) continue;
        if (m->kept[i])
            m->there[i] = add_temp(p, p->buffer.data[i].size_bytes, THE_DEVICE);
        else
            p->buffer.data[i].device = THE_DEVICE;
    }
    for (uint32_t i = 0; i < count; i++)
        if (p->buffer.data[i].storage == KILN_STORAGE_ALIAS)
            p->buffer.data[i].source = m->there[p->buffer.data[i].source];
}

static void add_copy(kiln_packer *p, kiln_str name, uint32_t from, uint32_t to) {
    kiln_packer_add_move(p, KILN_ACTION_COPY, name, from, to);
    kiln_vec_last(&p->level[0]).device =
        KILN_MAX(p->buffer.data[from].device, p->buffer.data[to].device);
}

static void add_event_for(kiln_packer *p, kiln_str name, uint32_t step) {
    kiln_packer_add_step(p, (kiln_plan_step){.action = KILN_ACTION_EVENT,
                                             .name = name,
                                             .op = KILN_STR("event"),
                                             .device = THE_DEVICE,
                                             .after = step});
}

static void add_event(kiln_packer *p, kiln_str name) {
    add_event_for(p, name, p->level[0].count - 1);
}

/* For the last step of the device that is in no loop. None: there is nothing to wait for. */
static void add_last_event(kiln_packer *p, kiln_str name) {
    uint32_t last = KILN_PLAN_NONE;
    for (uint32_t s = 0; s < p->level[0].count; s++) {
        const kiln_plan_step *step = &p->level[0].data[s];
        if (step->action == KILN_ACTION_LOOP) s += step->body_count;
        if (step->device == THE_DEVICE && step->action != KILN_ACTION_EVENT) last = s;
    }
    if (last != KILN_PLAN_NONE) add_event_for(p, name, last);
}

/* A buffer of the processor with what was in `from` before everything moved. */
static uint32_t bring_back(moving *m, kiln_str name, uint32_t from) {
    if (m->kept[from]) return from;
    uint32_t to = add_temp(m->p, m->p->buffer.data[from].size_bytes, 0);
    add_copy(m->p, name, from, to);
    add_event(m->p, name);
    return to;
}

/* A row to where it is stacked. */
static void copy_out(moving *m, const kiln_plan_step *step) {
    const uint32_t from = step->arg[0];
    if (m->kept[from]) {
        kiln_packer_add_move(m->p, step->action, step->name, from, step->arg[1]);
        return;
    }
    add_copy(m->p, step->name, from, step->arg[1]);
    add_event(m->p, step->name);
}

static void move_step(moving *m, const kiln_plan_step *step) {
    kiln_plan_step moved = *step;
    if (step->action == KILN_ACTION_COPY && m->grows[step->arg[1]]) {
        copy_out(m, step);
        return;
    }
    bool to_kept = (step->action == KILN_ACTION_COPY || step->action == KILN_ACTION_CARRY) &&
                   m->kept[step->arg[1]] && !is_port(&m->p->buffer.data[step->arg[1]]);
    if (to_kept) { /* a condition */
        uint32_t from = bring_back(m, step->name, step->arg[0]);
        kiln_packer_add_move(m->p, step->action, step->name, from, step->arg[1]);
        return;
    }
    uint32_t *arg = KILN_ARENA_ARRAY(m->p->arena, uint32_t, step->arg_count);
    for (uint32_t i = 0; i < step->arg_count; i++) arg[i] = m->there[step->arg[i]];
    moved.arg = arg;
    moved.device = THE_DEVICE;
    kiln_packer_add_step(m->p, moved);
}

static void move_steps(moving *m, uint32_t begin, uint32_t end);

static void move_loop(moving *m, uint32_t index) {
    kiln_plan_step loop = m->step[index];
    if (loop.count != KILN_PLAN_NONE) loop.count = bring_back(m, loop.name, loop.count);
    kiln_packer_add_step(m->p, loop);
    const uint32_t at = m->p->level[0].count;
    if (loop.index != KILN_PLAN_NONE) add_copy(m->p, loop.name, loop.index, m->there[loop.index]);
    move_steps(m, index + 1, index + 1 + loop.body_count);
    m->p->level[0].data[at - 1].body_count = m->p->level[0].count - at;
}

static void move_steps(moving *m, uint32_t begin, uint32_t end) {
    for (uint32_t s = begin; s < end; s++) {
        if (m->step[s].action == KILN_ACTION_LOOP) {
            move_loop(m, s);
            s += m->step[s].body_count;
        } else {
            move_step(m, &m->step[s]);
        }
    }
}

static void copy_ports(moving *m, kiln_module_storage storage, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (m->p->buffer.data[i].storage != storage || m->grows[i]) continue;
        if (storage == KILN_STORAGE_INPUT)
            add_copy(m->p, KILN_STR("input"), i, m->there[i]);
        else
            add_copy(m->p, KILN_STR("output"), m->there[i], i);
    }
}

void kiln_packer_find_device(kiln_packer *p) {
    const kiln_device_row *row = kiln_device_row_for(kiln_payload_of(p->target->kind));
    p->alignment = KILN_KERNEL_ALIGNMENT;
    if (!row || row->memory == KILN_MEMORY_HOST || p->options->as_c) return;
    p->device_kind = (uint32_t)row->kind;
    p->alignment = kiln_memory_row_of(row->memory)->alignment;
}

void kiln_packer_move_to_device(kiln_packer *p) {
    if (p->kernel.count == 0) p->device_kind = 0; /* what only moves bytes is done here */
    if (!p->device_kind) return;
    const uint32_t count = p->buffer.count, step_count = p->level[0].count;
    moving m = {.p = p,
                .step = p->level[0].data,
                .kept = KILN_ARENA_ARRAY(p->arena, bool, count),
                .grows = KILN_ARENA_ARRAY(p->arena, bool, count),
                .there = KILN_ARENA_ARRAY(p->arena, uint32_t, count)};
    find_kept(&m, step_count);
    find_growing(&m);
    move_buffers(&m);
    KILN_CHECK(p->depth == 0);
    p->level[0].data = NULL;
    p->level[0].count = p->level[0].capacity = 0;
    copy_ports(&m, KILN_STORAGE_INPUT, count);
    move_steps(&m, 0, step_count);
    copy_ports(&m, KILN_STORAGE_OUTPUT, count);
    add_last_event(p, KILN_STR("outputs"));
}
