/* Accelerators of the VTA class. Either simulated by the cycle (vta/csim.h), where every machine of
 * that kind exists on request, or on the FPGA board that the environment names (board_vta.h), which
 * can become every machine for which it has a bitstream. A payload is a program (vta/program.h),
 * whose arguments are those of its launch, in their order. Its clock is the cycles of its launches
 * at the machine's rate, so the same launch takes the same time wherever it is simulated; a board
 * counts its cycles itself. Programs are checked (vta/check.h) before they are loaded. A launch
 * allocates the simulator's state. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/macros.h"
#include "deploy/runtime/board_vta.h"
#include "deploy/runtime/device.h"
#include "deploy/runtime/device_soft.h"
#include "vta/check.h"
#include "vta/csim.h"

static const char *const preset_table[] = {
#define X(name, config, doc) name,
#include "base/vta_presets.def"
#undef X
};

/* The memory of both is the host's; the operands of a launch are copied to a board, and its results
 * back. */
typedef struct vta_state {
    kiln_soft_device soft; /* first: `state` is one of those too */
    kiln_board_vta *board; /* NULL: simulated */
} vta_state;

typedef struct vta_launch {
    kiln_vta_program program;
    uint64_t *place;     /* [buffer_count] in `dram` */
    uint64_t dram_bytes; /* of all buffers */
    uint8_t *dram;       /* micro-ops and constants are filled in; NULL on a board */
    uint32_t argument_count;
    uint32_t *argument; /* [argument_count] numbers of buffers */
    char **data;        /* [argument_count] of the running launch */
} vta_launch;

typedef struct vta_program {
    kiln_arena arena;
    uint32_t launch_count;
    vta_launch *launch; /* [launch_count] */
} vta_program;

static kiln_status vta_list(kiln_arena *arena, kiln_device_facts **out_facts, uint32_t *out_count) {
    kiln_status st = KILN_OK;
    if (kiln_board_vta_is_named()) return kiln_board_vta_list(arena, out_facts, out_count);
    *out_count = KILN_ARRAY_COUNT(preset_table);
    *out_facts = KILN_ARENA_ARRAY(arena, kiln_device_facts, *out_count);
    for (uint32_t i = 0; !st && i < *out_count; i++) {
        kiln_device_facts *facts = &(*out_facts)[i];
        const char *text = kiln_arena_printf(arena, "vta:%s", preset_table[i]);
        facts->name = kiln_arena_printf(arena, "simulated %s", preset_table[i]);
        facts->driver = "none";
        st = kiln_target_parse(kiln_str_from(text), arena, &facts->target);
    }
    return st;
}

/* The machine that the setup asks for. */
static kiln_status choose(const kiln_device_setup *setup, kiln_arena *arena,
                          kiln_target *out_target) {
    kiln_device_facts *facts;
    uint32_t count, index;
    if (setup->wanted && !kiln_board_vta_is_named()) {
        *out_target = *setup->wanted; /* any machine can be simulated */
        return KILN_OK;
    }
    kiln_status st = vta_list(arena, &facts, &count);
    if (!st) st = kiln_device_choose(setup, facts, count, &index);
    if (!st) *out_target = facts[index].target;
    return st;
}

static void vta_close(void *context) {
    vta_state *state = context;
    kiln_board_vta_close(state->board);
    kiln_soft_close(state);
}

static kiln_status vta_open(const kiln_device_setup *setup, kiln_arena *arena,
                            kiln_target *out_target, void **out_state) {
    kiln_status st = setup->target ? KILN_OK : choose(setup, arena, out_target);
    if (st) return st;
    vta_state *state = kiln_alloc(sizeof *state);
    if (kiln_board_vta_is_named()) {
        st = kiln_board_vta_open(&state->board);
        if (!st) st = kiln_board_vta_become(state->board, out_target);
    }
    if (st)
        vta_close(state);
    else
        *out_state = state;
    return st;
}

