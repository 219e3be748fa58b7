/* The SQLite back end: one file in WAL mode with STRICT tables. */
#include "db/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/file.h"
#include "base/thread_work.h"
#include "db/backend.h"

/* How long a program waits for another writer. A commit lasts milliseconds, so a longer wait means
 * that another program keeps the lock. */
#define BUSY_TIMEOUT_MS 5000
#define BUSY_STEP_MS 5

typedef struct session {
    sqlite3 *handle;
    int lead_fd; /* holds the leader's lock; -1: not leading */
} session;

typedef struct statement {
    kiln_db_statement base;
    sqlite3_stmt *stmt;
} statement;

static session *session_of(const kiln_db *db) { return db->session; }
static sqlite3_stmt *stmt_of(kiln_db_statement *s) { return ((statement *)s)->stmt; }
sqlite3 *kiln_db_sqlite_handle(kiln_db *db) { return session_of(db)->handle; }

/* ---- Errors ---- */

static kiln_code code_of(int rc, int system_error) {
    if (rc == SQLITE_IOERR_NOMEM || system_error == ENOSPC || system_error == EDQUOT)
        return KILN_RESOURCE_EXHAUSTED;
    switch (rc & 0xff) { /* the low byte is the class; the rest says more than a caller can use */
    case SQLITE_FULL:
    case SQLITE_NOMEM: return KILN_RESOURCE_EXHAUSTED;
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

/* What a result code means here, with the path and SQLite's own words. */
static kiln_status error_of(const kiln_db *db, int rc, const char *doing) {
    sqlite3 *handle = session_of(db)->handle;
    int class = rc & 0xff;
    int system_error = handle && class == SQLITE_IOERR && rc != SQLITE_IOERR_NOMEM
                           ? sqlite3_system_errno(handle)
                           : 0;
    kiln_code code = code_of(rc, system_error);
    const char *advice = "";
    if (class == SQLITE_BUSY)
        advice = " (another program is writing to it; stop that one, or name another path)";
    else if (class == SQLITE_NOMEM || rc == SQLITE_IOERR_NOMEM)
        advice = " (out of memory; nothing of it was stored)";
    else if (code == KILN_RESOURCE_EXHAUSTED)
        advice = " (the disk is full; nothing of it was stored)";
    return kiln_status_make(code, __FILE__, __LINE__, "%s: %s: %s%s", db->name.data, doing,
                            handle ? sqlite3_errmsg(handle) : sqlite3_errstr(rc), advice);
}

static bool parent_exists(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return true;
    kiln_strbuf parent = {0};
    kiln_strbuf_append(&parent, path, (size_t)(slash - path));
    bool exists = kiln_file_exists(parent.data);
    kiln_strbuf_deinit(&parent);
    return exists;
}

/* SQLite folds many reasons into one code, and its errno is that of its last attempt; say which it
 * is. */
static kiln_status open_error(const kiln_db *db, int rc) {
    const char *path = db->path;
    if ((rc & 0xff) != SQLITE_CANTOPEN) return error_of(db, rc, "opening the database");
    if (db->mode == KILN_DB_READ && !kiln_file_exists(path))
        return KILN_ERROR(NOT_FOUND, "%s: there is no such database", path);
    if (kiln_file_is_folder(path))
        return KILN_ERROR(PERMISSION_DENIED, "%s is a folder; name a file in it", path);
    if (!parent_exists(path)) return KILN_ERROR(NOT_FOUND, "%s: its folder does not exist", path);
    return KILN_ERROR(PERMISSION_DENIED, "%s: the file, or one beside it, cannot be opened or made",
                      path);
}

/* ---- Opening ---- */

/* New records change pages all over the indexes. With the 64 MiB cache a group need not be written
 * before its commit, and with a log of 32 MiB a page is copied into the file less often: 60,000
 * records came in at 4,700 a second with SQLite's defaults, 6,000 with the cache and 9,800 with
 * both (./dev bench db). A log of that size is read again in some 20 ms after a crash. A
 * reader's 16 MiB hold the inner pages of a million records and what was last asked for: ten best
 * of a task in 91 us median and 221 us p99 instead of 121 and 263 with SQLite's 2 MiB (medians of
 * twelve runs in turns); more only adds fresh memory, of which each page costs a fault. */
static kiln_status set_up(kiln_db *db) {
    sqlite3 *handle = session_of(db)->handle;
    sqlite3_extended_result_codes(handle, 1);
    sqlite3_busy_timeout(handle, BUSY_TIMEOUT_MS);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    static const char *const pragmas[] = {
        [KILN_DB_READ] = "PRAGMA cache_size = -16384",
        [KILN_DB_WRITE] = "PRAGMA cache_size = -65536; PRAGMA synchronous = FULL",
    };
    /* The first read finds out what kind of file this is, before anything is written to it. */
    int rc = sqlite3_exec(handle, pragmas[db->mode], NULL, NULL, NULL);
    if (rc != SQLITE_OK) return open_error(db, rc);
    if (db->mode == KILN_DB_READ) return NULL;

    sqlite3_wal_autocheckpoint(handle, 8000);
    if (sqlite3_db_readonly(handle, "main") == 1)
        return KILN_ERROR(PERMISSION_DENIED, "%s: the file cannot be written", db->path);
    /* SQLite waits for others at every lock but this one. */
    for (int waited_ms = 0; waited_ms < BUSY_TIMEOUT_MS; waited_ms += sqlite3_sleep(BUSY_STEP_MS)) {
        rc = sqlite3_exec(handle, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
        if ((rc & 0xff) != SQLITE_BUSY) break;
    }
    return rc == SQLITE_OK ? NULL : open_error(db, rc);
}

static kiln_status sqlite_open(kiln_db *db) {
    /* SQLite's count of its memory is not used, and takes a lock in each allocation: a
     * sixth of the instructions of opening. Refused, without effect, once SQLite is in use. */
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    session *s = kiln_alloc(sizeof *s);
    s->lead_fd = -1;
    db->session = s;
    int flags = db->mode == KILN_DB_READ ? SQLITE_OPEN_READONLY
                                         : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    int rc = sqlite3_open_v2(db->path, &s->handle, flags | SQLITE_OPEN_NOMUTEX, NULL);
    return rc == SQLITE_OK ? set_up(db) : open_error(db, rc);
}

static void sqlite_close(kiln_db *db) {
    session *s = session_of(db);
    KILN_CHECK(sqlite3_close(s->handle) == SQLITE_OK); /* otherwise a statement leaked */
    if (s->lead_fd >= 0) close(s->lead_fd);
    kiln_free(s);
}

static void sqlite_bound_cache(kiln_db *db, size_t bytes) {
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA cache_size = -%zu", bytes / 1024);
    sqlite3_exec(session_of(db)->handle, sql, NULL, NULL, NULL); /* a hint: it cannot fail */
}

/* ---- The schema's version: PRAGMA user_version, and application_id for the kind ---- */

/* "KLNR" and "KLNT", as `file` and SQLite's own tools show them. */
static const int application_id_of[] = {
    [KILN_DB_RECORDS] = 0x4b4c4e52,
    [KILN_DB_TRACKER] = 0x4b4c4e54,
};

static const char *const kind_name[] = {
    [KILN_DB_RECORDS] = "a records database",
    [KILN_DB_TRACKER] = "a tracker's database",
};

/* The number that `sql` returns in its first row. */
static kiln_status read_number(kiln_db *db, const char *sql, int64_t *out_number) {
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(session_of(db)->handle, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(stmt);
    kiln_status st = rc == SQLITE_ROW ? NULL : error_of(db, rc, "reading the schema's version");
    if (!st) *out_number = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return st;
}

static kiln_status sqlite_read_version(kiln_db *db, int64_t *out_version) {
    int64_t id = 0, version = 0, objects = 0;
    kiln_status st = read_number(db, "PRAGMA application_id", &id);
    if (!st) st = read_number(db, "PRAGMA user_version", &version);
    if (!st && id == 0) st = read_number(db, "SELECT count(*) FROM sqlite_schema", &objects);
    if (st) return st;
    if (id == application_id_of[db->kind] || (id == 0 && version == 0 && objects == 0)) {
        *out_version = version;
        return NULL;
    }
    for (size_t other = 0; other < KILN_ARRAY_COUNT(application_id_of); other++)
        if (id == application_id_of[other])
            return KILN_ERROR(FAILED_PRECONDITION, "%s is %s, not %s", db->path, kind_name[other],
                              kind_name[db->kind]);
    return KILN_ERROR(FAILED_PRECONDITION,
                      "%s is an SQLite file of another program; name another path", db->path);
}

static kiln_status exec(kiln_db *db, const char *sql, const char *doing) {
    int rc = sqlite3_exec(session_of(db)->handle, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? NULL : error_of(db, rc, doing);
}

static kiln_status sqlite_migrate(kiln_db *db, const char *script, uint32_t version) {
    kiln_strbuf sql = {0};
    kiln_strbuf_printf(&sql, "%s\nPRAGMA application_id = %d; PRAGMA user_version = %u;", script,
                       application_id_of[db->kind], version);
    kiln_status st = exec(db, sql.data, "running a migration");
    kiln_strbuf_deinit(&sql);
    return st;
}

/* ---- Groups ---- */

static kiln_status sqlite_begin(kiln_db *db) {
    return exec(db, "BEGIN IMMEDIATE", "beginning to write");
}

static kiln_status sqlite_settle(kiln_db *db) {
    (void)db; /* BEGIN IMMEDIATE took the lock, and each run reported */
    return NULL;
}

static kiln_status sqlite_commit(kiln_db *db) { return exec(db, "COMMIT", "committing"); }

static void sqlite_rollback(kiln_db *db) {
    sqlite3 *handle = session_of(db)->handle;
    if (!sqlite3_get_autocommit(handle)) sqlite3_exec(handle, "ROLLBACK", NULL, NULL, NULL);
}

/* ---- Statements ---- */

static kiln_status sqlite_prepare(kiln_db *db, const char *sql, kiln_db_statement **out_statement) {
    sqlite3_stmt *stmt = NULL;
    int rc =
        sqlite3_prepare_v3(session_of(db)->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL);
    if (rc != SQLITE_OK) return error_of(db, rc, "preparing a statement");
    statement *s = kiln_alloc(sizeof *s);
    s->stmt = stmt;
    *out_statement = &s->base;
    return NULL;
}

static void sqlite_finalize(kiln_db_statement *s) {
    sqlite3_finalize(stmt_of(s));
    kiln_free(s);
}

static void sqlite_bind(kiln_db_statement *s, uint32_t index, const kiln_db_value *value) {
    sqlite3_stmt *stmt = stmt_of(s);
    const char *data = value->bytes.data;
    int size = (int)value->bytes.size; /* at most KILN_DB_TEXT_MAX */
    switch (value->type) {
    case KILN_DB_TEXT:
        if (size > 0) sqlite3_bind_text(stmt, (int)index, data, size, SQLITE_STATIC);
        break;
    case KILN_DB_BLOB:
    case KILN_DB_SAMPLES:
        if (size > 0) sqlite3_bind_blob(stmt, (int)index, data, size, SQLITE_STATIC);
        break;
    case KILN_DB_INT: sqlite3_bind_int64(stmt, (int)index, value->integer); break;
    case KILN_DB_REAL: sqlite3_bind_double(stmt, (int)index, value->real); break;
    }
}

static kiln_status sqlite_step(kiln_db_statement *s, const char *doing, bool *out_row) {
    int rc = sqlite3_step(stmt_of(s));
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) return error_of(s->db, rc, doing);
    *out_row = rc == SQLITE_ROW;
    kiln_thread_walks(*out_row);
    return NULL;
}

static kiln_status sqlite_run(kiln_db_statement *s, const char *doing) {
    int rc = sqlite3_step(stmt_of(s));
    return rc == SQLITE_DONE ? NULL : error_of(s->db, rc, doing);
}

static void sqlite_reset(kiln_db_statement *s) {
    sqlite3_reset(stmt_of(s));
    sqlite3_clear_bindings(stmt_of(s));
}

static kiln_str bytes_of(sqlite3_stmt *stmt, int index) {
    const void *data = sqlite3_column_blob(stmt, index); /* before the size, says SQLite */
    return (kiln_str){data, (size_t)sqlite3_column_bytes(stmt, index)};
}

static kiln_str sqlite_column_bytes(kiln_db_statement *s, uint32_t index) {
    return bytes_of(stmt_of(s), (int)index);
}

static int64_t sqlite_column_int(kiln_db_statement *s, uint32_t index) {
    return sqlite3_column_int64(stmt_of(s), (int)index);
}

static double sqlite_column_real(kiln_db_statement *s, uint32_t index) {
    return sqlite3_column_double(stmt_of(s), (int)index);
}

/* ---- kiln_db_sql ---- */

/* Reading needs nothing else; ATTACH would open other files, and a PRAGMA with an argument changes
 * settings. */
static int allow_reading(void *context, int action, const char *first, const char *second,
                         const char *database, const char *trigger) {
    (void)context, (void)database, (void)trigger;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_FUNCTION:
    case SQLITE_RECURSIVE: return SQLITE_OK;
    case SQLITE_PRAGMA:
        return !second || strncmp(first, "table_", 6) == 0 || strncmp(first, "index_", 6) == 0
                   ? SQLITE_OK
                   : SQLITE_DENY;
    default: return SQLITE_DENY;
    }
}

/* A blob as hex in `arena`; anything else as SQLite prints it. */
static const char *cell_text(sqlite3_stmt *stmt, int index, kiln_arena *arena) {
    int type = sqlite3_column_type(stmt, index);
    if (type == SQLITE_NULL) return NULL;
    if (type != SQLITE_BLOB) return (const char *)sqlite3_column_text(stmt, index);
    kiln_str bytes = bytes_of(stmt, index);
    char *hex = kiln_arena_alloc(arena, bytes.size * 2 + 1);
    static const char digit[] = "0123456789abcdef";
    for (size_t i = 0; i < bytes.size; i++) {
        hex[2 * i] = digit[(uint8_t)bytes.data[i] >> 4];
        hex[2 * i + 1] = digit[(uint8_t)bytes.data[i] & 15];
    }
    return hex;
}

static kiln_status visit_rows(kiln_db *db, sqlite3_stmt *stmt, kiln_db_sql_row row, void *context) {
    kiln_arena arena, row_arena;
    kiln_arena_init(&arena, 0);
    kiln_arena_init(&row_arena, 0);
    uint32_t count = (uint32_t)sqlite3_column_count(stmt);
    kiln_db_cell *cell = KILN_ARENA_ARRAY(&arena, kiln_db_cell, count);
    for (uint32_t i = 0; i < count; i++) cell[i].name = sqlite3_column_name(stmt, (int)i);
    kiln_status st = NULL;
    int rc = SQLITE_DONE;
    while (!st && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        kiln_arena_reset(&row_arena);
        for (uint32_t i = 0; i < count; i++) {
            int type = sqlite3_column_type(stmt, (int)i); /* before it is turned into text */
            cell[i].is_number = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
            cell[i].text = cell_text(stmt, (int)i, &row_arena);
        }
        st = row(context, count, cell);
    }
    if (!st && rc != SQLITE_DONE) st = error_of(db, rc, "running the statement");
    kiln_arena_deinit(&row_arena);
    kiln_arena_deinit(&arena);
    return st;
}

static kiln_status prepare_reading(kiln_db *db, kiln_str sql, sqlite3_stmt **out_stmt) {
    sqlite3 *handle = session_of(db)->handle;
    const char *rest = NULL;
    sqlite3_stmt *stmt = NULL;
    sqlite3_set_authorizer(handle, allow_reading, NULL);
    int rc = sqlite3_prepare_v2(handle, sql.data, (int)sql.size, &stmt, &rest);
    sqlite3_set_authorizer(handle, NULL, NULL);
    if (rc == SQLITE_AUTH)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "only reading is possible here; the statement would change something");
    if (rc == SQLITE_ERROR) return KILN_ERROR(INVALID_ARGUMENT, "%s", sqlite3_errmsg(handle));
    if (rc != SQLITE_OK) return error_of(db, rc, "reading the statement");

    kiln_str left = kiln_str_trim((kiln_str){rest, (size_t)(sql.data + sql.size - rest)});
    kiln_status st = NULL;
    if (!stmt)
        st = KILN_ERROR(INVALID_ARGUMENT, "there is no statement");
    else if (left.size > 0)
        st = KILN_ERROR(INVALID_ARGUMENT, "one statement at a time: \"%.*s\" is left",
                        KILN_STR_ARG(left));
    if (st)
        sqlite3_finalize(stmt);
    else
        *out_stmt = stmt;
    return st;
}

static kiln_status sqlite_read_sql(kiln_db *db, kiln_str sql, kiln_db_sql_row row, void *context) {
    sqlite3_stmt *stmt = NULL;
    kiln_status st = prepare_reading(db, sql, &stmt);
    if (st) return st;
    st = visit_rows(db, stmt, row, context);
    sqlite3_finalize(stmt);
    return st;
}

/* ---- Leadership: a lock on a file beside it, which the kernel frees with its holder ---------- */

static kiln_status sqlite_lead(kiln_db *db, bool *out_leads) {
    session *s = session_of(db);
    *out_leads = true;
    if (s->lead_fd >= 0 || strcmp(db->path, ":memory:") == 0) return NULL;
    kiln_strbuf path = {0};
    kiln_strbuf_printf(&path, "%s-leader", db->path);
    int fd = open(path.data, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    kiln_status st = fd >= 0 ? NULL
                             : kiln_status_make(kiln_code_from_errno(errno), __FILE__, __LINE__,
                                                "%s: %s", path.data, strerror(errno));
    kiln_strbuf_deinit(&path);
    if (st) return st;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        s->lead_fd = fd;
        return NULL;
    }
    *out_leads = false;
    close(fd);
    return NULL;
}

/* ---- Claims: see kiln_db_claim ---- */

static kiln_status sqlite_claim(kiln_db *db, kiln_str id, kiln_str holder, bool *out_has) {
    (void)db, (void)id, (void)holder;
    *out_has = true;
    return NULL;
}

static kiln_status sqlite_unclaim(kiln_db *db, kiln_str id, kiln_str holder) {
    (void)db, (void)id, (void)holder;
    return NULL;
}

/* ---- Copies ---- */

/* In one step, which holds a reader's lock only: in WAL mode writers go on. The copy needs no
 * journal, because one that failed is thrown away. */
static kiln_status sqlite_copy(kiln_db *db, const char *to) {
    sqlite3 *copy = NULL;
    kiln_status st = KILN_OK;
    int rc = sqlite3_open_v2(to, &copy, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(copy, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", NULL, NULL,
                          NULL);
    sqlite3_backup *backup =
        rc == SQLITE_OK ? sqlite3_backup_init(copy, "main", session_of(db)->handle, "main") : NULL;
    if (backup) {
        const int stepped = sqlite3_backup_step(backup, -1);
        rc = sqlite3_backup_finish(backup);
        if (rc == SQLITE_OK && stepped != SQLITE_DONE) rc = stepped;
    } else if (rc == SQLITE_OK) {
        rc = sqlite3_errcode(copy);
    }
    if (rc != SQLITE_OK) {
        const kiln_code code = code_of(rc, sqlite3_system_errno(copy));
        st = kiln_status_make(code, __FILE__, __LINE__, "copying %s to %s: %s", db->name.data, to,
                              sqlite3_errstr(rc));
    }
    sqlite3_close(copy);
    return st;
}

const kiln_db_backend kiln_db_sqlite = {
    .migrations = kiln_db_sqlite_migrations,
    .open = sqlite_open,
    .close = sqlite_close,
    .bound_cache = sqlite_bound_cache,
    .read_version = sqlite_read_version,
    .migrate = sqlite_migrate,
    .begin = sqlite_begin,
    .settle = sqlite_settle,
    .commit = sqlite_commit,
    .rollback = sqlite_rollback,
    .prepare = sqlite_prepare,
    .finalize = sqlite_finalize,
    .bind = sqlite_bind,
    .step = sqlite_step,
    .run = sqlite_run,
    .reset = sqlite_reset,
    .column_bytes = sqlite_column_bytes,
    .column_int = sqlite_column_int,
    .column_real = sqlite_column_real,
    .read_sql = sqlite_read_sql,
    .lead = sqlite_lead,
    .claim = sqlite_claim,
    .unclaim = sqlite_unclaim,
    .copy = sqlite_copy,
};
