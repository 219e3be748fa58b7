/* What builders make, in worker processes: the reference of a task, and artefacts of candidates. */
#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/trace.h"
#include "tuner/shell.h"

#define REFERENCE_DEADLINE_NS (UINT64_C(600) * KILN_NS_PER_S) /* serial, fp64 */
#define BUILD_DEADLINE_NS (UINT64_C(20) * KILN_NS_PER_S)

/* ---- REFERENCE ------------------------------------------------------------------------------- */

static void keep_reference(kiln_shell_io *e) {
    kiln_blob_store *store = e->job->shell->store;
    e->status = kiln_blob_store_put(store, kiln_strbuf_view(&e->bytes), &e->digest);
    if (!e->status)
        e->status = kiln_blob_store_put(store, e->job->task[e->task].text, &e->other_digest);
}

static void post_reference(kiln_shell_job *job, uint32_t index, kiln_status st,
                           kiln_tuner_event event) {
    const kiln_shell_task *task = &job->task[index];
    event.kind = KILN_TUNER_REFERENCED;
    event.job = job->handle;
    event.task = index;
    st = kiln_status_note(st, "making the reference of %.*s", KILN_STR_ARG(task->op));
    event.code = kiln_status_code(st);
    if (st) event.failure = kiln_status_text(st);
    if (st) kiln_log(KILN_LOG_WARN, "job %s: %s", job->identity, event.failure);
    kiln_shell_post(job->shell, &event);
    kiln_status_free(st);
}

static void on_reference_kept(kiln_shell_io *e) {
    kiln_tuner_event event = {0};
    event.artefact = (kiln_msg_blob_ref){e->digest, e->bytes.size};
    event.program = (kiln_msg_blob_ref){e->other_digest, e->job->task[e->task].text.size};
    post_reference(e->job, e->task, kiln_shell_take_status(e), event);
}

static void on_reference(void *context, const kiln_work_reply *reply, kiln_outcome outcome,
                         const char *text) {
    (void)outcome;
    kiln_shell_ticket t;
    kiln_shell_job *job = kiln_shell_ticket_use(context, &t);
    if (!job) return;
    kiln_status st = kiln_builders_status(reply, text);
    if (st) {
        post_reference(job, t.task, st, (kiln_tuner_event){0});
        return;
    }
    const kiln_shell_io io = {
        .job = job, .task = t.task, .run = keep_reference, .done = on_reference_kept};
    kiln_shell_io_submit_bytes(io, reply->bytes, "a reference");
}

void kiln_shell_reference(kiln_shell *shell, const kiln_tuner_action *action) {
    kiln_shell_job *job = kiln_shell_find_job(shell, action->job);
    if (!job) return;
    const kiln_shell_task *task = &job->task[action->task];
    kiln_strbuf target = {0};
    kiln_target_print(&job->target, &target);
    kiln_work_request request = {.work = KILN_WORK_REFERENCE,
                                 .target = kiln_strbuf_view(&target),
                                 .te = task->text,
                                 .task_key = task->key,
                                 .seed = job->spec.seed};
    kiln_builders_submit(shell->builders, &request, false, REFERENCE_DEADLINE_NS, on_reference,
                         kiln_shell_ticket_make(job, action->task, 0));
    kiln_strbuf_deinit(&target);
}

/* ---- BUILD ----------------------------------------------------------------------------------- */

static void trace_build(const kiln_shell_job *job, uint32_t task, uint32_t index,
                        kiln_trace_phase phase) {
    if (!kiln_trace_is_on()) return;
    kiln_strbuf id = {0};
    kiln_strbuf_printf(&id, "%s/%u/%u", job->identity, task, index);
    const kiln_log_field field[] = {{"job", kiln_str_from(job->identity)},
                                    {"task", job->task[task].key}};
    kiln_trace_event(phase, KILN_TRACE_BUILD, kiln_strbuf_view(&id), kiln_clock_ns(), field, 2);
    kiln_strbuf_deinit(&id);
}

