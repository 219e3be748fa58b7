/* The executor of devices with memory of their own: a row of executors.def with this code runs the
 * artefacts of the row of deploy/runtime/devices.def with the same name. Arguments lie in the
 * device's memory between bands of canaries. The host fills, poisons and reads them by copies.
 * Times are those of the device's events. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/layout.h"
#include "base/macros.h"
#include "base/rand.h"
#include "base/reference.h"
#include "deploy/runtime/kernel.h"
#include "rpc-server/executor.h"
#include "rpc-server/reference_kernel_device.h"
#include "rpc-server/trial_memory.h"

#define BEGIN 0u /* events */
#define DONE 1u
#define COPIED 2u

#define BAND_BYTES ((size_t)4096) /* of canaries, before and after a buffer */
#define STAGING_BYTES ((size_t)256 << 10)
#define SEED_BYTES ((size_t)1 << 10) /* of a pattern, sent by the host */
#define NOT_SPOILED UINT64_MAX
/* Runs alternate between sets of arguments that fill the device's last cache twice, because in a
 * model a kernel finds the data of other kernels there, not its own. */
#define SETS_MAX 8u
#define CACHES_FILLED 2u

/* Memory with bands of canaries around it. */
typedef struct banded {
    kiln_device_memory memory;
    size_t bytes;
} banded;

/* The open device. */
typedef struct opened {
    kiln_device *device;
    kiln_trial_memory *memory;        /* between trials */
    kiln_device_reference *reference; /* NULL: not created yet, or not possible */
    bool lacks_reference;
} opened;

typedef struct device_program {
    kiln_device *device;
    kiln_trial_memory *memory;
    kiln_kernel *kernel;
    kiln_call *call;
    /* Empty if the call owns the memory. The first set is the one that is checked and spoiled. */
    banded (*set)[KILN_MANIFEST_ARGS_MAX]; /* [set_count] */
    uint32_t set_count;
    banded packed, temps;                  /* of the call */
    uint64_t seen[KILN_MANIFEST_ARGS_MAX]; /* hash of read-only arguments */
    /* Offset of the element of each output that the next run must write; NOT_SPOILED: none. */
    uint64_t spoiled[KILN_MANIFEST_ARGS_MAX];
    uint64_t canary;
    kiln_rand rand;
    char *staging; /* [STAGING_BYTES], on the host */
} device_program;

/* A NaN in every float type, and no likely integer. */
static const uint16_t spoiled_element[4] = {KILN_POISON_LAST, KILN_POISON_LAST, KILN_POISON_LAST,
                                            KILN_POISON_LAST};

static kiln_status find_row(const char *name, const kiln_device_row **out_row) {
    for (uint32_t i = 0; i < kiln_device_row_count(); i++)
        if (strcmp(kiln_device_row_at(i)->name, name) == 0) {
            *out_row = kiln_device_row_at(i);
            return NULL;
        }
    return KILN_ERROR(UNIMPLEMENTED, "this program runs nothing on devices of kind %s", name);
}

static kiln_status device_open(const kiln_executor_setup *setup, void **out_device) {
    const kiln_device_row *row = NULL;
    kiln_device *device = NULL;
    kiln_status st = find_row(setup->name, &row);
    if (!st)
        st = kiln_device_open(row->kind, &(kiln_device_setup){.index = setup->device}, &device);
    if (st) return st;
    opened *own = kiln_alloc(sizeof *own);
    own->device = device;
    own->memory = kiln_trial_memory_create(device);
    *out_device = own;
    return NULL;
}

