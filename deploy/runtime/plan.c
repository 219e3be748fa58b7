#include <string.h>

#include "base/arena.h"
#include "base/manifest.h"
#include "deploy/format.h"
#include "deploy/runtime/kernel.h"

#define NEVER UINT32_MAX

uint32_t kiln_module_plan_root(const kiln_module_plan *plan, uint32_t buffer) {
    const kiln_plan_buffer *b = &plan->buffer[buffer];
    return b->storage == KILN_STORAGE_ALIAS ? b->source : buffer;
}

uint64_t kiln_module_plan_offset(const kiln_module_plan *plan, uint32_t buffer) {
    const kiln_plan_buffer *b = &plan->buffer[buffer];
    return b->storage == KILN_STORAGE_ALIAS ? b->offset : 0;
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
        {"threads", plan->threads, KILN_POOL_WORKERS_MAX},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(limit); i++)
        if (limit[i].count > limit[i].max)
            return KILN_ERROR(INVALID_ARGUMENT, "%u %s, at most %u are allowed", limit[i].count,
                              limit[i].what, limit[i].max);
    if (plan->threads == 0) return KILN_ERROR(INVALID_ARGUMENT, "no thread");
    if (plan->arena_bytes > KILN_MODULE_ARENA_BYTES_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "arena of %llu bytes",
                          (unsigned long long)plan->arena_bytes);
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

static bool lies_within(const kiln_plan_buffer *b, uint64_t bytes) {
    return b->offset % KILN_KERNEL_ALIGNMENT == 0 && b->offset <= bytes &&
           b->size_bytes <= bytes - b->offset;
}

static bool buffer_fits(const kiln_module_plan *plan, uint32_t index) {
    const kiln_plan_buffer *b = &plan->buffer[index];
    if (b->size_bytes > KILN_TENSOR_BYTES_MAX) return false;
    switch (b->storage) {
    case KILN_STORAGE_ARENA: return lies_within(b, plan->arena_bytes);
    case KILN_STORAGE_CONSTANT: return b->data != NULL;
    case KILN_STORAGE_INPUT: return port_owns(plan->input, plan->input_count, b->source, index);
    case KILN_STORAGE_OUTPUT: return port_owns(plan->output, plan->output_count, b->source, index);
    case KILN_STORAGE_ALIAS:
        return b->source < plan->buffer_count &&
               plan->buffer[b->source].storage != KILN_STORAGE_ALIAS &&
               lies_within(b, plan->buffer[b->source].size_bytes);
    }
    return false;
}

/* Bytes of a root that a step has written; a root's ranges are chained and never overlap. */
typedef struct range {
    uint64_t begin, end;
    struct range *next;
} range;

/* What is known while the steps are walked through. */
typedef struct walk {
    const kiln_module_plan *plan;
    kiln_arena *scratch;
    kiln_manifest **manifest;         /* [kernel_count] */
    uint32_t *first_write, *last_use; /* [buffer_count] by root; NEVER */
    range **written;                  /* [buffer_count] by root */
    uint32_t *live, live_count;       /* arena roots that are alive */
} walk;

