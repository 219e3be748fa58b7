/* One job from its assignment to JOB_CLOSE. */

#include "base/macros.h"
#include "base/target.h"
#include "tuner/state.h"

/* ---- Beginning ---- */

static bool is_emulated(kiln_str text, kiln_arena *arena) {
    kiln_target target = {0};
    kiln_status_free(kiln_target_parse(text, arena, &target)); /* PREPARE says what is wrong */
    return target.emulated;
}

void kiln_tuner_job_assign(kiln_tuner *t, const kiln_msg_job_assign *assign) {
    kiln_tuner_job *same = kiln_tuner_job_find_by_id(t, assign->job);
    if (same && (!assign->run.size || kiln_str_is(assign->run, same->run)))
        return; /* the job goes on; unanswered messages are repeated anyway */
    if (same) kiln_tuner_job_forget(same, kiln_tuner_job_end_of(same));
    if (t->job.count >= KILN_TUNER_JOBS_MAX) {
        kiln_message done = {
            .type = KILN_MSG_JOB_DONE,
            .job_done = {.job = assign->job,
                         .code = KILN_RESOURCE_EXHAUSTED,
                         .text = KILN_STR("the tuner has too many jobs")},
        };
        kiln_tuner_send(t, &done);
        return;
    }
    kiln_tuner_job *job = kiln_tuner_job_add(t);
    kiln_message message = {.type = KILN_MSG_JOB_ASSIGN, .job_assign = *assign};
    job->began_ns = t->effects.now_ns;
    job->id = kiln_str_dup(&job->arena, assign->job);
    const kiln_msg_job_assign own = kiln_message_copy(&message, &job->arena).job_assign;
    job->spec = own.spec;
    job->trusted = own.trusted;
    job->run = kiln_str_dup(&job->arena, assign->run);
    job->identity =
        job->run[0] ? kiln_arena_printf(&job->arena, "%s.%s", job->id, job->run) : job->id;
    job->emulated = is_emulated(job->spec.target, &job->arena);

    kiln_tuner_action *action = kiln_tuner_act_on(job, KILN_TUNER_PREPARE, NULL);
    action->spec = &job->spec;
    action->trusted = job->trusted;
    action->text = job->identity;
}

void kiln_tuner_job_prepared(kiln_tuner_job *job, const kiln_tuner_event *event) {
    if (job->state != KILN_TUNER_JOB_PREPARING) return;
    if (event->failure) {
        kiln_tuner_job_stop(job, event->code ? event->code : KILN_INTERNAL,
                            kiln_str_from(event->failure));
        return;
    }
    if (event->task_count > KILN_TUNER_TASKS_MAX) {
        kiln_tuner_job_stop(job, KILN_RESOURCE_EXHAUSTED,
                            KILN_STR("the model has more tasks than one job may have"));
        return;
    }
    job->task_count = event->task_count;
    job->task = kiln_tuner_tasks_create(event, &job->spec, &job->arena, &job->budget);
    for (uint32_t i = 0; i < event->task_count; i++)
        kiln_tuner_best_take(&job->task[i], event->task_list[i].best_ns);
    job->began_ns -= KILN_MIN(job->began_ns, event->spent_ns);
    job->state = KILN_TUNER_JOB_RUNNING;
    for (uint32_t i = 0; i < event->task_count; i++)
        if (event->task_list[i].error.size)
            kiln_tuner_task_give_up(job, i, KILN_UNIMPLEMENTED, event->task_list[i].error);
}

/* ---- The end ---- */

static void export(kiln_tuner_job *job) {
    kiln_tuner_leases_drop(job);
    job->state = KILN_TUNER_JOB_EXPORTING;
    kiln_tuner_act_on(job, KILN_TUNER_EXPORT, NULL);
}

