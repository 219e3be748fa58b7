/* The target that a user names for a query of records. */
#ifndef KILN_DB_RECORDED_H
#define KILN_DB_RECORDED_H

#include "db/db.h"

/* `text`, in any form that targets have, becomes the canonical one, as which records are stored; in
 * `arena`. `path` is the database's, for the error. INVALID_ARGUMENT: it is no target. NOT_FOUND:
 * it has no records; the note says which targets have. */
KILN_MUST_USE kiln_status kiln_db_recorded_target(kiln_db *db, const char *path, const char *text,
                                                  kiln_arena *arena, const char **out_target);

#endif
