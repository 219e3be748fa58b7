#include "deploy/runtime/kernel.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/check.h"

struct kiln_kernel {
    kiln_arena arena; /* the artefact's bytes and what the manifest points to */
    kiln_manifest manifest;
    kiln_object *object;
    kiln_kernel_entry prepare, run;
    size_t *arg_bytes; /* [arg_count] */
};

/* One argument as a kernel sees it, with its shape beside it. */
typedef struct call_arg {
    kiln_kernel_tensor tensor;
    int64_t shape[KILN_RANK_MAX];
    kiln_region packed; /* of packed arguments */
} call_arg;

struct kiln_call {
    const kiln_kernel *kernel;
    call_arg *arg;             /* [arg_count] */
    kiln_kernel_tensor **args; /* [arg_count], what entries get */
};

static const uint8_t type_code_of_kind[] = {
    [KILN_KIND_FLOAT] = 2, [KILN_KIND_INT] = 0, [KILN_KIND_UINT] = 1, [KILN_KIND_BOOL] = 6};

kiln_status kiln_manifest_arg_bytes(const kiln_manifest_arg *arg, size_t *out_bytes) {
    kiln_shape physical = kiln_layout_physical(&arg->layout, &arg->shape);
    kiln_status st = kiln_shape_bytes(&physical, arg->dtype, out_bytes);
    return kiln_status_note(st, "argument %.*s", KILN_STR_ARG(arg->name));
}

/* What holds for any machine, beyond what decoding checks. */
static kiln_status check_manifest(const kiln_manifest *manifest, kiln_arena *arena,
                                  size_t **out_arg_bytes) {
    if (manifest->payload_kind != KILN_PAYLOAD_ELF)
        return KILN_ERROR(UNIMPLEMENTED, "payload kind %d is not CPU code",
                          (int)manifest->payload_kind);
    size_t *bytes = KILN_ARENA_ARRAY(arena, size_t, manifest->arg_count);
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        kiln_status st = kiln_manifest_arg_bytes(&manifest->arg[i], &bytes[i]);
        if (st) return st;
    }
    *out_arg_bytes = bytes;
    return KILN_OK;
}

/* Reads and checks the parts of an artefact that need no mapping; views point into `bytes`. */
static kiln_status read_artefact(kiln_str bytes, kiln_arena *arena, kiln_artefact *out_artefact,
                                 kiln_target *out_target, size_t **out_arg_bytes) {
    kiln_status st = kiln_artefact_decode(bytes, arena, out_artefact);
    if (!st) st = check_manifest(&out_artefact->manifest, arena, out_arg_bytes);
    if (!st) st = kiln_target_parse(out_artefact->manifest.target, arena, out_target);
    return st;
}

kiln_status kiln_kernel_check(kiln_str artefact_bytes) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_artefact artefact;
    kiln_target target;
    size_t *arg_bytes;
    kiln_status st = read_artefact(artefact_bytes, &scratch, &artefact, &target, &arg_bytes);
    if (!st) {
        const char *entries[] = {KILN_ENTRY_RUN,
                                 artefact.manifest.has_prepare ? KILN_ENTRY_PREPARE : NULL, NULL};
        st = kiln_object_check(artefact.payload, target.arch, entries);
    }
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "artefact");
}

/* Refuses code that would meet an unknown instruction here. */
static kiln_status check_device(const kiln_target *target, const kiln_target *device,
                                kiln_arena *scratch) {
    kiln_target native;
    if (!device) {
        kiln_status st = kiln_target_native(scratch, &native);
        if (st) return st;
        device = &native;
    }
    kiln_strbuf reason = {0};
    kiln_status st = KILN_OK;
    if (!kiln_target_runs_on(target, device, &reason))
        st = KILN_ERROR(FAILED_PRECONDITION, "the code does not run on this machine: %.*s",
                        KILN_STR_ARG(kiln_strbuf_view(&reason)));
    kiln_strbuf_deinit(&reason);
    return st;
}

