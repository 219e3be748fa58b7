/* Rows of other databases: what of them counts here, and what they cannot do. */
#include "db/import.h"

#include <stdio.h>
#include <string.h>

#include "db/bundle.h"
#include "db/canonical.h"
#include "db/trust.h"
#include "tests/unit/db/support.h"

typedef struct fixture {
    void *folder;
    kiln_db *from, *to;
    kiln_signer *signer;
    char half[KILN_SIGN_PUBLIC_TEXT];
    kiln_arena arena;
} fixture;

static fixture the_fixture;

static int set_up(void **state) {
    fixture *f = &the_fixture;
    *f = (fixture){0};
    folder_create(&f->folder);
    f->from = open_records(place(&f->folder, 0));
    f->to = open_records(place(&f->folder, 1));
    kiln_arena_init(&f->arena, 0);
    const uint8_t seed[KILN_SIGN_SEED_BYTES] = {1, 2, 3};
    expect_ok(kiln_signer_create(seed, &f->signer));
    kiln_sign_public_print(kiln_signer_public(f->signer), f->half);
    put_parents(f->from);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_signer_destroy(f->signer);
    kiln_db_close(f->from);
    kiln_db_close(f->to);
    kiln_arena_deinit(&f->arena);
    folder_remove(&f->folder);
    return 0;
}

static kiln_db_record signed_record(fixture *f, unsigned number, double sample_ns) {
    kiln_db_record record = record_of(number, sample_ns);
    expect_ok(kiln_record_sign(f->signer, &f->arena, &record));
    return record;
}

static void put(kiln_db *db, const kiln_db_record *record) {
    expect_ok(kiln_db_put_record(db, record));
    expect_ok(kiln_db_commit(db));
}

static kiln_status import_on(fixture *f, const kiln_db_project_trust *word,
                             kiln_db_import_counts *counts) {
    const kiln_db_filter all = {.whose = KILN_DB_ANY};
    kiln_strbuf bytes = {0};
    *counts = (kiln_db_import_counts){0};
    expect_ok(kiln_bundle_export(f->from, &all, 1, &bytes));
    kiln_status st = kiln_bundle_import(
        f->to, kiln_strbuf_view(&bytes),
        &(kiln_db_import_options){.now_wall_ns = INT64_MAX / 2, .project = word}, counts);
    kiln_strbuf_deinit(&bytes);
    return st;
}

static kiln_status import_all(fixture *f, kiln_db_import_counts *counts) {
    return import_on(f, NULL, counts);
}

static kiln_db_record *find(fixture *f, kiln_db_whose whose, uint32_t *out_count) {
    const kiln_db_filter filter = {.whose = whose, .order = KILN_DB_OLDEST};
    kiln_db_record *record = NULL;
    expect_ok(kiln_db_records(f->to, &filter, &f->arena, &record, out_count));
    return record;
}

static uint32_t count_of(fixture *f, kiln_db_whose whose) {
    uint32_t count = 0;
    find(f, whose, &count);
    return count;
}

static double best_ns(fixture *f) {
    const kiln_db_filter filter = {.order = KILN_DB_FASTEST};
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    expect_ok(kiln_db_best(f->to, &filter, &f->arena, &record, &count));
    return count ? record->median_ns : 0;
}

static void trust(fixture *f, kiln_db_trust trust) {
    expect_ok(kiln_db_set_trust(f->to, kiln_str_from(f->half), KILN_STR("box"), trust, 1));
    expect_ok(kiln_db_commit(f->to));
}

static void a_strangers_record_is_a_hint_until_its_signer_is_trusted(void **state) {
    fixture *f = *state;
    kiln_db_import_counts counts;
    kiln_db_record record = signed_record(f, 1, 500);
    put(f->from, &record);
    expect_ok(import_all(f, &counts));
    assert_int_equal(counts.records, 1);
    assert_int_equal(counts.hints, 1);
    assert_int_equal(count_of(f, KILN_DB_COUNTING), 0);
    assert_int_equal(count_of(f, KILN_DB_HINTS), 1);
    assert_true(best_ns(f) == 0);

    trust(f, KILN_DB_TRUST_PERSON);
    assert_true(best_ns(f) == 500);
    assert_int_equal(count_of(f, KILN_DB_HERE), 0);
    trust(f, KILN_DB_TRUST_REFUSED);
    assert_true(best_ns(f) == 0);
    trust(f, KILN_DB_TRUST_TRACKER); /* a person's word stays */
    assert_true(best_ns(f) == 0);
    trust(f, KILN_DB_TRUST_PERSON);
    kiln_db_record later = signed_record(f, 2, 400);
    put(f->from, &later);
    expect_ok(import_all(f, &counts));
    assert_int_equal(counts.trusted, 2);
    assert_true(best_ns(f) == 400);
}

