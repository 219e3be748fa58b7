/* Database files as earlier versions of Kiln left them, made by running the migrations up to there.
 */
#ifndef KILN_TESTS_UNIT_DB_OLD_FILE_H
#define KILN_TESTS_UNIT_DB_OLD_FILE_H

#include "db/db.h"

/* Makes `path` with the schema of `version` and one row in each table that it had, with a value in
 * each column that it had. Written as raw SQL: today's code writes today's schema only. */
void make_old_file(const char *path, kiln_db_kind kind, uint32_t version);
/* The open database has each of those rows, with the values that they had in `version`. */
void expect_old_rows(kiln_db *db, kiln_db_kind kind, uint32_t version);

#endif
