/* Brings a database file's schema up to date. Private to db/. The scripts in schema/<kind>/NNNN.sql
 * are compiled in; a file's PRAGMA user_version is the number of the last one applied to it, and
 * its application_id tells the two kinds of database apart. */
#ifndef KILN_DB_MIGRATE_H
#define KILN_DB_MIGRATE_H

#include <sqlite3.h>

#include "db/db.h"

typedef struct kiln_db_migrations {
    const char *const *script; /* [count]; script[i] leads from version i to i + 1 */
    uint32_t count;
} kiln_db_migrations;

/* By kiln_db_kind. */
extern const kiln_db_migrations kiln_db_migrations_of[];

/* Checks the kind and version of the open file and, when `mode` is KILN_DB_WRITE, applies what is
 * missing, each script in a transaction of its own: a crash leaves the old version or the new one.
 * FAILED_PRECONDITION  the other kind of database, something that is not Kiln's, a newer schema, or
 * (when reading) one that is older than this program can read */
KILN_MUST_USE kiln_status kiln_db_migrate(sqlite3 *handle, const char *path, kiln_db_kind kind,
                                          kiln_db_mode mode, const kiln_db_migrations *migrations);

#endif
