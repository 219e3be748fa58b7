/* One job from its assignment to JOB_CLOSE. */
#include "tuner/job.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/macros.h"
#include "base/target.h"
#include "tuner/state.h"

static const kiln_digest no_digest;

/* ---- Beginning ---- */

static kiln_tuner_job *find_job(kiln_tuner *t, kiln_str id) {
    for (uint32_t i = 0; i < t->job.count; i++)
        if (kiln_str_is(id, t->job.data[i]->id)) return t->job.data[i];
    return NULL;
}

static bool is_emulated(kiln_str text, kiln_arena *arena) {
    kiln_target target = {0};
    kiln_status_free(kiln_target_parse(text, arena, &target)); /* PREPARE says what is wrong */
    return target.emulated;
}

void kiln_tuner_job_assign(kiln_tuner *t, const kiln_msg_job_assign *assign) {
    kiln_tuner_job *same = find_job(t, assign->job);
    if (same && (!assign->run.size || kiln_str_is(assign->run, same->run)))
        return; /* it goes on; what the tracker may have missed is repeated anyway */
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
    kiln_tuner_job *job = kiln_alloc(sizeof *job);
    kiln_message message = {.type = KILN_MSG_JOB_ASSIGN, .job_assign = *assign};
    job->tuner = t;
    job->handle = ++t->last_handle;
    job->began_ns = t->now_ns;
    kiln_arena_init(&job->arena, KILN_TUNER_ARENA_BYTES);
    job->id = kiln_str_dup(&job->arena, assign->job);
    const kiln_msg_job_assign own = kiln_message_copy(&message, &job->arena).job_assign;
    job->spec = own.spec;
    job->trusted = own.trusted;
    job->run = kiln_str_dup(&job->arena, assign->run);
    job->identity =
        job->run[0] ? kiln_arena_printf(&job->arena, "%s.%s", job->id, job->run) : job->id;
    job->emulated = is_emulated(job->spec.target, &job->arena);
    kiln_vec_push(&t->job, job);

    kiln_tuner_action *action = kiln_tuner_act_on(job, KILN_TUNER_PREPARE, NULL);
    action->spec = &job->spec;
    action->trusted = job->trusted;
    action->text = job->identity;
}

uint64_t kiln_tuner_budget(const kiln_msg_job_spec *spec, const kiln_tuner_task *task,
                           uint32_t count, bool *out_closed) {
    uint64_t trials = spec->trials, stored = 0, by_hand = 0;
    if (!trials && spec->seconds <= 0) trials = (uint64_t)KILN_TUNER_TRIALS_DEFAULT * count;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t share = trials / count + (i < trials % count);
        out_closed[i] = trials > 0 && task[i].stored_count >= share && !task[i].by_hand_count;
        stored += KILN_MIN(task[i].stored_count, share) + task[i].repeat_count;
        by_hand += task[i].by_hand_count;
    }
    if (!trials) return UINT64_MAX;
    return by_hand + (trials > stored ? trials - stored : 0);
}

static void keep_stored(kiln_tuner_job *job, const kiln_tuner_event *event) {
    for (uint32_t i = 0; i < event->stored_count; i++) {
        const kiln_tuner_result *result = &event->stored[i];
        if (result->task >= job->task_count) continue;
        kiln_tuner_job_task *task = &job->task[result->task];
        if (result->index < KILN_TUNER_INDEX_MAX)
            task->stored_end = KILN_MAX(task->stored_end, result->index + 1);
    }
    for (uint32_t i = 0; i < job->task_count; i++)
        job->task[i].stored =
            KILN_ARENA_ARRAY(&job->arena, kiln_tuner_stored, job->task[i].stored_end);
    for (uint32_t i = 0; i < event->stored_count; i++) {
        const kiln_tuner_result *result = &event->stored[i];
        if (result->task >= job->task_count || result->index >= job->task[result->task].stored_end)
            continue;
        job->task[result->task].stored[result->index] =
            (kiln_tuner_stored){.have = true,
                                .outcome = result->outcome,
                                .median_ns = result->median_ns,
                                .least_ns = result->least_ns,
                                .peak_flops = result->peak_flops,
                                .assembled = result->assembled,
                                .raced = result->raced};
    }
}

