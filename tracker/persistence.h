/* Rows of a tracker (tracker/tracker.h) in its database, from which it is restored. Used by the
 * shell.
 *
 * Rows are committed in groups on a thread of the pool, so that the loop never waits for the disk:
 * while one group is committed the next is collected. A group keeps only the last row of each
 * identity, so that its size is bounded by that of the fleet, however slow the disk is. */
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
 * `failure`, which the callee takes, none of them is. */
typedef void (*kiln_tracker_persisted)(void *context, uint64_t first, uint64_t last,
                                       kiln_status failure);

/* `db` belongs to the persistence while it is busy. `loop` and `db` outlive it. */
kiln_tracker_persistence *kiln_tracker_persistence_create(kiln_loop *loop, kiln_db *db,
                                                          kiln_tracker_persisted kept,
                                                          void *context);
/* Adds the rows of a PERSIST, which are copied, to the group that is being collected. Numbers
 * follow one another. */
void kiln_tracker_persistence_add(kiln_tracker_persistence *persistence,
                                  const kiln_tracker_action *persist);
/* Begins to commit the collected rows if somebody waits for one; after the group that is under way,
 * if there is one. */
void kiln_tracker_persistence_turn(kiln_tracker_persistence *persistence);
/* The same whether or not somebody waits; called with each tick. */
void kiln_tracker_persistence_commit(kiln_tracker_persistence *persistence);
/* Whether a group is under way. */
bool kiln_tracker_persistence_is_busy(const kiln_tracker_persistence *persistence);
/* Called after the loop was destroyed, which waits for the group that is under way: commits the
 * rows collected since. Errors of kiln_db_commit. NULL is fine. */
KILN_MUST_USE kiln_status kiln_tracker_persistence_destroy(kiln_tracker_persistence *persistence);

#endif
