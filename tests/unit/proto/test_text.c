/* Every text field of every message, filled with what a terminal, a log or a page must not get,
 * through each edge that prints messages: the copy that programs for people take in, JSON, log
 * lines in both forms, traces, statuses. */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "base/trace.h"
#include "tests/support/test.h"
#include "tests/unit/proto/sample.h"

/* An escape sequence, C1, a bidi override, a zero-width space, a line separator, a tag, bytes that
 * are no UTF-8, and a forged line. */
static const char bad[] =
    "\x1b[2J\xc2\x9b\xe2\x80\xae\xe2\x80\x8b\xe2\x80\xa8\xf3\xa0\x80\x81\xff\xc3"
    "\nkiln: ok\r\x7f\x07";

typedef void (*visit)(const kiln_field_info *field, kiln_str *text, void *context);

static void walk(const kiln_schema *schema, void *owner, visit each, void *context) {
    for (uint32_t i = 0; i < schema->field_count; i++) {
        const kiln_field_info *field = &schema->field[i];
        void *at = (char *)owner + field->offset;
        if (field->kind == KILN_FIELD_text) each(field, at, context);
        if (field->kind == KILN_FIELD_nest)
            walk(kiln_schema_of_record(field->record), at, each, context);
        if (field->kind == KILN_FIELD_list) {
            const kiln_schema *record = kiln_schema_of_record(field->record);
            const kiln_any_list *list = at;
            for (uint32_t k = 0; k < list->count; k++)
                walk(record, (char *)list->item + k * record->size, each, context);
        }
    }
}

static void spoil(const kiln_field_info *field, kiln_str *text, void *context) {
    uint32_t *count = context;
    *text = (kiln_str){bad, KILN_MIN(sizeof bad - 1, (size_t)field->limit)};
    ++*count;
}

static void expect_printable(kiln_str text, kiln_text_form form, const char *where) {
    if (!kiln_text_is_printable(text, form)) fail_msg("%s: %.*s", where, KILN_STR_ARG(text));
}

static void check(const kiln_field_info *field, kiln_str *text, void *context) {
    const bool is_prose = field->limit >= KILN_MESSAGES_PROSE;
    expect_printable(*text, is_prose ? KILN_TEXT_PROSE : KILN_TEXT_LINE, context);
    assert_true(kiln_str_starts(*text, "\\x1b[2J\\u{9b}\\u{202e}"));
}

/* What `speak` writes to stderr. */
static kiln_str heard(void (*speak)(kiln_str text), kiln_str text, char *out, size_t size) {
    int ends[2], before = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    speak(text);
    dup2(before, STDERR_FILENO);
    close(before);
    close(ends[1]);
    ssize_t got = read(ends[0], out, size);
    close(ends[0]);
    assert_true(got > 1 && out[got - 1] == '\n');
    return (kiln_str){out, (size_t)got - 1};
}

static void speak(kiln_str text) { kiln_log(KILN_LOG_ERROR, "said: %.*s", KILN_STR_ARG(text)); }

static void speak_field(kiln_str text) {
    const kiln_log_field field[] = {{"text", text}};
    kiln_log_event(KILN_LOG_ERROR, "said", field, 1);
}

static void no_text_of_a_message_reaches_people_as_it_came(void **state) {
    kiln_arena *arena = *state;
    uint32_t count = 0;
    for (kiln_message_type t = kiln_message_next(0); t; t = kiln_message_next(t)) {
        kiln_message message = sample_message(t, SAMPLE_SMALL, arena);
        const kiln_schema *schema = kiln_schema_of_message(t);
        kiln_strbuf out = {0};
        walk(schema, kiln_message_struct(&message), spoil, &count);

        kiln_message shown = kiln_message_printable(&message, arena);
        walk(schema, kiln_message_struct(&shown), check, (void *)kiln_message_name(t));
        kiln_message_print(&message, &out);
        expect_printable(kiln_strbuf_view(&out), KILN_TEXT_LINE, kiln_message_name(t));
        kiln_strbuf_deinit(&out);
    }
    assert_true(count > 150);
}

static void no_text_reaches_a_log_as_it_came(void **state) {
    (void)state;
    static char line[8192];
    const kiln_str text = {bad, sizeof bad - 1};
    for (int json = 0; json < 2; json++) {
        expect_printable(heard(speak, text, line, sizeof line), KILN_TEXT_LINE, "log");
        expect_printable(heard(speak_field, text, line, sizeof line), KILN_TEXT_LINE, "event");
        expect_contains(line, "\\\\x1b[2J\\\\u{9b}");
        kiln_log_as_json();
    }
}

static void no_text_reaches_a_trace_as_it_came(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const char *path = kiln_arena_printf(arena, "%s/t.json", folder);
    const kiln_str text = {bad, sizeof bad - 1};
    const kiln_log_field field[] = {{"job", text}};
    kiln_str written;
    expect_ok(kiln_trace_open(path, bad, 0));
    kiln_trace_clock(text, 5000, 4000);
    kiln_trace_event(KILN_TRACE_BEGIN, KILN_TRACE_LEASE, text, 1234567, field, 1);
    kiln_trace_close();
    expect_ok(kiln_file_read(path, 65536, arena, &written));
    expect_printable(written, KILN_TEXT_PAGE, "trace");
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(no_text_of_a_message_reaches_people_as_it_came),
        cmocka_unit_test(no_text_reaches_a_log_as_it_came),
        test_with_arena(no_text_reaches_a_trace_as_it_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
