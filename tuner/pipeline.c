/* The life of a trial except on its board: proposed, built, uploaded, recorded, observed. */
#include <string.h>

#include "base/alloc.h"
#include "base/macros.h"
#include "tuner/state.h"

/* ---- Proposing and observing ---- */

/* Without judgements, which do not change what is proposed. */
static uint32_t count_trials(const kiln_tuner_job *job) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->trial.count; i++)
        count += job->trial.data[i]->index != KILN_TUNER_FINAL;
    return count;
}

static kiln_tuner_trial *oldest_trial(const kiln_tuner_job *job) {
    for (uint32_t i = 0; i < job->trial.count; i++)
        if (job->trial.data[i]->index != KILN_TUNER_FINAL) return job->trial.data[i];
    return NULL;
}

/* Where only time bounds the job, tasks that promise too little get no further trial. */
static void leave_what_is_not_worth(kiln_tuner_job *job, const kiln_tuner_stats *const *stats) {
    for (uint32_t i = 0; i < job->task_count; i++) {
        kiln_tuner_job_task *task = &job->task[i];
        if (task->closed) continue;
        bool worth = kiln_tuner_is_worth(stats, job->task_count, i);
        bool at_peak = kiln_tuner_is_at_peak(&task->stats);
        task->stats.waits = task->stats.waits || !worth;
        kiln_tuner_task_set_rest(task, worth     ? KILN_REST_NONE
                                       : at_peak ? KILN_REST_AT_PEAK
                                                 : KILN_REST_SMALL);
    }
}

/* The task that may and should propose next, or task_count. */
static uint32_t choose(kiln_tuner_job *job) {
    const kiln_tuner_stats *stats[KILN_TUNER_TASKS_MAX];
    if (kiln_tuner_job_proposed(job) >= job->budget || count_trials(job) >= KILN_TUNER_WINDOW)
        return job->task_count;
    for (uint32_t i = 0; i < job->task_count; i++) {
        kiln_tuner_job_task *task = &job->task[i];
        uint32_t under_way = task->next_propose - task->next_observe;
        task->stats.under_way = under_way;
        task->stats.waits = task->closed || under_way >= kiln_tuner_lag(task->next_propose) ||
                            task->next_propose >= KILN_TUNER_INDEX_MAX;
        stats[i] = &task->stats;
    }
    for (uint32_t i = 0; i < job->task_count; i++)
        if (!stats[i]->waits && job->task[i].next_propose < job->task[i].given.by_hand_count)
            return i;
    if (job->budget == UINT64_MAX) leave_what_is_not_worth(job, stats);
    return kiln_tuner_choose(stats, job->task_count);
}

static bool propose(kiln_tuner_job *job) {
    uint32_t index = choose(job);
    if (index >= job->task_count) return false;
    kiln_tuner_job_task *task = &job->task[index];
    char id[KILN_HASH128_TEXT];
    kiln_trial_identity(kiln_str_from(job->identity), task->given.key, task->next_propose, id);
    kiln_tuner_act_on(job, KILN_TUNER_PROPOSE,
                      kiln_tuner_trial_add(job, index, task->next_propose++, id));
    return true;
}

/* The oldest trial's result, when it is there. */
static bool observe(kiln_tuner_job *job) {
    kiln_tuner_trial *trial = oldest_trial(job);
    if (!trial || trial->state < KILN_TRIAL_RECORDED) return false;
    kiln_tuner_job_task *task = &job->task[trial->task];
    task->next_observe++;
    if (trial->state == KILN_TRIAL_EXHAUSTED) {
        task->closed = task->changed = true;
        if (!task->error) task->rest = KILN_REST_NO_OTHERS;
        task->missing++; /* it does not count against the budget */
    } else {
        kiln_tuner_action *action = kiln_tuner_act_on(job, KILN_TUNER_OBSERVE, trial);
        action->outcome = trial->result.outcome;
        action->least_ns = trial->result.least_ns;
        action->raced = trial->result.raced;
        kiln_tuner_stats_limit(&task->stats, trial->result.peak_flops);
        kiln_tuner_stats_add(&task->stats, trial->result.median_ns);
    }
    kiln_tuner_trial_remove(job, trial);
    return true;
}

