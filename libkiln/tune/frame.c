#include "libkiln/tune/frame.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/mpack.h"

/* Includes the NUL, so that the read bytes are a C string in place. */
static void code_text(kiln_mpack_coder *m, const char **text) {
    const char *said = *text ? *text : "";
    kiln_str value = {said, m->out ? strlen(said) + 1 : 0};
    kiln_mpack_code_str(m, &value);
    if (m->out || m->st) return;
    if (!value.size || memchr(value.data, '\0', value.size) != value.data + value.size - 1)
        m->st =
            KILN_ERROR(DATA_LOSS, "a text of %zu bytes does not end where it should", value.size);
    else
        *text = value.data;
}

/* When reading, allocates the array of `count` items, which the caller fills. */
static void *code_array(kiln_mpack_coder *m, void *array, uint32_t max, const char *of,
                        size_t item_bytes, uint32_t *count) {
    kiln_mpack_code_count(m, max, of, count);
    if (m->out || m->st) return array;
    array = kiln_try_alloc(item_bytes * *count);
    if (!array) m->st = KILN_ERROR(RESOURCE_EXHAUSTED, "there is no memory for %u %s", *count, of);
    return array;
}

static void code_u32(kiln_mpack_coder *m, uint32_t *value) {
    kiln_mpack_code_below(m, (uint64_t)UINT32_MAX + 1, value);
}

static void code_request(kiln_mpack_coder *m, kiln_frame_request *r) {
    kiln_mpack_code_fields(m, 4);
    code_text(m, &r->version);
    code_u32(m, &r->what);
    code_text(m, &r->subject);
    r->setting = code_array(m, r->setting, KILN_FRAME_SETTINGS_MAX, "settings", sizeof *r->setting,
                            &r->setting_count);
    for (uint32_t i = 0; !m->st && i < r->setting_count; i++) {
        bool has_value = r->setting[i].value != NULL;
        const char *value = r->setting[i].value;
        kiln_mpack_code_fields(m, 3);
        code_text(m, &r->setting[i].name);
        kiln_mpack_code_bool(m, &has_value);
        code_text(m, &value);
        r->setting[i].value = has_value ? value : NULL;
    }
}

static void code_task(kiln_mpack_coder *m, kiln_request_task *t) {
    kiln_mpack_code_fields(m, 10);
    code_text(m, &t->key);
    code_text(m, &t->label);
    code_u32(m, &t->weight);
    code_u32(m, &t->planned);
    code_u32(m, &t->done);
    code_u32(m, &t->failed);
    kiln_mpack_code_f64(m, &t->best_ns);
    kiln_mpack_code_f64(m, &t->default_ns);
    kiln_mpack_code_f64(m, &t->gain_low);
    kiln_mpack_code_f64(m, &t->flops);
}

static void code_event(kiln_mpack_coder *m, kiln_frame_event *e) {
    kiln_mpack_code_fields(m, 8);
    code_u32(m, &e->kind);
    code_u32(m, &e->code);
    code_text(m, &e->text);
    code_text(m, &e->job);
    code_u32(m, &e->kernel_count);
    kiln_mpack_code_f64(m, &e->elapsed_s);
    e->task =
        code_array(m, e->task, KILN_FRAME_TASKS_MAX, "tasks", sizeof *e->task, &e->task_count);
    for (uint32_t i = 0; !m->st && i < e->task_count; i++) code_task(m, &e->task[i]);
    e->fault =
        code_array(m, e->fault, KILN_FRAME_TASKS_MAX, "faults", sizeof *e->fault, &e->fault_count);
    for (uint32_t i = 0; !m->st && i < e->fault_count; i++) {
        kiln_mpack_code_fields(m, 2);
        code_text(m, &e->fault[i].key);
        code_text(m, &e->fault[i].text);
    }
}

/* ---- whole frames ---------------------------------------------------------------------------- */

static void end_frame(size_t begin, kiln_strbuf *out) {
    const uint32_t size = (uint32_t)(out->size - begin - KILN_FRAME_HEAD);
    memcpy(out->data + begin, &size, sizeof size);
}

#define NUMBER_BYTES_MAX 9u /* of a number or the head of a text, array or field */

/* An upper bound of the request's bytes. */
static size_t request_bytes(const kiln_frame_request *r) {
    size_t bytes = KILN_FRAME_HEAD + 5 * NUMBER_BYTES_MAX;
    bytes += strlen(r->version) + 1 + (r->subject ? strlen(r->subject) : 0) + 1;
    for (uint32_t i = 0; i < r->setting_count; i++)
        bytes += strlen(r->setting[i].name) + 1 +
                 (r->setting[i].value ? strlen(r->setting[i].value) : 0) + 1 + 4 * NUMBER_BYTES_MAX;
    return bytes;
}

