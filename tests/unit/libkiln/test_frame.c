/* Frames between hosts and workers: what is written is read, and nothing else is. */
#include "libkiln/tune/frame.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/test.h"

static kiln_str body_of(const kiln_strbuf *frame) {
    size_t size = 0;
    expect_ok(kiln_frame_size(frame->data, &size));
    assert_int_equal(size, frame->size - KILN_FRAME_HEAD);
    return (kiln_str){frame->data + KILN_FRAME_HEAD, size};
}

static void a_request_is_read_as_it_was_written(void **state) {
    (void)state;
    kiln_request_setting setting[] = {{"trials", "8"}, {"exact", NULL}, {"dim", ""}};
    const kiln_frame_request written = {"0.1.0", KILN_REQUEST_TUNE, "m.onnx",
                                        KILN_ARRAY_COUNT(setting), setting};
    kiln_frame_request read;
    kiln_strbuf frame = {0};
    expect_ok(kiln_frame_write_request(&written, &frame));
    expect_ok(kiln_frame_read_request(body_of(&frame), &read));
    assert_string_equal(read.version, "0.1.0");
    assert_int_equal(read.what, KILN_REQUEST_TUNE);
    assert_string_equal(read.subject, "m.onnx");
    assert_int_equal(read.setting_count, 3);
    assert_string_equal(read.setting[0].name, "trials");
    assert_string_equal(read.setting[0].value, "8");
    assert_null(read.setting[1].value);
    assert_string_equal(read.setting[2].value, "");
    kiln_frame_request_deinit(&read);
    kiln_strbuf_deinit(&frame);
}

static kiln_frame_event an_event(void) {
    static kiln_request_task task[] = {{.key = "v2:a",
                                        .label = "conv 8x8",
                                        .weight = 2,
                                        .planned = 9,
                                        .done = 5,
                                        .failed = 1,
                                        .best_ns = 1.5,
                                        .default_ns = 3,
                                        .gain_low = 1.25,
                                        .flops = 1e6}};
    static kiln_frame_fault fault[] = {{"v2:b", "no memory for it"}};
    return (kiln_frame_event){.kind = KILN_REQUEST_PROGRESS,
                              .text = "{}",
                              .job = "walk",
                              .kernel_count = 7,
                              .elapsed_s = 2.5,
                              .task_count = 1,
                              .fault_count = 1,
                              .task = task,
                              .fault = fault};
}

static void an_event_is_read_as_it_was_written(void **state) {
    (void)state;
    const kiln_frame_event written = an_event();
    kiln_frame_event read;
    kiln_strbuf frame = {0};
    kiln_frame_write_event(&written, &frame);
    expect_ok(kiln_frame_read_event(body_of(&frame), &read));
    assert_int_equal(read.kind, KILN_REQUEST_PROGRESS);
    assert_string_equal(read.job, "walk");
    assert_int_equal(read.kernel_count, 7);
    assert_true(read.elapsed_s == 2.5);
    const kiln_request_task *task = &read.task[0];
    assert_string_equal(task->label, "conv 8x8");
    assert_int_equal(task->weight + task->planned + task->done + task->failed, 2 + 9 + 5 + 1);
    assert_true(task->best_ns == 1.5);
    assert_true(task->default_ns == 3);
    assert_true(task->gain_low == 1.25);
    assert_true(task->flops == 1e6);
    assert_string_equal(read.fault[0].text, "no memory for it");
    kiln_frame_event_deinit(&read);
    kiln_strbuf_deinit(&frame);
}

static void what_is_cut_off_or_too_long_is_refused(void **state) {
    (void)state;
    const kiln_frame_event written = an_event();
    kiln_frame_event read;
    kiln_frame_request request;
    kiln_strbuf frame = {0};
    kiln_frame_write_event(&written, &frame);
    const kiln_str body = body_of(&frame);
    for (size_t size = 0; size < body.size; size++)
        expect_error(kiln_frame_read_event(kiln_str_slice(body, 0, size), &read), DATA_LOSS,
                     "an event");
    expect_error(kiln_frame_read_request(body, &request), DATA_LOSS, "a request");
    size_t size = 0;
    kiln_strbuf_append(&frame, "x", 1);
    expect_error(kiln_frame_read_event(
                     kiln_str_slice(kiln_strbuf_view(&frame), KILN_FRAME_HEAD, frame.size), &read),
                 DATA_LOSS, "1 bytes follow it");
    expect_error(kiln_frame_size("\xff\xff\xff\xff", &size), DATA_LOSS, "at most");
    kiln_strbuf_deinit(&frame);
}

/* The same pages again and again: a text of more than a gigabyte that takes one megabyte. */
static char *long_text(size_t size) {
    const size_t page = (size_t)1 << 20;
    const int fd = memfd_create("text", MFD_CLOEXEC);
    assert_true(fd >= 0 && ftruncate(fd, (off_t)page) == 0);
    char *text =
        mmap(NULL, size + page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(text, MAP_FAILED);
    char *first = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(first, MAP_FAILED);
    memset(first, 'a', page);
    munmap(first, page);
    for (size_t at = 0; at < size; at += page)
        assert_ptr_not_equal(mmap(text + at, page, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0),
                             MAP_FAILED);
    close(fd);
    return text;
}

static void an_event_that_is_too_long_ends_the_request(void **state) {
    (void)state;
    char *text = long_text(KILN_FRAME_BYTES_MAX);
    kiln_frame_event read, written = {.kind = KILN_REQUEST_RESULT, .text = text};
    kiln_strbuf frame = {0};
    kiln_frame_write_event(&written, &frame);
    expect_ok(kiln_frame_read_event(body_of(&frame), &read));
    assert_int_equal(read.kind, KILN_FRAME_END);
    assert_int_equal(read.code, KILN_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(read.text, "at most 1073741824 are sent"));
    kiln_frame_event_deinit(&read);
    kiln_strbuf_deinit(&frame);
    munmap(text, KILN_FRAME_BYTES_MAX + ((size_t)1 << 20));
}

/* Texts are taken where they lie, so one with a NUL inside, or none at its end, is none. */
static void a_text_ends_at_its_nul(void **state) {
    (void)state;
    const kiln_frame_request written = {.version = "0.1.0", .subject = "m.onnx"};
    kiln_frame_request read;
    kiln_strbuf frame = {0};
    expect_ok(kiln_frame_write_request(&written, &frame));
    const kiln_str body = body_of(&frame);
    char *const version = memmem(frame.data, frame.size, "0.1.0", 6);
    assert_non_null(version);
    version[1] = '\0';
    expect_error(kiln_frame_read_request(body, &read), DATA_LOSS, "a text of 6 bytes");
    version[1] = '.';
    version[5] = '.';
    expect_error(kiln_frame_read_request(body, &read), DATA_LOSS, "a text of 6 bytes");
    kiln_strbuf_deinit(&frame);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_read_as_it_was_written),
        cmocka_unit_test(an_event_is_read_as_it_was_written),
        cmocka_unit_test(an_event_that_is_too_long_ends_the_request),
        cmocka_unit_test(a_text_ends_at_its_nul),
        cmocka_unit_test(what_is_cut_off_or_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
