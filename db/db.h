/* The databases: the front header of db/. Two kinds of database go through the same
 * code: the records database of the tuner and the command line (tasks, targets, devices, jobs,
 * measurement records) and the tracker's own (jobs, leases, the epoch). Each is an SQLite file, or,
 * for teams, a schema in a PostgreSQL database that several tuners and a standby tracker share.
 *
 * Writes collect in one transaction that the first of them opens; kiln_db_commit makes the group
 * durable (synchronous = FULL), and only then may anything in it be acknowledged. A write or commit
 * that fails undoes the whole group, and the caller may write it again.
 *
 * Row types and tables expand from rows.def. A handle is used by one thread at a
 * time. */
#ifndef KILN_DB_DB_H
#define KILN_DB_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/assembled.h"
#include "base/identity.h"
#include "base/outcome.h"
#include "base/status.h"
#include "base/str.h"

#define KILN_DB_TEXT_MAX ((size_t)16 << 20)    /* of one text or blob column */
#define KILN_DB_CLAIM_NS UINT64_C(10000000000) /* how long a claim holds that is not renewed */
#define KILN_DB_GROUP_NS \
    UINT64_C(20000000) /* longest time a group may stay open before its commit */

typedef struct kiln_db kiln_db;

typedef enum kiln_db_kind { KILN_DB_RECORDS, KILN_DB_TRACKER } kiln_db_kind;
typedef enum kiln_db_mode { KILN_DB_READ, KILN_DB_WRITE } kiln_db_mode;

/* C types of columns. TEXT and BLOB are views; SAMPLES are stored as little-endian float64. */
typedef struct kiln_db_samples {
    const double *data;
    size_t count;
} kiln_db_samples;
typedef enum kiln_db_type {
    KILN_DB_TEXT,
    KILN_DB_BLOB,
    KILN_DB_INT,
    KILN_DB_REAL,
    KILN_DB_SAMPLES
} kiln_db_type;
#define KILN_DB_CTYPE_TEXT kiln_str
#define KILN_DB_CTYPE_BLOB kiln_str
#define KILN_DB_CTYPE_INT int64_t
#define KILN_DB_CTYPE_REAL double
#define KILN_DB_CTYPE_SAMPLES kiln_db_samples

/* Row structs kiln_db_task, kiln_db_target, kiln_db_device, kiln_db_fingerprint, kiln_db_job,
 * kiln_db_record, and the tracker's kiln_db_tracker_*: one member per column of rows.def. */
#define KILN_DB_MEMBER(R, type, name, meaning) KILN_DB_CTYPE_##type name;
#define TABLE(NAME, name, kind, conflict, identity, columns) \
    typedef struct kiln_db_##name {                          \
        columns(KILN_DB_MEMBER, )                            \
    } kiln_db_##name;
#include "db/rows.def"
#undef TABLE

/* What a record says of its assembled artefact; what no assembler says is 0. */
kiln_assembled kiln_record_assembled(const kiln_db_record *record);
void kiln_record_set_assembled(kiln_db_record *record, const kiln_assembled *assembled);

typedef enum kiln_db_table {
#define TABLE(NAME, name, kind, conflict, identity, columns) KILN_DB_TABLE_##NAME,
#include "db/rows.def"
#undef TABLE
    KILN_DB_TABLE_COUNT
} kiln_db_table;

typedef struct kiln_db_column {
    const char *name, *meaning;
    kiln_db_type type;
    size_t offset; /* of the member in the row struct */
} kiln_db_column;

/* What putting a row does when its identity is stored already: the stored row stays, or the new one
 * takes its place. */
typedef enum kiln_db_conflict { KILN_DB_KEEP, KILN_DB_REPLACE } kiln_db_conflict;
typedef struct kiln_db_table_info {
    const char *name;
    kiln_db_kind kind;
    kiln_db_conflict conflict;
    const kiln_db_column *column; /* the first identity_count of them identify a row */
    const char *column_list;      /* their names as SQL has them: "a", "b" */
    uint32_t column_count, identity_count;
    size_t row_size;
} kiln_db_table_info;

