#include "proto/net/event_loop.h"

#include <stdarg.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "proto/net/loop_state.h"

#define SLOW_NS UINT64_C(1000000) /* the CPU time of a handler that takes longer is read */
#define BULK_MAX 2u               /* of the 4 threads that libuv's pool has */

struct kiln_loop_signal {
    uv_signal_t uv;
    void (*raised)(void *context, int signal);
    void *context;
    kiln_loop_signal *next;
};

struct kiln_timer {
    uv_timer_t uv;
    bool reads_first;
    uint64_t fired; /* turn in which it last did, from 1 */
    const char *name;
    void (*fire)(void *context);
    void *context;
};

struct kiln_watch {
    uv_poll_t uv;
    const char *name;
    void (*ready)(void *context, unsigned ready_for);
    void *context;
};

typedef struct work_item {
    uv_work_t uv;
    const char *name;
    void (*run)(void *context);
    void (*done)(void *context);
    void *context;
    bool bulk;
    struct work_item *next; /* of the bulk that waits */
} work_item;

kiln_status kiln_net_error(int uv_code, const char *format, ...) {
    kiln_strbuf text = {0};
    va_list args;
    va_start(args, format);
    kiln_strbuf_vprintf(&text, format, args);
    va_end(args);
    kiln_code code = KILN_UNAVAILABLE;
    if (uv_code == UV_EACCES || uv_code == UV_EPERM) code = KILN_PERMISSION_DENIED;
    if (uv_code == UV_EADDRINUSE) code = KILN_ALREADY_EXISTS;
    if (uv_code == UV_EMFILE || uv_code == UV_ENFILE || uv_code == UV_ENOSPC)
        code = KILN_RESOURCE_EXHAUSTED;
    kiln_status st =
        kiln_status_make(code, __FILE__, __LINE__, "%s: %s", text.data, uv_strerror(uv_code));
    kiln_strbuf_deinit(&text);
    return st;
}

static void free_handle(uv_handle_t *handle) { kiln_free(handle->data); }

static void on_async(uv_async_t *async) {
    kiln_loop *loop = async->data;
    uint64_t entered_ns = kiln_loop_enter(loop, "on_wake");
    if (loop->on_wake) loop->on_wake(loop->wake_context);
    kiln_loop_leave(loop, entered_ns);
}

/* ---- How long turns take ---- */

static void name_part(kiln_loop *loop, const char *name) {
    loop->clock.handler = name;
    loop->clock.part_ns = kiln_clock_ns();
}

uint64_t kiln_loop_enter(kiln_loop *loop, const char *name) {
    loop->clock.depth++;
    name_part(loop, name);
    return loop->clock.part_ns;
}

/* Reading CPU time is a system call, done only after long handlers. Quick ones since the last
 * reading count as well, but never more than the handler's own wall time. */
static void time_cpu(kiln_loop *loop, uint64_t took_ns) {
    if (took_ns < SLOW_NS) return;
    const uint64_t now_ns = kiln_clock_thread_ns();
    const uint64_t cpu_ns = KILN_MIN(now_ns - loop->clock.timed_cpu_ns, took_ns);
    loop->clock.timed_cpu_ns = now_ns;
    kiln_loop_times_note(&loop->times, loop->clock.handler, cpu_ns);
    if (cpu_ns <= loop->clock.turn.cpu_handler_ns) return;
    loop->clock.turn.cpu_handler_ns = cpu_ns;
    loop->clock.turn.cpu_handler = loop->clock.handler;
}

static void end_part(kiln_loop *loop, uint64_t began_ns) {
    KILN_CHECK(loop->clock.handler != NULL);
    const uint64_t took_ns = kiln_clock_ns() - began_ns;
    time_cpu(loop, took_ns);
    if (took_ns <= loop->clock.turn.handler_ns) return;
    loop->clock.turn.handler_ns = took_ns;
    loop->clock.turn.handler = loop->clock.handler;
}

void kiln_loop_leave(kiln_loop *loop, uint64_t entered_ns) {
    end_part(loop, KILN_MAX(entered_ns, loop->clock.part_ns));
    loop->clock.depth--;
}

