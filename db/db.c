#include "db/db.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/fail.h"
#include "base/file.h"
#include "db/backend.h"

static const struct {
    const char *prefixes;
    const kiln_db_backend *backend;
} backends[] = {
#define BACKEND(name, prefixes) {prefixes, &kiln_db_##name},
#include "db/backends.def"
#undef BACKEND
};

static bool takes(const char *prefixes, kiln_str path) {
    kiln_str rest = kiln_str_from(prefixes);
    while (rest.size > 0) {
        kiln_str prefix = kiln_str_cut(&rest, ' ');
        if (kiln_str_equal(kiln_str_slice(path, 0, prefix.size), prefix)) return true;
    }
    return *prefixes == '\0';
}

static const kiln_db_backend *backend_of(const char *path) {
    size_t i = 0;
    while (!takes(backends[i].prefixes, kiln_str_from(path))) i++; /* the last takes all */
    return backends[i].backend;
}

void kiln_db_print_path(const char *path, kiln_strbuf *out) {
    const char *server = strstr(path, "://");
    if (!server) {
        kiln_strbuf_text(out, path);
        return;
    }
    server += strlen("://");
    kiln_str rest = kiln_str_from(server);
    kiln_str authority = kiln_str_slice(rest, 0, strcspn(server, "/?"));
    size_t at = authority.size;
    while (at > 0 && authority.data[at - 1] != '@') at--;
    kiln_strbuf_append(out, path, (size_t)(server - path));
    kiln_strbuf_str(out, kiln_str_slice(rest, at, strcspn(server, "?")));
}

bool kiln_db_is_there(const char *path) {
    return backend_of(path) != &kiln_db_sqlite || kiln_file_exists(path);
}

/* A server's address that no back end takes would become the name of a file. */
static kiln_status check_path(const char *path) {
    if (backend_of(path) != &kiln_db_sqlite || !strstr(path, "://")) return NULL;
    kiln_strbuf name = {0};
    kiln_db_print_path(path, &name);
    kiln_status st = KILN_ERROR(
        UNIMPLEMENTED, "%s: this build of Kiln keeps its databases in files only; name a file",
        name.data);
    kiln_strbuf_deinit(&name);
    return st;
}

static kiln_db *make_handle(const char *path, kiln_db_kind kind, kiln_db_mode mode) {
    kiln_db *db = kiln_alloc(sizeof *db);
    const size_t size = strlen(path) + 1;
    *db = (kiln_db){.backend = backend_of(path), .kind = kind, .mode = mode};
    db->migrations = &db->backend->migrations[kind];
    db->path = memcpy(kiln_alloc(size), path, size);
    kiln_db_print_path(path, &db->name);
    return db;
}

kiln_status kiln_db_open_with(const char *path, kiln_db_kind kind, kiln_db_mode mode,
                              const kiln_db_migrations *migrations, kiln_db **out_db) {
    kiln_status st = check_path(path);
    if (st) return st;
    kiln_db *db = make_handle(path, kind, mode);
    if (migrations) db->migrations = migrations;
    st = db->backend->open(db);
    if (!st) st = kiln_db_migrate(db);
    if (st) {
        kiln_db_close(db);
        return st;
    }
    *out_db = db;
    return NULL;
}

kiln_status kiln_db_open(const char *path, kiln_db_kind kind, kiln_db_mode mode, kiln_db **out_db) {
    return kiln_db_open_with(path, kind, mode, NULL, out_db);
}

void kiln_db_close(kiln_db *db) {
    if (!db) return;
    for (size_t i = 0; i < KILN_DB_TABLE_COUNT; i++) {
        kiln_db_release(db->put[i][false]);
        kiln_db_release(db->put[i][true]);
    }
    if (db->pending) kiln_db_rollback(db);
    while (db->statement_count > 0) {
        kiln_db_statement *statement = db->statement[--db->statement_count];
        KILN_CHECK(!statement->busy); /* otherwise a reader did not release it */
        kiln_free((char *)statement->sql.data);
        db->backend->finalize(statement);
    }
    db->backend->close(db);
    kiln_strbuf_deinit(&db->name);
    kiln_free(db->path);
    kiln_free(db);
}

uint32_t kiln_db_newest_schema(kiln_db_kind kind) { return kiln_db_sqlite_migrations[kind].count; }

static kiln_status refuse_copy(const char *path) {
    kiln_strbuf name = {0};
    kiln_db_print_path(path, &name);
    kiln_status st = KILN_ERROR(UNIMPLEMENTED,
                                "%s is on a server, which copies it as of one moment by its own "
                                "means: pg_dump, and pg_restore; or `kiln db export` for records",
                                name.data);
    kiln_strbuf_deinit(&name);
    return st;
}

