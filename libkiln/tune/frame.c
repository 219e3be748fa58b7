#include "libkiln/tune/frame.h"

#include <string.h>

#include "base/mpack.h"

static void code_text(kiln_mpack_coder *m, kiln_arena *arena, const char **text) {
    kiln_str value = kiln_str_from(*text);
    kiln_mpack_code_str(m, &value);
    if (!m->out && !m->st) *text = kiln_str_dup(arena, value);
}

/* In reading, an array of what was counted. */
#define NEW_ARRAY(m, arena, member, type, count) \
    (!(m)->out && !(m)->st ? (void)((member) = KILN_ARENA_ARRAY(arena, type, count)) : (void)0)

static void code_u32(kiln_mpack_coder *m, uint32_t *value) {
    kiln_mpack_code_below(m, (uint64_t)UINT32_MAX + 1, value);
}

static void code_request(kiln_mpack_coder *m, kiln_arena *arena, kiln_frame_request *r) {
    kiln_mpack_code_fields(m, 4);
    code_text(m, arena, &r->version);
    code_u32(m, &r->what);
    code_text(m, arena, &r->subject);
    kiln_mpack_code_count(m, KILN_FRAME_SETTINGS_MAX, "settings", &r->setting_count);
    NEW_ARRAY(m, arena, r->setting, kiln_request_setting, r->setting_count);
    for (uint32_t i = 0; !m->st && i < r->setting_count; i++) {
        bool has_value = r->setting[i].value != NULL;
        kiln_mpack_code_fields(m, 3);
        code_text(m, arena, &r->setting[i].name);
        kiln_mpack_code_bool(m, &has_value);
        code_text(m, arena, &r->setting[i].value);
        if (!has_value) r->setting[i].value = NULL;
    }
}

static void code_task(kiln_mpack_coder *m, kiln_arena *arena, kiln_request_task *t) {
    kiln_mpack_code_fields(m, 10);
    code_text(m, arena, &t->key);
    code_text(m, arena, &t->label);
    code_u32(m, &t->weight);
    code_u32(m, &t->planned);
    code_u32(m, &t->done);
    code_u32(m, &t->failed);
    kiln_mpack_code_f64(m, &t->best_ns);
    kiln_mpack_code_f64(m, &t->default_ns);
    kiln_mpack_code_f64(m, &t->gain_low);
    kiln_mpack_code_f64(m, &t->flops);
}

static void code_event(kiln_mpack_coder *m, kiln_arena *arena, kiln_frame_event *e) {
    kiln_mpack_code_fields(m, 8);
    code_u32(m, &e->kind);
    code_u32(m, &e->code);
    code_text(m, arena, &e->text);
    code_text(m, arena, &e->job);
    code_u32(m, &e->kernel_count);
    kiln_mpack_code_f64(m, &e->elapsed_s);
    kiln_mpack_code_count(m, KILN_FRAME_TASKS_MAX, "tasks", &e->task_count);
    NEW_ARRAY(m, arena, e->task, kiln_request_task, e->task_count);
    for (uint32_t i = 0; !m->st && i < e->task_count; i++) code_task(m, arena, &e->task[i]);
    kiln_mpack_code_count(m, KILN_FRAME_TASKS_MAX, "faults", &e->fault_count);
    NEW_ARRAY(m, arena, e->fault, kiln_frame_fault, e->fault_count);
    for (uint32_t i = 0; !m->st && i < e->fault_count; i++) {
        kiln_mpack_code_fields(m, 2);
        code_text(m, arena, &e->fault[i].key);
        code_text(m, arena, &e->fault[i].text);
    }
}

/* ---- whole frames ---------------------------------------------------------------------------- */

static void end_frame(size_t begin, kiln_strbuf *out) {
    const uint32_t size = (uint32_t)(out->size - begin - KILN_FRAME_HEAD);
    memcpy(out->data + begin, &size, sizeof size);
}

void kiln_frame_write_request(const kiln_frame_request *request, kiln_strbuf *out) {
    const size_t begin = out->size;
    kiln_frame_request copy = *request;
    kiln_mpack_coder m = {.out = out};
    kiln_strbuf_append(out, &(uint32_t){0}, KILN_FRAME_HEAD);
    code_request(&m, NULL, &copy);
    end_frame(begin, out);
}

void kiln_frame_write_event(const kiln_frame_event *event, kiln_strbuf *out) {
    const size_t begin = out->size;
    kiln_frame_event copy = *event;
    kiln_mpack_coder m = {.out = out};
    kiln_strbuf_append(out, &(uint32_t){0}, KILN_FRAME_HEAD);
    code_event(&m, NULL, &copy);
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

kiln_status kiln_frame_read_request(kiln_str body, kiln_arena *arena,
                                    kiln_frame_request *out_request) {
    kiln_mpack_coder m = reading(body);
    kiln_frame_request request = {0};
    code_request(&m, arena, &request);
    if (m.st) return kiln_status_note(m.st, "a request");
    *out_request = request;
    return KILN_OK;
}

kiln_status kiln_frame_read_event(kiln_str body, kiln_arena *arena, kiln_frame_event *out_event) {
    kiln_mpack_coder m = reading(body);
    kiln_frame_event event = {0};
    code_event(&m, arena, &event);
    if (m.st) return kiln_status_note(m.st, "an event");
    *out_event = event;
    return KILN_OK;
}
