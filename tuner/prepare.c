/* A job from its model to its searchers. PREPARE goes: blobs here -> tasks found in a worker ->
 * the client's records imported, stored records looked up, searchers made -> PREPARED. */
#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "db/bundle.h"
#include "db/trust.h"
#include "tuner/plausible.h"
#include "tuner/shell.h"

#define TASKS_DEADLINE_NS (UINT64_C(300) * KILN_NS_PER_S) /* large models fold large constants */

/* ---- PREPARE, second: tasks ------------------------------------------------------------------ */

kiln_status kiln_shell_import(kiln_shell_job *job) {
    if (kiln_digest_is_none(&job->spec.records)) return KILN_OK;
    kiln_arena scratch = {0};
    kiln_plausible_task *known = KILN_ARENA_ARRAY(&scratch, kiln_plausible_task, job->task_count);
    for (uint32_t i = 0; i < job->task_count; i++)
        known[i] = (kiln_plausible_task){job->task[i].key, job->task[i].te};
    const kiln_db_import_options options = {.now_wall_ns = (int64_t)kiln_clock_wall_ns(),
                                            .implausible = kiln_plausible_why_not,
                                            .context =
                                                kiln_plausible_create_for(known, job->task_count)};
    kiln_db_import_counts counts = {0};
    kiln_str bytes = {0};
    kiln_status st = kiln_blob_store_get(job->shell->store, &job->spec.records, &scratch, &bytes);
    if (!st) st = kiln_bundle_import(job->shell->db, bytes, &options, &counts);
    if (!st && counts.records > counts.trusted) {
        kiln_strbuf text = {0};
        kiln_db_import_print(&counts, &text);
        kiln_log(KILN_LOG_INFO, "job %s came with %s", job->identity, text.data);
        kiln_strbuf_deinit(&text);
    }
    kiln_plausible_destroy(options.context);
    kiln_arena_deinit(&scratch);
    return st;
}

static void take_tasks(kiln_shell_io *e) {
    kiln_status st = kiln_shell_open_tasks(e->job, kiln_strbuf_view(&e->bytes));
    if (!st) st = kiln_shell_import(e->job);
    if (!st) st = kiln_shell_find_transfer(e->job);
    if (!st) kiln_shell_close_tasks(e->job);
    e->status = st;
}

static void on_part(kiln_shell_io *e) { kiln_shell_part_done(e->job, kiln_shell_take_status(e)); }

static void on_tasks(void *context, const kiln_work_reply *reply, kiln_outcome outcome,
                     const char *text) {
    (void)outcome;
    kiln_shell_ticket t;
    kiln_shell_job *job = kiln_shell_ticket_use(context, &t);
    if (!job) return;
    kiln_status st = kiln_status_note(kiln_builders_status(reply, text), "reading the model");
    if (st) {
        kiln_shell_part_done(job, st);
        return;
    }
    const kiln_shell_io io = {.job = job, .run = take_tasks, .done = on_part};
    kiln_shell_io_submit_bytes(io, reply->bytes, "tasks of a model");
}

static void ask_tasks(kiln_shell_job *job) {
    char *path = NULL;
    kiln_status st = kiln_blob_store_path(job->shell->store, &job->spec.model, &job->arena, &path);
    if (st) {
        kiln_shell_part_done(job, st);
        return;
    }
    kiln_work_request request = {.work = KILN_WORK_TASKS,
                                 .target = job->spec.target,
                                 .figures = job->spec.figures,
                                 .accuracy = job->accuracy,
                                 .model_path = kiln_str_from(path),
                                 .model_form = job->spec.form};
    kiln_builders_submit(job->shell->builders, &request, true, TASKS_DEADLINE_NS, on_tasks,
                         kiln_shell_ticket_make(job, 0, 0));
}

/* ---- PREPARE, first: blobs ------------------------------------------------------------------- */

static void fetch_next(kiln_shell_job *job);

static void on_fetched(void *context, const kiln_digest *digest, kiln_status status) {
    (void)digest;
    kiln_shell_ticket t;
    kiln_shell_job *job = kiln_shell_ticket_use(context, &t);
    if (!job) {
        kiln_status_free(status);
    } else if (kiln_status_code(status) == KILN_UNAVAILABLE) {
        kiln_status_free(status); /* the connection closes */
        job->wants_blobs = true;
    } else if (status) {
        kiln_shell_part_done(job, kiln_status_note(status, "fetching the model"));
    } else {
        fetch_next(job);
    }
}

