/* The interface between db/ and its back ends: one table of operations per back end, private to
 * db/. Code above it (rows.c, query.c, migrate.c, bundle.c) is shared and uses the SQL that all
 * back ends understand: double quotes round names that may be reserved, placeholders $1, $2, ...,
 * "ON CONFLICT", "FILTER", CAST to BIGINT and DOUBLE PRECISION, and in each table that is read in
 * order of insertion a column rowid. Code below it (sqlite.c, postgres.c) is all that differs:
 * opening, the lock of the writer, durability, errors, and schema/<back end>/.
 *
 * To add one: a row in backends.def, one file, its schema; the contract tests (tests/unit/db) run
 * over every row. */
#ifndef KILN_DB_BACKEND_H
#define KILN_DB_BACKEND_H

#include "db/db.h"

#define KILN_DB_STATEMENTS_MAX 48u /* kept prepared per handle */

typedef struct kiln_db_migrations {
    const char *const *script; /* [count]; script[i] leads from version i to i + 1 */
    uint32_t count;
} kiln_db_migrations;

/* A prepared statement; a back end's own begins with this. */
typedef struct kiln_db_statement {
    kiln_db *db;
    kiln_str sql; /* heap-owned */
    bool busy;    /* between kiln_db_prepare and kiln_db_release */
    uint64_t last_use;
} kiln_db_statement;

/* A bound parameter. Empty bytes of TEXT and BLOB are stored as NULL. */
typedef struct kiln_db_value {
    kiln_db_type type; /* not SAMPLES: those are a BLOB */
    kiln_str bytes;    /* TEXT, BLOB: lasts until the statement is reset */
    int64_t integer;
    double real;
} kiln_db_value;

/* All members but `copy` are required, and all are called from the handle's thread. `doing` names
 * the operation in error messages: "storing a record". Errors are those of db.h. */
typedef struct kiln_db_backend {
    /* By kiln_db_kind. */
    const kiln_db_migrations *migrations;

    /* Opens db->path for db->mode and sets db->session, which `close` frees; after a failed `open`
     * `close` is called too. It writes nothing yet: the file may belong to another program. */
    kiln_status (*open)(kiln_db *db);
    void (*close)(kiln_db *db);
    /* See kiln_db_bound_cache. */
    void (*bound_cache)(kiln_db *db, size_t bytes);
    /* The schema's version; 0: nothing is there yet. FAILED_PRECONDITION: not a database of this
     * kind. */
    kiln_status (*read_version)(kiln_db *db, int64_t *out_version);
    /* Runs a migration's script and sets the version, inside a group. */
    kiln_status (*migrate)(kiln_db *db, const char *script, uint32_t version);

    /* Opens a transaction. UNAVAILABLE: another program holds the writer's lock. */
    kiln_status (*begin)(kiln_db *db);
    /* Afterwards the group holds the writer's lock, and every run of it was accepted or refused, as
     * kiln_db_settle says. */
    kiln_status (*settle)(kiln_db *db);
    /* Durable when it returns NULL; otherwise `rollback` follows. */
    kiln_status (*commit)(kiln_db *db);
    /* Also when the back end has rolled back by itself already, and when there is nothing to undo.
     */
    void (*rollback)(kiln_db *db);

    /* *out_statement gets a heap-owned struct of the back end; the caller fills in its
     * kiln_db_statement. */
    kiln_status (*prepare)(kiln_db *db, const char *sql, kiln_db_statement **out_statement);
    void (*finalize)(kiln_db_statement *statement);
    void (*bind)(kiln_db_statement *statement, uint32_t index, const kiln_db_value *value);
    /* The next row; *out_row false at the end. Its columns last until the next step or reset. */
    kiln_status (*step)(kiln_db_statement *statement, const char *doing, bool *out_row);
    /* Runs a statement that returns no row, in a group; or keeps it until the next settle, step or
     * commit. After INVALID_ARGUMENT the group is as it was before. */
    kiln_status (*run)(kiln_db_statement *statement, const char *doing);
    /* Ready to be bound and stepped anew; bindings are forgotten. */
    void (*reset)(kiln_db_statement *statement);

    /* NULL is empty or 0. Views last until the next step. */
    kiln_str (*column_bytes)(kiln_db_statement *statement, uint32_t index);
    int64_t (*column_int)(kiln_db_statement *statement, uint32_t index);
    double (*column_real)(kiln_db_statement *statement, uint32_t index);

    /* kiln_db_sql: calls `row` for each row; refuses statements that do not only read. */
    kiln_status (*read_sql)(kiln_db *db, kiln_str sql, kiln_db_sql_row row, void *context);

    /* See kiln_db_lead, kiln_db_claim, kiln_db_unclaim. */
    kiln_status (*lead)(kiln_db *db, bool *out_leads);
    kiln_status (*claim)(kiln_db *db, kiln_str id, kiln_str holder, bool *out_has);
    kiln_status (*unclaim)(kiln_db *db, kiln_str id, kiln_str holder);
    /* See kiln_db_copy; NULL: a server, which copies by its own means. Nothing is at `to`. */
    kiln_status (*copy)(kiln_db *db, const char *to);
} kiln_db_backend;

