/* The end of a job: its row, and the records that its client gets. */
#include "base/fail.h"
#include "db/bundle.h"
#include "tests/unit/tuner/shell_fixture.h"

#define JOB "job 1"

static const kiln_digest nothing, somewhere = {{1}};

static kiln_db_job row_of(shell_fixture *o, const char *job) {
    kiln_db *reader = NULL; /* sees what is committed */
    kiln_db_job row = {0};
    bool found = false;
    expect_ok(kiln_db_open(o->db_path, KILN_DB_RECORDS, KILN_DB_READ, &reader));
    expect_ok(kiln_db_find_job(reader, kiln_str_from(job), &o->arena, &row, &found));
    assert_true(found);
    kiln_db_close(reader);
    return row;
}

static void a_jobs_row_says_what_it_is_and_its_state(void **state) {
    shell_fixture *o = *state;
    kiln_msg_job_spec spec = shell_fixture_spec(&somewhere, &nothing);
    char model[KILN_DIGEST_TEXT];
    kiln_digest_print(&somewhere, model);
    spec.model_name = KILN_STR("net");
    spec.trials = 9;
    spec.project = KILN_STR("p");
    kiln_shell_job *job = shell_fixture_prepare(o, &spec);
    const kiln_db_job row = row_of(o, JOB);
    expect_str(row.model, "net");
    expect_str(row.model_digest, model);
    expect_str(row.target, SHELL_FIXTURE_TARGET);
    expect_str(row.project, "p");
    assert_int_equal(row.trials_max, 9);
    expect_str(row.state, "open");
    shell_fixture_forget(o, job, "done");
    shell_fixture_hear(o);
    expect_str(row_of(o, JOB).state, "done");
    assert_null(kiln_shell_find_job(&o->shell, 1));
}

/* Another tuner goes on with it, for instance. */
static void a_job_that_is_only_forgotten_stays_open(void **state) {
    shell_fixture *o = *state;
    const kiln_msg_job_spec spec = shell_fixture_spec(&somewhere, &nothing);
    shell_fixture_forget(o, shell_fixture_prepare(o, &spec), NULL);
    shell_fixture_hear(o);
    expect_str(row_of(o, JOB).state, "open");
    assert_null(kiln_shell_find_job(&o->shell, 1));
}

/* Else other writers would wait for the end of its group. */
static void a_row_that_cannot_be_written_leaves_no_group_open(void **state) {
    shell_fixture *o = *state;
    const kiln_msg_job_spec spec = shell_fixture_spec(&somewhere, &nothing);
    kiln_shell_job *job = shell_fixture_prepare(o, &spec);
    shell_fixture_lose_table(o, "job");
    expect_error(kiln_shell_store_job(job, "done"), INTERNAL, "no such table");
    assert_false(kiln_db_pending(o->shell.db));
}

/* ---- EXPORT ---- */

static void put_record(shell_fixture *o, const char *task, const char *trial, bool checked) {
    static const double sample[] = {500, 500, 500};
    const kiln_db_task task_row = {.key = kiln_str_from(task), .op = KILN_STR("conv")};
    const kiln_db_device device = {.id = KILN_STR("d")};
    const kiln_db_fingerprint print = {.id = KILN_STR("f"), .device_id = KILN_STR("d")};
    const kiln_db_record row = {.trial_id = kiln_str_from(trial),
                                .attempt = 1,
                                .job_id = KILN_STR(JOB),
                                .task_key = kiln_str_from(task),
                                .target = KILN_STR(SHELL_FIXTURE_TARGET),
                                .device_id = device.id,
                                .fingerprint_id = print.id,
                                .trace = KILN_STR("trace"),
                                .trace_hash = kiln_str_from(trial),
                                .codegen_version = KILN_STR("1"),
                                .artefact_kind = KILN_STR("elf"),
                                .threads = 1,
                                .outcome = KILN_STR("ok"),
                                .blame = KILN_STR("none"),
                                .checked = checked,
                                .samples_ns = {sample, KILN_ARRAY_COUNT(sample)},
                                .runs_per_sample = 1,
                                .cache_state = KILN_STR("warm"),
                                .stored_wall_ns = 1};
    expect_ok(kiln_db_put_task(o->shell.db, &task_row));
    expect_ok(kiln_db_put_device(o->shell.db, &device));
    expect_ok(kiln_db_put_fingerprint(o->shell.db, &print));
    expect_ok(kiln_db_put_record(o->shell.db, &row));
    expect_ok(kiln_db_commit(o->shell.db));
}

