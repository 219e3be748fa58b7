/* The tuner's step: passes events on, keeps the connection, and does the work of all jobs. */
#include "base/alloc.h"
#include "base/check.h"
#include "base/macros.h"
#include "tuner/state.h"

/* ---- Messages ---- */

static void on_cancel(kiln_tuner *t, const kiln_msg_cancel *cancel) {
    kiln_tuner_job *job =
        cancel->scope == KILN_CANCEL_JOB ? kiln_tuner_job_find_by_id(t, cancel->id) : NULL;
    kiln_code code = KILN_CANCELLED;
    if (!job) return;
    if (cancel->code && !kiln_code_from_wire(cancel->code, &code)) code = KILN_CANCELLED;
    kiln_tuner_job_stop(job, code, cancel->reason);
}

/* A tracker of an earlier release does not say how the job ended. */
static void on_close(kiln_tuner *t, const kiln_msg_job_close *close) {
    kiln_tuner_job *job = kiln_tuner_job_find_by_id(t, close->job);
    if (job)
        kiln_tuner_job_forget(job, close->state > KILN_JOB_RUNNING ? (kiln_job_state)close->state
                                                                   : kiln_tuner_job_end_of(job));
}

static void on_message(kiln_tuner *t, const kiln_message *message) {
    kiln_link_heard(&t->effects.link, t->effects.now_ns);
    switch ((int)message->type) {
    case KILN_MSG_JOB_ASSIGN: kiln_tuner_job_assign(t, &message->job_assign); break;
    case KILN_MSG_JOB_CLOSE: on_close(t, &message->job_close); break;
    case KILN_MSG_CANCEL: on_cancel(t, &message->cancel); break;
    case KILN_MSG_LEASE_GRANT: kiln_tuner_on_grant(t, message); break;
    case KILN_MSG_LEASE_LOST: kiln_tuner_on_lost(t, &message->lease_lost); break;
    case KILN_MSG_ERROR: kiln_tuner_on_error(t, &message->error); break;
    case KILN_MSG_TRIAL_EVENT: kiln_tuner_on_trial_event(t, &message->trial_event); break;
    case KILN_MSG_TRIAL_RESULT: kiln_tuner_on_result(t, &message->trial_result); break;
    case KILN_MSG_PING: {
        kiln_message pong = {
            .type = KILN_MSG_PONG, .stream = message->stream, .pong = {.t_ns = message->ping.t_ns}};
        kiln_tuner_send(t, &pong);
        break;
    }
    default: break; /* PONG, LEASE_RENEW, GOAWAY: they only show that the tracker lives */
    }
}

/* ---- The step ---- */

static void on_uploaded(kiln_tuner *t, const kiln_tuner_event *event) {
    for (uint32_t i = 0; i < t->job.count; i++) {
        kiln_tuner_trial_uploaded(t->job.data[i], event);
        kiln_tuner_job_records_uploaded(t->job.data[i], event);
    }
}

static void on_job_event(kiln_tuner *t, const kiln_tuner_event *event) {
    kiln_tuner_job *job = kiln_tuner_job_find(t, event->job);
    if (!job) return; /* it was forgotten meanwhile */
    switch ((int)event->kind) {
    case KILN_TUNER_PREPARED: kiln_tuner_job_prepared(job, event); break;
    case KILN_TUNER_PROPOSED: kiln_tuner_trial_proposed(job, event); break;
    case KILN_TUNER_BUILT: kiln_tuner_trial_built(job, event); break;
    case KILN_TUNER_REFERENCED: kiln_tuner_reference_made(job, event); break;
    case KILN_TUNER_RECORDED: kiln_tuner_trial_recorded(job, event); break;
    case KILN_TUNER_GATHERED: kiln_tuner_final_gathered(job, event); break;
    case KILN_TUNER_EXPORTED: kiln_tuner_job_exported(job, event); break;
    case KILN_TUNER_CLAIM_LOST: kiln_tuner_job_claim_lost(job); break;
    default: KILN_CHECK(false);
    }
}

