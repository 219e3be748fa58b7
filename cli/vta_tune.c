#include "cli/vta_tune.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "libkiln/tune/tune.h"

#define JOBS_MAX 64u
#define TICK_MS 200
#define ERROR_BYTES 16384
#define SETTINGS_MAX 12u

/* Of a request. */
typedef struct running {
    const kiln_vta_tune_options *options;
    kiln_arena *arena;
    kiln_request *request; /* NULL: the place is free */
    kiln_vta_tuned *tuned;
    double operations; /* of the tasks that the machine runs */
} running;

static const char *target_of(const kiln_vta_config *machine, kiln_arena *arena) {
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "vta:");
    kiln_vta_config_print(machine, &text);
    const char *target = kiln_str_dup(arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return target;
}

static bool runs_all(const running *r) {
    return r->operations >= 0.999 * r->options->operations; /* sums round */
}

/* The sum of what tasks take, once all are there with a time. */
static void heard(void *context, kiln_request *request, const kiln_request_event *event) {
    running *r = context;
    double ns = 0, operations = 0;
    uint32_t done = 0;
    bool all = true;
    if (event->kind != KILN_REQUEST_PROGRESS) return;
    for (uint32_t i = 0; i < kiln_request_task_count(request); i++) {
        const kiln_request_task *task = kiln_request_task_at(request, i);
        done += task->done;
        if (!task->weight) continue;
        all &= task->best_ns > 0;
        ns += task->weight * task->best_ns;
        operations += task->weight * task->flops;
    }
    r->tuned->trials = done;
    r->operations = operations;
    if (all && runs_all(r)) kiln_curve_add(&r->tuned->curve, r->arena, done, ns);
}

static kiln_status start(uint32_t what, const kiln_vta_tune_options *o,
                         const kiln_request_setting *setting, running *r) {
    char error[ERROR_BYTES] = "";
    const kiln_request_options options = {.struct_bytes = sizeof options,
                                          .what = what,
                                          .subject = o->model,
                                          .settings = setting,
                                          .heard = what == KILN_REQUEST_TUNE ? heard : NULL,
                                          .context = r};
    const int code = kiln_request_start(&options, &r->request, error, sizeof error);
    return code ? kiln_status_make((kiln_code)code, __FILE__, __LINE__, "%s", error) : KILN_OK;
}

static kiln_status start_tuning(running *r, const kiln_vta_config *machine, double seconds) {
    const kiln_vta_tune_options *o = r->options;
    kiln_request_setting setting[SETTINGS_MAX] = {
        {"target", target_of(machine, r->arena)},
        {"db", o->db},
        {"trials", kiln_arena_printf(r->arena, "%llu", (unsigned long long)o->trials)},
        {"seconds", kiln_arena_printf(r->arena, "%.3f", seconds)}};
    uint32_t count = 4;
    if (o->tracker) setting[count++] = (kiln_request_setting){"tracker", o->tracker};
    if (o->key_file) setting[count++] = (kiln_request_setting){"key-file", o->key_file};
    if (o->insecure) setting[count++] = (kiln_request_setting){"insecure", NULL};
    return start(KILN_REQUEST_TUNE, o, setting, r);
}

/* After its end. */
static void judge(running *r, int code, const char *error) {
    kiln_vta_tuned *t = r->tuned;
    const uint32_t points = t->curve.point.count;
    if (code)
        t->why_not = kiln_arena_printf(r->arena, "%.*s", (int)strcspn(error, "\n"), error);
    else if (!runs_all(r))
        t->why_not = kiln_arena_printf(r->arena, "it leaves %.0f %% of the operations to its host",
                                       100 * (1 - r->operations / r->options->operations));
    else if (!points)
        t->why_not = "there was no time for every layer";
    else
        t->ms = t->curve.point.data[points - 1].best_ns / 1e6;
}

/* Of those that run, until one says something. */
static void wait_for_one(running *run, uint32_t places) {
    struct pollfd ready[JOBS_MAX];
    nfds_t count = 0;
    for (uint32_t i = 0; i < places; i++)
        if (run[i].request)
            ready[count++] =
                (struct pollfd){.fd = kiln_request_descriptor(run[i].request), .events = POLLIN};
    if (count) poll(ready, count, TICK_MS);
}

/* False: it goes on. */
static bool take_end(running *r) {
    char error[ERROR_BYTES] = "";
    int ended = 0;
    const int code = kiln_request_wait(r->request, 0, &ended, error, sizeof error);
    if (!ended) return false;
    judge(r, code, error);
    kiln_request_free(r->request);
    r->request = NULL;
    return true;
}

kiln_status kiln_vta_tune(const kiln_vta_tune_options *options, const kiln_vta_config *machine,
                          uint32_t count, kiln_arena *arena, kiln_vta_tuned *out_tuned) {
    running run[JOBS_MAX] = {{0}};
    const uint64_t begin_ns = kiln_clock_ns();
    const uint32_t places = KILN_MIN(KILN_MIN(options->jobs, JOBS_MAX), count);
    uint32_t started = 0, ended = 0;
    kiln_status st = KILN_OK;
    while (!st && ended < count) {
        for (uint32_t i = 0; !st && i < places; i++) {
            running *r = &run[i];
            if (r->request) ended += take_end(r);
            if (r->request || started == count) continue;
            /* What is left, in rounds of as many as there are places. */
            const double spent_s = (double)(kiln_clock_ns() - begin_ns) / 1e9;
            const uint32_t rounds = (count - started + places - 1) / places;
            const double seconds = KILN_MAX(options->seconds - spent_s, 1) / rounds;
            out_tuned[started] = (kiln_vta_tuned){0};
            *r = (running){.options = options, .arena = arena, .tuned = &out_tuned[started]};
            st = start_tuning(r, &machine[started++], seconds);
        }
        wait_for_one(run, places);
    }
    for (uint32_t i = 0; i < places; i++) kiln_request_free(run[i].request);
    return st;
}

kiln_status kiln_vta_pack(const kiln_vta_tune_options *options, const kiln_vta_config *machine,
                          const char *output, kiln_arena *arena) {
    const kiln_request_setting setting[] = {
        {"target", target_of(machine, arena)}, {"db", options->db}, {"output", output}, {0}};
    char error[ERROR_BYTES] = "";
    running r = {0};
    int ended = 0, code = 0;
    kiln_status st = start(KILN_REQUEST_COMPILE, options, setting, &r);
    while (!st && !ended) code = kiln_request_wait(r.request, -1, &ended, error, sizeof error);
    kiln_request_free(r.request);
    return code ? kiln_status_make((kiln_code)code, __FILE__, __LINE__, "%s", error) : st;
}
