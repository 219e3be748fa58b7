/* A host and its worker, which is a script here: how a request starts, what is heard of it, and how
 * it ends, whatever the program does. tests/bindings has the real one. */
#include "libkiln/tune/tune.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "libkiln/tune/frame.h"
#include "tests/support/test.h"

#define PATIENCE_MS 60000
#define ERROR_BYTES 4096

/* A folder with a program `kiln` that is `script`. */
static char *programs(const char *script, kiln_arena *arena) {
    char *folder = make_folder(arena);
    const char *text = kiln_arena_printf(arena, "#!/bin/sh\n%s\n", script);
    expect_ok(
        kiln_file_write(kiln_arena_printf(arena, "%s/kiln", folder), kiln_str_from(text), 0755));
    return folder;
}

/* A shell's command that says an event. */
static const char *say(const kiln_frame_event *event, kiln_arena *arena) {
    kiln_strbuf frame = {0}, text = {0};
    kiln_frame_write_event(event, &frame);
    kiln_strbuf_text(&text, "printf '");
    for (size_t i = 0; i < frame.size; i++)
        kiln_strbuf_printf(&text, "\\%03o", (unsigned)(unsigned char)frame.data[i]);
    kiln_strbuf_text(&text, "' >&0");
    kiln_strbuf_deinit(&frame);
    return kiln_strbuf_end(&text, arena).data;
}

typedef struct heard {
    uint32_t events;
    char last[64];
} heard;

static void hear(void *context, kiln_request *request, const kiln_request_event *event) {
    heard *h = context;
    (void)request;
    h->events++;
    snprintf(h->last, sizeof h->last, "%u %s", event->kind, event->text);
}

static kiln_request *started(const char *folder, heard *h) {
    kiln_request *request = NULL;
    char error[ERROR_BYTES] = "";
    const kiln_request_options options = {.struct_bytes = sizeof options,
                                          .what = KILN_REQUEST_TUNE,
                                          .subject = "m.onnx",
                                          .heard = hear,
                                          .context = h,
                                          .programs = folder};
    assert_int_equal(kiln_request_start(&options, &request, error, sizeof error), 0);
    return request;
}

static int result(kiln_request *request, char error[ERROR_BYTES]) {
    int ended = 0, code = 0;
    *error = '\0';
    while (!ended) code = kiln_request_wait(request, PATIENCE_MS, &ended, error, ERROR_BYTES);
    return code;
}

static void what_it_says_is_heard(void **state) {
    kiln_request_task task = {.key = "v2:a", .label = "conv", .planned = 8, .done = 3};
    kiln_frame_fault fault = {"v2:a", "no memory for it"};
    const char *first = say(&(kiln_frame_event){.kind = KILN_REQUEST_PROGRESS,
                                                .text = "{}",
                                                .job = "walk",
                                                .kernel_count = 4,
                                                .elapsed_s = 10,
                                                .task = &task,
                                                .task_count = 1,
                                                .fault = &fault,
                                                .fault_count = 1},
                            *state);
    task.done = 5;
    const char *second = say(
        &(kiln_frame_event){.kind = KILN_REQUEST_PROGRESS, .task = &task, .task_count = 1}, *state);
    const char *third =
        say(&(kiln_frame_event){.kind = KILN_REQUEST_TEXT, .text = "hello"}, *state);
    const char *end = say(&(kiln_frame_event){.kind = KILN_FRAME_END}, *state);
    char *folder =
        programs(kiln_arena_printf(*state, "%s; %s; %s; %s", first, second, third, end), *state);
    heard h = {0};
    char error[ERROR_BYTES];
    kiln_request *request = started(folder, &h);
    assert_int_equal(result(request, error), 0);
    assert_int_equal(h.events, 3);
    assert_string_equal(h.last, "2 hello");
    assert_string_equal(kiln_request_job(request), "walk");
    assert_int_equal(kiln_request_task_count(request), 1);
    assert_int_equal(kiln_request_task_at(request, 0)->done, 5);
    assert_string_equal(kiln_request_task_at(request, 0)->fault, "no memory for it");
    kiln_request_free(request);
    remove_folder(folder);
}

static void an_error_that_it_says_is_that_of_the_request(void **state) {
    const char *end = say(
        &(kiln_frame_event){.kind = KILN_FRAME_END, .code = KILN_NOT_FOUND, .text = "no m.onnx"},
        *state);
    char *folder = programs(kiln_arena_printf(*state, "%s; exit 13", end), *state);
    heard h = {0};
    char error[ERROR_BYTES];
    kiln_request *request = started(folder, &h);
    for (int i = 0; i < 2; i++) { /* again each time */
        assert_int_equal(result(request, error), KILN_NOT_FOUND);
        assert_string_equal(error, "no m.onnx");
    }
    kiln_request_free(request);
    remove_folder(folder);
}

static void a_program_that_dies_is_an_error_with_what_it_logged(void **state) {
    static const struct {
        const char *script, *says;
        int code;
    } way[] = {
        {"echo first >&2; echo; echo its last words >&2; kill -9 $$",
         "died of signal 9: first\n  its last words", KILN_INTERNAL},
        {"yes a long line | head -1000 >&2; echo its last words >&2; exit 3",
         "ended with 3: a long line\n  a long line", KILN_INTERNAL},
        {"yes a long line | head -1000 >&2; echo its last words >&2; exit 3",
         "a long line\n  its last words", KILN_INTERNAL},
        {"exit 3", "ended with 3: it left no message", KILN_INTERNAL},
        {"echo out of memory >&2; exit 16", "out of memory", KILN_RESOURCE_EXHAUSTED},
        {"printf '\\377\\377\\377\\377' >&0; sleep 1000", "reading the answers of the program kiln",
         KILN_DATA_LOSS},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(way); i++) {
        char *folder = programs(way[i].script, *state);
        heard h = {0};
        char error[ERROR_BYTES];
        kiln_request *request = started(folder, &h);
        assert_int_equal(result(request, error), way[i].code);
        expect_contains(error, way[i].says);
        kiln_request_free(request);
        remove_folder(folder);
    }
}

