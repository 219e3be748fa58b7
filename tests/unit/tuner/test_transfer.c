/* What a job takes from the database before its first trial. */
#include <sqlite3.h>
#include <stdio.h>

#include "base/alloc.h"
#include "tests/unit/db/support.h"
#include "tuner/shell.h"
#include "tuner/target_similarity.h"

#define CPU "cpu:x86_64-unknown-linux-gnu,mcpu="
#define TARGET CPU "x86-64-v3"
#define OPENED 5000 /* the job began then; rows of record_of were stored before */

typedef struct desk {
    kiln_shell shell;
    kiln_shell_job job;
    kiln_shell_task task[2]; /* "t1" and "t2" */
    void *folder;
    const char *path;
} desk;

static desk the_desk;

static void put_job(desk *d, const char *id, const char *model) {
    kiln_db_job row = {.id = kiln_str_from(id),
                       .model_digest = kiln_str_from(model),
                       .target = KILN_STR(TARGET),
                       .searcher = KILN_STR("random"),
                       .state = KILN_STR("done")};
    expect_ok(kiln_db_put_job(d->shell.db, &row));
}

static void put_task(desk *d, const char *key, const char *text) {
    kiln_db_task row = {
        .key = kiln_str_from(key), .op = KILN_STR("conv"), .canonical = kiln_str_from(text)};
    expect_ok(kiln_db_put_task(d->shell.db, &row));
}

static int set_up(void **state) {
    static char model[KILN_DIGEST_TEXT];
    desk *d = &the_desk;
    kiln_shell_job *job = &d->job;
    *d = (desk){0};
    folder_create(&d->folder);
    d->path = path_in(&d->folder, "records.db");
    d->shell.db = open_records(d->path);
    const kiln_blob_store_options blobs = {.folder = path_in(&d->folder, "blobs")};
    expect_ok(kiln_blob_store_open(&blobs, &d->shell.store));
    put_parents(d->shell.db);
    kiln_arena_init(&job->arena, 0);
    job->shell = &d->shell;
    job->identity = "me";
    job->opened_wall_ns = OPENED;
    job->spec.target = KILN_STR(TARGET);
    job->spec.model = (kiln_digest){{7}};
    expect_ok(kiln_target_parse(job->spec.target, &job->arena, &job->target));
    job->task = d->task;
    job->task_count = 2;
    d->task[0].key = KILN_STR("t1");
    d->task[1].key = KILN_STR("t2");
    put_task(d, "t1", "program of t1");
    put_task(d, "t2", "program of t2");
    kiln_digest_print(&job->spec.model, model);
    put_job(d, "me", model);
    put_job(d, "same model", model);
    *state = d;
    return 0;
}

static int tear_down(void **state) {
    desk *d = *state;
    kiln_cost_model_destroy(d->job.model);
    kiln_db_close(d->shell.db);
    kiln_blob_store_close(d->shell.store);
    kiln_arena_deinit(&d->job.arena);
    folder_remove(&d->folder);
    return 0;
}

/* A record that counts for "t1": of another job, by this compiler. */
static kiln_db_record record(unsigned number, double ns) {
    kiln_db_record row = record_of(number, ns);
    row.codegen_version = kiln_str_from(kiln_codegen_version());
    return row;
}

static kiln_db_record with_target(desk *d, kiln_db_record row, const char *target) {
    const kiln_db_target put = {.target = kiln_str_from(target)};
    expect_ok(kiln_db_put_target(d->shell.db, &put));
    row.target = put.target;
    return row;
}

static kiln_db_record as_hint(kiln_db_record row) {
    row.origin = KILN_STR("foreign log");
    row.standing = KILN_DB_HINT;
    return row;
}

static kiln_db_record with_outcome(kiln_db_record row, kiln_outcome outcome) {
    row.outcome = kiln_str_from(kiln_outcome_name(outcome));
    row.blame = kiln_str_from(kiln_blame_name(kiln_outcome_blame(outcome)));
    return row;
}

static void put(desk *d, kiln_db_record row) { expect_ok(kiln_db_put_record(d->shell.db, &row)); }

static void find(desk *d) {
    expect_ok(kiln_db_commit(d->shell.db));
    expect_ok(kiln_shell_find_transfer(&d->job));
}

static const kiln_transfer_record *found(const desk *d, uint32_t at) {
    assert_in_range(at, 0, d->job.transfer.records.count - 1);
    return &d->job.transfer.records.data[at];
}

