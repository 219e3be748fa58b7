#include "base/status.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/support/test.h"

static void success_is_null_and_says_ok(void **state) {
    (void)state;
    kiln_status st = KILN_OK;
    int line = 7;
    assert_null(st);
    assert_int_equal(kiln_status_code(st), KILN_OK);
    assert_string_equal(kiln_status_text(st), "ok");
    assert_string_equal(kiln_status_origin(st, &line), "");
    assert_int_equal(line, 0);
    assert_null(kiln_status_note(st, "unused"));
    kiln_status_free(st);
}

static void notes_stand_before_the_message(void **state) {
    (void)state;
    int line = 0;
    kiln_status st = KILN_ERROR(NOT_FOUND, "no file %d", 3);
    st = kiln_status_note(st, "reading %s", "x");
    st = kiln_status_note(st, "starting");
    assert_int_equal(kiln_status_code(st), KILN_NOT_FOUND);
    assert_string_equal(kiln_status_text(st), "starting: reading x: no file 3");
    expect_contains(kiln_status_origin(st, &line), "test_status.c");
    assert_true(line > 0);
    kiln_status_free(st);
}

static void text_is_bounded(void **state) {
    (void)state;
    static char large[10000];
    memset(large, 'x', sizeof large - 1);
    kiln_status st = KILN_ERROR(INTERNAL, "%s", large);
    assert_in_range(strlen(kiln_status_text(st)), 4000, 4096);
    for (int i = 0; i < 100; i++) st = kiln_status_note(st, "%s", large);
    assert_in_range(strlen(kiln_status_text(st)), 4096, 16384);
    kiln_status_free(st);
}

static void an_error_needs_no_memory(void **state) {
    (void)state;
    for (uint64_t nth = 1; nth <= 2; nth++) {
        kiln_alloc_fail_nth(nth);
        kiln_status st = KILN_ERROR(NOT_FOUND, "no file");
        expect_error(kiln_status_note(st, "reading"), RESOURCE_EXHAUSTED, "out of memory");
    }
    kiln_alloc_fail_nth(3);
    expect_error(kiln_status_note(KILN_ERROR(NOT_FOUND, "no file"), "reading"), NOT_FOUND,
                 "no file");
    kiln_alloc_fail_nth(0);
}

static void every_code_has_a_unique_number_name_and_meaning(void **state) {
    (void)state;
    unsigned count = 0;
    for (unsigned number = 0; number < 1000; number++) {
        kiln_code code, found;
        if (!kiln_code_from_wire(number, &code)) continue;
        count++;
        assert_int_equal(code, number);
        assert_true(kiln_code_find(kiln_code_name(code), &found));
        assert_int_equal(found, code);
        assert_true(strlen(kiln_code_meaning(code)) > 5);
        assert_in_range(kiln_code_exit(code), 0, 125);
        assert_int_equal(kiln_code_exit(code) == 0, code == KILN_OK);
    }
    unsigned rows = 0;
#define X(name, number, exit_code, meaning) rows++;
#include "base/status.def"
#undef X
    assert_int_equal(count, rows);
}

static void unknown_codes_are_refused(void **state) {
    (void)state;
    kiln_code code = KILN_OK;
    assert_false(kiln_code_from_wire(999, &code));
    assert_false(kiln_code_find("NOT FOUND", &code));
    assert_false(kiln_code_find("", &code));
    assert_string_equal(kiln_code_name((kiln_code)999), "UNKNOWN");
    assert_int_equal(kiln_code_exit((kiln_code)999), 1);
}

static void errno_becomes_the_code_that_fits(void **state) {
    (void)state;
    assert_int_equal(kiln_code_from_errno(ENOENT), KILN_NOT_FOUND);
    assert_int_equal(kiln_code_from_errno(EACCES), KILN_PERMISSION_DENIED);
    assert_int_equal(kiln_code_from_errno(ENOSPC), KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(kiln_code_from_errno(EADDRINUSE), KILN_ALREADY_EXISTS);
    assert_int_equal(kiln_code_from_errno(EIO), KILN_DATA_LOSS);
    assert_int_equal(kiln_code_from_errno(ECONNREFUSED), KILN_UNAVAILABLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(success_is_null_and_says_ok),
        cmocka_unit_test(notes_stand_before_the_message),
        cmocka_unit_test(text_is_bounded),
        cmocka_unit_test(an_error_needs_no_memory),
        cmocka_unit_test(every_code_has_a_unique_number_name_and_meaning),
        cmocka_unit_test(unknown_codes_are_refused),
        cmocka_unit_test(errno_becomes_the_code_that_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
