/* Statements on a PostgreSQL server: parameters and columns travel in binary. */
#include <endian.h>
#include <libpq-fe.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/thread_work.h"
#include "db/canonical.h"
#include "db/postgres.h"

kiln_postgres_statement *kiln_postgres_statement_of(kiln_db_statement *s) {
    return (kiln_postgres_statement *)s;
}

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

kiln_status kiln_postgres_prepare_now(kiln_db *db, kiln_postgres_statement *s, const char *sql) {
    kiln_status st = kiln_postgres_reconnect(db, "preparing a statement");
    if (st || s->connection == s->session->connection) return st;
    PGresult *result = PQprepare(s->session->conn, s->name, sql, 0, NULL);
    if (kiln_postgres_succeeded(result))
        s->connection = s->session->connection;
    else
        st = kiln_postgres_error(db, result, "preparing a statement");
    PQclear(result);
    return st;
}

kiln_status kiln_postgres_prepare(kiln_db *db, const char *sql, kiln_db_statement **out_statement) {
    kiln_postgres_statement *s = kiln_alloc(sizeof *s);
    s->session = kiln_postgres_of(db);
    s->parameter_count = parameters_in(sql);
    KILN_CHECK(s->parameter_count <= KILN_POSTGRES_PARAMETERS_MAX);
    for (int i = 0; i < KILN_POSTGRES_PARAMETERS_MAX; i++) s->format[i] = 1; /* binary */
    kiln_strbuf name = {0};
    kiln_strbuf_printf(&name, "kiln%u", ++s->session->names);
    memcpy(s->name, name.data, name.size + 1);
    kiln_strbuf_deinit(&name);
    kiln_status st = kiln_postgres_prepare_now(db, s, sql);
    if (st) {
        kiln_free(s);
        return st;
    }
    kiln_arena_init(&s->texts, 0);
    *out_statement = &s->base;
    return NULL;
}

void kiln_postgres_finalize(kiln_db_statement *base) {
    kiln_postgres_statement *s = kiln_postgres_statement_of(base);
    KILN_CHECK(s->waiting == 0); /* preparing 48 others takes reads, and those send it */
    if (!kiln_postgres_is_lost(s->session) && s->connection == s->session->connection) {
        char sql[40] = "DEALLOCATE ";
        memcpy(sql + strlen(sql), s->name, strlen(s->name) + 1);
        PQclear(PQexec(s->session->conn, sql)); /* a name that stays does no harm */
    }
    kiln_arena_deinit(&s->texts);
    kiln_free(s);
}

void kiln_postgres_bind(kiln_db_statement *base, uint32_t index, const kiln_db_value *value) {
    kiln_postgres_statement *s = kiln_postgres_statement_of(base);
    uint32_t i = index - 1;
    uint64_t bits = 0;
    switch (value->type) {
    case KILN_DB_TEXT:
    case KILN_DB_BLOB:
    case KILN_DB_SAMPLES:
        if (value->bytes.size == 0) return; /* NULL, as after a reset */
        /* What a candidate printed may be anything. */
        s->value[i] = value->type == KILN_DB_TEXT
                          ? kiln_db_text_corrected(value->bytes, &s->texts).data
                          : value->bytes.data;
        s->length[i] = (int)value->bytes.size; /* at most KILN_DB_TEXT_MAX */
        return;
    case KILN_DB_INT: bits = (uint64_t)value->integer; break;
    case KILN_DB_REAL: memcpy(&bits, &value->real, sizeof bits); break;
    }
    s->number[i] = htobe64(bits);
    s->value[i] = (const char *)&s->number[i];
    s->length[i] = sizeof s->number[i];
}

static bool send(kiln_postgres_statement *s) {
    return PQsendQueryPrepared(s->session->conn, s->name, s->parameter_count, s->value, s->length,
                               s->format, 1);
}

static void drain(PGconn *conn) {
    for (PGresult *result; (result = PQgetResult(conn));) PQclear(result);
}

/* Rows come one by one, so that a large table needs no memory here. */
static kiln_status start(kiln_postgres_statement *s, const char *doing) {
    kiln_db *db = s->base.db;
    KILN_CHECK(!s->session->streaming); /* see kiln_db_each */
    kiln_status st = s->session->waiting.count ? kiln_postgres_send(db) : NULL;
    if (!st) st = kiln_postgres_prepare_now(db, s, s->base.sql.data);
    if (st) return st;
    if (!send(s)) return kiln_postgres_error(db, NULL, doing);
    PQsetSingleRowMode(s->session->conn); /* refused only after the first row */
    s->session->streaming = s;
    return NULL;
}

kiln_status kiln_postgres_step(kiln_db_statement *base, const char *doing, bool *out_row) {
    kiln_postgres_statement *s = kiln_postgres_statement_of(base);
    kiln_status st = s->session->streaming == s ? NULL : start(s, doing);
    if (st) return st;
    PQclear(s->row);
    s->row = PQgetResult(s->session->conn);
    switch (PQresultStatus(s->row)) {
    case PGRES_SINGLE_TUPLE:
        *out_row = true;
        kiln_thread_walks(1);
        return NULL;
    case PGRES_TUPLES_OK: *out_row = false; return NULL;
    default: return kiln_postgres_error(base->db, s->row, doing);
    }
}

void kiln_postgres_reset(kiln_db_statement *base) {
    kiln_postgres_statement *s = kiln_postgres_statement_of(base);
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

kiln_str kiln_postgres_column_bytes(kiln_db_statement *base, uint32_t index) {
    const PGresult *row = kiln_postgres_statement_of(base)->row;
    return (kiln_str){PQgetvalue(row, 0, (int)index), (size_t)PQgetlength(row, 0, (int)index)};
}

/* 8 bytes of a BIGINT or a DOUBLE PRECISION; 0 for NULL. */
static uint64_t bits_of(kiln_db_statement *base, uint32_t index) {
    kiln_str bytes = kiln_postgres_column_bytes(base, index);
    uint64_t bits = 0;
    if (bytes.size == 0) return 0;
    KILN_CHECK(bytes.size == sizeof bits);
    memcpy(&bits, bytes.data, sizeof bits);
    return be64toh(bits);
}

int64_t kiln_postgres_column_int(kiln_db_statement *base, uint32_t index) {
    return (int64_t)bits_of(base, index);
}

double kiln_postgres_column_real(kiln_db_statement *base, uint32_t index) {
    uint64_t bits = bits_of(base, index);
    double real;
    memcpy(&real, &bits, sizeof real);
    return real;
}
