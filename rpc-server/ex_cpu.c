/* The executor of this machine's processor: loads and calls objects through deploy/runtime. */
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/layout.h"
#include "base/rand.h"
#include "base/reference.h"
#include "deploy/runtime/kernel.h"
#include "deploy/runtime/pages.h"
#include "deploy/runtime/pool.h"
#include "deploy/runtime/services.h"
#include "rpc-server/executor.h"

/* All programs share the pool, because idle workers of a second pool would spin while a kernel is
 * timed. */
typedef struct cpu_device {
    kiln_device *device;
    uint32_t core_count;
    kiln_pool *pool; /* NULL with one core */
} cpu_device;

typedef struct cpu_program {
    kiln_device *device;
    kiln_kernel *kernel;
    kiln_call *call;
    kiln_services services;
    kiln_pages scratch;
    kiln_device_memory arg[KILN_MANIFEST_ARGS_MAX]; /* empty if the call owns the memory */
    char *spoiled[KILN_MANIFEST_ARGS_MAX]; /* element of each output that the next run must write */
    kiln_rand rand;
} cpu_program;

/* A NaN in every float type, and no likely integer. */
static const uint16_t spoiled_element[4] = {KILN_POISON_LAST, KILN_POISON_LAST, KILN_POISON_LAST,
                                            KILN_POISON_LAST};

static void cpu_close(void *context) {
    cpu_device *device = context;
    if (!device) return;
    kiln_pool_destroy(device->pool);
    kiln_device_close(device->device);
    kiln_free(device);
}

static kiln_status cpu_open(const kiln_executor_setup *setup, void **out_device) {
    cpu_device *device = kiln_alloc(sizeof *device);
    device->core_count = KILN_MAX(setup->core_count, 1);
    kiln_status st = kiln_device_open(KILN_DEVICE_CPU, NULL, &device->device);
    if (!st && device->core_count > 1)
        st = kiln_pool_create(
            &(kiln_pool_options){.worker_count = device->core_count, .core = setup->core},
            &device->pool);
    if (st) {
        cpu_close(device);
        return st;
    }
    *out_device = device;
    return NULL;
}

static void cpu_unload(void *context) {
    cpu_program *program = context;
    if (!program) return;
    kiln_call_destroy(program->call);
    kiln_kernel_unload(program->kernel);
    for (uint32_t i = 0; i < KILN_MANIFEST_ARGS_MAX; i++)
        kiln_device_release(program->device, &program->arg[i]);
    kiln_pages_destroy(&program->scratch);
    kiln_free(program);
}

/* Allocates memory between guard pages for scratch and for every argument that the call does not
 * own. */
static kiln_status create_buffers(cpu_program *program, uint32_t worker_count) {
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    kiln_status st = kiln_call_create(program->kernel, KILN_GUARD_AFTER, &program->call);
    for (uint32_t i = 0; !st && i < manifest->arg_count; i++) {
        if (kiln_role_is_owned(manifest->arg[i].role)) continue;
        size_t bytes = kiln_kernel_arg_bytes(program->kernel, i);
        st = kiln_device_allocate(program->device, bytes, KILN_GUARD_AFTER, &program->arg[i]);
        if (!st) st = kiln_call_bind(program->call, i, program->arg[i].data, bytes);
    }
    size_t scratch_bytes = kiln_services_scratch_bytes(manifest, worker_count);
    return st ? st : kiln_pages_create(scratch_bytes, KILN_GUARD_AFTER, &program->scratch);
}

static kiln_status cpu_load(void *context, kiln_str artefact, const kiln_manifest *manifest,
                            void **out_program) {
    const cpu_device *device = context;
    uint32_t worker_count = KILN_MAX(KILN_MIN(manifest->threads_max, device->core_count), 1);
    cpu_program *program = kiln_alloc(sizeof *program);
    program->device = device->device;
    kiln_status st = kiln_kernel_load(artefact, program->device, &program->kernel);
    if (!st) st = create_buffers(program, worker_count);
    if (st) {
        cpu_unload(program);
        return st;
    }
    kiln_rand_init(&program->rand, kiln_clock_precise_ns());
    kiln_services_init(&program->services, device->pool, worker_count, program->scratch.data);
    *out_program = program;
    return NULL;
}

static void make_read_only(const kiln_pages *buffer) {
    char *begin = (char *)buffer->mapping + buffer->guard_bytes;
    int rc = mprotect(begin, buffer->mapping_bytes - 2 * buffer->guard_bytes, PROT_READ);
    KILN_CHECK(rc == 0);
}

static void fill_argument(const kiln_manifest_arg *arg, uint64_t seed, kiln_pages *buffer) {
    size_t count = (size_t)kiln_shape_count(&arg->shape);
    if (kiln_layout_is_identity(&arg->layout)) {
        kiln_manifest_arg_fill(arg, seed, buffer->data);
        return;
    }
    void *logical = kiln_alloc(count * kiln_dtype_size(arg->dtype));
    kiln_manifest_arg_fill(arg, seed, logical);
    /* The values of padding are unspecified, so a kernel that relies on zeros there must fail. Only
     * constants are padded with zeros. */
    if (arg->role == KILN_ROLE_CONSTANT)
        memset(buffer->data, 0, buffer->size_bytes);
    else
        kiln_pages_poison(buffer, KILN_POISON_FIRST);
    kiln_layout_pack(&arg->layout, &arg->shape, arg->dtype, logical, buffer->data);
    kiln_free(logical);
}

