/* A calibration between runs of programs. */
#include "deploy/runtime/calibrate_kept.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/target.h"
#include "tests/support/test.h"

static void what_is_kept_comes_back(void **state) {
    char *folder = make_folder(*state);
    kiln_figures c = {0}, read;
    c.figure[KILN_FIGURE_VECTOR] = 2;
    read = kiln_calibration_kept(folder, *state);
    assert_true(kiln_figures_is_empty(&read)); /* nothing is there */
    expect_ok(kiln_calibration_keep(folder, &c, *state));
    read = kiln_calibration_kept(folder, *state);
    assert_true(kiln_figures_equal(&read, &c));
    remove_folder(folder);
}

static void what_is_damaged_does_not_count(void **state) {
    char *folder = make_folder(*state);
    const char *path = kiln_arena_printf(*state, "%s/calibration", folder);
    kiln_figures c = {0}, read;
    kiln_str bytes;
    c.figure[KILN_FIGURE_VECTOR] = 2;
    expect_ok(kiln_calibration_keep(folder, &c, *state));
    expect_ok(kiln_file_read(path, 4096, *state, &bytes));
    expect_ok(kiln_file_write(path, kiln_str_slice(bytes, 0, bytes.size - 3), 0600));
    read = kiln_calibration_kept(folder, *state);
    assert_true(kiln_figures_is_empty(&read));
    remove_folder(folder);
}

static void that_of_another_processor_does_not_count(void **state) {
    char *folder = make_folder(*state);
    const char *path = kiln_arena_printf(*state, "%s/calibration", folder);
    kiln_figures c = {0}, read;
    kiln_strbuf bytes = {0};
    c.figure[KILN_FIGURE_VECTOR] = 2;
    kiln_mpack_write_array(&bytes, 3);
    kiln_mpack_write_u64(&bytes, 1);
    kiln_mpack_write_str(&bytes, KILN_STR("Another One 1 2 3"));
    kiln_figures_encode(&c, &bytes);
    expect_ok(kiln_file_write(path, kiln_strbuf_view(&bytes), 0600));
    read = kiln_calibration_kept(folder, *state);
    assert_true(kiln_figures_is_empty(&read));
    kiln_strbuf_deinit(&bytes);
    remove_folder(folder);
}

static void processors_are_named_by_all_of_their_cores(void **state) {
    char *folder = make_folder(*state);
    const char *path = kiln_arena_printf(*state, "%s/cpuinfo", folder);
    expect_ok(
        kiln_file_write(path,
                        KILN_STR("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n\n"
                                 "processor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n\n"
                                 "processor\t: 2\nCPU implementer\t: 0x41\nCPU part\t: 0xd0a\n"),
                        0600));
    expect_str(kiln_calibration_processor(path, *state), "0x41 0xd05 0xd0a");
    expect_str(kiln_calibration_processor("/nowhere", *state), "");
    remove_folder(folder);
}

static void tests_and_levels_keep_to_the_table(void **state) {
    (void)state;
    setenv(KILN_CALIBRATION_VARIABLE, "", 1); /* empty is unset */
    setenv(KILN_NATIVE_VARIABLE, "", 1);
    assert_true(kiln_calibration_is_wanted());
    setenv(KILN_CALIBRATION_VARIABLE, KILN_CALIBRATION_NONE, 1);
    assert_false(kiln_calibration_is_wanted());
    setenv(KILN_CALIBRATION_VARIABLE, "", 1);
    setenv(KILN_NATIVE_VARIABLE, "x86-64-v2", 1);
    assert_false(kiln_calibration_is_wanted());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(what_is_kept_comes_back),
        test_with_arena(what_is_damaged_does_not_count),
        test_with_arena(that_of_another_processor_does_not_count),
        test_with_arena(processors_are_named_by_all_of_their_cores),
        cmocka_unit_test(tests_and_levels_keep_to_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