static void hold_to_word(fixture *f, const char *project, bool trusts) {
    const kiln_str half = kiln_str_from(f->half);
    const kiln_db_project_trust word = {kiln_str_from(project), {&half, trusts}};
    expect_ok(kiln_db_limit_project_trust(f->to, &word));
    expect_ok(kiln_db_commit(f->to));
}

static void on_a_projects_word_records_count_until_it_is_taken_back(void **state) {
    fixture *f = *state;
    kiln_db_import_counts counts;
    uint32_t count = 0;
    const kiln_str half = kiln_str_from(f->half);
    const kiln_db_project_trust word = {KILN_STR("p"), {&half, 1}}, nobody = {KILN_STR("p"), {0}};
    kiln_db_record record = signed_record(f, 1, 500);
    put(f->from, &record);
    expect_ok(import_on(f, &nobody, &counts));
    assert_int_equal(counts.hints, 1);
    expect_ok(import_on(f, &word, &counts));
    assert_int_equal(counts.trusted, 1);
    expect_str(find(f, KILN_DB_COUNTING, &count)->origin, "project p");
    assert_int_equal(count_of(f, KILN_DB_HERE), 0);
    assert_true(best_ns(f) == 500);
    kiln_db_stat *stat = NULL;
    expect_ok(kiln_db_stats(f->to, &f->arena, &stat, &count));
    assert_int_equal(stat->origin_count[KILN_DB_ORIGIN_PROJECT], 1);

    hold_to_word(f, "p", true);
    hold_to_word(f, "q", false);
    assert_true(best_ns(f) == 500);
    hold_to_word(f, "p", false);
    assert_true(best_ns(f) == 0);
    assert_int_equal(count_of(f, KILN_DB_HINTS), 1);
    expect_ok(import_on(f, &word, &counts));
    assert_true(best_ns(f) == 500);

    /* A person's word goes before the project's, whatever it is. */
    trust(f, KILN_DB_TRUST_REFUSED);
    assert_true(best_ns(f) == 0);
    expect_ok(import_on(f, &word, &counts));
    assert_int_equal(counts.hints, 1);
    assert_true(best_ns(f) == 0);
    trust(f, KILN_DB_TRUST_PERSON);
    hold_to_word(f, "p", false);
    assert_true(best_ns(f) == 500);
}

/* How many count, and how many are hints, in a job of a project that trusts the signer or nobody.
 */
static void expect_seen(fixture *f, bool trusts, uint32_t counting, uint32_t hints) {
    const kiln_str half = kiln_str_from(f->half);
    const kiln_db_trusting trusting = {&half, trusts};
    kiln_db_filter filter = {.trusting = &trusting};
    kiln_db_record *record = NULL;
    for (int order = KILN_DB_OLDEST; order <= KILN_DB_FASTEST; order++) {
        uint32_t count = 0;
        filter.order = (kiln_db_order)order;
        filter.whose = KILN_DB_COUNTING;
        expect_ok(kiln_db_records(f->to, &filter, &f->arena, &record, &count));
        assert_int_equal(count, counting);
        filter.whose = KILN_DB_HINTS;
        expect_ok(kiln_db_records(f->to, &filter, &f->arena, &record, &count));
        assert_int_equal(count, hints);
    }
}

static void a_job_counts_what_its_own_project_trusts(void **state) {
    fixture *f = *state;
    kiln_db_import_counts counts;
    const kiln_str half = kiln_str_from(f->half);
    const kiln_db_project_trust word = {KILN_STR("p"), {&half, 1}};
    kiln_db_record record = signed_record(f, 1, 500);
    put(f->from, &record);
    put_record(f->from, 2, 400); /* nobody signed it */
    expect_ok(kiln_db_commit(f->from));
    expect_ok(import_all(f, &counts));
    expect_seen(f, false, 0, 2);
    expect_seen(f, true, 1, 1);
    assert_true(best_ns(f) == 0);
    expect_ok(import_on(f, &word, &counts));
    assert_true(best_ns(f) == 500);
    expect_seen(f, false, 0, 2); /* another project's word */
    expect_seen(f, true, 1, 1);
    trust(f, KILN_DB_TRUST_REFUSED);
    expect_seen(f, true, 0, 2);
    trust(f, KILN_DB_TRUST_PERSON);
    expect_seen(f, false, 1, 1);
}

