#include "cli/display.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/opt.h"
#include "base/stats.h"
#include "cli/cli.h"

#define LIVE_NS (UINT64_C(100) * KILN_NS_PER_MS)
#define IDLE_NS KILN_NS_PER_S
#define PLAIN_NS (UINT64_C(5) * KILN_NS_PER_S)

#define COLUMNS_WIDE 100u        /* from here on there is room for the long curve */
#define COLUMNS_FIXED 53u        /* of a line without its label and curve */
#define LINES_AROUND 4u          /* heading, hidden tasks, model, totals */
#define PLANNED_OPEN 1000000u    /* a task planned for more than this ends by time, not by count */
#define SECONDS_SHOWN_MAX 360000 /* 100 hours: beyond it an estimate is none */

static bool speaks_utf8(void) {
    static const char *const name[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(name); i++) {
        const char *value = kiln_env(name[i]);
        if (value) return strstr(value, "UTF-8") || strstr(value, "utf8");
    }
    return false;
}

/* Whether standard error is a terminal where the cursor may be moved. Kiln prints no colours, so
 * NO_COLOR (no-color.org) is taken as the wish for plain lines. */
static bool is_live_terminal(void) {
    const char *terminal = kiln_env("TERM");
    return isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") != 0 &&
           !kiln_env("NO_COLOR");
}

void kiln_display_init(kiln_display *display, const kiln_display_options *options) {
    *display =
        (kiln_display){.options = *options,
                       .live = is_live_terminal() && !(options->json && isatty(STDOUT_FILENO)),
                       .utf8 = speaks_utf8(),
                       .start_ns = kiln_clock_ns()};
}

/* ---- what is known -------------------------------------------------------------------------- */

static bool is_changed(const kiln_request_task *a, const kiln_request_task *b) {
    return a->planned != b->planned || a->done != b->done || a->failed != b->failed ||
           a->best_ns != b->best_ns || a->default_ns != b->default_ns ||
           a->gain_low != b->gain_low || a->fault != b->fault;
}

void kiln_display_update_task(kiln_display *d, uint32_t index, const kiln_request_task *state) {
    if (index == d->task.count)
        kiln_vec_push_in(d->options.process, &d->task,
                         (kiln_display_task){.state.planned = UINT32_MAX});
    kiln_display_task *task = &d->task.data[index];
    if (!is_changed(&task->state, state)) return;
    task->state = *state;
    task->changed_ns = kiln_clock_ns();
    kiln_curve_add(&task->curve, d->options.process, state->done, state->best_ns);
}

void kiln_display_update(kiln_display *d, const kiln_request *request) {
    if (d->finished) {
        d->first += d->task.count;
        d->task.count = 0;
        d->lines = 0;
        d->finished = false;
    }
    d->kernel_count = kiln_request_kernel_count(request);
    d->start_ns = kiln_clock_ns() - (uint64_t)(kiln_request_elapsed_s(request) * KILN_NS_PER_S);
    for (uint32_t i = d->first; i < kiln_request_task_count(request); i++)
        kiln_display_update_task(d, i - d->first, kiln_request_task_at(request, i));
}

/* ---- sums ----------------------------------------------------------------------------------- */

typedef struct sums {
    uint32_t done, failed;
    uint64_t planned;           /* 0: until the time is over */
    double default_ns, best_ns; /* of one inference; 0: not known of every task yet */
    bool promised;              /* some gain is not confirmed */
    double elapsed_s, left_s;   /* left < 0: not known */
} sums;

static bool ends_by_count(const kiln_request_task *t) { return t->planned <= PLANNED_OPEN; }

/* What is fastest of many that were measured alone is also the luckiest. A gain over the default is
 * a promise until both ran in turns. */
static bool is_promise(const kiln_request_task *t) {
    return t->gain_low <= 0 && t->best_ns > 0 && t->best_ns < t->default_ns;
}

