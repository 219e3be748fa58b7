#include "base/log.h"

#include <string.h>
#include <unistd.h>

#include "tests/support/test.h"

/* What `speak` writes to stderr. */
static size_t heard(void (*speak)(void), char *out, size_t size) {
    int ends[2], before = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    speak();
    dup2(before, STDERR_FILENO);
    close(before);
    close(ends[1]);
    ssize_t got = read(ends[0], out, size - 1);
    close(ends[0]);
    assert_true(got >= 0);
    out[got] = '\0';
    return (size_t)got;
}

static void speak_at_each_level(void) {
    kiln_log_init("tester", KILN_LOG_INFO);
    kiln_log(KILN_LOG_DEBUG, "hidden");
    kiln_log(KILN_LOG_INFO, "shown key=%d", 7);
}

static void speak_two_lines(void) { kiln_log(KILN_LOG_ERROR, "one\nerror forged"); }

static void speak_too_much(void) { kiln_log(KILN_LOG_ERROR, "%5000d", 1); }

static void levels_below_the_threshold_are_silent(void **state) {
    (void)state;
    char text[4096];
    heard(speak_at_each_level, text, sizeof text);
    assert_null(strstr(text, "hidden"));
    expect_contains(text, "info ");
    expect_contains(text, " tester shown key=7\n");
}

static void one_call_is_one_line(void **state) {
    (void)state;
    char text[4096];
    size_t size = heard(speak_two_lines, text, sizeof text);
    expect_contains(text, "one error forged\n");
    assert_ptr_equal(strchr(text, '\n'), text + size - 1);
    size = heard(speak_too_much, text, sizeof text);
    assert_in_range(size, 100, 2048);
    assert_ptr_equal(strchr(text, '\n'), text + size - 1);
}

static const kiln_log_field fields[] = {
    {"job", {"j-1", 3}}, {"trial", {"", 0}}, {"text", {"two \"words\"\n", 12}}};

static void speak_fields(void) { kiln_log_event(KILN_LOG_INFO, "lease granted", fields, 3); }

static void speak_long_fields(void) {
    static char x[4000];
    memset(x, '"', sizeof x);
    kiln_log_field many[] = {{"text", {x, sizeof x}}, {"job", {"j", 1}}};
    kiln_log_event(KILN_LOG_INFO, "much", many, 2);
}

static void take_line(void *context, kiln_str line) { *(kiln_str *)context = line; }

static void each_line_goes_to_the_tap_as_well(void **state) {
    (void)state;
    static char kept[4096]; /* what the tap is given lasts for the call only */
    kiln_str line = {0};
    kiln_log_tap(take_line, &line);
    heard(speak_at_each_level, kept, sizeof kept);
    assert_int_equal(line.size + 1, strlen(kept)); /* without the end of the line */
    kiln_log_tap(NULL, NULL);
    line.size = 0;
    heard(speak_at_each_level, kept, sizeof kept);
    assert_int_equal(line.size, 0);
}

static void an_event_has_fields(void **state) {
    (void)state;
    char text[4096];
    kiln_log_init("tester", KILN_LOG_INFO);
    heard(speak_fields, text, sizeof text);
    expect_contains(text, " tester lease granted job=j-1 text=\"two \\\"words\\\"\\u000a\"\n");
}

/* Last: there is no way back. */
static void lines_are_objects_when_asked(void **state) {
    (void)state;
    char text[4096];
    kiln_log_as_json();
    heard(speak_fields, text, sizeof text);
    expect_contains(text, "\"program\":\"tester\",\"message\":\"lease granted\",\"job\":\"j-1\",");
    expect_contains(text, "\"text\":\"two \\\"words\\\"\\u000a\"}\n");
    heard(speak_two_lines, text, sizeof text);
    expect_contains(text, "\"message\":\"one\\u000aerror forged\"}\n");
    size_t size = heard(speak_too_much, text, sizeof text);
    assert_true(size <= 2048 && strcmp(text + size - 3, "\"}\n") == 0);
    size = heard(speak_long_fields, text, sizeof text);
    assert_true(size <= 2048 && strcmp(text + size - 3, "\"}\n") == 0);
    assert_true(text[size - 4] == '"' && text[size - 5] == '\\'); /* no half escape */
}

static void what_is_tried_again_is_loud_once_per_reason(void **state) {
    uint32_t said = 0;
    assert_int_equal(kiln_log_level_of(&said, KILN_UNAVAILABLE), KILN_LOG_WARN);
    assert_int_equal(kiln_log_level_of(&said, KILN_UNAVAILABLE), KILN_LOG_DEBUG);
    assert_int_equal(kiln_log_level_of(&said, KILN_UNAUTHENTICATED), KILN_LOG_WARN);
    assert_int_equal(kiln_log_level_of(&said, KILN_UNAVAILABLE), KILN_LOG_DEBUG);
    said = 0; /* all was well meanwhile */
    assert_int_equal(kiln_log_level_of(&said, KILN_UNAVAILABLE), KILN_LOG_WARN);
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_below_the_threshold_are_silent),
        cmocka_unit_test(one_call_is_one_line),
        cmocka_unit_test(each_line_goes_to_the_tap_as_well),
        cmocka_unit_test(an_event_has_fields),
        cmocka_unit_test(lines_are_objects_when_asked),
        cmocka_unit_test(what_is_tried_again_is_loud_once_per_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
