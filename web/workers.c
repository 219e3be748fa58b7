#include "web/workers.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/vec.h"

#define ERROR_BYTES 8192u
#define JOB_BYTES 128u

typedef struct event {
    uint32_t kind;
    kiln_str text; /* heap-owned */
} event;

struct kiln_worker {
    kiln_worker *next;
    kiln_workers *workers; /* NULL: abandoned; freed when the pool gives it back */
    kiln_worker_order order;
    const char *programs;
    kiln_arena arena; /* of the order's copies */
    kiln_request *request;
    kiln_watch *watch;
    bool is_running, is_on_pool;
    uint32_t cancel_count; /* wanted; those of before it started are told then */
    /* Of the pool's thread while `is_on_pool`. */
    KILN_VEC(event) events;
    size_t events_bytes;
    bool has_ended;
    int code;
    char error[ERROR_BYTES], heard_job[JOB_BYTES];
    char job[JOB_BYTES]; /* the loop's */
};

struct kiln_workers {
    kiln_loop *loop;
    kiln_workers_options options;
    kiln_worker *first, **last; /* running and waiting, in the order of their start */
    uint32_t running[KILN_WORKER_KINDS], waiting;
    kiln_timer *soon; /* starts the next ones, and ends those that were cancelled in the queue */
};

static void go_on(void *context);

kiln_workers *kiln_workers_create(kiln_loop *loop, const kiln_workers_options *options) {
    kiln_workers *workers = kiln_alloc(sizeof *workers);
    *workers = (kiln_workers){.loop = loop, .options = *options};
    workers->last = &workers->first;
    workers->soon = kiln_timer_create(loop, go_on, workers);
    return workers;
}

/* ---- the end of one -------------------------------------------------------------------------- */

static void free_worker(kiln_worker *w) {
    kiln_watch_destroy(w->watch);
    kiln_request_free(w->request);
    for (uint32_t i = 0; i < w->events.count; i++)
        kiln_free((char *)(uintptr_t)w->events.data[i].text.data);
    kiln_vec_deinit(&w->events);
    kiln_arena_deinit(&w->arena);
    kiln_free(w);
}

static void take_out(kiln_worker *w) {
    kiln_workers *workers = w->workers;
    kiln_worker **at = &workers->first;
    while (*at != w) at = &(*at)->next;
    *at = w->next;
    if (!*at) workers->last = at;
    if (w->is_running)
        workers->running[w->order.kind]--;
    else
        workers->waiting--;
}

static void end_worker(kiln_worker *w, kiln_status st) {
    take_out(w);
    kiln_timer_start(w->workers->soon, 0);
    w->order.ended(w->order.context, st);
    free_worker(w);
}

/* ---- on the pool ----------------------------------------------------------------------------- */

static void keep_event(void *context, kiln_request *request, const kiln_request_event *heard) {
    kiln_worker *w = context;
    const size_t size = strlen(heard->text);
    const char *job = kiln_request_job(request);
    if (strlen(job) < JOB_BYTES) memcpy(w->heard_job, job, strlen(job) + 1);
    if (size > KILN_WORKERS_EVENTS_BYTES_MAX - w->events_bytes) return; /* nobody reads so much */
    const event one = {heard->kind, {memcpy(kiln_alloc(size + 1), heard->text, size + 1), size}};
    w->events_bytes += size;
    kiln_vec_push(&w->events, one);
}

static void run_start(void *context) {
    kiln_worker *w = context;
    kiln_request_setting *setting =
        KILN_ARENA_ARRAY(&w->arena, kiln_request_setting, w->order.setting_count + 1);
    memcpy(setting, w->order.setting, w->order.setting_count * sizeof *setting);
    setting[w->order.setting_count] = (kiln_request_setting){0};
    const kiln_request_options options = {.struct_bytes = sizeof options,
                                          .what = w->order.what,
                                          .subject = w->order.subject,
                                          .settings = setting,
                                          .heard = keep_event,
                                          .context = w,
                                          .programs = w->programs};
    w->code = kiln_request_start(&options, &w->request, w->error, sizeof w->error);
    w->has_ended = w->code != 0;
}

static void run_wait(void *context) {
    kiln_worker *w = context;
    int ended = 0;
    w->code = kiln_request_wait(w->request, 0, &ended, w->error, sizeof w->error);
    w->has_ended = ended;
}

/* ---- between both ---------------------------------------------------------------------------- */

static void on_ready(void *context, unsigned ready_for);

/* Hands over what was heard. */
static void tell(kiln_worker *w) {
    for (uint32_t i = 0; i < w->events.count; i++) {
        const event one = w->events.data[i];
        if (w->workers && w->order.heard) w->order.heard(w->order.context, one.kind, one.text);
        kiln_free((char *)(uintptr_t)one.text.data);
    }
    w->events.count = 0;
    w->events_bytes = 0;
}

