#include "deploy/runtime/module_run.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/integer.h"
#include "base/map.h"
#include "deploy/format.h"
#include "deploy/runtime/kept_port.h"
#include "deploy/runtime/kernel.h"
#include "deploy/runtime/module_read.h"
#include "deploy/runtime/module_tensor.h"
#include "deploy/runtime/port_link.h"
#include "deploy/runtime/sequence.h"

#define OF_PROCESS 1 /* device_type */

/* A kernel argument that changes: the caller's memory with each run, a strided alias with each
 * iteration. */
typedef struct patch {
    uint32_t step, arg, buffer;
} patch;

typedef struct patches {
    patch *patch;
    uint32_t count;
} patches;

/* A device of the plan and the module's resources on it. Device 0 is the processor. */
typedef struct device {
    kiln_device *device;
    kiln_device_memory activations, packed, temps, constants;
    uint32_t event_count; /* number of events assigned so far */
} device;

/* Steps that a device has recorded. */
typedef struct recorded {
    kiln_sequence steps;
    void *recording; /* NULL: the steps are done one by one */
    bool moves;      /* an argument may lie in memory of the caller */
    bool is_due;     /* the memory of the last run differs from the recorded one */
} recorded;

/* The place of a root: in memory of a device, anywhere in the process, or in the caller's memory on
 * a device. */
typedef struct root_place {
    const kiln_device_memory *memory; /* NULL: at `data` or, where that is NULL too, `foreign` */
    uint64_t offset;
    uint8_t *data;
    kiln_device_place foreign;
    uint32_t device; /* the device of the memory */
} root_place;

/* The place of an input or output in a run: at `data` in the process, or on a device. */
typedef struct given {
    uint32_t device;
    void *data;
    kiln_device_place place;
} given;

/* An input or output of a run. */
typedef struct bound {
    uint32_t root;
    size_t size_bytes;
    uint8_t *stage; /* an aligned copy, if the caller's memory is unaligned or elsewhere */
    kiln_port_link link;
    kiln_host_memory near; /* made for the caller on request */
    root_place own;        /* the module's place of the buffer that the caller's memory replaces */
    kiln_kept_port *kept;  /* state of the module for this port; NULL: the caller's memory */
    given given;
} bound;

struct kiln_variant {
    kiln_arena arena; /* lives as long as the module */
    kiln_module_plan plan;
    uint32_t thread_count;
    kiln_pool *pool;                /* NULL with one thread */
    bool is_beside;                 /* the pool and kept state belong to another variant */
    kiln_services *services;        /* [thread_count]; n-1 for kernels that may use n threads */
    device *device;                 /* [device_count + 1] */
    kiln_kernel **kernel;           /* [kernel_count]; NULL if the module is only inspected */
    const kiln_manifest **manifest; /* [kernel_count] */
    kiln_call **call;               /* [step_count]; NULL for steps that call no kernel */
    bool *packs;                    /* [step_count] the first step with these constants: it packs */
    uint32_t *call_threads;         /* [step_count] */
    kiln_pages scratch, staging;
    root_place *place;        /* [buffer_count] by root; ports' are set at each run */
    bound *in, *out;          /* [input_count], [output_count] */
    bool *is_left_out;        /* [step_count] copies that this run does not need */
    patches moving, *strided; /* strided: [step_count], of loops */
    uint64_t *iteration; /* [step_count] of loops: the current iteration, or their number at the
                          * end */
    uint32_t *grown_by;  /* [output_count] the loop that decides how many rows it has */
    uint32_t *event;     /* [step_count] the event recorded after the step, plus 1; 0: none */
    recorded **recorded; /* [step_count] the recording that begins with the step; NULL: none */
    bool has_moving;     /* whether a recording has `moves` */
    kiln_module_port *input, *output;
    kiln_module_step *step;
    kiln_module_hook hook;
    void *hook_context;
    uint64_t step_device_ns;
    char error[KILN_MODULE_ERROR_BYTES];
};

/* ---- opening --------------------------------------------------------------------------------- */

/* The number of threads, at most that of the kernels: others would be idle. Needs the manifests.
 */
static uint32_t threads_used(const kiln_variant *m, uint32_t asked) {
    uint32_t most = m->plan.threads;
    for (uint32_t i = 0; i < m->plan.kernel_count; i++)
        most = KILN_MAX(most, m->manifest[i]->threads_max);
    return asked ? KILN_MIN(asked, most) : m->plan.threads;
}

static kiln_status start_threads(kiln_variant *m, const kiln_module_options *options,
                                 const kiln_variant *beside) {
    m->thread_count = threads_used(m, options ? options->threads : 0);
    m->is_beside = beside != NULL;
    if (beside) {
        m->thread_count = KILN_MIN(m->thread_count, beside->thread_count);
        m->pool = m->thread_count > 1 ? beside->pool : NULL;
    }
    if (m->thread_count == 1 || beside) return KILN_OK;
    kiln_pool_options pool = {.worker_count = m->thread_count,
                              .core = options ? options->core : NULL};
    return kiln_pool_create(&pool, &m->pool);
}

/* The device that each kernel is called on; the processor for one that no step calls. */
static uint32_t *find_kernel_devices(kiln_variant *m) {
    uint32_t *at = KILN_ARENA_ARRAY(&m->arena, uint32_t, m->plan.kernel_count);
    for (uint32_t i = 0; i < m->plan.step_count; i++)
        if (m->plan.step[i].action == KILN_ACTION_KERNEL)
            at[m->plan.step[i].kernel] = m->plan.step[i].device;
    return at;
}

/* The target of the first kernel on a device, which the device must have. */
static kiln_status find_wanted(const kiln_variant *m, const uint32_t *at, uint32_t number,
                               kiln_arena *arena, kiln_target *out_target, bool *out_found) {
    *out_found = false;
    for (uint32_t i = 0; i < m->plan.kernel_count; i++) {
        kiln_artefact artefact;
        if (at[i] != number) continue;
        kiln_status st = kiln_artefact_decode(m->plan.kernel[i], arena, &artefact);
        if (!st) st = kiln_target_parse(artefact.manifest.target, arena, out_target);
        *out_found = !st;
        return kiln_module_damage(kiln_status_note(st, "kernel %u", i));
    }
    return KILN_OK;
}

static kiln_status open_device(kiln_variant *m, const uint32_t *at, uint32_t number) {
    const kiln_plan_device *planned = &m->plan.device[number - 1];
    kiln_arena scratch;
    kiln_target wanted;
    bool found;
    kiln_arena_init(&scratch, 0);
    kiln_status st = find_wanted(m, at, number, &scratch, &wanted, &found);
    if (!st)
        st = kiln_device_open(
            (kiln_device_kind)planned->kind,
            &(kiln_device_setup){.index = planned->index, .wanted = found ? &wanted : NULL},
            &m->device[number].device);
    kiln_arena_deinit(&scratch);
    return st;
}