static void add_inference(sums *s, const kiln_request_task *t, bool *all) {
    double base = t->default_ns > 0 ? t->default_ns : t->best_ns, weight = t->weight;
    if (t->weight == 0) return;
    *all = *all && t->best_ns > 0;
    s->promised |= is_promise(t);
    s->default_ns += weight * base;
    /* A task whose default nothing has beaten is shipped with it. */
    s->best_ns += weight * (t->best_ns < base ? t->best_ns : base);
}

/* Whether every task of an inference is there (--tasks leaves some out): kernels that may stand in
 * place of others are not. */
static bool has_all(const kiln_display *d) {
    uint32_t there = 0;
    for (uint32_t i = 0; i < d->task.count; i++) there += d->task.data[i].state.weight > 0;
    return d->task.count > 0 && (!d->kernel_count || there == d->kernel_count);
}

static sums sums_of(const kiln_display *d, uint64_t now_ns) {
    sums s = {.elapsed_s = (double)(now_ns - d->start_ns) / 1e9, .left_s = -1};
    bool all = has_all(d), counted = true;
    for (uint32_t i = 0; i < d->task.count; i++) {
        const kiln_request_task *t = &d->task.data[i].state;
        s.done += t->done;
        s.failed += t->failed;
        s.planned += t->planned;
        counted = counted && ends_by_count(t);
        add_inference(&s, t, &all);
    }
    if (!all) s.default_ns = s.best_ns = 0;
    if (!counted) s.planned = 0;
    if (s.planned && s.done) s.left_s = s.elapsed_s / s.done * (double)(s.planned - s.done);
    if (d->options.seconds > 0) {
        double budget_s = KILN_MAX(d->options.seconds - s.elapsed_s, 0);
        s.left_s = s.left_s < 0 ? budget_s : KILN_MIN(s.left_s, budget_s);
    }
    return s;
}

static void print_seconds(double seconds, kiln_strbuf *out) {
    if (seconds < 0 || seconds > SECONDS_SHOWN_MAX) {
        kiln_strbuf_text(out, "?");
        return;
    }
    unsigned s = (unsigned)(seconds + 0.5);
    if (s >= 3600)
        kiln_strbuf_printf(out, "%u h %02u min", s / 3600, s / 60 % 60);
    else if (s >= 120)
        kiln_strbuf_printf(out, "%u min %02u s", s / 60, s % 60);
    else
        kiln_strbuf_printf(out, "%u s", s);
}

void kiln_display_line(const kiln_display *d, uint64_t now_ns, kiln_strbuf *out) {
    sums s = sums_of(d, now_ns);
    kiln_strbuf_printf(out, "%u ", s.done);
    if (s.planned) kiln_strbuf_printf(out, "of %llu ", (unsigned long long)s.planned);
    kiln_strbuf_text(out, "trials");
    if (s.failed) kiln_strbuf_printf(out, " (%u failed)", s.failed);
    if (s.done) kiln_strbuf_printf(out, ", %.1f per second", s.done / KILN_MAX(s.elapsed_s, 1e-3));
    kiln_strbuf_text(out, ", ");
    print_seconds(s.elapsed_s, out);
    if (d->options.seconds > 0) {
        kiln_strbuf_text(out, " of ");
        print_seconds(d->options.seconds, out);
    }
    if (s.left_s > 0) {
        kiln_strbuf_text(out, ", about ");
        print_seconds(s.left_s, out);
        kiln_strbuf_text(out, " left");
    }
    if (s.best_ns > 0) {
        kiln_strbuf_text(out, "; kernels of one inference ");
        kiln_print_time(s.best_ns, out);
        kiln_strbuf_printf(out, ", %.2fx%s", s.default_ns / s.best_ns,
                           s.promised ? "? of the default until the finals confirm it"
                                      : " of the default");
    }
    kiln_strbuf_char(out, '\n');
}

/* ---- the table ------------------------------------------------------------------------------ */

typedef struct widths {
    uint32_t columns, label, curve; /* `columns` of the whole line: the last one may wrap */
} widths;

