/* kiln_db_sql on a PostgreSQL server. */
#include <libpq-fe.h>
#include <string.h>

#include "base/check.h"
#include "db/postgres.h"

#define BYTEA_OID 17

/* int8, int2, int4, float4, float8, numeric. */
static bool is_number(Oid type) {
    static const Oid number[] = {20, 21, 23, 700, 701, 1700};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(number); i++)
        if (type == number[i]) return true;
    return false;
}

static const char *cell_text(const PGresult *result, int column) {
    if (PQgetisnull(result, 0, column)) return NULL;
    const char *text = PQgetvalue(result, 0, column);
    return PQftype(result, column) == BYTEA_OID ? text + strlen("\\x") : text;
}

static kiln_status give_row(const PGresult *result, kiln_arena *arena, kiln_db_sql_row row,
                            void *context) {
    int count = PQnfields(result);
    kiln_arena_reset(arena);
    kiln_db_cell *cell = KILN_ARENA_ARRAY(arena, kiln_db_cell, (size_t)count);
    for (int i = 0; i < count; i++)
        cell[i] =
            (kiln_db_cell){PQfname(result, i), cell_text(result, i), is_number(PQftype(result, i))};
    return row(context, (uint32_t)count, cell);
}

/* The outcome of a statement besides its rows. */
static kiln_status judge(kiln_db *db, PGresult *result) {
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    switch (PQresultStatus(result)) {
    case PGRES_TUPLES_OK: return NULL;
    case PGRES_EMPTY_QUERY: return KILN_ERROR(INVALID_ARGUMENT, "there is no statement");
    case PGRES_FATAL_ERROR: {
        if (kiln_postgres_is_lost(kiln_postgres_of(db)))
            return kiln_postgres_lost(db, "running the statement");
        if (state && strcmp(state, "25006") == 0) break;
        kiln_str why =
            kiln_postgres_first_line(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
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
    PGconn *conn = kiln_postgres_of(db)->conn;
    if (!PQsendQueryParams(conn, sql, 0, NULL, NULL, NULL, NULL, 0))
        return kiln_postgres_lost(db, "running the statement");
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

/* In a read-only transaction, or a savepoint of the open one, which is rolled back. */
kiln_status kiln_postgres_read_sql(kiln_db *db, kiln_str sql, kiln_db_sql_row row, void *context) {
    KILN_CHECK(!kiln_postgres_of(db)->streaming);
    kiln_status st = kiln_postgres_reconnect(db, "running the statement");
    if (!st && kiln_postgres_of(db)->waiting.count) st = kiln_postgres_send(db);
    bool inside = kiln_postgres_of(db)->begun;
    if (!st)
        st = kiln_postgres_exec(
            db, inside ? "SAVEPOINT kiln_sql; SET TRANSACTION READ ONLY" : "BEGIN READ ONLY",
            "running the statement");
    if (st) return st;
    kiln_strbuf text = {0};
    kiln_strbuf_str(&text, sql);
    st = visit_rows(db, text.data ? text.data : "", row, context);
    kiln_strbuf_deinit(&text);
    PQclear(
        PQexec(kiln_postgres_of(db)->conn,
               inside ? "ROLLBACK TO SAVEPOINT kiln_sql; RELEASE SAVEPOINT kiln_sql" : "ROLLBACK"));
    return st;
}