static kiln_status device_describe(const kiln_executor_setup *setup, kiln_arena *arena,
                                   kiln_executor_facts *out) {
    const kiln_device_row *row = NULL;
    kiln_device_facts *facts = NULL;
    uint32_t count = 0;
    kiln_status st = find_row(setup->name, &row);
    if (!st) st = kiln_device_list(row->kind, arena, &facts, &count);
    if (!st && setup->device >= count)
        st = KILN_ERROR(NOT_FOUND, "there is no %s device %u; there are %u, from 0 on", setup->name,
                        setup->device, count);
    if (st) return st;
    const kiln_device_facts *own = &facts[setup->device];
    *out = (kiln_executor_facts){.name = own->name,
                                 .driver = own->driver,
                                 .management = own->management,
                                 .target = own->target,
                                 .memory_bytes = own->memory_bytes};
    return NULL;
}

static void device_close(void *device) {
    opened *own = device;
    if (!own) return;
    kiln_device_reference_destroy(own->reference);
    kiln_trial_memory_destroy(own->memory);
    kiln_device_close(own->device);
    kiln_free(own);
}

/* ---- Reference kernels ---- */

/* A device that cannot run reference kernels still measures, like a board whose parts are switched
 * off. */
static bool device_round(void *device, kiln_reference_kernel_round *out_round) {
    opened *own = device;
    if (!own->reference && !own->lacks_reference) {
        kiln_status st = kiln_device_reference_create(own->device, &own->reference);
        own->lacks_reference = st != NULL;
        kiln_status_free(st);
    }
    if (own->reference) *out_round = kiln_device_reference_measure(own->reference);
    return own->reference != NULL;
}

static kiln_reference_kernel_times device_reference(void *device) {
    return kiln_device_reference_take(((opened *)device)->reference);
}

/* The result of a call with an error of the device. */
static kiln_ran failed(const device_program *program) {
    return kiln_device_is_broken(program->device) ? KILN_RAN_LOST : KILN_RAN_ERROR;
}

/* ---- Copies ---- */

static kiln_device_place place_in(const device_program *program, const banded *buffer,
                                  uint64_t offset) {
    return kiln_device_place_at(program->device, &buffer->memory, offset);
}

/* `offset`: from the beginning of the first band. */
static int32_t copy_to(const device_program *program, const banded *buffer, uint64_t offset,
                       const void *data, size_t bytes) {
    return kiln_device_copy(program->device, KILN_COPY_TO_DEVICE, place_in(program, buffer, offset),
                            kiln_host_place((void *)(uintptr_t)data), bytes);
}

/* Returns when the copy is complete. */
static int32_t copy_from(const device_program *program, const banded *buffer, uint64_t offset,
                         void *data, size_t bytes) {
    int32_t status = kiln_device_copy(program->device, KILN_COPY_FROM_DEVICE, kiln_host_place(data),
                                      place_in(program, buffer, offset), bytes);
    if (!status) status = kiln_device_record(program->device, COPIED);
    return status ? status : kiln_device_wait(program->device, COPIED);
}

/* Completes before later work of the queue. */
static int32_t copy_within(const device_program *program, const banded *to, uint64_t to_offset,
                           const banded *from, uint64_t from_offset, size_t bytes) {
    return kiln_device_copy(program->device, KILN_COPY_WITHIN, place_in(program, to, to_offset),
                            place_in(program, from, from_offset), bytes);
}

/* Fills a buffer with the staging memory's pattern: copies a little of it from the host, then
 * doubles that by copies on the device, which are many times faster. */
static int32_t spread(const device_program *program, const banded *buffer, uint64_t offset,
                      size_t bytes) {
    size_t done = KILN_MIN(SEED_BYTES, bytes);
    int32_t status = copy_to(program, buffer, offset, program->staging, done);
    while (!status && done < bytes) {
        const size_t next = KILN_MIN(done, bytes - done);
        status = copy_within(program, buffer, offset + done, buffer, offset, next);
        done += next;
    }
    return status;
}

static void fill_staging(const device_program *program, const void *pattern, size_t bytes) {
    for (size_t at = 0; at < STAGING_BYTES; at += bytes)
        memcpy(program->staging + at, pattern, bytes);
}