static void keep_trace(kiln_tuner_trial *trial, kiln_str trace) {
    char *data = kiln_alloc(KILN_MAX(trace.size, 1));
    if (trace.size) memcpy(data, trace.data, trace.size);
    trial->trace = (kiln_str){data, trace.size};
}

void kiln_tuner_trial_proposed(kiln_tuner_job *job, const kiln_tuner_event *event) {
    if (event->task >= job->task_count) return;
    kiln_tuner_trial *trial = kiln_tuner_trial_find(job, event->task, event->index);
    if (!trial || trial->state != KILN_TRIAL_PROPOSING) return;
    kiln_tuner_job_task *task = &job->task[event->task];
    if (event->exhausted) {
        trial->state = KILN_TRIAL_EXHAUSTED;
        return;
    }
    trial->state = KILN_TRIAL_TO_BUILD;
    trial->is_default = event->is_default;
    keep_trace(trial, event->trace);
    if (task->error) trial->state = KILN_TRIAL_EXHAUSTED;
    const kiln_tuner_result *stored = kiln_tuner_task_take_stored(task, trial->index);
    if (!stored) return;
    /* An earlier run of this tuner recorded it already. */
    trial->result = *stored;
    trial->state = KILN_TRIAL_RECORDED;
    kiln_tuner_count_result(job, trial);
}

bool kiln_tuner_pipeline_is_done(const kiln_tuner_job *job) { return count_trials(job) == 0; }

/* ---- Giving up ---- */

void kiln_tuner_drop_unsent(kiln_tuner_job *job) {
    for (uint32_t i = job->trial.count; i-- > 0;) { /* a final that ends is gone */
        kiln_tuner_trial *trial = job->trial.data[i];
        if (trial->state >= KILN_TRIAL_SENT) continue;
        if (trial->index == KILN_TUNER_FINAL) {
            kiln_tuner_final_end(job, trial);
            continue;
        }
        job->task[trial->task].next_propose--;
        kiln_tuner_trial_remove(job, trial);
    }
}

static bool all_are_given_up(const kiln_tuner_job *job) {
    for (uint32_t i = 0; i < job->task_count; i++)
        if (!job->task[i].error) return false;
    return true;
}

void kiln_tuner_task_give_up(kiln_tuner_job *job, uint32_t index, kiln_code code, kiln_str text) {
    kiln_tuner_job_task *task = &job->task[index];
    task->error = kiln_str_dup(&job->arena, kiln_str_slice(text, 0, KILN_MESSAGES_NAME));
    task->closed = task->changed = true;
    task->rest = KILN_REST_NONE;
    for (uint32_t i = job->trial.count; i-- > 0;) { /* a final that ends is gone */
        kiln_tuner_trial *trial = job->trial.data[i];
        if (trial->task != index || trial->state >= KILN_TRIAL_SENT) continue;
        if (trial->index == KILN_TUNER_FINAL)
            kiln_tuner_final_end(job, trial);
        else if (trial->state != KILN_TRIAL_PROPOSING)
            trial->state = KILN_TRIAL_EXHAUSTED;
    }
    if (all_are_given_up(job)) kiln_tuner_job_stop(job, code, text);
}

/* ---- Building ---- */

static void make_reference(kiln_tuner_job *job, uint32_t index) {
    job->task[index].reference.state = KILN_TUNER_BLOB_MAKING;
    kiln_tuner_act_on(job, KILN_TUNER_REFERENCE, NULL)->task = index;
}

void kiln_tuner_reference_made(kiln_tuner_job *job, const kiln_tuner_event *event) {
    if (event->task >= job->task_count) return;
    kiln_tuner_job_task *task = &job->task[event->task];
    if (task->reference.state != KILN_TUNER_BLOB_MAKING) return;
    if (event->failure) { /* no output of the task could be compared */
        task->reference.state = KILN_TUNER_BLOB_NONE;
        kiln_tuner_task_give_up(job, event->task, event->code ? event->code : KILN_INTERNAL,
                                kiln_str_from(event->failure));
        return;
    }
    task->reference = (kiln_tuner_blob){KILN_TUNER_BLOB_HERE, event->artefact};
    task->program = (kiln_tuner_blob){KILN_TUNER_BLOB_HERE, event->program};
}