static kiln_status open_devices(kiln_variant *m, const uint32_t *at) {
    m->device = KILN_ARENA_ARRAY(&m->arena, device, m->plan.device_count + 1);
    kiln_status st = kiln_device_open(KILN_DEVICE_CPU, NULL, &m->device[0].device);
    for (uint32_t i = 1; !st && i <= m->plan.device_count; i++) st = open_device(m, at, i);
    return st;
}

static kiln_status load_kernels(kiln_variant *m, const uint32_t *at) {
    kiln_status st = KILN_OK;
    m->kernel = KILN_ARENA_ARRAY(&m->arena, kiln_kernel *, m->plan.kernel_count);
    for (uint32_t i = 0; !st && i < m->plan.kernel_count; i++) {
        st = kiln_status_note(
            kiln_kernel_load(m->plan.kernel[i], m->device[at[i]].device, &m->kernel[i]),
            "kernel %u", i);
        if (!st) m->manifest[i] = kiln_kernel_manifest(m->kernel[i]);
    }
    return kiln_module_damage(st);
}

/* Reads the manifests of kernels that are not loaded. */
static kiln_status read_manifests(kiln_variant *m) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < m->plan.kernel_count; i++) {
        kiln_artefact *artefact = KILN_ARENA_NEW(&m->arena, kiln_artefact);
        st = kiln_status_note(kiln_artefact_decode(m->plan.kernel[i], &m->arena, artefact),
                              "kernel %u", i);
        m->manifest[i] = &artefact->manifest;
    }
    return kiln_module_damage(st);
}

static uint32_t threads_of(const kiln_variant *m, const kiln_kernel *kernel) {
    return KILN_MIN(m->thread_count, kiln_kernel_manifest(kernel)->threads_max);
}

/* Makes scratch for the kernel that needs most, and a services table for each number of threads. */
static kiln_status create_services(kiln_variant *m) {
    size_t scratch_bytes = 0;
    for (uint32_t i = 0; i < m->plan.kernel_count; i++) {
        const kiln_manifest *manifest = kiln_kernel_manifest(m->kernel[i]);
        size_t wanted = kiln_services_scratch_bytes(manifest, threads_of(m, m->kernel[i]));
        scratch_bytes = KILN_MAX(scratch_bytes, wanted);
    }
    kiln_status st = kiln_pages_create(scratch_bytes, KILN_GUARD_NONE, &m->scratch);
    if (st) return kiln_status_note(st, "scratch");
    m->services = KILN_ARENA_ARRAY(&m->arena, kiln_services, m->thread_count);
    for (uint32_t i = 0; i < m->thread_count; i++)
        kiln_services_init(&m->services[i], m->pool, i + 1, m->scratch.data);
    return KILN_OK;
}

/* Gives each port an aligned place in the staging buffer; its untouched pages cost nothing. */
static bound *lay_out_stage(kiln_variant *m, const kiln_plan_port *planned, uint32_t count,
                            const kiln_port_link *link, size_t *size) {
    bound *made = KILN_ARENA_ARRAY(&m->arena, bound, count);
    for (uint32_t i = 0; i < count; i++) {
        made[i] = (bound){.root = planned[i].buffer,
                          .size_bytes = (size_t)m->plan.buffer[planned[i].buffer].size_bytes,
                          .stage = (uint8_t *)m->staging.data + *size,
                          .link = link[i]};
        *size += KILN_ALIGN_UP(made[i].size_bytes, KILN_KERNEL_ALIGNMENT);
    }
    return made;
}

/* Memory for values, and for the temps of the kernel with most of them, because kernels of a device
 * run one after another. */
static kiln_status create_arenas(kiln_variant *m) {
    const kiln_module_plan *plan = &m->plan;
    kiln_status st = KILN_OK;
    for (uint32_t d = 0; !st && d <= plan->device_count; d++) {
        device *on = &m->device[d];
        uint64_t arena_bytes = d == 0 ? plan->arena_bytes : plan->device[d - 1].arena_bytes;
        size_t temp_bytes = 0;
        for (uint32_t i = 0; i < plan->kernel_count; i++)
            if (kiln_kernel_device(m->kernel[i]) == on->device)
                temp_bytes = KILN_MAX(temp_bytes, kiln_kernel_temp_bytes(m->kernel[i]));
        st = kiln_device_allocate(on->device, (size_t)arena_bytes, KILN_GUARD_NONE,
                                  &on->activations);
        if (!st && temp_bytes > 0)
            st = kiln_device_allocate(on->device, temp_bytes, KILN_GUARD_NONE, &on->temps);
        if (st) return kiln_status_note(st, "activations on device %u", d);
    }
    return KILN_OK;
}

static kiln_status create_stages(kiln_variant *m) {
    const kiln_module_plan *plan = &m->plan;
    size_t bytes = 0, staged = 0;
    for (uint32_t i = 0; i < plan->input_count; i++)
        bytes += KILN_ALIGN_UP((size_t)plan->buffer[plan->input[i].buffer].size_bytes,
                               KILN_KERNEL_ALIGNMENT);
    for (uint32_t i = 0; i < plan->output_count; i++)
        bytes += KILN_ALIGN_UP((size_t)plan->buffer[plan->output[i].buffer].size_bytes,
                               KILN_KERNEL_ALIGNMENT);
    kiln_status st = kiln_pages_create(bytes, KILN_GUARD_NONE, &m->staging);
    if (st) return kiln_status_note(st, "memory for inputs and outputs");
    kiln_port_link *input, *output;
    kiln_port_links_find(plan, &m->arena, &input, &output);
    m->in = lay_out_stage(m, plan->input, plan->input_count, input, &staged);
    m->out = lay_out_stage(m, plan->output, plan->output_count, output, &staged);
    m->is_left_out = KILN_ARENA_ARRAY(&m->arena, bool, plan->step_count);
    return KILN_OK;
}

/* Copies constants to further devices. Those of the processor stay in the file. */
static kiln_status upload_constants(kiln_variant *m, uint32_t d) {
    const kiln_module_plan *plan = &m->plan;
    device *on = &m->device[d];
    const uint32_t alignment =
        kiln_memory_row_of(kiln_device_row_in(on->device)->memory)->alignment;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const kiln_plan_buffer *b = &plan->buffer[i];
        if (b->storage != KILN_STORAGE_CONSTANT || b->device != d) continue;
        m->place[i] = (root_place){.memory = &on->constants, .offset = bytes, .device = d};
        bytes += (b->size_bytes + alignment - 1) / alignment * alignment;
    }
    if (bytes == 0) return KILN_OK;
    kiln_status st =
        kiln_device_allocate(on->device, (size_t)bytes, KILN_GUARD_NONE, &on->constants);
    for (uint32_t i = 0; !st && i < plan->buffer_count; i++) {
        const kiln_plan_buffer *b = &plan->buffer[i];
        if (b->storage != KILN_STORAGE_CONSTANT || b->device != d) continue;
        kiln_device_place to = kiln_device_place_at(on->device, &on->constants, m->place[i].offset);
        if (kiln_device_copy(on->device, KILN_COPY_TO_DEVICE, to,
                             kiln_host_place((void *)(uintptr_t)b->data), (size_t)b->size_bytes))
            st = KILN_ERROR(INTERNAL, "copying: %s", kiln_device_error(on->device));
    }
    return kiln_status_note(st, "constants on device %u", d);
}