static kiln_status find_entries(kiln_kernel *kernel) {
    kernel->run = kiln_object_find(kernel->object, KILN_ENTRY_RUN);
    if (!kernel->run)
        return KILN_ERROR(NOT_FOUND, "object: it has no global function " KILN_ENTRY_RUN);
    if (!kernel->manifest.has_prepare) return KILN_OK;
    kernel->prepare = kiln_object_find(kernel->object, KILN_ENTRY_PREPARE);
    if (!kernel->prepare)
        return KILN_ERROR(NOT_FOUND, "object: it has no global function " KILN_ENTRY_PREPARE);
    return KILN_OK;
}

kiln_status kiln_kernel_load(kiln_str artefact_bytes, const kiln_target *device,
                             kiln_kernel **out_kernel) {
    kiln_kernel *kernel = kiln_alloc(sizeof *kernel);
    kiln_arena_init(&kernel->arena, 4096);
    kiln_str copy = {kiln_arena_copy(&kernel->arena, artefact_bytes.data, artefact_bytes.size),
                     artefact_bytes.size};
    kiln_artefact artefact;
    kiln_target target;
    kiln_status st = read_artefact(copy, &kernel->arena, &artefact, &target, &kernel->arg_bytes);
    if (!st) st = check_device(&target, device, &kernel->arena);
    if (!st) st = kiln_object_load(artefact.payload, &kernel->object);
    if (!st) {
        kernel->manifest = artefact.manifest;
        st = find_entries(kernel);
    }
    if (st) {
        kiln_kernel_unload(kernel);
        return kiln_status_note(st, "artefact");
    }
    *out_kernel = kernel;
    return KILN_OK;
}

void kiln_kernel_unload(kiln_kernel *kernel) {
    if (!kernel) return;
    kiln_object_unload(kernel->object);
    kiln_arena_deinit(&kernel->arena);
    kiln_free(kernel);
}

const kiln_manifest *kiln_kernel_manifest(const kiln_kernel *kernel) { return &kernel->manifest; }
const kiln_object *kiln_kernel_object(const kiln_kernel *kernel) { return kernel->object; }

size_t kiln_kernel_arg_bytes(const kiln_kernel *kernel, uint32_t arg) {
    KILN_CHECK(arg < kernel->manifest.arg_count);
    return kernel->arg_bytes[arg];
}

/* Describes an argument as DLPack does; its memory comes later. */
static void describe(const kiln_manifest_arg *from, call_arg *arg) {
    kiln_shape physical = kiln_layout_physical(&from->layout, &from->shape);
    memcpy(arg->shape, physical.dim, sizeof arg->shape);
    kiln_dtype_kind kind = kiln_dtype_kind_of(from->dtype);
    arg->tensor = (kiln_kernel_tensor){
        .device_type = 1,
        .ndim = (int32_t)physical.rank,
        .type_code = from->dtype == KILN_BF16 ? 4 : type_code_of_kind[kind],
        .type_bits = (uint8_t)(8 * kiln_dtype_size(from->dtype)),
        .type_lanes = 1,
        .shape = arg->shape,
    };
}

static size_t align_up(size_t value) {
    return (value + KILN_KERNEL_ALIGNMENT - 1) & ~(size_t)(KILN_KERNEL_ALIGNMENT - 1);
}

static bool is_packed(const kiln_kernel *kernel, uint32_t arg) {
    return kernel->manifest.arg[arg].role == KILN_ROLE_PACKED;
}

size_t kiln_kernel_packed_bytes(const kiln_kernel *kernel) {
    size_t sum = 0;
    for (uint32_t i = 0; i < kernel->manifest.arg_count; i++)
        if (is_packed(kernel, i)) sum += align_up(kernel->arg_bytes[i]);
    return sum;
}

/* A call without memory for its packed arguments. */
static kiln_call *new_call(const kiln_kernel *kernel) {
    uint32_t count = kernel->manifest.arg_count;
    kiln_call *call = kiln_alloc(sizeof *call);
    call->kernel = kernel;
    call->arg = kiln_alloc(count * sizeof *call->arg);
    call->args = kiln_alloc(count * sizeof *call->args);
    for (uint32_t i = 0; i < count; i++) {
        describe(&kernel->manifest.arg[i], &call->arg[i]);
        call->args[i] = &call->arg[i].tensor;
    }
    return call;
}