/* Whether the step's arguments are what its kernel wants. */
static kiln_status check_call(const walk *w, const kiln_plan_step *step) {
    static const kiln_layout row;
    const kiln_manifest *manifest = w->manifest[step->kernel];
    uint32_t bound = 0, outputs = 0;
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        const kiln_manifest_arg *arg = &manifest->arg[i];
        if (kiln_role_is_owned(arg->role)) continue;
        if (bound++ != i || i >= step->arg_count)
            return KILN_ERROR(INVALID_ARGUMENT, "kernel %u has more arguments", step->kernel);
        const kiln_plan_buffer *buffer = &w->plan->buffer[step->arg[i]];
        kiln_module_storage storage =
            w->plan->buffer[kiln_module_plan_root(w->plan, step->arg[i])].storage;
        size_t bytes = 0;
        kiln_status st = kiln_manifest_arg_bytes(arg, &bytes);
        if (st) return st;
        bool port = storage == KILN_STORAGE_INPUT || storage == KILN_STORAGE_OUTPUT;
        if (bytes != buffer->size_bytes ||
            (port && !kiln_layout_same_places(&arg->layout, &row, &arg->shape)) ||
            (arg->role == KILN_ROLE_CONSTANT && storage != KILN_STORAGE_CONSTANT))
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

static kiln_status check_step(const walk *w, const kiln_plan_step *step) {
    const kiln_module_plan *plan = w->plan;
    kiln_status st = check_text(step->name, "name");
    if (!st) st = check_text(step->op, "op");
    if (!st) st = check_text(step->task, "task");
    if (st) return st;
    if (step->arg_count > KILN_MANIFEST_ARGS_MAX || step->output_count > step->arg_count)
        return KILN_ERROR(INVALID_ARGUMENT, "%u arguments", step->arg_count);
    for (uint32_t i = 0; i < step->arg_count; i++)
        if (step->arg[i] >= plan->buffer_count)
            return KILN_ERROR(INVALID_ARGUMENT, "buffer %u of %u", step->arg[i],
                              plan->buffer_count);
    if (step->action == KILN_ACTION_KERNEL) {
        if (step->kernel < plan->kernel_count) return check_call(w, step);
        return KILN_ERROR(INVALID_ARGUMENT, "kernel %u of %u", step->kernel, plan->kernel_count);
    }
    bool alias = step->action == KILN_ACTION_ALIAS,
         copy = step->action == KILN_ACTION_COPY && step->arg_count == 2;
    if ((!alias && !copy) || step->arg_count < 2 || step->output_count != copy)
        return KILN_ERROR(INVALID_ARGUMENT, "action %d with %u arguments", (int)step->action,
                          step->arg_count);
    const uint32_t *arg = step->arg;
    if (copy && plan->buffer[arg[0]].size_bytes != plan->buffer[arg[1]].size_bytes)
        return KILN_ERROR(INVALID_ARGUMENT, "buffers %u and %u cannot be copied", arg[0], arg[1]);
    for (uint32_t i = 1; alias && i < step->arg_count; i++)
        if (kiln_module_plan_root(plan, arg[i]) != kiln_module_plan_root(plan, arg[0]))
            return KILN_ERROR(INVALID_ARGUMENT, "buffers %u and %u cannot be aliases", arg[0],
                              arg[i]);
    return KILN_OK;
}

/* How many bytes of a buffer have been written. */
static uint64_t written_bytes(const walk *w, uint32_t buffer) {
    uint64_t begin = kiln_module_plan_offset(w->plan, buffer), bytes = 0;
    uint64_t end = begin + w->plan->buffer[buffer].size_bytes;
    for (const range *r = w->written[kiln_module_plan_root(w->plan, buffer)]; r; r = r->next)
        if (r->begin < end && begin < r->end)
            bytes += KILN_MIN(r->end, end) - KILN_MAX(r->begin, begin);
    return bytes;
}

static bool is_written(const walk *w, uint32_t buffer) {
    return w->first_write[kiln_module_plan_root(w->plan, buffer)] != NEVER &&
           written_bytes(w, buffer) == w->plan->buffer[buffer].size_bytes;
}

/* Nothing else was written there, were it of no bytes. */
static bool is_untouched(const walk *w, uint32_t buffer) {
    bool part = w->plan->buffer[buffer].storage == KILN_STORAGE_ALIAS;
    return part ? written_bytes(w, buffer) == 0 : w->first_write[buffer] == NEVER;
}

static void note_write(walk *w, uint32_t buffer, uint32_t step) {
    uint32_t root = kiln_module_plan_root(w->plan, buffer);
    range *r = KILN_ARENA_NEW(w->scratch, range);
    r->begin = kiln_module_plan_offset(w->plan, buffer);
    r->end = r->begin + w->plan->buffer[buffer].size_bytes;
    r->next = w->written[root];
    w->written[root] = r;
    if (w->first_write[root] == NEVER) w->first_write[root] = step;
}

/* Enters a step's reads and writes, in order of steps. */
static kiln_status follow_data(walk *w, uint32_t index) {
    const kiln_plan_step *step = &w->plan->step[index];
    uint32_t read_count = step->arg_count - step->output_count;
    for (uint32_t i = 0; i < step->arg_count; i++) {
        uint32_t root = kiln_module_plan_root(w->plan, step->arg[i]);
        kiln_module_storage storage = w->plan->buffer[root].storage;
        bool given = storage == KILN_STORAGE_INPUT || storage == KILN_STORAGE_CONSTANT;
        if (i < read_count && !given && !is_written(w, step->arg[i]))
            return KILN_ERROR(INVALID_ARGUMENT, "buffer %u is read before it is written",
                              step->arg[i]);
        if (i >= read_count && (given || !is_untouched(w, step->arg[i])))
            return KILN_ERROR(INVALID_ARGUMENT, "buffer %u may not be written %s", step->arg[i],
                              given ? "at all" : "twice");
        if (i >= read_count) note_write(w, step->arg[i], index);
        w->last_use[root] = index;
    }
    return KILN_OK;
}

static bool overlap(const kiln_plan_buffer *a, const kiln_plan_buffer *b) {
    return a->offset < b->offset + b->size_bytes && b->offset < a->offset + a->size_bytes;
}

/* A whole result may stand exactly where an input of the step stood that is not needed after it:
 * the kernel reads each element before it writes the one at the same place, which only its maker
 * can know. */
static bool takes_over(const walk *w, uint32_t index, uint32_t written, uint32_t root) {
    const kiln_plan_buffer *input = &w->plan->buffer[root], *result = &w->plan->buffer[written];
    return w->plan->step[index].action == KILN_ACTION_KERNEL &&
           result->storage == KILN_STORAGE_ARENA && w->first_write[root] < index &&
           w->last_use[root] == index && result->offset == input->offset &&
           result->size_bytes == input->size_bytes;
}

/* From the first write into any part of it on. */
static bool is_live(const walk *w, uint32_t root) {
    for (uint32_t i = 0; i < w->live_count; i++)
        if (w->live[i] == root) return true;
    return false;
}

/* Adds what the step writes to the arena to the buffers alive, which must lie elsewhere. */
static kiln_status follow_memory(walk *w, uint32_t index) {
    const kiln_plan_step *step = &w->plan->step[index];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->live_count; i++)
        if (w->last_use[w->live[i]] >= index) w->live[kept++] = w->live[i];
    w->live_count = kept;
    for (uint32_t i = step->arg_count - step->output_count; i < step->arg_count; i++) {
        uint32_t root = kiln_module_plan_root(w->plan, step->arg[i]);
        const kiln_plan_buffer *buffer = &w->plan->buffer[root];
        if (buffer->storage != KILN_STORAGE_ARENA || is_live(w, root)) continue;
        for (uint32_t j = 0; j < w->live_count; j++)
            if (overlap(buffer, &w->plan->buffer[w->live[j]]) &&
                !takes_over(w, index, step->arg[i], w->live[j]))
                return KILN_ERROR(INVALID_ARGUMENT,
                                  "buffer %u overwrites buffer %u, which is still needed", root,
                                  w->live[j]);
        w->live[w->live_count++] = root;
    }
    return KILN_OK;
}