void kiln_loop_part(kiln_loop *loop, const char *name) {
    if (loop->clock.depth == 0) return;
    end_part(loop, loop->clock.part_ns);
    name_part(loop, name);
}

void kiln_turn_begin(kiln_loop *loop) {
    loop->clock.turn = (kiln_turn){.handler = "the loop"};
    loop->clock.began_ns = kiln_clock_ns();
    loop->clock.began_cpu_ns = loop->clock.timed_cpu_ns = kiln_clock_thread_ns();
    loop->clock.began_idle_ns = uv_metrics_idle_time(&loop->uv);
    loop->clock.began_work = *kiln_thread_work_here();
}

/* Without the time that libuv waited. */
static uint64_t turn_so_far_ns(const kiln_loop *loop) {
    uv_loop_t *uv = (uv_loop_t *)(uintptr_t)&loop->uv; /* the call takes a lock */
    const uint64_t passed_ns = kiln_clock_ns() - loop->clock.began_ns;
    const uint64_t idle_ns = uv_metrics_idle_time(uv) - loop->clock.began_idle_ns;
    return passed_ns - KILN_MIN(passed_ns, idle_ns);
}

bool kiln_loop_is_late(const kiln_loop *loop) { return turn_so_far_ns(loop) >= KILN_TURN_NS / 2; }

void kiln_turn_end(kiln_loop *loop) {
    loop->clock.turn.wall_ns = turn_so_far_ns(loop);
    loop->clock.turn.cpu_ns = kiln_clock_thread_ns() - loop->clock.began_cpu_ns;
    loop->clock.turn.work = kiln_thread_work_since(&loop->clock.began_work);
    kiln_loop_times_add(&loop->times, &loop->clock.turn);
    kiln_turn_warns(&loop->warner, &loop->clock.turn, kiln_clock_ns());
}

const kiln_loop_times *kiln_loop_times_get(const kiln_loop *loop) { return &loop->times; }

static void on_hurry(uv_idle_t *handle) { (void)handle; /* it only has to be active */ }

void kiln_loop_hurry(kiln_loop *loop) { uv_idle_start(&loop->hurry, on_hurry); }

static uint64_t this_turn(const kiln_loop *loop) { return loop->times.wall.count + 1; }

static void fire_timer(kiln_timer *timer) {
    kiln_loop *loop = timer->uv.loop->data;
    timer->fired = this_turn(loop);
    uint64_t entered_ns = kiln_loop_enter(loop, timer->name);
    timer->fire(timer->context); /* which may destroy it */
    kiln_loop_leave(loop, entered_ns);
}

void kiln_timers_fire_due(kiln_loop *loop) {
    while (loop->due.count > 0) fire_timer(kiln_vec_pop(&loop->due));
    uv_unref((uv_handle_t *)&loop->hurry);
}

/* ---- Timers ---- */

static void on_timer(uv_timer_t *uv) {
    kiln_timer *timer = uv->data;
    kiln_loop *loop = uv->loop->data;
    /* libuv (1.44) fires a timer that starts itself again with no delay at once, without end. */
    if (!timer->reads_first && timer->fired != this_turn(loop)) {
        fire_timer(timer);
        return;
    }
    kiln_vec_push(&loop->due, timer);
    kiln_loop_hurry(loop);
    uv_ref((uv_handle_t *)&loop->hurry); /* the loop must not end before */
}

/* Cancels a timer that is due. */
static void forget_due(kiln_timer *timer) {
    kiln_loop *loop = timer->uv.loop->data;
    for (uint32_t i = loop->due.count; i-- > 0;)
        if (loop->due.data[i] == timer) loop->due.data[i] = kiln_vec_pop(&loop->due);
}

kiln_timer *kiln_timer_create_named(kiln_loop *loop, const char *name, void (*fire)(void *context),
                                    void *context) {
    kiln_timer *timer = kiln_alloc(sizeof *timer);
    KILN_CHECK(uv_timer_init(&loop->uv, &timer->uv) == 0);
    timer->uv.data = timer;
    timer->name = name;
    timer->fire = fire;
    timer->context = context;
    return timer;
}

