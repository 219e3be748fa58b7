/* Server-sent events of changed rows: `GET /api/v1/events`. A reader gets at most KILN_EVENTS_PER_S
 * events a second, with the newest state of each row that changed since its last one, and at most
 * KILN_EVENT_BYTES of rows in each: the rest comes with the next. So a slow reader costs one event.
 *
 * An event's id is "EPOCH-BOARDS-JOBS": the copy (web/copy.h) and the last change of each topic
 * that the reader has. With it as Last-Event-ID a reader gets what changed since; when that is not
 * known any more, all rows, in events of which the first says `"all":true`. */
#ifndef KILN_WEB_EVENTS_H
#define KILN_WEB_EVENTS_H

#include "proto/loop.h"
#include "web/rows.h"

#define KILN_EVENTS_PER_S 4u
#define KILN_EVENT_BYTES ((size_t)32 << 10)
#define KILN_EVENTS_READERS_MAX 512u
#define KILN_EVENTS_READERS_OF_PERSON 32u
#define KILN_EVENTS_JOBS_MAX 8u                     /* topics job:ID of one reader */
#define KILN_EVENTS_QUIET_NS UINT64_C(15000000000)  /* then a comment is sent */
#define KILN_EVENTS_LIFE_NS UINT64_C(3600000000000) /* then the reader connects again */

typedef struct kiln_events kiln_events;

kiln_events *kiln_events_create(kiln_loop *loop);
/* After the HTTP server is destroyed, which ends its readers. NULL is fine. */
void kiln_events_destroy(kiln_events *events);

/* What a reader has of a topic. */
typedef struct kiln_event_cursor {
    bool is_known; /* `seq` is of this copy */
    uint64_t seq;
} kiln_event_cursor;

/* Appends the members of the next event's object, from `"seq"` to `"gone"`, and moves the cursor;
 * false: nothing has changed. `*out_more`: not all of it fit. Pure. */
bool kiln_event_print(const kiln_rows *rows, size_t bytes_max, uint64_t now_ns,
                      kiln_event_cursor *cursor, kiln_strbuf *out, bool *out_more);
/* "EPOCH-BOARDS-JOBS"; false: another form. */
bool kiln_event_id_parse(kiln_str text, uint64_t *out_epoch, uint64_t out_seq[KILN_ROWS_KINDS]);

#endif
