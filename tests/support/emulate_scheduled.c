#include "tests/support/emulate_scheduled.h"

#include <string.h>

#include "compiler-core/codegen/codegen.h"
#include "compiler-core/lower/lower.h"
#include "tests/support/emulate_box.h"
#include "tests/support/test.h"

/* Runs one launch of a text that was compiled. */
static kiln_status run_launch(emulate_block *e, const kiln_launch *l, const char *entry,
                              void *const *arg, uint32_t arg_count) {
    emulate_block_launch launch = {.entry = entry,
                                   .shared_bytes = l->shared_bytes,
                                   .arg_count = arg_count,
                                   .cluster = l->cluster};
    struct emulate_map map[KILN_LAUNCH_MAPS_MAX];
    if (arg_count + l->map_count > EMULATE_BLOCK_ARGS_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "a launch takes %u arguments", arg_count + l->map_count);
    for (uint32_t i = 0; i < arg_count; i++) launch.arg[i] = arg[i];
    for (uint32_t i = 0; i < l->map_count; i++) {
        emulate_map_make(&l->map[i], arg[l->map[i].arg], &map[i]);
        launch.arg[launch.arg_count++] = &map[i];
    }
    memcpy(launch.grid, l->grid_size, sizeof launch.grid);
    memcpy(launch.block, l->group_size, sizeof launch.block);
    return emulate_block_run(e, &launch);
}

kiln_status emulate_text(const char *text, const emulate_block_launch *launch, kiln_arena *arena) {
    char *folder = make_folder(arena);
    emulate_block *e = NULL;
    kiln_status st = emulate_block_create(kiln_str_from(text), folder, arena, &e);
    if (!st) st = emulate_block_run(e, launch);
    emulate_block_destroy(e);
    remove_folder(folder);
    return st;
}

kiln_status emulate_launch(kiln_str text, const kiln_launch *l, const kiln_tensor *args,
                           uint32_t arg_count, kiln_arena *arena) {
    void *data[EMULATE_BLOCK_ARGS_MAX];
    emulate_block *e = NULL;
    char *folder = make_folder(arena);
    for (uint32_t i = 0; i < arg_count; i++) data[i] = args[i].data;
    kiln_status st = emulate_block_create(text, folder, arena, &e);
    if (!st) st = run_launch(e, l, "run_0", data, arg_count);
    emulate_block_destroy(e);
    remove_folder(folder);
    return st;
}

/* Where each argument of the artefact lies: what is given, and what is packed before the run. */
static void **place_arguments(const kiln_lowered *lowered, const kiln_tensor *args,
                              uint32_t arg_count, kiln_arena *arena) {
    void **data = KILN_ARENA_ARRAY(arena, void *, lowered->arg_count);
    for (uint32_t i = 0; i < lowered->arg_count; i++) {
        const kiln_buffer_info *b = &lowered->run->buffer.data[lowered->arg[i].in_run];
        const kiln_shape places = kiln_layout_physical(&b->layout, &b->shape);
        data[i] = i < arg_count ? args[i].data
                                : kiln_arena_alloc(arena, (size_t)kiln_shape_count(&places) *
                                                              kiln_dtype_size(b->dtype));
    }
    return data;
}

/* All launches of `prepare`, or of the run, in order. */
static kiln_status run_phase(emulate_block *e, const kiln_lowered *lowered, bool prepare,
                             void *const *data, kiln_arena *arena) {
    const kiln_launches *all = prepare ? &lowered->prepare_launches : &lowered->run_launches;
    void *scratch = kiln_arena_alloc(arena, all->scratch_bytes + 1);
    kiln_status st = NULL;
    for (uint32_t k = 0; k < all->count && !st; k++) {
        const kiln_launch *l = &all->launch[k];
        void **arg = KILN_ARENA_ARRAY(arena, void *, l->arg_count + 1);
        uint32_t count = 0;
        for (uint32_t a = 0; a < l->arg_count; a++)
            for (uint32_t i = 0; i < lowered->arg_count; i++)
                if (l->arg[a] == (prepare ? lowered->arg[i].in_prepare : lowered->arg[i].in_run))
                    arg[count++] = data[i];
        if (l->uses_scratch) arg[count++] = scratch;
        st = run_launch(e, l, kiln_str_dup(arena, l->entry), arg, count);
    }
    return st;
}

kiln_status emulate_scheduled(const kiln_program *scheduled, const kiln_target *target,
                              const kiln_tensor *args, uint32_t arg_count, kiln_arena *arena,
                              const char **out_text) {
    const kiln_codegen_options options = {
        .emit = KILN_EMIT_OBJECT, .optimise = 2, .backend = "cuda"};
    kiln_lowered lowered;
    kiln_str text;
    uint64_t scratch, worker;
    kiln_status st = kiln_lower(scheduled, target, arena, &lowered);
    if (st) return st;
    st = kiln_codegen(&lowered, target, &options, arena, &text, &scratch, &worker);
    if (st) return st;
    *out_text = kiln_str_dup(arena, text);
    void **data = place_arguments(&lowered, args, arg_count, arena);
    emulate_block *e = NULL;
    char *folder = make_folder(arena);
    st = emulate_block_create(text, folder, arena, &e);
    if (!st && lowered.prepare) st = run_phase(e, &lowered, true, data, arena);
    if (!st) st = run_phase(e, &lowered, false, data, arena);
    emulate_block_destroy(e);
    remove_folder(folder);
    return st;
}
