/* The database of records, as commands and requests take it. */
#ifndef KILN_CLI_COMMON_RECORDS_H
#define KILN_CLI_COMMON_RECORDS_H

#include "base/arena.h"
#include "base/status.h"
#include "compiler-core/core.h"
#include "db/db.h"

/* --db PATH, or $KILN_HOME/kiln.db. */
KILN_MUST_USE kiln_status kiln_db_path(const char *option, kiln_arena *process,
                                       const char **out_path);
/* Whether a database that a person named can be opened for reading, without opening it. NOT_FOUND,
 * PERMISSION_DENIED. */
KILN_MUST_USE kiln_status kiln_db_check_there(const char *path);
/* This user's own tuner counts in `db`: $KILN_HOME/signing.key, where there is one. */
KILN_MUST_USE kiln_status kiln_trust_own(kiln_db *db, kiln_arena *process);
/* What the accuracy allows, as filters on records have it. */
kiln_db_allowed kiln_allowed_by(const kiln_accuracy *accuracy, kiln_arena *arena);
/* What the best record of a task is compared with: the default of its own final, where both ran in
 * turns; else of another final, else of the search; of equals the one stored last. NULL: the
 * default never ran. `best` may be NULL. */
const kiln_db_record *kiln_record_default(const kiln_db_record *record, uint32_t count,
                                          const kiln_db_record *best);

#endif