static void on_opened(kiln_tuner *t) {
    kiln_link_opened(&t->effects.link, t->effects.now_ns);
    for (uint32_t i = 0; i < t->job.count; i++) kiln_tuner_job_reconnected(t->job.data[i]);
}

static void tick_link(kiln_tuner *t) {
    kiln_link_want want = kiln_link_tick(&t->effects.link, t->effects.now_ns);
    if (want == KILN_LINK_DIAL) kiln_tuner_act(t, KILN_TUNER_DIAL);
    if (want == KILN_LINK_HANG_UP) kiln_tuner_act(t, KILN_TUNER_HANG_UP);
    if (want == KILN_LINK_PING) {
        kiln_message ping = {.type = KILN_MSG_PING, .ping = {.t_ns = t->effects.now_ns}};
        kiln_tuner_send(t, &ping);
    }
}

void kiln_tuner_step(kiln_tuner *t, uint64_t now_ns, const kiln_tuner_event *event,
                     kiln_tuner_actions *actions) {
    KILN_CHECK(now_ns >= t->effects.now_ns);
    t->effects.now_ns = now_ns;
    t->effects.actions = actions;
    switch (event->kind) {
    case KILN_TUNER_OPENED: on_opened(t); break;
    case KILN_TUNER_CLOSED: kiln_link_closed(&t->effects.link, now_ns); break;
    case KILN_TUNER_MESSAGE: on_message(t, event->message); break;
    case KILN_TUNER_UPLOADED: on_uploaded(t, event); break;
    case KILN_TUNER_PREPARED:
    case KILN_TUNER_PROPOSED:
    case KILN_TUNER_BUILT:
    case KILN_TUNER_REFERENCED:
    case KILN_TUNER_RECORDED:
    case KILN_TUNER_GATHERED:
    case KILN_TUNER_EXPORTED:
    case KILN_TUNER_CLAIM_LOST: on_job_event(t, event); break;
    case KILN_TUNER_TICK: break;
    }
    tick_link(t);
    for (uint32_t i = 0; i < t->job.count; i++) kiln_tuner_job_tick(t->job.data[i]);
    kiln_tuner_builds_start(t);
    t->effects.actions = NULL;
#ifdef KILN_CHECK_INVARIANTS
    kiln_tuner_check(t);
#endif
}

uint64_t kiln_tuner_next_ns(const kiln_tuner *t) {
    uint64_t next = kiln_link_next_ns(&t->effects.link);
    for (uint32_t i = 0; i < t->job.count; i++) {
        uint64_t at = kiln_tuner_job_next_ns(t->job.data[i]);
        next = KILN_MIN(next, at);
    }
    return next;
}

/* ---- Life ---- */

kiln_tuner *kiln_tuner_create(const kiln_tuner_options *options, uint64_t now_ns) {
    KILN_CHECK(options->builders > 0 || options->codegen);
    kiln_tuner *t = kiln_alloc(sizeof *t);
    t->options = *options;
    t->effects.now_ns = now_ns;
    kiln_link_init(&t->effects.link, now_ns, options->seed);
    return t;
}

void kiln_tuner_destroy(kiln_tuner *t) {
    if (!t) return;
    kiln_tuner_actions unused = {0};
    t->effects.actions = &unused;
    while (t->job.count) kiln_tuner_job_forget(t->job.data[0], KILN_JOB_WAITING);
    kiln_tuner_actions_deinit(&unused);
    kiln_free(t->job.data);
    kiln_free(t);
}

void kiln_tuner_check(const kiln_tuner *t) {
    kiln_tuner_jobs_check(t);
    for (uint32_t i = 0; i < t->job.count; i++) {
        kiln_tuner_trials_check(t->job.data[i]);
        kiln_tuner_tasks_check(t->job.data[i]);
        kiln_tuner_leases_check(t->job.data[i]);
        kiln_tuner_finals_check(t->job.data[i]);
    }
}