static void place_port(kiln_variant *m, bound *p) {
    m->place[p->root].data = p->stage;
    if (p->link.stand_in != KILN_PLAN_NONE) p->own = m->place[p->link.stand_in];
}

static kiln_status create_memory(kiln_variant *m) {
    const kiln_module_plan *plan = &m->plan;
    m->place = KILN_ARENA_ARRAY(&m->arena, root_place, plan->buffer_count);
    kiln_status st = create_arenas(m);
    if (!st) st = create_stages(m);
    for (uint32_t d = 1; !st && d <= plan->device_count; d++) st = upload_constants(m, d);
    if (st) return st;
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const kiln_plan_buffer *b = &plan->buffer[i];
        if (b->storage == KILN_STORAGE_ARENA) {
            const kiln_device_memory *memory = &m->device[b->device].activations;
            m->place[i] = (root_place){.memory = memory, .offset = b->offset, .device = b->device};
            if (memory->space == KILN_MEMORY_HOST)
                m->place[i].data = (uint8_t *)memory->data + b->offset;
        }
        /* The ABI has one pointer type for all roles; the plan's check lets no step write a
         * constant. */
        if (b->storage == KILN_STORAGE_CONSTANT && b->device == 0)
            m->place[i].data = (void *)(uintptr_t)b->data;
    }
    /* Ports are bound to their stages until a run changes that, because binding needs an
     * address. */
    for (uint32_t i = 0; i < plan->input_count; i++) place_port(m, &m->in[i]);
    for (uint32_t i = 0; i < plan->output_count; i++) place_port(m, &m->out[i]);
    return KILN_OK;
}

static bool stands_in(const bound *list, uint32_t count, uint32_t root) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i].link.stand_in == root) return true;
    return false;
}

/* Whether a root may have another place in each run: ports, and buffers replaced by callers'
 * memory. */
static bool may_move(const kiln_variant *m, uint32_t root) {
    kiln_module_storage storage = m->plan.buffer[root].storage;
    return storage == KILN_STORAGE_INPUT || storage == KILN_STORAGE_OUTPUT ||
           stands_in(m->in, m->plan.input_count, root) ||
           stands_in(m->out, m->plan.output_count, root);
}

/* The current place of a buffer, which for strided aliases depends on the iteration. */
static kiln_device_place place_of(const kiln_variant *m, uint32_t buffer) {
    const kiln_plan_buffer *b = &m->plan.buffer[buffer];
    const root_place *root = &m->place[kiln_module_plan_root(&m->plan, buffer)];
    uint64_t offset = kiln_module_plan_offset(&m->plan, buffer);
    if (b->stride != 0) offset += (uint64_t)b->stride * m->iteration[b->loop];
    if (root->data) return kiln_host_place(root->data + offset);
    if (!root->memory)
        return (kiln_device_place){root->foreign.data, root->foreign.byte_offset + offset};
    return kiln_device_place_at(m->device[b->device].device, root->memory, root->offset + offset);
}

/* The kernel of a step and the places of its constants: steps with equal keys pack the same bytes.
 */
static kiln_str packing_key(const kiln_variant *m, const kiln_plan_step *step,
                            kiln_arena *scratch) {
    const kiln_manifest *manifest = kiln_kernel_manifest(m->kernel[step->kernel]);
    uint64_t *part = KILN_ARENA_ARRAY(scratch, uint64_t, 2 * (size_t)step->arg_count + 1);
    uint32_t count = 0;
    part[count++] = step->kernel;
    for (uint32_t i = 0; i < step->arg_count; i++) {
        if (manifest->arg[i].role != KILN_ROLE_CONSTANT) continue;
        kiln_device_place place = place_of(m, step->arg[i]);
        part[count++] = (uintptr_t)place.data;
        part[count++] = place.byte_offset;
    }
    return (kiln_str){(const char *)part, count * sizeof *part};
}

/* Offsets of each step's packed constants in the memory of its device: [step_count]. Steps that
 * pack the same bytes, such as those of an unrolled recurrence, share them; `out_owner` is the
 * first of each. */
static kiln_status place_packed(kiln_variant *m, uint64_t *out_offset, uint32_t *out_owner) {
    uint64_t bytes[KILN_MODULE_DEVICES_MAX + 1] = {0};
    kiln_arena scratch;
    kiln_map seen;
    kiln_arena_init(&scratch, 0);
    kiln_map_init(&seen);
    for (uint32_t i = 0; i < m->plan.step_count; i++) {
        const kiln_plan_step *step = &m->plan.step[i];
        out_owner[i] = i;
        if (step->action != KILN_ACTION_KERNEL) continue;
        size_t wanted = kiln_kernel_packed_bytes(m->kernel[step->kernel]);
        if (wanted == 0) continue;
        uint64_t owner = i;
        kiln_str key = packing_key(m, step, &scratch);
        if (!kiln_map_find(&seen, key, &owner)) (void)kiln_map_put(&seen, key, i);
        out_owner[i] = (uint32_t)owner;
        out_offset[i] = owner == i ? bytes[step->device] : out_offset[owner];
        if (owner == i) bytes[step->device] += wanted;
    }
    kiln_map_deinit(&seen);
    kiln_arena_deinit(&scratch);
    kiln_status st = KILN_OK;
    for (uint32_t d = 0; !st && d <= m->plan.device_count; d++)
        st = kiln_device_allocate(m->device[d].device, (size_t)bytes[d], KILN_GUARD_NONE,
                                  &m->device[d].packed);
    return kiln_status_note(st, "packed constants");
}

static kiln_status create_call(kiln_variant *m, uint32_t index, uint64_t packed_offset) {
    const kiln_plan_step *step = &m->plan.step[index];
    const kiln_kernel *kernel = m->kernel[step->kernel];
    const device *on = &m->device[step->device];
    m->call_threads[index] = threads_of(m, kernel);
    kiln_status st = kiln_call_create_over(
        kernel, &(kiln_call_memory){&on->packed, packed_offset, &on->temps, 0}, &m->call[index]);
    for (uint32_t i = 0; !st && i < step->arg_count; i++) {
        uint32_t buffer = step->arg[i];
        st = kiln_call_bind_place(m->call[index], i, place_of(m, buffer),
                                  kiln_kernel_arg_bytes(kernel, i));
        if (may_move(m, kiln_module_plan_root(&m->plan, buffer)))
            m->moving.patch[m->moving.count++] = (patch){index, i, buffer};
    }
    return kiln_status_note(st, "step %u", index);
}

static size_t count_args(const kiln_module_plan *plan) {
    size_t count = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) count += plan->step[i].arg_count;
    return count;
}

