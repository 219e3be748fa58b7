/* The null device: an accelerator in software. It runs byte code (base/null_code.h) over its own
 * memory, which the host reaches by copies alone: a place is the number of an allocation and an
 * offset, never an address. Its clock counts ticks (base/null_code.h), one per ns, so the same
 * launch takes the same time on every machine. All work is done when a call returns. The template
 * for devices with their own memory. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "deploy/runtime/device.h"
#include "deploy/runtime/device_soft.h"
#include "deploy/runtime/null_run.h"

typedef struct null_launch {
    kiln_null_ready *ready;
    uint32_t grid[3], argument_count;
} null_launch;

typedef struct null_program {
    kiln_arena arena; /* of the code */
    uint32_t launch_count;
    null_launch *launch;        /* [launch_count] */
    kiln_null_memory *argument; /* of the running launch; room for the launch with most */
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
    *out_state = kiln_soft_device_create();
    return KILN_OK;
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

/* Finds and checks the function of a launch. */
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

static int32_t null_launch_run(void *context, void *loaded, uint32_t index,
                               kiln_kernel_tensor *const *args,
                               const kiln_kernel_services *services) {
    (void)services;
    kiln_soft_device *state = context;
    null_program *program = loaded;
    null_launch *launch = &program->launch[index];
    for (uint32_t i = 0; i < launch->argument_count; i++) {
        uint64_t size = kiln_soft_argument_bytes(args[i]);
        char *data = kiln_soft_bytes(state, args[i]->data, args[i]->byte_offset, size);
        if (!data)
            return kiln_soft_fail(state, "an argument is not in the memory of the null device");
        program->argument[i] = (kiln_null_memory){data, size};
    }
    switch (kiln_null_launch(launch->ready, launch->grid, program->argument, &state->clock_ns)) {
    case KILN_NULL_OK: return KILN_KERNEL_OK;
    case KILN_NULL_STRAY: return kiln_soft_fail(state, "an index lies outside of its buffer");
    case KILN_NULL_DIVERGED: break;
    }
    return kiln_soft_fail(state, "a barrier was not reached by all threads of a group");
}

const kiln_device_vtable kiln_device_null = {
    .list = null_list,
    .open = null_open,
    .close = kiln_soft_close,
    .allocate = kiln_soft_allocate,
    .release = kiln_soft_release,
    .place = kiln_soft_place,
    .check = null_check,
    .load = null_load,
    .unload = null_unload,
    .launch = null_launch_run,
    .copy = kiln_soft_copy,
    .record = kiln_soft_record,
    .wait = kiln_soft_wait,
    .elapsed_ns = kiln_soft_elapsed_ns,
    .error = kiln_soft_error,
};
