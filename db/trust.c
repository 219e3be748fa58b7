#include "db/trust.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/vec.h"
#include "db/backend.h"
#include "db/canonical.h"

#define TRACE_DIGITS_MIN ((size_t)12) /* as `kiln db best` prints them */

static const struct {
    const char *name;
    bool counts;
} trusts[] = {
#define X(NAME, text, counts, meaning) [KILN_DB_TRUST_##NAME] = {text, counts},
#include "db/trusts.def"
#undef X
};

static const char *const verdict_name[KILN_DB_VERDICTS] = {
    [KILN_DB_FORGOTTEN] = "forgotten",
    [KILN_DB_QUARANTINE] = "quarantined",
    [KILN_DB_RESTORED] = "restored",
};

const char *kiln_db_trust_name(kiln_db_trust trust) { return trusts[trust].name; }
bool kiln_db_trust_counts(kiln_db_trust trust) { return trusts[trust].counts; }

static kiln_str named(kiln_str signer) { return signer.size ? signer : KILN_STR(KILN_DB_UNSIGNED); }

/* ---- statements ------------------------------------------------------------------------------ */

typedef struct identity {
    kiln_str trial_id;
    int64_t attempt;
    kiln_str signer; /* or "unsigned" */
} identity;

static void bind_identity(kiln_db_statement *statement, const identity *of) {
    kiln_db_bind_text(statement, 1, of->trial_id);
    statement->db->backend->bind(statement, 2,
                                 &(kiln_db_value){.type = KILN_DB_INT, .integer = of->attempt});
    kiln_db_bind_text(statement, 3, of->signer);
}

/* Runs a statement that changes rows. Its placeholders are the fields of `of`, or `text`; they
 * appear in order, as SQLite numbers them so. */
static kiln_status change(kiln_db *db, const char *sql, const identity *of, kiln_str text) {
    kiln_db_statement *statement = NULL;
    kiln_status st = kiln_db_begin(db);
    if (!st) st = kiln_db_prepare(db, sql, &statement);
    if (st) {
        kiln_db_rollback(db);
        return st;
    }
    if (of)
        bind_identity(statement, of);
    else if (text.size)
        kiln_db_bind_text(statement, 1, text);
    st = kiln_db_run(statement, "changing what counts");
    kiln_db_release(statement);
    return st;
}

/* ---- signers --------------------------------------------------------------------------------- */

static kiln_status find_by(kiln_db *db, const char *column, kiln_str value, kiln_arena *arena,
                           kiln_db_signer *out_signer, bool *out_found) {
    const kiln_db_table_info *info = kiln_db_table_info_of(KILN_DB_TABLE_SIGNER);
    kiln_strbuf sql = {0};
    kiln_db_statement *statement = NULL;
    kiln_strbuf_printf(&sql, "SELECT %s FROM signer WHERE %s = $1 ORDER BY rowid LIMIT 1",
                       info->column_list, column);
    kiln_status st = kiln_db_prepare(db, sql.data, &statement);
    kiln_strbuf_deinit(&sql);
    if (st) return st;
    bool found = false;
    kiln_db_bind_text(statement, 1, value);
    st = db->backend->step(statement, "looking for a signer", &found);
    if (!st && found) kiln_db_row_read(statement, info, arena, out_signer);
    kiln_db_release(statement);
    if (!st) *out_found = found;
    return st;
}

kiln_status kiln_db_find_signer(kiln_db *db, kiln_str who, kiln_arena *arena,
                                kiln_db_signer *out_signer, bool *out_found) {
    kiln_status st = find_by(db, "id", who, arena, out_signer, out_found);
    return st || *out_found ? st : find_by(db, "name", who, arena, out_signer, out_found);
}

kiln_status kiln_db_trust_of(kiln_db *db, kiln_str signer, kiln_db_trust *out_trust) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 256);
    kiln_db_signer row = {0};
    bool found = false;
    kiln_db_trust trust = KILN_DB_TRUST_UNKNOWN;
    kiln_status st = find_by(db, "id", named(signer), &scratch, &row, &found);
    for (unsigned i = 0; i < KILN_DB_TRUST_COUNT; i++)
        if (kiln_str_is(row.trust, trusts[i].name)) trust = (kiln_db_trust)i;
    kiln_arena_deinit(&scratch);
    if (!st) *out_trust = trust;
    return st;
}

static bool is_by_person(kiln_db_trust trust) {
    return trust == KILN_DB_TRUST_PERSON || trust == KILN_DB_TRUST_REFUSED;
}