static int32_t poison_buffer(const device_program *program, const banded *buffer) {
    return buffer->memory.data ? spread(program, buffer, BAND_BYTES, buffer->bytes)
                               : KILN_KERNEL_OK;
}

/* ---- Buffers ---- */

static bool is_read_only(kiln_role role) {
    return role == KILN_ROLE_INPUT || role == KILN_ROLE_CONSTANT;
}

static size_t behind(const banded *buffer) { return buffer->memory.size_bytes - BAND_BYTES; }

/* The staging memory must hold canaries. */
static kiln_status allocate(const device_program *program, size_t bytes, banded *out) {
    const size_t unit = BAND_BYTES; /* an alignment at which memory may be bound */
    const size_t rounded = (bytes + unit - 1) / unit * unit;
    out->bytes = bytes;
    kiln_status st =
        kiln_trial_memory_take(program->memory, BAND_BYTES + rounded + BAND_BYTES, &out->memory);
    if (st) return st;
    /* Overwrites the data of earlier trials, too. Canaries begin right after the last byte. */
    return spread(program, out, 0, out->memory.size_bytes)
               ? KILN_ERROR(UNAVAILABLE, "filling memory: %s", kiln_device_error(program->device))
               : NULL;
}

static bool is_canary(const device_program *program, const char *data, size_t bytes, size_t phase) {
    const char *canary = (const char *)&program->canary;
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != canary[(phase + i) % sizeof program->canary]) return false;
    return true;
}

/* Whether both bands are unchanged. */
static bool is_intact(const device_program *program, const banded *buffer) {
    if (!buffer->memory.data) return true;
    const size_t end = BAND_BYTES + buffer->bytes, slack = behind(buffer) - end;
    return !copy_from(program, buffer, 0, program->staging, BAND_BYTES) &&
           is_canary(program, program->staging, BAND_BYTES, 0) &&
           !copy_from(program, buffer, end, program->staging, slack + BAND_BYTES) &&
           is_canary(program, program->staging, slack + BAND_BYTES, end);
}

static kiln_ran check_bands(const device_program *program) {
    bool intact = is_intact(program, &program->packed) && is_intact(program, &program->temps);
    for (uint32_t s = 0; s < program->set_count; s++)
        for (uint32_t i = 0; intact && i < kiln_kernel_manifest(program->kernel)->arg_count; i++)
            intact = is_intact(program, &program->set[s][i]);
    return intact ? KILN_RAN_OK : KILN_RAN_STRAY;
}

/* Hashes the buffer's current bytes. */
static int32_t hash_buffer(const device_program *program, const banded *buffer,
                           uint64_t *out_hash) {
    int32_t status = KILN_KERNEL_OK;
    *out_hash = 0;
    for (size_t at = 0; !status && at < buffer->bytes; at += STAGING_BYTES) {
        const size_t bytes = KILN_MIN(STAGING_BYTES, buffer->bytes - at);
        status = copy_from(program, buffer, BAND_BYTES + at, program->staging, bytes);
        *out_hash = kiln_hash64(program->staging, bytes, *out_hash);
    }
    return status;
}

/* The hash_buffer of a buffer with these bytes. */
static uint64_t hash_bytes(const char *data, size_t bytes) {
    uint64_t hash = 0;
    for (size_t at = 0; at < bytes; at += STAGING_BYTES)
        hash = kiln_hash64(data + at, KILN_MIN(STAGING_BYTES, bytes - at), hash);
    return hash;
}

static kiln_ran check_inputs(const device_program *program) {
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        uint64_t hash = 0;
        if (!is_read_only(manifest->arg[i].role)) continue;
        if (hash_buffer(program, &program->set[0][i], &hash)) return failed(program);
        if (hash != program->seen[i]) return KILN_RAN_STRAY;
    }
    return KILN_RAN_OK;
}

/* ---- Loading ---- */

