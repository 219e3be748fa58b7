#include "base/str.h"

#include <string.h>

#include "tests/support/test.h"

static void views_compare_and_slice(void **state) {
    (void)state;
    kiln_str none = {0}, text = KILN_STR("kiln");
    assert_true(kiln_str_equal(none, KILN_STR("")));
    assert_true(kiln_str_equal(kiln_str_from(NULL), none));
    assert_true(kiln_str_is(text, "kiln"));
    assert_false(kiln_str_is(text, "kil"));
    assert_true(kiln_str_compare(text, KILN_STR("kilo")) < 0);
    assert_true(kiln_str_compare(text, KILN_STR("kil")) > 0);
    assert_true(kiln_str_compare(none, text) < 0);
    assert_int_equal(kiln_str_compare(text, text), 0);
    assert_true(kiln_str_starts(text, "ki") && kiln_str_starts(none, "") &&
                !kiln_str_starts(none, "k"));
    assert_true(kiln_str_ends(text, "ln") && kiln_str_ends(none, "") &&
                !kiln_str_ends(text, "akiln"));
    assert_int_equal(kiln_str_find_char(text, 'l'), 2);
    assert_int_equal(kiln_str_find_char(text, 'x'), 4);
    assert_int_equal(kiln_str_find_char(none, 'x'), 0);
    expect_str(kiln_str_slice(text, 1, 3), "il");
    expect_str(kiln_str_slice(text, 3, 99), "n");
    expect_str(kiln_str_slice(text, 9, 2), "");
    expect_str(kiln_str_trim(KILN_STR(" \t\nx y\r ")), "x y");
    expect_str(kiln_str_trim(KILN_STR(" \t")), "");
}

static void cut_splits_at_each_separator(void **state) {
    (void)state;
    kiln_str rest = KILN_STR("a,,b");
    expect_str(kiln_str_cut(&rest, ','), "a");
    expect_str(kiln_str_cut(&rest, ','), "");
    expect_str(kiln_str_cut(&rest, ','), "b");
    expect_str(rest, "");
    expect_str(kiln_str_cut(&rest, ','), "");
}

static void whole_numbers_are_parsed_whole_and_in_range(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool is_u64, is_i64;
        int64_t value;
    } row[] = {
        {"0", true, true, 0},
        {"42", true, true, 42},
        {"0x2A", true, true, 42},
        {"-42", false, true, -42},
        {"-0", false, true, 0},
        {"9223372036854775807", true, true, INT64_MAX},
        {"9223372036854775808", true, false, INT64_MIN},
        {"-9223372036854775808", false, true, INT64_MIN},
        {"-9223372036854775809", false, false, 0},
        {"18446744073709551615", true, false, -1},
        {"18446744073709551616", false, false, 0},
        {"0xffffffffffffffff", true, false, -1},
        {"0x10000000000000000", false, false, 0},
        {"", false, false, 0},
        {"-", false, false, 0},
        {"0x", false, false, 0},
        {"+1", false, false, 0},
        {" 1", false, false, 0},
        {"1 ", false, false, 0},
        {"1a", false, false, 0},
        {"--1", false, false, 0},
        {"1.0", false, false, 0},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        uint64_t u = 77;
        int64_t s = 77;
        assert_int_equal(kiln_str_to_u64(kiln_str_from(row[i].text), &u), row[i].is_u64);
        assert_int_equal(kiln_str_to_i64(kiln_str_from(row[i].text), &s), row[i].is_i64);
        assert_true(row[i].is_u64 ? u == (uint64_t)row[i].value : u == 77);
        assert_true(row[i].is_i64 ? s == row[i].value : s == 77);
    }
}

static void decimals_are_parsed_whole_and_finite(void **state) {
    (void)state;
    double value = 77;
    assert_true(kiln_str_to_f64(KILN_STR("1.5e-3"), &value) && value == 1.5e-3);
    assert_true(kiln_str_to_f64(KILN_STR("-.5"), &value) && value == -0.5);
    kiln_str inside = kiln_str_slice(KILN_STR("12345"), 1, 3); /* not NUL-terminated */
    assert_true(kiln_str_to_f64(inside, &value) && value == 23);
    static const char *const bad[] = {
        "",     " 1",  "1 ",
        "nan",  "inf", "1e999",
        "0x10", "1,5", "e",
        "--1",  "1-",  "1111111111111111111111111111111111111111111111111111111111111111111"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++)
        assert_false(kiln_str_to_f64(kiln_str_from(bad[i]), &value));
    assert_true(value == 23);
}

static void copies_end_with_nul(void **state) {
    kiln_arena *arena = *state;
    assert_string_equal(kiln_str_dup(arena, kiln_str_slice(KILN_STR("kiln"), 0, 2)), "ki");
    assert_string_equal(kiln_str_dup(arena, (kiln_str){0}), "");
    assert_string_equal(kiln_arena_printf(arena, "%d-%s", 7, "x"), "7-x");
    kiln_str copy = kiln_str_copy(arena, KILN_STR("kiln"));
    expect_str(copy, "kiln");
    assert_int_equal(copy.data[copy.size], 0);
    copy = kiln_str_printf(arena, "%200s|", "right"); /* longer than what is formatted once */
    assert_int_equal(copy.size, 201);
    assert_string_equal(copy.data + 195, "right|");
    kiln_strbuf built = {0};
    kiln_strbuf_text(&built, "built");
    copy = kiln_strbuf_end(&built, arena);
    expect_str(copy, "built");
    assert_int_equal(copy.data[copy.size], 0);
    assert_null(built.data);
}

static void builder_grows_and_stays_terminated(void **state) {
    (void)state;
    kiln_strbuf b = {0};
    expect_str(kiln_strbuf_view(&b), "");
    for (int i = 0; i < 1000; i++) kiln_strbuf_printf(&b, "%d,", i);
    assert_int_equal(b.size, 10 * 2 + 90 * 3 + 900 * 4);
    assert_int_equal(strlen(b.data), b.size);
    kiln_strbuf_reset(&b);
    assert_string_equal(b.data, "");
    kiln_strbuf_text(&b, "a");
    kiln_strbuf_char(&b, 'b');
    kiln_strbuf_str(&b, KILN_STR("c"));
    kiln_strbuf_append(&b, NULL, 0);
    kiln_strbuf_printf(&b, "%100s|", "right");
    assert_int_equal(b.size, 104);
    assert_memory_equal(b.data, "abc ", 4);
    kiln_strbuf_deinit(&b);
    assert_null(b.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_compare_and_slice),
        cmocka_unit_test(cut_splits_at_each_separator),
        cmocka_unit_test(whole_numbers_are_parsed_whole_and_in_range),
        cmocka_unit_test(decimals_are_parsed_whole_and_finite),
        test_with_arena(copies_end_with_nul),
        cmocka_unit_test(builder_grows_and_stays_terminated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
