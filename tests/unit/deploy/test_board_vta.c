/* A board in files, whose machine is another process: the device that it is, and what it becomes.
 */
#include "deploy/runtime/board_vta.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/runtime/kernel.h"
#include "tests/support/test.h"
#include "tests/support/vta_artefact.h"
#include "tests/support/vta_board_files.h"

#define ONE "b1i4o4,i8w8a32,uop8,inp8,wgt8,acc8,bus32,clk100,alu4,pipe3,v1"
#define TWO "b1i2o2,i8w8a32,uop8,inp8,wgt8,acc8,bus32,clk200,alu2,pipe2,v1"

/* out = in * rows + 1 on tiles of two elements. */
static const char program_text[] =
    "config " TWO "\n"
    "buffer in argument 4\nbuffer out argument 4\nbuffer rows constant 4 010202ff\n"
    "uop\nuop dst=1 src=1\n"
    "load memory=inp buffer=in y_size=1 x_size=2\n"
    "load memory=wgt buffer=rows y_size=1 x_size=1 push_next\n"
    "load memory=uop y_size=1 x_size=2 pop_prev\n"
    "gemm reset uop_end=2 iter_out=1 iter_in=1\n"
    "gemm uop_end=2 iter_out=1 iter_in=1\n"
    "alu op=add use_imm imm=1 uop_end=2 iter_out=1 iter_in=1 push_next\n"
    "store memory=out buffer=out y_size=1 x_size=2 pop_prev push_prev\n"
    "finish pop_next\n";
#define INSTRUCTIONS 8
/* What the other process counts for them, at 200 MHz. */
#define TAKEN_NS (10 * INSTRUCTIONS * 1000 / 200)

static void open_files(vta_board_files *files, kiln_arena *arena) {
    vta_board_files_open(files, arena);
    vta_board_files_add(files, "one", ONE "\n", arena);
    vta_board_files_add(files, "two", TWO "\n", arena);
    vta_board_files_name(files);
}

static kiln_target target_of(const char *text, kiln_arena *arena) {
    kiln_target target;
    expect_ok(kiln_target_parse(kiln_str_from(text), arena, &target));
    return target;
}

/* Status of a run of `kernel` with these bytes, and its time by the device. */
static int32_t run(kiln_device *device, kiln_kernel *kernel, const int8_t sent[4], int8_t got[4],
                   uint64_t *out_ns) {
    kiln_call *call;
    kiln_device_memory memory[2];
    expect_ok(kiln_call_create(kernel, KILN_GUARD_NONE, &call));
    for (uint32_t i = 0; i < 2; i++) {
        expect_ok(kiln_device_allocate(device, 4, KILN_GUARD_NONE, &memory[i]));
        expect_ok(kiln_call_bind_place(call, i, kiln_device_place_at(device, &memory[i], 0), 4));
    }
    assert_int_equal(kiln_device_copy(device, KILN_COPY_TO_DEVICE,
                                      kiln_device_place_at(device, &memory[0], 0),
                                      kiln_host_place((void *)(uintptr_t)sent), 4),
                     KILN_KERNEL_OK);
    assert_int_equal(kiln_device_record(device, 0), KILN_KERNEL_OK);
    const int32_t status = kiln_call_run(call, NULL);
    assert_int_equal(kiln_device_record(device, 1), KILN_KERNEL_OK);
    *out_ns = kiln_device_elapsed_ns(device, 0, 1);
    assert_int_equal(kiln_device_copy(device, KILN_COPY_FROM_DEVICE, kiln_host_place(got),
                                      kiln_device_place_at(device, &memory[1], 0), 4),
                     KILN_KERNEL_OK);
    kiln_call_destroy(call);
    for (uint32_t i = 0; i < 2; i++) kiln_device_release(device, &memory[i]);
    return status;
}