static void records_without_a_signature_are_hints_too(void **state) {
    fixture *f = *state;
    kiln_db_import_counts counts;
    uint32_t count = 0;
    put_record(f->from, 1, 500);
    expect_ok(kiln_db_commit(f->from));
    expect_ok(import_all(f, &counts));
    assert_int_equal(counts.hints, 1);
    expect_str(find(f, KILN_DB_HINTS, &count)->origin, "foreign log");
    expect_ok(kiln_db_set_trust(f->to, KILN_STR(KILN_DB_UNSIGNED), (kiln_str){0},
                                KILN_DB_TRUST_PERSON, 1));
    expect_ok(kiln_db_commit(f->to));
    assert_true(best_ns(f) == 500);
}

/* Its schedule is worth trying, its time is not ours, whoever says so. */
static void what_another_system_measured_stays_a_hint(void **state) {
    fixture *f = *state;
    const kiln_db_import_options own = {.signer = f->signer};
    kiln_db_import *import = NULL;
    kiln_db_import_counts counts;
    uint32_t count = 0;
    put_parents(f->to);
    trust(f, KILN_DB_TRUST_PERSON);
    kiln_db_record record = record_of(1, 500);
    record.origin = kiln_str_from(kiln_db_origin_name(KILN_DB_ORIGIN_AUTOTVM));
    record.checked = 0;
    kiln_db_import_begin(f->to, &own, &import);
    kiln_status st = kiln_db_import_row(import, KILN_DB_TABLE_RECORD, &record);
    expect_ok(kiln_db_import_end(import, st, &counts));
    assert_int_equal(counts.hints, 1);
    expect_ok(kiln_db_set_trust(f->to, KILN_STR(KILN_DB_UNSIGNED), (kiln_str){0},
                                KILN_DB_TRUST_PERSON, 1));
    for (kiln_db_verdict verdict = KILN_DB_QUARANTINE;; verdict = KILN_DB_RESTORED) {
        const kiln_db_verdict_request request = {.verdict = verdict, .id = record.trial_id};
        expect_ok(kiln_db_apply_verdict(f->to, &request, &count));
        if (verdict == KILN_DB_RESTORED) break;
    }
    expect_ok(kiln_db_commit(f->to));
    const kiln_db_record *found = find(f, KILN_DB_HINTS, &count);
    assert_int_equal(count, 1);
    expect_str(found->origin, "autotvm");
    assert_int_equal(found->signature.size, 0);
    assert_int_equal(count_of(f, KILN_DB_COUNTING), 0);
    assert_true(best_ns(f) == 0);
    const kiln_db_filter tried = {.whose = KILN_DB_HINTS, .order = KILN_DB_FASTEST};
    kiln_db_record *first = NULL;
    expect_ok(kiln_db_records(f->to, &tried, &f->arena, &first, &count));
    assert_int_equal(count, 1); /* although nobody compared its output */
}

static void a_changed_record_stops_the_whole_import(void **state) {
    fixture *f = *state;
    kiln_db_import_counts counts;
    kiln_db_record right = signed_record(f, 1, 500), wrong = signed_record(f, 2, 500);
    wrong.gain_low = 3;
    put(f->from, &right);
    put(f->from, &wrong);
    expect_error(import_all(f, &counts), DATA_LOSS, "record r2: its signature is wrong");
    assert_int_equal(count_of(f, KILN_DB_ANY), 0);
}

/* The signature survives every way that bytes take through a database. */
static void what_was_stored_is_what_was_signed(void **state) {
    fixture *f = *state;
    kiln_checkers checkers = {0};
    kiln_db_record record = record_of(1, 1.0 / 3);
    record.detail = (kiln_str){"a\xff\0b", 4};
    record.drift = -0.0;
    record.error = 1e-310;
    record.stored_wall_ns = INT64_MIN;
    expect_ok(kiln_record_sign(f->signer, &f->arena, &record));
    expect_str(record.detail, "a??b");
    put(f->from, &record);
    kiln_db_record *found = NULL;
    uint32_t count = 0;
    expect_ok(kiln_db_records(f->from, &(kiln_db_filter){0}, &f->arena, &found, &count));
    assert_int_equal(count, 1);
    assert_true(kiln_record_is_signed(&checkers, found));
    kiln_checkers_deinit(&checkers);
    kiln_db_verification v;
    expect_ok(kiln_db_verify(f->from, &v));
    assert_int_equal(v.right, 1);
    assert_int_equal(v.wrong + v.unsigned_before + v.unsigned_others, 0);
}

