/* Rows of a tracker (tracker/tracker.h) in its database: what survives a kill. Used by the shell.
 */
#ifndef KILN_TRACKER_KEEP_H
#define KILN_TRACKER_KEEP_H

#include "db/db.h"
#include "tracker/tracker.h"

/* Writes or removes a row; durable after kiln_db_commit. Errors of kiln_db_put. */
KILN_MUST_USE kiln_status kiln_tracker_keep_put(kiln_db *db, const kiln_tracker_row *row);
/* All rows; their texts lie in `arena`. */
KILN_MUST_USE kiln_status kiln_tracker_keep_read(kiln_db *db, kiln_arena *arena,
                                                 kiln_tracker_row **out_rows, uint32_t *out_count);

#endif
