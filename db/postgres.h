/* Shared by the files of the PostgreSQL back end (postgres*.c) only. */
#ifndef KILN_DB_POSTGRES_H
#define KILN_DB_POSTGRES_H

#include "base/vec.h"
#include "db/backend.h"

/* libpq's, as libpq-fe.h declares them: this header compiles without it. */
typedef struct pg_conn PGconn;
typedef struct pg_result PGresult;

#define KILN_POSTGRES_PARAMETERS_MAX 64

typedef struct kiln_postgres_statement kiln_postgres_statement;

/* A run that is not sent yet; it points into kiln_postgres.arena. */
typedef struct kiln_postgres_run {
    kiln_postgres_statement *statement;
    const char *doing;
    const char *const *value;
    const int *length;
} kiln_postgres_run;

/* kiln_db.session: a connection, and the group that is open on it. */
typedef struct kiln_postgres {
    PGconn *conn;
    uint32_t connection; /* number of the connection: what was prepared on another is gone */
    uint32_t names;      /* of statements, given out so far */
    bool broken;         /* the connection is of no use any more */
    bool leads;          /* this connection holds the leader's lock */
    bool begun;          /* the server has begun the group, which holds the writer's lock */
    KILN_VEC(kiln_postgres_run) waiting; /* in the group, but not sent yet */
    size_t waiting_bytes;
    kiln_status refused; /* of a run of the group that broke a rule, until it is reported */
    kiln_arena arena;    /* of `waiting` */
    kiln_postgres_statement *streaming; /* rows of it are still coming */
} kiln_postgres;

struct kiln_postgres_statement {
    kiln_db_statement base;
    kiln_postgres *session;
    char name[24];
    uint32_t connection; /* on which it is prepared */
    uint32_t waiting;    /* runs of it */
    int parameter_count;
    const char *value[KILN_POSTGRES_PARAMETERS_MAX];
    int length[KILN_POSTGRES_PARAMETERS_MAX], format[KILN_POSTGRES_PARAMETERS_MAX];
    uint64_t number[KILN_POSTGRES_PARAMETERS_MAX]; /* big-endian */
    kiln_arena texts;                              /* those that had to be corrected */
    PGresult *row;
};

/* postgres.c */
kiln_postgres *kiln_postgres_of(const kiln_db *db);
kiln_str kiln_postgres_first_line(const char *text); /* libpq's messages have several */
bool kiln_postgres_is_lost(const kiln_postgres *s);
bool kiln_postgres_succeeded(const PGresult *result);
/* That the connection is gone: UNAVAILABLE, or ABORTED when the lead went with it. */
kiln_status kiln_postgres_lost(const kiln_db *db, const char *doing);
/* What a result, or the connection's state when it is NULL, means here. */
kiln_status kiln_postgres_error(const kiln_db *db, const PGresult *result, const char *doing);
KILN_MUST_USE kiln_status kiln_postgres_exec(kiln_db *db, const char *sql, const char *doing);
/* Connects again after a restart of the server, when no group is open there. A leader does not: it
 * lost its lock with the old connection. */
KILN_MUST_USE kiln_status kiln_postgres_reconnect(kiln_db *db, const char *doing);

/* postgres_group.c: kiln_db_backend's begin, run, settle, commit, rollback. */
KILN_MUST_USE kiln_status kiln_postgres_begin(kiln_db *db);
KILN_MUST_USE kiln_status kiln_postgres_settle(kiln_db *db);
/* Sends the waiting runs; settle and commit report those that were refused. */
KILN_MUST_USE kiln_status kiln_postgres_send(kiln_db *db);
KILN_MUST_USE kiln_status kiln_postgres_commit(kiln_db *db);
void kiln_postgres_rollback(kiln_db *db);
KILN_MUST_USE kiln_status kiln_postgres_run_later(kiln_db_statement *statement, const char *doing);

/* postgres_statement.c: its members that prepare, bind, step and read columns. */
kiln_postgres_statement *kiln_postgres_statement_of(kiln_db_statement *statement);
KILN_MUST_USE kiln_status kiln_postgres_prepare(kiln_db *db, const char *sql,
                                                kiln_db_statement **out_statement);
/* Prepares it on the present connection, unless it is. */
KILN_MUST_USE kiln_status kiln_postgres_prepare_now(kiln_db *db, kiln_postgres_statement *s,
                                                    const char *sql);
void kiln_postgres_finalize(kiln_db_statement *statement);
void kiln_postgres_bind(kiln_db_statement *statement, uint32_t index, const kiln_db_value *value);
KILN_MUST_USE kiln_status kiln_postgres_step(kiln_db_statement *statement, const char *doing,
                                             bool *out_row);
void kiln_postgres_reset(kiln_db_statement *statement);
kiln_str kiln_postgres_column_bytes(kiln_db_statement *statement, uint32_t index);
int64_t kiln_postgres_column_int(kiln_db_statement *statement, uint32_t index);
double kiln_postgres_column_real(kiln_db_statement *statement, uint32_t index);

/* postgres_sql.c: read_sql. */
KILN_MUST_USE kiln_status kiln_postgres_read_sql(kiln_db *db, kiln_str sql, kiln_db_sql_row row,
                                                 void *context);

/* First numbers of advisory locks; the second says which place. */
typedef struct kiln_postgres_kind {
    const char *schema;
    int lock;
} kiln_postgres_kind;
extern const kiln_postgres_kind kiln_postgres_kinds[];
enum { KILN_POSTGRES_WRITER, KILN_POSTGRES_LEADER };

#endif