static kiln_status move_records(kiln_db *db, kiln_str signer, bool counts) {
    bool all_unsigned = kiln_str_is(signer, KILN_DB_UNSIGNED);
    kiln_strbuf sql = {0};
    kiln_strbuf_printf(
        &sql, "UPDATE record SET standing = %s WHERE %s AND standing %s",
        counts ? "CASE WHEN origin IN ('measured', 'before signatures') THEN 2 ELSE 1 END" : "0",
        all_unsigned ? "signer IS NULL AND origin = 'foreign log'" : "signer = $1",
        counts ? "= 0" : "> 0");
    kiln_status st = change(db, sql.data, NULL, all_unsigned ? (kiln_str){0} : signer);
    kiln_strbuf_deinit(&sql);
    return st;
}

static kiln_status set_trust(kiln_db *db, kiln_str signer, kiln_str name, kiln_db_trust trust,
                             int64_t now_wall_ns) {
    kiln_sign_public half;
    kiln_db_trust before = KILN_DB_TRUST_UNKNOWN;
    if (!kiln_str_is(signer, KILN_DB_UNSIGNED) && !kiln_sign_public_parse(signer, &half))
        return KILN_ERROR(INVALID_ARGUMENT, "'%.*s' is no public key: 64 hexadecimal digits",
                          KILN_STR_ARG(kiln_str_slice(signer, 0, 80)));
    kiln_status st = kiln_db_trust_of(db, signer, &before);
    if (st || before == trust) return st;
    if (!is_by_person(trust) && (is_by_person(before) || before == KILN_DB_TRUST_OWN)) return NULL;
    const kiln_db_signer row = {.id = signer,
                                .name = name,
                                .trust = kiln_str_from(kiln_db_trust_name(trust)),
                                .said_wall_ns = now_wall_ns};
    st = kiln_db_put_signer(db, &row);
    bool counts = kiln_db_trust_counts(trust);
    return st ? st : move_records(db, signer, counts);
}

/* Empty: it has none. */
static kiln_status find_successor(kiln_db *db, kiln_str signer, kiln_arena *arena,
                                  kiln_str *out_successor) {
    kiln_db_statement *statement = NULL;
    bool found = false;
    kiln_status st =
        kiln_db_prepare(db, "SELECT successor FROM succession WHERE predecessor = $1", &statement);
    if (st) return st;
    kiln_db_bind_text(statement, 1, signer);
    st = db->backend->step(statement, "looking for a successor", &found);
    *out_successor =
        found ? kiln_str_copy(arena, db->backend->column_bytes(statement, 0)) : (kiln_str){0};
    kiln_db_release(statement);
    return st;
}

/* Gives successors of a trusted signer its trust. */
static kiln_status follow(kiln_db *db, kiln_str signer, int64_t now_wall_ns) {
    kiln_arena arena;
    kiln_arena_init(&arena, 1024);
    kiln_db_signer row = {0};
    kiln_db_trust trust = KILN_DB_TRUST_UNKNOWN, next = KILN_DB_TRUST_UNKNOWN;
    bool found = false;
    kiln_status st = find_by(db, "id", signer, &arena, &row, &found);
    if (!st) st = kiln_db_trust_of(db, signer, &trust);
    for (uint32_t i = 0; !st && i < KILN_DB_SUCCESSORS_MAX && kiln_db_trust_counts(trust); i++) {
        st = find_successor(db, signer, &arena, &signer);
        if (!st && !signer.size) break;
        if (!st) st = kiln_db_trust_of(db, signer, &next);
        if (!st && next != KILN_DB_TRUST_UNKNOWN) break;
        if (!st) st = set_trust(db, signer, row.name, trust, now_wall_ns);
    }
    kiln_arena_deinit(&arena);
    return st;
}

kiln_status kiln_db_set_trust(kiln_db *db, kiln_str signer, kiln_str name, kiln_db_trust trust,
                              int64_t now_wall_ns) {
    kiln_status st = set_trust(db, signer, name, trust, now_wall_ns);
    return st ? st : follow(db, signer, now_wall_ns);
}

kiln_status kiln_db_put_successor(kiln_db *db, const kiln_db_succession *row, int64_t now_wall_ns) {
    kiln_succession said;
    kiln_sign_public next;
    if (!kiln_sign_public_parse(row->predecessor, &said.before) ||
        !kiln_sign_public_parse(row->successor, &next) || row->proof.size != sizeof said.proof.byte)
        return KILN_OK;
    memcpy(said.proof.byte, row->proof.data, sizeof said.proof.byte);
    if (!kiln_succession_is_right(&said, &next)) return KILN_OK;
    kiln_status st = kiln_db_put_succession(db, row);
    return st ? st : follow(db, row->predecessor, now_wall_ns);
}