static kiln_status check_steps(walk *w) {
    const kiln_module_plan *plan = w->plan;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        kiln_status st = check_step(w, &plan->step[i]);
        if (!st) st = follow_data(w, i);
        if (st) return kiln_status_note(st, "step %u", i);
    }
    for (uint32_t i = 0; i < plan->output_count; i++)
        if (!is_written(w, plan->output[i].buffer))
            return KILN_ERROR(INVALID_ARGUMENT, "output %u is never written", i);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        kiln_status st = follow_memory(w, i);
        if (st) return kiln_status_note(st, "step %u", i);
    }
    return KILN_OK;
}

static kiln_status decode_manifests(walk *w, kiln_arena *scratch) {
    w->manifest = KILN_ARENA_ARRAY(scratch, kiln_manifest *, w->plan->kernel_count);
    for (uint32_t i = 0; i < w->plan->kernel_count; i++) {
        kiln_artefact *artefact = KILN_ARENA_NEW(scratch, kiln_artefact);
        kiln_status st = kiln_artefact_decode(w->plan->kernel[i], scratch, artefact);
        if (st) return kiln_status_note(st, "kernel %u", i);
        w->manifest[i] = &artefact->manifest;
    }
    return KILN_OK;
}

kiln_status kiln_module_plan_check(const kiln_module_plan *plan) {
    kiln_status st = check_counts(plan);
    if (!st) st = check_metadata(plan);
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
    walk w = {.plan = plan, .scratch = &scratch};
    size_t table_bytes = plan->buffer_count * sizeof(uint32_t);
    w.first_write = kiln_arena_alloc(&scratch, table_bytes);
    w.last_use = kiln_arena_alloc(&scratch, table_bytes);
    w.live = kiln_arena_alloc(&scratch, table_bytes);
    w.written = KILN_ARENA_ARRAY(&scratch, range *, plan->buffer_count);
    memset(w.first_write, 0xff, table_bytes); /* NEVER */
    st = decode_manifests(&w, &scratch);
    if (!st) st = check_steps(&w);
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "module plan");
}
