#include "db/migrate.h"

#include "base/str.h"
#include "db/internal.h"

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
static kiln_status read_number(sqlite3 *handle, const char *path, const char *sql,
                               int64_t *out_number) {
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(handle, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(statement);
    kiln_status st =
        rc == SQLITE_ROW ? NULL : kiln_db_error(handle, path, rc, "reading the schema's version");
    if (!st) *out_number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return st;
}

/* Reads the version, or says why this is not a file for us. An empty database is version 0 of any
 * kind. */
static kiln_status read_version(sqlite3 *handle, const char *path, kiln_db_kind kind,
                                uint32_t newest, uint32_t *out_version) {
    int64_t id = 0, version = 0, objects = 0;
    kiln_status st = read_number(handle, path, "PRAGMA application_id", &id);
    if (!st) st = read_number(handle, path, "PRAGMA user_version", &version);
    if (!st) st = read_number(handle, path, "SELECT count(*) FROM sqlite_schema", &objects);
    if (st) return st;

    if (id == 0 && version == 0 && objects == 0) {
        *out_version = 0;
        return NULL;
    }
    if (id != application_id_of[kind]) {
        for (size_t other = 0; other < KILN_ARRAY_COUNT(application_id_of); other++)
            if (id == application_id_of[other])
                return KILN_ERROR(FAILED_PRECONDITION, "%s is %s, not %s", path, kind_name[other],
                                  kind_name[kind]);
        return KILN_ERROR(FAILED_PRECONDITION,
                          "%s is an SQLite file of another program; name another path", path);
    }
    if (version < 1 || version > newest)
        return KILN_ERROR(
            FAILED_PRECONDITION,
            "%s has schema %lld and this program knows up to %u: a newer Kiln wrote it; use that "
            "version or another path",
            path, (long long)version, newest);
    *out_version = (uint32_t)version;
    return NULL;
}

static kiln_status apply_script(sqlite3 *handle, const char *path, kiln_db_kind kind,
                                const char *script, uint32_t version) {
    kiln_strbuf sql = {0};
    kiln_strbuf_printf(&sql, "%s\nPRAGMA application_id = %d; PRAGMA user_version = %u; COMMIT;",
                       script, application_id_of[kind], version);
    int rc = sqlite3_exec(handle, sql.data, NULL, NULL, NULL);
    kiln_strbuf_deinit(&sql);
    return rc == SQLITE_OK ? NULL
                           : kiln_db_error(handle, path, rc, "bringing the schema up to date");
}

/* One step: what is missing is decided inside the transaction, because two programs may open a new
 * file at the same moment. */
static kiln_status migrate_once(sqlite3 *handle, const char *path, kiln_db_kind kind,
                                const kiln_db_migrations *migrations, bool *out_done) {
    int rc = sqlite3_exec(handle, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc != SQLITE_OK) return kiln_db_error(handle, path, rc, "opening for writing");
    uint32_t version = 0;
    kiln_status st = read_version(handle, path, kind, migrations->count, &version);
    *out_done = !st && version == migrations->count;
    if (!st && !*out_done)
        st = apply_script(handle, path, kind, migrations->script[version], version + 1);
    if (!sqlite3_get_autocommit(handle)) sqlite3_exec(handle, "ROLLBACK", NULL, NULL, NULL);
    return st;
}

kiln_status kiln_db_migrate(sqlite3 *handle, const char *path, kiln_db_kind kind, kiln_db_mode mode,
                            const kiln_db_migrations *migrations) {
    uint32_t version = 0;
    kiln_status st = read_version(handle, path, kind, migrations->count, &version);
    if (st || version == migrations->count) return st;
    if (mode == KILN_DB_READ)
        return KILN_ERROR(FAILED_PRECONDITION,
                          "%s has schema %u, older than this program's %u: open it once for "
                          "writing to bring it up "
                          "to date",
                          path, version, migrations->count);
    for (bool done = false; !st && !done;) st = migrate_once(handle, path, kind, migrations, &done);
    return st;
}