kiln_status kiln_db_trust_own(kiln_db *db, const kiln_sign_public *own,
                              const kiln_succession *succession, int64_t now_wall_ns) {
    char half[KILN_SIGN_PUBLIC_TEXT], before[KILN_SIGN_PUBLIC_TEXT];
    kiln_sign_public_print(own, half);
    kiln_status st = kiln_db_set_trust(db, kiln_str_from(half), KILN_STR("own tuner"),
                                       KILN_DB_TRUST_OWN, now_wall_ns);
    if (st || !succession) return st;
    kiln_sign_public_print(&succession->before, before);
    return kiln_db_put_successor(
        db,
        &(kiln_db_succession){
            .predecessor = kiln_str_from(before),
            .successor = kiln_str_from(half),
            .proof = {(const char *)succession->proof.byte, sizeof succession->proof.byte}},
        now_wall_ns);
}

/* ---- tombstones ------------------------------------------------------------------------------ */

/* ---- signers of a project -------------------------------------------------------------------- */

kiln_db_trusting kiln_db_trusting_read(kiln_str halves, kiln_arena *arena) {
    const uint32_t count = (uint32_t)(halves.size / KILN_SIGN_PUBLIC_BYTES);
    kiln_str *signer = KILN_ARENA_ARRAY(arena, kiln_str, count);
    for (uint32_t i = 0; i < count; i++) {
        kiln_sign_public half;
        char *text = kiln_arena_alloc(arena, KILN_SIGN_PUBLIC_TEXT);
        memcpy(half.byte, halves.data + i * sizeof half.byte, sizeof half.byte);
        kiln_sign_public_print(&half, text);
        signer[i] = kiln_str_from(text);
    }
    return (kiln_db_trusting){signer, count};
}

void kiln_db_append_trusted(const char *row, const kiln_db_trusting *trusting, kiln_strbuf *sql) {
    kiln_strbuf_printf(sql, "coalesce(%s.signer, '') IN (", row);
    for (uint32_t i = 0; i < trusting->count; i++) {
        kiln_sign_public half;
        KILN_CHECK(kiln_sign_public_parse(trusting->signer[i], &half)); /* nothing but digits */
        kiln_strbuf_printf(sql, "%s'%.*s'", i ? ", " : "", KILN_STR_ARG(trusting->signer[i]));
    }
    kiln_strbuf_text(sql, trusting->count ? ")" : "'-')");
    kiln_strbuf_printf(sql,
                       " AND coalesce(%s.signer, '') NOT IN (SELECT id FROM signer"
                       " WHERE trust = '%s')",
                       row, kiln_db_trust_name(KILN_DB_TRUST_REFUSED));
}

void kiln_db_project_origin_print(kiln_str project, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "%s %.*s", kiln_db_origin_name(KILN_DB_ORIGIN_PROJECT),
                       KILN_STR_ARG(project));
}

kiln_status kiln_db_limit_project_trust(kiln_db *db, const kiln_db_project_trust *trust) {
    kiln_strbuf sql = {0}, origin = {0};
    kiln_db_project_origin_print(trust->project, &origin);
    /* Tasks first: without records that count for the project no record is read. */
    kiln_strbuf_text(&sql,
                     "UPDATE record SET standing = 0 WHERE task_key IN (SELECT task_key FROM"
                     " record_stat WHERE record_stat.origin = $1) AND record.origin = $1"
                     " AND standing = 1 AND coalesce(signer, '') NOT IN (SELECT id FROM signer)"
                     " AND NOT (");
    kiln_db_append_trusted("record", &trust->signers, &sql);
    kiln_strbuf_text(&sql, ")");
    kiln_status st = change(db, sql.data, NULL, kiln_strbuf_view(&origin));
    kiln_strbuf_deinit(&sql);
    kiln_strbuf_deinit(&origin);
    return st;
}

#define OF_RECORD " WHERE trial_id = $1 AND attempt = $2 AND coalesce(signer, 'unsigned') = $3"