void kiln_timer_start(kiln_timer *timer, uint64_t delay_ns) {
    /* libuv counts whole milliseconds and rounds down. Rounding up keeps a timer from firing early,
     * which would make its owner start it again and again. */
    forget_due(timer);
    uv_update_time(timer->uv.loop);
    const uint64_t due_ns = uv_hrtime() + KILN_MIN(delay_ns, UINT64_MAX / 2);
    const uint64_t due_ms = due_ns / KILN_NS_PER_MS + (due_ns % KILN_NS_PER_MS != 0);
    const uint64_t delay_ms = delay_ns ? due_ms - uv_now(timer->uv.loop) : 0;
    uv_timer_start(&timer->uv, on_timer, delay_ms, 0);
}

void kiln_timer_stop(kiln_timer *timer) {
    forget_due(timer);
    uv_timer_stop(&timer->uv);
}

void kiln_timer_read_first(kiln_timer *timer) { timer->reads_first = true; }

void kiln_timer_destroy(kiln_timer *timer) {
    if (!timer) return;
    forget_due(timer);
    uv_close((uv_handle_t *)&timer->uv, free_handle);
}

/* ---- File descriptors ---- */

static void on_poll(uv_poll_t *uv, int status, int events) {
    kiln_watch *watch = uv->data;
    unsigned ready = 0;
    /* An error shows as readable and writable: the caller's read or write then returns it. */
    if (status < 0 || events & (UV_READABLE | UV_DISCONNECT)) ready |= KILN_WATCH_READ;
    if (status < 0 || events & UV_WRITABLE) ready |= KILN_WATCH_WRITE;
    kiln_loop *loop = uv->loop->data;
    uint64_t entered_ns = kiln_loop_enter(loop, watch->name);
    watch->ready(watch->context, ready); /* which may destroy it */
    kiln_loop_leave(loop, entered_ns);
}

kiln_watch *kiln_watch_create_named(kiln_loop *loop, const char *name, int fd, unsigned watch_for,
                                    void (*ready)(void *context, unsigned ready_for),
                                    void *context) {
    kiln_watch *watch = kiln_alloc(sizeof *watch);
    KILN_CHECK(uv_poll_init(&loop->uv, &watch->uv, fd) == 0);
    watch->uv.data = watch;
    watch->name = name;
    watch->ready = ready;
    watch->context = context;
    kiln_watch_set(watch, watch_for);
    return watch;
}

void kiln_watch_set(kiln_watch *watch, unsigned watch_for) {
    int events = (watch_for & KILN_WATCH_READ ? UV_READABLE : 0) |
                 (watch_for & KILN_WATCH_WRITE ? UV_WRITABLE : 0);
    if (events)
        uv_poll_start(&watch->uv, events, on_poll);
    else
        uv_poll_stop(&watch->uv);
}

void kiln_watch_destroy(kiln_watch *watch) {
    if (!watch) return;
    uv_poll_stop(&watch->uv); /* at once: the caller closes the descriptor next */
    uv_close((uv_handle_t *)&watch->uv, free_handle);
}

/* ---- Signals ---- */

static void on_signal(uv_signal_t *uv, int number) {
    kiln_loop_signal *signal = uv->data;
    kiln_loop *loop = uv->loop->data;
    uint64_t entered_ns = kiln_loop_enter(loop, "a signal");
    signal->raised(signal->context, number);
    kiln_loop_leave(loop, entered_ns);
}

void kiln_loop_on_signal(kiln_loop *loop, int number, void (*raised)(void *context, int signal),
                         void *context) {
    for (kiln_loop_signal *old = loop->signals; old; old = old->next) {
        if (old->uv.signum != number) continue;
        old->raised = raised;
        old->context = context;
        return;
    }
    kiln_loop_signal *signal = kiln_alloc(sizeof *signal);
    KILN_CHECK(uv_signal_init(&loop->uv, &signal->uv) == 0);
    signal->uv.data = signal;
    signal->raised = raised;
    signal->context = context;
    signal->next = loop->signals;
    loop->signals = signal;
    KILN_CHECK(uv_signal_start(&signal->uv, on_signal, number) == 0);
    uv_unref((uv_handle_t *)&signal->uv);
}

