/* Brings a schema up to date. The scripts in schema/<back end>/<kind>/NNNN.sql are compiled in; a
 * database's version is the number of the last one applied to it. */
#include "base/fail.h"
#include "db/backend.h"

static kiln_status check_version(const kiln_db *db, int64_t version) {
    if (version >= 0 && version <= db->migrations->count) return NULL;
    return KILN_ERROR(
        FAILED_PRECONDITION,
        "%s has schema %lld and this program knows up to %u: a newer Kiln wrote it; use that "
        "version or another path",
        db->name.data, (long long)version, db->migrations->count);
}

static kiln_status read_version(kiln_db *db, int64_t *out_version) {
    kiln_status st = db->backend->read_version(db, out_version);
    return st ? st : check_version(db, *out_version);
}

kiln_status kiln_db_read_schema(kiln_db *db, uint32_t *out_schema) {
    int64_t version = 0;
    kiln_status st = read_version(db, &version);
    if (!st && version == 0)
        st = KILN_ERROR(FAILED_PRECONDITION, "%s is empty, not a database of Kiln", db->name.data);
    if (!st) *out_schema = (uint32_t)version;
    return st;
}

/* One migration. The version is read inside the group, because two programs may open a new database
 * at the same time. */
static kiln_status migrate_once(kiln_db *db, bool *out_done) {
    int64_t version = 0;
    kiln_status st = kiln_db_begin(db);
    if (!st) st = kiln_db_settle(db);
    if (!st) st = read_version(db, &version);
    bool done = !st && version == db->migrations->count;
    if (!st && !done)
        st = db->backend->migrate(db, db->migrations->script[version], (uint32_t)version + 1);
    if (!st && !done) st = kiln_fail_at(KILN_FAIL_DB_MIGRATE);
    if (!st && !done) st = kiln_db_commit(db);
    if (db->pending) kiln_db_rollback(db);
    if (!st) *out_done = done;
    return st ? kiln_status_note(st, "%s: bringing the schema up to date", db->name.data) : NULL;
}

kiln_status kiln_db_migrate(kiln_db *db) {
    int64_t version = 0;
    kiln_status st = read_version(db, &version);
    if (st || version == db->migrations->count) return st;
    if (db->mode == KILN_DB_READ)
        return KILN_ERROR(FAILED_PRECONDITION,
                          "%s has schema %lld, older than this program's %u: open it once for "
                          "writing to bring it up to date",
                          db->name.data, (long long)version, db->migrations->count);
    for (bool done = false; !st && !done;) st = migrate_once(db, &done);
    return st;
}
