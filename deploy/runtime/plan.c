#include <string.h>

#include "base/arena.h"
#include "base/manifest.h"
#include "deploy/format.h"
#include "deploy/runtime/kernel.h"
#include "deploy/runtime/plan_walk.h"

bool kiln_module_plan_is_plain(const kiln_module_plan *plan) {
    bool plain = plan->device_count == 0;
    for (uint32_t i = 0; plain && i < plan->buffer_count; i++)
        plain = plan->buffer[i].device == 0 && plan->buffer[i].stride == 0;
    for (uint32_t i = 0; plain && i < plan->step_count; i++)
        plain = plan->step[i].device == 0 && plan->step[i].action <= KILN_ACTION_COPY;
    return plain;
}

uint32_t kiln_module_plan_root(const kiln_module_plan *plan, uint32_t buffer) {
    const kiln_plan_buffer *b = &plan->buffer[buffer];
    return b->storage == KILN_STORAGE_ALIAS ? b->source : buffer;
}

uint64_t kiln_module_plan_offset(const kiln_module_plan *plan, uint32_t buffer) {
    const kiln_plan_buffer *b = &plan->buffer[buffer];
    return b->storage == KILN_STORAGE_ALIAS ? b->offset : 0;
}

/* Whether `buffer` is a row of an output that is stacked by a loop that may end early. */
static bool grows(const kiln_module_plan *plan, uint32_t buffer) {
    const kiln_plan_buffer *b = &plan->buffer[buffer];
    if (b->stride == 0 || plan->buffer[b->source].storage != KILN_STORAGE_OUTPUT) return false;
    const kiln_plan_step *loop = &plan->step[b->loop];
    return loop->count != KILN_PLAN_NONE || loop->condition != KILN_PLAN_NONE;
}

uint32_t *kiln_module_plan_find_grown(const kiln_module_plan *plan, kiln_arena *arena) {
    uint32_t *by = KILN_ARENA_ARRAY(arena, uint32_t, plan->buffer_count + 1);
    for (uint32_t i = 0; i < plan->buffer_count; i++) by[i] = KILN_PLAN_NONE;
    for (uint32_t i = 0; i < plan->buffer_count; i++)
        if (grows(plan, i)) by[plan->buffer[i].source] = plan->buffer[i].loop;
    return by;
}

/* Of device 0, the processor, or a further one. */
static uint64_t arena_of(const kiln_module_plan *plan, uint32_t device) {
    return device == 0 ? plan->arena_bytes : plan->device[device - 1].arena_bytes;
}

static const kiln_device_row *row_of(const kiln_module_plan *plan, uint32_t device) {
    uint32_t kind = device == 0 ? (uint32_t)KILN_DEVICE_CPU : plan->device[device - 1].kind;
    return kiln_device_row_of((kiln_device_kind)kind);
}

uint32_t kiln_plan_alignment(const kiln_module_plan *plan, uint32_t device) {
    return kiln_memory_row_of(row_of(plan, device)->memory)->alignment;
}

static kiln_status check_counts(const kiln_module_plan *plan) {
    const struct {
        const char *what;
        uint32_t count, max;
    } limit[] = {
        {"metadata entries", plan->metadata_count, KILN_MODULE_METADATA_MAX},
        {"inputs", plan->input_count, KILN_MODULE_PORTS_MAX},
        {"outputs", plan->output_count, KILN_MODULE_PORTS_MAX},
        {"kernels", plan->kernel_count, KILN_MODULE_KERNELS_MAX},
        {"buffers", plan->buffer_count, KILN_MODULE_BUFFERS_MAX},
        {"steps", plan->step_count, KILN_MODULE_STEPS_MAX},
        {"further devices", plan->device_count, KILN_MODULE_DEVICES_MAX},
        {"threads", plan->threads, KILN_POOL_WORKERS_MAX},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(limit); i++)
        if (limit[i].count > limit[i].max)
            return KILN_ERROR(INVALID_ARGUMENT, "%u %s, at most %u are allowed", limit[i].count,
                              limit[i].what, limit[i].max);
    if (plan->threads == 0) return KILN_ERROR(INVALID_ARGUMENT, "no thread");
    for (uint32_t d = 0; d <= plan->device_count; d++)
        if (arena_of(plan, d) > KILN_MODULE_ARENA_BYTES_MAX)
            return KILN_ERROR(INVALID_ARGUMENT, "arena of %llu bytes on device %u",
                              (unsigned long long)arena_of(plan, d), d);
    return KILN_OK;
}

