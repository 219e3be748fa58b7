/* The null device: an accelerator in software. It runs byte code (base/null_code.h) over memory of
 * its own, which the host reaches by copies alone: a place is the number of an allocation and an
 * offset, never an address. Its clock counts ticks (base/null_code.h), one for each ns, so the same
 * launch takes the same time on every machine. Everything is done when a call returns. The template
 * for devices with memory of their own. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "deploy/runtime/device.h"
#include "deploy/runtime/null_run.h"

#define ALLOCATIONS_MAX 4096u
#define ALIGNMENT 256u

typedef struct null_state {
    struct {
        char *data; /* NULL: free */
        uint64_t size_bytes;
    } allocation[ALLOCATIONS_MAX];
    uint64_t ticks; /* since it was opened: its clock */
    uint64_t event_ns[KILN_DEVICE_EVENTS];
    const char *error; /* the last one; NULL: none yet */
} null_state;

typedef struct null_launch {
    kiln_null_ready *ready;
    uint32_t grid[3], argument_count;
} null_launch;

typedef struct null_program {
    kiln_arena arena; /* of the code */
    uint32_t launch_count;
    null_launch *launch;        /* [launch_count] */
    kiln_null_memory *argument; /* of the launch that runs: as many as any has */
} null_program;

static kiln_status null_list(kiln_arena *arena, kiln_device_facts **out_facts,
                             uint32_t *out_count) {
    *out_facts = KILN_ARENA_NEW(arena, kiln_device_facts);
    *out_count = 1;
    (*out_facts)->name = "byte code";
    (*out_facts)->driver = "none";
    return kiln_target_parse(KILN_STR("null"), arena, &(*out_facts)->target);
}

static kiln_status null_open(const kiln_device_setup *setup, kiln_arena *arena,
                             kiln_target *out_target, void **out_state) {
    if (!setup->target) {
        kiln_status st = kiln_target_parse(KILN_STR("null"), arena, out_target);
        if (st) return st;
    }
    *out_state = kiln_alloc(sizeof(null_state));
    return KILN_OK;
}

static void null_close(void *state) { kiln_free(state); }

/* ---- memory ---------------------------------------------------------------------------------- */

