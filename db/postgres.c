/* The PostgreSQL back end, on libpq: each kind of database is a schema (kiln_records, kiln_tracker)
 * of the database that the address names, so that both can share one. What SQLite gives by its
 * file, advisory locks give here: one group writes at a time (the writer's place), which also makes
 * rowid the order of commits, and one tracker leads. */
#include <endian.h>
#include <libpq-fe.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "db/backend.h"

#define PARAMETERS_MAX 64
#define BYTEA_OID 17

/* A group is open for milliseconds. Longer than `lock_timeout` means that somebody keeps the
 * writer's place; a program that stops inside a group loses it after the idle time, and one whose
 * machine is gone when the server's keepalives say so. */
#define SESSION_SETTINGS                                                                          \
    "SELECT set_config('lock_timeout', '5s', false) WHERE current_setting('lock_timeout') = '0';" \
    "SELECT set_config('synchronous_commit', 'on', false)"                                        \
    " WHERE current_setting('synchronous_commit') = 'off';"                                       \
    "SET idle_in_transaction_session_timeout = '10s'; SET client_min_messages = warning;"         \
    "SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 1;"                               \
    "SET tcp_keepalives_count = 3; SET tcp_user_timeout = 5000; SET bytea_output = 'hex';"

/* First numbers of advisory locks; the second says which place. */
static const struct {
    const char *schema;
    int lock;
} kinds[] = {
    [KILN_DB_RECORDS] = {"kiln_records", 0x4b4c4e52},
    [KILN_DB_TRACKER] = {"kiln_tracker", 0x4b4c4e54},
};
enum { LOCK_WRITER, LOCK_LEADER };

typedef struct statement statement;

typedef struct session {
    PGconn *conn;
    uint32_t connection;  /* number of the connection: what was prepared on another is gone */
    uint32_t names;       /* of statements, given out so far */
    bool broken;          /* the connection is of no use any more */
    bool leads;           /* this connection holds the leader's lock */
    statement *streaming; /* rows of it are still coming */
} session;

struct statement {
    kiln_db_statement base;
    session *session;
    char name[24];
    uint32_t connection;
    int parameter_count;
    const char *value[PARAMETERS_MAX];
    int length[PARAMETERS_MAX], format[PARAMETERS_MAX];
    uint64_t number[PARAMETERS_MAX]; /* big-endian */
    kiln_arena texts;                /* those that had to be mended */
    PGresult *row;
};

static session *session_of(const kiln_db *db) { return db->session; }
static statement *of(kiln_db_statement *s) { return (statement *)s; }

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

/* libpq's messages end in newlines, and details follow on lines of their own. */
static kiln_str first_line(const char *text) {
    kiln_str rest = kiln_str_trim(kiln_str_from(text));
    return kiln_str_cut(&rest, '\n');
}

static bool is_lost(const session *s) { return s->broken || PQstatus(s->conn) != CONNECTION_OK; }

static kiln_status lost(const kiln_db *db, const char *doing) {
    session *s = session_of(db);
    s->broken = true;
    if (s->leads)
        return KILN_ERROR(ABORTED,
                          "%s: %s: the connection is lost, and with it the lead: another may have "
                          "it now",
                          db->name.data, doing);
    kiln_str why = first_line(PQerrorMessage(s->conn));
    return KILN_ERROR(UNAVAILABLE, "%s: %s: the server is gone: %.*s", db->name.data, doing,
                      KILN_STR_ARG(why));
}

