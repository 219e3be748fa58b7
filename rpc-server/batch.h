/* Replaces the tracker: gives a server the trials of a folder (rpc-server/batch_plan.h) as if they
 * came under a lease, reads their blobs from the folder, and writes each result to it. The server
 * decides, contains, checks and times as it does for a tracker. Runs on the loop's thread.
 *
 * A result is on the disk before the server forgets it, so that a later run can continue an
 * interrupted one. Like a tuner, the batch repeats a trial that failed through no fault of its
 * candidate or whose samples were disturbed, up to KILN_BATCH_ATTEMPTS_MAX attempts in all. */
#ifndef KILN_RPC_SERVER_BATCH_H
#define KILN_RPC_SERVER_BATCH_H

#include "proto/net.h"
#include "rpc-server/board_connection.h"

#define KILN_BATCH_ATTEMPTS_MAX 3u
#define KILN_BATCH_DEPTH \
    3u /* trials given to a slot at a time, so that the next blobs are fetched early */
#define KILN_BATCH_SICK_NS                                                \
    UINT64_C(60000000000) /* a board that is sick for longer ends the run \
                           */

typedef struct kiln_batch kiln_batch;

typedef struct kiln_batch_options {
    const kiln_msg_board_up *board; /* copied */
    const char *node;
    kiln_blob_store *store;
    const kiln_board_connection_handler
        *handler;                 /* gets what a tracker would send; `closed` is not called */
    void (*ended)(void *context); /* all is measured, or the run cannot continue */
    void *context;
} kiln_batch_options;

/* Reads the folder and opens its results. Later calls need no rights to the folder. NOT_FOUND,
 * PERMISSION_DENIED; FAILED_PRECONDITION: another server measures it; errors of
 * kiln_batch_plan_read and _resume. */
KILN_MUST_USE kiln_status kiln_batch_open(const char *folder, kiln_batch **out_batch);
/* NULL is fine. */
void kiln_batch_close(kiln_batch *batch);

/* Called once the board is described. FAILED_PRECONDITION: the board does not serve the folder's
 * target; the note says why. */
KILN_MUST_USE kiln_status kiln_batch_begin(kiln_batch *batch, const kiln_batch_options *options);
/* Actions of the server (rpc-server/server.h). */
void kiln_batch_dial(kiln_batch *batch);
void kiln_batch_take(kiln_batch *batch, const kiln_message *message);
void kiln_batch_fetch(kiln_batch *batch, const kiln_digest *digest);
/* Returns how the run ended. NULL: all trials are measured; CANCELLED: some are left; errors of the
 * disk; UNAVAILABLE: the board is sick; DATA_LOSS: the folder is damaged. */
KILN_MUST_USE kiln_status kiln_batch_end(kiln_batch *batch);

#endif