/* The first failure counts. */
static void fail(kiln_tuner_job *job, const kiln_tuner_event *event) {
    if (job->code != KILN_OK) return;
    job->code = event->code ? event->code : KILN_INTERNAL;
    job->text = kiln_str_dup(&job->arena, kiln_str_from(event->failure));
}

void kiln_tuner_job_exported(kiln_tuner_job *job, const kiln_tuner_event *event) {
    if (job->state != KILN_TUNER_JOB_EXPORTING) return;
    if (event->failure) {
        fail(job, event);
        kiln_tuner_job_end(job);
        return;
    }
    job->records = event->digest;
    job->state = KILN_TUNER_JOB_UPLOADING;
    kiln_tuner_upload(job->tuner, &job->records);
}

void kiln_tuner_job_records_uploaded(kiln_tuner_job *job, const kiln_tuner_event *event) {
    if (job->state != KILN_TUNER_JOB_UPLOADING || !kiln_digest_equal(&job->records, &event->digest))
        return;
    if (!event->failure) {
        kiln_tuner_job_end(job);
    } else if (++job->upload_failures < KILN_TUNER_UPLOADS_MAX) {
        job->again_ns = job->tuner->effects.now_ns + KILN_TUNER_RETRY_NS;
    } else {
        job->records = (kiln_digest){{0}};
        fail(job, event);
        kiln_tuner_job_end(job);
    }
}

kiln_job_state kiln_tuner_job_end_of(const kiln_tuner_job *job) {
    if (job->state < KILN_TUNER_JOB_STOPPING) return KILN_JOB_RUNNING;
    return job->code == KILN_OK          ? KILN_JOB_DONE
           : job->code == KILN_CANCELLED ? KILN_JOB_CANCELLED
                                         : KILN_JOB_FAILED;
}

void kiln_tuner_job_forget(kiln_tuner_job *job, kiln_job_state end) {
    kiln_tuner_leases_drop(job);
    kiln_tuner_action *action = kiln_tuner_act_on(job, KILN_TUNER_FORGET, NULL);
    if (end > KILN_JOB_RUNNING) action->text = kiln_job_state_name(end);
    kiln_tuner_job_free(job);
}

/* A job that is stopping measures nothing any more. */
void kiln_tuner_job_claim_lost(kiln_tuner_job *job) {
    kiln_tuner *t = job->tuner;
    if (job->state > KILN_TUNER_JOB_RUNNING) return;
    const kiln_message assign = {
        .type = KILN_MSG_JOB_ASSIGN,
        .job_assign = {.job = kiln_str_from(job->id),
                       .spec = job->spec,
                       .trusted = job->trusted,
                       .run = kiln_str_from(job->run)},
    };
    const kiln_message kept = kiln_message_copy(&assign, kiln_tuner_step_arena(t));
    kiln_tuner_job_forget(job, KILN_JOB_WAITING);
    kiln_tuner_job_assign(t, &kept.job_assign);
}

/* ---- Time ---- */

static bool has_changes(const kiln_tuner_job *job) {
    for (uint32_t i = 0; i < job->task_count; i++)
        if (job->task[i].changed) return true;
    return false;
}

static void send_event(kiln_tuner_job *job) {
    kiln_tuner *t = job->tuner;
    if (!kiln_tuner_is_linked(t) || t->effects.now_ns < job->event_ns || !has_changes(job)) return;
    kiln_msg_task_state *states =
        KILN_ARENA_ARRAY(kiln_tuner_step_arena(t), kiln_msg_task_state, job->task_count);
    kiln_message event = {.type = KILN_MSG_JOB_EVENT, .job_event = {.job = kiln_str_from(job->id)}};
    event.job_event.tasks.item = states;
    for (uint32_t i = 0; i < job->task_count; i++) {
        if (!kiln_tuner_task_take_changed(&job->task[i])) continue;
        states[event.job_event.tasks.count++] = kiln_tuner_task_state_of(job, &job->task[i]);
    }
    event.job_event.faults.count = kiln_tuner_faults_of(job, &event.job_event.faults.item);
    job->event_ns = t->effects.now_ns + KILN_TUNER_EVENT_NS;
    kiln_tuner_send(t, &event);
}

