#include "tests/support/vta_board_files.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/test.h"
#include "tests/support/vta_board_fake.h"

#define ADDRESS UINT64_C(0x20000)
#define MEMORY_BYTES ((size_t)1 << 20)
#define POLL_MS 1

/* Anybody may read and write it, as contained children do. */
static void write_file(const char *path, const char *text, size_t bytes) {
    expect_ok(kiln_file_write(path, (kiln_str){text, bytes}, 0666));
    assert_int_equal(chmod(path, 0666), 0);
}

static const char *read_file(const char *path, kiln_arena *arena) {
    kiln_str text;
    expect_ok(kiln_file_read(path, 4096, arena, &text));
    return kiln_str_dup(arena, text);
}

/* ---- the other process ----------------------------------------------------------------------- */

static kiln_vta_config loaded_machine(const vta_board_files *files, kiln_arena *arena) {
    kiln_vta_config config;
    const char *name = vta_board_files_loaded(files, arena);
    const char *text =
        read_file(kiln_arena_printf(arena, "%s/%.3s.vta", files->firmware, name), arena);
    if (kiln_vta_config_parse(kiln_str_trim(kiln_str_from(text)), &config)) _exit(1);
    return config;
}

static void run_program(const vta_board_files *files, kiln_vta_mapped *m, kiln_arena *arena) {
    const kiln_vta_config config = loaded_machine(files, arena);
    uint8_t *dram = kiln_arena_alloc(arena, ADDRESS + MEMORY_BYTES);
    uint32_t registers[KILN_VTA_REGISTERS];
    memcpy(dram + ADDRESS, m->io.memory, MEMORY_BYTES);
    for (uint32_t i = 0; i < KILN_VTA_REGISTERS; i++) registers[i] = m->registers[i];
    vta_board_fake_run(&config, registers, dram, ADDRESS + MEMORY_BYTES, UINT32_MAX, arena);
    registers[KILN_VTA_REGISTER_CYCLES_HIGH] = 0; /* no minute that nobody waited for */
    memcpy(m->io.memory, dram + ADDRESS, MEMORY_BYTES);
    for (uint32_t i = KILN_VTA_REGISTERS; i-- > 0;) { /* the state comes last */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        m->registers[i] = registers[i];
    }
}

KILN_NORETURN static void be_the_board(const vta_board_files *files) {
    kiln_arena arena;
    kiln_vta_mapped m;
    kiln_arena_init(&arena, 0);
    if (kiln_vta_mapped_open(&files->mapped, &m)) _exit(1);
    for (;;) {
        while (m.registers[KILN_VTA_REGISTER_STATE] != KILN_VTA_STATE_RUNS)
            (void)poll(NULL, 0, POLL_MS); /* tests beside it have the core */
        run_program(files, &m, &arena);
        kiln_arena_reset(&arena);
    }
}

/* ---- the test's side ------------------------------------------------------------------------- */

void vta_board_files_open(vta_board_files *files, kiln_arena *arena) {
    const char *zeros = kiln_arena_alloc(arena, MEMORY_BYTES);
    expect_ok(kiln_folder_create_temp("kiln-test-board", arena, &files->folder));
    assert_int_equal(chmod(files->folder, 0755), 0);
    files->fpga = kiln_arena_printf(arena, "%s/fpga", files->folder);
    files->firmware = kiln_arena_printf(arena, "%s/firmware", files->folder);
    files->mapped = (kiln_vta_mapped_files){
        .memory = kiln_arena_printf(arena, "%s/memory", files->folder),
        .folder = kiln_arena_printf(arena, "%s/facts", files->folder),
        .registers = kiln_arena_printf(arena, "%s/registers", files->folder)};
    expect_ok(kiln_folder_create(files->fpga, 0755));
    expect_ok(kiln_folder_create(files->firmware, 0755));
    expect_ok(kiln_folder_create(files->mapped.folder, 0755));
    write_file(files->mapped.memory, zeros, MEMORY_BYTES);
    write_file(files->mapped.registers, zeros, KILN_VTA_PAGE_BYTES);
    write_file(kiln_arena_printf(arena, "%s/phys_addr", files->mapped.folder), "0x20000\n", 8);
    write_file(kiln_arena_printf(arena, "%s/size", files->mapped.folder), "1048576\n", 8);
    write_file(kiln_arena_printf(arena, "%s/firmware", files->fpga), "", 0);
    vta_board_files_say(files, "operating\n", arena);
    files->pid = fork();
    if (files->pid != 0) return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    be_the_board(files);
}

void vta_board_files_add(const vta_board_files *files, const char *name, const char *config,
                         kiln_arena *arena) {
    assert_int_equal(strlen(name), 3);
    write_file(kiln_arena_printf(arena, "%s/%s.vta", files->firmware, name), config,
               strlen(config));
}

void vta_board_files_say(const vta_board_files *files, const char *state, kiln_arena *arena) {
    write_file(kiln_arena_printf(arena, "%s/state", files->fpga), state, strlen(state));
}

const char *vta_board_files_loaded(const vta_board_files *files, kiln_arena *arena) {
    return read_file(kiln_arena_printf(arena, "%s/firmware", files->fpga), arena);
}

#define VARIABLES 5u
static const char *const variable[VARIABLES] = {"KILN_VTA_REGISTERS", "KILN_VTA_MEMORY",
                                                "KILN_VTA_MEMORY_FACTS", "KILN_VTA_FPGA",
                                                "KILN_VTA_FIRMWARE"};

void vta_board_files_name(const vta_board_files *files) {
    const char *const path[VARIABLES] = {files->mapped.registers, files->mapped.memory,
                                         files->mapped.folder, files->fpga, files->firmware};
    for (uint32_t i = 0; i < VARIABLES; i++) (void)setenv(variable[i], path[i], 1);
}

void vta_board_files_close(vta_board_files *files) {
    (void)kill(files->pid, SIGKILL);
    assert_int_equal(waitpid(files->pid, NULL, 0), files->pid);
    for (uint32_t i = 0; i < VARIABLES; i++) (void)unsetenv(variable[i]);
    expect_ok(kiln_folder_remove(files->folder));
}
