/* Figures: text stays text, values land where they should, ticks are round. */
#include "cli/svg.h"

#include <math.h>

#include "tests/support/test.h"

static void expect_text(kiln_str given, const char *expected) {
    kiln_strbuf text = {0};
    kiln_xml_text(given, &text);
    assert_string_equal(text.data, expected);
    kiln_strbuf_deinit(&text);
}

static void special_characters_become_entities(void **state) {
    (void)state;
    expect_text(KILN_STR("<a href=\"x\">'&'</a>"),
                "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
    expect_text(KILN_STR("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\n"),
                "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\n");
}

static void what_is_not_shown_is_escaped(void **state) {
    (void)state;
    expect_text(KILN_STR("a\x01z\x1b\x7f"), "a\\x01z\\x1b\\x7f");
    expect_text(KILN_STR("\xff<\xe2\x80\xae"), "\\xff&lt;\\u{202e}");
}

static void values_land_between_the_ends(void **state) {
    (void)state;
    const kiln_axis line = {0, 10, 100, 200, false}, log_axis = {1, 100, 300, 100, true};
    assert_true(kiln_axis_place(&line, 0) == 100 && kiln_axis_place(&line, 10) == 200);
    assert_true(kiln_axis_place(&line, 2.5) == 125);
    assert_true(fabs(kiln_axis_place(&log_axis, 10) - 200) < 1e-9);
}

static void ticks_are_round_and_few(void **state) {
    (void)state;
    double tick[10];
    const kiln_axis a = {0, 97, 0, 1, false}, b = {1, 64, 0, 1, false}, c = {0.1, 2000, 0, 1, true};
    assert_int_equal(kiln_axis_ticks(&a, 5, tick), 5);
    for (int i = 0; i < 5; i++) assert_true(tick[i] == 20.0 * i && !signbit(tick[i]));
    uint32_t count = kiln_axis_ticks(&b, 6, tick);
    assert_true(count >= 3 && count <= 6 && tick[0] == 20);
    count = kiln_axis_ticks(&c, 5, tick);
    assert_int_equal(count, 5);
    assert_true(fabs(tick[0] - 0.1) < 1e-12 && fabs(tick[4] - 1000) < 1e-9);
    const kiln_axis wide = {1e-12, 1e12, 0, 1, true};
    assert_true(kiln_axis_ticks(&wide, 5, tick) <= 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_characters_become_entities),
        cmocka_unit_test(what_is_not_shown_is_escaped),
        cmocka_unit_test(values_land_between_the_ends),
        cmocka_unit_test(ticks_are_round_and_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
