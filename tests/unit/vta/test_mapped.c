/* The board is another process, which sees the same files. */
#include "vta/mapped.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "tests/support/test.h"
#include "tests/support/vta_board_fake.h"

#define ADDRESS 0x20000u
#define MEMORY_BYTES (16u * KILN_VTA_PAGE_BYTES)
#define WAIT_NS UINT64_C(20000000000)

static const char program_text[] =
    "config b1i2o2,i8w8a32,uop8,inp8,wgt8,acc8,bus32,clk100,alu2,pipe3,v1\n"
    "buffer in argument 32\nbuffer out argument 8\n"
    "load memory=acc buffer=in y_size=1 x_size=4\nload memory=acc push_next\n"
    "store memory=out buffer=out y_size=1 x_size=4 pop_prev push_prev\nfinish pop_next";

static void write_file(const char *folder, const char *name, const char *text, size_t bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    expect_ok(kiln_file_write(path, (kiln_str){text, bytes}, 0644));
}

static kiln_vta_mapped_files files_of(char *folder, kiln_arena *arena) {
    char *zeros = kiln_arena_alloc(arena, MEMORY_BYTES);
    write_file(folder, "memory", zeros, MEMORY_BYTES);
    write_file(folder, "registers", zeros, KILN_VTA_PAGE_BYTES);
    write_file(folder, "phys_addr", "0x00020000\n", 11);
    write_file(folder, "size", "65536\n", 6);
    return (kiln_vta_mapped_files){.memory = kiln_arena_printf(arena, "%s/memory", folder),
                                   .folder = folder,
                                   .registers = kiln_arena_printf(arena, "%s/registers", folder)};
}

/* The other process: waits for the start, runs, ends. */
static void be_the_board(const kiln_vta_mapped_files *files, const kiln_vta_config *config,
                         kiln_arena *arena) {
    kiln_vta_mapped m;
    expect_ok(kiln_vta_mapped_open(files, &m));
    const uint64_t deadline = kiln_clock_ns() + WAIT_NS;
    while (m.registers[KILN_VTA_REGISTER_STATE] != 1)
        if (sched_yield(), kiln_clock_ns() > deadline) _exit(1);
    uint8_t *dram = kiln_arena_alloc(arena, ADDRESS + MEMORY_BYTES);
    memcpy(dram + ADDRESS, m.io.memory, MEMORY_BYTES);
    uint32_t registers[KILN_VTA_REGISTERS];
    for (uint32_t i = 0; i < KILN_VTA_REGISTERS; i++) registers[i] = m.registers[i];
    vta_board_fake_run(config, registers, dram, ADDRESS + MEMORY_BYTES, UINT32_MAX, arena);
    memcpy(m.io.memory, dram + ADDRESS, MEMORY_BYTES);
    for (uint32_t i = KILN_VTA_REGISTERS; i-- > 0;) { /* the state comes last */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        m.registers[i] = registers[i];
    }
    _exit(0);
}

static void a_board_in_files_runs_a_program(void **state) {
    char *folder = make_folder(*state);
    const kiln_vta_mapped_files files = files_of(folder, *state);
    kiln_vta_program program;
    kiln_vta_mapped mapped;
    kiln_vta_board board;
    kiln_vta_loaded loaded;
    uint64_t cycles = 0;
    expect_ok(kiln_vta_program_parse(kiln_str_from(program_text), *state, &program));
    expect_ok(kiln_vta_mapped_open(&files, &mapped));
    assert_int_equal(mapped.io.address, ADDRESS);
    expect_ok(kiln_vta_board_init(&board, &mapped.io));
    expect_ok(kiln_vta_board_load(&board, &program, 1, *state, &loaded));
    uint8_t *in = kiln_vta_board_at(&board, loaded.place[1]);
    for (uint32_t i = 0; i < 32; i++) in[i] = (uint8_t)(i + 1);
    const pid_t child = fork();
    if (child == 0) be_the_board(&files, &program.config, *state);
    expect_ok(kiln_vta_board_run(&board, &loaded, WAIT_NS, &cycles));
    assert_true(cycles == (UINT64_C(1) << 32) + 40);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(kiln_vta_board_at(&board, loaded.place[2])[i], 4 * i + 1);
    int ended = 1;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    kiln_vta_mapped_close(&mapped);
    remove_folder(folder);
}

static void a_file_that_is_missing_or_wrong_is_named(void **state) {
    char *folder = make_folder(*state);
    const kiln_vta_mapped_files files = files_of(folder, *state);
    kiln_vta_mapped m;
    kiln_vta_mapped_files other = files;
    other.memory = "/nonexistent/udmabuf0";
    expect_error(kiln_vta_mapped_open(&other, &m), NOT_FOUND, "/nonexistent/udmabuf0");
    other = files;
    other.registers = "/nonexistent/uio0";
    expect_error(kiln_vta_mapped_open(&other, &m), NOT_FOUND, "/nonexistent/uio0");
    write_file(folder, "size", "many\n", 5);
    expect_error(kiln_vta_mapped_open(&files, &m), DATA_LOSS, "size has no number but 'many");
    write_file(folder, "phys_addr", "0xnowhere\n", 10);
    expect_error(kiln_vta_mapped_open(&files, &m), DATA_LOSS, "phys_addr has no number");
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_board_in_files_runs_a_program),
        test_with_arena(a_file_that_is_missing_or_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