/* How a record came here, and whether a signer is trusted: rows of origins.def and trusts.def. */
typedef enum kiln_db_origin {
#define X(NAME, text, meaning) KILN_DB_ORIGIN_##NAME,
#include "db/origins.def"
#undef X
    KILN_DB_ORIGIN_COUNT
} kiln_db_origin;
typedef enum kiln_db_trust {
#define X(NAME, text, counts, meaning) KILN_DB_TRUST_##NAME,
#include "db/trusts.def"
#undef X
    KILN_DB_TRUST_COUNT
} kiln_db_trust;
const char *kiln_db_origin_name(kiln_db_origin origin);

/* How far a record is trusted in this database (docs/decisions/0020-who-measured-it.md). Above HINT
 * it counts: it may be best, may ship, and is not measured again. A hint is only tried early and
 * learnt from. */
typedef enum kiln_db_standing {
    KILN_DB_QUARANTINED = -1, /* by kiln db quarantine: as if it were not there */
    KILN_DB_HINT = 0,
    KILN_DB_TRUSTED = 1,  /* its signer is trusted */
    KILN_DB_MEASURED = 2, /* measured here, or here before records were signed */
} kiln_db_standing;

/* Opens the database at `path`, with KILN_DB_WRITE creates it and brings its schema up to date.
 * `path` is a file, or postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE (what libpq takes);
 * ":memory:" is for tests.
 * NOT_FOUND            reading what does not exist
 * PERMISSION_DENIED    the file or its folder cannot be read or written; the server refused us
 * FAILED_PRECONDITION  a newer Kiln wrote it, or it is the other kind of database
 * DATA_LOSS            it is not a database, or is damaged
 * UNAVAILABLE          another process holds the writer's lock for longer than 5 s, or the server
 *                      cannot be reached
 * UNIMPLEMENTED        a server's address in a build without it */
KILN_MUST_USE kiln_status kiln_db_open(const char *path, kiln_db_kind kind, kiln_db_mode mode,
                                       kiln_db **out_db);
/* Undoes what is not committed. NULL is fine. */
void kiln_db_close(kiln_db *db);
/* Bounds the memory in which a handle keeps pages of a file, for programs with many handles; a
 * server keeps them itself. */
void kiln_db_bound_cache(kiln_db *db, size_t bytes);
/* Whether there is a database to read; true for each server, which only opening asks. */
bool kiln_db_is_there(const char *path);
/* Appends `path` as it may be shown: without user, password and options of a server. */
void kiln_db_print_path(const char *path, kiln_strbuf *out);
/* Copies the committed content of a database, of this schema or an older one, into the new file
 * `to` while programs go on writing to the original; they are not delayed. The copy is not synced.
 * Cost: that of copying the file.
 *
 * ALREADY_EXISTS       there is a file at `to`
 * UNIMPLEMENTED        the database is on a server; the text says what to use
 * others               as kiln_db_open for reading, but an older schema is fine */
KILN_MUST_USE kiln_status kiln_db_copy(const char *path, kiln_db_kind kind, const char *to,
                                       uint32_t *out_schema);
/* The newest schema that this program knows. */
uint32_t kiln_db_newest_schema(kiln_db_kind kind);
/* Tries to become the one program that leads here (trackers that share a database do), never
 * waits. A leader leads until it closes, dies, or loses its connection to the server: then its
 * writes fail with ABORTED and it must stop. A leader that asks again stays one. UNAVAILABLE the
 * server cannot be reached */
KILN_MUST_USE kiln_status kiln_db_lead(kiln_db *db, bool *out_leads);

/* Waits until every row of the open group was taken or refused. A file does that in each put; a
 * server gets many rows at a time, and only this and kiln_db_commit say what it refused.
 * INVALID_ARGUMENT     rows were refused, the first for this reason; the group goes on without them
 * others               as kiln_db_put: the group is undone */
KILN_MUST_USE kiln_status kiln_db_settle(kiln_db *db);
/* Claims `id` for `holder` (a name that a program keeps over its restarts) among all that share
 * these records, or renews the claim; never waits. It lasts for KILN_DB_CLAIM_NS, by the database's
 * own clock, or until kiln_db_unclaim. A file grants every claim: it is one machine's, whose
 * tracker hands each job to one tuner; tuners of a server may have lost the tracker.
 * UNAVAILABLE          the server cannot be reached */
KILN_MUST_USE kiln_status kiln_db_claim(kiln_db *db, kiln_str id, kiln_str holder, bool *out_has);
/* Does nothing to another holder's claim. */
KILN_MUST_USE kiln_status kiln_db_unclaim(kiln_db *db, kiln_str id, kiln_str holder);