static widths widths_of(uint32_t columns) {
    widths w = {.columns = KILN_MAX(columns, 20u) - 1};
    w.curve = w.columns < COLUMNS_WIDE ? 8 : 16;
    uint32_t rest = w.columns > COLUMNS_FIXED + w.curve ? w.columns - COLUMNS_FIXED - w.curve : 0;
    w.label = KILN_MIN(KILN_MAX(rest, 12u), 44u);
    return w;
}

/* Appends text of at most `width` columns and pads it; labels are ASCII. */
static void append_cell(const char *text, uint32_t width, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "%-*.*s", (int)width, (int)width, text);
}

static void draw_task(const kiln_display *d, const kiln_display_task *task, uint32_t number,
                      const widths *w, double trial_s, kiln_strbuf *out) {
    const kiln_request_task *t = &task->state;
    bool counted = ends_by_count(t);
    kiln_strbuf_printf(out, "%3u ", number);
    append_cell(t->label, w->label, out);
    kiln_strbuf_char(out, ' ');
    kiln_curve_draw(&task->curve, t->default_ns, counted ? t->planned : 0, w->curve, d->utf8, out);
    kiln_strbuf_printf(out, " %5u", t->done);
    if (counted)
        kiln_strbuf_printf(out, "/%-4u", t->planned);
    else
        kiln_strbuf_text(out, "     ");
    if (t->best_ns > 0) {
        kiln_strbuf time = {0};
        kiln_print_time(t->best_ns, &time);
        kiln_strbuf_printf(out, " %7.1f %8s", t->flops / t->best_ns, time.data);
        if (t->default_ns > 0)
            kiln_strbuf_printf(out, " %5.2fx%c", t->default_ns / t->best_ns,
                               is_promise(t) ? '?' : ' ');
        else
            kiln_strbuf_text(out, "      - ");
        kiln_strbuf_deinit(&time);
    } else {
        kiln_strbuf_printf(out, " %7s %8s %6s ", "-", "-", "-");
    }
    if (*t->fault) {
        kiln_strbuf_printf(out, "  %s", t->fault);
    } else if (counted && trial_s > 0 && t->done < t->planned) {
        kiln_strbuf_text(out, "  ");
        print_seconds(trial_s * (t->planned - t->done), out);
    }
}

/* Keeps at most `columns` characters of the line that began at `start`, and ends it. */
static void end_line(size_t start, uint32_t columns, kiln_strbuf *out) {
    uint32_t shown = 0;
    for (size_t i = start; i < out->size; i++) {
        bool begins_character = ((unsigned char)out->data[i] & 0xc0) != 0x80;
        if (!begins_character || shown++ < columns) continue;
        out->size = i;
        break;
    }
    kiln_strbuf_char(out, '\n');
}

/* Whether fewer than `room` tasks changed later than this one (or stand before it). */
static bool is_shown(const kiln_display *d, uint32_t index, uint32_t room) {
    uint32_t before = 0;
    uint64_t mine = d->task.data[index].changed_ns;
    for (uint32_t i = 0; i < d->task.count; i++) {
        uint64_t other = d->task.data[i].changed_ns;
        before += other > mine || (other == mine && i < index);
    }
    return before < room;
}