static kiln_tuner_chance *chance_at(kiln_tuner_job *job, uint32_t task) {
    KILN_CHECK(task < job->task_count);
    return &job->task[task].chance;
}

/* Each task sees those on whose sides it is. */
static void keep_rivals(kiln_tuner_job *job, const kiln_tuner_event *event) {
    const uint32_t count = event->alternative_count;
    kiln_tuner_rivals *rivals = KILN_ARENA_ARRAY(&job->arena, kiln_tuner_rivals, count);
    for (uint32_t r = 0; r < count; r++) {
        const kiln_tuner_alternative *from = &event->alternative[r];
        rivals[r] = (kiln_tuner_rivals){
            .joined = chance_at(job, from->task), .count = from->count, .times = from->times};
        chance_at(job, from->task)->weight = 0; /* its calls count with those that it replaces */
        for (uint32_t i = 0; i < from->count; i++)
            rivals[r].apart[i] = chance_at(job, from->instead_of[i]);
    }
    for (uint32_t t = 0; count && t < job->task_count; t++) {
        kiln_tuner_chance *chance = &job->task[t].chance;
        const kiln_tuner_rivals **of =
            KILN_ARENA_ARRAY(&job->arena, const kiln_tuner_rivals *, count);
        for (uint32_t r = 0; r < count; r++) {
            bool on_side = rivals[r].joined == chance;
            for (uint32_t i = 0; i < rivals[r].count; i++)
                on_side = on_side || rivals[r].apart[i] == chance;
            if (on_side) of[chance->rivals_count++] = &rivals[r];
        }
        chance->rivals = of;
    }
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
    job->task = KILN_ARENA_ARRAY(&job->arena, kiln_tuner_job_task, event->task_count);
    for (uint32_t i = 0; i < event->task_count; i++) {
        kiln_tuner_job_task *task = &job->task[i];
        task->given = event->task_list[i];
        task->given.key = kiln_str_from(kiln_str_dup(&job->arena, task->given.key));
        task->given.op = kiln_str_from(kiln_str_dup(&job->arena, task->given.op));
        task->given.error = (kiln_str){0};
        task->chance =
            (kiln_tuner_chance){.op = task->given.op,
                                .weight = KILN_MAX(task->given.weight, 1u),
                                .flops = task->given.flops,
                                .least_flops = task->given.least_flops,
                                .best_ns = task->given.best_ns,
                                .tried = task->given.stored_count + task->given.repeat_count};
        kiln_tuner_chance_limit(&task->chance, task->given.peak_flops);
        kiln_tuner_race_take(&task->race, task->given.best_ns);
        kiln_tuner_best_take(task, task->given.best_ns);
        task->changed = true;
    }
    keep_rivals(job, event);
    bool *closed = KILN_ARENA_ARRAY(&job->arena, bool, event->task_count);
    job->budget = kiln_tuner_budget(&job->spec, event->task_list, event->task_count, closed);
    for (uint32_t i = 0; i < event->task_count; i++) {
        job->task[i].closed = closed[i];
        if (closed[i]) job->task[i].rest = KILN_REST_STORED;
    }
    keep_stored(job, event);
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

void kiln_tuner_job_exported(kiln_tuner_job *job, const kiln_tuner_event *event) {
    if (job->state != KILN_TUNER_JOB_EXPORTING) return;
    if (event->failure) {
        if (job->code == KILN_OK) {
            job->code = event->code ? event->code : KILN_INTERNAL;
            job->text = kiln_str_dup(&job->arena, kiln_str_from(event->failure));
        }
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
        job->again_ns = job->tuner->now_ns + KILN_TUNER_RETRY_NS;
    } else {
        job->records = no_digest;
        if (job->code == KILN_OK) {
            job->code = event->code ? event->code : KILN_INTERNAL;
            job->text = kiln_str_dup(&job->arena, kiln_str_from(event->failure));
        }
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
    kiln_tuner *t = job->tuner;
    kiln_tuner_leases_drop(job);
    kiln_tuner_action *action = kiln_tuner_act_on(job, KILN_TUNER_FORGET, NULL);
    if (end > KILN_JOB_RUNNING) action->text = kiln_job_state_name(end);
    while (job->trial.count) kiln_tuner_trial_remove(job, job->trial.data[0]);
    for (uint32_t i = 0; i < t->job.count; i++) {
        if (t->job.data[i] != job) continue;
        memmove(&t->job.data[i], &t->job.data[i + 1], (--t->job.count - i) * sizeof job);
        break;
    }
    kiln_vec_deinit(&job->trial);
    kiln_vec_deinit(&job->lease);
    kiln_arena_deinit(&job->arena);
    kiln_free(job);
}

/* One that is stopping measures nothing any more. */
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
    const kiln_message kept = kiln_message_copy(&assign, &t->actions->arena);
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
    if (t->link.state != KILN_LINK_UP || t->now_ns < job->event_ns || !has_changes(job)) return;
    kiln_msg_task_state *states =
        KILN_ARENA_ARRAY(&t->actions->arena, kiln_msg_task_state, job->task_count);
    kiln_message event = {.type = KILN_MSG_JOB_EVENT, .job_event = {.job = kiln_str_from(job->id)}};
    event.job_event.tasks.item = states;
    for (uint32_t i = 0; i < job->task_count; i++) {
        if (!job->task[i].changed) continue;
        states[event.job_event.tasks.count++] = kiln_tuner_task_state_of(job, &job->task[i]);
        job->task[i].changed = false;
    }
    event.job_event.faults.count = kiln_tuner_faults_of(job, &event.job_event.faults.item);
    job->event_ns = t->now_ns + KILN_TUNER_EVENT_NS;
    kiln_tuner_send(t, &event);
}

/* When only finals are left time for. */
static uint64_t search_end_ns(const kiln_tuner_job *job) {
    uint64_t end_ns = kiln_tuner_job_end_ns(job);
    return end_ns == UINT64_MAX ? end_ns : end_ns - kiln_tuner_finals_reserve_ns(job);
}

/* When the time for trials is used up nothing new is proposed, and what no board has is dropped. */
static void keep_time_budget(kiln_tuner_job *job) {
    if (job->searched || job->tuner->now_ns < search_end_ns(job)) return;
    kiln_tuner_drop_unsent(job);
    kiln_tuner_count_stored(job);
    job->budget = 0;
}

static void run(kiln_tuner_job *job) {
    keep_time_budget(job);
    kiln_tuner_pipeline_advance(job);
    kiln_tuner_judge(job);
    kiln_tuner_leases_advance(job);
    kiln_tuner_tell_lonely(job);
    send_event(job);
    if (job->state != KILN_TUNER_JOB_RUNNING) return;
    job->searched = job->searched || kiln_tuner_pipeline_is_done(job);
    if (job->searched && !kiln_tuner_finals_advance(job)) export(job);
}

void kiln_tuner_job_tick(kiln_tuner_job *job) {
    kiln_tuner *t = job->tuner;
    bool again = job->again_ns && t->now_ns >= job->again_ns && t->link.state == KILN_LINK_UP;
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
    /* The tracker may be another run that knows none of this. */
    for (uint32_t i = 0; i < job->task_count; i++) job->task[i].changed = true;
    job->event_ns = 0;
    job->upload_failures = 0;
    if (job->again_ns) job->again_ns = job->tuner->now_ns;
    kiln_tuner_leases_reconnected(job);
}

uint64_t kiln_tuner_job_next_ns(const kiln_tuner_job *job) {
    bool linked = job->tuner->link.state == KILN_LINK_UP;
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
    uint64_t leases = kiln_tuner_leases_next_ns(job), lonely = kiln_tuner_lonely_ns(job);
    next = KILN_MIN(next, KILN_MIN(leases, lonely));
    uint64_t end = job->searched ? kiln_tuner_job_end_ns(job) : search_end_ns(job);
    return job->tuner->now_ns < end ? KILN_MIN(next, end) : next;
}
