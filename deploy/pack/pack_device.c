/* A module with kernels for a device that has its own memory. Values lie there, except inputs and
 * outputs, which are the caller's, counts and conditions of loops, which the processor reads, and
 * results of kernels on the device's host (compiler-core/layout). Each step runs where its results
 * lie; operands that are not there are copied before it, once for all steps in the same loops.
 * Inputs are copied before the first step, and outputs of the device behind the last one. An output
 * with one row per iteration of a loop is copied out row by row in the iterations, not at the
 * end. */
#include "base/check.h"
#include "deploy/pack/packer.h"
#include "deploy/runtime/device.h"

#define THE_DEVICE 1u /* in the module's plan */
#define NOWHERE UINT32_MAX

/* Where an original buffer is now: itself, or another buffer with its bytes. */
typedef struct home {
    bool kept;      /* the processor's, with a twin on the device: ports, conditions and numbers of
                       loops */
    bool is_hosts;  /* only on the processor: results of the host's kernels, or operands that only
                     * they read */
    bool grows;     /* the same for outputs with one row per iteration of a loop, and such rows */
    uint32_t there; /* for steps of the device; NOWHERE: it has not been copied there */
    uint32_t here;  /* for steps of the processor; the same */
} home;

typedef struct moving {
    kiln_packer *p;
    const kiln_plan_step *step; /* [step_count] as they were */
    uint32_t step_count;
    uint32_t count;              /* buffers before */
    home *of;                    /* [count] */
    KILN_VEC(uint32_t *) copied; /* places made by copies in open bodies */
} moving;

static bool is_port(const kiln_plan_buffer *buffer) {
    return buffer->storage == KILN_STORAGE_INPUT || buffer->storage == KILN_STORAGE_OUTPUT;
}

static bool is_of_host(const kiln_packer *p, const kiln_plan_step *step) {
    return step->action == KILN_ACTION_KERNEL && p->on_host.data[step->kernel];
}

static uint32_t add_buffer(kiln_packer *p, kiln_plan_buffer buffer) {
    kiln_vec_push_in(p->arena, &p->buffer, buffer);
    return p->buffer.count - 1;
}

static uint32_t add_temp(kiln_packer *p, uint64_t size_bytes, uint32_t device) {
    return add_buffer(p, (kiln_plan_buffer){.storage = KILN_STORAGE_ARENA,
                                            .size_bytes = size_bytes,
                                            .device = device});
}

/* ---- where buffers are ----------------------------------------------------------------------- */

static void find_kept(moving *m) {
    for (uint32_t i = 0; i < m->count; i++) m->of[i].kept = is_port(&m->p->buffer.data[i]);
    for (uint32_t s = 0; s < m->step_count; s++) {
        const kiln_plan_step *step = &m->step[s];
        if (step->action != KILN_ACTION_LOOP) continue;
        if (step->condition != KILN_PLAN_NONE) m->of[step->condition].kept = true;
        if (step->index != KILN_PLAN_NONE) m->of[step->index].kept = true;
    }
}

static home *root_of(moving *m, uint32_t buffer) { return &m->of[kiln_packer_root(m->p, buffer)]; }

/* Results of the host's kernels, and outputs that these are copied to. */
static void find_computed(moving *m) {
    for (uint32_t s = 0; s < m->step_count; s++) {
        const kiln_plan_step *step = &m->step[s];
        for (uint32_t i = step->arg_count - step->output_count;
             is_of_host(m->p, step) && i < step->arg_count; i++)
            root_of(m, step->arg[i])->is_hosts = true;
        if (step->action == KILN_ACTION_COPY && is_port(&m->p->buffer.data[step->arg[1]]))
            m->of[step->arg[1]].is_hosts = root_of(m, step->arg[0])->is_hosts;
    }
}

