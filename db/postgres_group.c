/* Groups on a PostgreSQL server. Rows collect here and are sent together, in libpq's pipeline: a
 * group of a tuner is one round trip, from BEGIN to COMMIT, and holds the writer's lock only while
 * the server works on it. */
#include <libpq-fe.h>
#include <string.h>

#include "base/check.h"
#include "db/postgres.h"

/* Limits of waiting runs; beyond them they are sent before the commit. */
#define WAITING_MAX 256u
#define WAITING_BYTES_MAX ((size_t)4 << 20)

kiln_status kiln_postgres_begin(kiln_db *db) {
    return kiln_postgres_reconnect(db, "beginning to write");
}

/* ---- Runs that wait ---- */

static void forget_waiting(kiln_postgres *s) {
    for (uint32_t i = 0; i < s->waiting.count; i++) s->waiting.data[i].statement->waiting--;
    s->waiting.count = 0;
    s->waiting_bytes = 0;
    kiln_arena_reset(&s->arena);
}

static kiln_postgres_run copy_run(kiln_postgres *s, kiln_postgres_statement *statement,
                                  const char *doing) {
    size_t count = (size_t)statement->parameter_count;
    const char **value = KILN_ARENA_ARRAY(&s->arena, const char *, count);
    int *length = KILN_ARENA_ARRAY(&s->arena, int, count);
    for (size_t i = 0; i < count; i++) {
        length[i] = statement->length[i];
        value[i] = statement->value[i];
        if (value[i]) value[i] = kiln_arena_copy(&s->arena, value[i], (size_t)length[i]);
        s->waiting_bytes += (size_t)length[i];
    }
    return (kiln_postgres_run){statement, doing, value, length};
}

kiln_status kiln_postgres_run_later(kiln_db_statement *base, const char *doing) {
    kiln_postgres_statement *statement = kiln_postgres_statement_of(base);
    kiln_postgres *s = statement->session;
    kiln_vec_push(&s->waiting, copy_run(s, statement, doing));
    statement->waiting++;
    bool enough = s->waiting.count >= WAITING_MAX || s->waiting_bytes >= WAITING_BYTES_MAX;
    return enough ? kiln_postgres_send(base->db) : NULL;
}

/* ---- Round trips ---- */

/* A round trip: statements around the waiting runs [first, end). */
typedef struct trip {
    const char *before[3], *after;
    uint32_t before_count, first, end;
    bool committed; /* of the last one: COMMIT did */
} trip;

static bool send_text(PGconn *conn, const char *sql) {
    return PQsendQueryParams(conn, sql, 0, NULL, NULL, NULL, NULL, 0) == 1;
}

static bool send_run(PGconn *conn, const kiln_postgres_run *run) {
    const kiln_postgres_statement *statement = run->statement;
    return PQsendQueryPrepared(conn, statement->name, statement->parameter_count, run->value,
                               run->length, statement->format, 1) == 1;
}

static bool send_all(kiln_postgres *s, const trip *j) {
    bool sent = PQenterPipelineMode(s->conn) == 1;
    for (uint32_t i = 0; sent && i < j->before_count; i++) sent = send_text(s->conn, j->before[i]);
    for (uint32_t i = j->first; sent && i < j->end; i++)
        sent = send_run(s->conn, &s->waiting.data[i]);
    return sent && send_text(s->conn, j->after) && PQpipelineSync(s->conn) == 1;
}

static const char *doing_of(const kiln_postgres *s, const trip *j, uint32_t number) {
    if (number < j->before_count) return "beginning to write";
    number += j->first - j->before_count;
    return number < j->end ? s->waiting.data[number].doing : "committing";
}

/* Reads the results of all statements; a NULL follows those of each. The first error counts: the
 * server skips what follows it. */
static kiln_status read_all(kiln_db *db, trip *j) {
    kiln_postgres *s = kiln_postgres_of(db);
    kiln_status st = NULL;
    uint32_t number = 0;
    for (bool synced = false; !synced;) {
        PGresult *result = PQgetResult(s->conn);
        ExecStatusType status = PQresultStatus(result);
        synced = status == PGRES_PIPELINE_SYNC || kiln_postgres_is_lost(s);
        if (!result) {
            number++;
        } else if (kiln_postgres_succeeded(result)) {
            j->committed = strcmp(PQcmdStatus(result), "COMMIT") == 0;
        } else if (!synced && !st && status != PGRES_PIPELINE_ABORTED) {
            st = kiln_postgres_error(db, result, doing_of(s, j, number));
        }
        PQclear(result);
    }
    return st;
}