static kiln_status carry_out(kiln_db *db, const identity *of, kiln_db_verdict verdict) {
    kiln_str none = {0};
    if (verdict == KILN_DB_RESTORED)
        return change(db,
                      "UPDATE record SET standing = CASE"
                      " WHEN EXISTS (SELECT 1 FROM signer AS s WHERE s.trust = 'refused'"
                      " AND s.id = coalesce(record.signer, 'unsigned')) OR origin = 'autotvm'"
                      " THEN 0 WHEN origin IN ('measured', 'before signatures') THEN 2"
                      " WHEN EXISTS (SELECT 1 FROM signer AS s"
                      " WHERE s.id = coalesce(record.signer, 'unsigned')) THEN 1"
                      " ELSE 0 END" OF_RECORD " AND standing < 0",
                      of, none);
    kiln_status st = change(db, "UPDATE record SET standing = -1" OF_RECORD, of, none);
    if (!st && verdict == KILN_DB_FORGOTTEN)
        st = change(db, "DELETE FROM record" OF_RECORD " AND standing < 0", of, none);
    return st;
}

static bool find_verdict(kiln_str name, kiln_db_verdict *out) {
    for (unsigned i = 0; i < KILN_DB_VERDICTS; i++) {
        if (!kiln_str_is(name, verdict_name[i])) continue;
        *out = (kiln_db_verdict)i;
        return true;
    }
    return false;
}

/* The stored one. */
static kiln_status find_tombstone(kiln_db *db, const identity *of, kiln_db_verdict *out_verdict,
                                  int64_t *out_wall_ns) {
    kiln_db_statement *statement = NULL;
    kiln_status st = kiln_db_prepare(db,
                                     "SELECT state, said_wall_ns FROM tombstone"
                                     " WHERE trial_id = $1 AND attempt = $2 AND signer = $3",
                                     &statement);
    if (st) return st;
    bool found = false;
    bind_identity(statement, of);
    st = db->backend->step(statement, "looking for a tombstone", &found);
    if (!st && found && find_verdict(db->backend->column_bytes(statement, 0), out_verdict))
        *out_wall_ns = db->backend->column_int(statement, 1);
    kiln_db_release(statement);
    return st;
}

kiln_status kiln_db_verdict_of(kiln_db *db, const kiln_db_record *record,
                               kiln_db_verdict *out_verdict) {
    const identity of = {record->trial_id, record->attempt, named(record->signer)};
    int64_t wall_ns = 0;
    *out_verdict = KILN_DB_RESTORED;
    return find_tombstone(db, &of, out_verdict, &wall_ns);
}

kiln_status kiln_db_apply_tombstone(kiln_db *db, const kiln_db_tombstone *tombstone) {
    const identity of = {tombstone->trial_id, tombstone->attempt, tombstone->signer};
    kiln_db_verdict verdict, before = KILN_DB_RESTORED;
    int64_t before_wall_ns = INT64_MIN;
    if (!find_verdict(tombstone->state, &verdict))
        return KILN_ERROR(INVALID_ARGUMENT, "a tombstone's state is '%.*s'",
                          KILN_STR_ARG(kiln_str_slice(tombstone->state, 0, 32)));
    kiln_status st = find_tombstone(db, &of, &before, &before_wall_ns);
    if (st || before_wall_ns >= tombstone->said_wall_ns) return st;
    st = kiln_db_put_tombstone(db, tombstone);
    return st ? st : carry_out(db, &of, verdict);
}

static bool is_hash_prefix(kiln_str id) {
    for (size_t i = 0; i < id.size; i++)
        if (!id.data[i] || !strchr("0123456789abcdef", id.data[i])) return false;
    return id.size >= TRACE_DIGITS_MIN;
}

typedef KILN_VEC(identity) identity_list;

static kiln_status find_named(kiln_db *db, const kiln_db_verdict_request *sentence,
                              kiln_arena *arena, identity_list *out) {
    const kiln_db_backend *backend = db->backend;
    kiln_strbuf sql = {0};
    kiln_db_statement *statement = NULL;
    kiln_strbuf_text(&sql,
                     "SELECT trial_id, attempt, coalesce(signer, 'unsigned') FROM record"
                     " WHERE (trial_id = $1 OR job_id = $1 OR"
                     " (coalesce(signer, 'unsigned') = $1 AND origin <> 'before signatures')");
    if (is_hash_prefix(sentence->id))
        kiln_strbuf_printf(&sql, " OR substr(trace_hash, 1, %zu) = $1", sentence->id.size);
    kiln_strbuf_printf(&sql, ") AND standing %s ORDER BY rowid",
                       sentence->verdict == KILN_DB_RESTORED     ? "< 0"
                       : sentence->verdict == KILN_DB_QUARANTINE ? ">= 0"
                                                                 : ">= -1");
    kiln_status st = kiln_db_prepare(db, sql.data, &statement);
    kiln_strbuf_deinit(&sql);
    if (st) return st;
    kiln_db_bind_text(statement, 1, sentence->id);
    bool row = false;
    while (!(st = backend->step(statement, "looking for records", &row)) && row) {
        identity one = {kiln_str_copy(arena, backend->column_bytes(statement, 0)),
                        backend->column_int(statement, 1),
                        kiln_str_copy(arena, backend->column_bytes(statement, 2))};
        kiln_vec_push_in(arena, out, one);
    }
    kiln_db_release(statement);
    return st;
}

