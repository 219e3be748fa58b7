/* What commands share: options that several of them have. */
#include "cli/cli.h"
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

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(sizes_of_dimensions_are_named),
        test_with_arena(what_names_no_size_is_refused),
    };
    return cmocka_run_group_tests_name("cli/common", tests, NULL, NULL);
}
