#include "db/import.h"

#include "base/alloc.h"
#include "base/check.h"
#include "db/backend.h"
#include "db/canonical.h"
#include "db/plausible.h"
#include "db/trust.h"

struct kiln_db_import {
    kiln_db *db;
    kiln_db_import_options options;
    kiln_db_import_counts counts;
    kiln_checkers checkers;
    /* The last look-ups: rows of one signer and one task come together. */
    kiln_strbuf signer, task_key;
    kiln_strbuf origin; /* of records that count by options.project */
    bool has_trust, has_task;
    kiln_db_trust trust;
    kiln_arena task_arena, signed_arena;
    kiln_db_task task;
};

void kiln_db_import_begin(kiln_db *db, const kiln_db_import_options *options,
                          kiln_db_import **out_import) {
    kiln_db_import *import = kiln_alloc(sizeof *import);
    import->db = db;
    if (options) import->options = *options;
    if (import->options.project)
        kiln_db_project_origin_print(import->options.project->project, &import->origin);
    kiln_arena_init(&import->task_arena, 1024);
    kiln_arena_init(&import->signed_arena, 1024);
    *out_import = import;
}

static kiln_status find_trust(kiln_db_import *import, kiln_str signer, kiln_db_trust *out_trust) {
    kiln_status st = KILN_OK;
    if (!import->has_trust || !kiln_str_equal(kiln_strbuf_view(&import->signer), signer)) {
        st = kiln_db_trust_of(import->db, signer, &import->trust);
        import->has_trust = !st;
        kiln_strbuf_reset(&import->signer);
        kiln_strbuf_str(&import->signer, signer);
    }
    if (!st) *out_trust = import->trust;
    return st;
}

/* *out_task NULL: there is no such row. */
static kiln_status find_task(kiln_db_import *import, kiln_str key, const kiln_db_task **out_task) {
    kiln_status st = KILN_OK;
    if (!import->has_task || !kiln_str_equal(kiln_strbuf_view(&import->task_key), key)) {
        kiln_arena_reset(&import->task_arena);
        kiln_strbuf_reset(&import->task_key);
        kiln_strbuf_str(&import->task_key, key);
        st = kiln_db_find_task(import->db, key, &import->task_arena, &import->task,
                               &import->has_task);
    }
    if (!st) *out_task = import->has_task ? &import->task : NULL;
    return st;
}

static kiln_status implausible(kiln_db_import *import, const kiln_db_record *record,
                               const char **out_why) {
    const kiln_db_task *task = NULL;
    const kiln_db_import_options *options = &import->options;
    kiln_status st = find_task(import, record->task_key, &task);
    if (st) return st;
    *out_why = kiln_record_implausible(record, task, options->now_wall_ns);
    if (!*out_why && options->implausible)
        *out_why = options->implausible(options->context, record, task);
    return KILN_OK;
}

static bool is_of_project(const kiln_db_import *import, kiln_str signer, kiln_db_trust trust) {
    const kiln_db_project_trust *project = import->options.project;
    if (trust != KILN_DB_TRUST_UNKNOWN || !kiln_sign_supported()) return false;
    for (uint32_t i = 0; project && i < project->signers.count; i++)
        if (kiln_str_equal(project->signers.signer[i], signer)) return true;
    return false;
}

/* Its time is that of another system's program: it stays a hint, whoever hands it on. */
static bool is_of_other_system(const kiln_db_record *record) {
    return kiln_str_is(record->origin, kiln_db_origin_name(KILN_DB_ORIGIN_AUTOTVM));
}

/* Decides the standing of the record here. */
static kiln_status judge(kiln_db_import *import, kiln_db_record *record,
                         kiln_db_verdict *out_verdict) {
    kiln_db_trust trust = KILN_DB_TRUST_UNKNOWN;
    bool is_signed = record->signer.size > 0 || record->signature.size > 0;
    if (is_signed && kiln_sign_supported() && !kiln_record_is_signed(&import->checkers, record))
        return KILN_ERROR(DATA_LOSS,
                          "record %.*s: its signature is wrong: it was changed, or forged",
                          KILN_STR_ARG(kiln_str_slice(record->trial_id, 0, 64)));
    kiln_status st = find_trust(import, record->signer, &trust);
    if (!st) st = kiln_db_verdict_of(import->db, record, out_verdict);
    if (st) return st;
    const bool other = is_of_other_system(record);
    bool counts = !other && kiln_db_trust_counts(trust) && (kiln_sign_supported() || !is_signed);
    bool of_project = !other && is_of_project(import, record->signer, trust);
    record->origin = kiln_str_from(kiln_db_origin_name(other       ? KILN_DB_ORIGIN_AUTOTVM
                                                       : is_signed ? KILN_DB_ORIGIN_IMPORTED
                                                                   : KILN_DB_ORIGIN_FOREIGN_LOG));
    if (of_project) record->origin = kiln_strbuf_view(&import->origin);
    record->standing = *out_verdict == KILN_DB_QUARANTINE ? KILN_DB_QUARANTINED
                       : counts || of_project             ? KILN_DB_TRUSTED
                                                          : KILN_DB_HINT;
    return KILN_OK;
}

