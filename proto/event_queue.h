/* The queue between a loop and a pure step (tracker, tuner, rpc-server): what happens is posted as
 * an event and decided soon, from a timer, never inside the handler or the action that posted it.
 * Events are decided in the order in which they were posted. A turn that is late
 * (kiln_loop_is_late) leaves the rest to the next turn. On the loop's thread only. */
#ifndef KILN_PROTO_EVENT_QUEUE_H
#define KILN_PROTO_EVENT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "proto/loop.h"
#include "proto/proto.h"

typedef struct kiln_event_queue kiln_event_queue;

/* All functions but `end_turn` are required. */
typedef struct kiln_event_queue_options {
    kiln_loop *loop;
    size_t event_bytes; /* size of the shell's event struct */
    /* `event` is a flat copy: replaces what it points to by copies in `arena`. */
    void (*keep)(void *event, kiln_arena *arena);
    /* Decides one event and carries out the actions. May post. */
    void (*decide)(void *context, const void *event);
    /* After the decisions of a turn. `is_empty`: no event is left for the next turn. */
    void (*end_turn)(void *context, bool is_empty);
    /* When `tick` is due, by kiln_loop_now_ns; UINT64_MAX: no time is known. */
    uint64_t (*next_ns)(void *context);
    void (*tick)(void *context);
    void *context;
} kiln_event_queue_options;

kiln_event_queue *kiln_event_queue_create(const kiln_event_queue_options *options);
/* Drops events that are not decided. NULL is fine. */
void kiln_event_queue_destroy(kiln_event_queue *queue);
/* Queues a copy of `event`. A NULL queue drops it: while a loop is destroyed its connections still
 * report that they close. */
void kiln_event_queue_post(kiln_event_queue *queue, const void *event);
/* Starts the timer of `tick` by `next_ns`. The queue does so when it is empty; for shells that also
 * decide events that they do not post. */
void kiln_event_queue_set_tick(kiln_event_queue *queue);

/* For `keep`: copies in `arena`; NULL stays NULL. */
const char *kiln_event_keep_text(const char *text, kiln_arena *arena);
const kiln_message *kiln_event_keep_message(const kiln_message *message, kiln_arena *arena);

#endif
