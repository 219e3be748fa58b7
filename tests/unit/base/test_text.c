#include "base/text.h"

#include <string.h>

#include "tests/support/test.h"

static void expect_form(kiln_str given, kiln_text_form form, const char *expected) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_str printable = kiln_text_printable(given, form, 4096, &arena);
    expect_str(printable, expected);
    assert_true(kiln_text_is_printable(printable, form));
    assert_true(kiln_str_equal(given, printable) == kiln_text_is_printable(given, form));
    kiln_arena_deinit(&arena);
}

static void expect_line(kiln_str given, const char *expected) {
    expect_form(given, KILN_TEXT_LINE, expected);
}

static void printable_text_stays_as_it_is(void **state) {
    (void)state;
    static const char *const text[] = {"", "conv2d 64x56x56",
                                       "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "a\\x1b",
                                       "\xed\x9f\xbf \xee\x80\x80"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        kiln_str given = kiln_str_from(text[i]);
        expect_line(given, text[i]);
        assert_ptr_equal(kiln_text_printable(given, KILN_TEXT_LINE, 4096, NULL).data, given.data);
    }
}

static void control_characters_are_escaped(void **state) {
    (void)state;
    expect_line(KILN_STR("\x1b[31mred\x1b[0m\x07\r\n\t\x7f"),
                "\\x1b[31mred\\x1b[0m\\x07\\x0d\\x0a\\x09\\x7f");
    expect_line(KILN_STR("a\0b"), "a\\x00b");
    expect_line(KILN_STR("\xc2\x9b"
                         "31m \xc2\x80\xc2\x9f"),
                "\\u{9b}31m \\u{80}\\u{9f}"); /* C1 */
}

static void text_that_hides_or_turns_is_escaped(void **state) {
    (void)state;
    expect_line(KILN_STR("\xe2\x80\xaegnp.exe\xe2\x81\xa6"), "\\u{202e}gnp.exe\\u{2066}");
    expect_line(KILN_STR("\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f"), "\\u{61c}\\u{200e}\\u{200f}");
    expect_line(KILN_STR("a\xe2\x80\x8b\xe2\x80\x8d\xef\xbb\xbf\xc2\xad"),
                "a\\u{200b}\\u{200d}\\u{feff}\\u{ad}");
    expect_line(KILN_STR("\xe2\x80\xa8\xe2\x80\xa9\xc2\x85"), "\\u{2028}\\u{2029}\\u{85}");
    expect_line(KILN_STR("\xf3\xa0\x80\x81\xef\xbf\xbe"), "\\u{e0001}\\u{fffe}");
}