kiln_status kiln_db_copy(const char *path, kiln_db_kind kind, const char *to,
                         uint32_t *out_schema) {
    kiln_status st = check_path(path);
    if (!st && !backend_of(path)->copy) st = refuse_copy(path);
    if (!st && kiln_file_exists(to))
        st = KILN_ERROR(ALREADY_EXISTS, "%s: there is such a file", to);
    if (st) return st;
    kiln_db *db = make_handle(path, kind, KILN_DB_READ);
    st = db->backend->open(db);
    if (!st) st = kiln_db_read_schema(db, out_schema);
    if (!st) st = db->backend->copy(db, to);
    kiln_db_close(db);
    return st;
}

void kiln_db_bound_cache(kiln_db *db, size_t bytes) { db->backend->bound_cache(db, bytes); }

/* ---- Statements ---- */

/* The kept statement with this text; otherwise where a new one goes: a free place, or that of the
 * idle one that was used longest ago. */
static kiln_db_statement **find_place(kiln_db *db, kiln_str sql) {
    kiln_db_statement **oldest = NULL;
    for (uint32_t i = 0; i < db->statement_count; i++) {
        kiln_db_statement **one = &db->statement[i];
        if ((*one)->busy) continue;
        if (kiln_str_equal((*one)->sql, sql)) return one;
        if (!oldest || (*one)->last_use < (*oldest)->last_use) oldest = one;
    }
    if (db->statement_count < KILN_DB_STATEMENTS_MAX) return &db->statement[db->statement_count];
    KILN_CHECK(oldest);
    return oldest;
}

kiln_status kiln_db_prepare(kiln_db *db, const char *sql, kiln_db_statement **out_statement) {
    kiln_str text = kiln_str_from(sql);
    kiln_db_statement **place = find_place(db, text), *old = *place;
    if (!old || !kiln_str_equal(old->sql, text)) {
        kiln_db_statement *made = NULL;
        kiln_status st = db->backend->prepare(db, sql, &made);
        if (st) return st;
        if (old) {
            kiln_free((char *)old->sql.data);
            db->backend->finalize(old);
        } else {
            db->statement_count++;
        }
        made->db = db;
        made->sql = (kiln_str){memcpy(kiln_alloc(text.size + 1), sql, text.size), text.size};
        *place = made;
    }
    (*place)->busy = true;
    (*place)->last_use = ++db->clock;
    *out_statement = *place;
    return NULL;
}

void kiln_db_release(kiln_db_statement *statement) {
    if (!statement) return;
    statement->db->backend->reset(statement);
    statement->busy = false;
}

void kiln_db_bind_text(kiln_db_statement *statement, uint32_t index, kiln_str text) {
    statement->db->backend->bind(statement, index,
                                 &(kiln_db_value){.type = KILN_DB_TEXT, .bytes = text});
}

/* ---- Groups ---- */

kiln_status kiln_db_begin(kiln_db *db) {
    KILN_CHECK(db->mode == KILN_DB_WRITE);
    if (db->pending) return NULL;
    kiln_status st = db->backend->begin(db);
    if (!st) db->pending = true;
    return st;
}

kiln_status kiln_db_run(kiln_db_statement *statement, const char *doing) {
    kiln_db *db = statement->db;
    kiln_status st = kiln_fail_at(KILN_FAIL_DB_PUT);
    if (!st) st = db->backend->run(statement, doing);
    db->backend->reset(statement);
    if (st && kiln_status_code(st) != KILN_INVALID_ARGUMENT) kiln_db_rollback(db);
    return st;
}

kiln_status kiln_db_settle(kiln_db *db) {
    if (!db->pending) return NULL;
    kiln_status st = db->backend->settle(db);
    if (st && kiln_status_code(st) != KILN_INVALID_ARGUMENT) kiln_db_rollback(db);
    return st;
}

kiln_status kiln_db_commit(kiln_db *db) {
    if (!db->pending) return NULL;
    kiln_status st = kiln_fail_at(KILN_FAIL_DB_COMMIT);
    if (!st) st = db->backend->commit(db);
    if (!st)
        kiln_fail_pass(KILN_FAIL_DB_DURABLE);
    else
        db->backend->rollback(db);
    db->pending = false;
    return st;
}

void kiln_db_rollback(kiln_db *db) {
    db->backend->rollback(db);
    db->pending = false;
}

bool kiln_db_pending(const kiln_db *db) { return db->pending; }

kiln_status kiln_db_lead(kiln_db *db, bool *out_leads) { return db->backend->lead(db, out_leads); }

kiln_status kiln_db_claim(kiln_db *db, kiln_str id, kiln_str holder, bool *out_has) {
    KILN_CHECK(db->kind == KILN_DB_RECORDS && db->mode == KILN_DB_WRITE);
    return db->backend->claim(db, id, holder, out_has);
}

kiln_status kiln_db_unclaim(kiln_db *db, kiln_str id, kiln_str holder) {
    KILN_CHECK(db->kind == KILN_DB_RECORDS && db->mode == KILN_DB_WRITE);
    return db->backend->unclaim(db, id, holder);
}

kiln_status kiln_db_sql(kiln_db *db, kiln_str sql, kiln_db_sql_row row, void *context) {
    if (sql.size > KILN_DB_TEXT_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "the statement is too long");
    return db->backend->read_sql(db, sql, row, context);
}