static kiln_status null_allocate(void *context, kiln_memory_space space, size_t size_bytes,
                                 kiln_guard guard, kiln_device_memory *out_memory) {
    (void)guard; /* every access is checked */
    null_state *state = context;
    uint32_t number = 0;
    while (number < ALLOCATIONS_MAX && state->allocation[number].data) number++;
    if (number == ALLOCATIONS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%u allocations are there already", ALLOCATIONS_MAX);
    if (size_bytes > KILN_NULL_TEMP_BYTES_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%zu bytes at once; at most %llu", size_bytes,
                          (unsigned long long)KILN_NULL_TEMP_BYTES_MAX);
    state->allocation[number].data = kiln_alloc_aligned(ALIGNMENT, size_bytes ? size_bytes : 1);
    state->allocation[number].size_bytes = size_bytes;
    *out_memory = (kiln_device_memory){
        .space = space, .size_bytes = size_bytes, .data = (void *)(uintptr_t)(number + 1)};
    return KILN_OK;
}

/* The bytes from a place on; NULL when there are not so many. */
static char *find_bytes(const null_state *state, const void *handle, uint64_t offset,
                        uint64_t size_bytes) {
    uintptr_t number = (uintptr_t)handle - 1;
    if (number >= ALLOCATIONS_MAX || !state->allocation[number].data) return NULL;
    uint64_t size = state->allocation[number].size_bytes;
    if (offset > size || size_bytes > size - offset) return NULL;
    return state->allocation[number].data + offset;
}

static void null_release(void *context, kiln_device_memory *memory) {
    null_state *state = context;
    uintptr_t number = (uintptr_t)memory->data - 1;
    KILN_CHECK(number < ALLOCATIONS_MAX);
    kiln_free(state->allocation[number].data);
    state->allocation[number].data = NULL;
}

static kiln_device_place null_place(void *state, const kiln_device_memory *memory,
                                    uint64_t offset) {
    (void)state;
    return (kiln_device_place){memory->data, offset};
}

/* `why` lasts for ever. */
static int32_t fail(null_state *state, const char *why) {
    state->error = why;
    return KILN_KERNEL_FAILED;
}

static int32_t null_copy(void *context, kiln_copy_direction direction, kiln_device_place to,
                         kiln_device_place from, size_t size_bytes) {
    null_state *state = context;
    char *target = direction == KILN_COPY_FROM_DEVICE
                       ? (char *)to.data + to.byte_offset
                       : find_bytes(state, to.data, to.byte_offset, size_bytes);
    const char *source = direction == KILN_COPY_TO_DEVICE
                             ? (const char *)from.data + from.byte_offset
                             : find_bytes(state, from.data, from.byte_offset, size_bytes);
    if (!target || !source) return fail(state, "a copy beyond the memory of the null device");
    if (size_bytes > 0) memmove(target, source, size_bytes);
    return KILN_KERNEL_OK;
}

/* ---- programs -------------------------------------------------------------------------------- */

static kiln_status check_limits(const kiln_manifest_launch *launch, const kiln_null_function *f,
                                const kiln_target *target) {
    uint64_t threads = (uint64_t)launch->group[0] * launch->group[1] * launch->group[2];
    uint64_t groups = (uint64_t)launch->grid[0] * launch->grid[1];
    if (launch->group[0] > target->group_threads || launch->group[1] > target->group_threads ||
        launch->group[2] > target->group_threads || threads > target->group_threads)
        return KILN_ERROR(FAILED_PRECONDITION, "a group of %llu threads; the device runs %u",
                          (unsigned long long)threads, target->group_threads);
    if (f->shared_bytes > target->shared_bytes)
        return KILN_ERROR(FAILED_PRECONDITION, "%llu bytes shared by a group; the device has %u",
                          (unsigned long long)f->shared_bytes, target->shared_bytes);
    if (f->shared_bytes > launch->scratch_bytes[KILN_MEMORY_SHARED])
        return KILN_ERROR(DATA_LOSS, "the code shares %llu bytes, the launch has %llu",
                          (unsigned long long)f->shared_bytes,
                          (unsigned long long)launch->scratch_bytes[KILN_MEMORY_SHARED]);
    uint64_t steps = (f->steps + 1) * threads;
    if (groups > UINT32_MAX || groups * launch->grid[2] > UINT32_MAX ||
        groups * launch->grid[2] > KILN_NULL_STEPS_MAX / steps)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "it may run more than %llu statements",
                          (unsigned long long)KILN_NULL_STEPS_MAX);
    return KILN_OK;
}

/* The function of a launch, with all that can be checked of it. */
static kiln_status find_function(const kiln_manifest *manifest, uint32_t index,
                                 const kiln_null_code *code, const kiln_target *target,
                                 const kiln_null_function **out_function) {
    const kiln_manifest_launch *launch = &manifest->launch[index];
    const kiln_null_function *f = kiln_null_code_find(&code[launch->payload], launch->entry);
    kiln_status st = KILN_OK;
    if (!f)
        st = KILN_ERROR(NOT_FOUND, "there is no function %.*s", KILN_STR_ARG(launch->entry));
    else if (kiln_null_argument_count(f) > launch->arg_count)
        st = KILN_ERROR(DATA_LOSS, "the code names more arguments than there are");
    if (!st) st = check_limits(launch, f, target);
    if (!st) *out_function = f;
    return kiln_status_note(st, "launch %u", index);
}

static kiln_status decode(const kiln_artefact *artefact, kiln_arena *arena,
                          kiln_null_code **out_code) {
    const kiln_manifest *manifest = &artefact->manifest;
    kiln_null_code *code = KILN_ARENA_ARRAY(arena, kiln_null_code, manifest->payload_count);
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < manifest->payload_count; i++) {
        if (manifest->payload[i].kind != KILN_PAYLOAD_NULL_CODE)
            return KILN_ERROR(UNIMPLEMENTED, "payload %u is not byte code of the null device", i);
        st = kiln_null_code_decode(kiln_artefact_payload(artefact, i), arena, &code[i]);
    }
    *out_code = code;
    return st;
}

static kiln_status null_check(const kiln_artefact *artefact, const kiln_target *target) {
    kiln_arena scratch;
    kiln_null_code *code = NULL;
    const kiln_null_function *function;
    kiln_arena_init(&scratch, 0);
    kiln_status st = decode(artefact, &scratch, &code);
    for (uint32_t i = 0; !st && i < artefact->manifest.launch_count; i++)
        st = find_function(&artefact->manifest, i, code, target, &function);
    kiln_arena_deinit(&scratch);
    return st;
}

