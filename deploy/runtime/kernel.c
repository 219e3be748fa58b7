#include "deploy/runtime/kernel.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/check.h"

struct kiln_kernel {
    kiln_arena arena; /* the artefact's bytes and the manifest's data */
    kiln_artefact artefact;
    kiln_device *device, *own_device; /* own_device: if the caller gave none */
    void *program;
    size_t *arg_bytes;  /* [arg_count] */
    uint32_t first_run; /* index of the first launch of the run; earlier ones prepare */
    kiln_device_memory tables;
    uint64_t *table_offset; /* [arg_count] */
};

/* One argument as passed to a kernel, and its shape. */
typedef struct call_arg {
    kiln_kernel_tensor tensor;
    int64_t shape[KILN_RANK_MAX];
    kiln_device_memory memory; /* memory that the call owns */
} call_arg;

struct kiln_call {
    const kiln_kernel *kernel;
    /* Copies of pointers that each run needs. */
    int32_t (*launch)(void *state, void *program, uint32_t launch, kiln_kernel_tensor *const *args,
                      const kiln_kernel_services *services);
    void *state, *program;
    uint32_t first_run, launch_count;
    kiln_kernel_tensor ***args; /* [launch_count] arguments of each launch */
    call_arg *arg;              /* [arg_count] */
    kiln_kernel_tensor **slots; /* what `args` points into */
};

kiln_status kiln_manifest_arg_bytes(const kiln_manifest_arg *arg, size_t *out_bytes) {
    kiln_shape physical = kiln_layout_physical(&arg->layout, &arg->shape);
    kiln_status st = kiln_shape_bytes(&physical, arg->dtype, out_bytes);
    return kiln_status_note(st, "argument %.*s", KILN_STR_ARG(arg->name));
}

static kiln_status find_arg_bytes(const kiln_manifest *manifest, kiln_arena *arena,
                                  size_t **out_arg_bytes) {
    size_t *bytes = KILN_ARENA_ARRAY(arena, size_t, manifest->arg_count);
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        kiln_status st = kiln_manifest_arg_bytes(&manifest->arg[i], &bytes[i]);
        if (st) return st;
    }
    *out_arg_bytes = bytes;
    return KILN_OK;
}

static kiln_status find_row(const kiln_manifest *manifest, const kiln_device_row **out_row) {
    const kiln_device_row *row = kiln_device_row_for(manifest->payload_kind);
    if (!row)
        return KILN_ERROR(UNIMPLEMENTED, "there is no device for payloads of kind %d",
                          (int)manifest->payload_kind);
    *out_row = row;
    return KILN_OK;
}

static kiln_status check_launches(const kiln_manifest *manifest, const kiln_device_row *row) {
    char who[64];
    if (row->vtable->runs_clusters) return KILN_OK;
    (void)snprintf(who, sizeof who, "a device %s", row->name);
    return kiln_manifest_refuse_cluster_or_maps(manifest, who);
}

/* Reads and checks the parts of an artefact that need no device; views point into `bytes`. */
static kiln_status read_artefact(kiln_str bytes, kiln_arena *arena, kiln_artefact *out_artefact,
                                 kiln_target *out_target, const kiln_device_row **out_row,
                                 size_t **out_arg_bytes) {
    kiln_status st = kiln_artefact_decode(bytes, arena, out_artefact);
    if (!st) st = find_arg_bytes(&out_artefact->manifest, arena, out_arg_bytes);
    if (!st) st = find_row(&out_artefact->manifest, out_row);
    if (!st) st = kiln_target_parse(out_artefact->manifest.target, arena, out_target);
    const kiln_payload_kind kind = out_artefact->manifest.payload_kind;
    if (!st && kiln_payload_of(out_target->kind) != kind)
        st = KILN_ERROR(DATA_LOSS, "a payload %s does not run on %.*s", kiln_payload_name(kind),
                        KILN_STR_ARG(out_artefact->manifest.target));
    return st ? st : check_launches(&out_artefact->manifest, *out_row);
}

