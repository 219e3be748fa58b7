/* The tracker's blobs on disk: who may get and put them, which ones a job pins, and the removal of
 * those that nobody needs. On the loop's thread. */
#ifndef KILN_TRACKER_BLOB_FILES_H
#define KILN_TRACKER_BLOB_FILES_H

#include "proto/net.h"
#include "tracker/tracker.h"

typedef struct kiln_tracker_blob_files kiln_tracker_blob_files;

/* Opens the store. `where`: a folder; what names a depot (proto/depot.h): `state_folder`/blobs and
 * that; NULL: `state_folder`/blobs. Blobs that were not used for `keep_ns` are removed; 0: never.
 * `state_folder` outlives it. Errors of kiln_depot_open and kiln_blob_store_open. */
KILN_MUST_USE kiln_status kiln_tracker_blob_files_open(kiln_loop *loop, const char *state_folder,
                                                       const char *where, uint64_t keep_ns,
                                                       kiln_tracker_blob_files **out_files);
/* After the loop was destroyed. NULL is fine. */
void kiln_tracker_blob_files_close(kiln_tracker_blob_files *files);
/* Before any of the following. */
void kiln_tracker_blob_files_set_tracker(kiln_tracker_blob_files *files, kiln_tracker *tracker);
/* Blobs travel over the connection as far as the tracker allows it. */
void kiln_tracker_blob_files_attach(kiln_tracker_blob_files *files, kiln_conn *conn);
/* Pins the blobs of jobs whose rows are written. */
void kiln_tracker_blob_files_pin(kiln_tracker_blob_files *files, const kiln_tracker_row *row,
                                 uint32_t count);
/* Removes the file of a blob after the next tick, unless it is pinned. */
void kiln_tracker_blob_files_drop(kiln_tracker_blob_files *files, const kiln_digest *digest);
void kiln_tracker_blob_files_tick(kiln_tracker_blob_files *files);

#endif