/* Starts the oldest candidate that waits, or first its task's reference. */
static bool start_build(kiln_tuner_job *job) {
    for (uint32_t i = 0; i < job->trial.count; i++) {
        kiln_tuner_trial *trial = job->trial.data[i];
        if (trial->state != KILN_TRIAL_TO_BUILD) continue;
        if (job->task[trial->task].reference.state == KILN_TUNER_BLOB_NONE) {
            make_reference(job, trial->task);
            return true;
        }
        if (job->tuner->options.builders == 0) continue;
        trial->state = KILN_TRIAL_BUILDING;
        kiln_tuner_act_on(job, KILN_TUNER_BUILD, trial);
        return true;
    }
    return false;
}

void kiln_tuner_builds_start(kiln_tuner *t) {
    uint32_t busy = kiln_tuner_builds_busy(t), most = KILN_MAX(t->options.builders, 1);
    /* One candidate per job in turns, oldest first. */
    for (bool any = true; any && busy < most;) {
        any = false;
        for (uint32_t j = 0; j < t->job.count && busy < most; j++) {
            if (!start_build(t->job.data[j])) continue;
            busy++;
            any = true;
        }
    }
}

void kiln_tuner_trial_built(kiln_tuner_job *job, const kiln_tuner_event *event) {
    kiln_tuner_trial *trial = kiln_tuner_trial_find(job, event->task, event->index);
    if (!trial || trial->state != KILN_TRIAL_BUILDING) return;
    trial->result.assembled = event->assembled;
    if (event->outcome != KILN_OUTCOME_OK) {
        kiln_tuner_trial_fail(job, trial, event->outcome, event->text);
        return;
    }
    kiln_tuner_trial_set_artefacts(trial, &event->artefact, 1);
}

/* ---- Uploading ---- */

static void upload_blob(kiln_tuner *t, kiln_tuner_blob *blob) {
    if (blob->state != KILN_TUNER_BLOB_HERE) return;
    blob->state = KILN_TUNER_BLOB_UPLOADING;
    kiln_tuner_upload(t, &blob->ref.digest);
}

/* Uploads what a board needs to build the candidate itself. */
static void upload_for_recipe(kiln_tuner_job *job, kiln_tuner_trial *trial) {
    upload_blob(job->tuner, &job->task[trial->task].reference);
    upload_blob(job->tuner, &job->task[trial->task].program);
    trial->upload_again_ns = 0;
}

static void upload(kiln_tuner_job *job, kiln_tuner_trial *trial) {
    kiln_tuner_job_task *task = &job->task[trial->task];
    if (task->reference.state == KILN_TUNER_BLOB_NONE)
        make_reference(job, trial->task); /* for a final whose trials an earlier run measured */
    upload_blob(job->tuner, &task->reference);
    bool artefacts_up = trial->up_count == trial->artefact_count;
    if (!artefacts_up && !trial->uploading) {
        trial->uploading = true;
        kiln_tuner_upload(job->tuner, &trial->artefact[trial->up_count].digest);
    }
    trial->upload_again_ns = 0;
    if (task->reference.state == KILN_TUNER_BLOB_UP && artefacts_up)
        trial->state = KILN_TRIAL_READY;
}

static void doubt(kiln_tuner_blob *blob) {
    if (blob->state == KILN_TUNER_BLOB_UP) blob->state = KILN_TUNER_BLOB_HERE;
}

void kiln_tuner_trial_reupload(kiln_tuner_job *job, kiln_tuner_trial *trial) {
    doubt(&job->task[trial->task].reference);
    doubt(&job->task[trial->task].program);
    kiln_tuner_trial_requeue(trial);
    if (trial->state != KILN_TRIAL_READY) return;
    trial->state = KILN_TRIAL_UPLOADING;
    trial->up_count = 0;
}

/* Failures of the connection do not count: the trial is given up after others only. */
static void upload_failed(kiln_tuner_job *job, kiln_tuner_trial *trial,
                          const kiln_tuner_event *event) {
    if (kiln_tuner_is_linked(job->tuner) && event->code != KILN_UNAVAILABLE)
        trial->upload_failures++;
    trial->upload_again_ns = job->tuner->effects.now_ns + KILN_TUNER_RETRY_NS;
    if (trial->upload_failures >= KILN_TUNER_UPLOADS_MAX)
        kiln_tuner_trial_fail(job, trial, KILN_OUTCOME_INFRA, event->failure);
}