/* Whoever knows an identity beforehand takes nothing from us, and ours takes theirs. */
static void identities_cannot_be_taken_beforehand(void **state) {
    fixture *f = *state;
    kiln_db_import_counts counts;
    kiln_db_record forged = signed_record(f, 1, 100);
    put(f->from, &forged);
    expect_ok(kiln_db_put_device(
        f->from, &(kiln_db_device){.id = KILN_STR("d1"), .name = KILN_STR("forged")}));
    expect_ok(import_all(f, &counts));
    assert_int_equal(counts.hints, 1);

    put_parents(f->to);
    kiln_db_record ours = record_of(1, 500);
    ours.outcome = KILN_STR("odd");
    kiln_status st = kiln_db_put_record(f->to, &ours);
    if (!st) st = kiln_db_settle(f->to);
    expect_error(st, INVALID_ARGUMENT, "");
    assert_int_equal(count_of(f, KILN_DB_HINTS), 1); /* gives way to what is stored only */

    ours.outcome = KILN_STR("ok");
    put(f->to, &ours);
    assert_true(best_ns(f) == 500);
    assert_int_equal(count_of(f, KILN_DB_ANY), 1);
    expect_ok(import_all(f, &counts));
    trust(f, KILN_DB_TRUST_PERSON);
    expect_ok(import_all(f, &counts));
    assert_true(best_ns(f) == 500);

    kiln_db_job job;
    kiln_db_stat *stat = NULL;
    uint32_t count = 0;
    bool found = false;
    expect_ok(kiln_db_find_job(f->to, KILN_STR("j1"), &f->arena, &job, &found));
    expect_str(job.origin, "");
    expect_ok(kiln_db_stats(f->to, &f->arena, &stat, &count));
    assert_int_equal(count, 1);
    assert_int_equal(stat->record_count, 1);
    assert_int_equal(stat->origin_count[KILN_DB_ORIGIN_MEASURED], 1);
    assert_int_equal(stat->origin_count[KILN_DB_ORIGIN_IMPORTED], 0);
}

static kiln_status see_device(void *context, kiln_db_table table, const void *row) {
    (void)table;
    const kiln_db_device *device = row;
    fixture *f = context;
    expect_str(device->name, "bench");
    f->half[0] = '!'; /* seen */
    return KILN_OK;
}

static void parents_of_others_replace_nothing(void **state) {
    fixture *f = *state;
    kiln_db_import_counts counts;
    put_record(f->from, 1, 500);
    expect_ok(kiln_db_put_device(
        f->from, &(kiln_db_device){.id = KILN_STR("d1"), .name = KILN_STR("forged")}));
    expect_ok(kiln_db_put_job(f->from, &(kiln_db_job){.id = KILN_STR("j1"),
                                                      .model = KILN_STR("forged"),
                                                      .target = record_of(1, 1).target,
                                                      .state = KILN_STR("done")}));
    expect_ok(kiln_db_commit(f->from));
    put_parents(f->to);
    expect_ok(import_all(f, &counts));
    kiln_db_job job;
    bool found = false;
    expect_ok(kiln_db_find_job(f->to, KILN_STR("j1"), &f->arena, &job, &found));
    expect_str(job.state, "open");
    expect_str(job.model, "");
    expect_ok(kiln_db_each(f->to, KILN_DB_TABLE_DEVICE, see_device, f));
    assert_int_equal(f->half[0], '!');
}

/* A final that is no faster than its default takes its trace out of the running; a stranger's
 * may not. */
static void a_hint_supersedes_nothing(void **state) {
    fixture *f = *state;
    kiln_db_import_counts counts;
    put_parents(f->to);
    kiln_db_record ours = record_of(1, 500);
    put(f->to, &ours);
    kiln_db_record final = record_of(2, 500);
    final.trace_hash = ours.trace_hash;
    final.final = 1;
    final.gain_low = 0.5;
    expect_ok(kiln_record_sign(f->signer, &f->arena, &final));
    put(f->from, &final);
    expect_ok(import_all(f, &counts));
    assert_int_equal(counts.hints, 1);
    assert_true(best_ns(f) == 500);
    trust(f, KILN_DB_TRUST_PERSON);
    assert_true(best_ns(f) == 0);
}