/* Makes every write since the last commit durable. Nothing open: nothing happens.
 * INVALID_ARGUMENT     a row was refused and kiln_db_settle was not called; the group is undone
 * RESOURCE_EXHAUSTED   the disk is full; the group is undone
 * UNAVAILABLE          the server is gone; the group is undone, or stored whole when the server got
 *                      it just before: offering it again is right in both cases */
KILN_MUST_USE kiln_status kiln_db_commit(kiln_db *db);
void kiln_db_rollback(kiln_db *db);
/* Whether writes wait for a commit. */
bool kiln_db_pending(const kiln_db *db);

/* kiln_db_put_task(db, &row) and so on: adds a row. What a row with the same identity means is the
 * table's column `conflict`: KEEP leaves the stored row as it is (the same record offered twice is
 * stored once), REPLACE overwrites it. A stored record that stands lower is removed first.
 * These rows are ours; those of others come by db/import.h, and never replace ours. Views are
 * copied. In a record, `median_ns` and `min_ns` are derived from the samples here; 'ok' needs at
 * least one sample; without an origin it was measured here, and stands as such. INVALID_ARGUMENT a
 * column breaks a rule of the schema (unknown outcome, missing parent row,
 *                      ...); this row is refused and the group goes on (see kiln_db_settle)
 * RESOURCE_EXHAUSTED   the disk is full; the group is undone */
#define TABLE(NAME, name, kind, conflict, identity, columns) \
    KILN_MUST_USE kiln_status kiln_db_put_##name(kiln_db *db, const kiln_db_##name *row);
#include "db/rows.def"
#undef TABLE

/* The same over tables as data, for export and import. Row pointers are row structs of that table.
 */
const kiln_db_table_info *kiln_db_table_info_of(kiln_db_table table);
bool kiln_db_table_find(kiln_str name, kiln_db_table *out_table);
KILN_MUST_USE kiln_status kiln_db_put(kiln_db *db, kiln_db_table table, const void *row);
/* A row with all that its views see, in the arena. */
void *kiln_db_copy_row(kiln_db_table table, const void *row, kiln_arena *arena);
/* Removes the row with this identity (first column; tables with REPLACE only). Absent is fine. */
KILN_MUST_USE kiln_status kiln_db_remove(kiln_db *db, kiln_db_table table, kiln_str identity);
/* Calls `visit` for each row in order of insertion; views last until it returns. It may not use
 * `db`. Stops at its first error. */
typedef kiln_status (*kiln_db_visit)(void *context, kiln_db_table table, const void *row);
KILN_MUST_USE kiln_status kiln_db_each(kiln_db *db, kiln_db_table table, kiln_db_visit visit,
                                       void *context);

/* Which records, by their standing; never quarantined ones. */
typedef enum kiln_db_whose {
    KILN_DB_COUNTING, /* what counts */
    KILN_DB_HINTS,    /* what does not; FASTEST orders these by time alone */
    KILN_DB_HERE,     /* what was measured here */
    KILN_DB_ANY,      /* what counts, and hints */
} kiln_db_whose;

/* Signers whose records count in a job of a project, beside records that count anyway, unless a
 * person refused them here. Records that count only for another project do not. */
typedef struct kiln_db_trusting {
    const kiln_str *signer; /* public halves, hexadecimal */
    uint32_t count;
} kiln_db_trusting;

/* Which records, and in which order. Empty text means any. */
typedef enum kiln_db_order {
    KILN_DB_OLDEST, /* as they were stored */
    KILN_DB_NEWEST,
    KILN_DB_FASTEST, /* only records that may be best: outcome ok, checked, not raced out, not
                        superseded by a final of the same trace, and no final that its default
                        beat; finals first, then by median */
} kiln_db_order;
/* The records that a budget of accuracy allows (base/accuracy.h). Every choice among records goes
 * through a filter, so this is the only check of the budget. */
typedef struct kiln_db_allowed {
    kiln_str algorithms; /* comma-separated names; empty: any, whatever the error */
    double error_max;    /* of what is not direct */
} kiln_db_allowed;

/* Projects whose records a person may read. */
#define KILN_DB_PROJECTS_MAX 1024u
typedef struct kiln_db_projects {
    const kiln_str *name;
    uint32_t count; /* at most KILN_DB_PROJECTS_MAX; 0: nothing may be read */
} kiln_db_projects;

