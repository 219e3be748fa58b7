#include "deploy/runtime/board_vta.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/opt.h"
#include "vta/fpga.h"
#include "vta/mapped.h"

#define CONFIG_BYTES_MAX ((size_t)4096)
#define CONFIG_SUFFIX ".vta"
#define POLL_MS 1

struct kiln_board_vta {
    int lock; /* the locked file of the registers; -1: it could not be opened */
    kiln_vta_mapped mapped;
    kiln_vta_board board;
    kiln_arena arena; /* of what is loaded */
    kiln_vta_loaded loaded;
    bool is_broken;
};

/* ---- the environment ------------------------------------------------------------------------- */

bool kiln_board_vta_is_named(void) { return kiln_env("KILN_VTA_REGISTERS") != NULL; }

static kiln_status read_variable(const char *name, const char **out_path) {
    *out_path = kiln_env(name);
    if (*out_path) return KILN_OK;
    return KILN_ERROR(NOT_FOUND,
                      "KILN_VTA_REGISTERS names a board, and %s is not set "
                      "(docs/how-to/vta-hardware.md)",
                      name);
}

/* ---- machines -------------------------------------------------------------------------------- */

static kiln_status read_machine(const char *folder, kiln_str file, kiln_arena *arena,
                                kiln_device_facts *out) {
    const char *path = kiln_arena_printf(arena, "%s/%.*s", folder, KILN_STR_ARG(file));
    const kiln_str name = kiln_str_slice(file, 0, file.size - strlen(CONFIG_SUFFIX));
    kiln_str config;
    *out = (kiln_device_facts){.name = kiln_str_dup(arena, name), .driver = "FPGA manager"};
    kiln_status st = kiln_file_read(path, CONFIG_BYTES_MAX, arena, &config);
    if (!st)
        st = kiln_target_parse(kiln_target_text_with_head(config, "vta", arena), arena,
                               &out->target);
    return kiln_status_note(st, "%s", path);
}

kiln_status kiln_board_vta_list(kiln_arena *arena, kiln_device_facts **out_facts,
                                uint32_t *out_count) {
    const char *folder;
    char **file = NULL;
    size_t files = 0;
    uint32_t count = 0;
    kiln_status st = read_variable("KILN_VTA_FIRMWARE", &folder);
    if (!st) st = kiln_folder_list(folder, arena, &file, &files);
    if (st) return st;
    kiln_device_facts *facts = KILN_ARENA_ARRAY(arena, kiln_device_facts, files);
    for (size_t i = 0; !st && i < files; i++)
        if (kiln_str_ends(kiln_str_from(file[i]), CONFIG_SUFFIX))
            st = read_machine(folder, kiln_str_from(file[i]), arena, &facts[count++]);
    if (!st && count == 0)
        st = KILN_ERROR(NOT_FOUND, "%s has no NAME.vta with a machine's configuration", folder);
    if (st) return st;
    *out_facts = facts;
    *out_count = count;
    return KILN_OK;
}

static kiln_status load_bitstream(const kiln_target *target, kiln_arena *arena) {
    const kiln_device_setup setup = {.wanted = target};
    kiln_device_facts *facts;
    uint32_t count, index = 0;
    const char *manager;
    kiln_status st = read_variable("KILN_VTA_FPGA", &manager);
    if (!st) st = kiln_board_vta_list(arena, &facts, &count);
    if (!st) st = kiln_device_choose(&setup, facts, count, &index);
    if (st) return st;
    const char *bitstream = kiln_arena_printf(arena, "%s.bin", facts[index].name);
    return kiln_vta_fpga_load(manager, bitstream, KILN_BOARD_VTA_REPROGRAM_NS);
}

kiln_status kiln_board_vta_become(kiln_board_vta *board, const kiln_target *target) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_board_vta_unload(board);
    kiln_status st = load_bitstream(target, &scratch);
    kiln_arena_deinit(&scratch);
    board->is_broken = st != NULL; /* then the FPGA's contents are unknown */
    if (!st) return KILN_OK;
    kiln_status unavailable = KILN_ERROR(UNAVAILABLE, "the board: %s", kiln_status_text(st));
    kiln_status_free(st);
    return unavailable;
}