/* Whichever allocation fails, the request is served or ends with an error, and the process goes
 * on. */
static void without_memory_a_request_is_an_error(void **state) {
    kiln_request_task task = {.key = "v2:a", .label = "conv"};
    kiln_frame_fault fault = {"v2:a", "no board for it"};
    const char *progress = say(&(kiln_frame_event){.kind = KILN_REQUEST_PROGRESS,
                                                   .text = "{}",
                                                   .job = "walk",
                                                   .task = &task,
                                                   .task_count = 1,
                                                   .fault = &fault,
                                                   .fault_count = 1},
                               *state);
    const char *end = say(
        &(kiln_frame_event){.kind = KILN_FRAME_END, .code = KILN_NOT_FOUND, .text = "no m.onnx"},
        *state);
    char *folder = programs(kiln_arena_printf(*state, "%s; %s; exit 13", progress, end), *state);
    const kiln_request_setting setting[] = {{"trials", "8"}, {0}};
    heard h = {0};
    const kiln_request_options options = {.struct_bytes = sizeof options,
                                          .what = KILN_REQUEST_TUNE,
                                          .subject = "m.onnx",
                                          .settings = setting,
                                          .heard = hear,
                                          .context = &h,
                                          .programs = folder};
    uint32_t failures = 0;
    uint64_t nth = 0, before = 0;
    int code = 0;
    do {
        char error[ERROR_BYTES] = "";
        kiln_request *request = NULL;
        before = kiln_alloc_count();
        kiln_alloc_fail_nth(++nth);
        code = kiln_request_start(&options, &request, error, sizeof error);
        if (!code) code = result(request, error);
        kiln_request_free(request);
        if (code != KILN_NOT_FOUND) {
            assert_int_equal(code, KILN_RESOURCE_EXHAUSTED);
            expect_contains(error, "memory");
            failures++;
        }
    } while (kiln_alloc_count() - before >= nth); /* until there is none that could fail */
    kiln_alloc_fail_nth(0);
    assert_int_equal(code, KILN_NOT_FOUND);
    assert_true(failures > 8); /* there are a dozen */
    remove_folder(folder);
}

static void a_cancellation_is_a_byte(void **state) {
    const char *ready =
        say(&(kiln_frame_event){.kind = KILN_REQUEST_TEXT, .text = "ready"}, *state);
    char *folder = programs(kiln_arena_printf(*state,
                                              "dd bs=65536 count=1 > /dev/null 2>&1; %s\n"
                                              "head -c 1 > /dev/null; kill -INT $$; sleep 1000",
                                              ready),
                            *state);
    heard h = {0};
    char error[ERROR_BYTES];
    int ended = 0;
    kiln_request *request = started(folder, &h);
    while (!h.events)
        assert_int_equal(kiln_request_wait(request, PATIENCE_MS, &ended, error, sizeof error), 0);
    assert_int_equal(ended, 0);
    kiln_request_cancel(request);
    assert_int_equal(result(request, error), KILN_CANCELLED);
    kiln_request_cancel(request); /* nobody is there: nothing happens */
    kiln_request_free(request);
    remove_folder(folder);
}

static void one_that_is_freed_is_gone(void **state) {
    char *folder = programs("exec sleep 1000", *state);
    heard h = {0};
    kiln_request *request = started(folder, &h);
    struct pollfd ready = {.fd = kiln_request_descriptor(request), .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 0), 0);
    kiln_request_free(request); /* waits until it is */
    kiln_request_free(NULL);
    remove_folder(folder);
}

static void a_request_that_is_none_does_not_start(void **state) {
    char *folder = make_folder(*state), error[256];
    kiln_request *request = NULL;
    kiln_request_options options = {.struct_bytes = sizeof options,
                                    .what = KILN_REQUEST_TUNE,
                                    .subject = "m.onnx",
                                    .programs = folder};
    assert_int_equal(kiln_request_start(&options, &request, error, sizeof error), KILN_NOT_FOUND);
    expect_contains(error, folder);
    options.subject = NULL;
    assert_int_equal(kiln_request_start(&options, &request, error, sizeof error),
                     KILN_INVALID_ARGUMENT);
    expect_contains(error, "the path of a model");
    options.what = KILN_REQUEST_COST_MODEL + 1;
    assert_int_equal(kiln_request_start(&options, &request, error, sizeof error),
                     KILN_INVALID_ARGUMENT);
    options.struct_bytes--;
    assert_int_equal(kiln_request_start(&options, &request, error, sizeof error),
                     KILN_INVALID_ARGUMENT);
    expect_contains(error, "struct_bytes");
    assert_null(request);
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(what_it_says_is_heard),
        test_with_arena(an_error_that_it_says_is_that_of_the_request),
        test_with_arena(a_program_that_dies_is_an_error_with_what_it_logged),
        test_with_arena(without_memory_a_request_is_an_error),
        test_with_arena(a_cancellation_is_a_byte),
        test_with_arena(one_that_is_freed_is_gone),
        test_with_arena(a_request_that_is_none_does_not_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
