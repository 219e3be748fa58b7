/* Shared by the files of db/ only: the handle, errors, prepared statements and rows. */
#ifndef KILN_DB_INTERNAL_H
#define KILN_DB_INTERNAL_H

#include <sqlite3.h>

#include "db/db.h"

struct kiln_db {
    sqlite3 *handle;
    char *path;
    kiln_db_kind kind;
    kiln_db_mode mode;
    bool pending;                           /* a group is open */
    sqlite3_stmt *put[KILN_DB_TABLE_COUNT]; /* prepared on first use */
};

/* What an SQLite result code means here, with the path and SQLite's own words. `doing` is what was
 * tried: "storing a record". */
KILN_MUST_USE kiln_status kiln_db_error(sqlite3 *handle, const char *path, int rc,
                                        const char *doing);

KILN_MUST_USE kiln_status kiln_db_prepare(kiln_db *db, const char *sql,
                                          sqlite3_stmt **out_statement);
/* Empty text binds NULL, as it is stored. */
void kiln_db_bind_text(sqlite3_stmt *statement, int index, kiln_str text);
/* A view of a text or blob column, valid until the next step. */
kiln_str kiln_db_column_bytes(sqlite3_stmt *statement, int index);

/* Opens the group when there is none. */
KILN_MUST_USE kiln_status kiln_db_begin(kiln_db *db);
/* Steps a statement that returns no row and resets it. A failure other than INVALID_ARGUMENT undoes
 * the group. */
KILN_MUST_USE kiln_status kiln_db_run(kiln_db *db, sqlite3_stmt *statement, const char *doing);

/* Appends the table's column names, quoted and separated by commas, each after `prefix`. */
void kiln_db_column_list(const kiln_db_table_info *table, const char *prefix, kiln_strbuf *out);
/* Reads columns 0.. of the current row, in rows.def's order, into a row struct; views in `arena`.
 */
void kiln_db_row_read(sqlite3_stmt *statement, const kiln_db_table_info *table, kiln_arena *arena,
                      void *row);

#endif
