#include "proto/event_queue.h"

#include <stdalign.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"

typedef struct entry entry;
struct entry {
    entry *next;
    alignas(max_align_t) unsigned char event[];
};

struct kiln_event_queue {
    kiln_event_queue_options options;
    kiln_timer *soon, *tick;
    kiln_arena arena;    /* the entries and what their events point to */
    entry *first, *last; /* not decided; `last` counts only while there is a `first` */
    bool is_deciding;
};

void kiln_event_queue_set_tick(kiln_event_queue *queue) {
    const uint64_t next_ns = queue->options.next_ns(queue->options.context);
    const uint64_t now_ns = kiln_loop_now_ns(queue->options.loop);
    if (next_ns != UINT64_MAX)
        kiln_timer_start(queue->tick, next_ns > now_ns ? next_ns - now_ns : 0);
}

static void decide_events(void *context) {
    kiln_event_queue *queue = context;
    KILN_CHECK(!queue->is_deciding);
    queue->is_deciding = true;
    do {
        entry *next = queue->first;
        if (!next) break;
        queue->first = next->next;
        queue->options.decide(queue->options.context, next->event);
    } while (!kiln_loop_is_late(queue->options.loop));
    queue->is_deciding = false;
    const bool is_empty = !queue->first;
    if (is_empty) {
        kiln_arena_reset(&queue->arena);
        kiln_event_queue_set_tick(queue);
    } else
        kiln_timer_start(queue->soon, 0);
    if (queue->options.end_turn) queue->options.end_turn(queue->options.context, is_empty);
}

void kiln_event_queue_post(kiln_event_queue *queue, const void *event) {
    if (!queue) return;
    const size_t bytes = queue->options.event_bytes;
    entry *e = kiln_arena_alloc(&queue->arena, sizeof *e + bytes);
    memcpy(e->event, event, bytes);
    queue->options.keep(e->event, &queue->arena);
    const bool was_empty = !queue->first;
    *(was_empty ? &queue->first : &queue->last->next) = e;
    queue->last = e;
    if (was_empty && !queue->is_deciding) kiln_timer_start(queue->soon, 0);
}

const char *kiln_event_keep_text(const char *text, kiln_arena *arena) {
    return text ? kiln_str_dup(arena, kiln_str_from(text)) : NULL;
}

const kiln_message *kiln_event_keep_message(const kiln_message *message, kiln_arena *arena) {
    if (!message) return NULL;
    const kiln_message copy = kiln_message_copy(message, arena);
    return kiln_arena_copy(arena, &copy, sizeof copy);
}

kiln_event_queue *kiln_event_queue_create(const kiln_event_queue_options *options) {
    kiln_event_queue *queue = kiln_alloc(sizeof *queue);
    queue->options = *options;
    queue->soon = kiln_timer_create(options->loop, decide_events, queue);
    queue->tick = kiln_timer_create_named(options->loop, "tick", options->tick, options->context);
    kiln_timer_read_first(queue->tick);
    kiln_arena_init(&queue->arena, 0);
    return queue;
}

void kiln_event_queue_destroy(kiln_event_queue *queue) {
    if (!queue) return;
    kiln_timer_destroy(queue->soon);
    kiln_timer_destroy(queue->tick);
    kiln_arena_deinit(&queue->arena);
    kiln_free(queue);
}
