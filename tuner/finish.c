/* The end of a job: EXPORT of its records, FORGET, and its row in the database. */
#include "base/fail.h"
#include "base/log.h"
#include "db/bundle.h"
#include "tuner/shell.h"

#define EXPORT_RECORDS_MAX 4096u /* newest per task */

/* Committed at once, so that no other writer has to wait while a job is prepared. */
kiln_status kiln_shell_store_job(kiln_shell_job *job, const char *state) {
    kiln_db *db = job->shell->db;
    char digest[KILN_DIGEST_TEXT];
    kiln_digest_print(&job->spec.model, digest);
    kiln_db_job row = {.id = kiln_str_from(job->identity),
                       .model = job->spec.model_name,
                       .model_digest = kiln_str_from(digest),
                       .target = job->spec.target,
                       .searcher = job->spec.searcher,
                       .trials_max = job->spec.trials,
                       .seed = (int64_t)job->spec.seed,
                       .project = job->spec.project,
                       .user = job->spec.user,
                       .state = kiln_str_from(state),
                       .opened_wall_ns = (int64_t)job->opened_wall_ns};
    kiln_db_target target = {.target = job->spec.target};
    kiln_status st = kiln_db_put_target(db, &target);
    if (!st) st = kiln_db_put_job(db, &row);
    if (!st) st = kiln_db_commit(db);
    if (st) kiln_db_rollback(db);
    return st;
}

/* All records of the job's tasks on its target: the client chooses kernels from them. */
static void export_records(kiln_shell_io *e) {
    kiln_shell_job *job = e->job;
    kiln_arena scratch = {0};
    kiln_db_filter *filter = KILN_ARENA_ARRAY(&scratch, kiln_db_filter, job->task_count);
    for (uint32_t i = 0; i < job->task_count; i++)
        filter[i] = (kiln_db_filter){.task_key = job->task[i].key,
                                     .target = job->spec.target,
                                     .trusting = &job->trusting,
                                     .order = KILN_DB_NEWEST,
                                     .limit = EXPORT_RECORDS_MAX};
    kiln_status st = kiln_fail_at(KILN_FAIL_TUNER_EXPORT);
    if (!st) st = kiln_bundle_export(job->shell->db, filter, job->task_count, &e->bytes);
    if (!st) st = kiln_blob_store_put(job->shell->store, kiln_strbuf_view(&e->bytes), &e->digest);
    e->status = st;
    kiln_arena_deinit(&scratch);
}

static void on_exported(kiln_shell_io *e) {
    kiln_tuner_event event = {.kind = KILN_TUNER_EXPORTED,
                              .job = e->job->handle,
                              .digest = e->digest,
                              .code = kiln_status_code(e->status)};
    if (e->status) event.failure = kiln_status_text(e->status);
    kiln_shell_post(e->job->shell, &event);
}

void kiln_shell_export(kiln_shell *shell, const kiln_tuner_action *action) {
    kiln_shell_job *job = kiln_shell_find_job(shell, action->job);
    const kiln_shell_io io = {.job = job, .run = export_records, .done = on_exported};
    if (job) kiln_shell_io_submit(&io, "EXPORTED");
}

static void end_job(kiln_shell_io *e) {
    kiln_status st = kiln_shell_store_job(e->job, e->text);
    if (st) kiln_log(KILN_LOG_ERROR, "closing job %s: %s", e->job->identity, kiln_status_text(st));
    kiln_status_free(st);
}

void kiln_shell_forget(kiln_shell *shell, const kiln_tuner_action *action) {
    kiln_shell_job *job = kiln_shell_find_job(shell, action->job);
    const kiln_shell_io io = {.job = job, .run = end_job, .text = action->text};
    if (!job) return;
    kiln_shell_commit(shell); /* its own records come before its end */
    if (action->text) kiln_shell_io_submit(&io, "FORGET, done");
    kiln_shell_unclaim(job);
    kiln_shell_job_destroy(job);
}