/* A job with the tasks "t1" and "t2". */
static kiln_shell_job *begin_with_tasks(shell_fixture *o) {
    const kiln_msg_job_spec spec = shell_fixture_spec(&somewhere, &nothing);
    kiln_shell_job *job = shell_fixture_prepare(o, &spec);
    job->task_count = 2;
    job->task = KILN_ARENA_ARRAY(&job->arena, kiln_shell_task, 2);
    job->task[0].key = KILN_STR("t1");
    job->task[1].key = KILN_STR("t2");
    return job;
}

static const kiln_tuner_event *export(shell_fixture *o, uint64_t job) {
    kiln_shell_export(&o->shell, &(kiln_tuner_action){.job = job});
    shell_fixture_hear(o);
    return shell_fixture_find(o, KILN_TUNER_EXPORTED);
}

static kiln_status note_trial(void *context, kiln_db_table table, const void *row) {
    if (table == KILN_DB_TABLE_RECORD)
        kiln_strbuf_printf(context, "%.*s ", KILN_STR_ARG(((const kiln_db_record *)row)->trial_id));
    return KILN_OK;
}

/* The client chooses among all that counts, and sees what failed. */
static void a_client_gets_all_records_of_the_jobs_tasks(void **state) {
    shell_fixture *o = *state;
    kiln_str bytes = {0};
    kiln_strbuf trials = {0};
    kiln_shell_job *job = begin_with_tasks(o);
    put_record(o, "t1", "a", true);
    put_record(o, "t1", "b", false);
    put_record(o, "t2", "c", true);
    put_record(o, "other", "d", true);
    const kiln_tuner_event *event = export(o, job->handle);
    assert_non_null(event);
    assert_int_equal(event->job, job->handle);
    assert_null(event->failure);
    expect_ok(kiln_blob_store_get(o->shell.store, &event->digest, &o->arena, &bytes));
    expect_ok(kiln_bundle_each(bytes, &o->arena, note_trial, &trials));
    assert_string_equal(trials.data, "a b c ");
    kiln_strbuf_deinit(&trials);
}

static void a_client_is_told_why_it_gets_no_records(void **state) {
    shell_fixture *o = *state;
    kiln_shell_job *job = begin_with_tasks(o);
    put_record(o, "t1", "a", true);
    expect_ok(kiln_fail_arm("TUNER_EXPORT=error"));
    const kiln_tuner_event *event = export(o, job->handle);
    expect_ok(kiln_fail_arm(NULL));
    assert_non_null(event);
    assert_int_equal(event->code, KILN_RESOURCE_EXHAUSTED);
    assert_non_null(event->failure);
}

static void jobs_that_are_gone_have_no_end(void **state) {
    shell_fixture *o = *state;
    assert_null(export(o, 77));
    kiln_shell_forget(&o->shell, &(kiln_tuner_action){.job = 77, .text = "done"});
    shell_fixture_hear(o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_shell(a_jobs_row_says_what_it_is_and_its_state),
        test_with_shell(a_job_that_is_only_forgotten_stays_open),
        test_with_shell(a_row_that_cannot_be_written_leaves_no_group_open),
        test_with_shell(a_client_gets_all_records_of_the_jobs_tasks),
        test_with_shell(a_client_is_told_why_it_gets_no_records),
        test_with_shell(jobs_that_are_gone_have_no_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
