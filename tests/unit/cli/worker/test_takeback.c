/* Which variants of a tuned module are tried, and what is taken back in the end. */
#include "cli/worker/takeback.h"

#include "tests/support/test.h"

#define WHOLE_NS 1000.0

static const kiln_str task[] = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}};

/* Each group is a task, by default 100 ns. */
static void see(kiln_takeback *t, const double *tuned_ns, uint32_t count) {
    kiln_takeback_group group[4];
    for (uint32_t i = 0; i < count; i++)
        group[i] = (kiln_takeback_group){&task[i], 1, 100, tuned_ns[i]};
    kiln_takeback_see(t, group, count, WHOLE_NS);
}

static void expect_variant(kiln_takeback *t, const char *lines) {
    kiln_strbuf text = {0};
    assert_true(kiln_takeback_next(t));
    kiln_takeback_print(t, &text);
    assert_string_equal(text.data, lines);
    kiln_strbuf_deinit(&text);
}

static kiln_takeback seen(kiln_arena *arena, const double *tuned_ns, uint32_t count) {
    kiln_takeback t;
    kiln_takeback_init(&t, arena);
    see(&t, tuned_ns, count);
    return t;
}

static void what_is_as_fast_stays(void **state) {
    kiln_takeback t = seen(*state, (double[]){60, 100, 101.9}, 3);
    assert_false(kiln_takeback_next(&t));
    assert_int_equal(t.variants, 0);
}

static void all_that_loses_goes_at_once(void **state) {
    kiln_takeback t = seen(*state, (double[]){60, 130, 160}, 3);
    expect_variant(&t, "c\nb\n");
    kiln_takeback_judge(&t, true);
    see(&t, (double[]){60, 100, 100}, 3);
    assert_false(kiln_takeback_next(&t));
    assert_int_equal(t.taken.count, 2);
    assert_int_equal(t.variants, 1);
}

static void then_one_after_the_other_on_top_of_what_was_a_gain(void **state) {
    kiln_takeback t = seen(*state, (double[]){120, 130, 160}, 3);
    expect_variant(&t, "c\nb\na\n");
    kiln_takeback_judge(&t, false);
    expect_variant(&t, "c\n");
    kiln_takeback_judge(&t, false);
    expect_variant(&t, "b\n");
    kiln_takeback_judge(&t, true);
    see(&t, (double[]){120, 100, 160}, 3); /* c was no gain and is not tried again */
    expect_variant(&t, "b\na\n");
    kiln_takeback_judge(&t, false);
    assert_false(kiln_takeback_next(&t));
    assert_int_equal(t.taken.count, 1);
    assert_true(kiln_str_is(t.taken.data[0].task[0], "b"));
}

/* A kernel that loses only beside others shows after they were taken back. */
static void what_loses_later_is_tried_later(void **state) {
    kiln_takeback t = seen(*state, (double[]){160, 90}, 2);
    expect_variant(&t, "a\n");
    kiln_takeback_judge(&t, true);
    see(&t, (double[]){100, 120}, 2);
    expect_variant(&t, "a\nb\n");
}

static void tied_tasks_go_together(void **state) {
    kiln_takeback t;
    kiln_takeback_init(&t, *state);
    const kiln_takeback_group group[] = {{&task[0], 3, 100, 150}, {&task[3], 1, 100, 100}};
    kiln_takeback_see(&t, group, 2, WHOLE_NS);
    expect_variant(&t, "a\nb\nc\n");
    kiln_takeback_judge(&t, false);
    kiln_takeback_see(&t, group, 2, WHOLE_NS);
    assert_false(kiln_takeback_next(&t));
}

static void losses_too_small_for_the_whole_are_left(void **state) {
    kiln_takeback t;
    kiln_takeback_init(&t, *state);
    kiln_takeback_see(&t, &(kiln_takeback_group){&task[0], 1, 1, 2.9}, 1, WHOLE_NS);
    assert_false(kiln_takeback_next(&t));
    kiln_takeback_see(&t, &(kiln_takeback_group){&task[0], 1, 1, 3.1}, 1, WHOLE_NS);
    assert_true(kiln_takeback_next(&t));
}

static void variants_are_bounded(void **state) {
    kiln_takeback t;
    kiln_takeback_init(&t, *state);
    for (uint32_t i = 0; i < KILN_TAKEBACK_VARIANTS_MAX; i++) {
        see(&t, (double[]){160, 160, 160, 160}, 4);
        assert_true(kiln_takeback_next(&t));
        kiln_takeback_judge(&t, true);
    }
    see(&t, (double[]){160, 160, 160, 160}, 4);
    assert_false(kiln_takeback_next(&t));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(what_is_as_fast_stays),
        test_with_arena(all_that_loses_goes_at_once),
        test_with_arena(then_one_after_the_other_on_top_of_what_was_a_gain),
        test_with_arena(what_loses_later_is_tried_later),
        test_with_arena(tied_tasks_go_together),
        test_with_arena(losses_too_small_for_the_whole_are_left),
        test_with_arena(variants_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