static kiln_status create_calls(kiln_variant *m) {
    const kiln_module_plan *plan = &m->plan;
    m->call = KILN_ARENA_ARRAY(&m->arena, kiln_call *, plan->step_count);
    m->call_threads = KILN_ARENA_ARRAY(&m->arena, uint32_t, plan->step_count);
    m->packs = KILN_ARENA_ARRAY(&m->arena, bool, plan->step_count);
    m->moving.patch = KILN_ARENA_ARRAY(&m->arena, patch, count_args(plan));
    uint64_t *packed_offset = KILN_ARENA_ARRAY(&m->arena, uint64_t, plan->step_count);
    uint32_t *owner = KILN_ARENA_ARRAY(&m->arena, uint32_t, plan->step_count);
    kiln_status st = place_packed(m, packed_offset, owner);
    for (uint32_t i = 0; !st && i < plan->step_count; i++) {
        if (plan->step[i].action != KILN_ACTION_KERNEL) continue;
        m->packs[i] = owner[i] == i;
        st = create_call(m, i, packed_offset[i]);
    }
    return st;
}

/* Finds the kernel arguments that move with each loop. */
static void find_strided(kiln_variant *m) {
    const kiln_module_plan *plan = &m->plan;
    m->strided = KILN_ARENA_ARRAY(&m->arena, patches, plan->step_count);
    for (int placing = 0; placing < 2; placing++) {
        for (uint32_t s = 0; s < plan->step_count; s++) {
            const kiln_plan_step *step = &plan->step[s];
            for (uint32_t i = 0; step->action == KILN_ACTION_KERNEL && i < step->arg_count; i++) {
                const kiln_plan_buffer *b = &plan->buffer[step->arg[i]];
                if (b->stride == 0) continue;
                patches *of = &m->strided[b->loop];
                if (placing) of->patch[of->count] = (patch){s, i, step->arg[i]};
                of->count++;
            }
        }
        for (uint32_t s = 0; !placing && s < plan->step_count; s++) {
            m->strided[s].patch = KILN_ARENA_ARRAY(&m->arena, patch, m->strided[s].count);
            m->strided[s].count = 0;
        }
    }
}

/* Finds outputs whose rows are stacked by a loop that may end early; the host writes the zeros
 * behind them.
 */
static void find_grown(kiln_variant *m) {
    const kiln_module_plan *plan = &m->plan;
    const uint32_t *by = kiln_module_plan_find_grown(plan, &m->arena);
    m->grown_by = KILN_ARENA_ARRAY(&m->arena, uint32_t, plan->output_count);
    for (uint32_t i = 0; i < plan->output_count; i++) {
        m->grown_by[i] = by[plan->output[i].buffer];
        if (m->grown_by[i] != KILN_PLAN_NONE) m->out[i].link.device = 0;
    }
}

/* Assigns one of its device's events to each step that needs one, in turns: if an event is reused
 * by a later step, a wait may be longer than needed, never too short. */
static void give_out_events(kiln_variant *m) {
    const kiln_module_plan *plan = &m->plan;
    m->event = KILN_ARENA_ARRAY(&m->arena, uint32_t, plan->step_count);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const kiln_plan_step *step = &plan->step[i];
        if (step->action != KILN_ACTION_EVENT || m->event[step->after] > 0) continue;
        m->event[step->after] = 1 + m->device[step->device].event_count++ % KILN_DEVICE_EVENTS;
    }
}

static uint32_t count_launches(const kiln_manifest *manifest) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < manifest->launch_count; i++)
        count += manifest->launch[i].phase != KILN_LAUNCH_PREPARE;
    return count;
}

static bool moves_anything(const kiln_variant *m, const kiln_sequence *steps) {
    for (uint32_t s = steps->begin; s < steps->end; s++)
        for (uint32_t i = 0; i < m->plan.step[s].arg_count; i++)
            if (may_move(m, kiln_module_plan_root(&m->plan, m->plan.step[s].arg[i]))) return true;
    return false;
}

/* Finds the steps that a device may record. */
static void find_sequences(kiln_variant *m) {
    const kiln_module_plan *plan = &m->plan;
    kiln_arena scratch;
    kiln_sequence *sequence;
    kiln_arena_init(&scratch, 0);
    uint32_t *launches = KILN_ARENA_ARRAY(&scratch, uint32_t, plan->kernel_count);
    bool *has_event = KILN_ARENA_ARRAY(&scratch, bool, plan->step_count);
    for (uint32_t i = 0; i < plan->kernel_count; i++) launches[i] = count_launches(m->manifest[i]);
    for (uint32_t i = 0; i < plan->step_count; i++) has_event[i] = m->event[i] > 0;
    m->recorded = KILN_ARENA_ARRAY(&m->arena, recorded *, plan->step_count);
    const uint32_t count = kiln_sequences_find(plan, launches, has_event, &scratch, &sequence);
    for (uint32_t i = 0; i < count; i++) {
        recorded *r = KILN_ARENA_NEW(&m->arena, recorded);
        r->steps = sequence[i];
        r->moves = moves_anything(m, &r->steps);
        m->has_moving |= r->moves;
        m->recorded[r->steps.begin] = r;
    }
    kiln_arena_deinit(&scratch);
}

static kiln_module_port *describe_ports(kiln_variant *m, const kiln_plan_port *port,
                                        uint32_t count) {
    kiln_module_port *described = KILN_ARENA_ARRAY(&m->arena, kiln_module_port, count);
    for (uint32_t i = 0; i < count; i++)
        described[i] = (kiln_module_port){
            .name = kiln_str_dup(&m->arena, port[i].name),
            .dtype = (uint32_t)port[i].dtype,
            .rank = port[i].shape.rank,
            .shape = port[i].shape.dim,
            .size_bytes = (size_t)m->plan.buffer[port[i].buffer].size_bytes,
        };
    return described;
}

/* How often each step is done in a run; 0 if that depends on data. */
static double *count_times(kiln_variant *m) {
    const kiln_module_plan *plan = &m->plan;
    double *times = KILN_ARENA_ARRAY(&m->arena, double, plan->step_count);
    for (uint32_t i = 0; i < plan->step_count; i++) times[i] = 1;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const kiln_plan_step *loop = &plan->step[i];
        if (loop->action != KILN_ACTION_LOOP) continue;
        bool known = loop->count == KILN_PLAN_NONE && loop->condition == KILN_PLAN_NONE;
        for (uint32_t k = i + 1; k <= i + loop->body_count; k++)
            times[k] *= known ? (double)loop->trip_max : 0;
    }
    return times;
}