static void on_pool_done(void *context) {
    kiln_worker *w = context;
    w->is_on_pool = false;
    memcpy(w->job, w->heard_job, sizeof w->job);
    tell(w);
    if (!w->workers) {
        free_worker(w);
    } else if (w->has_ended) {
        end_worker(w, w->code
                          ? kiln_status_make((kiln_code)w->code, __FILE__, __LINE__, "%s", w->error)
                          : KILN_OK);
    } else if (w->watch) {
        kiln_watch_set(w->watch, KILN_WATCH_READ);
    } else {
        w->watch = kiln_watch_create(w->workers->loop, kiln_request_descriptor(w->request),
                                     KILN_WATCH_READ, on_ready, w);
        for (uint32_t i = 0; i < w->cancel_count; i++) kiln_request_cancel(w->request);
    }
}

static void on_ready(void *context, unsigned ready_for) {
    (void)ready_for;
    kiln_worker *w = context;
    kiln_watch_set(w->watch, 0);
    w->is_on_pool = true;
    kiln_loop_work(w->workers->loop, run_wait, on_pool_done, w);
}

static void start_worker(kiln_worker *w) {
    w->is_running = w->is_on_pool = true;
    w->workers->running[w->order.kind]++;
    w->workers->waiting--;
    if (w->order.started) w->order.started(w->order.context);
    kiln_loop_work(w->workers->loop, run_start, on_pool_done, w);
}

static kiln_worker *find_cancelled(const kiln_workers *workers) {
    for (kiln_worker *w = workers->first; w; w = w->next)
        if (!w->is_running && w->cancel_count) return w;
    return NULL;
}

static void go_on(void *context) {
    kiln_workers *workers = context;
    for (kiln_worker *w = find_cancelled(workers); w; w = find_cancelled(workers))
        end_worker(w, KILN_ERROR(CANCELLED, "cancelled before it began"));
    for (kiln_worker *w = workers->first; w; w = w->next)
        if (!w->is_running &&
            workers->running[w->order.kind] < workers->options.running_max[w->order.kind])
            start_worker(w);
}

void kiln_worker_set(kiln_worker_settings *settings, const char *name, const char *value) {
    KILN_CHECK(settings->count < KILN_WORKER_SETTINGS_MAX);
    settings->item[settings->count++] = (kiln_request_setting){name, value};
}

/* ---- from outside ---------------------------------------------------------------------------- */

kiln_status kiln_workers_start(kiln_workers *workers, const kiln_worker_order *order,
                               kiln_worker **out_worker) {
    if (workers->waiting == KILN_WORKERS_QUEUED_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%u requests wait already; try again later",
                          workers->waiting);
    kiln_worker *w = kiln_alloc(sizeof *w);
    *w = (kiln_worker){.workers = workers, .order = *order, .programs = workers->options.programs};
    kiln_arena_init(&w->arena, 0);
    w->order.subject = kiln_str_dup(&w->arena, kiln_str_from(order->subject));
    kiln_request_setting *setting =
        KILN_ARENA_ARRAY(&w->arena, kiln_request_setting, order->setting_count + 1);
    for (uint32_t i = 0; i < order->setting_count; i++) {
        const kiln_request_setting *from = &order->setting[i];
        setting[i].name = kiln_str_dup(&w->arena, kiln_str_from(from->name));
        setting[i].value = from->value ? kiln_str_dup(&w->arena, kiln_str_from(from->value)) : NULL;
    }
    w->order.setting = setting;
    *workers->last = w;
    workers->last = &w->next;
    workers->waiting++;
    kiln_timer_start(workers->soon, 0);
    *out_worker = w;
    return KILN_OK;
}

kiln_status kiln_status_hide_path(kiln_status st, const char *path, const char *instead) {
    kiln_strbuf out = {0};
    const char *text = kiln_status_text(st);
    kiln_strbuf_text(&out, "");
    for (const char *found = NULL; (found = strstr(text, path)) != NULL;
         text = found + strlen(path)) {
        kiln_strbuf_append(&out, text, (size_t)(found - text));
        kiln_strbuf_text(&out, instead);
    }
    kiln_strbuf_text(&out, text);
    const kiln_status hidden =
        kiln_status_make(kiln_status_code(st), __FILE__, __LINE__, "%s", out.data);
    kiln_strbuf_deinit(&out);
    kiln_status_free(st);
    return hidden;
}

void kiln_worker_cancel(kiln_worker *w) {
    w->cancel_count++;
    if (!w->is_running)
        kiln_timer_start(w->workers->soon, 0);
    else if (w->watch) /* it has started; this call is for any thread */
        kiln_request_cancel(w->request);
}

uint32_t kiln_worker_position(const kiln_worker *worker) {
    uint32_t position = 0;
    for (const kiln_worker *w = worker->workers->first; w != worker; w = w->next)
        position += !w->is_running && w->order.kind == worker->order.kind;
    return worker->is_running ? 0 : position;
}

const char *kiln_worker_job(const kiln_worker *worker) { return worker->job; }

void kiln_workers_destroy(kiln_workers *workers) {
    if (!workers) return;
    kiln_timer_destroy(workers->soon);
    for (kiln_worker *w = workers->first, *next = NULL; w; w = next) {
        next = w->next;
        w->workers = NULL;
        kiln_watch_destroy(w->watch);
        w->watch = NULL;
        if (!w->is_on_pool) free_worker(w);
    }
    kiln_free(workers);
}