/* Inputs and constants that only the host's kernels read. */
static void find_read(moving *m) {
    bool *host = KILN_ARENA_ARRAY(m->p->arena, bool, m->count);
    bool *device = KILN_ARENA_ARRAY(m->p->arena, bool, m->count);
    for (uint32_t s = 0; s < m->step_count; s++) {
        const kiln_plan_step *step = &m->step[s];
        for (uint32_t i = 0; step->action != KILN_ACTION_ALIAS && i < step->arg_count; i++)
            (is_of_host(m->p, step) ? host : device)[kiln_packer_root(m->p, step->arg[i])] = true;
    }
    for (uint32_t i = 0; i < m->count; i++) {
        const kiln_module_storage storage = m->p->buffer.data[i].storage;
        m->of[i].is_hosts |= (storage == KILN_STORAGE_INPUT || storage == KILN_STORAGE_CONSTANT) &&
                             host[i] && !device[i];
    }
}

static void find_growing(moving *m) {
    const kiln_packer *p = m->p;
    for (uint32_t i = 0; i < m->count; i++) {
        const kiln_plan_buffer *b = &p->buffer.data[kiln_packer_root(p, i)];
        m->of[i].grows = b->storage == KILN_STORAGE_OUTPUT && b->source < p->graph->output.count &&
                         kiln_loop_grows(p->graph, p->graph->output.data[b->source]);
    }
}

/* Moves every buffer that is not only the processor's to the device, or gives it a twin there. */
static void move_buffers(moving *m) {
    kiln_packer *p = m->p;
    for (uint32_t i = 0; i < m->count; i++) {
        home *of = &m->of[i];
        of->is_hosts = root_of(m, i)->is_hosts;
        of->there = of->grows ? i : NOWHERE;
        of->here = of->is_hosts || of->grows ? i : NOWHERE;
        if (of->is_hosts || of->grows) continue;
        of->there = of->kept ? add_temp(p, p->buffer.data[i].size_bytes, THE_DEVICE) : i;
        if (!of->kept)
            p->buffer.data[i].device = THE_DEVICE;
        else if (p->buffer.data[i].storage != KILN_STORAGE_OUTPUT)
            of->here = i;
    }
    for (uint32_t i = 0; i < m->count; i++)
        if (p->buffer.data[i].storage == KILN_STORAGE_ALIAS && !m->of[i].is_hosts)
            p->buffer.data[i].source = m->of[p->buffer.data[i].source].there;
}

/* ---- copies ---------------------------------------------------------------------------------- */

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

/* Waits for the last step of the device outside loops, if there is one. */
static void add_last_event(kiln_packer *p, kiln_str name) {
    uint32_t last = KILN_PLAN_NONE;
    for (uint32_t s = 0; s < p->level[0].count; s++) {
        const kiln_plan_step *step = &p->level[0].data[s];
        if (step->action == KILN_ACTION_LOOP) s += step->body_count;
        if (step->device == THE_DEVICE && step->action != KILN_ACTION_EVENT) last = s;
    }
    if (last != KILN_PLAN_NONE) add_event_for(p, name, last);
}

static void note_copied(moving *m, uint32_t *place, uint32_t buffer) {
    *place = buffer;
    kiln_vec_push_in(m->p->arena, &m->copied, place);
}

/* A buffer of the device with the bytes of the original buffer `from`. */
static uint32_t bring_there(moving *m, kiln_str name, uint32_t from) {
    home *of = &m->of[from];
    if (of->there != NOWHERE) return of->there;
    const uint32_t to = add_temp(m->p, m->p->buffer.data[from].size_bytes, THE_DEVICE);
    add_copy(m->p, name, of->here, to);
    note_copied(m, &of->there, to);
    return to;
}

