#include "db/db.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/file.h"
#include "db/internal.h"
#include "db/migrate.h"

/* How long a program waits for another that is writing: a commit lasts milliseconds, so longer
 * means that somebody else keeps the writer's place. */
#define BUSY_TIMEOUT_MS 5000

static kiln_code code_of(int rc) {
    switch (rc & 0xff) { /* the low byte is the class; the rest says more than a caller can use */
    case SQLITE_FULL: return KILN_RESOURCE_EXHAUSTED;
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY: return KILN_PERMISSION_DENIED;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return KILN_UNAVAILABLE;
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_RANGE:
    case SQLITE_TOOBIG: return KILN_INVALID_ARGUMENT;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
    case SQLITE_IOERR: return KILN_DATA_LOSS;
    default: return KILN_INTERNAL;
    }
}

kiln_status kiln_db_error(sqlite3 *handle, const char *path, int rc, const char *doing) {
    const char *advice = "";
    switch (rc & 0xff) {
    case SQLITE_FULL: advice = " (the disk is full; nothing of it was stored)"; break;
    case SQLITE_BUSY:
        advice = " (another program is writing to it; stop that one, or name another path)";
        break;
    default: break;
    }
    return kiln_status_make(code_of(rc), __FILE__, __LINE__, "%s: %s: %s%s", path, doing,
                            handle ? sqlite3_errmsg(handle) : sqlite3_errstr(rc), advice);
}

static bool parent_is_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return true;
    kiln_strbuf parent = {0};
    kiln_strbuf_append(&parent, path, (size_t)(slash - path));
    bool is_folder = kiln_file_is_folder(parent.data);
    kiln_strbuf_deinit(&parent);
    return is_folder;
}

/* SQLite folds many reasons into one code, and its errno is that of its last attempt; say which it
 * is. */
static kiln_status open_error(sqlite3 *handle, const char *path, kiln_db_mode mode, int rc) {
    if (mode == KILN_DB_READ && !kiln_file_exists(path))
        return KILN_ERROR(NOT_FOUND, "%s: there is no such database", path);
    if (kiln_file_is_folder(path))
        return KILN_ERROR(PERMISSION_DENIED, "%s is a folder; name a file in it", path);
    if (!parent_is_folder(path))
        return KILN_ERROR(NOT_FOUND, "%s: its folder does not exist", path);
    if ((rc & 0xff) == SQLITE_CANTOPEN)
        return KILN_ERROR(PERMISSION_DENIED,
                          "%s: the file, or one beside it, cannot be opened or made", path);
    return kiln_db_error(handle, path, rc, "opening the database");
}

static kiln_status set_up(kiln_db *db) {
    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_timeout(db->handle, BUSY_TIMEOUT_MS);
    const char *pragmas =
        "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA synchronous = FULL;";
    int rc = sqlite3_exec(db->handle, pragmas, NULL, NULL, NULL);
    /* The first read finds out what kind of file this is, before anything is written to it. */
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db->handle, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
    if (rc != SQLITE_OK) return open_error(db->handle, db->path, db->mode, rc);
    if (db->mode == KILN_DB_READ) return NULL;

    if (sqlite3_db_readonly(db->handle, "main") == 1)
        return KILN_ERROR(PERMISSION_DENIED, "%s: the file cannot be written", db->path);
    rc = sqlite3_exec(db->handle, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    return rc == SQLITE_OK ? NULL : open_error(db->handle, db->path, db->mode, rc);
}

kiln_status kiln_db_open(const char *path, kiln_db_kind kind, kiln_db_mode mode, kiln_db **out_db) {
    kiln_db *db = kiln_alloc(sizeof *db);
    *db = (kiln_db){.kind = kind, .mode = mode};
    size_t size = strlen(path) + 1;
    db->path = memcpy(kiln_alloc(size), path, size);

    int flags =
        mode == KILN_DB_READ ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    int rc = sqlite3_open_v2(path, &db->handle, flags | SQLITE_OPEN_NOMUTEX, NULL);
    kiln_status st = rc == SQLITE_OK ? set_up(db) : open_error(db->handle, path, mode, rc);
    if (!st) st = kiln_db_migrate(db->handle, path, kind, mode, &kiln_db_migrations_of[kind]);
    if (st) {
        kiln_db_close(db);
        return st;
    }
    *out_db = db;
    return NULL;
}

void kiln_db_close(kiln_db *db) {
    if (!db) return;
    for (size_t i = 0; i < KILN_DB_TABLE_COUNT; i++) sqlite3_finalize(db->put[i]);
    if (db->pending) kiln_db_rollback(db);
    KILN_CHECK(sqlite3_close(db->handle) == SQLITE_OK); /* else a statement leaked */
    kiln_free(db->path);
    kiln_free(db);
}

kiln_status kiln_db_prepare(kiln_db *db, const char *sql, sqlite3_stmt **out_statement) {
    int rc = sqlite3_prepare_v2(db->handle, sql, -1, out_statement, NULL);
    return rc == SQLITE_OK ? NULL
                           : kiln_db_error(db->handle, db->path, rc, "preparing a statement");
}

kiln_status kiln_db_begin(kiln_db *db) {
    KILN_CHECK(db->mode == KILN_DB_WRITE);
    if (db->pending) return NULL;
    int rc = sqlite3_exec(db->handle, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc != SQLITE_OK) return kiln_db_error(db->handle, db->path, rc, "beginning to write");
    db->pending = true;
    return NULL;
}

kiln_status kiln_db_run(kiln_db *db, sqlite3_stmt *statement, const char *doing) {
    int rc = sqlite3_step(statement);
    kiln_status st = NULL;
    if (rc != SQLITE_DONE) st = kiln_db_error(db->handle, db->path, rc, doing);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    if (st && kiln_status_code(st) != KILN_INVALID_ARGUMENT) kiln_db_rollback(db);
    return st;
}

kiln_status kiln_db_commit(kiln_db *db) {
    if (!db->pending) return NULL;
    int rc = sqlite3_exec(db->handle, "COMMIT", NULL, NULL, NULL);
    if (rc == SQLITE_OK) {
        db->pending = false;
        return NULL;
    }
    kiln_status st = kiln_db_error(db->handle, db->path, rc, "committing");
    kiln_db_rollback(db);
    return st;
}

void kiln_db_rollback(kiln_db *db) {
    /* Some errors have made SQLite roll back by itself. */
    if (!sqlite3_get_autocommit(db->handle)) sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    db->pending = false;
}

bool kiln_db_pending(const kiln_db *db) { return db->pending; }
