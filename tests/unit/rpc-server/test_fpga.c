/* The FPGA manager is a folder with the same files. */
#include "rpc-server/fpga.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "tests/support/test.h"

#define WAIT_NS UINT64_C(20000000) /* that a state may take to change which never does */

static const kiln_str one = {"first machine", 13}, other = {"second machine", 14};

static void put(const char *folder, const char *name, const char *text) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    expect_ok(kiln_file_write(path, kiln_str_from(text), 0644));
}

static kiln_str content_of(const char *folder, const char *name, kiln_arena *arena) {
    kiln_str content;
    expect_ok(
        kiln_file_read(kiln_arena_printf(arena, "%s/%s", folder, name), 4096, arena, &content));
    return content;
}

static kiln_fpga fpga_in(kiln_arena *arena, const char *state) {
    char *folder;
    expect_ok(kiln_folder_create_temp("kiln-test-fpga", arena, &folder));
    put(folder, "firmware", "");
    put(folder, "state", state);
    return (kiln_fpga){.manager = folder, .firmware = folder};
}

static void a_bitstream_is_loaded_when_it_is_another_one(void **state) {
    kiln_fpga fpga = fpga_in(*state, "operating\n");
    expect_ok(kiln_fpga_load(&fpga, one, WAIT_NS));
    const kiln_str name = content_of(fpga.manager, "firmware", *state);
    assert_int_equal(name.size, strlen("kiln-.bin") + KILN_DIGEST_TEXT - 1);
    assert_true(kiln_str_equal(content_of(fpga.firmware, kiln_str_dup(*state, name), *state), one));
    expect_ok(kiln_fpga_load(&fpga, one, WAIT_NS));
    assert_int_equal(fpga.load_count, 1);
    expect_ok(kiln_fpga_load(&fpga, other, WAIT_NS));
    assert_false(kiln_str_equal(content_of(fpga.manager, "firmware", *state), name));
    expect_ok(kiln_fpga_load(&fpga, one, WAIT_NS));
    assert_int_equal(fpga.load_count, 3);
    expect_ok(kiln_folder_remove(fpga.manager));
}

static void what_does_not_operate_is_an_error(void **state) {
    static const struct {
        const char *state;
        kiln_code code;
        const char *words;
    } row[] = {{"write error\n", KILN_UNAVAILABLE, "'write error'"},
               {"write\n", KILN_DEADLINE_EXCEEDED, "still 'write'"}};
    for (size_t i = 0; i < 2; i++) {
        kiln_fpga fpga = fpga_in(*state, row[i].state);
        expect_error_at(kiln_fpga_load(&fpga, one, WAIT_NS), row[i].code, row[i].words,
                        row[i].state, (int)i);
        assert_false(fpga.is_loaded);
        put(fpga.manager, "state", "operating\n");
        expect_ok(kiln_fpga_load(&fpga, one, WAIT_NS)); /* what it holds was not known */
        assert_int_equal(fpga.load_count, 1);
        expect_ok(kiln_folder_remove(fpga.manager));
    }
}

static void a_board_without_a_manager_is_an_error(void **state) {
    kiln_fpga fpga = fpga_in(*state, "operating\n");
    const char *folder = fpga.manager;
    fpga.manager = kiln_arena_printf(*state, "%s/none", folder);
    expect_error(kiln_fpga_load(&fpga, one, WAIT_NS), NOT_FOUND, "none/firmware");
    expect_ok(kiln_folder_remove(folder));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_bitstream_is_loaded_when_it_is_another_one),
        test_with_arena(what_does_not_operate_is_an_error),
        test_with_arena(a_board_without_a_manager_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
