/* Options that several commands have. */
#include "cli/common/options.h"
#include "tests/support/test.h"

static kiln_status parse(kiln_arena *arena, const char *a, const char *b,
                         kiln_import_options *out_options) {
    const char *item[] = {a, b};
    return kiln_dim_option(&(kiln_opt_list){item, b ? 2 : 1}, arena, out_options);
}

static void sizes_of_dimensions_are_named(void **state) {
    kiln_import_options options = {0};
    expect_ok(parse(*state, "batch=4", "x.0=1", &options));
    assert_int_equal(options.dim_count, 2);
    expect_str(options.dim_name[0], "batch");
    expect_str(options.dim_name[1], "x.0");
    assert_int_equal(options.dim_value[0], 4);
    assert_int_equal(options.dim_value[1], 1);
}

static void what_names_no_size_is_refused(void **state) {
    static const char *const wrong[] = {"batch",   "batch=",           "=4", "batch=0", "batch=-1",
                                        "batch=x", "batch=99999999999"};
    kiln_import_options options = {0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wrong); i++)
        expect_error(parse(*state, wrong[i], NULL, &options), INVALID_ARGUMENT, wrong[i]);
    expect_error(parse(*state, "n=1", "n=2", &options), INVALID_ARGUMENT, "n is given twice");
}

static void threads_are_part_of_the_target(void **state) {
    kiln_target target;
    expect_ok(kiln_target_option("rpi4", 3, *state, &target));
    assert_int_equal(target.threads, 3);
    expect_ok(kiln_target_option("cpu:x86_64-unknown-linux-gnu,threads=2", 0, *state, &target));
    assert_int_equal(target.threads, 2);
    expect_ok(kiln_target_option("cpu:x86_64-unknown-linux-gnu,threads=2", 2, *state, &target));
    expect_error(kiln_target_option("cpu:x86_64-unknown-linux-gnu,threads=1", 2, *state, &target),
                 INVALID_ARGUMENT, "--target says threads=1");
    expect_error(kiln_target_option("null", 2, *state, &target), INVALID_ARGUMENT, "processors");
    expect_error(kiln_target_option("rpi4", KILN_TARGET_CORES_MAX + 1, *state, &target),
                 INVALID_ARGUMENT, "at most");
}

static void what_loads_no_modules_is_told_the_command_for_c(void **state) {
    static const char *const bare[] = {"cortex-m7"}, *const loads[] = {"rpi4", "riscv64", "wasm",
                                                                       "null"};
    kiln_target target;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bare); i++) {
        expect_ok(kiln_target_option(bare[i], 0, *state, &target));
        expect_error(kiln_target_check_modules(&target, bare[i], "m.onnx"), FAILED_PRECONDITION,
                     kiln_arena_printf(*state, "m.onnx --emit static-c --target %s", bare[i]));
    }
    for (size_t i = 0; i < KILN_ARRAY_COUNT(loads); i++) {
        expect_ok(kiln_target_option(loads[i], 0, *state, &target));
        expect_ok(kiln_target_check_modules(&target, loads[i], "m.onnx"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(sizes_of_dimensions_are_named),
        test_with_arena(what_names_no_size_is_refused),
        test_with_arena(threads_are_part_of_the_target),
        test_with_arena(what_loads_no_modules_is_told_the_command_for_c),
    };
    return cmocka_run_group_tests_name("cli/common/options", tests, NULL, NULL);
}
