/* What a person may see of boards and jobs, kept up to date by the tracker's WATCH: begun when it
 * is first asked for, and dropped with the person's connection. Reads of the copy cost the tracker
 * nothing. Everything runs on the loop's thread. */
#ifndef KILN_WEB_COPY_H
#define KILN_WEB_COPY_H

#include "web/people.h"
#include "web/rows.h"

/* The copy is complete, or cannot be made (an owned status). Called once, perhaps from inside. The
 * rows are valid until the loop's next turn. */
typedef void (*kiln_copy_ready)(void *context, const kiln_rows *rows, kiln_status st);
/* Errors of kiln_person_ask. */
void kiln_copy_get(kiln_loop *loop, kiln_person *person, kiln_rows_kind kind, kiln_copy_ready ready,
                   void *context);

/* `changed` is called after rows changed, until the listener is removed; more than one change may
 * share a call. Its owner holds the person meanwhile. Where the tracker is away kiln_copy_rows
 * returns NULL; `changed` is called when the rows are complete again. */
typedef struct kiln_copy_listener {
    struct kiln_copy_listener *next; /* of the copy */
    void (*changed)(void *context, kiln_rows_kind kind);
    void *context;
} kiln_copy_listener;
void kiln_copy_listen(kiln_loop *loop, kiln_person *person, kiln_rows_kind kind,
                      kiln_copy_listener *listener);
void kiln_copy_unlisten(kiln_person *person, kiln_rows_kind kind, kiln_copy_listener *listener);
/* The rows if they are complete now, else NULL. */
const kiln_rows *kiln_copy_rows(kiln_person *person, kiln_rows_kind kind);
/* Differs between two copies: their `seq` values mean nothing to each other. */
uint64_t kiln_copy_epoch(kiln_person *person);

#endif