static void a_board_becomes_a_machine_and_runs_its_programs(void **state) {
    static const int8_t sent[2][4] = {{1, 2, 3, 4}, {0, 1, 1, 0}},
                        expected[2][4] = {{6, 1, 12, 3}, {3, 0, 2, 3}};
    vta_board_files files;
    kiln_device *device;
    kiln_kernel *kernel, *other;
    open_files(&files, *state);
    const kiln_target one = target_of("vta:" ONE, *state), two = target_of("vta:" TWO, *state);
    const kiln_str bytes = vta_artefact_encode("vta:" TWO, program_text, 2, 4, *state);
    expect_ok(kiln_device_open(KILN_DEVICE_VTA, NULL, &device)); /* the first */
    assert_string_equal(vta_board_files_loaded(&files, *state), "one.bin");
    expect_error(kiln_kernel_load(bytes, device, &kernel), FAILED_PRECONDITION,
                 "does not run on this machine");
    expect_ok(kiln_device_reprogram(device, &two));
    expect_ok(kiln_device_reprogram(device, &two));
    assert_string_equal(vta_board_files_loaded(&files, *state), "two.bin");
    assert_int_equal(kiln_device_reprogram_count(device), 1);
    expect_ok(kiln_kernel_load(bytes, device, &kernel));
    expect_ok(kiln_kernel_load(bytes, device, &other)); /* takes its place on the board */
    for (uint32_t i = 0; i < 4; i++) {
        int8_t got[4] = {0};
        uint64_t ns = 0;
        assert_int_equal(run(device, i % 2 ? other : kernel, sent[i / 2], got, &ns),
                         KILN_KERNEL_OK);
        assert_memory_equal(got, expected[i / 2], 4);
        assert_true(ns == TAKEN_NS);
    }
    kiln_kernel_unload(kernel);
    kiln_kernel_unload(other);
    expect_ok(kiln_device_reprogram(device, &one));
    assert_string_equal(vta_board_files_loaded(&files, *state), "one.bin");
    assert_false(kiln_device_is_broken(device));
    kiln_device_close(device);
    expect_ok(kiln_device_open(KILN_DEVICE_VTA, &(kiln_device_setup){.wanted = &two}, &device));
    assert_string_equal(vta_board_files_loaded(&files, *state), "two.bin");
    kiln_device_close(device);
    vta_board_files_close(&files);
}

static void machines_have_the_names_of_their_files(void **state) {
    vta_board_files files;
    kiln_device_facts *facts;
    kiln_device *device;
    uint32_t count;
    open_files(&files, *state);
    expect_ok(kiln_device_list(KILN_DEVICE_VTA, *state, &facts, &count));
    assert_int_equal(count, 2);
    assert_string_equal(facts[0].name, "one");
    assert_string_equal(facts[1].name, "two");
    assert_int_equal(facts[1].target.vta.clock_mhz, 200);
    const kiln_target pynq = target_of("vta:pynq", *state);
    expect_error(kiln_device_open(KILN_DEVICE_VTA, &(kiln_device_setup){.wanted = &pynq}, &device),
                 NOT_FOUND, "of 2 devices none runs the code");
    vta_board_files_add(&files, "six", "vta:" TWO "\n", *state); /* the whole text will do, too */
    expect_ok(kiln_device_list(KILN_DEVICE_VTA, *state, &facts, &count));
    assert_int_equal(count, 3);
    assert_memory_equal(&facts[1].target.vta, &facts[2].target.vta, sizeof facts[1].target.vta);
    vta_board_files_add(&files, "odd", "b1", *state);
    expect_error(kiln_device_list(KILN_DEVICE_VTA, *state, &facts, &count), INVALID_ARGUMENT,
                 "odd.vta");
    (void)setenv("KILN_VTA_FIRMWARE", files.fpga, 1);
    expect_error(kiln_device_list(KILN_DEVICE_VTA, *state, &facts, &count), NOT_FOUND,
                 "has no NAME.vta");
    vta_board_files_close(&files);
}

