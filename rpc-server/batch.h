/* In place of the tracker: gives a server the trials of a folder (rpc-server/batch_plan.h) as if
 * they came under a lease, brings their blobs from there, and writes each result to the folder. The
 * server decides, contains, checks and times as it does for a tracker. One thread, that of the
 * loop.
 *
 * A result is on the disk before the server forgets it, so that a run that ends anyhow is gone on
 * with by the next. As a tuner does, it has a trial repeated that came to nothing through no fault
 * of its candidate, or whose samples were disturbed, KILN_BATCH_ATTEMPTS_MAX times in all. */
#ifndef KILN_RPC_SERVER_BATCH_H
#define KILN_RPC_SERVER_BATCH_H

#include "proto/net.h"
#include "rpc-server/board_connection.h"

#define KILN_BATCH_ATTEMPTS_MAX 3u
#define KILN_BATCH_DEPTH 3u /* trials given to one slot at a time: blobs are brought meanwhile */
#define KILN_BATCH_SICK_NS \
    UINT64_C(60000000000) /* a board that has not been fit for so long ends the run */

typedef struct kiln_batch kiln_batch;

typedef struct kiln_batch_options {
    const kiln_msg_board_up *board; /* copied */
    const char *node;
    kiln_blob_store *store;
    const kiln_board_connection_handler
        *handler;                 /* as of a tracker's line; `closed` is not called */
    void (*ended)(void *context); /* nothing is left to do, or nothing can be done */
    void *context;
} kiln_batch_options;

/* Reads the folder and opens its results, with the rights that this process has then; later ones
 * need none. NOT_FOUND, PERMISSION_DENIED; FAILED_PRECONDITION: another server measures it; errors
 * of kiln_batch_plan_read and _resume. */
KILN_MUST_USE kiln_status kiln_batch_open(const char *folder, kiln_batch **out_batch);
/* NULL is fine. */
void kiln_batch_close(kiln_batch *batch);

/* Once it is known what the board is. FAILED_PRECONDITION: it does not serve the folder's target;
 * the note says why. */
KILN_MUST_USE kiln_status kiln_batch_begin(kiln_batch *batch, const kiln_batch_options *options);
/* Actions of the server (rpc-server/server.h). */
void kiln_batch_dial(kiln_batch *batch);
void kiln_batch_take(kiln_batch *batch, const kiln_message *message);
void kiln_batch_fetch(kiln_batch *batch, const kiln_digest *digest);
/* How it went: NULL: all is measured; CANCELLED: there is more to measure; errors of the disk;
 * UNAVAILABLE: the board is not fit; DATA_LOSS: the folder is damaged. */
KILN_MUST_USE kiln_status kiln_batch_end(kiln_batch *batch);

#endif
