/* The best so far over the trials, and its one line of text. */
#include "cli/curve.h"

#include "tests/support/test.h"

static kiln_curve curve_of(kiln_arena *arena, const double *best_ns, uint32_t count) {
    kiln_curve curve = {0};
    for (uint32_t i = 0; i < count; i++) kiln_curve_add(&curve, arena, i + 1, best_ns[i]);
    return curve;
}

static void expect_line(const kiln_curve *curve, double base_ns, uint32_t planned, uint32_t width,
                        const char *expected) {
    kiln_strbuf text = {0};
    kiln_curve_draw(curve, base_ns, planned, width, true, &text);
    assert_string_equal(text.data, expected);
    kiln_strbuf_deinit(&text);
}

static void the_best_never_gets_slower(void **state) {
    const double best_ns[] = {0, 400, 500, 300, 300, 200};
    kiln_curve curve = curve_of(*state, best_ns, 6);
    assert_int_equal(curve.trial_count, 6);
    assert_int_equal(curve.point.count, 3);
    const double expected[] = {0, 0, 400, 400, 300, 300, 200, 200};
    for (uint32_t i = 0; i < 8; i++) assert_true(kiln_curve_at(&curve, i) == expected[i]);
}

static void late_news_change_nothing(void **state) {
    kiln_curve curve = {0};
    kiln_curve_add(&curve, *state, 5, 100);
    kiln_curve_add(&curve, *state, 3, 90);
    assert_int_equal(curve.trial_count, 5);
    assert_true(kiln_curve_at(&curve, 5) == 100);
    kiln_curve_add(&curve, *state, 5, 80);
    assert_int_equal(curve.point.count, 1);
    assert_true(kiln_curve_at(&curve, 5) == 80);
}

static void higher_is_faster_and_the_future_is_dots(void **state) {
    const double best_ns[] = {400, 200, 200, 100};
    kiln_curve curve = curve_of(*state, best_ns, 4);
    expect_line(&curve, 0, 8, 8, "▁▃▃█····");
    expect_line(&curve, 0, 0, 4, "▁▃▃█");   /* no plan: what was made fills the width */
    expect_line(&curve, 0, 4, 2, "▃█");     /* several trials a character */
    expect_line(&curve, 800, 4, 4, "▂▄▄█"); /* measured against a slower default */
}

static void one_trial_or_none_is_a_line_too(void **state) {
    kiln_curve curve = {0};
    expect_line(&curve, 0, 4, 4, "····");
    expect_line(&curve, 0, 0, 2, "··");
    kiln_curve_add(&curve, *state, 1, 0); /* it failed */
    expect_line(&curve, 0, 2, 4, "  ··");
    kiln_curve_add(&curve, *state, 2, 7);
    expect_line(&curve, 0, 1, 3, " ▁▁");
}

static void terminals_without_utf8_get_ascii(void **state) {
    const double best_ns[] = {400, 100};
    kiln_curve curve = curve_of(*state, best_ns, 2);
    kiln_strbuf text = {0};
    kiln_curve_draw(&curve, 0, 4, 4, false, &text);
    assert_string_equal(text.data, "_^  ");
    kiln_strbuf_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(the_best_never_gets_slower),
        test_with_arena(late_news_change_nothing),
        test_with_arena(higher_is_faster_and_the_future_is_dots),
        test_with_arena(one_trial_or_none_is_a_line_too),
        test_with_arena(terminals_without_utf8_get_ascii),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