/* Fetches what is missing, one blob after the other; then goes on. A tracker that goes away
 * meanwhile is waited for. */
static void fetch_next(kiln_shell_job *job) {
    kiln_shell *shell = job->shell;
    const kiln_digest *need[] = {&job->spec.model, &job->spec.records, &job->spec.by_hand};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(need); i++) {
        if (kiln_digest_is_none(need[i]) || kiln_blob_store_has(shell->store, need[i])) continue;
        if (shell->blobs)
            kiln_blobs_fetch(shell->blobs, need[i], on_fetched, kiln_shell_ticket_make(job, 0, 0));
        else
            job->wants_blobs = true;
        return;
    }
    ask_tasks(job);
}

void kiln_shell_fetch_again(kiln_shell *shell) {
    for (kiln_shell_job *job = shell->jobs; job; job = job->next) {
        if (!job->wants_blobs || job->forgotten) continue;
        job->wants_blobs = false;
        fetch_next(job);
    }
}

/* A job that an earlier run began keeps the age it had. */
static kiln_status find_age(kiln_shell_job *job) {
    kiln_db_job row = {0};
    bool found = false;
    kiln_status st =
        kiln_db_find_job(job->shell->db, kiln_str_from(job->identity), &job->arena, &row, &found);
    found &= row.origin.size == 0; /* a client's row says nothing of ours */
    if (!st && found && row.opened_wall_ns > 0 && row.opened_wall_ns < (int64_t)job->opened_wall_ns)
        job->opened_wall_ns = (uint64_t)row.opened_wall_ns;
    return st;
}

static void begin(kiln_shell_io *e) {
    e->status = find_age(e->job);
    if (!e->status) e->status = kiln_shell_store_job(e->job, "open");
}

static void on_begun(kiln_shell_io *e) {
    kiln_shell_job *job = e->job;
    if (e->status) {
        kiln_shell_part_done(job, kiln_shell_take_status(e));
        return;
    }
    kiln_shell_claim_begin(job);
    fetch_next(job);
}

/* A maximum that is no number means the default. */
static kiln_accuracy accuracy_of(const kiln_msg_job_spec *spec) {
    return (kiln_accuracy){.precision = (kiln_precision)spec->precision,
                           .exact = spec->exact,
                           .error_max = isfinite(spec->error_max) ? spec->error_max : 0};
}

void kiln_shell_prepare(kiln_shell *shell, const kiln_tuner_action *action) {
    kiln_shell_job *job = kiln_shell_job_create(shell, action->job);
    job->opened_wall_ns = kiln_clock_wall_ns();
    kiln_shell_part_add(job);
    job->identity = kiln_str_dup(&job->arena, kiln_str_from(action->text));
    kiln_message assign = {.type = KILN_MSG_JOB_ASSIGN, .job_assign = {.spec = *action->spec}};
    job->spec = kiln_message_copy(&assign, &job->arena).job_assign.spec;
    job->accuracy = accuracy_of(&job->spec);
    job->allowed = (kiln_db_allowed){kiln_algorithm_allowed(&job->accuracy, &job->arena),
                                     kiln_accuracy_error_max(&job->accuracy)};
    job->trusting = kiln_db_trusting_read(action->trusted, &job->arena);
    kiln_log(KILN_LOG_INFO, "job %s: %.*s for %.*s", job->identity,
             KILN_STR_ARG(job->spec.model_name), KILN_STR_ARG(job->spec.target));
    kiln_figures calibration;
    kiln_status st = kiln_target_parse(job->spec.target, &job->arena, &job->target);
    if (!st) st = kiln_figures_decode(job->spec.figures, &calibration);
    if (!st) kiln_target_calibrate(&job->target, &calibration);
    if (st) {
        kiln_shell_part_done(job, st);
        return;
    }
    const kiln_shell_io io = {.job = job, .run = begin, .done = on_begun};
    kiln_shell_io_submit(&io, "PREPARE, begun");
}