static kiln_status check_devices(const kiln_module_plan *plan) {
    for (uint32_t d = 1; d <= plan->device_count; d++) {
        const kiln_plan_device *device = &plan->device[d - 1];
        if (!kiln_device_row_of((kiln_device_kind)device->kind))
            return KILN_ERROR(UNIMPLEMENTED,
                              "device %u is of kind %u, which this build does not support", d,
                              device->kind);
        for (uint32_t other = 1; other < d; other++)
            if (plan->device[other - 1].kind == device->kind &&
                plan->device[other - 1].index == device->index)
                return KILN_ERROR(INVALID_ARGUMENT, "devices %u and %u are the same", other, d);
    }
    return KILN_OK;
}

static kiln_status check_text(kiln_str text, const char *what) {
    if (text.size > KILN_MODULE_NAME_MAX || memchr(text.data ? text.data : "", 0, text.size))
        return KILN_ERROR(INVALID_ARGUMENT, "%s has %zu bytes (at most %u) or a NUL in it", what,
                          text.size, KILN_MODULE_NAME_MAX);
    return KILN_OK;
}

static kiln_status check_metadata(const kiln_module_plan *plan) {
    for (uint32_t i = 0; i < plan->metadata_count; i++) {
        kiln_status st = check_text(plan->metadata[i].key, "metadata key");
        if (!st) st = check_text(plan->metadata[i].value, "metadata value");
        if (st) return st;
        for (uint32_t j = 0; j < i; j++)
            if (kiln_str_equal(plan->metadata[i].key, plan->metadata[j].key))
                return KILN_ERROR(INVALID_ARGUMENT, "metadata key %u comes twice", i);
    }
    return KILN_OK;
}

static kiln_status check_ports(const kiln_module_plan *plan, const kiln_plan_port *port,
                               uint32_t count, kiln_module_storage storage) {
    for (uint32_t i = 0; i < count; i++) {
        size_t bytes = 0;
        kiln_status st = check_text(port[i].name, "name");
        if (!st) st = kiln_shape_bytes(&port[i].shape, port[i].dtype, &bytes);
        if (st) return kiln_status_note(st, "port %u", i);
        if (port[i].buffer >= plan->buffer_count)
            return KILN_ERROR(INVALID_ARGUMENT, "port %u has no buffer", i);
        const kiln_plan_buffer *buffer = &plan->buffer[port[i].buffer];
        if (buffer->storage != storage || buffer->source != i || buffer->size_bytes != bytes)
            return KILN_ERROR(INVALID_ARGUMENT, "port %u and its buffer %u disagree", i,
                              port[i].buffer);
    }
    return KILN_OK;
}

static bool port_owns(const kiln_plan_port *port, uint32_t count, uint32_t source,
                      uint32_t buffer) {
    return source < count && port[source].buffer == buffer;
}

static bool lies_within(const kiln_module_plan *plan, const kiln_plan_buffer *b, uint64_t bytes) {
    return b->offset % kiln_plan_alignment(plan, b->device) == 0 && b->offset <= bytes &&
           b->size_bytes <= bytes - b->offset;
}

/* Whether it lies within its source in all iterations. */
static bool moves_within(const kiln_module_plan *plan, const kiln_plan_buffer *b, uint64_t bytes) {
    if (b->loop >= plan->step_count || plan->step[b->loop].action != KILN_ACTION_LOOP) return false;
    if (b->offset > bytes || b->size_bytes > bytes - b->offset) return false;
    bool back = b->stride < 0;
    uint64_t moves = plan->step[b->loop].trip_max - 1;
    uint64_t apart = back ? 0 - (uint64_t)b->stride : (uint64_t)b->stride;
    uint64_t room = back ? b->offset : bytes - b->offset - b->size_bytes;
    return moves == 0 || apart <= room / moves;
}