struct kiln_db {
    const kiln_db_backend *backend;
    const kiln_db_migrations *migrations; /* of its kind */
    void *session;                        /* of the back end */
    char *path;
    kiln_strbuf name; /* the path as people may see it: no password */
    kiln_db_kind kind;
    kiln_db_mode mode;
    bool pending; /* a group is open */
    /* Of our rows, and of those of others; busy for as long as the handle lives. */
    kiln_db_statement *put[KILN_DB_TABLE_COUNT][2];
    kiln_db_statement *statement[KILN_DB_STATEMENTS_MAX];
    uint32_t statement_count;
    uint64_t clock; /* counts uses of statements */
};

/* By kiln_db_kind; made by embed.py. */
extern const kiln_db_migrations kiln_db_sqlite_migrations[], kiln_db_postgres_migrations[];

extern const kiln_db_backend kiln_db_sqlite;
extern const kiln_db_backend kiln_db_postgres; /* with -Dpostgres=enabled */

/* kiln_db_open with the schema brought to the end of `migrations` and no further: how tests make
 * old databases. NULL: the back end's own. */
KILN_MUST_USE kiln_status kiln_db_open_with(const char *path, kiln_db_kind kind, kiln_db_mode mode,
                                            const kiln_db_migrations *migrations, kiln_db **out_db);
/* Brings an open handle's schema up to date, each script in a group of its own: a crash leaves the
 * old version or the new one. When reading, the version must be the newest already. */
KILN_MUST_USE kiln_status kiln_db_migrate(kiln_db *db);
/* The schema's version, at most that of this program. Errors of read_version; FAILED_PRECONDITION:
 * it is newer, or there is no schema at all. */
KILN_MUST_USE kiln_status kiln_db_read_schema(kiln_db *db, uint32_t *out_schema);

/* A statement with this text: a kept one that is idle, or a new one. Every one is given back with
 * kiln_db_release. */
KILN_MUST_USE kiln_status kiln_db_prepare(kiln_db *db, const char *sql,
                                          kiln_db_statement **out_statement);
void kiln_db_release(kiln_db_statement *statement); /* NULL is fine */
void kiln_db_bind_text(kiln_db_statement *statement, uint32_t index, kiln_str text);

/* Opens the group when there is none. */
KILN_MUST_USE kiln_status kiln_db_begin(kiln_db *db);
/* Runs a statement that returns no row and resets it. A failure other than INVALID_ARGUMENT undoes
 * the group. */
KILN_MUST_USE kiln_status kiln_db_run(kiln_db_statement *statement, const char *doing);

/* Reads columns 0.. of the current row, in rows.def's order, into a row struct; views in `arena`.
 */
void kiln_db_row_read(kiln_db_statement *statement, const kiln_db_table_info *table,
                      kiln_arena *arena, void *row);

/* kiln_db_put for a row of another database: it never replaces a stored row, except that a record
 * replaces one of lower standing (import.c decides its standing). */
KILN_MUST_USE kiln_status kiln_db_put_foreign(kiln_db *db, kiln_db_table table, const void *row);

/* trust.c, for questions about records. */
/* Appends a condition: the record's signer is one of these and is not refused here. */
void kiln_db_append_trusted(const char *row, const kiln_db_trusting *trusting, kiln_strbuf *sql);
/* The origin of records that count for a project. */
void kiln_db_project_origin_print(kiln_str project, kiln_strbuf *out);

#endif
