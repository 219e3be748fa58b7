/* Rows of the records database as JSON lines, for people and other programs: `kiln db export` and
 * `import`. */
#ifndef KILN_CLI_ROWS_JSON_H
#define KILN_CLI_ROWS_JSON_H

#include <jansson.h>
#include <stdio.h>

#include "db/import.h"

/* {"table": "record", "trial_id": ..., ...}; blobs are hexadecimal, samples an array, and numbers
 * that JSON does not have are "inf", "-inf", "nan". */
json_t *kiln_row_to_json(kiln_db_table table, const void *row);
/* Makes the texts of a row printable, each on one line, for tables; new ones are in `arena`. */
void kiln_row_make_printable(kiln_db_table table, void *row, kiln_arena *arena);
/* The same as one line, with every digit. */
void kiln_row_print(kiln_db_table table, const void *row, FILE *out);
/* Reads one line and hands the row to the import, whose errors it passes on. INVALID_ARGUMENT
 * naming the column: not such an object. */
KILN_MUST_USE kiln_status kiln_row_import(kiln_db_import *import, kiln_str line,
                                          kiln_arena *scratch);

#endif