static bool buffer_fits(const kiln_module_plan *plan, uint32_t index) {
    const kiln_plan_buffer *b = &plan->buffer[index];
    if (b->size_bytes > KILN_TENSOR_BYTES_MAX || b->device > plan->device_count) return false;
    if (b->stride == 0 ? b->loop != 0 : b->storage != KILN_STORAGE_ALIAS) return false;
    switch (b->storage) {
    case KILN_STORAGE_ARENA: return lies_within(plan, b, arena_of(plan, b->device));
    case KILN_STORAGE_CONSTANT: return b->data != NULL;
    case KILN_STORAGE_INPUT:
        return b->device == 0 && port_owns(plan->input, plan->input_count, b->source, index);
    case KILN_STORAGE_OUTPUT:
        return b->device == 0 && port_owns(plan->output, plan->output_count, b->source, index);
    case KILN_STORAGE_ALIAS: break;
    }
    if (b->storage != KILN_STORAGE_ALIAS || b->source >= plan->buffer_count) return false;
    const kiln_plan_buffer *source = &plan->buffer[b->source];
    if (source->storage == KILN_STORAGE_ALIAS || source->device != b->device) return false;
    return b->stride ? moves_within(plan, b, source->size_bytes)
                     : lies_within(plan, b, source->size_bytes);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Context of the checks of steps. */
typedef struct step_check {
    const kiln_module_plan *plan;
    kiln_manifest **manifest; /* [kernel_count] */
    uint32_t *kernel_device;  /* [kernel_count] where it is used; KILN_PLAN_NONE: nowhere yet */
    uint32_t *loop_of;        /* [step_count] the innermost loop around a step */
} step_check;

static bool suits(const step_check *c, uint32_t index, const kiln_manifest_arg *arg,
                  uint32_t device, size_t bytes) {
    static const kiln_layout row;
    const kiln_plan_buffer *buffer = &c->plan->buffer[index];
    kiln_module_storage storage = c->plan->buffer[kiln_module_plan_root(c->plan, index)].storage;
    bool port = storage == KILN_STORAGE_INPUT || storage == KILN_STORAGE_OUTPUT;
    uint64_t alignment = kiln_plan_alignment(c->plan, device);
    return bytes == buffer->size_bytes && buffer->device == device &&
           buffer->offset % (buffer->stride ? alignment : 1) == 0 &&
           buffer->stride % (int64_t)alignment == 0 &&
           (!port || kiln_layout_same_places(&arg->layout, &row, &arg->shape)) &&
           (arg->role != KILN_ROLE_CONSTANT || storage == KILN_STORAGE_CONSTANT);
}

/* Checks the step's arguments against its kernel. */
static kiln_status check_call(const step_check *c, const kiln_plan_step *step) {
    const kiln_manifest *manifest = c->manifest[step->kernel];
    const kiln_device_row *row = kiln_device_row_for(manifest->payload_kind);
    uint32_t bound = 0, outputs = 0;
    const bool is_text = manifest->payload_kind == KILN_PAYLOAD_C; /* text is compiled elsewhere,
                                                                    * for a processor */
    if (is_text ? step->device != 0 : row != row_of(c->plan, step->device))
        return KILN_ERROR(INVALID_ARGUMENT, "kernel %u is not for device %u", step->kernel,
                          step->device);
    if (c->kernel_device[step->kernel] != KILN_PLAN_NONE &&
        c->kernel_device[step->kernel] != step->device)
        return KILN_ERROR(INVALID_ARGUMENT, "kernel %u is used on devices %u and %u", step->kernel,
                          c->kernel_device[step->kernel], step->device);
    c->kernel_device[step->kernel] = step->device;
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        const kiln_manifest_arg *arg = &manifest->arg[i];
        if (kiln_role_is_owned(arg->role)) continue;
        if (bound++ != i || i >= step->arg_count)
            return KILN_ERROR(INVALID_ARGUMENT, "kernel %u has more arguments", step->kernel);
        size_t bytes = 0;
        kiln_status st = kiln_manifest_arg_bytes(arg, &bytes);
        if (st) return st;
        if (!suits(c, step->arg[i], arg, step->device, bytes))
            return KILN_ERROR(INVALID_ARGUMENT,
                              "buffer %u does not suit argument %.*s (%zu bytes) of kernel %u",
                              step->arg[i], KILN_STR_ARG(arg->name), bytes, step->kernel);
        outputs += arg->role == KILN_ROLE_OUTPUT;
    }
    if (bound != step->arg_count || outputs != step->output_count)
        return KILN_ERROR(INVALID_ARGUMENT, "kernel %u takes %u arguments, %u of them outputs",
                          step->kernel, bound, outputs);
    return KILN_OK;
}

/* A copy is done by the device that has one end of it, if there is one. */
static kiln_status check_copy(const step_check *c, const kiln_plan_step *step) {
    const kiln_plan_buffer *from = &c->plan->buffer[step->arg[0]],
                           *to = &c->plan->buffer[step->arg[1]];
    bool within = from->device == to->device;
    bool carries = step->action == KILN_ACTION_CARRY;
    if (from->size_bytes != to->size_bytes ||
        !(within || (!carries && (from->device == 0 || to->device == 0))) ||
        step->device != KILN_MAX(from->device, to->device))
        return KILN_ERROR(INVALID_ARGUMENT, "buffers %u and %u cannot be copied", step->arg[0],
                          step->arg[1]);
    return KILN_OK;
}

