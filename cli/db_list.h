/* What `kiln db best|top|history|sql` print: a table for people, CSV for other programs, or one
 * JSON object a line. */
#ifndef KILN_CLI_DB_LIST_H
#define KILN_CLI_DB_LIST_H

#include "cli/cli.h"
#include "db/db.h"

typedef enum kiln_db_form {
    KILN_DB_FORM_TEXT, /* units that a person reads, columns aligned */
    KILN_DB_FORM_CSV,  /* RFC 4180 with a header; raw units, nothing cut */
    KILN_DB_FORM_JSON, /* every column of the table, and `label`, `model`, `gflops` */
} kiln_db_form;

/* Prints records with their model and the shape of their task, which `db` knows. Errors: those of
 * reading. */
KILN_MUST_USE kiln_status kiln_db_list_records(kiln_db *db, kiln_db_form form,
                                               const kiln_db_record *record, uint32_t count,
                                               kiln_arena *process);

/* A row of a person's statement, for kiln_db_sql; `*context` is a kiln_db_lister. In text, cells
 * are apart by tabs. The first row is the columns' names. */
typedef struct kiln_db_lister {
    kiln_db_form form;
    bool begun; /* the names were printed */
} kiln_db_lister;
kiln_status kiln_db_list_cells(void *context, uint32_t count, const kiln_db_cell *cell);

/* Appends a cell of CSV: in quotes where it holds a comma, a quote or a line's end. */
void kiln_csv_append(kiln_str text, kiln_strbuf *out);

#endif
