#include "tests/unit/compiler-core/codegen/device_board.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "compiler-core/build.h"
#include "deploy/runtime/kernel.h"

typedef struct board {
    kiln_device *device;
    kiln_kernel *kernel;
    kiln_call *call;
    kiln_device_memory memory[KILN_MANIFEST_ARGS_MAX];
} board;

static kiln_status failed(const board *b) {
    return KILN_ERROR(INTERNAL, "%s", kiln_device_error(b->device));
}

/* Copies are under way until the device says that they are done. */
static kiln_status copy(const board *b, kiln_copy_direction direction, kiln_device_place to,
                        kiln_device_place from, size_t bytes) {
    return kiln_device_copy(b->device, direction, to, from, bytes) ||
                   kiln_device_record(b->device, 2) || kiln_device_wait(b->device, 2)
               ? failed(b)
               : KILN_OK;
}

static kiln_status bring(board *b, uint32_t i, const kiln_program *te, const kiln_tensor *args) {
    const kiln_manifest_arg *arg = &kiln_kernel_manifest(b->kernel)->arg[i];
    size_t bytes = kiln_kernel_arg_bytes(b->kernel, i);
    if (kiln_role_is_owned(arg->role)) return KILN_OK;
    kiln_status st = kiln_device_allocate(b->device, bytes, KILN_GUARD_NONE, &b->memory[i]);
    if (st) return st;
    kiln_device_place place = kiln_device_place_at(b->device, &b->memory[i], 0);
    void *physical = kiln_alloc(bytes);
    if (arg->role != KILN_ROLE_OUTPUT)
        kiln_layout_pack(&arg->layout, &arg->shape, arg->dtype,
                         tensor_named(te, args, arg->name)->data, physical);
    st = copy(b, KILN_COPY_TO_DEVICE, place, kiln_host_place(physical), bytes);
    kiln_free(physical);
    return st ? st : kiln_call_bind_place(b->call, i, place, bytes);
}

static kiln_status take(board *b, uint32_t i, const kiln_program *te, const kiln_tensor *args) {
    const kiln_manifest_arg *arg = &kiln_kernel_manifest(b->kernel)->arg[i];
    size_t bytes = kiln_kernel_arg_bytes(b->kernel, i);
    if (arg->role != KILN_ROLE_OUTPUT) return KILN_OK;
    void *physical = kiln_alloc(bytes);
    kiln_status st = copy(b, KILN_COPY_FROM_DEVICE, kiln_host_place(physical),
                          kiln_device_place_at(b->device, &b->memory[i], 0), bytes);
    kiln_layout_unpack(&arg->layout, &arg->shape, arg->dtype, physical,
                       tensor_named(te, args, arg->name)->data);
    kiln_free(physical);
    return st;
}

static kiln_status run_with(board *b, const kiln_artefact *artefact, const kiln_program *te,
                            const kiln_tensor *args) {
    kiln_strbuf bytes = {0};
    kiln_artefact_encode(artefact, &bytes);
    kiln_status st = kiln_kernel_load(kiln_strbuf_view(&bytes), b->device, &b->kernel);
    kiln_strbuf_deinit(&bytes);
    if (!st) st = kiln_call_create(b->kernel, KILN_GUARD_NONE, &b->call);
    uint32_t count = st ? 0 : kiln_kernel_manifest(b->kernel)->arg_count;
    for (uint32_t i = 0; !st && i < count; i++) st = bring(b, i, te, args);
    if (!st) st = kiln_call_prepare(b->call, NULL);
    if (!st && (kiln_device_record(b->device, 0) || kiln_call_run(b->call, NULL) ||
                kiln_device_record(b->device, 1) || kiln_device_wait(b->device, 1)))
        st = failed(b);
    for (uint32_t i = 0; !st && i < count; i++) st = take(b, i, te, args);
    return st;
}

kiln_status run_on_device(void *device, const kiln_artefact *artefact, const kiln_program *te,
                          const kiln_tensor *args, uint32_t workers) {
    (void)workers;
    board b = {.device = device};
    kiln_status st = run_with(&b, artefact, te, args);
    kiln_call_destroy(b.call);
    kiln_kernel_unload(b.kernel);
    for (uint32_t i = 0; i < KILN_MANIFEST_ARGS_MAX; i++)
        kiln_device_release(b.device, &b.memory[i]);
    return st;
}

kiln_status run_on_null(void *context, const kiln_artefact *artefact, const kiln_program *te,
                        const kiln_tensor *args, uint32_t workers) {
    kiln_target target;
    kiln_device *device = NULL;
    uint64_t *elapsed_ns = context;
    kiln_status st = kiln_target_parse(artefact->manifest.target, te->arena, &target);
    if (!st)
        st = kiln_device_open(KILN_DEVICE_NULL, &(kiln_device_setup){.target = &target}, &device);
    if (!st) st = run_on_device(device, artefact, te, args, workers);
    if (!st && elapsed_ns) *elapsed_ns += kiln_device_elapsed_ns(device, 0, 1);
    kiln_device_close(device);
    return st;
}

/* From a scheduled program on. `context` is the runner's. */
static kiln_status build_and_run(const kiln_program *te, const kiln_program *scheduled,
                                 const char *target_text, const kiln_tensor *args,
                                 artefact_runner run, void *context) {
    kiln_arena arena;
    kiln_target target;
    kiln_artefact artefact;
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_target_parse(kiln_str_from(target_text), &arena, &target);
    if (!st) st = kiln_build_scheduled(te, KILN_STR("test"), scheduled, &target, &arena, &artefact);
    if (!st) st = run(context, &artefact, te, args, 1);
    kiln_arena_deinit(&arena);
    return st;
}

kiln_status build_and_run_on_null(const kiln_program *te, const kiln_program *scheduled,
                                  const kiln_tensor *args) {
    return build_and_run(te, scheduled, "null,group=1024,shared=1048576", args, run_on_null, NULL);
}

/* ---- OpenCL ---------------------------------------------------------------------------------- */

static struct {
    kiln_arena arena;
    char *cache;
    kiln_device *device;
} opencl;

kiln_status opencl_board_open(kiln_device **out_device) {
    if (!opencl.cache) {
        kiln_arena_init(&opencl.arena, 0);
        opencl.cache = make_folder(&opencl.arena);
        (void)setenv("POCL_CACHE_DIR", opencl.cache, 1);
    }
    kiln_status st =
        opencl.device ? KILN_OK : kiln_device_open(KILN_DEVICE_OPENCL, NULL, &opencl.device);
    if (!st) *out_device = opencl.device;
    return st;
}

void opencl_board_close(void) {
    kiln_device_close(opencl.device);
    if (!opencl.cache) return;
    remove_folder(opencl.cache);
    kiln_arena_deinit(&opencl.arena);
    opencl.cache = NULL;
    opencl.device = NULL;
}

static kiln_status on_opencl(const kiln_program *te, const kiln_program *scheduled,
                             const char *target, const kiln_tensor *args) {
    kiln_device *device;
    kiln_status st = opencl_board_open(&device);
    return st ? st : build_and_run(te, scheduled, target, args, run_on_device, device);
}

kiln_status build_and_run_on_opencl(const kiln_program *te, const kiln_program *scheduled,
                                    const kiln_tensor *args) {
    return on_opencl(te, scheduled, "opencl,group=1024,shared=1048576", args);
}

kiln_status build_and_run_on_small_opencl(const kiln_program *te, const kiln_program *scheduled,
                                          const kiln_tensor *args) {
    return on_opencl(te, scheduled, "opencl", args);
}