/* A simulator can become any machine at once. */
static kiln_status vta_reprogram(void *context, const kiln_target *target) {
    vta_state *state = context;
    return state->board ? kiln_board_vta_become(state->board, target) : KILN_OK;
}

/* ---- programs -------------------------------------------------------------------------------- */

static kiln_status check_arguments(const kiln_manifest_launch *launch, const vta_launch *l) {
    if (l->argument_count == launch->arg_count) return KILN_OK;
    return KILN_ERROR(DATA_LOSS, "the program has %u arguments, its launch %u", l->argument_count,
                      launch->arg_count);
}

/* Reads and checks the program of a launch. */
static kiln_status read_launch(const kiln_artefact *artefact, uint32_t index,
                               const kiln_target *target, kiln_arena *arena, vta_launch *out) {
    const kiln_manifest *manifest = &artefact->manifest;
    const kiln_manifest_launch *launch = &manifest->launch[index];
    kiln_vta_fault fault;
    kiln_strbuf difference = {0};
    if (manifest->payload[launch->payload].kind != KILN_PAYLOAD_VTA)
        return KILN_ERROR(UNIMPLEMENTED, "payload %u is no program of a vta", launch->payload);
    kiln_status st = kiln_vta_program_decode(kiln_artefact_payload(artefact, launch->payload),
                                             arena, &out->program);
    if (!st && kiln_vta_config_differs(&target->vta, &out->program.config, &difference))
        st = KILN_ERROR(FAILED_PRECONDITION,
                        "the program is for another machine: the device has %s", difference.data);
    kiln_strbuf_deinit(&difference);
    if (!st && !kiln_vta_check(&out->program, &fault))
        st = KILN_ERROR(DATA_LOSS, "instruction %u: %s", fault.instruction, fault.text);
    if (st) return st;
    out->argument = KILN_ARENA_ARRAY(arena, uint32_t, out->program.buffer_count);
    for (uint32_t i = 0; i < out->program.buffer_count; i++)
        if (out->program.buffer[i].role == KILN_VTA_ROLE_ARGUMENT)
            out->argument[out->argument_count++] = i;
    out->data = KILN_ARENA_ARRAY(arena, char *, out->argument_count);
    return check_arguments(launch, out);
}

static kiln_status read_all(const kiln_artefact *artefact, const kiln_target *target,
                            kiln_arena *arena, vta_launch *out_launch) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < artefact->manifest.launch_count; i++)
        st = kiln_status_note(read_launch(artefact, i, target, arena, &out_launch[i]), "launch %u",
                              i);
    return st;
}

static kiln_status vta_check(const kiln_artefact *artefact, const kiln_target *target) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    vta_launch *launch = KILN_ARENA_ARRAY(&scratch, vta_launch, artefact->manifest.launch_count);
    kiln_status st = read_all(artefact, target, &scratch, launch);
    kiln_arena_deinit(&scratch);
    return st;
}

static void vta_unload(void *context, void *loaded) {
    const vta_state *state = context;
    vta_program *program = loaded;
    if (state->board) kiln_board_vta_unload(state->board);
    kiln_arena_deinit(&program->arena);
    kiln_free(program);
}

/* The simulator's main memory. */
static void fill_memory(vta_launch *l, kiln_arena *arena) {
    l->place = KILN_ARENA_ARRAY(arena, uint64_t, l->program.buffer_count);
    l->dram_bytes = kiln_vta_program_place(&l->program, l->place);
    l->dram = kiln_arena_alloc(arena, (size_t)l->dram_bytes);
    kiln_vta_program_fill(&l->program, l->place, l->dram);
}

