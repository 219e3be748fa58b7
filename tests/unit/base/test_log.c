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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_below_the_threshold_are_silent),
        cmocka_unit_test(one_call_is_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
