/* Labels of tasks, and dates of a comparison. */
#include "web/record_rows.h"

#include "tests/support/test.h"
#include "web/records.h"

static const char conv[] =
    "program \"conv+relu\"\ninput x0: f32[1,32,8,8]\n"
    "block conv.pad(i:1, j:32, k:10, l:10): conv.pad[i, j, k, l] = x0[i, j, k, l]\n"
    "block conv(n:1, oc:32, oh:8, ow:8 | ic:32, kh:3, kw:3): c[n] sum= x0[n] init 0.0\n"
    "block relu(i:1, j:32, k:8, l:8): y[i] = max(c[i], 0.0)\n";

static void expect_label(const char *op, const char *canonical, const char *label) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    const kiln_str got = kiln_record_label(kiln_str_from(op), kiln_str_from(canonical), &arena);
    expect_str(got, label);
    kiln_arena_deinit(&arena);
}

static void a_label_has_the_extents_of_the_largest_block(void **state) {
    (void)state;
    expect_label("conv+relu", conv, "conv+relu 32x8x8 over 32x3x3");
    expect_label("relu", "block relu(i:1, j:4): y[i] = x[i]\n", "relu 4");
}

static void a_text_that_is_no_program_has_the_operators_alone(void **state) {
    (void)state;
    static const char *const broken[] = {"",
                                         "block",
                                         "block (",
                                         "block x(",
                                         "block x(:::,,,|||)",
                                         "block x(i:99999999999999999999999)",
                                         "block x(i:-4)",
                                         "\n\n\n",
                                         "blockx(i:4)",
                                         "block x(i:0, j:1)"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(broken); i++) expect_label("op", broken[i], "op");
}

static void dates_are_days_or_times(void **state) {
    (void)state;
    int64_t ns = -1;
    assert_true(kiln_web_date_parse(KILN_STR("1970-01-01"), &ns) && ns == 0);
    assert_true(kiln_web_date_parse(KILN_STR("2000-03-01T12:34:56Z"), &ns));
    assert_true(ns == INT64_C(951914096000000000));
    assert_true(kiln_web_date_parse(KILN_STR("2026-12-31"), &ns));
    assert_true(ns == INT64_C(1798675200000000000));
    static const char *const broken[] = {"",
                                         "2026",
                                         "2026-1-31",
                                         "2026-00-01",
                                         "2026-13-01",
                                         "2026-01-32",
                                         "1969-12-31",
                                         "2026/01/31",
                                         "2026-01-31T",
                                         "2026-01-31T24:00:00Z",
                                         "2026-01-31T12:00:60Z",
                                         "2026-01-31 12:00:00Z",
                                         "+026-01-31",
                                         "0x26-01-31"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(broken); i++)
        assert_false(kiln_web_date_parse(kiln_str_from(broken[i]), &ns));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_label_has_the_extents_of_the_largest_block),
        cmocka_unit_test(a_text_that_is_no_program_has_the_operators_alone),
        cmocka_unit_test(dates_are_days_or_times),
    };
    return cmocka_run_group_tests_name("web/record_rows", tests, NULL, NULL);
}