kiln_status kiln_call_create(const kiln_kernel *kernel, kiln_guard guard, kiln_call **out_call) {
    kiln_call *call = new_call(kernel);
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < kernel->manifest.arg_count; i++) {
        call_arg *arg = &call->arg[i];
        if (!is_packed(kernel, i)) continue;
        st = kiln_region_create(kernel->arg_bytes[i], guard, &arg->packed);
        if (!st) arg->tensor.data = arg->packed.data;
    }
    if (st) {
        kiln_call_destroy(call);
        return kiln_status_note(st, "packed constants");
    }
    *out_call = call;
    return KILN_OK;
}

kiln_status kiln_call_create_over(const kiln_kernel *kernel, void *packed, kiln_call **out_call) {
    size_t bytes = kiln_kernel_packed_bytes(kernel), offset = 0;
    if (bytes > 0 && (!packed || (uintptr_t)packed % KILN_KERNEL_ALIGNMENT != 0))
        return KILN_ERROR(INVALID_ARGUMENT, "memory for packed constants is not aligned to %d",
                          KILN_KERNEL_ALIGNMENT);
    kiln_call *call = new_call(kernel);
    for (uint32_t i = 0; i < kernel->manifest.arg_count; i++) {
        if (!is_packed(kernel, i)) continue;
        call->arg[i].tensor.data = (uint8_t *)packed + offset;
        offset += align_up(kernel->arg_bytes[i]);
    }
    *out_call = call;
    return KILN_OK;
}

void kiln_call_destroy(kiln_call *call) {
    if (!call) return;
    for (uint32_t i = 0; i < call->kernel->manifest.arg_count; i++)
        kiln_region_destroy(&call->arg[i].packed);
    kiln_free(call->args);
    kiln_free(call->arg);
    kiln_free(call);
}

kiln_status kiln_call_bind(kiln_call *call, uint32_t arg, void *data, size_t size_bytes) {
    const kiln_manifest *manifest = &call->kernel->manifest;
    if (arg >= manifest->arg_count)
        return KILN_ERROR(INVALID_ARGUMENT, "argument %u of %u", arg, manifest->arg_count);
    kiln_str name = manifest->arg[arg].name;
    if (manifest->arg[arg].role == KILN_ROLE_PACKED)
        return KILN_ERROR(INVALID_ARGUMENT, "argument %.*s is packed: it belongs to the call",
                          KILN_STR_ARG(name));
    if (!data || (uintptr_t)data % KILN_KERNEL_ALIGNMENT != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "memory for argument %.*s is not aligned to %d",
                          KILN_STR_ARG(name), KILN_KERNEL_ALIGNMENT);
    if (size_bytes != call->kernel->arg_bytes[arg])
        return KILN_ERROR(INVALID_ARGUMENT, "argument %.*s has %zu bytes, not %zu",
                          KILN_STR_ARG(name), call->kernel->arg_bytes[arg], size_bytes);
    kiln_call_rebind(call, arg, data);
    return KILN_OK;
}

void kiln_call_rebind(kiln_call *call, uint32_t arg, void *data) {
    call->arg[arg].tensor.data = data;
}

kiln_status kiln_call_prepare(kiln_call *call, const kiln_services *services) {
    const kiln_kernel *kernel = call->kernel;
    for (uint32_t i = 0; i < kernel->manifest.arg_count; i++) {
        const kiln_manifest_arg *arg = &kernel->manifest.arg[i];
        if (arg->role == KILN_ROLE_CONSTANT && !call->arg[i].tensor.data)
            return KILN_ERROR(FAILED_PRECONDITION, "constant %.*s is not bound",
                              KILN_STR_ARG(arg->name));
    }
    if (!kernel->prepare) return KILN_OK;
    int32_t status = kernel->prepare(call->args, &services->table);
    if (status == KILN_KERNEL_OK) return KILN_OK;
    return KILN_ERROR(INTERNAL, KILN_ENTRY_PREPARE " returned %d", status);
}

int32_t kiln_call_run(const kiln_call *call, const kiln_services *services) {
    return call->kernel->run(call->args, &services->table);
}

const kiln_region *kiln_call_packed(const kiln_call *call, uint32_t arg) {
    bool owned = arg < call->kernel->manifest.arg_count && call->arg[arg].packed.mapping;
    return owned ? &call->arg[arg].packed : NULL;
}