static void cpu_fill(void *context, uint64_t seed) {
    cpu_program *program = context;
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        kiln_role role = manifest->arg[i].role;
        if (role != KILN_ROLE_INPUT && role != KILN_ROLE_CONSTANT) continue;
        fill_argument(&manifest->arg[i], kiln_input_seed(seed, i), &program->arg[i].pages);
        make_read_only(&program->arg[i].pages);
    }
}

static kiln_ran cpu_prepare(void *context) {
    cpu_program *program = context;
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    kiln_status st = kiln_call_prepare(program->call, &program->services);
    if (st) return KILN_RAN_ERROR; /* the process ends: nothing is freed */
    for (uint32_t i = 0; i < manifest->arg_count; i++)
        if (manifest->arg[i].role == KILN_ROLE_PACKED)
            make_read_only(&kiln_call_memory_of(program->call, i)->pages);
    return KILN_RAN_OK;
}

/* Address of a random logical element of an output; a kernel need not write padding. */
static char *random_element(cpu_program *program, uint32_t arg) {
    const kiln_manifest_arg *output = &kiln_kernel_manifest(program->kernel)->arg[arg];
    int64_t index[KILN_RANK_MAX];
    for (uint32_t d = 0; d < output->shape.rank; d++)
        index[d] = (int64_t)kiln_rand_below(&program->rand, (uint64_t)output->shape.dim[d]);
    int64_t offset = kiln_layout_offset(&output->layout, &output->shape, index);
    return (char *)program->arg[arg].data + (size_t)offset * kiln_dtype_size(output->dtype);
}

/* Overwrites one element of each output, to detect a kernel that skips work that is already done.
 */
static void spoil(cpu_program *program) {
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        program->spoiled[i] = NULL;
        if (manifest->arg[i].role != KILN_ROLE_OUTPUT ||
            kiln_shape_count(&manifest->arg[i].shape) == 0)
            continue;
        char *element = random_element(program, i);
        size_t size = kiln_dtype_size(manifest->arg[i].dtype);
        if (memcmp(element, spoiled_element, size) == 0)
            continue; /* it is the right value already */
        memcpy(element, spoiled_element, size);
        program->spoiled[i] = element;
    }
}

static bool is_spoiled(const cpu_program *program) {
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    for (uint32_t i = 0; i < manifest->arg_count; i++)
        if (program->spoiled[i] && memcmp(program->spoiled[i], spoiled_element,
                                          kiln_dtype_size(manifest->arg[i].dtype)) == 0)
            return true;
    return false;
}

static kiln_ran run_kernel(cpu_program *program, uint32_t runs, uint64_t *out_ns) {
    int32_t status = 0;
    uint64_t begin = kiln_clock_precise_ns();
    for (uint32_t i = 0; i < runs; i++) status |= kiln_call_run(program->call, &program->services);
    *out_ns = kiln_clock_precise_ns() - begin;
    return status == KILN_KERNEL_OK ? KILN_RAN_OK : KILN_RAN_ERROR;
}

static kiln_ran cpu_run(void *context, uint32_t runs, uint64_t *out_ns) {
    cpu_program *program = context;
    spoil(program);
    kiln_ran ran = run_kernel(program, runs, out_ns);
    return ran == KILN_RAN_OK && is_spoiled(program) ? KILN_RAN_STALE : ran;
}

static bool is_intact(const cpu_program *program) {
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    bool intact = kiln_pages_intact(&program->scratch);
    for (uint32_t i = 0; intact && i < manifest->arg_count; i++) {
        const kiln_device_memory *memory = kiln_call_memory_of(program->call, i);
        intact = kiln_pages_intact(memory ? &memory->pages
                                          : &program->arg[i].pages); /* NULL for a table */
    }
    return intact;
}

static kiln_ran cpu_check(void *context, uint16_t poison, void *out_outputs, uint64_t *out_ns) {
    cpu_program *program = context;
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        if (manifest->arg[i].role == KILN_ROLE_OUTPUT)
            kiln_pages_poison(&program->arg[i].pages, poison);
        if (manifest->arg[i].role == KILN_ROLE_TEMP) {
            kiln_pages temp = kiln_call_memory_of(program->call, i)->pages;
            kiln_pages_poison(&temp, poison);
        }
    }
    kiln_pages_poison(&program->scratch, poison);
    kiln_ran ran = run_kernel(program, 1, out_ns);
    if (ran == KILN_RAN_OK && !is_intact(program)) ran = KILN_RAN_STRAY;

    char *to = out_outputs;
    for (uint32_t i = 0; ran == KILN_RAN_OK && i < manifest->arg_count; i++) {
        if (manifest->arg[i].role != KILN_ROLE_OUTPUT) continue;
        size_t size = program->arg[i].size_bytes;
        memcpy(to, program->arg[i].data, size);
        to += (size + KILN_KERNEL_ALIGNMENT - 1) / KILN_KERNEL_ALIGNMENT * KILN_KERNEL_ALIGNMENT;
    }
    return ran;
}

const kiln_executor_vtable kiln_executor_cpu = {
    .open = cpu_open,
    .load = cpu_load,
    .fill = cpu_fill,
    .prepare = cpu_prepare,
    .run = cpu_run,
    .check = cpu_check,
    .unload = cpu_unload,
    .close = cpu_close,
};