kiln_status kiln_db_apply_verdict(kiln_db *db, const kiln_db_verdict_request *sentence,
                                  uint32_t *out_count) {
    kiln_arena arena, scratch;
    kiln_arena_init(&arena, 0);
    kiln_arena_init(&scratch, 4096);
    identity_list found = {0};
    kiln_status st = find_named(db, sentence, &arena, &found);
    for (uint32_t i = 0; !st && i < found.count; i++) {
        kiln_db_tombstone tombstone = {.trial_id = found.data[i].trial_id,
                                       .attempt = found.data[i].attempt,
                                       .signer = found.data[i].signer,
                                       .state = kiln_str_from(verdict_name[sentence->verdict]),
                                       .reason = sentence->reason,
                                       .said_wall_ns = sentence->now_wall_ns};
        if (sentence->signer) st = kiln_tombstone_sign(sentence->signer, &scratch, &tombstone);
        if (!st) st = kiln_db_put_tombstone(db, &tombstone);
        if (!st) st = carry_out(db, &found.data[i], sentence->verdict);
        kiln_arena_reset(&scratch);
    }
    if (!st) *out_count = found.count;
    kiln_arena_deinit(&scratch);
    kiln_arena_deinit(&arena);
    return st;
}

kiln_status kiln_db_prune(kiln_db *db, uint32_t *out_count) {
    kiln_db_statement *statement = NULL;
    kiln_str none = {0};
    bool row = false;
    uint32_t count = 0;
    kiln_status st = kiln_db_prepare(
        db, "SELECT CAST(count(*) AS BIGINT) FROM record WHERE standing <= 0", &statement);
    if (!st) st = db->backend->step(statement, "counting hints", &row);
    if (!st && row) count = (uint32_t)db->backend->column_int(statement, 0);
    kiln_db_release(statement);
    if (!st) st = change(db, "UPDATE record SET standing = -1 WHERE standing = 0", NULL, none);
    if (!st) st = change(db, "DELETE FROM record WHERE standing < 0", NULL, none);
    if (!st) *out_count = count;
    return st;
}

/* ---- verify ---------------------------------------------------------------------------------- */

typedef struct verification {
    kiln_checkers checkers;
    kiln_db_verification *out;
} verification;

static kiln_status verify_record(void *context, kiln_db_table table, const void *row) {
    (void)table;
    verification *v = context;
    const kiln_db_record *record = row;
    kiln_db_verification *out = v->out;
    out->counting += record->standing > KILN_DB_HINT;
    out->hints += record->standing == KILN_DB_HINT;
    out->quarantined += record->standing < KILN_DB_HINT;
    if (record->signer.size == 0 && record->signature.size == 0) {
        bool before = kiln_str_is(record->origin, kiln_db_origin_name(KILN_DB_ORIGIN_BEFORE));
        out->unsigned_before += before;
        out->unsigned_others += !before;
    } else if (kiln_record_is_signed(&v->checkers, record)) {
        out->right++;
    } else {
        if (out->wrong++ == 0)
            snprintf(out->first_wrong, sizeof out->first_wrong, "%.*s",
                     KILN_STR_ARG(record->trial_id));
    }
    return KILN_OK;
}

kiln_status kiln_db_verify(kiln_db *db, kiln_db_verification *out) {
    *out = (kiln_db_verification){0};
    if (!kiln_sign_supported())
        return KILN_ERROR(UNIMPLEMENTED,
                          "this program was built without signatures (meson option `tls`)");
    verification v = {.out = out};
    kiln_status st = kiln_db_each(db, KILN_DB_TABLE_RECORD, verify_record, &v);
    kiln_checkers_deinit(&v.checkers);
    return st;
}
