/* The loop that every program with a socket runs on: timers, signals, file descriptors and a pool
 * for work that blocks. Thin over libuv, which appears nowhere outside proto/net. Everything here
 * belongs to the loop's thread, except kiln_loop_wake and the `run` function of kiln_loop_work. */
#ifndef KILN_PROTO_LOOP_H
#define KILN_PROTO_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "base/thread_work.h"

typedef struct kiln_loop kiln_loop;
typedef struct kiln_timer kiln_timer;
typedef struct kiln_watch kiln_watch;

/* Turns SIGPIPE off for the whole process. RESOURCE_EXHAUSTED: no file descriptors left. */
KILN_MUST_USE kiln_status kiln_loop_create(kiln_loop **out_loop);
/* Releases the loop; whatever was made on it (timers, watches, connections, listeners) must be
 * destroyed or closed before; their close callbacks run in here. NULL is fine. */
void kiln_loop_destroy(kiln_loop *loop);
/* Runs until kiln_loop_stop, or until nothing is left to wait for. */
void kiln_loop_run(kiln_loop *loop);
/* One round: waits for the next thing to happen, handles it. False when nothing is left. For tests
 * and for programs that wait for one answer. */
bool kiln_loop_run_once(kiln_loop *loop);
void kiln_loop_stop(kiln_loop *loop);
/* kiln_clock_ns, read again. */
uint64_t kiln_loop_now_ns(const kiln_loop *loop);

/* A timer is idle until started; it fires once per start, and at most once a turn. Starting again
 * moves it. Destroying it inside its own callback is allowed. */
kiln_timer *kiln_timer_create_named(kiln_loop *loop, const char *name, void (*fire)(void *context),
                                    void *context);
#define kiln_timer_create(loop, fire, context) kiln_timer_create_named(loop, #fire, fire, context)
void kiln_timer_start(kiln_timer *timer, uint64_t delay_ns);
void kiln_timer_stop(kiln_timer *timer);
/* From now on, when its time has come, it fires only after what waits in the sockets was read: for
 * a timer that judges who is silent, and must not condemn those whose words lie here unread. */
void kiln_timer_read_first(kiln_timer *timer);
void kiln_timer_destroy(kiln_timer *timer); /* NULL is fine */

/* Calls `ready` while a pipe, socket or pidfd is readable or writable. The descriptor stays the
 * caller's; destroy the watch before closing it. */
typedef enum kiln_watch_for { KILN_WATCH_READ = 1, KILN_WATCH_WRITE = 2 } kiln_watch_for;
kiln_watch *kiln_watch_create_named(kiln_loop *loop, const char *name, int fd, unsigned watch_for,
                                    void (*ready)(void *context, unsigned ready_for),
                                    void *context);
#define kiln_watch_create(loop, fd, watch_for, ready, context) \
    kiln_watch_create_named(loop, #ready, fd, watch_for, ready, context)
/* Changes what is waited for; 0 pauses. */
void kiln_watch_set(kiln_watch *watch, unsigned watch_for);
void kiln_watch_destroy(kiln_watch *watch); /* NULL is fine */

/* `signal` calls back on the loop instead of ending the process; for SIGINT, SIGTERM, SIGHUP. Lasts
 * as long as the loop and does not keep it running. A second call for a signal takes its place. */
void kiln_loop_on_signal(kiln_loop *loop, int signal, void (*raised)(void *context, int signal),
                         void *context);

/* A loop for a program that serves: SIGINT and SIGTERM end kiln_loop_run, and are logged. Made
 * before anybody can know that the program is there: who asks it to stop must always get an orderly
 * end. Errors of kiln_loop_create. */
KILN_MUST_USE kiln_status kiln_loop_create_stoppable(kiln_loop **out_loop);

/* Runs `run` on a pool thread, then `done` on the loop. `context` is the caller's until then. */
void kiln_loop_work_named(kiln_loop *loop, const char *name, void (*run)(void *context),
                          void (*done)(void *context), void *context);
#define kiln_loop_work(loop, run, done, context) \
    kiln_loop_work_named(loop, #done, run, done, context)
/* Calls `wake` soon on the loop; from any thread, several calls may be served by one. */
void kiln_loop_on_wake(kiln_loop *loop, void (*wake)(void *context), void *context);
void kiln_loop_wake(kiln_loop *loop);

/* ---- How long turns take ----
 *
 * A turn is what a loop does between two waits. It shall take at most KILN_TURN_NS: whoever talks
 * to the program waits for it. Handlers are called by the function or message that they are. */
#define KILN_TURN_NS UINT64_C(5000000)
#define KILN_TURN_WARN_NS UINT64_C(100000000) /* this is said in the log */
#define KILN_TURN_BUCKETS 10u

typedef struct kiln_turn_times {
    uint64_t bucket[KILN_TURN_BUCKETS]; /* turns by their length: kiln_turn_bound_s */
    uint64_t count, sum_ns, max_ns;
    const char *handler; /* that took most of the longest */
} kiln_turn_times;

/* A handler that took more than KILN_TURN_NS of CPU. */
#define KILN_TURN_SLOW_MAX 32u
typedef struct kiln_turn_slow {
    const char *handler;
    uint64_t count, max_ns;
} kiln_turn_slow;

typedef struct kiln_loop_times {
    kiln_turn_times wall;  /* without waiting for something to happen */
    kiln_turn_times cpu;   /* of the loop's thread: independent of what else the machine does */
    kiln_thread_work most; /* of one turn, each by itself */
    kiln_turn_slow slow[KILN_TURN_SLOW_MAX];
    uint32_t slow_count; /* handlers; more are not told apart */
} kiln_loop_times;

/* What the handler under way does from here on is timed by itself, and called `name`, which lasts.
 * Outside of handlers nothing is timed. */
void kiln_loop_part(kiln_loop *loop, const char *name);
/* Reads from no connection, or goes on: for who has more to decide than fits a turn. */
void kiln_loop_pause_reading(kiln_loop *loop, bool is_paused);
/* Whether a turn has taken so long that a handler with a list to work off goes on in the next. */
bool kiln_loop_is_late(const kiln_loop *loop);

/* Up to here, in seconds; the last has no bound. */
extern const double kiln_turn_bound_s[KILN_TURN_BUCKETS - 1];

/* Since the loop was made. */
const kiln_loop_times *kiln_loop_times_get(const kiln_loop *loop);
/* The same for Prometheus. */
void kiln_loop_times_print(const kiln_loop_times *times, kiln_strbuf *out);
/* One line for the log of a program that ends. */
void kiln_loop_times_summary(const kiln_loop_times *times, kiln_strbuf *out);

#endif