typedef struct kiln_db_filter {
    kiln_str task_key, target, job_id, trial_id, codegen_version, trace_hash;
    kiln_str layout_in, layout_out;
    kiln_db_whose whose;
    const kiln_db_trusting *trusting; /* for COUNTING and HINTS; NULL: as the records stand */
    kiln_db_allowed allowed;
    bool by_layout; /* match layout_in and layout_out even when they are empty */
    kiln_db_order order;
    uint32_t limit;         /* 0: all */
    uint32_t offset;        /* with a limit: rows left out before; each costs as one returned */
    int64_t before_wall_ns; /* only records stored before; 0: all */
    const kiln_db_projects *projects; /* NULL: of all, and of none */
} kiln_db_filter;

/* Records that match, rows and their views in `arena`; count 0 is no error. */
KILN_MUST_USE kiln_status kiln_db_records(kiln_db *db, const kiln_db_filter *filter,
                                          kiln_arena *arena, kiln_db_record **out_records,
                                          uint32_t *out_count);
/* The first record in the order KILN_DB_FASTEST per (task, target) among those that match, ordered
 * by task key, then target. */
KILN_MUST_USE kiln_status kiln_db_best(kiln_db *db, const kiln_db_filter *filter, kiln_arena *arena,
                                       kiln_db_record **out_records, uint32_t *out_count);
/* The row with this identity; *out_found false when there is none. */
KILN_MUST_USE kiln_status kiln_db_find_task(kiln_db *db, kiln_str key, kiln_arena *arena,
                                            kiln_db_task *out_task, bool *out_found);
KILN_MUST_USE kiln_status kiln_db_find_job(kiln_db *db, kiln_str id, kiln_arena *arena,
                                           kiln_db_job *out_job, bool *out_found);

/* Identities that records have, and people name them by. */
typedef enum kiln_db_identity {
    KILN_DB_OF_TRIAL,
    KILN_DB_OF_JOB,
    KILN_DB_OF_SIGNER,
    KILN_DB_OF_TRACE,
    KILN_DB_OF_TASK,
    KILN_DB_IDENTITY_COUNT,
} kiln_db_identity;
/* Offers those of that kind which begin with what was typed, at most a few. */
KILN_MUST_USE kiln_status kiln_db_try_identities(kiln_db *db, kiln_db_identity kind,
                                                 kiln_identity_search *search);

/* Counts per (task, target), in order of the task's first record. They are kept as records come in,
 * so the cost is that of the pairs, not of the records. */
typedef struct kiln_db_stat {
    kiln_str task_key, op, target;
    int64_t record_count;
    int64_t outcome_count[KILN_OUTCOME_COUNT];
    int64_t raced_count;                        /* of record_count */
    int64_t final_count;                        /* beside them: candidates measured once more */
    int64_t origin_count[KILN_DB_ORIGIN_COUNT]; /* of both */
    double best_ns;    /* median of the one that kiln_db_best returns; 0 when nothing may be best */
    double sampled_ns; /* median times number of samples, summed */
    int64_t first_wall_ns, last_wall_ns;
} kiln_db_stat;
KILN_MUST_USE kiln_status kiln_db_stats(kiln_db *db, kiln_arena *arena, kiln_db_stat **out_stats,
                                        uint32_t *out_count);
/* The same of the records of these projects alone; NULL: of all records. */
KILN_MUST_USE kiln_status kiln_db_stats_of(kiln_db *db, const kiln_db_projects *projects,
                                           kiln_arena *arena, kiln_db_stat **out_stats,
                                           uint32_t *out_count);

/* Runs one read-only statement, in the SQL of the back end. Cells are text as the back end prints
 * it; blobs are hex; NULL is NULL. INVALID_ARGUMENT     it does not parse, is more than one
 * statement, or would change something */
typedef struct kiln_db_cell {
    const char *name, *text; /* of the column; NULL: nothing is there */
    bool is_number;
} kiln_db_cell;
typedef kiln_status (*kiln_db_sql_row)(void *context, uint32_t column_count,
                                       const kiln_db_cell *cell);
KILN_MUST_USE kiln_status kiln_db_sql(kiln_db *db, kiln_str sql, kiln_db_sql_row row,
                                      void *context);

#endif