static void what_cannot_be_true_is_left_out(void **state) {
    fixture *f = *state;
    kiln_db_import_counts counts;
    trust(f, KILN_DB_TRUST_PERSON);
    kiln_db_record record = record_of(1, 500);
    put(f->from, &record);
    record = record_of(2, 20); /* 100 GFLOP/s where the peak is 1 */
    record.peak_flops = 1e9;
    put(f->from, &record);
    record = record_of(3, 0.5);
    put(f->from, &record);
    record = record_of(4, 500);
    record.flops = 1e3;
    put(f->from, &record);
    record = record_of(5, 500);
    record.stored_wall_ns = INT64_MAX;
    put(f->from, &record);
    record = record_of(6, 500);
    record.threads = 2;
    put(f->from, &record);
    record = record_of(7, 500);
    record.peak_flops = 1e15;
    put(f->from, &record);
    expect_ok(import_all(f, &counts));
    assert_int_equal(counts.records, 7);
    assert_int_equal(counts.refused, 6);
    assert_string_equal(counts.refusal, "it is faster than the peak of its board");
    assert_int_equal(count_of(f, KILN_DB_ANY), 1);
    kiln_strbuf text = {0};
    kiln_db_import_print(&counts, &text);
    expect_contains(text.data, "7 records: 0 count, 1 are hints");
    expect_contains(text.data, "6 cannot be true and were left out (it is faster than the peak");
    kiln_strbuf_deinit(&text);
}

/* What others say of samples is not taken: it is derived from them. */
static void medians_are_those_of_the_samples(void **state) {
    fixture *f = *state;
    kiln_db_import *import = NULL;
    kiln_db_import_counts counts;
    uint32_t count = 0;
    put_parents(f->to);
    kiln_db_record record = record_of(1, 500);
    record.median_ns = record.min_ns = 1;
    kiln_db_import_begin(f->to, NULL, &import);
    kiln_status st = kiln_db_import_row(import, KILN_DB_TABLE_RECORD, &record);
    expect_ok(kiln_db_import_end(import, st, &counts));
    const kiln_db_record *found = find(f, KILN_DB_HINTS, &count);
    assert_int_equal(count, 1);
    assert_true(found->median_ns == 500 && found->min_ns == 500);
}

static const char *not_the_second(void *context, const kiln_db_record *record,
                                  const kiln_db_task *task) {
    ++*(uint32_t *)context;
    expect_str(task->key, "t1");
    return kiln_str_is(record->trial_id, "r2") ? "it is the second" : NULL;
}

static void more_may_be_known_of_a_record(void **state) {
    fixture *f = *state;
    uint32_t asked = 0;
    const kiln_db_import_options options = {.implausible = not_the_second, .context = &asked};
    kiln_db_import *import = NULL;
    kiln_db_import_counts counts;
    put_parents(f->to);
    kiln_status st = KILN_OK;
    kiln_db_import_begin(f->to, &options, &import);
    for (unsigned i = 1; !st && i <= 3; i++) {
        kiln_db_record record = record_of(i, i == 3 ? 0.5 : 500); /* not asked of the third */
        st = kiln_db_import_row(import, KILN_DB_TABLE_RECORD, &record);
    }
    expect_ok(kiln_db_import_end(import, st, &counts));
    assert_int_equal(asked, 2);
    assert_int_equal(counts.hints, 1);
    assert_int_equal(counts.refused, 2);
    assert_string_equal(counts.refusal, "it is the second");
}

/* A file cannot say of itself that it is to be believed. */
static void what_others_hold_of_signers_is_skipped(void **state) {
    fixture *f = *state;
    kiln_db_import *import = NULL;
    kiln_db_import_counts counts;
    kiln_db_trust held = KILN_DB_TRUST_COUNT;
    kiln_db_signer signer = {.id = kiln_str_from(f->half), .trust = KILN_STR("person")};
    kiln_db_job job = {
        .id = KILN_STR("j9"), .target = record_of(1, 1).target, .state = KILN_STR("open")};
    put_parents(f->to);
    kiln_db_record record = signed_record(f, 1, 500);
    kiln_db_import_begin(f->to, NULL, &import);
    kiln_status st = kiln_db_import_row(import, KILN_DB_TABLE_SIGNER, &signer);
    if (!st) st = kiln_db_import_row(import, KILN_DB_TABLE_JOB, &job);
    if (!st) st = kiln_db_import_row(import, KILN_DB_TABLE_RECORD, &record);
    expect_ok(kiln_db_import_end(import, st, &counts));
    assert_int_equal(counts.hints, 1);
    expect_ok(kiln_db_trust_of(f->to, kiln_str_from(f->half), &held));
    assert_int_equal(held, KILN_DB_TRUST_UNKNOWN);
    bool found = false;
    expect_ok(kiln_db_find_job(f->to, KILN_STR("j9"), &f->arena, &job, &found));
    assert_true(found);
    expect_str(job.origin, "imported");
}