static void on_artefact_kept(kiln_shell_io *e) {
    kiln_shell_job *job = e->job;
    kiln_candidate *candidate = kiln_shell_find_candidate(job, e->task, e->index);
    if (!candidate) return;
    kiln_tuner_event event = {.kind = KILN_TUNER_BUILT,
                              .job = job->handle,
                              .task = e->task,
                              .index = e->index,
                              .outcome = KILN_OUTCOME_OK,
                              .assembled = candidate->built.assembled,
                              .text = ""};
    if (e->status) {
        event.outcome = KILN_OUTCOME_INFRA;
        event.text = kiln_status_text(e->status);
        candidate->built.algorithm = (kiln_str){0};
        candidate->built.layout_in = candidate->built.layout_out = (kiln_str){0};
    } else {
        candidate->built.artefact = e->digest;
        event.artefact = (kiln_msg_blob_ref){e->digest, e->bytes.size};
    }
    kiln_shell_post(job->shell, &event);
}

void kiln_shell_submit_build(kiln_shell_job *job, uint32_t index, kiln_str trace, uint32_t trial,
                             kiln_builders_done done) {
    const kiln_shell_task *task = &job->task[index];
    kiln_work_request request = {.work = KILN_WORK_BUILD,
                                 .target = job->spec.target,
                                 .te = task->text,
                                 .task_key = task->key,
                                 .trace = trace};
    kiln_builders_submit(job->shell->builders, &request, false, BUILD_DEADLINE_NS, done,
                         kiln_shell_ticket_make(job, index, trial));
}

static void on_built(void *context, const kiln_work_reply *reply, kiln_outcome outcome,
                     const char *text) {
    kiln_shell_ticket t;
    kiln_shell_job *job = kiln_shell_ticket_use(context, &t);
    kiln_candidate *candidate = job ? kiln_shell_find_candidate(job, t.task, t.index) : NULL;
    if (!candidate) return;
    trace_build(job, t.task, t.index, KILN_TRACE_END);
    kiln_fail_pass(KILN_FAIL_TUNER_BUILT);
    kiln_tuner_event event = {.kind = KILN_TUNER_BUILT,
                              .job = t.job,
                              .task = t.task,
                              .index = t.index,
                              .outcome = kiln_builders_outcome(reply, outcome),
                              .text = text};
    if (reply) event.assembled = reply->assembled;
    kiln_status st = kiln_builders_status(reply, text);
    if (st) {
        if (event.outcome == KILN_OUTCOME_OK) event.outcome = KILN_OUTCOME_INFRA;
        event.text = kiln_status_text(st);
        kiln_shell_post(job->shell, &event);
        kiln_status_free(st);
        return;
    }
    kiln_arena *arena = &candidate->arena;
    kiln_built *built = &candidate->built;
    *built = (kiln_built){.algorithm = kiln_str_copy(arena, reply->algorithm),
                          .layout_in = kiln_str_copy(arena, reply->layout_in),
                          .layout_out = kiln_str_copy(arena, reply->layout_out),
                          .build_ns = reply->elapsed_ns,
                          .assembled = reply->assembled};
    const kiln_shell_io io = {.job = job,
                              .task = t.task,
                              .index = t.index,
                              .run = kiln_shell_keep_artefact,
                              .done = on_artefact_kept};
    kiln_shell_io_submit_bytes(io, reply->bytes, "an artefact");
}

void kiln_shell_build(kiln_shell *shell, const kiln_tuner_action *action) {
    kiln_shell_job *job = kiln_shell_find_job(shell, action->job);
    kiln_candidate *candidate =
        job ? kiln_shell_find_candidate(job, action->task, action->index) : NULL;
    if (!candidate) return;
    trace_build(job, action->task, action->index, KILN_TRACE_BEGIN);
    kiln_shell_submit_build(job, action->task, candidate->trace, action->index, on_built);
}
