#include "base/trace.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/file.h"
#include "tests/support/test.h"

/* Last to first: once open, a trace stays open until it is closed. */
static void nothing_happens_without_a_file(void **state) {
    (void)state;
    assert_false(kiln_trace_is_on());
    kiln_trace_event(KILN_TRACE_BEGIN, KILN_TRACE_JOB, KILN_STR("j"), 1, NULL, 0);
    kiln_trace_clock(KILN_STR("b"), 1, 2);
    kiln_trace_close();
    expect_error(kiln_trace_open("/nowhere/t.json", "tester", 0), NOT_FOUND, "/nowhere/t.json");
    assert_false(kiln_trace_is_on());
}

static void events_are_lines_of_chromes_format(void **state) {
    (void)state;
    kiln_arena arena;
    kiln_str text;
    kiln_arena_init(&arena, 0);
    char *folder = make_folder(&arena);
    const char *path = kiln_arena_printf(&arena, "%s/t.json", folder);
    const kiln_log_field field[] = {{"job", {"a \"b\"\n", 6}}, {"text", {"", 0}}};
    expect_ok(kiln_trace_open(path, "tester", 0));
    assert_true(kiln_trace_is_on());
    kiln_trace_clock(KILN_STR("boot"), 5000, 4000);
    kiln_trace_event(KILN_TRACE_BEGIN, KILN_TRACE_LEASE, KILN_STR("7"), 1234567, field, 2);
    kiln_trace_event(KILN_TRACE_END, KILN_TRACE_LEASE, KILN_STR("7"), 2234567, NULL, 0);
    kiln_trace_close();
    expect_ok(kiln_file_read(path, 65536, &arena, &text));
    const char *whole = kiln_str_dup(&arena, text);
    assert_true(kiln_str_starts(text, "[\n{\"ph\":\"M\",\"name\":\"process_name\""));
    assert_true(kiln_str_ends(text, "}},\n{}]\n"));
    expect_contains(whole, "\"boot\":\"boot\",\"their_ns\":5000,\"own_ns\":4000");
    expect_contains(whole, "{\"ph\":\"b\",\"cat\":\"lease\",\"name\":\"lease\",\"id\":\"7\"");
    expect_contains(whole, "\"ts\":1234.567,\"args\":{\"job\":\"a \\\"b\\\"\\\\x0a\"}},\n");
    expect_contains(whole, "{\"ph\":\"e\"");
    remove_folder(folder);
    kiln_arena_deinit(&arena);
}

/* A full disk loses what was to be written then, and stops nothing. */
static void a_trace_that_cannot_be_written_stops_nobody(void **state) {
    (void)state;
    kiln_arena arena;
    kiln_str text;
    kiln_arena_init(&arena, 0);
    char *folder = make_folder(&arena);
    const char *path = kiln_arena_printf(&arena, "%s/t.json", folder);
    kiln_fail_io_nth(1);
    expect_error(kiln_trace_open(path, "tester", 0), RESOURCE_EXHAUSTED, path);
    assert_false(kiln_trace_is_on());
    for (uint64_t nth = 2; nth <= 3; nth++) {
        kiln_fail_io_nth(nth);
        expect_ok(kiln_trace_open(path, "tester", 0));
        kiln_trace_event(KILN_TRACE_END, KILN_TRACE_LEASE, KILN_STR("7"), 2234567, NULL, 0);
        kiln_trace_close();
        kiln_fail_io_nth(0);
        expect_ok(kiln_file_read(path, 65536, &arena, &text));
        bool began = kiln_str_starts(text, "[\n{"), ended = kiln_str_ends(text, "{}]\n");
        assert_true(began == (nth == 3) && ended == (nth == 2));
    }
    remove_folder(folder);
    kiln_arena_deinit(&arena);
}

static void a_trace_keeps_the_newest_events_in_two_whole_files(void **state) {
    (void)state;
    kiln_arena arena;
    kiln_str text;
    kiln_arena_init(&arena, 0);
    char *folder = make_folder(&arena);
    const char *path = kiln_arena_printf(&arena, "%s/t.json", folder);
    const uint64_t most = 200000;
    expect_ok(kiln_trace_open(path, "tester", most));
    kiln_trace_clock(KILN_STR("boot"), 5000, 4000);
    for (uint64_t i = 0; i < 10000; i++) {
        char id[24];
        snprintf(id, sizeof id, "event-%llu", (unsigned long long)i);
        kiln_trace_event(KILN_TRACE_MARK, KILN_TRACE_LEASE, kiln_str_from(id), i * 1000, NULL, 0);
    }
    kiln_trace_close();
    const char *files[] = {kiln_arena_printf(&arena, "%s.1", path), path};
    size_t bytes = 0;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(files); i++) {
        expect_ok(kiln_file_read(files[i], 1 << 20, &arena, &text));
        assert_true(kiln_str_starts(text, "[\n{\"ph\":\"M\",\"name\":\"process_name\""));
        assert_true(kiln_str_ends(text, "{}]\n"));
        expect_contains(text.data, "\"boot\":\"boot\",\"their_ns\":5000");
        bytes += text.size;
    }
    expect_contains(text.data, "\"event-9999\"");
    assert_true(bytes <= most + 2 * 17000); /* a piece is written whole */
    assert_false(kiln_file_exists(kiln_arena_printf(&arena, "%s.2", path)));
    remove_folder(folder);
    kiln_arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_happens_without_a_file),
        cmocka_unit_test(events_are_lines_of_chromes_format),
        cmocka_unit_test(a_trace_keeps_the_newest_events_in_two_whole_files),
        cmocka_unit_test(a_trace_that_cannot_be_written_stops_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