static void describe(kiln_variant *m) {
    const kiln_module_plan *plan = &m->plan;
    m->input = describe_ports(m, plan->input, plan->input_count);
    m->output = describe_ports(m, plan->output, plan->output_count);
    m->step = KILN_ARENA_ARRAY(&m->arena, kiln_module_step, plan->step_count);
    const double *times = count_times(m);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const kiln_plan_step *step = &plan->step[i];
        bool calls = step->action == KILN_ACTION_KERNEL;
        const kiln_manifest *manifest = calls ? m->manifest[step->kernel] : NULL;
        m->step[i] = (kiln_module_step){
            .name = kiln_str_dup(&m->arena, step->name),
            .op = kiln_str_dup(&m->arena, step->op),
            .task = kiln_str_dup(&m->arena, step->task),
            .algorithm = calls ? kiln_str_dup(&m->arena, manifest->algorithm) : "",
            .action = step->action,
            .flops = calls ? manifest->flops : 0,
            .body_count = step->action == KILN_ACTION_LOOP ? step->body_count : 0,
            .trip_max = step->action == KILN_ACTION_LOOP ? step->trip_max : 0,
            .times = times[i],
        };
    }
}

/* Runs no code of the module. */
static kiln_status link(kiln_variant *m, const kiln_module_options *options,
                        const kiln_variant *beside) {
    m->iteration = KILN_ARENA_ARRAY(&m->arena, uint64_t, m->plan.step_count);
    const uint32_t *at = find_kernel_devices(m);
    kiln_status st = open_devices(m, at);
    if (!st) st = load_kernels(m, at);
    if (!st) st = start_threads(m, options, beside);
    if (!st) st = create_services(m);
    if (!st) st = create_memory(m);
    if (!st) st = create_calls(m);
    if (st) return st;
    find_strided(m);
    find_grown(m);
    give_out_events(m);
    find_sequences(m);
    describe(m);
    return KILN_OK;
}

static int32_t run_step(kiln_variant *m, uint32_t index);

/* If the device cannot record them, they are done one by one. */
static void record(kiln_variant *m, recorded *r) {
    kiln_device *on = m->device[r->steps.device].device;
    int32_t status = KILN_KERNEL_OK;
    void *recording = NULL;
    if (kiln_device_begin(on)) return;
    for (uint32_t i = r->steps.begin; !status && i < r->steps.end; i++) status = run_step(m, i);
    if (!kiln_device_end(on, &recording) && !status)
        r->recording = recording;
    else
        kiln_device_forget(on, recording);
}

kiln_status kiln_variant_pack(kiln_variant *m) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < m->plan.step_count; i++)
        if (m->packs[i])
            st = kiln_status_note(
                kiln_call_prepare(m->call[i], &m->services[m->call_threads[i] - 1]), "step %u", i);
    for (uint32_t i = 0; !st && i < m->plan.step_count; i++)
        if (m->recorded[i]) record(m, m->recorded[i]);
    return st;
}

static kiln_variant *create(const kiln_module_plan *plan) {
    kiln_variant *m = kiln_alloc(sizeof *m);
    kiln_arena_init(&m->arena, 0);
    m->plan = *plan;
    m->manifest = KILN_ARENA_ARRAY(&m->arena, const kiln_manifest *, plan->kernel_count);
    return m;
}

kiln_status kiln_variant_link(const kiln_module_plan *plan, const kiln_module_options *options,
                              const kiln_variant *beside, kiln_variant **out_variant) {
    kiln_variant *m = create(plan);
    kiln_status st = link(m, options, beside);
    if (!st)
        *out_variant = m;
    else
        kiln_variant_close(m);
    return st;
}

kiln_status kiln_variant_inspect(const kiln_module_plan *plan, uint32_t threads,
                                 kiln_variant **out_variant) {
    kiln_variant *m = create(plan);
    kiln_status st = read_manifests(m);
    if (!st) {
        m->thread_count = threads_used(m, threads);
        describe(m);
        *out_variant = m;
    } else {
        kiln_variant_close(m);
    }
    return st;
}

static void close_device(device *on) {
    if (!on->device) return;
    kiln_device_release(on->device, &on->activations);
    kiln_device_release(on->device, &on->packed);
    kiln_device_release(on->device, &on->temps);
    kiln_device_release(on->device, &on->constants);
    kiln_device_close(on->device);
}

static void release_near(const kiln_variant *m, bound *p) {
    if (p->near.data) kiln_device_release_host(m->device[p->link.device].device, &p->near);
}

void kiln_variant_close(kiln_variant *m) {
    if (!m) return;
    for (uint32_t i = 0; m->recorded && i < m->plan.step_count; i++)
        if (m->recorded[i])
            kiln_device_forget(m->device[m->recorded[i]->steps.device].device,
                               m->recorded[i]->recording);
    for (uint32_t i = 0; m->call && i < m->plan.step_count; i++) kiln_call_destroy(m->call[i]);
    for (uint32_t i = 0; m->kernel && i < m->plan.kernel_count; i++)
        kiln_kernel_unload(m->kernel[i]);
    if (!m->is_beside) kiln_pool_destroy(m->pool);
    for (uint32_t i = 0; m->in && i < m->plan.input_count; i++) {
        release_near(m, &m->in[i]);
        if (m->in[i].kept && !m->is_beside) kiln_kept_port_deinit(m->in[i].kept);
    }
    for (uint32_t i = 0; m->out && i < m->plan.output_count; i++) release_near(m, &m->out[i]);
    for (uint32_t d = 0; m->device && d <= m->plan.device_count; d++) close_device(&m->device[d]);
    kiln_pages_destroy(&m->scratch);
    kiln_pages_destroy(&m->staging);
    kiln_arena_deinit(&m->arena);
    kiln_free(m);
}

/* ---- inspecting ------------------------------------------------------------------------------ */

uint32_t kiln_variant_step_count(const kiln_variant *m) { return m->plan.step_count; }
uint32_t kiln_variant_threads(const kiln_variant *m) { return m->thread_count; }
size_t kiln_variant_arena_bytes(const kiln_variant *m) {
    size_t sum = (size_t)m->plan.arena_bytes + m->scratch.size_bytes;
    for (uint32_t d = 0; m->device && d <= m->plan.device_count; d++)
        sum += m->device[d].temps.size_bytes + (d > 0 ? m->device[d].activations.size_bytes : 0);
    return sum;
}
size_t kiln_variant_packed_bytes(const kiln_variant *m) {
    size_t sum = 0;
    for (uint32_t d = 0; m->device && d <= m->plan.device_count; d++)
        sum += m->device[d].packed.size_bytes;
    return sum;
}
const char *kiln_variant_error(const kiln_variant *m) { return m->error; }

const kiln_module_port *kiln_variant_input(const kiln_variant *m, uint32_t index) {
    KILN_CHECK(index < m->plan.input_count);
    return &m->input[index];
}

const kiln_module_port *kiln_variant_output(const kiln_variant *m, uint32_t index) {
    KILN_CHECK(index < m->plan.output_count);
    return &m->output[index];
}

int64_t kiln_variant_output_rows(const kiln_variant *m, uint32_t index) {
    KILN_CHECK(index < m->plan.output_count);
    const kiln_shape *shape = &m->plan.output[index].shape;
    if (m->grown_by && m->grown_by[index] != KILN_PLAN_NONE)
        return (int64_t)m->iteration[m->grown_by[index]];
    return shape->rank ? shape->dim[0] : 1;
}