kiln_status kiln_kernel_check(kiln_str artefact_bytes) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_artefact artefact;
    kiln_target target;
    const kiln_device_row *row;
    size_t *arg_bytes;
    kiln_status st = read_artefact(artefact_bytes, &scratch, &artefact, &target, &row, &arg_bytes);
    if (!st) st = row->vtable->check(&artefact, &target);
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "artefact");
}

/* Refuses code with instructions that the device lacks. */
static kiln_status check_device(const kiln_kernel *kernel, const kiln_device_row *wanted,
                                const kiln_target *target) {
    const kiln_device_row *row = kiln_device_row_in(kernel->device);
    if (row != wanted)
        return KILN_ERROR(FAILED_PRECONDITION, "the code is for a device %s, not for a device %s",
                          wanted->name, row->name);
    kiln_strbuf reason = {0};
    kiln_status st = KILN_OK;
    if (!kiln_target_runs_on(target, kiln_device_target(kernel->device), &reason))
        st = KILN_ERROR(FAILED_PRECONDITION, "the code does not run on this machine: %.*s",
                        KILN_STR_ARG(kiln_strbuf_view(&reason)));
    kiln_strbuf_deinit(&reason);
    return st;
}

static size_t align_up(const kiln_kernel *kernel, size_t value) {
    size_t alignment = kiln_memory_row_of(kiln_device_row_in(kernel->device)->memory)->alignment;
    return (value + alignment - 1) & ~(alignment - 1);
}

/* Bytes of all arguments with that role, one after the other, and their offsets if requested.
 */
static size_t lay_out(const kiln_kernel *kernel, kiln_role role, uint64_t *out_offset) {
    size_t sum = 0;
    for (uint32_t i = 0; i < kernel->artefact.manifest.arg_count; i++) {
        if (kernel->artefact.manifest.arg[i].role != role) continue;
        if (out_offset) out_offset[i] = sum;
        sum += align_up(kernel, kernel->arg_bytes[i]);
    }
    return sum;
}

/* Tables belong to the kernel: every call reads the same ones. */
static kiln_status bring_tables(kiln_kernel *kernel) {
    const kiln_manifest *manifest = &kernel->artefact.manifest;
    kernel->table_offset = KILN_ARENA_ARRAY(&kernel->arena, uint64_t, manifest->arg_count);
    size_t bytes = lay_out(kernel, KILN_ROLE_TABLE, kernel->table_offset);
    if (bytes == 0) return KILN_OK;
    kiln_device *device = kernel->device;
    kiln_status st = kiln_device_allocate(device, bytes, KILN_GUARD_NONE, &kernel->tables);
    for (uint32_t i = 0; !st && i < manifest->arg_count; i++) {
        const kiln_manifest_arg *arg = &manifest->arg[i];
        if (arg->role != KILN_ROLE_TABLE) continue;
        kiln_device_place to =
            kiln_device_place_at(device, &kernel->tables, kernel->table_offset[i]);
        kiln_device_place from = kiln_host_place((void *)(uintptr_t)arg->data.data);
        if (kiln_device_copy(device, KILN_COPY_TO_DEVICE, to, from, arg->data.size))
            st = KILN_ERROR(INTERNAL, "copying: %s", kiln_device_error(device));
    }
    return kiln_status_note(st, "tables");
}

static kiln_status load(kiln_kernel *kernel, kiln_str bytes) {
    kiln_target target;
    const kiln_device_row *row;
    kiln_status st =
        read_artefact(bytes, &kernel->arena, &kernel->artefact, &target, &row, &kernel->arg_bytes);
    if (!st && !kernel->device) {
        st = kiln_device_open(KILN_DEVICE_CPU, NULL, &kernel->own_device);
        kernel->device = kernel->own_device;
    }
    if (!st) st = check_device(kernel, row, &target);
    void *state = st ? NULL : kiln_device_state(kernel->device);
    if (!st) st = row->vtable->load(state, &kernel->artefact, &kernel->program);
    if (!st) st = bring_tables(kernel);
    const kiln_manifest *manifest = &kernel->artefact.manifest;
    while (!st && manifest->launch[kernel->first_run].phase == KILN_LAUNCH_PREPARE)
        kernel->first_run++;
    return st;
}