static void blob_uploaded(kiln_tuner_blob *blob, const kiln_tuner_event *event) {
    if (blob->state == KILN_TUNER_BLOB_UPLOADING &&
        kiln_digest_equal(&blob->ref.digest, &event->digest))
        blob->state = event->failure ? KILN_TUNER_BLOB_HERE : KILN_TUNER_BLOB_UP;
}

static bool is_of_task(const kiln_tuner_job_task *task, const kiln_digest *digest) {
    return kiln_digest_equal(&task->reference.ref.digest, digest) ||
           kiln_digest_equal(&task->program.ref.digest, digest);
}

void kiln_tuner_trial_uploaded(kiln_tuner_job *job, const kiln_tuner_event *event) {
    for (uint32_t i = 0; i < job->task_count; i++) {
        blob_uploaded(&job->task[i].reference, event);
        blob_uploaded(&job->task[i].program, event);
    }
    for (uint32_t i = job->trial.count; i-- > 0;) { /* a final that fails is gone */
        kiln_tuner_trial *trial = job->trial.data[i];
        if (trial->state != KILN_TRIAL_UPLOADING && !kiln_tuner_recipe_is_wanted(job, trial))
            continue;
        bool artefact = trial->uploading &&
                        kiln_digest_equal(&trial->artefact[trial->up_count].digest, &event->digest);
        bool of_task = is_of_task(&job->task[trial->task], &event->digest);
        if (artefact) {
            trial->uploading = false;
            trial->up_count += !event->failure;
        }
        if ((artefact || of_task) && event->failure) upload_failed(job, trial, event);
    }
}

static void upload_what_can(kiln_tuner_job *job) {
    kiln_tuner *t = job->tuner;
    for (uint32_t i = 0; i < job->trial.count; i++) {
        kiln_tuner_trial *trial = job->trial.data[i];
        if (!kiln_tuner_is_linked(t) || t->effects.now_ns < trial->upload_again_ns) continue;
        if (trial->state == KILN_TRIAL_UPLOADING) upload(job, trial);
        if (kiln_tuner_recipe_is_wanted(job, trial)) upload_for_recipe(job, trial);
    }
}

/* ---- Recording ---- */

void kiln_tuner_trial_fail(kiln_tuner_job *job, kiln_tuner_trial *trial, kiln_outcome outcome,
                           const char *text) {
    if (trial->index == KILN_TUNER_FINAL) {
        kiln_tuner_final_end(job, trial);
        return;
    }
    trial->state = KILN_TRIAL_RECORDING;
    trial->result.outcome = outcome;
    trial->result.median_ns = trial->result.least_ns = 0;
    kiln_tuner_action *action = kiln_tuner_act_on(job, KILN_TUNER_RECORD, trial);
    action->outcome = outcome;
    action->blame = kiln_outcome_blame(outcome);
    action->text = kiln_str_dup(kiln_tuner_step_arena(job->tuner), kiln_str_from(text));
}

void kiln_tuner_trial_recorded(kiln_tuner_job *job, const kiln_tuner_event *event) {
    kiln_tuner_trial *trial = kiln_tuner_trial_find(job, event->task, event->index);
    if (!trial || trial->state != KILN_TRIAL_RECORDING) return;
    if (event->failure) { /* later results could not be stored either */
        kiln_tuner_trial_remove(job, trial);
        kiln_tuner_job_stop(job, event->code ? event->code : KILN_INTERNAL,
                            kiln_str_from(event->failure));
        return;
    }
    if (trial->from_board)
        kiln_tuner_acknowledge(job->tuner, kiln_str_from(trial->id), trial->attempt, trial->lease);
    if (trial->index == KILN_TUNER_FINAL) {
        kiln_tuner_final_end(job, trial);
        return;
    }
    trial->state = KILN_TRIAL_RECORDED;
    kiln_tuner_count_result(job, trial);
    if (job->state == KILN_TUNER_JOB_STOPPING) kiln_tuner_trial_remove(job, trial);
}

void kiln_tuner_pipeline_advance(kiln_tuner_job *job) {
    while (propose(job) || observe(job)) continue;
    upload_what_can(job);
}
