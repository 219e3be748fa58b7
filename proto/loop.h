/* The event loop of every program with a socket: timers, signals, file descriptors and a pool for
 * work that blocks. Thin over libuv, which appears nowhere outside proto/net. All of it must run on
 * the loop's thread, except kiln_loop_wake and the `run` function of kiln_loop_work. */
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
/* Everything that was made on the loop (timers, watches, connections, listeners) must be destroyed
 * or closed before; the close callbacks run in here. NULL is fine. */
void kiln_loop_destroy(kiln_loop *loop);
/* Runs until kiln_loop_stop, or until nothing is left to wait for. */
void kiln_loop_run(kiln_loop *loop);
/* One turn: waits for the next events and handles them. False when nothing is left. For tests and
 * for programs that wait for one answer. */
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
/* From now on, when it is due, it fires only after the sockets were read: for a timer that looks
 * for silent peers, whose messages may wait here unread. */
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

/* A loop for a server: SIGINT and SIGTERM end kiln_loop_run, and are logged. Make it before other
 * programs know that the server runs, so that a signal always ends it in order. Errors of
 * kiln_loop_create. */
KILN_MUST_USE kiln_status kiln_loop_create_stoppable(kiln_loop **out_loop);

/* Runs `run` on a pool thread, then `done` on the loop. `context` is the caller's until then. */
void kiln_loop_work_named(kiln_loop *loop, const char *name, void (*run)(void *context),
                          void (*done)(void *context), void *context);
#define kiln_loop_work(loop, run, done, context) \
    kiln_loop_work_named(loop, #done, run, done, context)
/* kiln_loop_wake calls `wake` soon on the loop; from any thread, one call may serve several. */
void kiln_loop_on_wake(kiln_loop *loop, void (*wake)(void *context), void *context);
void kiln_loop_wake(kiln_loop *loop);

/* ---- How long turns take ----
 *
 * A turn is what a loop does between two waits. It should take at most KILN_TURN_NS, as all peers
 * wait for it. A handler has the name of its function or message. */
#define KILN_TURN_NS UINT64_C(5000000)
#define KILN_TURN_WARN_NS UINT64_C(100000000) /* a turn of this length is logged */
#define KILN_TURN_BUCKETS 10u

typedef struct kiln_turn_times {
    uint64_t bucket[KILN_TURN_BUCKETS]; /* turns by their length: kiln_turn_bound_s */
    uint64_t count, sum_ns, max_ns;
    const char *handler; /* that took the largest part of the longest turn */
} kiln_turn_times;

/* A handler that took more than KILN_TURN_NS of CPU. */
#define KILN_TURN_SLOW_MAX 32u
typedef struct kiln_turn_slow {
    const char *handler;
    uint64_t count, max_ns;
} kiln_turn_slow;

typedef struct kiln_loop_times {
    kiln_turn_times wall;  /* without waiting for events */
    kiln_turn_times cpu;   /* of the loop's thread: independent of other load */
    kiln_thread_work most; /* largest count of one turn, each by itself */
    kiln_turn_slow slow[KILN_TURN_SLOW_MAX];
    uint32_t slow_count; /* later handlers are not listed */
} kiln_loop_times;

/* Times the rest of the current handler by itself, under `name`, which lasts; else does nothing. */
void kiln_loop_part(kiln_loop *loop, const char *name);
/* Stops reading from all connections, or starts again: for a program that falls behind. */
void kiln_loop_pause_reading(kiln_loop *loop, bool is_paused);
/* Whether the turn has taken so long that a handler with a list should continue in the next one. */
bool kiln_loop_is_late(const kiln_loop *loop);

/* Upper bounds of the buckets in seconds; the last has none. */
extern const double kiln_turn_bound_s[KILN_TURN_BUCKETS - 1];

/* Since the loop was made. */
const kiln_loop_times *kiln_loop_times_get(const kiln_loop *loop);
/* The same for Prometheus. */
void kiln_loop_times_print(const kiln_loop_times *times, kiln_strbuf *out);
/* One line, logged when a program ends. */
void kiln_loop_times_summary(const kiln_loop_times *times, kiln_strbuf *out);

#endif
