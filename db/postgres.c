/* The PostgreSQL back end, on libpq: each kind of database is a schema (kiln_records, kiln_tracker)
 * of the database that the address names, so that both can share one. Advisory locks replace the
 * locks of SQLite's file: one group writes at a time, which also makes rowid the order of commits,
 * and one tracker leads. */
#include <libpq-fe.h>
#include <string.h>

#include "base/alloc.h"
#include "db/postgres.h"

/* A group is open for milliseconds. Waiting longer than `lock_timeout` means that another program
 * keeps the writer's lock. A program that stops inside a group loses the lock after the idle time,
 * and one whose machine is gone when the server's keepalives fail. */
#define SESSION_SETTINGS                                                                          \
    "SELECT set_config('lock_timeout', '5s', false) WHERE current_setting('lock_timeout') = '0';" \
    "SELECT set_config('synchronous_commit', 'on', false)"                                        \
    " WHERE current_setting('synchronous_commit') = 'off';"                                       \
    "SET idle_in_transaction_session_timeout = '10s'; SET client_min_messages = warning;"         \
    "SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 1;"                               \
    "SET tcp_keepalives_count = 3; SET tcp_user_timeout = 5000; SET bytea_output = 'hex';"

const kiln_postgres_kind kiln_postgres_kinds[] = {
    [KILN_DB_RECORDS] = {"kiln_records", 0x4b4c4e52},
    [KILN_DB_TRACKER] = {"kiln_tracker", 0x4b4c4e54},
};

kiln_postgres *kiln_postgres_of(const kiln_db *db) { return db->session; }

/* ---- Errors ---- */

static const struct {
    char state[6]; /* SQLSTATE, or the class that it begins with */
    kiln_code code;
    const char *advice;
} errors[] = {
    {"53100", KILN_RESOURCE_EXHAUSTED, " (the disk is full; nothing of it was stored)"},
    {"53", KILN_RESOURCE_EXHAUSTED, ""},
    {"55P03", KILN_UNAVAILABLE, " (another program is writing to it; stop that one)"},
    {"40", KILN_UNAVAILABLE, ""},
    {"57", KILN_UNAVAILABLE, ""},
    {"25006", KILN_PERMISSION_DENIED, ""},
    {"42501", KILN_PERMISSION_DENIED, ""},
    {"28", KILN_PERMISSION_DENIED, ""},
    {"22", KILN_INVALID_ARGUMENT, ""},
    {"23", KILN_INVALID_ARGUMENT, ""},
    {"P0", KILN_INVALID_ARGUMENT, ""}, /* raised by a trigger */
    {"42P", KILN_FAILED_PRECONDITION, ""},
    {"XX001", KILN_DATA_LOSS, ""},
    {"XX002", KILN_DATA_LOSS, ""},
};

kiln_str kiln_postgres_first_line(const char *text) {
    kiln_str rest = kiln_str_trim(kiln_str_from(text));
    return kiln_str_cut(&rest, '\n');
}

bool kiln_postgres_is_lost(const kiln_postgres *s) {
    return s->broken || PQstatus(s->conn) != CONNECTION_OK;
}

kiln_status kiln_postgres_lost(const kiln_db *db, const char *doing) {
    kiln_postgres *s = kiln_postgres_of(db);
    s->broken = true;
    if (s->leads)
        return KILN_ERROR(ABORTED,
                          "%s: %s: the connection is lost, and with it the lead: another may have "
                          "it now",
                          db->name.data, doing);
    kiln_str why = kiln_postgres_first_line(PQerrorMessage(s->conn));
    return KILN_ERROR(UNAVAILABLE, "%s: %s: the server is gone: %.*s", db->name.data, doing,
                      KILN_STR_ARG(why));
}