const kiln_target *kiln_variant_device(const kiln_variant *m) {
    return m->device && m->plan.device_count > 0 ? kiln_device_target(m->device[1].device) : NULL;
}

const void *kiln_variant_step_code(const kiln_variant *m, uint32_t index, size_t *out_bytes) {
    KILN_CHECK(index < m->plan.step_count);
    const kiln_plan_step *step = &m->plan.step[index];
    *out_bytes = 0;
    if (step->action != KILN_ACTION_KERNEL || !m->kernel) return NULL;
    return kiln_kernel_code(m->kernel[step->kernel], out_bytes);
}

const kiln_module_step *kiln_variant_step_at(const kiln_variant *m, uint32_t index) {
    KILN_CHECK(index < m->plan.step_count);
    return &m->step[index];
}

/* ---- running: nothing below allocates -------------------------------------------------------- */

void kiln_variant_set_hook(kiln_variant *m, kiln_module_hook hook, void *context) {
    m->hook = hook;
    m->hook_context = context;
}

static bool aligned(const void *memory) { return (uintptr_t)memory % KILN_KERNEL_ALIGNMENT == 0; }

static void apply(kiln_variant *m, const patches *list) {
    for (uint32_t i = 0; i < list->count; i++)
        kiln_call_rebind(m->call[list->patch[i].step], list->patch[i].arg,
                         place_of(m, list->patch[i].buffer));
}

static bool is_same(const root_place *a, const root_place *b) {
    return a->memory == b->memory && a->foreign.data == b->foreign.data &&
           a->foreign.byte_offset == b->foreign.byte_offset;
}

/* Makes a buffer on the device the caller's memory, or the module's again. Handles with an offset
 * into a buffer are copied instead, because a device keeps a sub-buffer for each. */
static bool place_stand_in(kiln_variant *m, const bound *p, bool is_there) {
    if (p->link.stand_in == KILN_PLAN_NONE) return false;
    root_place *at = &m->place[p->link.stand_in], before = *at;
    const bool is_foreign = is_there && p->given.place.byte_offset == 0;
    *at = is_foreign ? (root_place){.foreign = p->given.place, .device = p->given.device} : p->own;
    m->is_left_out[p->link.copy] = is_foreign;
    return !is_same(&before, at);
}

/* Puts a port into the caller's memory, if its steps can work there; else into its stage. True: its
 * place on a device has changed. */
static bool place_given(kiln_variant *m, const bound *p) {
    const given *g = &p->given;
    const bool is_there = g->device > 0 && g->device == p->link.device;
    root_place at = {.data = p->stage};
    if (is_there)
        at = (root_place){.foreign = g->place, .device = g->device};
    else if (g->device == 0 && aligned(g->data))
        at.data = g->data;
    m->place[p->root] = at;
    return place_stand_in(m, p, is_there);
}

static int32_t wait_until_done(kiln_device *on) {
    const int32_t status = kiln_device_record(on, 0);
    return status ? status : kiln_device_wait(on, 0);
}

/* Copies between a port's stage and the caller's memory. */
static int32_t copy_stage(const kiln_variant *m, const bound *p, kiln_copy_direction direction) {
    const given *g = &p->given;
    const bool is_in = direction == KILN_COPY_FROM_DEVICE; /* to the stage */
    if (m->place[p->root].data != p->stage || g->data == p->stage) return KILN_KERNEL_OK;
    if (g->device == 0) {
        memcpy(is_in ? p->stage : g->data, is_in ? g->data : p->stage, p->size_bytes);
        return KILN_KERNEL_OK;
    }
    kiln_device *on = m->device[g->device].device;
    const kiln_device_place stage = kiln_host_place(p->stage);
    const int32_t status = kiln_device_copy(on, direction, is_in ? stage : g->place,
                                            is_in ? g->place : stage, p->size_bytes);
    return status ? status : wait_until_done(on);
}

static void record(kiln_variant *m, recorded *r);

/* Records memory that was the same in two runs: a caller with other memory each time would record
 * in vain. */
static void renew_recordings(kiln_variant *m, bool has_moved) {
    for (uint32_t i = 0; m->has_moving && i < m->plan.step_count; i++) {
        recorded *r = m->recorded[i];
        if (!r || !r->moves) continue;
        if (has_moved) {
            r->is_due = r->is_due || r->recording;
            kiln_device_forget(m->device[r->steps.device].device, r->recording);
            r->recording = NULL;
        } else if (r->is_due) {
            r->is_due = false;
            record(m, r);
        }
    }
}

static int refuse_port(kiln_variant *m, const char *what, uint32_t index, const bound *p) {
    (void)snprintf(m->error, sizeof m->error, "copying %s %u: %s", what, index,
                   kiln_device_error(m->device[p->given.device].device));
    return KILN_INTERNAL;
}

static int bind_ports(kiln_variant *m) {
    bool has_moved = false;
    for (uint32_t i = 0; i < m->plan.input_count; i++) has_moved |= place_given(m, &m->in[i]);
    for (uint32_t i = 0; i < m->plan.output_count; i++) has_moved |= place_given(m, &m->out[i]);
    apply(m, &m->moving);
    renew_recordings(m, has_moved);
    for (uint32_t i = 0; i < m->plan.input_count; i++)
        if (copy_stage(m, &m->in[i], KILN_COPY_FROM_DEVICE))
            return refuse_port(m, "input", i, &m->in[i]);
    return KILN_OK;
}

static uint32_t device_of(const kiln_variant *m, uint32_t buffer) {
    return m->place[kiln_module_plan_root(&m->plan, buffer)].device;
}

static int32_t copy(kiln_variant *m, uint32_t index) {
    const kiln_plan_step *step = &m->plan.step[index];
    const uint32_t from = device_of(m, step->arg[0]), to = device_of(m, step->arg[1]);
    kiln_copy_direction direction = KILN_COPY_WITHIN;
    if (m->is_left_out[index]) return KILN_KERNEL_OK;
    if (from != to) direction = to > 0 ? KILN_COPY_TO_DEVICE : KILN_COPY_FROM_DEVICE;
    return kiln_device_copy(m->device[step->device].device, direction, place_of(m, step->arg[1]),
                            place_of(m, step->arg[0]),
                            (size_t)m->plan.buffer[step->arg[0]].size_bytes);
}

static int32_t wait_for(kiln_variant *m, const kiln_plan_step *step) {
    return kiln_device_wait(m->device[step->device].device, m->event[step->after] - 1);
}

static int32_t run_step(kiln_variant *m, uint32_t index) {
    const kiln_plan_step *step = &m->plan.step[index];
    switch (step->action) {
    case KILN_ACTION_KERNEL:
        return kiln_call_run(m->call[index], &m->services[m->call_threads[index] - 1]);
    case KILN_ACTION_ALIAS: return KILN_KERNEL_OK;
    case KILN_ACTION_COPY:
    case KILN_ACTION_CARRY: return copy(m, index);
    case KILN_ACTION_EVENT: return wait_for(m, step);
    case KILN_ACTION_LOOP: break; /* run_loop */
    }
    return KILN_KERNEL_FAILED;
}