static kiln_status vta_load(void *context, const kiln_artefact *artefact, void **out_program) {
    const vta_state *state = context;
    const kiln_manifest *manifest = &artefact->manifest;
    vta_program *program = kiln_alloc(sizeof *program);
    kiln_target target;
    kiln_arena_init(&program->arena, 0);
    program->launch_count = manifest->launch_count;
    program->launch = KILN_ARENA_ARRAY(&program->arena, vta_launch, manifest->launch_count);
    kiln_status st = kiln_target_parse(manifest->target, &program->arena, &target);
    if (!st) st = read_all(artefact, &target, &program->arena, program->launch);
    for (uint32_t i = 0; !st && i < program->launch_count; i++) {
        vta_launch *l = &program->launch[i];
        if (state->board)
            st = kiln_board_vta_load(state->board, &l->program); /* checks that the program fits */
        else
            fill_memory(l, &program->arena);
    }
    if (st)
        vta_unload(context, program);
    else
        *out_program = program;
    return st;
}

static int32_t simulate(kiln_soft_device *soft, const vta_launch *l, uint64_t *out_cycles) {
    kiln_vta_timing timing;
    kiln_vta_fault fault;
    for (uint32_t i = 0; i < l->argument_count; i++)
        memcpy(l->dram + l->place[l->argument[i]], l->data[i],
               (size_t)l->program.buffer[l->argument[i]].size_bytes);
    if (!kiln_vta_csim_run(&l->program, l->dram, l->dram_bytes, &(kiln_vta_csim_options){0}, NULL,
                           &timing, &fault)) {
        snprintf(soft->text, sizeof soft->text, "instruction %u: %s", fault.instruction,
                 fault.text);
        return kiln_soft_fail(soft, soft->text);
    }
    for (uint32_t i = 0; i < l->argument_count; i++)
        memcpy(l->data[i], l->dram + l->place[l->argument[i]],
               (size_t)l->program.buffer[l->argument[i]].size_bytes);
    *out_cycles = timing.cycles;
    return KILN_KERNEL_OK;
}

static int32_t run_on_board(vta_state *state, const vta_launch *l, uint64_t *out_cycles) {
    kiln_soft_device *soft = &state->soft;
    kiln_status st = kiln_board_vta_run(state->board, &l->program, l->data, out_cycles);
    if (!st) return KILN_KERNEL_OK;
    snprintf(soft->text, sizeof soft->text, "%s", kiln_status_text(st));
    kiln_status_free(st);
    return kiln_soft_fail(soft, soft->text);
}

static int32_t vta_launch_run(void *context, void *loaded, uint32_t index,
                              kiln_kernel_tensor *const *args,
                              const kiln_kernel_services *services) {
    (void)services;
    vta_state *state = context;
    const vta_launch *l = &((vta_program *)loaded)->launch[index];
    uint64_t cycles = 0;
    for (uint32_t i = 0; i < l->argument_count; i++) {
        const uint64_t size = l->program.buffer[l->argument[i]].size_bytes;
        l->data[i] = kiln_soft_bytes(&state->soft, args[i]->data, args[i]->byte_offset, size);
        if (!l->data[i] || kiln_soft_argument_bytes(args[i]) != size)
            return kiln_soft_fail(&state->soft,
                                  "an argument is not in the memory of the device, or not "
                                  "of the program's size");
    }
    const int32_t status =
        state->board ? run_on_board(state, l, &cycles) : simulate(&state->soft, l, &cycles);
    if (!status) state->soft.clock_ns += cycles * 1000 / l->program.config.clock_mhz;
    return status;
}

/* Programs were checked and always end, so a failure is the board's fault. */
static bool vta_is_broken(void *context) {
    const vta_state *state = context;
    return state->board && kiln_board_vta_is_broken(state->board);
}

const kiln_device_vtable kiln_device_vta = {
    .list = vta_list,
    .open = vta_open,
    .close = vta_close,
    .reprogram = vta_reprogram,
    .allocate = kiln_soft_allocate,
    .release = kiln_soft_release,
    .place = kiln_soft_place,
    .check = vta_check,
    .load = vta_load,
    .unload = vta_unload,
    .launch = vta_launch_run,
    .copy = kiln_soft_copy,
    .record = kiln_soft_record,
    .wait = kiln_soft_wait,
    .elapsed_ns = kiln_soft_elapsed_ns,
    .error = kiln_soft_error,
    .is_lost = vta_is_broken,
    .is_broken = vta_is_broken,
};