static kiln_status check_alias(const step_check *c, const kiln_plan_step *step) {
    for (uint32_t i = 1; i < step->arg_count; i++)
        if (kiln_module_plan_root(c->plan, step->arg[i]) !=
            kiln_module_plan_root(c->plan, step->arg[0]))
            return KILN_ERROR(INVALID_ARGUMENT, "buffers %u and %u cannot be aliases", step->arg[0],
                              step->arg[i]);
    return KILN_OK;
}

/* An element of the processor's memory that the runtime itself reads. */
static bool is_element(const kiln_module_plan *plan, uint32_t buffer, uint64_t size_bytes) {
    if (buffer == KILN_PLAN_NONE) return true;
    return buffer < plan->buffer_count && plan->buffer[buffer].size_bytes == size_bytes &&
           plan->buffer[buffer].device == 0 && plan->buffer[buffer].stride == 0;
}

static kiln_status check_loop(const step_check *c, uint32_t index) {
    const kiln_plan_step *step = &c->plan->step[index];
    const uint32_t outer = c->loop_of[index];
    const uint32_t end =
        outer == KILN_PLAN_NONE ? c->plan->step_count : kiln_plan_loop_end(c->plan, outer) + 1;
    if (step->body_count == 0 || step->body_count >= end - index)
        return KILN_ERROR(INVALID_ARGUMENT, "a loop over %u steps", step->body_count);
    if (step->trip_max == 0 || step->trip_max > KILN_MODULE_TRIPS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "a loop of at most %llu iterations",
                          (unsigned long long)step->trip_max);
    if (!is_element(c->plan, step->count, sizeof(int64_t)) ||
        !is_element(c->plan, step->condition, 1) ||
        !is_element(c->plan, step->index, sizeof(int64_t)))
        return KILN_ERROR(INVALID_ARGUMENT, "count %u, condition %u or index %u is no such element",
                          step->count, step->condition, step->index);
    return KILN_OK;
}

/* Checks that strided aliases move with a loop around the step. */
static kiln_status check_strides(const step_check *c, uint32_t index) {
    const kiln_plan_step *step = &c->plan->step[index];
    for (uint32_t i = 0; i < step->arg_count; i++) {
        const kiln_plan_buffer *b = &c->plan->buffer[step->arg[i]];
        if (b->stride != 0 && !kiln_plan_is_in_loop(c->loop_of, index, b->loop))
            return KILN_ERROR(INVALID_ARGUMENT, "buffer %u moves with a loop that is elsewhere",
                              step->arg[i]);
    }
    return KILN_OK;
}

static kiln_status check_action(const step_check *c, uint32_t index) {
    const kiln_module_plan *plan = c->plan;
    const kiln_plan_step *step = &plan->step[index];
    bool counts = false; /* the action has the right number of arguments and results */
    switch (step->action) {
    case KILN_ACTION_KERNEL:
        if (step->kernel < plan->kernel_count) return check_call(c, step);
        return KILN_ERROR(INVALID_ARGUMENT, "kernel %u of %u", step->kernel, plan->kernel_count);
    case KILN_ACTION_ALIAS:
        counts = step->arg_count >= 2 && step->output_count == 0;
        if (counts) return check_alias(c, step);
        break;
    case KILN_ACTION_CARRY:
        if (c->loop_of[index] == KILN_PLAN_NONE)
            return KILN_ERROR(INVALID_ARGUMENT, "a value is carried outside of every loop");
        /* fall through */
    case KILN_ACTION_COPY:
        counts = step->arg_count == 2 && step->output_count == 1;
        if (counts) return check_copy(c, step);
        break;
    case KILN_ACTION_EVENT:
        if (step->arg_count == 0 && step->device > 0 && step->after < index &&
            plan->step[step->after].device == step->device)
            return KILN_OK;
        return KILN_ERROR(INVALID_ARGUMENT, "an event for step %u on device %u", step->after,
                          step->device);
    case KILN_ACTION_LOOP:
        if (step->arg_count == 0 && step->device == 0) return check_loop(c, index);
        break;
    }
    return KILN_ERROR(INVALID_ARGUMENT, "action %d with %u arguments", (int)step->action,
                      step->arg_count);
}