/* The hashes of all that was found, in order. */
static void expect_found(const desk *d, const char *hashes) {
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < d->job.transfer.records.count; i++)
        kiln_strbuf_printf(&text, "%s%.*s", i ? " " : "", KILN_STR_ARG(found(d, i)->hash));
    assert_string_equal(text.data ? text.data : "", hashes);
    kiln_strbuf_deinit(&text);
}

static void with_model(desk *d) {
    const kiln_cost_model_options options = {.kind = KILN_MODEL_ANALYTIC};
    d->job.model = kiln_cost_model_create(&options);
}

/* ---- Records of the job's own tasks ---- */

static void records_of_other_jobs_for_a_task_are_known(void **state) {
    desk *d = *state;
    kiln_db_record row = record(1, 500), other = record(2, 600);
    double samples[] = {510, 490, 500};
    row.samples_ns = (kiln_db_samples){samples, KILN_ARRAY_COUNT(samples)};
    row.registers = 77;
    other.task_key = KILN_STR("t2");
    put(d, row);
    put(d, other);
    put(d, record(3, 400));
    find(d);
    expect_found(d, "r1 r3 r2");
    assert_int_equal(d->task[0].known.stored_count, 2);
    assert_int_equal(d->task[1].known.stored_count, 1);
    const kiln_transfer_record *first = found(d, 0);
    assert_int_equal(first->task, 0);
    expect_str(first->key, "t1");
    assert_true(kiln_str_equal(first->trace, row.trace));
    assert_true(first->latency_ns == 490); /* the least sample */
    assert_int_equal(first->assembled.registers, 77);
    assert_null(first->target);
    assert_false(first->adopted);
    assert_int_equal(found(d, 2)->task, 1);
}

static void records_of_the_same_model_are_repeats(void **state) {
    desk *d = *state;
    kiln_db_record same = record(2, 500);
    same.job_id = KILN_STR("same model");
    put(d, record(1, 500));
    put(d, same);
    same.trial_id = same.trace_hash = KILN_STR("r3");
    put(d, same);
    find(d);
    assert_int_equal(d->task[0].known.stored_count, 1);
    assert_int_equal(d->task[0].known.repeat_count, 2);
    expect_found(d, "r1 r2 r3");
}

static void own_records_and_finals_are_no_transfer(void **state) {
    desk *d = *state;
    kiln_db_record own = record(1, 100), final = record(2, 200);
    own.job_id = KILN_STR("me");
    final.final = 1;
    put(d, own);
    put(d, final);
    put(d, record(3, 300));
    find(d);
    expect_found(d, "r3");
    assert_int_equal(d->task[0].known.stored_count, 1);
    assert_true(d->task[0].known.best_ns == 300);
}

static void the_best_time_is_one_that_may_ship(void **state) {
    desk *d = *state;
    kiln_db_record row = record(1, 100);
    row.checked = 0;
    put(d, row);
    row = record(2, 200);
    row.raced = 1;
    put(d, row);
    put(d, with_outcome(record(3, 250), KILN_OUTCOME_WRONG_RESULT));
    row = record(4, 300);
    row.searcher = KILN_STR("default");
    row.peak_flops = 3e9;
    put(d, row);
    row = record(5, 350);
    row.searcher = KILN_STR("default"); /* the newer one */
    row.peak_flops = 2e9;
    put(d, row);
    put(d, record(6, 290));
    put(d, record(7, 400));
    find(d);
    assert_true(d->task[0].known.best_ns == 290);
    assert_true(d->task[0].known.default_ns == 350);
    assert_true(d->task[0].known.peak_flops == 3e9);
    assert_true(d->task[1].known.best_ns == 0);
    assert_int_equal(d->task[0].known.stored_count, 7);
}

static void faults_of_candidates_teach_and_those_of_boards_do_not(void **state) {
    desk *d = *state;
    put(d, with_outcome(record(1, 500), KILN_OUTCOME_CRASH));
    put(d, with_outcome(record(2, 500), KILN_OUTCOME_BOARD_LOST));
    put(d, with_outcome(record(3, 500), KILN_OUTCOME_INFRA));
    put(d, with_outcome(record(4, 500), KILN_OUTCOME_WRONG_RESULT));
    put(d, as_hint(with_outcome(record(5, 500), KILN_OUTCOME_INFRA)));
    find(d);
    expect_found(d, "r1 r4");
    assert_true(found(d, 0)->latency_ns == 0);
    assert_int_equal(d->task[0].known.stored_count, 4); /* none of them is measured again */
}