void kiln_display_frame(const kiln_display *d, uint64_t now_ns, kiln_display_size size,
                        kiln_strbuf *out) {
    sums s = sums_of(d, now_ns);
    uint32_t room = size.rows > LINES_AROUND + 1 ? size.rows - LINES_AROUND : 1, hidden = 0;
    widths w = widths_of(size.columns);
    size_t start = out->size;
    kiln_strbuf_printf(out, "  # %-*s %-*s %-10s %7s %8s %6s   %s", (int)w.label, "task",
                       (int)w.curve, w.curve < 11 ? "best" : "best so far", "    trials", "GFLOP/s",
                       "time", "gain", "left");
    end_line(start, w.columns, out);
    for (uint32_t i = 0; i < d->task.count; i++) {
        start = out->size;
        if (!is_shown(d, i, room)) {
            hidden++;
            continue;
        }
        draw_task(d, &d->task.data[i], i, &w, s.done ? s.elapsed_s / s.done : 0, out);
        end_line(start, w.columns, out);
    }
    start = out->size;
    if (hidden) {
        kiln_strbuf_printf(out, "    and %u more task%s", hidden, hidden == 1 ? "" : "s");
        end_line(start, w.columns, out);
    }
    start = out->size;
    kiln_display_line(d, now_ns, out);
    out->size--; /* its end is ours */
    end_line(start, w.columns, out);
}

/* ---- drawing -------------------------------------------------------------------------------- */

static kiln_display_size terminal_size(void) {
    struct winsize size;
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row;
    return known ? (kiln_display_size){size.ws_col, size.ws_row} : (kiln_display_size){80, 24};
}

/* Takes the last frame away. */
static void erase(kiln_display *d, kiln_strbuf *out) {
    if (d->lines) kiln_strbuf_printf(out, "\033[%uA\033[J", d->lines);
    d->lines = 0;
}

static void draw(kiln_display *d) {
    kiln_strbuf out = {0};
    uint64_t now_ns = kiln_clock_ns();
    if (d->live) {
        erase(d, &out);
        size_t start = out.size;
        kiln_display_frame(d, now_ns, terminal_size(), &out);
        for (size_t i = start; i < out.size; i++) d->lines += out.data[i] == '\n';
    } else {
        kiln_display_line(d, now_ns, &out);
    }
    fwrite(out.data, 1, out.size, stderr);
    kiln_strbuf_deinit(&out);
    d->drawn_ns = now_ns;
}

static bool changed_since(const kiln_display *d, uint64_t ns) {
    for (uint32_t i = 0; i < d->task.count; i++)
        if (d->task.data[i].changed_ns > ns) return true;
    return false;
}

/* JSON goes to standard output; plain lines beside it would help nobody, a table does. */
static bool is_shown_at_all(const kiln_display *d) {
    return d->task.count > 0 && (d->live || !d->options.json);
}

void kiln_display_tick(kiln_display *d) {
    if (!is_shown_at_all(d)) return;
    uint64_t pause_ns = !d->live ? PLAIN_NS : changed_since(d, d->drawn_ns) ? LIVE_NS : IDLE_NS;
    if (kiln_clock_ns() - d->drawn_ns >= pause_ns) draw(d);
}

void kiln_display_say(kiln_display *d, const char *text) {
    kiln_strbuf out = {0};
    erase(d, &out);
    kiln_strbuf_printf(&out, "%s\n", text);
    fwrite(out.data, 1, out.size, stderr);
    kiln_strbuf_deinit(&out);
    d->drawn_ns = 0;
}

void kiln_waits_show(void *said, const char *text) {
    bool *is_said = said;
    const bool live = is_live_terminal();
    if (*text && live)
        fprintf(stderr, "\r\033[K%.*s\r", (int)(terminal_size().columns - 1), text);
    else if (*text && !*is_said)
        fprintf(stderr, "%s\n", text);
    else if (!*text && *is_said && live)
        fputs("\r\033[K", stderr);
    fflush(stderr);
    *is_said = *text != 0;
}

void kiln_display_finish(kiln_display *d) {
    if (is_shown_at_all(d) && !d->finished) draw(d);
    d->finished = true;
}

#define TABLE_COLUMNS 120u

void kiln_display_table(const kiln_display *d) {
    kiln_strbuf out = {0};
    if (d->live) return;
    const kiln_display_size size = {TABLE_COLUMNS, d->task.count + LINES_AROUND + 1};
    kiln_display_frame(d, kiln_clock_ns(), size, &out);
    fwrite(out.data, 1, out.size, stderr);
    kiln_strbuf_deinit(&out);
}