/* From this time on there is only time for finals. */
static uint64_t search_end_ns(const kiln_tuner_job *job) {
    uint64_t end_ns = kiln_tuner_job_end_ns(job);
    return end_ns == UINT64_MAX ? end_ns : end_ns - kiln_tuner_finals_reserve_ns(job);
}

/* When the time for trials is used up, drops trials that no board has and proposes no more. */
static void keep_time_budget(kiln_tuner_job *job) {
    if (job->searched || job->tuner->effects.now_ns < search_end_ns(job)) return;
    kiln_tuner_drop_unsent(job);
    kiln_tuner_count_stored(job);
    job->budget = 0;
}

static void run(kiln_tuner_job *job) {
    keep_time_budget(job);
    kiln_tuner_pipeline_advance(job);
    kiln_tuner_judge(job);
    kiln_tuner_leases_advance(job);
    if (kiln_tuner_tell_no_builder(job)) job->told_no_builder = true;
    send_event(job);
    if (job->state != KILN_TUNER_JOB_RUNNING) return;
    job->searched = job->searched || kiln_tuner_pipeline_is_done(job);
    if (job->searched && !kiln_tuner_finals_advance(job)) export(job);
}

void kiln_tuner_job_tick(kiln_tuner_job *job) {
    kiln_tuner *t = job->tuner;
    bool again = job->again_ns && t->effects.now_ns >= job->again_ns && kiln_tuner_is_linked(t);
    switch (job->state) {
    case KILN_TUNER_JOB_PREPARING: break;
    case KILN_TUNER_JOB_RUNNING: run(job); break;
    case KILN_TUNER_JOB_STOPPING:
        if (job->trial.count == 0) export(job);
        break;
    case KILN_TUNER_JOB_EXPORTING: break;
    case KILN_TUNER_JOB_UPLOADING:
        if (!again) break;
        job->again_ns = 0;
        kiln_tuner_upload(t, &job->records);
        break;
    case KILN_TUNER_JOB_ENDED:
        if (again) kiln_tuner_job_send_done(job);
        break;
    }
}

void kiln_tuner_job_reconnected(kiln_tuner_job *job) {
    /* The tracker may have restarted and know nothing of the job. */
    for (uint32_t i = 0; i < job->task_count; i++) kiln_tuner_task_set_changed(&job->task[i]);
    job->event_ns = 0;
    job->upload_failures = 0;
    if (job->again_ns) job->again_ns = job->tuner->effects.now_ns;
    kiln_tuner_leases_reconnected(job);
}

uint64_t kiln_tuner_job_next_ns(const kiln_tuner_job *job) {
    bool linked = kiln_tuner_is_linked(job->tuner);
    uint64_t next = UINT64_MAX;
    if (job->again_ns && linked) next = job->again_ns;
    if (job->state != KILN_TUNER_JOB_RUNNING) return next;
    if (linked && has_changes(job)) next = KILN_MIN(next, job->event_ns);
    for (uint32_t i = 0; i < job->trial.count; i++) {
        const kiln_tuner_trial *trial = job->trial.data[i];
        bool uploads =
            trial->state == KILN_TRIAL_UPLOADING || kiln_tuner_recipe_is_wanted(job, trial);
        if (trial->upload_again_ns && linked && uploads)
            next = KILN_MIN(next, trial->upload_again_ns);
    }
    uint64_t leases = kiln_tuner_leases_next_ns(job), no_builder = kiln_tuner_no_builder_ns(job);
    next = KILN_MIN(next, KILN_MIN(leases, no_builder));
    uint64_t end = job->searched ? kiln_tuner_job_end_ns(job) : search_end_ns(job);
    return job->tuner->effects.now_ns < end ? KILN_MIN(next, end) : next;
}