static kiln_status send_trip(kiln_db *db, trip *j) {
    kiln_postgres *s = kiln_postgres_of(db);
    KILN_CHECK(!s->streaming);
    kiln_status st = NULL;
    for (uint32_t i = j->first; !st && i < j->end; i++) {
        kiln_postgres_statement *statement = s->waiting.data[i].statement;
        st = kiln_postgres_prepare_now(db, statement, statement->base.sql.data);
    }
    if (st) return st;
    st = send_all(s, j) ? read_all(db, j) : kiln_postgres_error(db, NULL, doing_of(s, j, 0));
    s->begun = PQtransactionStatus(s->conn) != PQTRANS_IDLE;
    if (kiln_postgres_is_lost(s)) return st ? st : kiln_postgres_lost(db, doing_of(s, j, 0));
    PQexitPipelineMode(s->conn);
    return st;
}

/* Adds BEGIN and the writer's lock, if the group has not begun on the server. */
static void add_begin(const kiln_db *db, kiln_strbuf *place, trip *j) {
    if (kiln_postgres_of(db)->begun) return;
    kiln_strbuf_printf(place, "SELECT pg_advisory_xact_lock(%d, %d)",
                       kiln_postgres_kinds[db->kind].lock, KILN_POSTGRES_WRITER);
    j->before[j->before_count++] = "BEGIN";
    j->before[j->before_count++] = place->data;
}

/* Sends the runs [first, end), all or none. An error aborts a whole transaction here, hence the
 * savepoint. */
static kiln_status take(kiln_db *db, uint32_t first, uint32_t end) {
    kiln_strbuf place = {0};
    trip j = {.after = "RELEASE SAVEPOINT kiln_rows", .first = first, .end = end};
    add_begin(db, &place, &j);
    j.before[j.before_count++] = "SAVEPOINT kiln_rows";
    kiln_status st = send_trip(db, &j);
    kiln_strbuf_deinit(&place);
    if (kiln_status_code(st) == KILN_INVALID_ARGUMENT)
        PQclear(PQexec(kiln_postgres_of(db)->conn,
                       "ROLLBACK TO SAVEPOINT kiln_rows; RELEASE SAVEPOINT kiln_rows"));
    return st;
}

/* Sends the runs one by one, to find those that are refused. */
static kiln_status take_each(kiln_db *db) {
    kiln_postgres *s = kiln_postgres_of(db);
    kiln_status st = NULL;
    for (uint32_t i = 0; !st && i < s->waiting.count; i++) {
        st = take(db, i, i + 1);
        if (kiln_status_code(st) != KILN_INVALID_ARGUMENT) continue;
        if (s->refused)
            kiln_status_free(st); /* the first is reported */
        else
            s->refused = st;
        st = NULL;
    }
    return st;
}

/* After an error waiting runs stay in the group: they are sent again, or undone with it. */
kiln_status kiln_postgres_send(kiln_db *db) {
    kiln_postgres *s = kiln_postgres_of(db);
    kiln_status st = kiln_postgres_reconnect(db, "beginning to write");
    if (st || (s->begun && s->waiting.count == 0)) return st;
    st = take(db, 0, s->waiting.count);
    if (kiln_status_code(st) == KILN_INVALID_ARGUMENT) {
        kiln_status_free(st);
        st = take_each(db);
    }
    if (!st) forget_waiting(s);
    return st;
}

static kiln_status take_refusal(kiln_postgres *s) {
    kiln_status refused = s->refused;
    s->refused = NULL;
    return refused;
}

kiln_status kiln_postgres_settle(kiln_db *db) {
    kiln_status st = kiln_postgres_send(db);
    return st ? st : take_refusal(kiln_postgres_of(db));
}

kiln_status kiln_postgres_commit(kiln_db *db) {
    kiln_postgres *s = kiln_postgres_of(db);
    if (s->refused) return take_refusal(s);
    kiln_strbuf place = {0};
    trip j = {.after = "COMMIT", .end = s->waiting.count};
    add_begin(db, &place, &j);
    kiln_status st = send_trip(db, &j);
    /* COMMIT of a transaction that failed before succeeds, and says that it rolled back. */
    if (!st && !j.committed)
        st = KILN_ERROR(ABORTED, "%s: committing: the group had failed before", db->name.data);
    kiln_strbuf_deinit(&place);
    if (!st) forget_waiting(s);
    return st;
}

void kiln_postgres_rollback(kiln_db *db) {
    kiln_postgres *s = kiln_postgres_of(db);
    forget_waiting(s);
    kiln_status_free(take_refusal(s));
    s->begun = false;
    if (!kiln_postgres_is_lost(s) && PQtransactionStatus(s->conn) != PQTRANS_IDLE)
        PQclear(PQexec(s->conn, "ROLLBACK"));
}
