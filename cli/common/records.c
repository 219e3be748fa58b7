#include "cli/common/records.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/opt.h"
#include "db/trust.h"
#include "proto/signing.h"

kiln_status kiln_db_path(const char *option, kiln_arena *process, const char **out_path) {
    char *home = NULL;
    if (option) {
        *out_path = option;
        return KILN_OK;
    }
    kiln_status st = kiln_home(process, &home);
    if (!st) *out_path = kiln_arena_printf(process, "%s/kiln.db", home);
    return st;
}

kiln_status kiln_trust_own(kiln_db *db, kiln_arena *process) {
    char *home = NULL;
    kiln_signing own = {0};
    kiln_status st = kiln_home(process, &home);
    if (st || !kiln_file_exists(kiln_arena_printf(process, "%s/signing.key", home))) return st;
    st = kiln_signing_load(home, NULL, &own);
    if (!st && own.signer)
        st = kiln_db_trust_own(db, kiln_signer_public(own.signer),
                               own.has_before ? &own.succession : NULL,
                               (int64_t)kiln_clock_wall_ns());
    kiln_signer_destroy(own.signer);
    return st;
}

kiln_db_allowed kiln_allowed_by(const kiln_accuracy *accuracy, kiln_arena *arena) {
    return (kiln_db_allowed){kiln_algorithm_allowed(accuracy, arena),
                             kiln_accuracy_error_max(accuracy)};
}

kiln_status kiln_db_check_there(const char *path) {
    if (!kiln_db_is_there(path))
        return KILN_ERROR(NOT_FOUND,
                          "%s: there is no such database; kiln tune makes one, --db names another",
                          path);
    return !kiln_file_exists(path) || access(path, R_OK) == 0
               ? KILN_OK
               : KILN_ERROR(PERMISSION_DENIED, "%s: the file cannot be opened", path);
}

/* How well the default that `record` holds compares with `best`. */
static uint32_t default_rank(const kiln_db_record *record, const kiln_db_record *best) {
    if (!record->final) return 1;
    if (!best || !best->final || !kiln_str_equal(record->job_id, best->job_id)) return 2;
    return record->stored_wall_ns == best->stored_wall_ns ? 4 : 3; /* a job may have several */
}

const kiln_db_record *kiln_record_default(const kiln_db_record *record, uint32_t count,
                                          const kiln_db_record *best) {
    const kiln_db_record *found = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const kiln_db_record *r = &record[i];
        bool ran = kiln_str_is(r->outcome, "ok") && r->checked && r->median_ns > 0;
        if (!ran || !kiln_str_is(r->searcher, "default")) continue;
        if (!found || default_rank(r, best) >= default_rank(found, best)) found = r;
    }
    return found;
}