kiln_status kiln_kernel_load(kiln_str artefact_bytes, kiln_device *device,
                             kiln_kernel **out_kernel) {
    kiln_kernel *kernel = kiln_alloc(sizeof *kernel);
    kernel->device = device;
    kiln_arena_init(&kernel->arena, 4096);
    kiln_str copy = {kiln_arena_copy(&kernel->arena, artefact_bytes.data, artefact_bytes.size),
                     artefact_bytes.size};
    kiln_status st = load(kernel, copy);
    if (st) {
        kiln_kernel_unload(kernel);
        return kiln_status_note(st, "artefact");
    }
    *out_kernel = kernel;
    return KILN_OK;
}

void kiln_kernel_unload(kiln_kernel *kernel) {
    if (!kernel) return;
    if (kernel->device) {
        kiln_device_release(kernel->device, &kernel->tables);
        if (kernel->program)
            kiln_device_row_in(kernel->device)
                ->vtable->unload(kiln_device_state(kernel->device), kernel->program);
    }
    kiln_device_close(kernel->own_device);
    kiln_arena_deinit(&kernel->arena);
    kiln_free(kernel);
}

const kiln_manifest *kiln_kernel_manifest(const kiln_kernel *kernel) {
    return &kernel->artefact.manifest;
}

kiln_device *kiln_kernel_device(const kiln_kernel *kernel) { return kernel->device; }

size_t kiln_kernel_arg_bytes(const kiln_kernel *kernel, uint32_t arg) {
    KILN_CHECK(arg < kernel->artefact.manifest.arg_count);
    return kernel->arg_bytes[arg];
}

const void *kiln_kernel_code(const kiln_kernel *kernel, size_t *out_bytes) {
    const kiln_device_vtable *vtable = kiln_device_row_in(kernel->device)->vtable;
    *out_bytes = 0;
    return vtable->code ? vtable->code(kernel->program, out_bytes) : NULL;
}

size_t kiln_kernel_packed_bytes(const kiln_kernel *kernel) {
    return lay_out(kernel, KILN_ROLE_PACKED, NULL);
}

size_t kiln_kernel_temp_bytes(const kiln_kernel *kernel) {
    return lay_out(kernel, KILN_ROLE_TEMP, NULL);
}

/* Describes an argument as in DLPack; its memory is set later. */
static void describe(const kiln_manifest_arg *from, int32_t device_type, call_arg *arg) {
    kiln_shape physical = kiln_layout_physical(&from->layout, &from->shape);
    memcpy(arg->shape, physical.dim, sizeof arg->shape);
    arg->tensor = (kiln_kernel_tensor){
        .device_type = device_type,
        .ndim = (int32_t)physical.rank,
        .type_code = kiln_dtype_dlpack(from->dtype),
        .type_bits = (uint8_t)(8 * kiln_dtype_size(from->dtype)),
        .type_lanes = 1,
        .shape = arg->shape,
    };
}

static void set_place(call_arg *arg, kiln_device_place place) {
    arg->tensor.data = place.data;
    arg->tensor.byte_offset = place.byte_offset;
}

