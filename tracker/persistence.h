/* Rows of a tracker (tracker/tracker.h) in its database: what survives a kill. Used by the shell.
 *
 * The persistence makes them durable beside the loop: while one group of rows is committed on a
 * thread of the pool, the next is collected, so that the loop never waits for a disk and a slow
 * disk has larger groups. Of rows with one identity a group keeps the last only, so that it cannot
 * outgrow the fleet, however long the disk takes. */
#ifndef KILN_TRACKER_PERSISTENCE_H
#define KILN_TRACKER_PERSISTENCE_H

#include "db/db.h"
#include "proto/loop.h"
#include "tracker/tracker.h"

/* Writes or removes a row; durable after kiln_db_commit. Errors of kiln_db_put. */
KILN_MUST_USE kiln_status kiln_tracker_row_put(kiln_db *db, const kiln_tracker_row *row);
/* All rows; their texts lie in `arena`. */
KILN_MUST_USE kiln_status kiln_tracker_rows_read(kiln_db *db, kiln_arena *arena,
                                                 kiln_tracker_row **out_rows, uint32_t *out_count);

typedef struct kiln_tracker_persistence kiln_tracker_persistence;

/* Called on the loop, in order: PERSIST actions `first` to `last` are durable, or, with a
 * `failure`, which the callee takes, nothing of them is. */
typedef void (*kiln_tracker_persisted)(void *context, uint64_t first, uint64_t last,
                                       kiln_status failure);

/* `db` is the persistence's while it is busy; both outlive it. */
kiln_tracker_persistence *kiln_tracker_persistence_create(kiln_loop *loop, kiln_db *db,
                                                          kiln_tracker_persisted kept,
                                                          void *context);
/* Adds the rows of a PERSIST, which are copied, to the group that is being collected. Numbers
 * follow one another. */
void kiln_tracker_persistence_add(kiln_tracker_persistence *persistence,
                                  const kiln_tracker_action *persist);
/* Begins to commit what was collected when somebody waits for it; if a group is under way, the next
 * begins when that is done. */
void kiln_tracker_persistence_turn(kiln_tracker_persistence *persistence);
/* The same whether or not somebody waits: now and then, for the sake of the rest. */
void kiln_tracker_persistence_commit(kiln_tracker_persistence *persistence);
/* Whether a group is under way. */
bool kiln_tracker_persistence_is_busy(const kiln_tracker_persistence *persistence);
/* After the loop, whose end waits for the group that is under way: commits what was collected
 * since, of which nobody was told. Errors of kiln_db_commit. NULL is fine. */
KILN_MUST_USE kiln_status kiln_tracker_persistence_destroy(kiln_tracker_persistence *persistence);

#endif
