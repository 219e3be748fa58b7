/* The FPGA manager is a folder with the same files. */
#include "vta/fpga.h"

#include "base/file.h"
#include "tests/support/test.h"

#define WAIT_NS UINT64_C(20000000) /* that a state may take to change which never does */

static void put(const char *folder, const char *name, const char *text, kiln_arena *arena) {
    expect_ok(kiln_file_write(kiln_arena_printf(arena, "%s/%s", folder, name), kiln_str_from(text),
                              0644));
}

static char *manager_in(const char *state, kiln_arena *arena) {
    char *folder;
    expect_ok(kiln_folder_create_temp("kiln-test-fpga", arena, &folder));
    put(folder, "firmware", "", arena);
    put(folder, "state", state, arena);
    return folder;
}

static void a_bitstream_is_loaded_by_its_name(void **state) {
    char *manager = manager_in("operating\n", *state);
    kiln_str order;
    expect_ok(kiln_vta_fpga_load(manager, "pynq.bin", WAIT_NS));
    expect_ok(
        kiln_file_read(kiln_arena_printf(*state, "%s/firmware", manager), 4096, *state, &order));
    assert_true(kiln_str_is(order, "pynq.bin"));
    expect_ok(kiln_folder_remove(manager));
}

static void what_does_not_operate_is_an_error(void **state) {
    static const struct {
        const char *state;
        kiln_code code;
        const char *words;
    } row[] = {{"write error\n", KILN_UNAVAILABLE, "'write error'"},
               {"write\n", KILN_DEADLINE_EXCEEDED, "still 'write'"}};
    for (size_t i = 0; i < 2; i++) {
        char *manager = manager_in(row[i].state, *state);
        expect_error_at(kiln_vta_fpga_load(manager, "pynq.bin", WAIT_NS), row[i].code, row[i].words,
                        row[i].state, (int)i);
        expect_ok(kiln_folder_remove(manager));
    }
}

static void a_board_without_a_manager_is_an_error(void **state) {
    (void)state;
    expect_error(kiln_vta_fpga_load("/nonexistent/fpga0", "pynq.bin", WAIT_NS), NOT_FOUND,
                 "/nonexistent/fpga0/firmware");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_bitstream_is_loaded_by_its_name),
        test_with_arena(what_does_not_operate_is_an_error),
        test_with_arena(a_board_without_a_manager_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
