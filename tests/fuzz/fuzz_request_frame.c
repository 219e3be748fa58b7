/* Fuzzes frames between a host of libkiln and its worker (libkiln/tune/frame.h), both directions:
 * what is read is written, and read as the same once more. The first byte says which direction; a
 * frame follows, whose body is all that is there, whatever its head says. */
#include <string.h>

#include "base/check.h"
#include "libkiln/tune/frame.h"
#include "tests/fuzz/fuzz.h"

static kiln_str body_of(const kiln_strbuf *frame) {
    size_t size = 0;
    kiln_status st = kiln_frame_size(frame->data, &size);
    KILN_CHECK(!st && size == frame->size - KILN_FRAME_HEAD);
    return (kiln_str){frame->data + KILN_FRAME_HEAD, size};
}

static bool same_text(const char *a, const char *b) { return (!a && !b) || strcmp(a, b) == 0; }

/* NaNs are equal to themselves here. */
static bool same_number(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

static bool read_request(kiln_str body, kiln_frame_request *out) {
    kiln_status st = kiln_frame_read_request(body, out);
    KILN_CHECK(!st || kiln_status_code(st) == KILN_DATA_LOSS);
    kiln_status_free(st);
    return !st;
}

static void try_request(kiln_str body) {
    kiln_frame_request read, again;
    kiln_strbuf frame = {0};
    if (!read_request(body, &read)) return;
    kiln_status st = kiln_frame_write_request(&read, &frame);
    KILN_CHECK(!st);
    KILN_CHECK(read_request(body_of(&frame), &again));
    KILN_CHECK(read.what == again.what && read.setting_count == again.setting_count);
    KILN_CHECK(same_text(read.version, again.version) && same_text(read.subject, again.subject));
    for (uint32_t i = 0; i < read.setting_count; i++) {
        KILN_CHECK(same_text(read.setting[i].name, again.setting[i].name));
        KILN_CHECK(!read.setting[i].value == !again.setting[i].value);
        KILN_CHECK(same_text(read.setting[i].value, again.setting[i].value));
    }
    kiln_frame_request_deinit(&read);
    kiln_frame_request_deinit(&again);
    kiln_strbuf_deinit(&frame);
}

static bool read_event(kiln_str body, kiln_frame_event *out) {
    kiln_status st = kiln_frame_read_event(body, out);
    KILN_CHECK(!st || kiln_status_code(st) == KILN_DATA_LOSS);
    kiln_status_free(st);
    return !st;
}

static void check_task(const kiln_request_task *a, const kiln_request_task *b) {
    KILN_CHECK(same_text(a->key, b->key) && same_text(a->label, b->label));
    KILN_CHECK(a->weight == b->weight && a->planned == b->planned);
    KILN_CHECK(a->done == b->done && a->failed == b->failed);
    KILN_CHECK(same_number(a->best_ns, b->best_ns) && same_number(a->flops, b->flops));
    KILN_CHECK(same_number(a->default_ns, b->default_ns) && same_number(a->gain_low, b->gain_low));
}

static void try_event(kiln_str body) {
    kiln_frame_event read, again;
    kiln_strbuf frame = {0};
    if (!read_event(body, &read)) return;
    kiln_frame_write_event(&read, &frame);
    KILN_CHECK(read_event(body_of(&frame), &again));
    KILN_CHECK(read.kind == again.kind && read.code == again.code);
    KILN_CHECK(same_text(read.text, again.text) && same_text(read.job, again.job));
    KILN_CHECK(read.kernel_count == again.kernel_count);
    KILN_CHECK(same_number(read.elapsed_s, again.elapsed_s));
    KILN_CHECK(read.task_count == again.task_count && read.fault_count == again.fault_count);
    for (uint32_t i = 0; i < read.task_count; i++) check_task(&read.task[i], &again.task[i]);
    for (uint32_t i = 0; i < read.fault_count; i++)
        KILN_CHECK(same_text(read.fault[i].key, again.fault[i].key) &&
                   same_text(read.fault[i].text, again.fault[i].text));
    kiln_frame_event_deinit(&read);
    kiln_frame_event_deinit(&again);
    kiln_strbuf_deinit(&frame);
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    size_t said = 0;
    if (size < 1 + KILN_FRAME_HEAD) return 0;
    kiln_status st = kiln_frame_size(data + 1, &said);
    const kiln_str body = {(const char *)data + 1 + KILN_FRAME_HEAD, size - 1 - KILN_FRAME_HEAD};
    KILN_CHECK(st || said <= KILN_FRAME_BYTES_MAX);
    kiln_status_free(st);
    if (data[0] % 2)
        try_event(body);
    else
        try_request(body);
    return 0;
}
