/* INSTALLED. Queries of a database of records: measurements, their schedules and boards. All
 * functions only read; other programs may write at the same time.
 *
 * Functions that can fail return 0 or a code and leave one line of text in `error` when it is not
 * NULL, as those of modules do. A handle is used by one thread at a time. */
#ifndef KILN_LIBKILN_RECORDS_H
#define KILN_LIBKILN_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_records kiln_records; /* an open database */
typedef struct kiln_rows kiln_rows;       /* an answer; it outlives the database's handle */

/* Selection and order of records. */
enum {
    KILN_RECORDS_FASTEST = 0, /* only records that may be best: correct, finals first, then by
                               * median */
    KILN_RECORDS_OLDEST = 1,  /* all that are not in quarantine, as they were stored */
    KILN_RECORDS_NEWEST = 2
};

typedef struct kiln_records_filter {
    size_t struct_bytes; /* sizeof(kiln_records_filter): later versions have more members behind */
    const char *task;    /* key; NULL: of any task */
    const char *target;  /* in any form that --target accepts; NULL: for any target */
    const char *job;     /* identity; NULL: of any job */
    uint32_t order;
    uint32_t limit; /* 0: all */
} kiln_records_filter;

/* The database at `path`: a file, or postgres://HOST/DATABASE if this build supports it; NULL: the
 * user's database, $KILN_HOME/kiln.db. */
int kiln_records_open(const char *path, kiln_records **out_records, char *error,
                      size_t error_bytes);
/* Accepts NULL. */
void kiln_records_close(kiln_records *records);

/* Records that match, with the columns of the table `record`, `op` (operators of the task) and
 * `model` (of the job). `filter` NULL: all, fastest first. NOT_FOUND (5): the target has no
 * records; the text lists targets that have some. */
int kiln_records_find(kiln_records *records, const kiln_records_filter *filter,
                      kiln_rows **out_rows, char *error, size_t error_bytes);
/* The fastest matching record of each task and target, ordered by task key, then target. */
int kiln_records_best(kiln_records *records, const kiln_records_filter *filter,
                      kiln_rows **out_rows, char *error, size_t error_bytes);
/* One read-only SQL statement, in the dialect of the database. */
int kiln_records_sql(kiln_records *records, const char *statement, kiln_rows **out_rows,
                     char *error, size_t error_bytes);

/* Types of columns. */
enum {
    KILN_ROWS_TEXT = 1, /* UTF-8 unless the database is damaged */
    KILN_ROWS_BYTES = 2,
    KILN_ROWS_INT = 3,
    KILN_ROWS_REAL = 4,
    KILN_ROWS_REALS = 5 /* an array of numbers: samples, in ns */
};

/* Pointers live as long as the rows. Indices must be below the counts, and types those of the
 * column. */
size_t kiln_rows_count(const kiln_rows *rows);
uint32_t kiln_rows_column_count(const kiln_rows *rows);
const char *kiln_rows_column_name(const kiln_rows *rows, uint32_t column);
/* Description of the column for people; "" in answers to SQL. */
const char *kiln_rows_column_meaning(const kiln_rows *rows, uint32_t column);
uint32_t kiln_rows_column_type(const kiln_rows *rows, uint32_t column);
/* 1 for SQL's NULL, for which the functions below return "", 0 and an empty array. */
int kiln_rows_is_null(const kiln_rows *rows, size_t row, uint32_t column);
/* For TEXT and BYTES, NUL-terminated; `out_bytes` may be NULL. */
const char *kiln_rows_text(const kiln_rows *rows, size_t row, uint32_t column, size_t *out_bytes);
int64_t kiln_rows_int(const kiln_rows *rows, size_t row, uint32_t column);
double kiln_rows_real(const kiln_rows *rows, size_t row, uint32_t column);
const double *kiln_rows_reals(const kiln_rows *rows, size_t row, uint32_t column,
                              size_t *out_count);
/* Accepts NULL. */
void kiln_rows_free(kiln_rows *rows);

#ifdef __cplusplus
}
#endif

#endif
