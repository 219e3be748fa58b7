/* What the tests of db/ share: a folder for files, and rows to fill a database with. */
#ifndef KILN_TESTS_UNIT_DB_SUPPORT_H
#define KILN_TESTS_UNIT_DB_SUPPORT_H

#include "db/db.h"
#include "tests/support/test.h"

/* Where contract tests keep their databases: a program's argument. PLACE is the address of a
 * PostgreSQL server with "%u" for a number from 0 that names one of its databases; without it,
 * files. */
void choose_place(int argc, char **argv);
bool on_server(void);
/* The address of database `number` of this test: emptied on the first call of the test, of which
 * there is one per `state`. */
const char *place(void **state, unsigned number);

/* cmocka set-up and tear-down: *state becomes the path of a new, empty folder. */
int folder_create(void **state);
int folder_remove(void **state);
/* "<folder>/<name>", valid until folder_remove. */
const char *path_in(void **state, const char *name);

kiln_db *open_records(const char *path);
kiln_db *open_as(const char *path, kiln_db_mode mode);

/* One task, one target, one device and one job, committed. */
void put_parents(kiln_db *db);
/* A checked record of that task: trial "r<number>", all samples `sample_ns`. Change fields, then
 * put it. */
kiln_db_record record_of(unsigned number, double sample_ns);
/* Puts record_of(number, sample_ns) without a commit. */
void put_record(kiln_db *db, unsigned number, double sample_ns);
/* Puts it and settles: what a database says of the row itself. */
kiln_status put_now(kiln_db *db, const kiln_db_record *row);
/* How many records a new reader sees. */
uint32_t count_records(const char *path);

#endif