static void bytes_that_are_no_utf8_are_escaped(void **state) {
    (void)state;
    expect_line(KILN_STR("\xff\x80"), "\\xff\\x80");
    expect_line(KILN_STR("\xc3"), "\\xc3");
    expect_line(KILN_STR("\xc3("), "\\xc3(");
    expect_line(KILN_STR("\xc0\xaf"), "\\xc0\\xaf");          /* longer than need be */
    expect_line(KILN_STR("\xe0\x9f\xbf"), "\\xe0\\x9f\\xbf"); /* the same */
    expect_line(KILN_STR("\xf0\x8f\xbf\xbf"), "\\xf0\\x8f\\xbf\\xbf");
    expect_line(KILN_STR("\xed\xa0\x80"), "\\xed\\xa0\\x80");          /* half of a pair */
    expect_line(KILN_STR("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80"); /* past the last one */
    expect_line(KILN_STR("\xe2\x82"), "\\xe2\\x82");
}

static void prose_keeps_lines_that_are_indented(void **state) {
    (void)state;
    expect_form(KILN_STR("two findings:\n  one\n  two\n"), KILN_TEXT_PROSE,
                "two findings:\n  one\n  two\\x0a");
    expect_form(KILN_STR("fine\nkiln tune: all is well"), KILN_TEXT_PROSE,
                "fine\\x0akiln tune: all is well");
    expect_form(KILN_STR("a\n \x1b[2Kb"), KILN_TEXT_PROSE, "a\\x0a \\x1b[2Kb");
    expect_form(KILN_STR("a\n\tb\r\n"), KILN_TEXT_PAGE, "a\n\tb\\x0d\n");
}

static void long_text_is_cut_after_a_whole_character(void **state) {
    (void)state;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    char text[100], out[33];
    memset(text, '\x1b', sizeof text);
    for (size_t max = 16; max <= 40; max++) {
        kiln_str cut =
            kiln_text_printable((kiln_str){text, sizeof text}, KILN_TEXT_LINE, max, &arena);
        assert_true(cut.size <= max && cut.size + 4 > max && cut.size % 4 == 3);
        assert_true(kiln_str_ends(cut, "\\x1b..."));
    }
    size_t size = kiln_text_write((kiln_str){text, sizeof text}, KILN_TEXT_LINE, out, sizeof out);
    assert_int_equal(size, 31);
    assert_string_equal(out, "\\x1b\\x1b\\x1b\\x1b\\x1b\\x1b\\x1b...");
    size = kiln_text_write((kiln_str){text, 8}, KILN_TEXT_LINE, out, sizeof out); /* just fits */
    assert_int_equal(size, 32);
    assert_true(kiln_str_ends(kiln_str_from(out), "\\x1b"));
    expect_str(kiln_text_printable(KILN_STR("0123456789abcdef"), KILN_TEXT_LINE, 16, &arena),
               "0123456789abcdef");
    expect_str(kiln_text_printable(KILN_STR("0123456789abcdefg"), KILN_TEXT_LINE, 16, &arena),
               "0123456789abc...");
    kiln_arena_deinit(&arena);
}

static void names_are_one_printable_line(void **state) {
    (void)state;
    static const char *const good[] = {"", "digits.onnx", "nightly run 7", "\xc3\xa9t\xc3\xa9"},
                             *const bad[] = {"a\nb",
                                             "a\tb",
                                             "\x1b[2J",
                                             "\x7f",
                                             "\xc2\x9b",
                                             "\xe2\x80\xae"
                                             "abc",
                                             "\xff",
                                             "\r"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(good); i++)
        expect_ok(kiln_text_check_line(kiln_str_from(good[i]), "name"));
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++)
        expect_error_at(kiln_text_check_line(kiln_str_from(bad[i]), "name"), KILN_INVALID_ARGUMENT,
                        "one line of plain text", bad[i], (int)i);
    expect_error(kiln_text_check_line(KILN_STR("a\nb"), "the job's name"), INVALID_ARGUMENT,
                 "the job's name \"a\\x0ab\" has line ends");
    expect_error(kiln_text_check_line(KILN_STR("a\0b"), "name"), INVALID_ARGUMENT, "\\x00");
}

static void json_is_escaped_once_more(void **state) {
    (void)state;
    kiln_strbuf out = {0};
    kiln_text_append_json(&out, KILN_STR("a\"b\\c\x1b\n  d\ne"));
    assert_string_equal(out.data, "a\\\"b\\\\c\\\\x1b\\u000a  d\\\\x0ae");
    kiln_strbuf_deinit(&out);
}

/* Whatever the bytes: what comes out is UTF-8 without a character that is not shown. */
static void every_character_comes_out_printable(void **state) {
    (void)state;
    for (uint32_t character = 0x80; character <= 0x10ffff; character++) {
        char utf8[4], piece[KILN_TEXT_PIECE_MAX];
        size_t size = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
        static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
        for (size_t i = size; i-- > 1;)
            utf8[i] = (char)(0x80 | (character >> 6 * (size - 1 - i) & 0x3f));
        utf8[0] = (char)(first[size] | character >> 6 * (size - 1));
        kiln_str rest = {utf8, size};
        bool is_none = character >= 0xd800 && character < 0xe000;
        uint32_t read = 0;
        assert_int_equal(kiln_text_character(rest, &read), is_none ? 0 : size);
        assert_true(is_none || read == character);
        size_t written = kiln_text_step(&rest, KILN_TEXT_LINE, piece);
        assert_true(written <= KILN_TEXT_PIECE_MAX && rest.size == (is_none ? size - 1 : 0));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(printable_text_stays_as_it_is),
        cmocka_unit_test(control_characters_are_escaped),
        cmocka_unit_test(text_that_hides_or_turns_is_escaped),
        cmocka_unit_test(bytes_that_are_no_utf8_are_escaped),
        cmocka_unit_test(prose_keeps_lines_that_are_indented),
        cmocka_unit_test(long_text_is_cut_after_a_whole_character),
        cmocka_unit_test(names_are_one_printable_line),
        cmocka_unit_test(json_is_escaped_once_more),
        cmocka_unit_test(every_character_comes_out_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