kiln_status kiln_postgres_error(const kiln_db *db, const PGresult *result, const char *doing) {
    const kiln_postgres *s = kiln_postgres_of(db);
    /* A server that ends a connection says so first; an error without a state is libpq's own. */
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (kiln_postgres_is_lost(s) || !state || strcmp(severity, "FATAL") == 0)
        return kiln_postgres_lost(db, doing);
    kiln_str why = kiln_postgres_first_line(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
    kiln_code code = KILN_INTERNAL;
    const char *advice = "";
    for (size_t i = 0; i < KILN_ARRAY_COUNT(errors); i++) {
        if (strncmp(state, errors[i].state, strlen(errors[i].state)) != 0) continue;
        code = errors[i].code;
        advice = errors[i].advice;
        break;
    }
    return kiln_status_make(code, __FILE__, __LINE__, "%s: %s: %.*s%s", db->name.data, doing,
                            KILN_STR_ARG(why), advice);
}

/* ---- Connecting ---- */

static void say_nothing(void *context, const char *message) { (void)context, (void)message; }

bool kiln_postgres_succeeded(const PGresult *result) {
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

kiln_status kiln_postgres_exec(kiln_db *db, const char *sql, const char *doing) {
    PGresult *result = PQexec(kiln_postgres_of(db)->conn, sql);
    kiln_status st =
        kiln_postgres_succeeded(result) ? NULL : kiln_postgres_error(db, result, doing);
    PQclear(result);
    return st;
}

/* The number, or truth, in the first row of `sql`. */
static kiln_status read_number(kiln_db *db, const char *sql, int64_t *out_number) {
    PGresult *result = PQexec(kiln_postgres_of(db)->conn, sql);
    kiln_status st = NULL;
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
        st = kiln_postgres_error(db, result, "asking the server");
    else if (!kiln_str_to_i64(kiln_str_from(PQgetvalue(result, 0, 0)), out_number))
        *out_number = *PQgetvalue(result, 0, 0) == 't';
    PQclear(result);
    return st;
}

static kiln_status set_up(kiln_db *db) {
    kiln_postgres *s = kiln_postgres_of(db);
    PQsetNoticeProcessor(s->conn, say_nothing, NULL);
    kiln_strbuf sql = {0};
    kiln_strbuf_printf(&sql, SESSION_SETTINGS " SET search_path = %s;",
                       kiln_postgres_kinds[db->kind].schema);
    if (db->mode == KILN_DB_READ)
        kiln_strbuf_text(&sql, " SET default_transaction_read_only = on;");
    kiln_status st = kiln_postgres_exec(db, sql.data, "connecting");
    kiln_strbuf_deinit(&sql);
    s->connection++;
    return st;
}

static kiln_status postgres_open(kiln_db *db) {
    kiln_postgres *s = kiln_alloc(sizeof *s);
    kiln_arena_init(&s->arena, 0);
    db->session = s;
    /* What stands after the address wins over it, what stands before is a default. A server whose
     * machine is gone is noticed within some seconds, as it notices us (SESSION_SETTINGS); the
     * system's own retries take a quarter of an hour. */
    const char *const keyword[] = {"connect_timeout",
                                   "tcp_user_timeout",
                                   "keepalives_idle",
                                   "keepalives_interval",
                                   "keepalives_count",
                                   "application_name",
                                   "dbname",
                                   "client_encoding",
                                   NULL};
    const char *const value[] = {"5", "5000", "2", "1", "3", "kiln", db->path, "UTF8", NULL};
    s->conn = PQconnectdbParams(keyword, value, 1);
    if (!kiln_postgres_is_lost(s)) return set_up(db);
    kiln_str why = kiln_postgres_first_line(PQerrorMessage(s->conn));
    if (PQpingParams(keyword, value, 1) == PQPING_OK)
        return KILN_ERROR(PERMISSION_DENIED, "%s: the server refused the connection: %.*s",
                          db->name.data, KILN_STR_ARG(why));
    return KILN_ERROR(UNAVAILABLE, "%s: the server cannot be reached: %.*s", db->name.data,
                      KILN_STR_ARG(why));
}

static void postgres_close(kiln_db *db) {
    kiln_postgres *s = kiln_postgres_of(db);
    PQfinish(s->conn);
    kiln_vec_deinit(&s->waiting);
    kiln_arena_deinit(&s->arena);
    kiln_free(s);
}

kiln_status kiln_postgres_reconnect(kiln_db *db, const char *doing) {
    kiln_postgres *s = kiln_postgres_of(db);
    if (!kiln_postgres_is_lost(s)) return NULL;
    if (s->leads || s->begun) return kiln_postgres_lost(db, doing);
    PQreset(s->conn);
    s->broken = false;
    return kiln_postgres_is_lost(s) ? kiln_postgres_lost(db, doing) : set_up(db);
}

/* ---- The schema's version: one row in kiln_schema ---- */

/* Asks the catalogue, not to_regclass: that may answer from before the wait for the writer's lock.
 */
static kiln_status postgres_read_version(kiln_db *db, int64_t *out_version) {
    const char *schema = kiln_postgres_kinds[db->kind].schema;
    int64_t there = 0;
    kiln_strbuf sql = {0};
    kiln_strbuf_printf(
        &sql,
        "SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace AS place ON"
        " place.oid = relnamespace WHERE relname = 'kiln_schema' AND nspname = '%s')",
        schema);
    kiln_status st = read_number(db, sql.data, &there);
    kiln_strbuf_reset(&sql);
    kiln_strbuf_printf(&sql, "SELECT version FROM %s.kiln_schema", schema);
    if (!st && there)
        st = read_number(db, sql.data, out_version);
    else if (!st && db->mode == KILN_DB_READ)
        st = KILN_ERROR(NOT_FOUND, "%s: there is no Kiln in this database yet", db->name.data);
    else if (!st)
        *out_version = 0;
    kiln_strbuf_deinit(&sql);
    return st;
}

static kiln_status postgres_migrate(kiln_db *db, const char *script, uint32_t version) {
    const char *schema = kiln_postgres_kinds[db->kind].schema;
    kiln_strbuf sql = {0};
    if (version == 1)
        kiln_strbuf_printf(&sql,
                           "CREATE SCHEMA IF NOT EXISTS %s; SET search_path = %s;"
                           "CREATE TABLE kiln_schema (version BIGINT NOT NULL);"
                           "INSERT INTO kiln_schema VALUES (1);",
                           schema, schema);
    kiln_strbuf_printf(&sql, "%s\nUPDATE kiln_schema SET version = %u;", script, version);
    kiln_status st = kiln_postgres_exec(db, sql.data, "running a migration");
    kiln_strbuf_deinit(&sql);
    return st;
}

/* ---- Leadership: a lock of the connection, which the server frees with it ---- */

static kiln_status postgres_lead(kiln_db *db, bool *out_leads) {
    kiln_postgres *s = kiln_postgres_of(db);
    int64_t leads = 1;
    kiln_status st = kiln_postgres_reconnect(db, "leading");
    kiln_strbuf sql = {0};
    if (s->leads) /* is the connection still there? */
        kiln_strbuf_text(&sql, "SELECT 1");
    else
        kiln_strbuf_printf(&sql, "SELECT pg_try_advisory_lock(%d, %d)",
                           kiln_postgres_kinds[db->kind].lock, KILN_POSTGRES_LEADER);
    if (!st) st = read_number(db, sql.data, &leads);
    kiln_strbuf_deinit(&sql);
    if (st) return st;
    s->leads = *out_leads = leads;
    return NULL;
}

/* ---- Claims: rows that others skip while one connection has them locked ---- */

/* A statement about one claim; `out_rows` may be NULL. */
static kiln_status ask_claim(kiln_db *db, const char *sql, kiln_str id, kiln_str holder,
                             int *out_rows) {
    kiln_status st = kiln_postgres_reconnect(db, "claiming");
    if (st) return st;
    const char *value[] = {id.data, holder.data};
    const int length[] = {(int)id.size, (int)holder.size}, binary[] = {1, 1};
    PGresult *result =
        PQexecParams(kiln_postgres_of(db)->conn, sql, 2, NULL, value, length, binary, 1);
    if (!kiln_postgres_succeeded(result))
        st = kiln_postgres_error(db, result, "claiming");
    else if (out_rows)
        *out_rows = PQntuples(result);
    PQclear(result);
    return st;
}

static kiln_status postgres_claim(kiln_db *db, kiln_str id, kiln_str holder, bool *out_has) {
    static const char there[] = "INSERT INTO claim VALUES ($1, $2, now()) ON CONFLICT DO NOTHING";
    static const char take[] =
        "WITH free AS (SELECT id FROM claim WHERE id = $1 AND (holder = $2 OR until <= now())"
        " FOR UPDATE SKIP LOCKED)"
        " UPDATE claim SET holder = $2, until = now() + interval '10 s' FROM free"
        " WHERE claim.id = free.id RETURNING 1";
    _Static_assert(KILN_DB_CLAIM_NS == UINT64_C(10000000000), "as the statement says");
    int rows = 0;
    kiln_status st = ask_claim(db, take, id, holder, &rows); /* renewals are one round trip */
    if (!st && rows == 0) st = ask_claim(db, there, id, holder, NULL);
    if (!st && rows == 0) st = ask_claim(db, take, id, holder, &rows);
    if (!st) *out_has = rows > 0;
    return st;
}

static kiln_status postgres_unclaim(kiln_db *db, kiln_str id, kiln_str holder) {
    return ask_claim(db, "DELETE FROM claim WHERE id = $1 AND holder = $2", id, holder, NULL);
}

static void postgres_bound_cache(kiln_db *db, size_t bytes) {
    (void)db, (void)bytes; /* the server has the pages */
}

const kiln_db_backend kiln_db_postgres = {
    .migrations = kiln_db_postgres_migrations,
    .open = postgres_open,
    .close = postgres_close,
    .bound_cache = postgres_bound_cache,
    .read_version = postgres_read_version,
    .migrate = postgres_migrate,
    .begin = kiln_postgres_begin,
    .settle = kiln_postgres_settle,
    .commit = kiln_postgres_commit,
    .rollback = kiln_postgres_rollback,
    .prepare = kiln_postgres_prepare,
    .finalize = kiln_postgres_finalize,
    .bind = kiln_postgres_bind,
    .step = kiln_postgres_step,
    .run = kiln_postgres_run_later,
    .reset = kiln_postgres_reset,
    .column_bytes = kiln_postgres_column_bytes,
    .column_int = kiln_postgres_column_int,
    .column_real = kiln_postgres_column_real,
    .read_sql = kiln_postgres_read_sql,
    .lead = postgres_lead,
    .claim = postgres_claim,
    .unclaim = postgres_unclaim,
};
