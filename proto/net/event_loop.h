/* libuv's loop with its timers, watched descriptors, signals and pool (proto/loop.h), and the time
 * that each turn takes. It knows no connection. For the files of proto/net only: libuv shows. */
#ifndef KILN_PROTO_NET_EVENT_LOOP_H
#define KILN_PROTO_NET_EVENT_LOOP_H

#include <uv.h>

#include "proto/net/loop_times.h"

typedef struct kiln_loop_signal kiln_loop_signal;

/* The turn under way. */
typedef struct kiln_turn_clock {
    kiln_turn turn;        /* with its slowest handler so far */
    const char *handler;   /* of the call under way; the call may set a better name */
    uint32_t depth;        /* calls under way, one in another */
    uint64_t part_ns;      /* when the handler got this name */
    uint64_t timed_cpu_ns; /* when CPU time was last read in this turn */
    uint64_t began_ns, began_idle_ns, began_cpu_ns;
    kiln_thread_work began_work;
} kiln_turn_clock;

/* 0, or libuv's error; then there is nothing to destroy. */
int kiln_event_loop_init(kiln_loop *loop);
/* Closes the handles that keep no loop running, but `hurry`; the loop has to run once more. */
void kiln_event_loop_close(kiln_loop *loop);
void kiln_event_loop_deinit(kiln_loop *loop); /* when no handle is left */

void kiln_turn_begin(kiln_loop *loop);
void kiln_turn_end(kiln_loop *loop);
/* Fires the timers that waited until the sockets were read. */
void kiln_timers_fire_due(kiln_loop *loop);

/* Every call from the loop into the program stands between these two; `name` lasts. */
uint64_t kiln_loop_enter(kiln_loop *loop, const char *name);
void kiln_loop_leave(kiln_loop *loop, uint64_t entered_ns);
/* The next turn waits for nothing. */
void kiln_loop_hurry(kiln_loop *loop);

/* kiln_loop_work for what reads and writes files, which may take long: in order, and few at a time,
 * so that threads of the pool are left for what a peer waits for. */
void kiln_loop_bulk_named(kiln_loop *loop, const char *name, void (*run)(void *context),
                          void (*done)(void *context), void *context);
#define kiln_loop_bulk(loop, run, done, context) \
    kiln_loop_bulk_named(loop, #done, run, done, context)

/* UNAVAILABLE, PERMISSION_DENIED, ... for a libuv error number, with "WHAT: reason". */
KILN_MUST_USE kiln_status kiln_net_error(int uv_code, const char *format, ...) KILN_PRINTF(2, 3);

#endif