static kiln_status take(kiln_db *db, kiln_db_record *record, uint32_t count,
                        const kiln_db_tombstone *tombstone, kiln_db_import_counts *counts) {
    kiln_db_import *import = NULL;
    kiln_status st = KILN_OK;
    *counts = (kiln_db_import_counts){0};
    kiln_db_import_begin(db, NULL, &import);
    for (uint32_t i = 0; !st && i < count; i++)
        st = kiln_db_import_row(import, KILN_DB_TABLE_RECORD, &record[i]);
    kiln_db_tombstone said = tombstone ? *tombstone : (kiln_db_tombstone){0};
    if (!st && tombstone) st = kiln_db_import_row(import, KILN_DB_TABLE_TOMBSTONE, &said);
    return kiln_db_import_end(import, st, counts);
}

static void a_name_without_a_signature_is_no_signer(void **state) {
    fixture *f = *state;
    kiln_db_import_counts counts;
    put_parents(f->to);
    trust(f, KILN_DB_TRUST_PERSON);
    kiln_db_record record = record_of(1, 500);
    record.signer = kiln_str_from(f->half);
    expect_error(take(f->to, &record, 1, NULL, &counts), DATA_LOSS, "its signature is wrong");
    record = signed_record(f, 1, 500);
    expect_ok(take(f->to, &record, 1, NULL, &counts));
    assert_int_equal(counts.trusted, 1);
    kiln_db_tombstone tombstone = {.trial_id = record.trial_id,
                                   .attempt = record.attempt,
                                   .signer = record.signer,
                                   .state = KILN_STR("forgotten"),
                                   .said_by = record.signer,
                                   .said_wall_ns = 9};
    expect_ok(take(f->to, NULL, 0, &tombstone, &counts));
    assert_int_equal(counts.skipped_tombstones, 1);
    assert_int_equal(count_of(f, KILN_DB_COUNTING), 1);
    expect_ok(kiln_tombstone_sign(f->signer, &f->arena, &tombstone));
    expect_ok(take(f->to, NULL, 0, &tombstone, &counts));
    assert_int_equal(counts.tombstones, 1);
    assert_int_equal(count_of(f, KILN_DB_ANY), 0);
}

static void each_record_goes_by_its_own_signer_and_task(void **state) {
    fixture *f = *state;
    kiln_db_import_counts counts;
    const uint8_t seed[KILN_SIGN_SEED_BYTES] = {7};
    kiln_signer *stranger = NULL;
    expect_ok(kiln_signer_create(seed, &stranger));
    put_parents(f->to);
    expect_ok(kiln_db_put_task(
        f->to, &(kiln_db_task){.key = KILN_STR("t2"), .op = KILN_STR("gemm"), .flops = 3e3}));
    expect_ok(kiln_db_commit(f->to));
    trust(f, KILN_DB_TRUST_PERSON);
    kiln_db_record record[4];
    for (unsigned i = 0; i < 4; i++) {
        record[i] = record_of(i, 500);
        if (i % 2) {
            record[i].task_key = KILN_STR("t2");
            record[i].flops = 3e3;
        }
        expect_ok(kiln_record_sign(i % 2 ? stranger : f->signer, &f->arena, &record[i]));
    }
    expect_ok(take(f->to, record, 4, NULL, &counts));
    assert_int_equal(counts.trusted, 2);
    assert_int_equal(counts.hints, 2);
    assert_int_equal(counts.refused, 0);
    kiln_signer_destroy(stranger);
}

