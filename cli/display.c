#include "cli/display.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"

#define LIVE_NS (UINT64_C(100) * KILN_NS_PER_MS)
#define PLAIN_NS (UINT64_C(5) * KILN_NS_PER_S)

void kiln_display_init(kiln_display *display, bool json, kiln_arena *process) {
    *display = (kiln_display){.process = process,
                              .live = !json && isatty(STDERR_FILENO),
                              .json = json,
                              .start_ns = kiln_clock_ns()};
}

static kiln_msg_task_state *find_task(kiln_display *d, kiln_str key) {
    for (uint32_t i = 0; i < d->task_count; i++)
        if (kiln_str_equal(d->task[i].key, key)) return &d->task[i];
    if (d->task_count == d->task_capacity)
        d->task = kiln_vec_grow_in(d->process, d->task, sizeof *d->task, &d->task_capacity,
                                   d->task_count + 1);
    return &d->task[d->task_count++];
}

static void take_in(kiln_display *d, const kiln_msg_job_event *event) {
    for (uint32_t i = 0; i < event->tasks.count; i++) {
        kiln_msg_task_state *task = find_task(d, event->tasks.item[i].key);
        kiln_str key = task->key, op = task->op;
        *task = event->tasks.item[i];
        task->key = key.size ? key : kiln_str_from(kiln_str_dup(d->process, task->key));
        task->op = op.size ? op : kiln_str_from(kiln_str_dup(d->process, task->op));
    }
}

static void totals(const kiln_display *d, uint32_t *done, uint32_t *planned) {
    for (uint32_t i = 0; i < d->task_count; i++)
        *done += d->task[i].done, *planned += d->task[i].planned;
}

static void draw_task(const kiln_msg_task_state *t, uint32_t number, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "%3u %-30.30s %4u/%-4u", number,
                       kiln_str_trim(t->op).size ? t->op.data : "", t->done, t->planned);
    if (t->best_ns > 0) {
        kiln_strbuf_printf(out, " %8.1f GFLOP/s ", t->flops / t->best_ns);
        kiln_print_time(t->best_ns, out);
        if (t->default_ns > 0)
            kiln_strbuf_printf(out, "  %.2fx of the default", t->default_ns / t->best_ns);
    }
    if (t->failed) kiln_strbuf_printf(out, "  %u failed", t->failed);
    kiln_strbuf_char(out, '\n');
}

static void draw(kiln_display *d) {
    uint32_t done = 0, planned = 0;
    totals(d, &done, &planned);
    double seconds = (double)(kiln_clock_ns() - d->start_ns) / 1e9;
    double left = done ? seconds / done * (planned - done) : 0;
    kiln_strbuf out = {0};
    if (d->live) {
        for (uint32_t i = 0; i < d->lines; i++) kiln_strbuf_text(&out, "\033[A\033[2K");
        for (uint32_t i = 0; i < d->task_count; i++) draw_task(&d->task[i], i, &out);
        d->lines = d->task_count + 1;
    }
    kiln_strbuf_printf(&out, "%u of %u trials, %.0f s", done, planned, seconds);
    if (done && done < planned) kiln_strbuf_printf(&out, ", about %.0f s left", left);
    kiln_strbuf_char(&out, '\n');
    fputs(out.data, stderr);
    kiln_strbuf_deinit(&out);
    d->drawn_ns = kiln_clock_ns();
}

static void print_json(const kiln_msg_job_event *event) {
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "{\"event\":\"progress\",\"tasks\":[");
    for (uint32_t i = 0; i < event->tasks.count; i++) {
        if (i) kiln_strbuf_char(&text, ',');
        kiln_record_print_json(KILN_RECORD_task_state, &event->tasks.item[i], &text);
    }
    kiln_strbuf_text(&text, "]}");
    puts(text.data);
    fflush(stdout);
    kiln_strbuf_deinit(&text);
}

void kiln_display_update(kiln_display *display, const kiln_msg_job_event *event) {
    take_in(display, event);
    if (display->json) {
        if (event->tasks.count) print_json(event);
    } else if (kiln_clock_ns() - display->drawn_ns >= (display->live ? LIVE_NS : PLAIN_NS)) {
        draw(display);
    }
}

void kiln_display_finish(kiln_display *display) {
    if (!display->json && display->task_count) draw(display);
}