static int refuse_step(kiln_variant *m, uint32_t index) {
    const char *text = kiln_device_error(m->device[m->plan.step[index].device].device);
    (void)snprintf(m->error, sizeof m->error, "a kernel failed in step %u%s%s", index,
                   text[0] ? ": " : "", text);
    return KILN_INTERNAL;
}

static int run_steps(kiln_variant *m, uint32_t begin, uint32_t end);

/* How often a loop runs unless its condition ends it; may exceed its maximum. */
static uint64_t count_trips(const kiln_variant *m, const kiln_plan_step *step) {
    int64_t count;
    if (step->count == KILN_PLAN_NONE) return step->trip_max;
    memcpy(&count, place_of(m, step->count).data, sizeof count);
    return count > 0 ? (uint64_t)count : 0;
}

static bool goes_on(const kiln_variant *m, const kiln_plan_step *step) {
    return step->condition == KILN_PLAN_NONE ||
           *(const uint8_t *)place_of(m, step->condition).data != 0;
}

static int refuse_trips(kiln_variant *m, uint32_t index, uint64_t trips) {
    const kiln_plan_step *step = &m->plan.step[index];
    (void)snprintf(m->error, sizeof m->error,
                   "loop %.*s (step %u) is to run %llu times; at most %llu fit",
                   KILN_STR_ARG(step->name), index, (unsigned long long)trips,
                   (unsigned long long)step->trip_max);
    return KILN_OUT_OF_RANGE;
}

static int run_loop(kiln_variant *m, uint32_t index) {
    const kiln_plan_step *step = &m->plan.step[index];
    const uint64_t trips = count_trips(m, step);
    uint64_t i = 0;
    int code = KILN_OK;
    if (trips > step->trip_max && step->condition == KILN_PLAN_NONE)
        return refuse_trips(m, index, trips);
    for (; !code && i < trips && goes_on(m, step); i++) {
        if (i == step->trip_max) return refuse_trips(m, index, trips);
        if (step->index != KILN_PLAN_NONE)
            memcpy(place_of(m, step->index).data, &(int64_t){(int64_t)i}, sizeof(int64_t));
        m->iteration[index] = i;
        apply(m, &m->strided[index]);
        code = run_steps(m, index + 1, index + 1 + step->body_count);
    }
    m->iteration[index] = i;
    return code;
}

/* Events around a step for the hook. They may also be assigned to other steps, whose waits may then
 * be longer, never too short. */
enum { END_EVENT, BEGIN_EVENT };

/* The device whose queue a step enters; NULL: the step is done when it returns. */
static kiln_device *queue_of(const kiln_variant *m, uint32_t index) {
    const kiln_plan_step *step = &m->plan.step[index];
    const bool waits = step->device > 0 && step->action != KILN_ACTION_LOOP;
    return waits ? m->device[step->device].device : NULL;
}

static int begin_step(kiln_variant *m, uint32_t index) {
    kiln_device *on = queue_of(m, index);
    return on && kiln_device_record(on, BEGIN_EVENT) ? refuse_step(m, index) : KILN_OK;
}

/* Waits for the end of a step in a device's queue, if a hook must be called. */
static int finish_step(kiln_variant *m, uint32_t index) {
    kiln_device *on = queue_of(m, index);
    m->step_device_ns = 0;
    if (!on) return KILN_OK;
    if (kiln_device_record(on, END_EVENT) || kiln_device_wait(on, END_EVENT))
        return refuse_step(m, index);
    m->step_device_ns = kiln_device_elapsed_ns(on, BEGIN_EVENT, END_EVENT);
    return KILN_OK;
}

uint64_t kiln_variant_step_device_ns(const kiln_variant *m) { return m->step_device_ns; }

static int record_event(kiln_variant *m, uint32_t index) {
    kiln_device *on = m->device[m->plan.step[index].device].device;
    if (m->event[index] == 0 || kiln_device_record(on, m->event[index] - 1) == KILN_KERNEL_OK)
        return KILN_OK;
    return refuse_step(m, index);
}

static int replay(kiln_variant *m, const recorded *r) {
    if (kiln_device_replay(m->device[r->steps.device].device, r->recording))
        return refuse_step(m, r->steps.begin);
    return record_event(m, r->steps.end - 1);
}

static int run_steps(kiln_variant *m, uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; i++) {
        const uint32_t at = i;
        int code = KILN_OK;
        if (m->recorded[at] && m->recorded[at]->recording && !m->hook) {
            code = replay(m, m->recorded[at]);
            if (code) return code;
            i = m->recorded[at]->steps.end - 1;
            continue;
        }
        if (m->hook) {
            m->hook(m->hook_context, at, 0);
            code = begin_step(m, at);
        }
        if (code) return code;
        if (m->plan.step[at].action == KILN_ACTION_LOOP) {
            code = run_loop(m, at);
            i += m->plan.step[at].body_count;
        } else if (run_step(m, at) != KILN_KERNEL_OK) {
            code = refuse_step(m, at);
        }
        if (!code) code = record_event(m, at);
        if (!code && m->hook) code = finish_step(m, at);
        if (code) return code;
        if (m->hook) m->hook(m->hook_context, at, 1);
    }
    return KILN_OK;
}

/* Waits until no work of a failed run is left. */
static void drain(kiln_variant *m) {
    for (uint32_t d = 1; d <= m->plan.device_count; d++) (void)wait_until_done(m->device[d].device);
}

/* Writes zeros behind the rows of an output. */
static void fill_rest(kiln_variant *m, uint32_t output) {
    const uint32_t buffer = m->plan.output[output].buffer;
    if (m->grown_by[output] == KILN_PLAN_NONE) return;
    const uint64_t size = m->plan.buffer[buffer].size_bytes,
                   row = size / m->plan.step[m->grown_by[output]].trip_max,
                   used = row * m->iteration[m->grown_by[output]];
    memset(m->place[buffer].data + used, 0, (size_t)(size - used));
}

static int run(kiln_variant *m) {
    int code = bind_ports(m);
    if (!code) code = run_steps(m, 0, m->plan.step_count);
    if (code) {
        drain(m);
        return code;
    }
    for (uint32_t i = 0; i < m->plan.output_count; i++) {
        fill_rest(m, i);
        if (copy_stage(m, &m->out[i], KILN_COPY_TO_DEVICE))
            return refuse_port(m, "output", i, &m->out[i]);
    }
    return KILN_OK;
}

static int refuse_inspected(kiln_variant *m) {
    (void)snprintf(m->error, sizeof m->error,
                   "the module was opened for inspection only: "
                   "its %u kernels are not loaded",
                   m->plan.kernel_count);
    return KILN_FAILED_PRECONDITION;
}

static const char no_memory[] = "there is no memory for it";

static int refuse_given(kiln_variant *m, bool is_output, uint32_t index, const char *why) {
    (void)snprintf(m->error, sizeof m->error, "%s %u (%s): %s", is_output ? "output" : "input",
                   index, (is_output ? m->output : m->input)[index].name, why);
    return KILN_INVALID_ARGUMENT;
}

