/* Groups of the records database, of which a tuner's jobs share one handle: what one job writes
 * decides nothing about another's records. */
#include "base/alloc.h"
#include "tests/support/test.h"
#include "tuner/shell.h"

typedef struct office {
    kiln_shell shell;
    kiln_arena arena;
    char *folder;
    uint64_t last_job;
    const kiln_shell_job *told_of; /* the job of the RECORDED events that came */
    uint32_t told;                 /* how many of these */
    bool ticked;
} office;

static void ignore(void *context) { (void)context; }

static void keep_event(void *event, kiln_arena *arena) { (void)event, (void)arena; }

static void decide(void *context, const void *event) {
    office *o = context;
    const kiln_tuner_event *e = event;
    o->ticked = e->kind == KILN_TUNER_TICK;
    if (e->kind != KILN_TUNER_RECORDED) return;
    assert_null(e->failure);
    o->told_of = kiln_shell_find_job(&o->shell, e->job);
    o->told++;
}

static uint64_t never(void *context) {
    (void)context;
    return UINT64_MAX;
}

/* Decides all events that are posted. */
static void hear(office *o) {
    o->ticked = false;
    kiln_shell_post(&o->shell, &(kiln_tuner_event){.kind = KILN_TUNER_TICK});
    while (!o->ticked) kiln_loop_run_once(o->shell.loop);
}

/* A tuner without a tracker and a machine: the test carries out actions and counts events. */
static int set_up(void **state) {
    office *o = kiln_alloc(sizeof *o);
    kiln_shell *shell = &o->shell;
    kiln_arena_init(&o->arena, 0);
    o->folder = make_folder(&o->arena);
    kiln_blob_store_options blobs = {.folder = kiln_arena_printf(&o->arena, "%s/blobs", o->folder)};
    expect_ok(kiln_blob_store_open(&blobs, &shell->store));
    expect_ok(kiln_db_open(kiln_arena_printf(&o->arena, "%s/r.db", o->folder), KILN_DB_RECORDS,
                           KILN_DB_WRITE, &shell->db));
    expect_ok(kiln_loop_create(&shell->loop));
    shell->io_thread = kiln_io_thread_create(shell->loop);
    shell->events =
        kiln_event_queue_create(&(kiln_event_queue_options){.loop = shell->loop,
                                                            .event_bytes = sizeof(kiln_tuner_event),
                                                            .keep = keep_event,
                                                            .decide = decide,
                                                            .next_ns = never,
                                                            .tick = ignore,
                                                            .context = o});
    shell->commit = kiln_timer_create(shell->loop, ignore, NULL);
    shell->claims = kiln_timer_create(shell->loop, ignore, NULL);
    *state = o;
    return 0;
}

static int tear_down(void **state) {
    office *o = *state;
    kiln_shell *shell = &o->shell;
    while (shell->jobs) kiln_shell_forget(shell, &(kiln_tuner_action){.job = shell->jobs->handle});
    kiln_io_thread_wait(shell->io_thread);
    kiln_io_thread_destroy(shell->io_thread);
    kiln_event_queue_destroy(shell->events);
    kiln_timer_destroy(shell->commit);
    kiln_timer_destroy(shell->claims);
    kiln_loop_destroy(shell->loop);
    kiln_db_close(shell->db);
    kiln_blob_store_close(shell->store);
    remove_folder(o->folder);
    kiln_arena_deinit(&o->arena);
    kiln_free(o);
    return 0;
}

/* PREPARE of a job that brings `records`; its model cannot be fetched. */
static kiln_shell_job *begin_job(office *o, const kiln_digest *model, const kiln_digest *records) {
    kiln_msg_job_spec spec = {.model = *model,
                              .records = *records,
                              .target = KILN_STR("cpu:x86_64-linux-gnu,threads=1"),
                              .searcher = KILN_STR("random")};
    const char *identity = kiln_arena_printf(&o->arena, "job %u", (unsigned)++o->last_job);
    kiln_shell_prepare(&o->shell, &(kiln_tuner_action){.kind = KILN_TUNER_PREPARE,
                                                       .job = o->last_job,
                                                       .spec = &spec,
                                                       .text = identity});
    kiln_io_thread_wait(o->shell.io_thread);
    return kiln_shell_find_job(&o->shell, o->last_job);
}

static const kiln_digest nothing, somewhere = {{1}};

/* A job with one task, of which a final can be recorded. */
static kiln_shell_job *begin_job_with_task(office *o) {
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
static void expect_recorded(office *o, const kiln_shell_job *job) {
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    kiln_shell_commit(&o->shell);
    kiln_io_thread_wait(o->shell.io_thread);
    hear(o);
    assert_int_equal(o->told, 1);
    assert_ptr_equal(o->told_of, job);
    kiln_db_rollback(o->shell.db);
    expect_ok(kiln_db_records(o->shell.db, &(kiln_db_filter){0}, &o->arena, &record, &count));
    assert_int_equal(count, 1);
}

static void a_record_is_told_when_it_is_durable(void **state) {
    office *o = *state;
    kiln_shell_job *job = begin_job_with_task(o);
    record_final(job);
    hear(o);
    assert_int_equal(o->told, 0);
    expect_recorded(o, job);
}

static void a_job_that_ends_fails_no_records_of_another(void **state) {
    office *o = *state;
    kiln_shell_job *job = begin_job_with_task(o), *other = begin_job(o, &somewhere, &nothing);
    record_final(job);
    kiln_shell_forget(&o->shell, &(kiln_tuner_action){.job = other->handle});
    expect_recorded(o, job);
}

static void a_job_that_begins_fails_no_records_of_another(void **state) {
    office *o = *state;
    kiln_shell_job *job = begin_job_with_task(o);
    record_final(job);
    begin_job(o, &somewhere, &nothing);
    expect_recorded(o, job);
}

static void damaged_records_of_a_client_undo_none_of_another_job(void **state) {
    office *o = *state;
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
    office *o = *state;
    kiln_db *other = NULL;
    kiln_db_target row = {.target = KILN_STR("cpu:x")};
    begin_job(o, &somewhere, &nothing);
    expect_ok(kiln_db_open(kiln_arena_printf(&o->arena, "%s/r.db", o->folder), KILN_DB_RECORDS,
                           KILN_DB_WRITE, &other));
    expect_ok(kiln_db_put_target(other, &row));
    kiln_db_close(other);
}

int main(void) {
#define test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        test(a_record_is_told_when_it_is_durable),
        test(a_job_that_ends_fails_no_records_of_another),
        test(a_job_that_begins_fails_no_records_of_another),
        test(damaged_records_of_a_client_undo_none_of_another_job),
        test(nobody_waits_for_the_writers_place_while_a_job_is_prepared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