/* ---- opening --------------------------------------------------------------------------------- */

void kiln_board_vta_close(kiln_board_vta *board) {
    if (!board) return;
    kiln_vta_mapped_close(&board->mapped);
    if (board->lock >= 0) close(board->lock);
    kiln_arena_deinit(&board->arena);
    kiln_free(board);
}

/* The child of a replaced server may not have ended yet. */
static kiln_status lock_file(const char *path, int *out_lock) {
    const uint64_t deadline = kiln_clock_ns() + KILN_BOARD_VTA_WAIT_NS;
    *out_lock = open(path, O_RDWR | O_CLOEXEC);
    if (*out_lock < 0)
        return kiln_status_make(kiln_code_from_errno(errno), __FILE__, __LINE__, "opening %s: %s",
                                path, strerror(errno));
    while (flock(*out_lock, LOCK_EX | LOCK_NB) != 0) {
        if (kiln_clock_ns() >= deadline)
            return KILN_ERROR(UNAVAILABLE, "another process has the board of %s open", path);
        (void)poll(NULL, 0, POLL_MS);
    }
    return KILN_OK;
}

kiln_status kiln_board_vta_open(kiln_board_vta **out_board) {
    kiln_vta_mapped_files files;
    kiln_status st = read_variable("KILN_VTA_REGISTERS", &files.registers);
    if (!st) st = read_variable("KILN_VTA_MEMORY", &files.memory);
    if (!st) st = read_variable("KILN_VTA_MEMORY_FACTS", &files.folder);
    if (st) return st;
    kiln_board_vta *board = kiln_alloc(sizeof *board);
    kiln_arena_init(&board->arena, 0);
    st = lock_file(files.registers, &board->lock);
    if (!st) st = kiln_vta_mapped_open(&files, &board->mapped);
    if (!st) st = kiln_vta_board_init(&board->board, &board->mapped.io);
    if (st)
        kiln_board_vta_close(board);
    else
        *out_board = board;
    return st;
}

/* ---- programs -------------------------------------------------------------------------------- */

void kiln_board_vta_unload(kiln_board_vta *board) {
    kiln_vta_board_reset(&board->board);
    kiln_arena_reset(&board->arena);
    board->loaded = (kiln_vta_loaded){0};
}

kiln_status kiln_board_vta_load(kiln_board_vta *board, const kiln_vta_program *program) {
    if (board->is_broken) return KILN_ERROR(UNAVAILABLE, "the board failed before");
    kiln_board_vta_unload(board);
    return kiln_vta_board_load(&board->board, program, 1, &board->arena, &board->loaded);
}

/* Copies between the caller's arguments and their places on the board. */
static void copy_arguments(const kiln_board_vta *board, char *const *data, bool to_board) {
    const kiln_vta_program *program = board->loaded.program;
    for (uint32_t i = 0, argument = 0; i < program->buffer_count; i++) {
        if (program->buffer[i].role != KILN_VTA_ROLE_ARGUMENT) continue;
        const size_t bytes = (size_t)program->buffer[i].size_bytes;
        uint8_t *place = kiln_vta_board_at(&board->board, board->loaded.place[i]);
        char *own = data[argument++];
        if (to_board)
            memcpy(place, own, bytes);
        else
            memcpy(own, place, bytes);
    }
}

kiln_status kiln_board_vta_run(kiln_board_vta *board, const kiln_vta_program *program,
                               char *const *data, uint64_t *out_cycles) {
    kiln_status st = KILN_OK;
    if (board->is_broken || board->loaded.program != program)
        st = kiln_board_vta_load(board, program);
    if (st) return st;
    copy_arguments(board, data, true);
    st = kiln_vta_board_run(&board->board, &board->loaded, KILN_BOARD_VTA_RUN_NS, out_cycles);
    if (st)
        board->is_broken = true;
    else
        copy_arguments(board, data, false);
    return st;
}

bool kiln_board_vta_is_broken(const kiln_board_vta *board) { return board->is_broken; }