/* In one import: who came after a signer that is trusted here, and what that one signed. */
static void a_successor_comes_along_with_its_records(void **state) {
    fixture *f = *state;
    kiln_db_import *import = NULL;
    kiln_db_import_counts counts;
    const uint8_t seed[KILN_SIGN_SEED_BYTES] = {9};
    char half[KILN_SIGN_PUBLIC_TEXT];
    kiln_signer *next = NULL;
    kiln_signature proof;
    kiln_sign_public before;
    uint8_t words[14 + 2 * KILN_SIGN_PUBLIC_BYTES] = "kiln signer 1\n";
    expect_ok(kiln_signer_create(seed, &next));
    kiln_sign_public_print(kiln_signer_public(next), half);
    before = *kiln_signer_public(f->signer);
    memcpy(words + 14, &before, sizeof before);
    memcpy(words + 14 + sizeof before, kiln_signer_public(next), sizeof before);
    expect_ok(kiln_sign(f->signer, (kiln_str){(const char *)words, sizeof words}, &proof));
    put_parents(f->to);
    trust(f, KILN_DB_TRUST_PERSON);
    kiln_db_record record[2] = {record_of(1, 500), record_of(2, 400)};
    for (unsigned i = 0; i < 2; i++) expect_ok(kiln_record_sign(next, &f->arena, &record[i]));
    kiln_db_succession row = {.predecessor = kiln_str_from(f->half),
                              .successor = kiln_str_from(half),
                              .proof = {(const char *)proof.byte, sizeof proof.byte}};
    kiln_db_import_begin(f->to, NULL, &import);
    kiln_status st = kiln_db_import_row(import, KILN_DB_TABLE_RECORD, &record[0]);
    if (!st) st = kiln_db_import_row(import, KILN_DB_TABLE_SUCCESSION, &row);
    if (!st) st = kiln_db_import_row(import, KILN_DB_TABLE_RECORD, &record[1]);
    expect_ok(kiln_db_import_end(import, st, &counts));
    assert_int_equal(counts.trusted, 1); /* of the first it was not yet known */
    assert_int_equal(count_of(f, KILN_DB_COUNTING), 2);
    kiln_signer_destroy(next);
}

static uint32_t pass(fixture *f, kiln_db_verdict verdict, const char *id, int64_t now_ns) {
    uint32_t count = 0;
    expect_ok(kiln_db_apply_verdict(f->to,
                                    &(kiln_db_verdict_request){.verdict = verdict,
                                                               .id = kiln_str_from(id),
                                                               .signer = f->signer,
                                                               .now_wall_ns = now_ns},
                                    &count));
    expect_ok(kiln_db_commit(f->to));
    return count;
}

static void what_is_forgotten_stays_forgotten(void **state) {
    fixture *f = *state;
    kiln_db_import_counts counts;
    trust(f, KILN_DB_TRUST_PERSON);
    for (unsigned i = 1; i <= 3; i++) {
        kiln_db_record record = signed_record(f, i, 100 * i);
        put(f->from, &record);
    }
    expect_ok(import_all(f, &counts));
    assert_true(best_ns(f) == 100);
    assert_int_equal(pass(f, KILN_DB_FORGOTTEN, "no such", 5), 0);
    assert_int_equal(pass(f, KILN_DB_FORGOTTEN, "r1", 5), 1);
    assert_int_equal(pass(f, KILN_DB_QUARANTINE, "r2", 5), 1);
    assert_true(best_ns(f) == 300);
    assert_int_equal(count_of(f, KILN_DB_ANY), 1);
    expect_ok(import_all(f, &counts));
    assert_int_equal(counts.forgotten, 1);
    assert_int_equal(counts.quarantined, 1);
    assert_int_equal(counts.trusted, 1);
    assert_true(best_ns(f) == 300);
    assert_int_equal(pass(f, KILN_DB_RESTORED, "r2", 6), 1);
    assert_true(best_ns(f) == 200);
    assert_int_equal(pass(f, KILN_DB_FORGOTTEN, f->half, 7), 2);
    kiln_db_stat *stat = NULL;
    uint32_t count = 9;
    expect_ok(kiln_db_stats(f->to, &f->arena, &stat, &count));
    assert_int_equal(count, 0);
}

/* What was measured here goes like any other, though a record is append-only. */
static void our_own_records_can_be_forgotten(void **state) {
    fixture *f = *state;
    put_parents(f->to);
    put_record(f->to, 1, 500);
    expect_ok(kiln_db_commit(f->to));
    assert_int_equal(pass(f, KILN_DB_QUARANTINE, "j1", 5), 1);
    assert_true(best_ns(f) == 0);
    assert_int_equal(pass(f, KILN_DB_RESTORED, "j1", 6), 1);
    assert_true(best_ns(f) == 500);
    assert_int_equal(count_of(f, KILN_DB_HERE), 1);
    assert_int_equal(pass(f, KILN_DB_FORGOTTEN, "j1", 7), 1);
    assert_int_equal(count_of(f, KILN_DB_ANY), 0);
}