static void release(const device_program *program, banded *buffer) {
    (void)poison_buffer(program, buffer); /* so that the next trial cannot read this one's data */
    kiln_trial_memory_give(program->memory, &buffer->memory);
}

static void device_unload(void *context) {
    device_program *program = context;
    if (!program) return;
    const uint16_t poison = KILN_POISON_FIRST;
    fill_staging(program, &poison, sizeof poison);
    for (uint32_t s = 0; s < program->set_count; s++)
        for (uint32_t i = 0; i < KILN_MANIFEST_ARGS_MAX; i++) release(program, &program->set[s][i]);
    release(program, &program->packed);
    release(program, &program->temps);
    /* Programs may be freed once the queue is empty. */
    (void)(kiln_device_record(program->device, COPIED) ||
           kiln_device_wait(program->device, COPIED));
    kiln_call_destroy(program->call);
    kiln_kernel_unload(program->kernel);
    kiln_free(program->set);
    kiln_free(program->staging);
    kiln_free(program);
}

static kiln_status create_call(device_program *program) {
    const size_t packed = kiln_kernel_packed_bytes(program->kernel),
                 temps = kiln_kernel_temp_bytes(program->kernel);
    kiln_status st = packed ? allocate(program, packed, &program->packed) : NULL;
    if (!st && temps) st = allocate(program, temps, &program->temps);
    const kiln_call_memory memory = {.packed = &program->packed.memory,
                                     .packed_offset = BAND_BYTES,
                                     .temps = &program->temps.memory,
                                     .temps_offset = BAND_BYTES};
    return st ? st : kiln_call_create_over(program->kernel, &memory, &program->call);
}

/* Number of sets for a measurement: 1 on devices with an unknown cache, and on emulated ones, like
 * the processor's executor. */
static uint32_t count_sets(const device_program *program) {
    const kiln_target *target = kiln_device_target(program->device);
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    uint64_t bytes = 1;
    if (!target->gpu || target->emulated || target->gpu->l2_bytes == 0) return 1;
    for (uint32_t i = 0; i < manifest->arg_count; i++)
        if (!kiln_role_is_owned(manifest->arg[i].role))
            bytes += kiln_kernel_arg_bytes(program->kernel, i);
    const uint64_t wanted = CACHES_FILLED * target->gpu->l2_bytes / bytes + 1;
    return (uint32_t)KILN_MIN(wanted, SETS_MAX);
}

static void use_set(const device_program *program, uint32_t set) {
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    for (uint32_t i = 0; i < manifest->arg_count; i++)
        if (!kiln_role_is_owned(manifest->arg[i].role))
            kiln_call_rebind(program->call, i,
                             place_in(program, &program->set[set][i], BAND_BYTES));
}

static kiln_status allocate_arguments(const device_program *program, uint32_t set) {
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    kiln_status st = NULL;
    for (uint32_t i = 0; !st && i < manifest->arg_count; i++)
        if (!kiln_role_is_owned(manifest->arg[i].role))
            st =
                allocate(program, kiln_kernel_arg_bytes(program->kernel, i), &program->set[set][i]);
    return st;
}

/* Binds as many sets as the device has memory for. */
static kiln_status bind_arguments(device_program *program) {
    const uint32_t wanted = count_sets(program);
    program->set = kiln_alloc(wanted * sizeof *program->set);
    fill_staging(program, &program->canary, sizeof program->canary);
    kiln_status st = create_call(program);
    while (!st && program->set_count < wanted)
        st = allocate_arguments(program, program->set_count++);
    if (st && program->set_count > 1 && kiln_status_code(st) == KILN_RESOURCE_EXHAUSTED) {
        for (uint32_t i = 0; i < KILN_MANIFEST_ARGS_MAX; i++)
            kiln_trial_memory_give(program->memory,
                                   &program->set[program->set_count - 1][i].memory);
        program->set_count--;
        kiln_status_free(st);
        st = NULL;
    }
    if (!st) use_set(program, 0);
    return st;
}