/* The place of a kept port in this run. */
static given given_kept(const kiln_kept_port *kept, bool is_output) {
    const kiln_device_place place = kiln_kept_port_place(kept, is_output);
    return (given){.device = kept->device, .data = place.data, .place = place};
}

static int refuse_kept(kiln_variant *m, bool is_output, uint32_t index) {
    return refuse_given(m, is_output, index,
                        "the module keeps it between runs; give NULL in its place");
}

static int take_pointer(kiln_variant *m, bool is_output, uint32_t index, void *data) {
    bound *p = is_output ? &m->out[index] : &m->in[index];
    if (p->kept && data) return refuse_kept(m, is_output, index);
    if (!p->kept && !data) return refuse_given(m, is_output, index, no_memory);
    p->given = p->kept ? given_kept(p->kept, is_output) : (given){.data = data};
    return KILN_OK;
}

int kiln_variant_run(kiln_variant *m, const void *const *inputs, void *const *outputs) {
    int code = KILN_OK;
    if (!m->call) return refuse_inspected(m);
    for (uint32_t i = 0; !code && i < m->plan.input_count; i++)
        code = take_pointer(m, false, i, (void *)(uintptr_t)inputs[i]);
    for (uint32_t i = 0; !code && i < m->plan.output_count; i++)
        code = take_pointer(m, true, i, outputs[i]);
    return code ? code : run(m);
}

/* ---- what stays between runs ----------------------------------------------------------------- */

kiln_status kiln_variant_keep(kiln_variant *m, uint32_t input, uint32_t output,
                              bool stays_in_process, kiln_kept_port **out_kept) {
    const bound *in = &m->in[input], *out = &m->out[output];
    kiln_kept_port *kept = KILN_ARENA_NEW(&m->arena, kiln_kept_port);
    *kept = (kiln_kept_port){.input = input, .output = output, .size_bytes = in->size_bytes};
    if (!stays_in_process && in->link.device == out->link.device && in->size_bytes > 0)
        kept->device = in->link.device;
    kept->on = m->device[kept->device].device;
    kiln_status st = kiln_kept_port_init(kept);
    if (st) return st;
    kiln_variant_share_kept(m, kept);
    *out_kept = kept;
    return KILN_OK;
}

void kiln_variant_share_kept(kiln_variant *m, kiln_kept_port *kept) {
    m->in[kept->input].kept = kept;
    m->out[kept->output].kept = kept;
}

/* ---- memory for callers -----------------------------------------------------------------------
 */

static void *make_near(kiln_variant *m, bound *p) {
    if (p->near.data || p->link.device == 0) return p->near.data;
    kiln_status st =
        kiln_device_allocate_host(m->device[p->link.device].device, p->size_bytes, &p->near);
    kiln_status_free(st); /* the caller uses other memory */
    return p->near.data;
}

void *kiln_variant_input_memory(kiln_variant *m, uint32_t index) {
    KILN_CHECK(index < m->plan.input_count);
    return m->call && !m->in[index].kept ? make_near(m, &m->in[index]) : NULL;
}

void *kiln_variant_output_memory(kiln_variant *m, uint32_t index) {
    KILN_CHECK(index < m->plan.output_count);
    return m->call && !m->out[index].kept ? make_near(m, &m->out[index]) : NULL;
}

uint8_t *kiln_variant_input_stage(kiln_variant *m, uint32_t index) { return m->in[index].stage; }

uint8_t *kiln_variant_output_stage(kiln_variant *m, uint32_t index) { return m->out[index].stage; }

/* ---- tensors --------------------------------------------------------------------------------- */

kiln_module_device_info kiln_variant_describe_device(const kiln_variant *m) {
    const kiln_device *on = m->device && m->plan.device_count > 0 ? m->device[1].device : NULL;
    if (!on) return (kiln_module_device_info){.device_type = OF_PROCESS};
    return (kiln_module_device_info){kiln_device_row_in(on)->dlpack, (int32_t)kiln_device_index(on),
                                     kiln_device_context(on)};
}

/* Finds the device of the module that a tensor names; false: none. */
static bool find_named(const kiln_variant *m, const kiln_module_tensor *t, uint32_t *out_device) {
    for (uint32_t d = 0; d <= m->plan.device_count; d++) {
        const kiln_device *on = m->device[d].device;
        *out_device = d;
        if (t->device_type == kiln_device_row_in(on)->dlpack &&
            t->device_id == (int32_t)kiln_device_index(on))
            return true;
    }
    return false;
}

static bool take_tensor(const kiln_variant *m, const kiln_module_port *described,
                        const kiln_module_tensor *t, bound *p, char *why, size_t why_bytes) {
    uint32_t at;
    if (!t || (!t->data && p->size_bytes > 0)) {
        (void)snprintf(why, why_bytes, "%s", no_memory);
        return false;
    }
    if (!kiln_module_tensor_fits(described, t, why, why_bytes)) return false;
    if (!find_named(m, t, &at)) {
        const kiln_module_device_info own = kiln_variant_describe_device(m);
        (void)snprintf(why, why_bytes,
                       "it lies on device %d:%d; the module works on %d:%d and in memory of the "
                       "process, %d:0",
                       t->device_type, t->device_id, own.device_type, own.device_id, OF_PROCESS);
        return false;
    }
    p->given = (given){.data = p->stage};
    if (p->size_bytes == 0) return true; /* in DLPack such tensors may have any pointer */
    p->given = (given){.device = at, .data = (uint8_t *)t->data + t->byte_offset};
    if (at == 0) return true;
    kiln_status st = kiln_device_adopt(m->device[at].device, t->data, t->byte_offset, p->size_bytes,
                                       &p->given.place);
    if (st) (void)snprintf(why, why_bytes, "%s", kiln_status_text(st));
    kiln_status_free(st); /* it is said */
    return !st;
}

static int take_given(kiln_variant *m, bool is_output, uint32_t index,
                      const kiln_module_tensor *t) {
    char why[KILN_MODULE_ERROR_BYTES / 2];
    bound *p = is_output ? &m->out[index] : &m->in[index];
    if (p->kept && t) return refuse_kept(m, is_output, index);
    if (p->kept)
        p->given = given_kept(p->kept, is_output);
    else if (!take_tensor(m, &(is_output ? m->output : m->input)[index], t, p, why, sizeof why))
        return refuse_given(m, is_output, index, why);
    return KILN_OK;
}

int kiln_variant_run_tensors(kiln_variant *m, const kiln_module_tensor *const *inputs,
                             const kiln_module_tensor *const *outputs) {
    int code = KILN_OK;
    if (!m->call) return refuse_inspected(m);
    for (uint32_t i = 0; !code && i < m->plan.input_count; i++)
        code = take_given(m, false, i, inputs[i]);
    for (uint32_t i = 0; !code && i < m->plan.output_count; i++)
        code = take_given(m, true, i, outputs[i]);
    return code ? code : run(m);
}
