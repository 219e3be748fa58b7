#include "cli/worker/events.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/common/json.h"
#include "cli/common/task_names.h"
#include "libkiln/tune/frame.h"

/* A host that does not take it is gone, and then so is this program. */
static void send_event(const kiln_events *events, kiln_frame_event event) {
    kiln_strbuf bytes = {0};
    event.job = events->job;
    kiln_frame_write_event(&event, &bytes);
    for (size_t done = 0; done < bytes.size;) {
        const ssize_t n = write(events->socket, bytes.data + done, bytes.size - done);
        if (n < 0 && errno != EINTR) break;
        if (n > 0) done += (size_t)n;
    }
    kiln_strbuf_deinit(&bytes);
}

void kiln_events_text(kiln_events *events, const char *format, ...) {
    kiln_strbuf text = {0};
    va_list args;
    va_start(args, format);
    kiln_strbuf_vprintf(&text, format, args);
    va_end(args);
    send_event(events, (kiln_frame_event){.kind = KILN_REQUEST_TEXT, .text = text.data});
    kiln_strbuf_deinit(&text);
}

void kiln_events_waits(void *events, const char *text) {
    send_event(events, (kiln_frame_event){.kind = KILN_REQUEST_WAITING, .text = text});
}

void kiln_events_result(kiln_events *events, json_t *object) {
    kiln_strbuf text = {0};
    kiln_json_print(object, &text);
    kiln_events_result_text(events, text.data);
    kiln_strbuf_deinit(&text);
}

void kiln_events_result_text(kiln_events *events, const char *object) {
    send_event(events, (kiln_frame_event){.kind = KILN_REQUEST_RESULT, .text = object});
}

void kiln_events_end(kiln_events *events, kiln_status status) {
    events->job = NULL; /* it went with what served the request */
    send_event(events, (kiln_frame_event){.kind = KILN_FRAME_END,
                                          .code = (uint32_t)kiln_status_code(status),
                                          .text = status ? kiln_status_text(status) : ""});
}

/* ---- progress -------------------------------------------------------------------------------- */

static const char *label_of(const kiln_tasks *tasks, const kiln_msg_task_state *state,
                            kiln_arena *arena) {
    for (uint32_t i = 0; tasks && i < tasks->count; i++)
        if (kiln_str_equal(tasks->task[i].key, state->key))
            return kiln_task_label(&tasks->task[i], arena);
    return kiln_str_dup(arena, state->op);
}

static void print_progress(const kiln_msg_job_event *event, kiln_strbuf *out) {
    kiln_strbuf_text(out, "{\"event\":\"progress\",\"tasks\":[");
    for (uint32_t i = 0; i < event->tasks.count; i++) {
        if (i) kiln_strbuf_char(out, ',');
        kiln_record_print_json(KILN_RECORD_task_state, &event->tasks.item[i], out);
    }
    for (uint32_t i = 0; i < event->faults.count; i++) {
        kiln_strbuf_text(out, i ? "," : "],\"faults\":[");
        kiln_record_print_json(KILN_RECORD_task_fault, &event->faults.item[i], out);
    }
    kiln_strbuf_text(out, "]}");
}

static uint32_t count_kernels(const kiln_tasks *tasks) {
    uint32_t count = 0;
    for (uint32_t i = 0; tasks && i < tasks->count; i++) count += tasks->task[i].weight > 0;
    return count;
}

void kiln_events_progress(kiln_events *events, const kiln_msg_job_event *event, uint64_t age_ns) {
    kiln_arena arena;
    kiln_strbuf text = {0};
    kiln_arena_init(&arena, 0);
    kiln_frame_event frame = {.kind = KILN_REQUEST_PROGRESS,
                              .kernel_count = count_kernels(events->tasks),
                              .elapsed_s = (double)age_ns / KILN_NS_PER_S,
                              .task_count = event->tasks.count,
                              .fault_count = event->faults.count};
    frame.task = KILN_ARENA_ARRAY(&arena, kiln_request_task, event->tasks.count);
    frame.fault = KILN_ARENA_ARRAY(&arena, kiln_frame_fault, event->faults.count);
    for (uint32_t i = 0; i < event->tasks.count; i++) {
        const kiln_msg_task_state *t = &event->tasks.item[i];
        frame.task[i] = (kiln_request_task){.key = kiln_str_dup(&arena, t->key),
                                            .label = label_of(events->tasks, t, &arena),
                                            .weight = t->weight,
                                            .planned = t->planned,
                                            .done = t->done,
                                            .failed = t->failed,
                                            .best_ns = t->best_ns,
                                            .default_ns = t->default_ns,
                                            .gain_low = t->gain_low,
                                            .flops = t->flops};
    }
    for (uint32_t i = 0; i < event->faults.count; i++)
        frame.fault[i] = (kiln_frame_fault){kiln_str_dup(&arena, event->faults.item[i].key),
                                            kiln_str_dup(&arena, event->faults.item[i].text)};
    print_progress(event, &text);
    frame.text = text.data;
    send_event(events, frame);
    kiln_strbuf_deinit(&text);
    kiln_arena_deinit(&arena);
}
