/* Groups of the records database, of which a tuner's jobs share one handle: what one job writes
 * decides nothing about another's records. */
#include "tests/unit/tuner/shell_fixture.h"

static const kiln_digest nothing, somewhere = {{1}};

/* A job that brings `records`; its model cannot be fetched. */
static kiln_shell_job *begin_job(shell_fixture *o, const kiln_digest *model,
                                 const kiln_digest *records) {
    const kiln_msg_job_spec spec = shell_fixture_spec(model, records);
    return shell_fixture_prepare(o, &spec);
}

/* A job with one task, of which a final can be recorded. */
static kiln_shell_job *begin_job_with_task(shell_fixture *o) {
    kiln_shell_job *job = begin_job(o, &somewhere, &nothing);
    job->task_count = 1;
    job->task = KILN_ARENA_ARRAY(&job->arena, kiln_shell_task, 1);
    kiln_shell_task *task = job->task;
    task->key = KILN_STR("t");
    task->final.count = 1;
    task->final.finalist = KILN_ARENA_ARRAY(&job->arena, kiln_finalist, 1);
    task->final.finalist->row = (kiln_db_record){.task_key = task->key,
                                                 .target = job->spec.target,
                                                 .trace = KILN_STR("trace"),
                                                 .trace_hash = KILN_STR("h"),
                                                 .codegen_version = KILN_STR("1"),
                                                 .threads = 1};
    kiln_db_task row = {.key = task->key, .op = KILN_STR("conv")};
    expect_ok(kiln_db_put_task(o->shell.db, &row));
    expect_ok(kiln_db_commit(o->shell.db));
    return job;
}

static void record_final(kiln_shell_job *job) {
    uint64_t sample[] = {1000, 1001, 1002, 1003, 1004};
    kiln_msg_lease_grant grant = {.board = KILN_STR("b"), .target = job->spec.target};
    kiln_msg_trial_result result = {
        .samples_ns = {sample, KILN_ARRAY_COUNT(sample)}, .runs = 1, .checked = true};
    kiln_shell_record(job->shell, &(kiln_tuner_action){.kind = KILN_TUNER_RECORD,
                                                       .job = job->handle,
                                                       .index = KILN_TUNER_FINAL,
                                                       .attempt = 1,
                                                       .trial = "trial",
                                                       .result = &result,
                                                       .grant = &grant});
}

/* One RECORDED event without a failure came, and the one record is on disk. */
static void expect_recorded(shell_fixture *o, const kiln_shell_job *job) {
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    kiln_shell_commit(&o->shell);
    shell_fixture_hear(o);
    const kiln_tuner_event *told = shell_fixture_find(o, KILN_TUNER_RECORDED);
    assert_non_null(told);
    assert_null(told->failure);
    assert_int_equal(told->job, job->handle);
    kiln_db_rollback(o->shell.db);
    expect_ok(kiln_db_records(o->shell.db, &(kiln_db_filter){0}, &o->arena, &record, &count));
    assert_int_equal(count, 1);
}

static void a_record_is_told_when_it_is_durable(void **state) {
    shell_fixture *o = *state;
    kiln_shell_job *job = begin_job_with_task(o);
    record_final(job);
    shell_fixture_hear(o);
    assert_null(shell_fixture_find(o, KILN_TUNER_RECORDED));
    expect_recorded(o, job);
}

static void a_job_that_ends_fails_no_records_of_another(void **state) {
    shell_fixture *o = *state;
    kiln_shell_job *job = begin_job_with_task(o), *other = begin_job(o, &somewhere, &nothing);
    record_final(job);
    shell_fixture_forget(o, other, NULL);
    expect_recorded(o, job);
}

static void records_of_a_job_come_before_its_end(void **state) {
    shell_fixture *o = *state;
    kiln_shell_job *job = begin_job_with_task(o);
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    record_final(job);
    shell_fixture_forget(o, job, "done");
    shell_fixture_hear(o);
    kiln_db_rollback(o->shell.db);
    expect_ok(kiln_db_records(o->shell.db, &(kiln_db_filter){0}, &o->arena, &record, &count));
    assert_int_equal(count, 1);
}

static void a_job_that_begins_fails_no_records_of_another(void **state) {
    shell_fixture *o = *state;
    kiln_shell_job *job = begin_job_with_task(o);
    record_final(job);
    begin_job(o, &somewhere, &nothing);
    expect_recorded(o, job);
}

static void damaged_records_of_a_client_undo_none_of_another_job(void **state) {
    shell_fixture *o = *state;
    kiln_digest damaged;
    kiln_shell_job *job = begin_job_with_task(o);
    expect_ok(kiln_blob_store_put(o->shell.store, KILN_STR("no bundle"), &damaged));
    record_final(job);
    kiln_shell_job *bad = begin_job(o, &somewhere, &damaged);
    expect_error(kiln_shell_import(bad), DATA_LOSS, "");
    expect_recorded(o, job);
}

/* Nor for a model that a tracker which is away does not send. */
static void nobody_waits_for_the_writers_place_while_a_job_is_prepared(void **state) {
    shell_fixture *o = *state;
    kiln_db *other = NULL;
    kiln_db_target row = {.target = KILN_STR("cpu:x")};
    begin_job(o, &somewhere, &nothing);
    expect_ok(kiln_db_open(kiln_arena_printf(&o->arena, "%s/r.db", o->folder), KILN_DB_RECORDS,
                           KILN_DB_WRITE, &other));
    expect_ok(kiln_db_put_target(other, &row));
    kiln_db_close(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_shell(a_record_is_told_when_it_is_durable),
        test_with_shell(a_job_that_ends_fails_no_records_of_another),
        test_with_shell(records_of_a_job_come_before_its_end),
        test_with_shell(a_job_that_begins_fails_no_records_of_another),
        test_with_shell(damaged_records_of_a_client_undo_none_of_another_job),
        test_with_shell(nobody_waits_for_the_writers_place_while_a_job_is_prepared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
