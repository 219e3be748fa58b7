/* What only the SQLite back end has: private to db/ and its tests. */
#ifndef KILN_DB_SQLITE_H
#define KILN_DB_SQLITE_H

#include <sqlite3.h>

#include "db/db.h"

/* The connection of a handle on a file; for tests that look below. */
sqlite3 *kiln_db_sqlite_handle(kiln_db *db);

#endif