/* ---- Threads ---- */

static void run_work(uv_work_t *uv) {
    work_item *item = uv->data;
    item->run(item->context);
}

static void finish_work(uv_work_t *uv, int status);

static void queue(kiln_loop *loop, work_item *item) {
    KILN_CHECK(uv_queue_work(&loop->uv, &item->uv, run_work, finish_work) == 0);
}

static void start_bulk(kiln_loop *loop) {
    while (loop->bulk_first && loop->bulk_running < BULK_MAX) {
        work_item *item = loop->bulk_first;
        loop->bulk_first = item->next;
        loop->bulk_running++;
        queue(loop, item);
    }
}

static void finish_work(uv_work_t *uv, int status) {
    (void)status; /* nothing cancels work */
    work_item item = *(work_item *)uv->data;
    kiln_loop *loop = uv->loop->data;
    kiln_free(uv->data);
    loop->bulk_running -= item.bulk;
    start_bulk(loop);
    uint64_t entered_ns = kiln_loop_enter(loop, item.name);
    item.done(item.context);
    kiln_loop_leave(loop, entered_ns);
}

static work_item *make_item(const char *name, void (*run)(void *context),
                            void (*done)(void *context), void *context) {
    work_item *item = kiln_alloc(sizeof *item);
    *item = (work_item){.name = name, .run = run, .done = done, .context = context};
    item->uv.data = item;
    return item;
}

void kiln_loop_work_named(kiln_loop *loop, const char *name, void (*run)(void *context),
                          void (*done)(void *context), void *context) {
    queue(loop, make_item(name, run, done, context));
}

void kiln_loop_bulk_named(kiln_loop *loop, const char *name, void (*run)(void *context),
                          void (*done)(void *context), void *context) {
    work_item *item = make_item(name, run, done, context);
    item->bulk = true;
    if (loop->bulk_first)
        loop->bulk_last->next = item;
    else
        loop->bulk_first = item;
    loop->bulk_last = item;
    start_bulk(loop);
}

void kiln_loop_on_wake(kiln_loop *loop, void (*wake)(void *context), void *context) {
    loop->on_wake = wake;
    loop->wake_context = context;
}

void kiln_loop_wake(kiln_loop *loop) { uv_async_send(&loop->wake); }

void kiln_loop_stop(kiln_loop *loop) { uv_stop(&loop->uv); }

uint64_t kiln_loop_now_ns(const kiln_loop *loop) {
    (void)loop;
    return kiln_clock_ns();
}

/* ---- Life ---- */

int kiln_event_loop_init(kiln_loop *loop) {
    int code = uv_loop_init(&loop->uv);
    loop->uv.data = loop;
    if (code == 0) code = uv_loop_configure(&loop->uv, UV_METRICS_IDLE_TIME);
    if (code == 0) code = uv_async_init(&loop->uv, &loop->wake, on_async);
    if (code) return code;
    uv_idle_init(&loop->uv, &loop->hurry);
    loop->wake.data = loop;
    uv_unref((uv_handle_t *)&loop->wake); /* neither keeps a loop running */
    uv_unref((uv_handle_t *)&loop->hurry);
    return 0;
}

void kiln_event_loop_close(kiln_loop *loop) {
    uv_close((uv_handle_t *)&loop->wake, NULL);
    while (loop->signals) {
        kiln_loop_signal *next = loop->signals->next;
        uv_close((uv_handle_t *)&loop->signals->uv, free_handle);
        loop->signals = next;
    }
}

void kiln_event_loop_deinit(kiln_loop *loop) {
    uv_close((uv_handle_t *)&loop->hurry, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    KILN_CHECK(uv_loop_close(&loop->uv) == 0);
    kiln_vec_deinit(&loop->due);
}