static void a_board_whose_fpga_fails_is_broken(void **state) {
    vta_board_files files;
    kiln_device *device, *other;
    kiln_kernel *kernel;
    open_files(&files, *state);
    const kiln_target one = target_of("vta:" ONE, *state), two = target_of("vta:" TWO, *state),
                      pynq = target_of("vta:pynq", *state);
    const kiln_str bytes = vta_artefact_encode("vta:" TWO, program_text, 2, 4, *state);
    expect_ok(kiln_device_open(KILN_DEVICE_VTA, &(kiln_device_setup){.index = 1}, &device));
    expect_error(kiln_device_open(KILN_DEVICE_VTA, NULL, &other), UNAVAILABLE,
                 "another process has the board");
    vta_board_files_say(&files, "write error\n", *state);
    expect_error(kiln_device_reprogram(device, &one), UNAVAILABLE, "'write error'");
    assert_true(kiln_device_is_broken(device));
    /* It may be another machine now. */
    expect_error(kiln_kernel_load(bytes, device, &kernel), UNAVAILABLE, "failed before");
    vta_board_files_say(&files, "operating\n", *state);
    expect_ok(kiln_device_reprogram(device, &two)); /* loads it, though it was that one */
    assert_string_equal(vta_board_files_loaded(&files, *state), "two.bin");
    expect_ok(kiln_kernel_load(bytes, device, &kernel));
    kiln_kernel_unload(kernel);
    kiln_device_close(device);
    vta_board_files_say(&files, "write error\n", *state);
    expect_error(kiln_device_open(KILN_DEVICE_VTA, NULL, &device), UNAVAILABLE, "one.bin");
    vta_board_files_say(&files, "operating\n", *state);
    expect_ok(kiln_device_open(KILN_DEVICE_VTA, NULL, &device));
    expect_error(kiln_device_reprogram(device, &pynq), UNAVAILABLE,
                 "of 2 devices none runs the code");
    kiln_device_close(device);
    (void)unsetenv("KILN_VTA_MEMORY");
    expect_error(kiln_device_open(KILN_DEVICE_VTA, NULL, &device), NOT_FOUND,
                 "KILN_VTA_MEMORY is not set");
    vta_board_files_close(&files);
}

static void a_run_that_fails_is_the_fault_of_the_board(void **state) {
    static const int8_t sent[4] = {1, 2, 3, 4};
    int8_t got[4];
    uint64_t ns = 0;
    vta_board_files files;
    kiln_vta_mapped machine;
    kiln_device *device;
    kiln_kernel *kernel;
    open_files(&files, *state);
    const kiln_str bytes = vta_artefact_encode("vta:" TWO, program_text, 2, 4, *state);
    expect_ok(kiln_device_open(KILN_DEVICE_VTA, &(kiln_device_setup){.index = 1}, &device));
    expect_ok(kiln_kernel_load(bytes, device, &kernel));
    assert_int_equal(kill(files.pid, SIGSTOP), 0);
    expect_ok(kiln_vta_mapped_open(&files.mapped, &machine));
    machine.registers[KILN_VTA_REGISTER_STATE] = KILN_VTA_STATE_RUNS;
    kiln_vta_mapped_close(&machine);
    assert_int_equal(run(device, kernel, sent, got, &ns), KILN_KERNEL_FAILED);
    expect_contains(kiln_device_error(device), "runs another program");
    assert_true(kiln_device_is_broken(device));
    assert_int_equal(ns, 0);
    kiln_kernel_unload(kernel);
    kiln_device_close(device);
    vta_board_files_close(&files);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_board_becomes_a_machine_and_runs_its_programs),
        test_with_arena(machines_have_the_names_of_their_files),
        test_with_arena(a_board_whose_fpga_fails_is_broken),
        test_with_arena(a_run_that_fails_is_the_fault_of_the_board),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