static void null_unload(void *state, void *loaded) {
    (void)state;
    null_program *program = loaded;
    for (uint32_t i = 0; i < program->launch_count; i++)
        kiln_null_ready_destroy(program->launch[i].ready);
    kiln_free(program->launch);
    kiln_free(program->argument);
    kiln_arena_deinit(&program->arena);
    kiln_free(program);
}

static kiln_status make_ready(const kiln_manifest *manifest, uint32_t index,
                              const kiln_null_code *code, const kiln_target *target,
                              null_launch *out) {
    const kiln_manifest_launch *launch = &manifest->launch[index];
    const kiln_null_function *function;
    kiln_status st = find_function(manifest, index, code, target, &function);
    if (st) return st;
    memcpy(out->grid, launch->grid, sizeof out->grid);
    out->argument_count = kiln_null_argument_count(function);
    return kiln_null_ready_create(function, launch->group, &out->ready);
}

static kiln_status null_load(void *state, const kiln_artefact *artefact, void **out_program) {
    const kiln_manifest *manifest = &artefact->manifest;
    null_program *program = kiln_alloc(sizeof *program);
    kiln_null_code *code = NULL;
    kiln_target target;
    kiln_arena_init(&program->arena, 0);
    program->launch = kiln_alloc(manifest->launch_count * sizeof *program->launch);
    kiln_status st = kiln_target_parse(manifest->target, &program->arena, &target);
    if (!st) st = decode(artefact, &program->arena, &code);
    uint32_t most = 0;
    for (uint32_t i = 0; !st && i < manifest->launch_count; i++) {
        st = make_ready(manifest, i, code, &target, &program->launch[i]);
        program->launch_count += !st;
        most = KILN_MAX(most, program->launch[i].argument_count);
    }
    program->argument = kiln_alloc(most * sizeof *program->argument);
    if (st)
        null_unload(state, program);
    else
        *out_program = program;
    return st;
}

/* Bytes of an argument, as its shape says. */
static uint64_t bytes_of(const kiln_kernel_tensor *tensor) {
    uint64_t bytes = tensor->type_bits / 8;
    for (int32_t d = 0; d < tensor->ndim; d++) bytes *= (uint64_t)tensor->shape[d];
    return bytes;
}

static int32_t null_launch_run(void *context, void *loaded, uint32_t index,
                               kiln_kernel_tensor *const *args,
                               const kiln_kernel_services *services) {
    (void)services;
    null_state *state = context;
    null_program *program = loaded;
    null_launch *launch = &program->launch[index];
    for (uint32_t i = 0; i < launch->argument_count; i++) {
        uint64_t size = bytes_of(args[i]);
        char *data = find_bytes(state, args[i]->data, args[i]->byte_offset, size);
        if (!data) return fail(state, "an argument is not in the memory of the null device");
        program->argument[i] = (kiln_null_memory){data, size};
    }
    switch (kiln_null_launch(launch->ready, launch->grid, program->argument, &state->ticks)) {
    case KILN_NULL_OK: return KILN_KERNEL_OK;
    case KILN_NULL_STRAY: return fail(state, "an index lies outside of its buffer");
    case KILN_NULL_DIVERGED: break;
    }
    return fail(state, "a barrier was not reached by all threads of a group");
}

/* ---- time ------------------------------------------------------------------------------------ */

static int32_t null_record(void *context, uint32_t event) {
    null_state *state = context;
    state->event_ns[event] = state->ticks;
    return KILN_KERNEL_OK;
}

static int32_t null_wait(void *state, uint32_t event) {
    (void)state, (void)event;
    return KILN_KERNEL_OK;
}

static uint64_t null_elapsed_ns(void *context, uint32_t from_event, uint32_t to_event) {
    const null_state *state = context;
    return state->event_ns[to_event] - state->event_ns[from_event];
}

static const char *null_error(void *context) {
    const null_state *state = context;
    return state->error ? state->error : "";
}

const kiln_device_vtable kiln_device_null = {
    .list = null_list,
    .open = null_open,
    .close = null_close,
    .allocate = null_allocate,
    .release = null_release,
    .place = null_place,
    .check = null_check,
    .load = null_load,
    .unload = null_unload,
    .launch = null_launch_run,
    .copy = null_copy,
    .record = null_record,
    .wait = null_wait,
    .elapsed_ns = null_elapsed_ns,
    .error = null_error,
};