static void only_records_of_this_compiler_target_and_budget_count(void **state) {
    desk *d = *state;
    kiln_db_record row = record(1, 500);
    row.codegen_version = KILN_STR("another");
    put(d, row);
    put(d, with_target(d, record(2, 500), CPU "x86-64-v3,emulated"));
    row = record(3, 500);
    row.algorithm = KILN_STR("winograd");
    row.error = 0.5;
    put(d, row);
    row = record(4, 500);
    row.algorithm = KILN_STR("direct");
    put(d, row);
    d->job.allowed = (kiln_db_allowed){KILN_STR("direct"), 0.1};
    find(d);
    expect_found(d, "r4");
}

static void a_trusted_signer_of_the_job_counts(void **state) {
    desk *d = *state;
    const kiln_str signer =
        KILN_STR("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    kiln_db_record row = as_hint(record(1, 500));
    row.signer = signer;
    put(d, row);
    d->job.trusting = (kiln_db_trusting){&signer, 1};
    find(d);
    expect_found(d, "r1");
    assert_int_equal(d->task[0].known.stored_count, 1);
}

/* ---- Hints ---- */

static void the_fastest_hints_are_tried_and_count_for_nothing(void **state) {
    desk *d = *state;
    for (unsigned i = 1; i <= 8; i++) put(d, as_hint(record(i, 900 - 100 * i)));
    find(d);
    expect_found(d, "r8 r7 r6 r5 r4 r3");
    assert_int_equal(d->task[0].known.stored_count, 0);
    const kiln_transfer_record *first = found(d, 0);
    assert_ptr_equal(first->target, &d->job.target);
    assert_true(first->adopted);
    expect_str(first->key, "t1 " TARGET " hints");
    assert_int_equal(first->task, 0);
}

static void a_model_learns_from_the_newest_hints_as_well(void **state) {
    desk *d = *state;
    with_model(d);
    for (unsigned i = 1; i <= KILN_TRANSFER_RECORDS_PER_TASK + 1; i++) {
        char name[16];
        kiln_db_record row = as_hint(record(i, 500));
        snprintf(name, sizeof name, "h%u", i);
        row.trial_id = row.trace_hash = kiln_str_from(name);
        if (i == 50) row = with_outcome(row, KILN_OUTCOME_CRASH);
        if (i == 60) row = with_outcome(row, KILN_OUTCOME_INFRA); /* which teaches nothing */
        put(d, row);
    }
    find(d);
    assert_int_equal(d->job.transfer.records.count, 6 + KILN_TRANSFER_RECORDS_PER_TASK - 1);
    assert_true(found(d, 5)->adopted);
    assert_false(found(d, 6)->adopted);
    expect_str(found(d, 6)->hash, "h129"); /* the newest first */
}

static void what_others_measure_after_the_job_began_does_not_change_it(void **state) {
    desk *d = *state;
    kiln_db_record hint = as_hint(record(1, 500));
    hint.stored_wall_ns = OPENED + 1;
    put(d, hint);
    kiln_db_record similar = with_target(d, record(2, 500), CPU "x86-64");
    similar.stored_wall_ns = OPENED + 1;
    put(d, similar);
    find(d);
    expect_found(d, "");
}

/* ---- Other targets ---- */

static void the_fastest_of_the_most_similar_target_are_tried(void **state) {
    desk *d = *state;
    for (unsigned i = 1; i <= 8; i++)
        put(d, with_target(d, record(i, 900 - 100 * i), CPU "x86-64-v3,threads=2"));
    put(d, with_target(d, record(9, 10), CPU "haswell"));
    put(d, with_target(d, record(10, 10), CPU "x86-64"));
    put(d, with_target(d, record(11, 10), "of a later version"));
    find(d);
    expect_found(d, "r8 r7 r6 r5 r4 r3");
    const kiln_transfer_record *first = found(d, 0);
    assert_true(first->adopted);
    expect_str(first->key, "t1 " CPU "x86-64-v3,threads=2");
    assert_int_equal(kiln_target_similarity(first->target, &d->job.target),
                     kiln_target_similarity(&d->job.target, first->target));
    assert_int_equal(first->target->threads, 2);
    assert_int_equal(d->task[0].known.stored_count, 0);
}

static void of_equally_similar_targets_the_first_by_name_is_taken(void **state) {
    desk *d = *state;
    put(d, with_target(d, record(1, 500), CPU "skylake-avx512"));
    put(d, with_target(d, record(2, 500), CPU "icelake-server"));
    find(d);
    expect_found(d, "r2");
}

static void the_jobs_own_target_is_no_similar_one(void **state) {
    desk *d = *state;
    put(d, record(1, 500));
    put(d, with_target(d, record(2, 600), CPU "x86-64"));
    find(d);
    expect_found(d, "r1 r2");
    assert_null(found(d, 0)->target);
    assert_non_null(found(d, 1)->target);
}

static void a_target_of_a_later_version_is_not_similar(void **state) {
    desk *d = *state;
    put(d, with_target(d, record(1, 500), "later"));
    find(d);
    expect_found(d, "");
}

static void each_task_has_its_own_most_similar_target(void **state) {
    desk *d = *state;
    kiln_db_record row = with_target(d, record(2, 500), CPU "x86-64-v3,threads=2");
    row.task_key = KILN_STR("t2");
    put(d, with_target(d, record(1, 500), CPU "x86-64,threads=2")); /* hardly similar */
    put(d, row);
    find(d);
    expect_found(d, "r1 r2");
}

static void a_model_learns_from_a_similar_target(void **state) {
    desk *d = *state;
    with_model(d);
    put(d, with_target(d, record(1, 500), CPU "x86-64"));
    put(d, with_target(d, with_outcome(record(2, 500), KILN_OUTCOME_CRASH), CPU "x86-64"));
    find(d);
    expect_found(d, "r1 r2 r1");
    assert_true(found(d, 0)->adopted);
    assert_false(found(d, 1)->adopted);
    assert_ptr_equal(found(d, 1)->target, found(d, 0)->target);
}

/* ---- Other tasks ---- */

static void a_model_learns_from_other_tasks_with_a_program(void **state) {
    desk *d = *state;
    kiln_db_record row = record(1, 500);
    put_task(d, "o1", "program one");
    put_task(d, "o2", "program two");
    put_task(d, "o3", "");
    put(d, row);
    for (unsigned i = 2; i <= 6; i++) {
        static const char *const key[] = {"o1", "o2", "o3", "o1", "o2"};
        row = record(i, 500);
        row.task_key = kiln_str_from(key[i - 2]);
        if (i == 6) row = with_outcome(row, KILN_OUTCOME_INFRA);
        put(d, row);
    }
    row = record(7, 500);
    row.task_key = KILN_STR("t2");
    put(d, row);
    with_model(d);
    find(d);
    expect_found(d, "r1 r7 r5 r3 r2"); /* the newest of others first */
    const kiln_transfer_record *other = found(d, 2);
    assert_int_equal(other->task, d->job.task_count);
    expect_str(other->key, "o1");
    expect_str(other->text, "program one");
    expect_str(found(d, 3)->text, "program two");
    expect_str(found(d, 4)->text, "program one");
    assert_int_equal(d->task[0].known.stored_count, 1);
}

static void without_a_model_other_tasks_teach_nobody(void **state) {
    desk *d = *state;
    kiln_db_record row = record(1, 500);
    put_task(d, "o1", "program one");
    row.task_key = KILN_STR("o1");
    put(d, row);
    find(d);
    expect_found(d, "");
}

/* ---- Schedules written by hand ---- */

static void give_by_hand(desk *d, kiln_msg_hand_schedule *given, uint32_t count) {
    kiln_msg_hand_schedules all = {.items = {given, count}};
    kiln_strbuf bytes = {0};
    expect_ok(kiln_record_encode(KILN_RECORD_hand_schedules, &all, &bytes));
    expect_ok(kiln_blob_store_put(d->shell.store, kiln_strbuf_view(&bytes), &d->job.spec.by_hand));
    kiln_strbuf_deinit(&bytes);
}

static kiln_db_record of_trace(kiln_db_record row, const char *trace) {
    static char hash[8][KILN_HASH128_TEXT];
    static uint32_t next;
    char *text = hash[next++ % KILN_ARRAY_COUNT(hash)];
    row.trace = kiln_str_from(trace);
    kiln_hash128_print(kiln_hash128_of(row.trace.data, row.trace.size), text);
    row.trace_hash = kiln_str_from(text);
    return row;
}

static void schedules_by_hand_count_unless_they_were_measured(void **state) {
    desk *d = *state;
    kiln_msg_hand_schedule given[] = {
        {KILN_STR("t1"), KILN_STR("new")},    {KILN_STR("t1"), KILN_STR("measured")},
        {KILN_STR("t1"), KILN_STR("hinted")}, {KILN_STR("t2"), KILN_STR("measured")},
        {KILN_STR("t3"), KILN_STR("new")},    {KILN_STR("t1"), KILN_STR("measured, too")},
    };
    put(d, of_trace(record(1, 500), "measured"));
    put(d, of_trace(record(3, 500), "measured, too"));
    put(d, as_hint(of_trace(record(2, 500), "hinted")));
    give_by_hand(d, given, KILN_ARRAY_COUNT(given));
    find(d);
    assert_int_equal(d->task[0].known.by_hand_count, 2);
    assert_int_equal(d->task[1].known.by_hand_count, 1);
    assert_int_equal(d->job.transfer.by_hand.items.count, KILN_ARRAY_COUNT(given));
}

static void a_schedule_by_hand_that_was_measured_last_is_not_measured_again(void **state) {
    desk *d = *state;
    kiln_msg_hand_schedule given[] = {{KILN_STR("t1"), KILN_STR("measured")}};
    put(d, record(1, 500));
    put(d, of_trace(record(2, 500), "measured"));
    give_by_hand(d, given, KILN_ARRAY_COUNT(given));
    find(d);
    assert_int_equal(d->task[0].known.by_hand_count, 0);
}

static void damaged_schedules_by_hand_stop_the_job(void **state) {
    desk *d = *state;
    expect_ok(kiln_blob_store_put(d->shell.store, KILN_STR("no record"), &d->job.spec.by_hand));
    expect_error(kiln_shell_find_transfer(&d->job), DATA_LOSS, "schedules that the job brings");
    d->job.spec.by_hand = (kiln_digest){{9}};
    expect_error(kiln_shell_find_transfer(&d->job), NOT_FOUND, "schedules that the job brings");
}

/* ---- Errors ---- */

/* Renames a table behind the database's back. */
static void lose_table(desk *d, const char *name) {
    sqlite3 *raw = NULL;
    char sql[100];
    expect_ok(kiln_db_commit(d->shell.db));
    snprintf(sql, sizeof sql, "PRAGMA legacy_alter_table = ON; ALTER TABLE %s RENAME TO lost_%s",
             name, name);
    assert_int_equal(sqlite3_open(d->path, &raw), SQLITE_OK);
    assert_int_equal(sqlite3_exec(raw, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(raw);
}

static void an_error_of_the_database_stops_the_job(void **state) {
    desk *d = *state;
    put(d, record(1, 500));
    put(d, record(2, 500));
    with_model(d); /* reading other tasks works, and hides no error */
    lose_table(d, "job");
    expect_error(kiln_shell_find_transfer(&d->job), INTERNAL, "no such table");
    lose_table(d, "record");
    expect_error(kiln_shell_find_transfer(&d->job), INTERNAL, "no such table");
}

static void an_error_while_other_tasks_are_read_stops_the_job(void **state) {
    desk *d = *state;
    kiln_db_record row = record(1, 500);
    put_task(d, "o1", "program one");
    row.task_key = KILN_STR("o1");
    put(d, row);
    with_model(d);
    lose_table(d, "task");
    expect_error(kiln_shell_find_transfer(&d->job), INTERNAL, "no such table");
}

int main(void) {
#define test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        test(records_of_other_jobs_for_a_task_are_known),
        test(records_of_the_same_model_are_repeats),
        test(own_records_and_finals_are_no_transfer),
        test(the_best_time_is_one_that_may_ship),
        test(faults_of_candidates_teach_and_those_of_boards_do_not),
        test(only_records_of_this_compiler_target_and_budget_count),
        test(a_trusted_signer_of_the_job_counts),
        test(the_fastest_hints_are_tried_and_count_for_nothing),
        test(a_model_learns_from_the_newest_hints_as_well),
        test(what_others_measure_after_the_job_began_does_not_change_it),
        test(the_fastest_of_the_most_similar_target_are_tried),
        test(of_equally_similar_targets_the_first_by_name_is_taken),
        test(the_jobs_own_target_is_no_similar_one),
        test(a_target_of_a_later_version_is_not_similar),
        test(each_task_has_its_own_most_similar_target),
        test(a_model_learns_from_a_similar_target),
        test(a_model_learns_from_other_tasks_with_a_program),
        test(without_a_model_other_tasks_teach_nobody),
        test(schedules_by_hand_count_unless_they_were_measured),
        test(a_schedule_by_hand_that_was_measured_last_is_not_measured_again),
        test(damaged_schedules_by_hand_stop_the_job),
        test(an_error_of_the_database_stops_the_job),
        test(an_error_while_other_tasks_are_read_stops_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
