/* Reading of many records in pages: what a program that shows or copies a database asks for. Each
 * call is short and keeps nothing open, so that a writer's log can be checkpointed between two.
 * Rows are numbered in order of insertion; numbers only grow and are never used twice. */
#ifndef KILN_DB_BROWSE_H
#define KILN_DB_BROWSE_H

#include "db/db.h"

/* What a plot of a search needs of a record, without its trace and samples. */
typedef struct kiln_db_trial {
    int64_t row;
    kiln_str trial_id, job_id, task_key, target, searcher, algorithm, outcome, layout_in,
        layout_out;
    int64_t trial_index, threads, stored_wall_ns;
    bool is_checked, is_raced, is_final;
    double median_ns; /* 0: it has no time */
    double flops, peak_flops, gain_low, relative_error;
    double build_ns, search_ns, train_ns, board_ns;
    int64_t registers, spill_bytes, shared_bytes;
} kiln_db_trial;

typedef struct kiln_db_trial_filter {
    kiln_str job_id, task_key, target; /* empty: any; at least one is set */
    const kiln_db_projects *projects;  /* NULL: of all */
    int64_t after_row;                 /* 0: from the first */
    uint32_t limit;                    /* at most so many; not 0 */
} kiln_db_trial_filter;

/* Texts last until it returns. It may not use the database. */
typedef kiln_status (*kiln_db_trial_visit)(void *context, const kiln_db_trial *trial);
/* Calls `visit` for trials that are not quarantined, in the order of their rows; stops at its first
 * error. Some 2 us a trial; with a task but no job or target, all trials of the task are sorted. */
KILN_MUST_USE kiln_status kiln_db_trials(kiln_db *db, const kiln_db_trial_filter *filter,
                                         kiln_db_trial_visit visit, void *context);

/* The records of a job that has run before have "JOB.RUN" as their job: the newest of these, in
 * `arena`; `job` itself where the database has none. */
KILN_MUST_USE kiln_status kiln_db_newest_run(kiln_db *db, kiln_str job, kiln_arena *arena,
                                             kiln_str *out_id);

/* What a board's reference kernel said beside a record. */
typedef struct kiln_db_reading {
    int64_t stored_wall_ns;
    double drift, drift_memory; /* of the record */
    bool is_throttled;
} kiln_db_reading;
/* The newest readings of a device, at most `limit`, the oldest of them first, in `arena`.
 * `projects`: of these alone; NULL: of all. From an index: some 1 us for each record of the
 * device that is looked at. */
KILN_MUST_USE kiln_status kiln_db_readings(kiln_db *db, kiln_str device_id,
                                           const kiln_db_projects *projects, uint32_t limit,
                                           kiln_arena *arena, kiln_db_reading **out_readings,
                                           uint32_t *out_count);

/* Rows of a table in the order of their insertion: kiln_db_each in pages. */
typedef struct kiln_db_page {
    kiln_db_table table;              /* of a records database, not the signers */
    const kiln_db_projects *projects; /* NULL: all; else records, jobs and tasks of these alone, and
                                         no tombstones */
    int64_t after_row;                /* 0: from the first */
    int64_t last_row;                 /* later rows are left out */
    uint32_t limit;                   /* at most so many; not 0 */
} kiln_db_page;
/* `*out_row`: the last row visited, for the next page; 0: there was none left. */
KILN_MUST_USE kiln_status kiln_db_visit_page(kiln_db *db, const kiln_db_page *page,
                                             kiln_db_visit visit, void *context, int64_t *out_row);
/* The newest row of a table; 0: it is empty. A copy that first asks for the newest record and then
 * takes the tables in the order of rows.def has each row that its records refer to. */
KILN_MUST_USE kiln_status kiln_db_newest_row(kiln_db *db, kiln_db_table table, int64_t *out_row);

/* Appends a row as `kiln db export` prints it, one JSON object without a line's end: texts as they
 * are, blobs in hexadecimal, real numbers with 17 digits, infinities by their names. Bytes that are
 * no UTF-8 become U+FFFD. */
void kiln_db_row_print_json(kiln_db_table table, const void *row, kiln_strbuf *out);
/* The same without columns of bytes and of samples, which are most of a record's size. */
void kiln_db_row_print_brief_json(kiln_db_table table, const void *row, kiln_strbuf *out);
/* Appends a text as a JSON string in ASCII, with its quotes. */
void kiln_db_text_print_json(kiln_str text, kiln_strbuf *out);
/* Appends a number as JSON; infinities and NaN as their names in quotes. */
void kiln_db_real_print_json(double value, kiln_strbuf *out);

#endif
