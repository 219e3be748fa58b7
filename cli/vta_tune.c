#include "cli/vta_tune.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

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
    if (o->person) setting[count++] = (kiln_request_setting){"person", o->person};
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

/* Until one of those that run says something; asks them to end where the person stops this. */
static bool wait_for_one(running *run, uint32_t places, int signals) {
    struct pollfd ready[JOBS_MAX + 1] = {{.fd = signals, .events = POLLIN}};
    struct signalfd_siginfo info;
    nfds_t count = 1;
    bool stopped = false;
    for (uint32_t i = 0; i < places; i++)
        if (run[i].request)
            ready[count++] =
                (struct pollfd){.fd = kiln_request_descriptor(run[i].request), .events = POLLIN};
    if (poll(ready, count, TICK_MS) <= 0 || !ready[0].revents) return false;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
        stopped = true;
        for (uint32_t i = 0; i < places; i++)
            if (run[i].request) kiln_request_cancel(run[i].request);
    }
    return stopped;
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

/* Where time is left; each may take all of it, because one whose layers have not all been timed is
 * worth nothing. */
static kiln_status try_machine(running *r, const kiln_vta_config *machine, uint64_t begin_ns) {
    const double left_s = r->options->seconds - (double)(kiln_clock_ns() - begin_ns) / 1e9;
    if (left_s > 0) return start_tuning(r, machine, left_s);
    r->tuned->why_not = "there was no time for it";
    return KILN_OK;
}

static kiln_status tune_all(const kiln_vta_tune_options *options, const kiln_vta_config *machine,
                            uint32_t count, int signals, kiln_arena *arena,
                            kiln_vta_tuned *out_tuned) {
    running run[JOBS_MAX] = {{0}};
    const uint64_t begin_ns = kiln_clock_ns();
    const uint32_t places = KILN_MIN(KILN_MIN(options->jobs, JOBS_MAX), count);
    uint32_t started = 0, ended = 0;
    bool stopped = false;
    kiln_status st = KILN_OK;
    while (!st && ended < (stopped ? started : count)) {
        for (uint32_t i = 0; !st && i < places; i++) {
            running *r = &run[i];
            if (r->request) ended += take_end(r);
            if (r->request || started == count || stopped) continue;
            out_tuned[started] = (kiln_vta_tuned){0};
            *r = (running){.options = options, .arena = arena, .tuned = &out_tuned[started]};
            st = try_machine(r, &machine[started++], begin_ns);
            ended += !r->request;
        }
        stopped |= wait_for_one(run, places, signals);
    }
    for (uint32_t i = 0; i < places; i++) kiln_request_free(run[i].request);
    if (!st && stopped)
        st = KILN_ERROR(CANCELLED, "stopped; the measurements are in %s, and the same call goes on",
                        options->db);
    return st;
}

kiln_status kiln_vta_tune(const kiln_vta_tune_options *options, const kiln_vta_config *machine,
                          uint32_t count, kiln_arena *arena, kiln_vta_tuned *out_tuned) {
    sigset_t stopping, before;
    sigemptyset(&stopping);
    sigaddset(&stopping, SIGINT);
    sigaddset(&stopping, SIGTERM);
    sigprocmask(SIG_BLOCK, &stopping, &before);
    const int signals = signalfd(-1, &stopping, SFD_CLOEXEC | SFD_NONBLOCK);
    kiln_status st = tune_all(options, machine, count, signals, arena, out_tuned);
    if (signals >= 0) close(signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
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
