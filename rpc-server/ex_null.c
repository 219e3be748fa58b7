/* The executor of the null device, and the template for executors of devices with memory of their
 * own: copy this file, add a row to executors.def, and put your kind of device in place of
 * KILN_DEVICE_NULL. Arguments lie in the device's memory; the host fills, poisons and reads them by
 * copies. Its clock is exact: the first run that is checked is the measurement, too. */
#include <string.h>

#include "base/alloc.h"
#include "base/layout.h"
#include "base/reference.h"
#include "deploy/runtime/kernel.h"
#include "rpc-server/executor.h"

#define BEGIN 0u /* events */
#define DONE 1u

typedef struct null_program {
    kiln_device *device;
    kiln_kernel *kernel;
    kiln_call *call;
    kiln_device_memory arg[KILN_MANIFEST_ARGS_MAX]; /* empty where the memory is the call's */
    size_t staging_bytes;
    char *staging; /* of the host, as large as the largest argument: nothing is allocated later */
} null_program;

static kiln_status null_open(const kiln_executor_setup *setup, void **out_device) {
    (void)setup;
    kiln_device *device = NULL;
    kiln_status st = kiln_device_open(KILN_DEVICE_NULL, NULL, &device);
    *out_device = device;
    return st;
}

static void null_close(void *device) { kiln_device_close(device); }

static void null_unload(void *context) {
    null_program *program = context;
    if (!program) return;
    kiln_call_destroy(program->call);
    kiln_kernel_unload(program->kernel);
    for (uint32_t i = 0; i < KILN_MANIFEST_ARGS_MAX; i++)
        kiln_device_release(program->device, &program->arg[i]);
    kiln_free(program->staging);
    kiln_free(program);
}

static kiln_status bind_arguments(null_program *program) {
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    kiln_status st = kiln_call_create(program->kernel, KILN_GUARD_NONE, &program->call);
    for (uint32_t i = 0; !st && i < manifest->arg_count; i++) {
        size_t bytes = kiln_kernel_arg_bytes(program->kernel, i);
        program->staging_bytes = KILN_MAX(program->staging_bytes, bytes);
        if (kiln_role_is_owned(manifest->arg[i].role)) continue;
        st = kiln_device_allocate(program->device, bytes, KILN_GUARD_NONE, &program->arg[i]);
        kiln_device_place place = kiln_device_place_at(program->device, &program->arg[i], 0);
        if (!st) st = kiln_call_bind_place(program->call, i, place, bytes);
    }
    program->staging = kiln_alloc(program->staging_bytes);
    return st;
}

static kiln_status null_load(void *device, kiln_str artefact, const kiln_manifest *manifest,
                             void **out_program) {
    (void)manifest;
    null_program *program = kiln_alloc(sizeof *program);
    program->device = device;
    kiln_status st = kiln_kernel_load(artefact, device, &program->kernel);
    if (!st) st = bind_arguments(program);
    if (st)
        null_unload(program);
    else
        *out_program = program;
    return st;
}

/* The staging memory to or from the first bytes of an argument. */
static int32_t copy(const null_program *program, kiln_copy_direction direction,
                    const kiln_device_memory *memory, size_t bytes) {
    kiln_device_place host = kiln_host_place(program->staging),
                      own = kiln_device_place_at(program->device, memory, 0);
    return direction == KILN_COPY_TO_DEVICE
               ? kiln_device_copy(program->device, direction, own, host, bytes)
               : kiln_device_copy(program->device, direction, host, own, bytes);
}

static void fill_staging(const null_program *program, uint16_t poison) {
    for (size_t i = 0; i < program->staging_bytes; i++)
        program->staging[i] = (char)(poison >> 8 * (i % 2) & 255);
}

static void null_fill(void *context, uint64_t seed) {
    null_program *program = context;
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        const kiln_manifest_arg *arg = &manifest->arg[i];
        if (arg->role != KILN_ROLE_INPUT && arg->role != KILN_ROLE_CONSTANT) continue;
        size_t count = (size_t)kiln_shape_count(&arg->shape);
        void *logical = kiln_alloc(count * kiln_dtype_size(arg->dtype));
        kiln_manifest_arg_fill(arg, kiln_input_seed(seed, i), logical);
        fill_staging(program, KILN_POISON_FIRST); /* what a layout pads with is unspecified */
        kiln_layout_pack(&arg->layout, &arg->shape, arg->dtype, logical, program->staging);
        kiln_free(logical);
        (void)copy(program, KILN_COPY_TO_DEVICE, &program->arg[i], program->arg[i].size_bytes);
    }
}

static kiln_ran null_prepare(void *context) {
    null_program *program = context;
    kiln_status st = kiln_call_prepare(program->call, NULL);
    return st ? KILN_RAN_ERROR : KILN_RAN_OK; /* the process ends: nothing is freed */
}

static kiln_ran null_run(void *context, uint32_t runs, uint64_t *out_ns) {
    null_program *program = context;
    int32_t status = kiln_device_record(program->device, BEGIN);
    for (uint32_t i = 0; i < runs; i++) status |= kiln_call_run(program->call, NULL);
    status |= kiln_device_record(program->device, DONE);
    status |= kiln_device_wait(program->device, DONE);
    *out_ns = kiln_device_elapsed_ns(program->device, BEGIN, DONE);
    return status == KILN_KERNEL_OK ? KILN_RAN_OK : KILN_RAN_ERROR;
}

static kiln_ran null_check(void *context, uint16_t poison, void *out_outputs, uint64_t *out_ns) {
    null_program *program = context;
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    int32_t status = 0;
    fill_staging(program, poison);
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        size_t bytes = kiln_kernel_arg_bytes(program->kernel, i);
        if (manifest->arg[i].role == KILN_ROLE_OUTPUT)
            status |= copy(program, KILN_COPY_TO_DEVICE, &program->arg[i], bytes);
        if (manifest->arg[i].role == KILN_ROLE_TEMP)
            status |=
                copy(program, KILN_COPY_TO_DEVICE, kiln_call_memory_of(program->call, i), bytes);
    }
    kiln_ran ran = status ? KILN_RAN_ERROR : null_run(program, 1, out_ns);
    char *to = out_outputs;
    for (uint32_t i = 0; ran == KILN_RAN_OK && i < manifest->arg_count; i++) {
        if (manifest->arg[i].role != KILN_ROLE_OUTPUT) continue;
        size_t bytes = kiln_kernel_arg_bytes(program->kernel, i);
        if (copy(program, KILN_COPY_FROM_DEVICE, &program->arg[i], bytes)) return KILN_RAN_ERROR;
        memcpy(to, program->staging, bytes);
        to += (bytes + KILN_KERNEL_ALIGNMENT - 1) / KILN_KERNEL_ALIGNMENT * KILN_KERNEL_ALIGNMENT;
    }
    return ran;
}

const kiln_executor_vtable kiln_executor_null = {
    .open = null_open,
    .load = null_load,
    .fill = null_fill,
    .prepare = null_prepare,
    .run = null_run,
    .check = null_check,
    .unload = null_unload,
    .close = null_close,
};
