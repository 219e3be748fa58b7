/* The processor that runs Kiln: the first row of devices.def. Payloads are objects, linked by
 * load.c; a launch is a call. */
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/clock.h"
#include "deploy/runtime/device.h"
#include "deploy/runtime/load.h"
#include "deploy/runtime/object_payload.h"

typedef struct cpu_state {
    uint64_t event_ns[KILN_DEVICE_EVENTS];
} cpu_state;

typedef struct cpu_program {
    uint32_t object_count, launch_count;
    kiln_object **object;     /* [object_count] one per payload */
    kiln_kernel_entry *entry; /* [launch_count] */
} cpu_program;

static kiln_status cpu_list(kiln_arena *arena, kiln_device_facts **out_facts, uint32_t *out_count) {
    *out_facts = KILN_ARENA_NEW(arena, kiln_device_facts);
    *out_count = 1;
    (*out_facts)->name = "this machine's processor";
    (*out_facts)->driver = "none";
    return kiln_target_native(arena, &(*out_facts)->target);
}

static kiln_status cpu_open(const kiln_device_setup *setup, kiln_arena *arena,
                            kiln_target *out_target, void **out_state) {
    if (setup->index > 0)
        return KILN_ERROR(NOT_FOUND, "this machine is one device, there is no further one");
    if (!setup->target) {
        kiln_status st = kiln_target_native(arena, out_target);
        if (st) return st;
    }
    *out_state = kiln_alloc(sizeof(cpu_state));
    return KILN_OK;
}

static void cpu_close(void *state) { kiln_free(state); }

static kiln_status cpu_allocate(void *state, kiln_memory_space space, size_t size_bytes,
                                kiln_guard guard, kiln_device_memory *out_memory) {
    (void)state;
    KILN_CHECK(space == KILN_MEMORY_HOST);
    kiln_pages pages;
    kiln_status st = kiln_pages_create(size_bytes, guard, &pages);
    if (st) return st;
    *out_memory = (kiln_device_memory){
        .space = space, .size_bytes = size_bytes, .data = pages.data, .pages = pages};
    return KILN_OK;
}

static void cpu_release(void *state, kiln_device_memory *memory) {
    (void)state;
    kiln_pages_destroy(&memory->pages);
}

static kiln_device_place cpu_place(void *state, const kiln_device_memory *memory, uint64_t offset) {
    (void)state;
    return (kiln_device_place){(uint8_t *)memory->data + offset, 0};
}

static kiln_status cpu_check(const kiln_artefact *artefact, const kiln_target *target) {
    return kiln_object_payload_check(artefact, KILN_PAYLOAD_ELF, target->arch);
}

static void cpu_unload(void *state, void *loaded) {
    (void)state;
    cpu_program *program = loaded;
    for (uint32_t i = 0; i < program->object_count; i++) kiln_object_unload(program->object[i]);
    kiln_free(program->object);
    kiln_free(program->entry);
    kiln_free(program);
}

static kiln_status find_entry(const cpu_program *program, const kiln_manifest_launch *launch,
                              kiln_kernel_entry *out_entry) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    const char *name = kiln_str_dup(&scratch, launch->entry);
    kiln_status st = KILN_OK;
    *out_entry = kiln_object_find(program->object[launch->payload], name);
    if (!*out_entry) st = KILN_ERROR(NOT_FOUND, "object: it has no global function %s", name);
    kiln_arena_deinit(&scratch);
    return st;
}

static kiln_status cpu_load(void *state, const kiln_artefact *artefact, void **out_program) {
    const kiln_manifest *manifest = &artefact->manifest;
    kiln_status st = kiln_object_payload_check_manifest(manifest, KILN_PAYLOAD_ELF);
    if (st) return st;
    cpu_program *program = kiln_alloc(sizeof *program);
    program->object = kiln_alloc(manifest->payload_count * sizeof *program->object);
    program->entry = kiln_alloc(manifest->launch_count * sizeof *program->entry);
    for (uint32_t i = 0; !st && i < manifest->payload_count; i++) {
        st = kiln_object_load(kiln_artefact_payload(artefact, i), &program->object[i]);
        program->object_count += !st;
    }
    for (uint32_t i = 0; !st && i < manifest->launch_count; i++)
        st = find_entry(program, &manifest->launch[i], &program->entry[i]);
    program->launch_count = manifest->launch_count;
    if (st)
        cpu_unload(state, program);
    else
        *out_program = program;
    return st;
}

static int32_t cpu_launch(void *state, void *program, uint32_t launch,
                          kiln_kernel_tensor *const *args, const kiln_kernel_services *services) {
    (void)state;
    return ((const cpu_program *)program)->entry[launch](args, services);
}

/* All memory is the process's, so all directions are the same. */
static int32_t cpu_copy(void *state, kiln_copy_direction direction, kiln_device_place to,
                        kiln_device_place from, size_t size_bytes) {
    (void)state, (void)direction;
    memcpy((uint8_t *)to.data + to.byte_offset, (const uint8_t *)from.data + from.byte_offset,
           size_bytes);
    return KILN_KERNEL_OK;
}

static int32_t cpu_record(void *state, uint32_t event) {
    cpu_state *cpu = state;
    cpu->event_ns[event] = kiln_clock_precise_ns();
    return KILN_KERNEL_OK;
}

static int32_t cpu_wait(void *state, uint32_t event) {
    (void)state, (void)event;
    return KILN_KERNEL_OK;
}

static uint64_t cpu_elapsed_ns(void *state, uint32_t from_event, uint32_t to_event) {
    const cpu_state *cpu = state;
    return cpu->event_ns[to_event] - cpu->event_ns[from_event];
}

static const void *cpu_code(const void *loaded, size_t *out_bytes) {
    const cpu_program *program = loaded;
    const kiln_object *last = program->object[program->object_count - 1];
    *out_bytes = kiln_object_code_bytes(last);
    return kiln_object_code(last);
}

const kiln_device_vtable kiln_device_cpu = {
    .list = cpu_list,
    .open = cpu_open,
    .close = cpu_close,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .place = cpu_place,
    .check = cpu_check,
    .load = cpu_load,
    .unload = cpu_unload,
    .launch = cpu_launch,
    .copy = cpu_copy,
    .record = cpu_record,
    .wait = cpu_wait,
    .elapsed_ns = cpu_elapsed_ns,
    .code = cpu_code,
};