static kiln_status hand_over(void *context, kiln_db_table table, const void *row) {
    kiln_db_tombstone copy = *(const kiln_db_tombstone *)row;
    return kiln_db_import_row(context, table, &copy);
}

/* Takes the tombstones of `to` into `from`. */
static void carry_tombstones(fixture *f, kiln_db_import_counts *counts) {
    kiln_db_import *import = NULL;
    kiln_db_import_begin(f->from, NULL, &import);
    kiln_status st = kiln_db_each(f->to, KILN_DB_TABLE_TOMBSTONE, hand_over, import);
    expect_ok(kiln_db_import_end(import, st, counts));
}

static void tombstones_travel_and_only_those_of_the_trusted_are_heeded(void **state) {
    fixture *f = *state;
    kiln_db_import_counts counts;
    kiln_db_record record = signed_record(f, 1, 100);
    put(f->from, &record);
    expect_ok(import_all(f, &counts));
    assert_int_equal(pass(f, KILN_DB_FORGOTTEN, "r1", 5), 1);
    carry_tombstones(f, &counts);
    assert_int_equal(counts.skipped_tombstones, 1);
    kiln_db_verification v;
    expect_ok(kiln_db_verify(f->from, &v));
    assert_int_equal(v.right, 1);

    expect_ok(
        kiln_db_set_trust(f->from, kiln_str_from(f->half), (kiln_str){0}, KILN_DB_TRUST_PERSON, 1));
    expect_ok(kiln_db_commit(f->from));
    carry_tombstones(f, &counts);
    assert_int_equal(counts.tombstones, 1);
    expect_ok(kiln_db_verify(f->from, &v));
    assert_int_equal(v.right, 0);
}

static void pruning_keeps_what_counts(void **state) {
    fixture *f = *state;
    kiln_db_import_counts counts;
    uint32_t count = 0;
    put_parents(f->to);
    kiln_db_record ours = record_of(9, 700);
    put(f->to, &ours);
    for (unsigned i = 1; i <= 2; i++) {
        kiln_db_record record = signed_record(f, i, 100 * i);
        put(f->from, &record);
    }
    expect_ok(import_all(f, &counts));
    assert_int_equal(pass(f, KILN_DB_QUARANTINE, "r1", 5), 1);
    expect_ok(kiln_db_prune(f->to, &count));
    expect_ok(kiln_db_commit(f->to));
    assert_int_equal(count, 2);
    assert_int_equal(count_of(f, KILN_DB_ANY), 1);
    expect_ok(import_all(f, &counts)); /* what was quarantined comes back as such */
    assert_int_equal(counts.hints, 1);
    assert_int_equal(counts.quarantined, 1);
    assert_true(best_ns(f) == 700);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    choose_place(argc, argv);
    if (!kiln_sign_supported()) {
        puts("this build has no OpenSSL");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        TEST(a_strangers_record_is_a_hint_until_its_signer_is_trusted),
        TEST(on_a_projects_word_records_count_until_it_is_taken_back),
        TEST(a_job_counts_what_its_own_project_trusts),
        TEST(records_without_a_signature_are_hints_too),
        TEST(what_another_system_measured_stays_a_hint),
        TEST(a_changed_record_stops_the_whole_import),
        TEST(what_was_stored_is_what_was_signed),
        TEST(identities_cannot_be_taken_beforehand),
        TEST(parents_of_others_replace_nothing),
        TEST(a_hint_supersedes_nothing),
        TEST(what_cannot_be_true_is_left_out),
        TEST(medians_are_those_of_the_samples),
        TEST(more_may_be_known_of_a_record),
        TEST(what_others_hold_of_signers_is_skipped),
        TEST(a_name_without_a_signature_is_no_signer),
        TEST(each_record_goes_by_its_own_signer_and_task),
        TEST(a_successor_comes_along_with_its_records),
        TEST(what_is_forgotten_stays_forgotten),
        TEST(our_own_records_can_be_forgotten),
        TEST(tombstones_travel_and_only_those_of_the_trusted_are_heeded),
        TEST(pruning_keeps_what_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
