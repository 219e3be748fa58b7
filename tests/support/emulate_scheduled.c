#include "tests/support/emulate_scheduled.h"

#include <string.h>

#include "compiler-core/codegen/codegen.h"
#include "compiler-core/lower/lower.h"
#include "tests/support/emulate_block.h"
#include "tests/support/test.h"

kiln_status emulate_launch(kiln_str text, const kiln_launch *l, const kiln_tensor *args,
                           uint32_t arg_count, kiln_arena *arena) {
    emulate_block_launch launch = {
        .entry = "run_0", .shared_bytes = l->shared_bytes, .arg_count = arg_count};
    emulate_block *e = NULL;
    char *folder = make_folder(arena);
    for (uint32_t i = 0; i < arg_count; i++) launch.arg[i] = args[i].data;
    memcpy(launch.grid, l->grid_size, sizeof launch.grid);
    memcpy(launch.block, l->group_size, sizeof launch.block);
    kiln_status st = emulate_block_create(text, folder, arena, &e);
    if (!st) st = emulate_block_run(e, &launch);
    emulate_block_destroy(e);
    remove_folder(folder);
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
    if (lowered.run_launches.count != 1 || lowered.prepare)
        return KILN_ERROR(UNIMPLEMENTED, "%u launches, and %s before; the emulator runs one",
                          lowered.run_launches.count, lowered.prepare ? "some" : "none");
    st = kiln_codegen(&lowered, target, &options, arena, &text, &scratch, &worker);
    if (st) return st;
    *out_text = kiln_str_dup(arena, text);
    return emulate_launch(text, &lowered.run_launches.launch[0], args, arg_count, arena);
}