/* A call without memory for its own arguments. */
static kiln_call *new_call(const kiln_kernel *kernel) {
    const kiln_manifest *manifest = &kernel->artefact.manifest;
    const kiln_device_row *row = kiln_device_row_in(kernel->device);
    uint32_t slot_count = 0;
    for (uint32_t i = 0; i < manifest->launch_count; i++)
        slot_count += manifest->launch[i].arg_count;
    kiln_call *call = kiln_alloc(sizeof *call);
    *call = (kiln_call){
        .kernel = kernel,
        .launch = row->vtable->launch,
        .state = kiln_device_state(kernel->device),
        .program = kernel->program,
        .first_run = kernel->first_run,
        .launch_count = manifest->launch_count,
        .args = kiln_alloc(manifest->launch_count * sizeof *call->args),
        .arg = kiln_alloc(manifest->arg_count * sizeof *call->arg),
        .slots = kiln_alloc(slot_count * sizeof *call->slots),
    };
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        describe(&manifest->arg[i], row->dlpack, &call->arg[i]);
        if (manifest->arg[i].role == KILN_ROLE_TABLE)
            set_place(&call->arg[i], kiln_device_place_at(kernel->device, &kernel->tables,
                                                          kernel->table_offset[i]));
    }
    kiln_kernel_tensor **slot = call->slots;
    for (uint32_t i = 0; i < manifest->launch_count; i++) {
        const kiln_manifest_launch *launch = &manifest->launch[i];
        call->args[i] = slot;
        for (uint32_t k = 0; k < launch->arg_count; k++)
            *slot++ = &call->arg[launch->arg[k]].tensor;
    }
    return call;
}

static bool is_memory_of_call(const kiln_kernel *kernel, uint32_t arg) {
    kiln_role role = kernel->artefact.manifest.arg[arg].role;
    return role == KILN_ROLE_PACKED || role == KILN_ROLE_TEMP;
}

kiln_status kiln_call_create(const kiln_kernel *kernel, kiln_guard guard, kiln_call **out_call) {
    kiln_call *call = new_call(kernel);
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < kernel->artefact.manifest.arg_count; i++) {
        call_arg *arg = &call->arg[i];
        if (!is_memory_of_call(kernel, i)) continue;
        st = kiln_device_allocate(kernel->device, kernel->arg_bytes[i], guard, &arg->memory);
        if (!st) set_place(arg, kiln_device_place_at(kernel->device, &arg->memory, 0));
    }
    if (st) {
        kiln_call_destroy(call);
        return kiln_status_note(st, "packed constants");
    }
    *out_call = call;
    return KILN_OK;
}

static kiln_status check_memory(const kiln_kernel *kernel, const char *what,
                                const kiln_device_memory *memory, uint64_t offset, size_t bytes) {
    if (bytes == 0) return KILN_OK;
    if (!memory || offset > memory->size_bytes || bytes > memory->size_bytes - offset ||
        align_up(kernel, (size_t)offset) != offset)
        return KILN_ERROR(INVALID_ARGUMENT, "no aligned memory of %zu bytes from %llu on for %s",
                          bytes, (unsigned long long)offset, what);
    return KILN_OK;
}

kiln_status kiln_call_create_over(const kiln_kernel *kernel, const kiln_call_memory *memory,
                                  kiln_call **out_call) {
    uint32_t arg_count = kernel->artefact.manifest.arg_count;
    uint64_t *offset = kiln_alloc(arg_count * sizeof *offset);
    size_t packed_bytes = lay_out(kernel, KILN_ROLE_PACKED, offset),
           temp_bytes = lay_out(kernel, KILN_ROLE_TEMP, offset);
    kiln_status st = check_memory(kernel, "packed constants", memory->packed, memory->packed_offset,
                                  packed_bytes);
    if (!st) st = check_memory(kernel, "temps", memory->temps, memory->temps_offset, temp_bytes);
    kiln_call *call = st ? NULL : new_call(kernel);
    for (uint32_t i = 0; call && i < arg_count; i++) {
        if (!is_memory_of_call(kernel, i)) continue;
        bool packed = kernel->artefact.manifest.arg[i].role == KILN_ROLE_PACKED;
        set_place(&call->arg[i],
                  kiln_device_place_at(
                      kernel->device, packed ? memory->packed : memory->temps,
                      offset[i] + (packed ? memory->packed_offset : memory->temps_offset)));
    }
    kiln_free(offset);
    if (!st) *out_call = call;
    return st;
}

void kiln_call_destroy(kiln_call *call) {
    if (!call) return;
    for (uint32_t i = 0; i < call->kernel->artefact.manifest.arg_count; i++)
        kiln_device_release(call->kernel->device, &call->arg[i].memory);
    kiln_free(call->args);
    kiln_free(call->slots);
    kiln_free(call->arg);
    kiln_free(call);
}