/* Reprograms the device to the trial's target, before anything of the trial is loaded. */
static kiln_status reprogram(kiln_device *device, const kiln_manifest *manifest) {
    kiln_arena scratch;
    kiln_target target;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_target_parse(manifest->target, &scratch, &target);
    if (!st) st = kiln_device_reprogram(device, &target);
    kiln_arena_deinit(&scratch);
    return st;
}

static kiln_status device_load(void *device, kiln_str artefact, const kiln_manifest *manifest,
                               void **out_program) {
    const opened *own = device;
    device_program *program = kiln_alloc(sizeof *program);
    program->device = own->device;
    program->memory = own->memory;
    program->staging = kiln_alloc(STAGING_BYTES);
    kiln_rand_init(&program->rand, kiln_clock_precise_ns());
    program->canary = kiln_rand_u64(&program->rand);
    kiln_status st = reprogram(own->device, manifest);
    if (!st) st = kiln_kernel_load(artefact, program->device, &program->kernel);
    if (!st) st = bind_arguments(program);
    kiln_trial_memory_trim(program->memory);
    if (st)
        device_unload(program);
    else
        *out_program = program;
    return st;
}

/* Fills the first set from the host and the others from the first. */
static void fill_argument(device_program *program, uint32_t index, uint64_t seed) {
    const banded *first = &program->set[0][index];
    const kiln_manifest_arg *arg = &kiln_kernel_manifest(program->kernel)->arg[index];
    const char *data = kiln_trial_memory_input(program->memory, index, arg, seed, first->bytes);
    program->seen[index] = hash_bytes(data, first->bytes);
    (void)copy_to(program, first, BAND_BYTES, data, first->bytes);
    for (uint32_t s = 1; s < program->set_count; s++)
        (void)copy_within(program, &program->set[s][index], BAND_BYTES, first, BAND_BYTES,
                          first->bytes);
    kiln_trial_memory_end_input(program->memory, index);
}

static void device_fill(void *context, uint64_t seed) {
    device_program *program = context;
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    for (uint32_t i = 0; i < manifest->arg_count; i++)
        if (is_read_only(manifest->arg[i].role))
            fill_argument(program, i, kiln_input_seed(seed, i));
}

/* ---- Runs ---- */

static kiln_ran device_prepare(void *context) {
    device_program *program = context;
    const uint16_t poison = KILN_POISON_FIRST;
    fill_staging(program, &poison, sizeof poison);
    if (poison_buffer(program, &program->packed)) return failed(program);
    kiln_status st = kiln_call_prepare(program->call, NULL);
    kiln_status_free(st); /* device_error has the text */
    return st ? failed(program) : KILN_RAN_OK;
}

static kiln_ran run_timed(device_program *program, uint32_t runs, uint64_t *out_ns) {
    int32_t status = kiln_device_record(program->device, BEGIN);
    for (uint32_t i = runs; !status && i-- > 0;) { /* the last run is of the first set */
        if (program->set_count > 1) use_set(program, i % program->set_count);
        status = kiln_call_run(program->call, NULL);
    }
    if (!status) status = kiln_device_record(program->device, DONE);
    if (!status) status = kiln_device_wait(program->device, DONE);
    if (status) return failed(program);
    *out_ns = kiln_device_elapsed_ns(program->device, BEGIN, DONE);
    return KILN_RAN_OK;
}

/* Offset of a random logical element of an output; a kernel need not write padding. */
static uint64_t random_element(device_program *program, const kiln_manifest_arg *output) {
    int64_t index[KILN_RANK_MAX];
    for (uint32_t d = 0; d < output->shape.rank; d++)
        index[d] = (int64_t)kiln_rand_below(&program->rand, (uint64_t)output->shape.dim[d]);
    return BAND_BYTES + (uint64_t)kiln_layout_offset(&output->layout, &output->shape, index) *
                            kiln_dtype_size(output->dtype);
}

