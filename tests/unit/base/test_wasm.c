#include "base/wasm.h"

#include <string.h>

#include "tests/support/test.h"

static kiln_wasm_reader reader_of(const char *bytes, size_t size) {
    return (kiln_wasm_reader){.rest = {bytes, size}};
}

static void numbers_come_back_as_they_were_written(void **state) {
    (void)state;
    static const uint32_t number[] = {0, 1, 127, 128, 16383, 16384, 1u << 28, UINT32_MAX};
    kiln_strbuf text = {0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(number); i++) kiln_wasm_write_u32(&text, number[i]);
    kiln_wasm_reader r = {.rest = kiln_strbuf_view(&text)};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(number); i++)
        assert_int_equal(kiln_wasm_read_u32(&r), number[i]);
    assert_int_equal(r.rest.size, 0);
    assert_false(r.bad);
    kiln_strbuf_deinit(&text);
}

static void what_does_not_fit_is_bad_and_stays_so(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
    } number[] = {{"", 0}, {"\x80", 1}, {"\xff\xff\xff\xff\x1f", 5}, {"\x80\x80\x80\x80\x80\0", 6}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(number); i++) {
        kiln_wasm_reader r = reader_of(number[i].bytes, number[i].size);
        assert_int_equal(kiln_wasm_read_u32(&r), 0);
        assert_true(r.bad);
        assert_int_equal(kiln_wasm_read_byte(&r), 0);
    }
    kiln_wasm_reader r = reader_of("\x03"
                                   "ab",
                                   3);
    assert_int_equal(kiln_wasm_read_bytes(&r).size, 0);
    assert_true(r.bad);
}

static void sections_end_with_the_file_or_with_a_bad_one(void **state) {
    (void)state;
    kiln_strbuf file = {0};
    kiln_strbuf_str(&file, KILN_STR(KILN_WASM_HEAD));
    kiln_wasm_write_section(&file, KILN_WASM_CODE, KILN_STR("code"));
    kiln_wasm_write_section(&file, KILN_WASM_CUSTOM, KILN_STR(""));
    uint8_t id = 0;
    kiln_str content;
    kiln_wasm_reader r = kiln_wasm_open(kiln_strbuf_view(&file));
    assert_true(kiln_wasm_read_section(&r, &id, &content));
    assert_int_equal(id, KILN_WASM_CODE);
    assert_true(kiln_str_is(content, "code"));
    assert_true(kiln_wasm_read_section(&r, &id, &content));
    assert_int_equal(id, KILN_WASM_CUSTOM);
    assert_false(kiln_wasm_read_section(&r, &id, &content));
    assert_false(r.bad);
    for (size_t size = 0; size < file.size; size++) { /* cut short anywhere but behind a section */
        r = kiln_wasm_open((kiln_str){file.data, size});
        while (kiln_wasm_read_section(&r, &id, &content)) {}
        assert_int_equal(r.bad, size != 8 && size != 14);
    }
    kiln_strbuf_deinit(&file);
    r = kiln_wasm_open(KILN_STR("\177ELF\2\1\1\0"));
    assert_true(r.bad);
}

static void custom_sections_are_found_by_name(void **state) {
    (void)state;
    /* A type section of one byte, then two custom ones: "a" with "xy", "b" with "z". */
    static const char file[] = "\0asm\1\0\0\0\1\1\0\0\4\1axy\0\3\1bz";
    const kiln_str whole = {file, sizeof file - 1};
    kiln_str content = {0};
    assert_true(kiln_wasm_find_custom(whole, "b", &content));
    expect_str(content, "z");
    assert_true(kiln_wasm_find_custom(whole, "a", &content));
    expect_str(content, "xy");
    assert_false(kiln_wasm_find_custom(whole, "c", &content));
    assert_false(kiln_wasm_find_custom((kiln_str){file, whole.size - 1}, "b", &content));
}

static void imports_are_read_with_their_types(void **state) {
    (void)state;
    static const struct {
        uint8_t kind;
        const char *limits;
        size_t size;
    } import[] = {{KILN_WASM_OF_FUNCTION, "\x05", 1},
                  {KILN_WASM_OF_TABLE, "\x70\x00\x02", 3},
                  {KILN_WASM_OF_MEMORY, "\x03\x00\x80\x80\x04", 5},
                  {KILN_WASM_OF_GLOBAL, "\x7f\x01", 2}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(import); i++) {
        kiln_strbuf text = {0};
        kiln_wasm_write_bytes(&text, KILN_STR("env"));
        kiln_wasm_write_bytes(&text, KILN_STR("name"));
        kiln_strbuf_char(&text, (char)import[i].kind);
        kiln_strbuf_append(&text, import[i].limits, import[i].size);
        kiln_wasm_reader r = {.rest = kiln_strbuf_view(&text)};
        kiln_wasm_import got = kiln_wasm_read_import(&r);
        assert_false(r.bad);
        assert_int_equal(got.kind, import[i].kind);
        assert_true(kiln_str_is(got.module, "env") && kiln_str_is(got.name, "name"));
        assert_int_equal(got.limits.size, import[i].size);
        for (size_t size = 0; size < text.size; size++) {
            r = (kiln_wasm_reader){.rest = {text.data, size}};
            (void)kiln_wasm_read_import(&r);
            assert_true(r.bad);
        }
        kiln_strbuf_deinit(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_come_back_as_they_were_written),
        cmocka_unit_test(what_does_not_fit_is_bad_and_stays_so),
        cmocka_unit_test(sections_end_with_the_file_or_with_a_bad_one),
        cmocka_unit_test(custom_sections_are_found_by_name),
        cmocka_unit_test(imports_are_read_with_their_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