static kiln_status check_step(const step_check *c, uint32_t index) {
    const kiln_module_plan *plan = c->plan;
    const kiln_plan_step *step = &plan->step[index];
    kiln_status st = check_text(step->name, "name");
    if (!st) st = check_text(step->op, "op");
    if (!st) st = check_text(step->task, "task");
    if (st) return st;
    if (step->arg_count > KILN_MANIFEST_ARGS_MAX || step->output_count > step->arg_count)
        return KILN_ERROR(INVALID_ARGUMENT, "%u arguments", step->arg_count);
    if (step->device > plan->device_count)
        return KILN_ERROR(INVALID_ARGUMENT, "device %u of %u", step->device, plan->device_count);
    for (uint32_t i = 0; i < step->arg_count; i++)
        if (step->arg[i] >= plan->buffer_count)
            return KILN_ERROR(INVALID_ARGUMENT, "buffer %u of %u", step->arg[i],
                              plan->buffer_count);
    st = check_action(c, index);
    return st ? st : check_strides(c, index);
}

/* In order, so that the loop around a step is checked before it. */
static kiln_status check_steps(step_check *c) {
    const kiln_module_plan *plan = c->plan;
    uint32_t open[KILN_MODULE_LOOP_DEPTH_MAX], depth = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        while (depth > 0 && kiln_plan_loop_end(plan, open[depth - 1]) < i) depth--;
        c->loop_of[i] = depth > 0 ? open[depth - 1] : KILN_PLAN_NONE;
        bool deeper = plan->step[i].action == KILN_ACTION_LOOP;
        kiln_status st = KILN_OK;
        if (deeper && depth == KILN_MODULE_LOOP_DEPTH_MAX)
            st = KILN_ERROR(INVALID_ARGUMENT, "loops nested more than %u deep",
                            KILN_MODULE_LOOP_DEPTH_MAX);
        if (!st) st = check_step(c, i);
        if (st) return kiln_status_note(st, "step %u", i);
        if (deeper) open[depth++] = i;
    }
    return KILN_OK;
}

static kiln_status decode_manifests(step_check *c, kiln_arena *scratch) {
    c->manifest = KILN_ARENA_ARRAY(scratch, kiln_manifest *, c->plan->kernel_count);
    for (uint32_t i = 0; i < c->plan->kernel_count; i++) {
        kiln_artefact *artefact = KILN_ARENA_NEW(scratch, kiln_artefact);
        kiln_status st = kiln_artefact_decode(c->plan->kernel[i], scratch, artefact);
        if (st) return kiln_status_note(st, "kernel %u", i);
        c->manifest[i] = &artefact->manifest;
    }
    return KILN_OK;
}

/* `flow` may be NULL; else it is allocated in `arena`. */
static kiln_status check_plan(const kiln_module_plan *plan, kiln_arena *arena,
                              kiln_plan_flow *flow) {
    kiln_status st = check_counts(plan);
    if (!st) st = check_metadata(plan);
    if (!st) st = check_devices(plan);
    if (!st)
        st = kiln_status_note(check_ports(plan, plan->input, plan->input_count, KILN_STORAGE_INPUT),
                              "inputs");
    if (!st)
        st = kiln_status_note(
            check_ports(plan, plan->output, plan->output_count, KILN_STORAGE_OUTPUT), "outputs");
    for (uint32_t i = 0; !st && i < plan->buffer_count; i++)
        if (!buffer_fits(plan, i))
            st = KILN_ERROR(INVALID_ARGUMENT, "buffer %u is out of bounds or has no owner", i);
    if (st) return kiln_status_note(st, "module plan");

    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    step_check c = {.plan = plan,
                    .kernel_device = KILN_ARENA_ARRAY(&scratch, uint32_t, plan->kernel_count),
                    .loop_of = KILN_ARENA_ARRAY(&scratch, uint32_t, plan->step_count)};
    for (uint32_t i = 0; i < plan->kernel_count; i++) c.kernel_device[i] = KILN_PLAN_NONE;
    st = decode_manifests(&c, &scratch);
    if (!st) st = check_steps(&c);
    kiln_flow_recorder *recorder = !st && flow ? kiln_flow_begin(plan, arena, &scratch) : NULL;
    if (!st) st = kiln_plan_walk(plan, c.loop_of, recorder, &scratch);
    if (!st && recorder) *flow = kiln_flow_end(recorder, c.loop_of);
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "module plan");
}

kiln_status kiln_module_plan_check(const kiln_module_plan *plan) {
    return check_plan(plan, NULL, NULL);
}

kiln_status kiln_module_plan_follow(const kiln_module_plan *plan, kiln_arena *arena,
                                    kiln_plan_flow *out_flow) {
    return check_plan(plan, arena, out_flow);
}