static kiln_status error_of(const kiln_db *db, const PGresult *result, const char *doing) {
    const session *s = session_of(db);
    /* A server that ends a connection says so first; an error without a state is libpq's own. */
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (is_lost(s) || !state || strcmp(severity, "FATAL") == 0) return lost(db, doing);
    kiln_str why = first_line(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
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

static bool succeeded(const PGresult *result) {
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static kiln_status exec(kiln_db *db, const char *sql, const char *doing) {
    PGresult *result = PQexec(session_of(db)->conn, sql);
    kiln_status st = succeeded(result) ? NULL : error_of(db, result, doing);
    PQclear(result);
    return st;
}

/* The number, or truth, in the first row of `sql`. */
static kiln_status read_number(kiln_db *db, const char *sql, int64_t *out_number) {
    PGresult *result = PQexec(session_of(db)->conn, sql);
    kiln_status st = NULL;
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
        st = error_of(db, result, "asking the server");
    else if (!kiln_str_to_i64(kiln_str_from(PQgetvalue(result, 0, 0)), out_number))
        *out_number = *PQgetvalue(result, 0, 0) == 't';
    PQclear(result);
    return st;
}

static kiln_status set_up(kiln_db *db) {
    session *s = session_of(db);
    PQsetNoticeProcessor(s->conn, say_nothing, NULL);
    kiln_strbuf sql = {0};
    kiln_strbuf_printf(&sql, SESSION_SETTINGS " SET search_path = %s;", kinds[db->kind].schema);
    if (db->mode == KILN_DB_READ)
        kiln_strbuf_text(&sql, " SET default_transaction_read_only = on;");
    kiln_status st = exec(db, sql.data, "connecting");
    kiln_strbuf_deinit(&sql);
    s->connection++;
    return st;
}

static kiln_status postgres_open(kiln_db *db) {
    session *s = kiln_alloc(sizeof *s);
    db->session = s;
    /* What stands after the address wins over it, what stands before is a default. */
    const char *const keyword[] = {"connect_timeout", "application_name", "dbname",
                                   "client_encoding", NULL};
    const char *const value[] = {"5", "kiln", db->path, "UTF8", NULL};
    s->conn = PQconnectdbParams(keyword, value, 1);
    if (!is_lost(s)) return set_up(db);
    kiln_str why = first_line(PQerrorMessage(s->conn));
    if (PQpingParams(keyword, value, 1) == PQPING_OK)
        return KILN_ERROR(PERMISSION_DENIED, "%s: the server lets us not in: %.*s", db->name.data,
                          KILN_STR_ARG(why));
    return KILN_ERROR(UNAVAILABLE, "%s: the server cannot be reached: %.*s", db->name.data,
                      KILN_STR_ARG(why));
}

static void postgres_close(kiln_db *db) {
    session *s = session_of(db);
    PQfinish(s->conn);
    kiln_free(s);
}

/* A server may restart: what is not inside a group goes on over a new connection. Who led does not:
 * the lock went with the old one. */
static kiln_status reconnect(kiln_db *db, const char *doing) {
    session *s = session_of(db);
    if (!is_lost(s)) return NULL;
    if (s->leads || db->pending) return lost(db, doing);
    PQreset(s->conn);
    s->broken = false;
    return is_lost(s) ? lost(db, doing) : set_up(db);
}

/* ---- The schema's version: one row in kiln_schema ---- */

/* Asks the catalogue, not to_regclass: that may answer from before the wait for the writer's place.
 */
static kiln_status postgres_read_version(kiln_db *db, int64_t *out_version) {
    const char *schema = kinds[db->kind].schema;
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
    const char *schema = kinds[db->kind].schema;
    kiln_strbuf sql = {0};
    if (version == 1)
        kiln_strbuf_printf(&sql,
                           "CREATE SCHEMA IF NOT EXISTS %s; SET search_path = %s;"
                           "CREATE TABLE kiln_schema (version BIGINT NOT NULL);"
                           "INSERT INTO kiln_schema VALUES (1);",
                           schema, schema);
    kiln_strbuf_printf(&sql, "%s\nUPDATE kiln_schema SET version = %u;", script, version);
    kiln_status st = exec(db, sql.data, "running a migration");
    kiln_strbuf_deinit(&sql);
    return st;
}

/* ---- Groups ---- */

static kiln_status postgres_begin(kiln_db *db) {
    kiln_status st = reconnect(db, "beginning to write");
    if (st) return st;
    kiln_strbuf sql = {0};
    kiln_strbuf_printf(&sql, "BEGIN; SELECT pg_advisory_xact_lock(%d, %d)", kinds[db->kind].lock,
                       LOCK_WRITER);
    st = exec(db, sql.data, "beginning to write");
    kiln_strbuf_deinit(&sql);
    if (st) db->backend->rollback(db);
    return st;
}

static kiln_status postgres_commit(kiln_db *db) {
    PGresult *result = PQexec(session_of(db)->conn, "COMMIT");
    /* COMMIT of a transaction that failed before succeeds, and says that it rolled back. */
    bool done = succeeded(result) && strcmp(PQcmdStatus(result), "COMMIT") == 0;
    kiln_status st = done ? NULL : error_of(db, result, "committing");
    PQclear(result);
    return st;
}

static void postgres_rollback(kiln_db *db) {
    session *s = session_of(db);
    if (!is_lost(s) && PQtransactionStatus(s->conn) != PQTRANS_IDLE)
        PQclear(PQexec(s->conn, "ROLLBACK"));
}

/* ---- Statements ---- */

static int parameters_in(const char *sql) {
    int highest = 0;
    for (const char *c = strchr(sql, '$'); c; c = strchr(c + 1, '$')) {
        int number = 0;
        for (const char *digit = c + 1; *digit >= '0' && *digit <= '9'; digit++)
            number = number * 10 + (*digit - '0');
        highest = KILN_MAX(highest, number);
    }
    return highest;
}

/* Prepares it on the present connection, unless it is. */
static kiln_status prepare_now(kiln_db *db, statement *s, const char *sql) {
    kiln_status st = reconnect(db, "preparing a statement");
    if (st || s->connection == s->session->connection) return st;
    PGresult *result = PQprepare(s->session->conn, s->name, sql, 0, NULL);
    if (succeeded(result))
        s->connection = s->session->connection;
    else
        st = error_of(db, result, "preparing a statement");
    PQclear(result);
    return st;
}

static kiln_status postgres_prepare(kiln_db *db, const char *sql,
                                    kiln_db_statement **out_statement) {
    statement *s = kiln_alloc(sizeof *s);
    s->session = session_of(db);
    s->parameter_count = parameters_in(sql);
    KILN_CHECK(s->parameter_count <= PARAMETERS_MAX);
    for (int i = 0; i < PARAMETERS_MAX; i++) s->format[i] = 1; /* binary */
    kiln_strbuf name = {0};
    kiln_strbuf_printf(&name, "kiln%u", ++s->session->names);
    memcpy(s->name, name.data, name.size + 1);
    kiln_strbuf_deinit(&name);
    kiln_status st = prepare_now(db, s, sql);
    if (st) {
        kiln_free(s);
        return st;
    }
    kiln_arena_init(&s->texts, 0);
    *out_statement = &s->base;
    return NULL;
}

static void postgres_finalize(kiln_db_statement *base) {
    statement *s = of(base);
    if (!is_lost(s->session) && s->connection == s->session->connection) {
        char sql[40] = "DEALLOCATE ";
        memcpy(sql + strlen(sql), s->name, strlen(s->name) + 1);
        PQclear(PQexec(s->session->conn, sql)); /* a name that stays harms nobody */
    }
    kiln_arena_deinit(&s->texts);
    kiln_free(s);
}

/* Length of the UTF-8 sequence at `text`, 0 when it is none that the server takes. */
static size_t sequence_of(const unsigned char *text, size_t size) {
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } form[] = {{0x80, 0, 1}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t more = 0; more < KILN_ARRAY_COUNT(form); more++) {
        if ((text[0] & form[more].mask) != form[more].lead) continue;
        uint32_t letter = text[0] & (unsigned char)~form[more].mask;
        for (size_t i = 1; i <= more; i++) {
            if (i >= size || (text[i] & 0xc0) != 0x80) return 0;
            letter = letter << 6 | (text[i] & 0x3f);
        }
        bool surrogate = letter >= 0xd800 && letter < 0xe000;
        return letter >= form[more].least && letter <= 0x10ffff && !surrogate ? more + 1 : 0;
    }
    return 0;
}

/* The server takes UTF-8 without zero bytes only; what a candidate printed may be anything. */
static const char *mended(statement *s, kiln_str text) {
    char *copy = NULL;
    for (size_t i = 0; i < text.size;) {
        size_t length = sequence_of((const unsigned char *)text.data + i, text.size - i);
        if (length == 0) {
            if (!copy) copy = kiln_str_dup(&s->texts, text);
            copy[i] = '?';
        }
        i += length ? length : 1;
    }
    return copy ? copy : text.data;
}

static void postgres_bind(kiln_db_statement *base, uint32_t index, const kiln_db_value *value) {
    statement *s = of(base);
    uint32_t i = index - 1;
    uint64_t bits = 0;
    switch (value->type) {
    case KILN_DB_TEXT:
    case KILN_DB_BLOB:
    case KILN_DB_SAMPLES:
        if (value->bytes.size == 0) return; /* NULL, as after a reset */
        s->value[i] = value->type == KILN_DB_TEXT ? mended(s, value->bytes) : value->bytes.data;
        s->length[i] = (int)value->bytes.size; /* at most KILN_DB_TEXT_MAX */
        return;
    case KILN_DB_INT: bits = (uint64_t)value->integer; break;
    case KILN_DB_REAL: memcpy(&bits, &value->real, sizeof bits); break;
    }
    s->number[i] = htobe64(bits);
    s->value[i] = (const char *)&s->number[i];
    s->length[i] = sizeof s->number[i];
}

static bool send(statement *s) {
    return PQsendQueryPrepared(s->session->conn, s->name, s->parameter_count, s->value, s->length,
                               s->format, 1);
}

static void drain(PGconn *conn) {
    for (PGresult *result; (result = PQgetResult(conn));) PQclear(result);
}

/* Rows come one by one, so that a large table needs no memory here. */
static kiln_status start(statement *s, const char *doing) {
    kiln_db *db = s->base.db;
    KILN_CHECK(!s->session->streaming); /* see kiln_db_each */
    kiln_status st = prepare_now(db, s, s->base.sql.data);
    if (st) return st;
    if (!send(s)) return error_of(db, NULL, doing);
    PQsetSingleRowMode(s->session->conn); /* refused only after the first row */
    s->session->streaming = s;
    return NULL;
}

static kiln_status postgres_step(kiln_db_statement *base, const char *doing, bool *out_row) {
    statement *s = of(base);
    kiln_status st = s->session->streaming == s ? NULL : start(s, doing);
    if (st) return st;
    PQclear(s->row);
    s->row = PQgetResult(s->session->conn);
    switch (PQresultStatus(s->row)) {
    case PGRES_SINGLE_TUPLE: *out_row = true; return NULL;
    case PGRES_TUPLES_OK: *out_row = false; return NULL;
    default: return error_of(base->db, s->row, doing);
    }
}

/* An error in a transaction spoils all of it here, so each row has a savepoint of its own; all
 * three statements travel together. */
static kiln_status postgres_run(kiln_db_statement *base, const char *doing) {
    statement *s = of(base);
    kiln_db *db = base->db;
    PGconn *conn = s->session->conn;
    KILN_CHECK(!s->session->streaming);
    kiln_status st = prepare_now(db, s, base->sql.data);
    if (st) return st;
    bool sent =
        PQenterPipelineMode(conn) &&
        PQsendQueryParams(conn, "SAVEPOINT kiln_row", 0, NULL, NULL, NULL, NULL, 0) && send(s) &&
        PQsendQueryParams(conn, "RELEASE SAVEPOINT kiln_row", 0, NULL, NULL, NULL, NULL, 0) &&
        PQpipelineSync(conn);
    if (!sent) st = error_of(db, NULL, doing);
    for (bool synced = !sent; !synced;) { /* a NULL follows each statement's results */
        PGresult *result = PQgetResult(conn);
        ExecStatusType status = PQresultStatus(result);
        synced = status == PGRES_PIPELINE_SYNC || is_lost(s->session);
        bool fine = !result || synced || succeeded(result) || status == PGRES_PIPELINE_ABORTED;
        if (!fine && !st) st = error_of(db, result, doing);
        PQclear(result);
    }
    if (is_lost(s->session)) {
        if (!st) st = lost(db, doing);
        return st;
    }
    PQexitPipelineMode(conn);
    if (st && kiln_status_code(st) == KILN_INVALID_ARGUMENT)
        PQclear(PQexec(conn, "ROLLBACK TO SAVEPOINT kiln_row; RELEASE SAVEPOINT kiln_row"));
    return st;
}

static void postgres_reset(kiln_db_statement *base) {
    statement *s = of(base);
    PQclear(s->row);
    s->row = NULL;
    if (s->session->streaming == s) {
        drain(s->session->conn);
        s->session->streaming = NULL;
    }
    memset(s->value, 0, sizeof s->value);
    memset(s->length, 0, sizeof s->length);
    kiln_arena_reset(&s->texts);
}

static kiln_str postgres_column_bytes(kiln_db_statement *base, uint32_t index) {
    const PGresult *row = of(base)->row;
    return (kiln_str){PQgetvalue(row, 0, (int)index), (size_t)PQgetlength(row, 0, (int)index)};
}

/* 8 bytes of a BIGINT or a DOUBLE PRECISION; 0 for NULL. */
static uint64_t bits_of(kiln_db_statement *base, uint32_t index) {
    kiln_str bytes = postgres_column_bytes(base, index);
    uint64_t bits = 0;
    if (bytes.size == 0) return 0;
    KILN_CHECK(bytes.size == sizeof bits);
    memcpy(&bits, bytes.data, sizeof bits);
    return be64toh(bits);
}

static int64_t postgres_column_int(kiln_db_statement *base, uint32_t index) {
    return (int64_t)bits_of(base, index);
}

static double postgres_column_real(kiln_db_statement *base, uint32_t index) {
    uint64_t bits = bits_of(base, index);
    double real;
    memcpy(&real, &bits, sizeof real);
    return real;
}

/* ---- A person's own statement ---- */

static const char *cell_text(const PGresult *result, int column) {
    if (PQgetisnull(result, 0, column)) return NULL;
    const char *text = PQgetvalue(result, 0, column);
    return PQftype(result, column) == BYTEA_OID ? text + strlen("\\x") : text;
}

static kiln_status give_row(const PGresult *result, kiln_arena *arena, kiln_db_sql_row row,
                            void *context) {
    int count = PQnfields(result);
    kiln_arena_reset(arena);
    const char **names = KILN_ARENA_ARRAY(arena, const char *, (size_t)count);
    const char **cells = KILN_ARENA_ARRAY(arena, const char *, (size_t)count);
    for (int i = 0; i < count; i++) {
        names[i] = PQfname(result, i);
        cells[i] = cell_text(result, i);
    }
    return row(context, (uint32_t)count, names, cells);
}

/* What came of a person's statement besides rows. */
static kiln_status judge(kiln_db *db, PGresult *result) {
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    switch (PQresultStatus(result)) {
    case PGRES_TUPLES_OK: return NULL;
    case PGRES_EMPTY_QUERY: return KILN_ERROR(INVALID_ARGUMENT, "there is no statement");
    case PGRES_FATAL_ERROR: {
        if (is_lost(session_of(db))) return lost(db, "running the statement");
        if (state && strcmp(state, "25006") == 0) break;
        kiln_str why = first_line(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
        return KILN_ERROR(INVALID_ARGUMENT, "%.*s", KILN_STR_ARG(why));
    }
    default: break;
    }
    return KILN_ERROR(INVALID_ARGUMENT,
                      "only reading is possible here; the statement would change something");
}

static void end_copy(PGconn *conn, const PGresult *result) {
    if (PQresultStatus(result) == PGRES_COPY_IN) PQputCopyEnd(conn, "refused");
    for (char *line; PQresultStatus(result) == PGRES_COPY_OUT && PQgetCopyData(conn, &line, 0) > 0;)
        PQfreemem(line);
}

static kiln_status visit_rows(kiln_db *db, const char *sql, kiln_db_sql_row row, void *context) {
    PGconn *conn = session_of(db)->conn;
    if (!PQsendQueryParams(conn, sql, 0, NULL, NULL, NULL, NULL, 0))
        return lost(db, "running the statement");
    PQsetSingleRowMode(conn);
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_status st = NULL;
    for (PGresult *result; (result = PQgetResult(conn)); PQclear(result)) {
        if (st) continue;
        if (PQresultStatus(result) == PGRES_SINGLE_TUPLE)
            st = give_row(result, &arena, row, context);
        else
            st = judge(db, result);
        end_copy(conn, result);
    }
    kiln_arena_deinit(&arena);
    return st;
}

/* In a transaction, or a part of the open one, that may only read and is thrown away. */
static kiln_status postgres_read_sql(kiln_db *db, kiln_str sql, kiln_db_sql_row row,
                                     void *context) {
    KILN_CHECK(!session_of(db)->streaming);
    bool inside = db->pending;
    kiln_status st = reconnect(db, "running the statement");
    if (!st)
        st = exec(db, inside ? "SAVEPOINT kiln_sql; SET TRANSACTION READ ONLY" : "BEGIN READ ONLY",
                  "running the statement");
    if (st) return st;
    kiln_strbuf text = {0};
    kiln_strbuf_str(&text, sql);
    st = visit_rows(db, text.data ? text.data : "", row, context);
    kiln_strbuf_deinit(&text);
    PQclear(
        PQexec(session_of(db)->conn,
               inside ? "ROLLBACK TO SAVEPOINT kiln_sql; RELEASE SAVEPOINT kiln_sql" : "ROLLBACK"));
    return st;
}

/* ---- Leadership: a lock of the connection, which the server frees with it ---- */

static kiln_status postgres_lead(kiln_db *db, bool *out_leads) {
    session *s = session_of(db);
    int64_t leads = 1;
    kiln_status st = reconnect(db, "leading");
    kiln_strbuf sql = {0};
    if (s->leads) /* is the connection still there? */
        kiln_strbuf_text(&sql, "SELECT 1");
    else
        kiln_strbuf_printf(&sql, "SELECT pg_try_advisory_lock(%d, %d)", kinds[db->kind].lock,
                           LOCK_LEADER);
    if (!st) st = read_number(db, sql.data, &leads);
    kiln_strbuf_deinit(&sql);
    if (st) return st;
    s->leads = *out_leads = leads;
    return NULL;
}

const kiln_db_backend kiln_db_postgres = {
    .migrations = kiln_db_postgres_migrations,
    .open = postgres_open,
    .close = postgres_close,
    .read_version = postgres_read_version,
    .migrate = postgres_migrate,
    .begin = postgres_begin,
    .commit = postgres_commit,
    .rollback = postgres_rollback,
    .prepare = postgres_prepare,
    .finalize = postgres_finalize,
    .bind = postgres_bind,
    .step = postgres_step,
    .run = postgres_run,
    .reset = postgres_reset,
    .column_bytes = postgres_column_bytes,
    .column_int = postgres_column_int,
    .column_real = postgres_column_real,
    .read_sql = postgres_read_sql,
    .lead = postgres_lead,
};