kiln_status kiln_call_bind(kiln_call *call, uint32_t arg, void *data, size_t size_bytes) {
    const kiln_manifest *manifest = &call->kernel->artefact.manifest;
    kiln_str name = arg < manifest->arg_count ? manifest->arg[arg].name : (kiln_str){0};
    const kiln_device_row *row = kiln_device_row_in(call->kernel->device);
    if (row->memory != KILN_MEMORY_HOST)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "kernels of a device %s do not work in memory of the host", row->name);
    if (!data || (uintptr_t)data % KILN_KERNEL_ALIGNMENT != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "memory for argument %.*s is not aligned to %d",
                          KILN_STR_ARG(name), KILN_KERNEL_ALIGNMENT);
    return kiln_call_bind_place(call, arg, kiln_host_place(data), size_bytes);
}

kiln_status kiln_call_bind_place(kiln_call *call, uint32_t arg, kiln_device_place place,
                                 size_t size_bytes) {
    const kiln_manifest *manifest = &call->kernel->artefact.manifest;
    if (arg >= manifest->arg_count)
        return KILN_ERROR(INVALID_ARGUMENT, "argument %u of %u", arg, manifest->arg_count);
    kiln_str name = manifest->arg[arg].name;
    if (kiln_role_is_owned(manifest->arg[arg].role))
        return KILN_ERROR(INVALID_ARGUMENT, "argument %.*s is packed: it belongs to the call",
                          KILN_STR_ARG(name));
    if (size_bytes != call->kernel->arg_bytes[arg])
        return KILN_ERROR(INVALID_ARGUMENT, "argument %.*s has %zu bytes, not %zu",
                          KILN_STR_ARG(name), call->kernel->arg_bytes[arg], size_bytes);
    kiln_call_rebind(call, arg, place);
    return KILN_OK;
}

void kiln_call_rebind(kiln_call *call, uint32_t arg, kiln_device_place place) {
    set_place(&call->arg[arg], place);
}

/* The event that prepare uses; it is done when prepare returns. */
#define PREPARE_EVENT 0u

kiln_status kiln_call_prepare(kiln_call *call, const kiln_services *services) {
    const kiln_manifest *manifest = &call->kernel->artefact.manifest;
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        const kiln_manifest_arg *arg = &manifest->arg[i];
        if (arg->role == KILN_ROLE_CONSTANT && !call->arg[i].tensor.data)
            return KILN_ERROR(FAILED_PRECONDITION, "constant %.*s is not bound",
                              KILN_STR_ARG(arg->name));
    }
    const kiln_kernel_services *table = services ? &services->table : NULL;
    for (uint32_t i = 0; i < call->first_run; i++) {
        int32_t status = call->launch(call->state, call->program, i, call->args[i], table);
        if (status != KILN_KERNEL_OK)
            return KILN_ERROR(INTERNAL, "%.*s returned %d", KILN_STR_ARG(manifest->launch[i].entry),
                              status);
    }
    if (call->first_run == 0) return KILN_OK;
    kiln_device *device = call->kernel->device;
    if (kiln_device_record(device, PREPARE_EVENT) || kiln_device_wait(device, PREPARE_EVENT))
        return KILN_ERROR(INTERNAL, "packing constants: %s", kiln_device_error(device));
    return KILN_OK;
}

int32_t kiln_call_run(const kiln_call *call, const kiln_services *services) {
    const kiln_kernel_services *table = services ? &services->table : NULL;
    int32_t status = KILN_KERNEL_OK;
    for (uint32_t i = call->first_run; i < call->launch_count && status == KILN_KERNEL_OK; i++)
        status = call->launch(call->state, call->program, i, call->args[i], table);
    return status;
}

const kiln_device_memory *kiln_call_memory_of(const kiln_call *call, uint32_t arg) {
    bool owned = arg < call->kernel->artefact.manifest.arg_count && call->arg[arg].memory.data;
    return owned ? &call->arg[arg].memory : NULL;
}