/* The same for the processor. Constants are in the module's file, for both. */
static uint32_t bring_back(moving *m, kiln_str name, uint32_t from) {
    kiln_packer *p = m->p;
    home *of = &m->of[from];
    if (of->here != NOWHERE) return of->here;
    kiln_plan_buffer own = p->buffer.data[from];
    own.device = 0;
    if (own.storage == KILN_STORAGE_CONSTANT) return of->here = add_buffer(p, own);
    const uint32_t to = add_temp(p, own.size_bytes, 0);
    add_copy(p, name, of->there, to);
    add_event(p, name);
    note_copied(m, &of->here, to);
    return to;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Whether the step runs on the processor: kernels and copies run where their results lie, an alias
 * where its buffer lies. */
static bool is_done_here(const moving *m, const kiln_plan_step *step) {
    const uint32_t last = step->arg[step->arg_count - 1];
    const home *of = &m->of[last];
    if (step->action == KILN_ACTION_KERNEL) return is_of_host(m->p, step);
    return of->is_hosts || of->grows || (of->kept && !is_port(&m->p->buffer.data[last]));
}

static void move_step(moving *m, const kiln_plan_step *step) {
    kiln_packer *p = m->p;
    const bool here = is_done_here(m, step);
    if (step->action == KILN_ACTION_COPY && here && m->of[step->arg[1]].grows &&
        m->of[step->arg[0]].here == NOWHERE) { /* a row is copied to its place in the stack */
        add_copy(p, step->name, m->of[step->arg[0]].there, step->arg[1]);
        add_event(p, step->name);
        return;
    }
    kiln_plan_step moved = *step;
    uint32_t *arg = KILN_ARENA_ARRAY(p->arena, uint32_t, step->arg_count);
    for (uint32_t i = 0; i < step->arg_count; i++) {
        const home *of = &m->of[step->arg[i]];
        if (i < step->arg_count - step->output_count)
            arg[i] = (here ? bring_back : bring_there)(m, step->name, step->arg[i]);
        else
            arg[i] = here ? step->arg[i] : of->there;
        KILN_CHECK(arg[i] != NOWHERE);
    }
    moved.arg = arg;
    moved.device = here ? 0 : THE_DEVICE;
    kiln_packer_add_step(p, moved);
}

static void move_steps(moving *m, uint32_t begin, uint32_t end);

static void move_loop(moving *m, uint32_t index) {
    kiln_plan_step loop = m->step[index];
    if (loop.count != KILN_PLAN_NONE) loop.count = bring_back(m, loop.name, loop.count);
    kiln_packer_add_step(m->p, loop);
    const uint32_t at = m->p->level[0].count, copied = m->copied.count;
    if (loop.index != KILN_PLAN_NONE)
        add_copy(m->p, loop.name, loop.index, m->of[loop.index].there);
    move_steps(m, index + 1, index + 1 + loop.body_count);
    while (m->copied.count > copied) *m->copied.data[--m->copied.count] = NOWHERE;
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

static void copy_ports(moving *m, kiln_module_storage storage) {
    for (uint32_t i = 0; i < m->count; i++) {
        const home *of = &m->of[i];
        if (m->p->buffer.data[i].storage != storage || of->grows || of->is_hosts) continue;
        if (storage == KILN_STORAGE_INPUT)
            add_copy(m->p, KILN_STR("input"), i, of->there);
        else
            add_copy(m->p, KILN_STR("output"), of->there, i);
    }
}

void kiln_packer_find_device(kiln_packer *p) {
    const kiln_device_row *row = kiln_device_row_for(kiln_payload_of(p->target->kind));
    p->alignment = KILN_KERNEL_ALIGNMENT;
    if (!row || row->memory == KILN_MEMORY_HOST || p->options->as_c) return;
    p->device_kind = (uint32_t)row->kind;
    p->alignment = kiln_memory_row_of(row->memory)->alignment;
}

/* Whether a kernel is the device's. */
static bool needs_device(const kiln_packer *p) {
    for (uint32_t k = 0; k < p->kernel.count; k++)
        if (!p->on_host.data[k]) return true;
    return false;
}

void kiln_packer_move_to_device(kiln_packer *p) {
    if (!needs_device(p))
        p->device_kind = 0; /* a module that only moves bytes runs on the
                             * processor */
    if (!p->device_kind) return;
    moving m = {.p = p,
                .step = p->level[0].data,
                .step_count = p->level[0].count,
                .count = p->buffer.count,
                .of = KILN_ARENA_ARRAY(p->arena, home, p->buffer.count)};
    find_kept(&m);
    find_computed(&m);
    find_read(&m);
    find_growing(&m);
    move_buffers(&m);
    KILN_CHECK(p->depth == 0);
    p->level[0].data = NULL;
    p->level[0].count = p->level[0].capacity = 0;
    copy_ports(&m, KILN_STORAGE_INPUT);
    move_steps(&m, 0, m.step_count);
    copy_ports(&m, KILN_STORAGE_OUTPUT);
    add_last_event(p, KILN_STR("outputs"));
}