/* Overwrites one element of each output, to detect a kernel that skips work that is already done.
 */
static int32_t spoil(device_program *program) {
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    int32_t status = KILN_KERNEL_OK;
    for (uint32_t i = 0; !status && i < manifest->arg_count; i++) {
        const kiln_manifest_arg *arg = &manifest->arg[i];
        const size_t size = kiln_dtype_size(arg->dtype);
        char element[sizeof spoiled_element];
        program->spoiled[i] = NOT_SPOILED;
        if (arg->role != KILN_ROLE_OUTPUT || kiln_shape_count(&arg->shape) == 0) continue;
        const uint64_t at = random_element(program, arg);
        status = copy_from(program, &program->set[0][i], at, element, size);
        if (status || memcmp(element, spoiled_element, size) == 0)
            continue; /* it is the right value already */
        status = copy_to(program, &program->set[0][i], at, spoiled_element, size);
        program->spoiled[i] = at;
    }
    return status;
}

static kiln_ran check_spoiled(const device_program *program) {
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        const size_t size = kiln_dtype_size(manifest->arg[i].dtype);
        char element[sizeof spoiled_element];
        if (program->spoiled[i] == NOT_SPOILED) continue;
        if (copy_from(program, &program->set[0][i], program->spoiled[i], element, size))
            return failed(program);
        if (memcmp(element, spoiled_element, size) == 0) return KILN_RAN_STALE;
    }
    return KILN_RAN_OK;
}

static kiln_ran device_run(void *context, uint32_t runs, uint64_t *out_ns) {
    device_program *program = context;
    if (spoil(program)) return failed(program);
    const kiln_ran ran = run_timed(program, runs, out_ns);
    return ran == KILN_RAN_OK ? check_spoiled(program) : ran;
}

static int32_t poison_all(const device_program *program, uint16_t poison) {
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    fill_staging(program, &poison, sizeof poison);
    int32_t status = poison_buffer(program, &program->temps);
    for (uint32_t i = 0; !status && i < manifest->arg_count; i++)
        if (manifest->arg[i].role == KILN_ROLE_OUTPUT)
            status = poison_buffer(program, &program->set[0][i]);
    return status;
}

static kiln_ran copy_outputs(const device_program *program, char *to) {
    const kiln_manifest *manifest = kiln_kernel_manifest(program->kernel);
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        const size_t bytes = program->set[0][i].bytes;
        if (manifest->arg[i].role != KILN_ROLE_OUTPUT) continue;
        if (copy_from(program, &program->set[0][i], BAND_BYTES, to, bytes)) return failed(program);
        to += (bytes + KILN_KERNEL_ALIGNMENT - 1) / KILN_KERNEL_ALIGNMENT * KILN_KERNEL_ALIGNMENT;
    }
    return KILN_RAN_OK;
}

static kiln_ran device_check(void *context, uint16_t poison, void *out_outputs, uint64_t *out_ns) {
    device_program *program = context;
    if (poison_all(program, poison)) return failed(program);
    kiln_ran ran = run_timed(program, 1, out_ns);
    if (ran == KILN_RAN_OK) ran = copy_outputs(program, out_outputs);
    if (ran == KILN_RAN_OK) ran = check_bands(program);
    return ran == KILN_RAN_OK ? check_inputs(program) : ran;
}

static bool device_read(void *device, kiln_device_reading *out_reading) {
    return kiln_device_read(((const opened *)device)->device, out_reading);
}

static const char *device_error(const void *device) {
    return kiln_device_error(((const opened *)device)->device);
}

const kiln_executor_vtable kiln_executor_device = {
    .open = device_open,
    .load = device_load,
    .fill = device_fill,
    .prepare = device_prepare,
    .run = device_run,
    .check = device_check,
    .unload = device_unload,
    .close = device_close,
    .describe = device_describe,
    .round = device_round,
    .reference = device_reference,
    .read = device_read,
    .error = device_error,
};