/* The signature lies in the arena until the next one. */
static kiln_status sign(kiln_db_import *import, kiln_db_record *record) {
    if (!import->options.signer || record->signer.size || record->signature.size ||
        is_of_other_system(record))
        return KILN_OK;
    kiln_arena_reset(&import->signed_arena);
    return kiln_record_sign(import->options.signer, &import->signed_arena, record);
}

static kiln_status take_record(kiln_db_import *import, kiln_db_record *record) {
    kiln_db_import_counts *counts = &import->counts;
    kiln_db_verdict verdict = KILN_DB_RESTORED;
    const char *why = NULL;
    kiln_status st = sign(import, record);
    if (!st) st = judge(import, record, &verdict);
    if (!st) st = implausible(import, record, &why);
    if (st) return st;
    counts->records++;
    if (why) {
        if (counts->refused++ == 0) counts->refusal = why;
        return KILN_OK;
    }
    if (verdict == KILN_DB_FORGOTTEN) {
        counts->forgotten++;
        return KILN_OK;
    }
    counts->quarantined += record->standing < KILN_DB_HINT;
    counts->hints += record->standing == KILN_DB_HINT;
    counts->trusted += record->standing > KILN_DB_HINT;
    return kiln_db_put_foreign(import->db, KILN_DB_TABLE_RECORD, record);
}

static kiln_status take_tombstone(kiln_db_import *import, const kiln_db_tombstone *tombstone) {
    kiln_db_trust trust = KILN_DB_TRUST_UNKNOWN;
    kiln_status st = KILN_OK;
    if (kiln_tombstone_is_signed(&import->checkers, tombstone))
        st = find_trust(import, tombstone->said_by, &trust);
    if (st) return st;
    if (!kiln_db_trust_counts(trust)) {
        import->counts.skipped_tombstones++;
        return KILN_OK;
    }
    import->counts.tombstones++;
    return kiln_db_apply_tombstone(import->db, tombstone);
}

static kiln_status take_succession(kiln_db_import *import, const kiln_db_succession *row) {
    import->has_trust = false; /* it may change */
    return kiln_db_put_successor(import->db, row, import->options.now_wall_ns);
}

kiln_status kiln_db_import_row(kiln_db_import *import, kiln_db_table table, void *row) {
    KILN_CHECK(kiln_db_table_info_of(table)->kind == KILN_DB_RECORDS);
    if (table == KILN_DB_TABLE_SIGNER) return KILN_OK;
    if (table == KILN_DB_TABLE_RECORD) return take_record(import, row);
    if (table == KILN_DB_TABLE_SUCCESSION) return take_succession(import, row);
    if (table == KILN_DB_TABLE_TOMBSTONE) return take_tombstone(import, row);
    if (table == KILN_DB_TABLE_JOB)
        ((kiln_db_job *)row)->origin = kiln_str_from(kiln_db_origin_name(KILN_DB_ORIGIN_IMPORTED));
    return kiln_db_put_foreign(import->db, table, row);
}

kiln_status kiln_db_import_end(kiln_db_import *import, kiln_status st,
                               kiln_db_import_counts *out_counts) {
    if (!st) st = kiln_db_commit(import->db);
    if (st) kiln_db_rollback(import->db);
    if (!st) *out_counts = import->counts;
    kiln_checkers_deinit(&import->checkers);
    kiln_strbuf_deinit(&import->signer);
    kiln_strbuf_deinit(&import->task_key);
    kiln_strbuf_deinit(&import->origin);
    kiln_arena_deinit(&import->task_arena);
    kiln_arena_deinit(&import->signed_arena);
    kiln_free(import);
    return st;
}

void kiln_db_import_add(kiln_db_import_counts *counts, const kiln_db_import_counts *more) {
    counts->records += more->records;
    counts->trusted += more->trusted;
    counts->hints += more->hints;
    counts->quarantined += more->quarantined;
    counts->forgotten += more->forgotten;
    counts->refused += more->refused;
    if (!counts->refusal) counts->refusal = more->refusal;
    counts->tombstones += more->tombstones;
    counts->skipped_tombstones += more->skipped_tombstones;
}

void kiln_db_import_print(const kiln_db_import_counts *counts, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "%u records: %u count", counts->records, counts->trusted);
    if (counts->hints)
        kiln_strbuf_printf(out, ", %u are hints (their signers are not trusted here)",
                           counts->hints);
    if (counts->quarantined) kiln_strbuf_printf(out, ", %u are quarantined", counts->quarantined);
    if (counts->forgotten) kiln_strbuf_printf(out, ", %u stay forgotten", counts->forgotten);
    if (counts->refused)
        kiln_strbuf_printf(out, ", %u cannot be true and were left out (%s)", counts->refused,
                           counts->refusal);
    if (counts->tombstones) kiln_strbuf_printf(out, "; %u tombstones", counts->tombstones);
    if (counts->skipped_tombstones)
        kiln_strbuf_printf(out, "; %u tombstones of untrusted signers were skipped",
                           counts->skipped_tombstones);
}
