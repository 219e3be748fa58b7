/* A loop and what all that runs on it shares. Each part is declared and written by its owner, below
 * this file; all files of proto/net may read it. */
#ifndef KILN_PROTO_NET_LOOP_STATE_H
#define KILN_PROTO_NET_LOOP_STATE_H

#include "proto/net/conn.h"
#include "proto/net/event_loop.h"
#include "proto/net/listen.h"
#include "proto/net/read_scheduler.h"
#include "proto/net/stranger_limit.h"

struct kiln_loop {
    /* event_loop.c */
    uv_loop_t uv;
    uv_async_t wake;
    void (*on_wake)(void *context);
    void *wake_context;
    kiln_loop_signal *signals;
    uv_idle_t hurry;            /* while the next turn must not wait for anything */
    KILN_VEC(kiln_timer *) due; /* timers whose time has come, that read first */
    kiln_turn_clock clock;
    kiln_loop_times times;
    kiln_turn_warner warner;
    struct work_item *bulk_first, *bulk_last; /* waits for the pool */
    uint32_t bulk_running;

    kiln_read_scheduler reads;
    kiln_conns conns;
    kiln_strangers strangers;
    kiln_listeners listeners;

    /* loop.c */
    uv_prepare_t before_poll; /* the two ends of a turn */
    uv_check_t after_poll;
    bool is_program, has_run; /* both: it logs at its end how long its turns were */
};

#endif