kiln_status kiln_frame_write_request(const kiln_frame_request *request, kiln_strbuf *out) {
    const size_t begin = out->size, bytes = request_bytes(request);
    kiln_frame_request copy = *request;
    if (bytes > KILN_FRAME_BYTES_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "a request of %zu bytes: at most %zu", bytes,
                          KILN_FRAME_BYTES_MAX);
    if (!kiln_strbuf_try_reserve(out, bytes))
        return KILN_ERROR(RESOURCE_EXHAUSTED, "there is no memory for a request of %zu bytes",
                          bytes);
    kiln_mpack_coder m = {.out = out}; /* its memory is reserved already */
    kiln_strbuf_append(out, &(uint32_t){0}, KILN_FRAME_HEAD);
    code_request(&m, &copy);
    end_frame(begin, out);
    return KILN_OK;
}

static size_t text_bytes(const char *text) {
    return NUMBER_BYTES_MAX + (text ? strlen(text) : 0) + 1;
}

/* An upper bound of the event's bytes. */
static size_t event_bytes(const kiln_frame_event *e) {
    size_t bytes = 8 * NUMBER_BYTES_MAX + text_bytes(e->text) + text_bytes(e->job);
    for (uint32_t i = 0; i < e->task_count; i++)
        bytes += 10 * NUMBER_BYTES_MAX + text_bytes(e->task[i].key) + text_bytes(e->task[i].label);
    for (uint32_t i = 0; i < e->fault_count; i++)
        bytes += NUMBER_BYTES_MAX + text_bytes(e->fault[i].key) + text_bytes(e->fault[i].text);
    return bytes;
}

void kiln_frame_write_event(const kiln_frame_event *event, kiln_strbuf *out) {
    const size_t begin = out->size, bytes = event_bytes(event);
    char why[128];
    kiln_frame_event copy = *event;
    kiln_mpack_coder m = {.out = out};
    if (bytes > KILN_FRAME_BYTES_MAX) {
        snprintf(why, sizeof why, "a result of %zu bytes: at most %zu are sent", bytes,
                 KILN_FRAME_BYTES_MAX);
        copy = (kiln_frame_event){
            .kind = KILN_FRAME_END, .code = KILN_RESOURCE_EXHAUSTED, .text = why};
    }
    kiln_strbuf_append(out, &(uint32_t){0}, KILN_FRAME_HEAD);
    code_event(&m, &copy);
    end_frame(begin, out);
}

kiln_status kiln_frame_size(const void *head, size_t *out_size) {
    uint32_t size = 0;
    memcpy(&size, head, sizeof size);
    if (size > KILN_FRAME_BYTES_MAX)
        return KILN_ERROR(DATA_LOSS, "a frame of %u bytes: at most %zu are written", size,
                          KILN_FRAME_BYTES_MAX);
    *out_size = size;
    return KILN_OK;
}

static kiln_mpack_coder reading(kiln_str body) {
    kiln_mpack_coder m = {0};
    kiln_mpack_reader_init(&m.in, body.data, body.size);
    return m;
}

/* The status of reading, which must end at the last byte. */
static kiln_status end_of(const kiln_mpack_coder *m) {
    if (m->st || m->in.offset == m->in.size) return m->st;
    return KILN_ERROR(DATA_LOSS, "%zu bytes follow it", m->in.size - m->in.offset);
}

kiln_status kiln_frame_read_request(kiln_str body, kiln_frame_request *out_request) {
    kiln_mpack_coder m = reading(body);
    kiln_frame_request request = {0};
    code_request(&m, &request);
    kiln_status st = end_of(&m);
    if (st) {
        kiln_frame_request_deinit(&request);
        return kiln_status_note(st, "a request");
    }
    *out_request = request;
    return KILN_OK;
}

kiln_status kiln_frame_read_event(kiln_str body, kiln_frame_event *out_event) {
    kiln_mpack_coder m = reading(body);
    kiln_frame_event event = {0};
    code_event(&m, &event);
    kiln_status st = end_of(&m);
    if (st) {
        kiln_frame_event_deinit(&event);
        return kiln_status_note(st, "an event");
    }
    *out_event = event;
    return KILN_OK;
}

void kiln_frame_request_deinit(kiln_frame_request *request) { kiln_free(request->setting); }

void kiln_frame_event_deinit(kiln_frame_event *event) {
    kiln_free(event->task);
    kiln_free(event->fault);
}
