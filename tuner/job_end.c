/* Results of a job: counted, reported, and the end of the job. */
#include "base/macros.h"
#include "tuner/state.h"

/* ---- Results ---- */

static void count(kiln_tuner_job_task *task, const kiln_tuner_result *result, bool is_default) {
    if (kiln_tuner_task_count(task, result, is_default))
        kiln_tuner_best_take(task, result->median_ns);
}

void kiln_tuner_count_result(kiln_tuner_job *job, const kiln_tuner_trial *trial) {
    count(&job->task[trial->task], &trial->result, trial->is_default);
}

void kiln_tuner_count_stored(kiln_tuner_job *job) {
    for (uint32_t i = 0; i < job->task_count; i++)
        for (uint32_t index = 0; index < job->task[i].stored_end; index++) {
            const kiln_tuner_result *stored = kiln_tuner_task_take_stored(&job->task[i], index);
            if (stored) count(&job->task[i], stored, false);
        }
}

/* ---- The end ---- */

static uint32_t measured(const kiln_tuner_job *job) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->task_count; i++) count += job->task[i].done;
    return count;
}

kiln_msg_task_state kiln_tuner_task_state_of(const kiln_tuner_job *job,
                                             const kiln_tuner_job_task *task) {
    return (kiln_msg_task_state){
        .key = task->given.key,
        .op = task->given.op,
        .weight = task->given.weight,
        .planned = KILN_MAX(kiln_tuner_job_expects(job, task), task->done),
        .done = task->done,
        .failed = task->failed,
        .best_ns = task->final.best_ns,
        .default_ns = task->given.default_ns,
        .flops = task->given.flops,
        .raced = task->raced,
        .rest = task->rest,
        .gain_low = task->final.gain_low,
    };
}

/* Tasks that were given up, as many as a message may tell. */
uint32_t kiln_tuner_faults_of(const kiln_tuner_job *job, kiln_msg_task_fault **out_fault) {
    kiln_msg_task_fault *fault = KILN_ARENA_ARRAY(kiln_tuner_step_arena(job->tuner),
                                                  kiln_msg_task_fault, KILN_MESSAGES_FAULTS);
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->task_count && count < KILN_MESSAGES_FAULTS; i++)
        if (job->task[i].error)
            fault[count++] =
                (kiln_msg_task_fault){job->task[i].given.key, kiln_str_from(job->task[i].error)};
    *out_fault = fault;
    return count;
}

void kiln_tuner_job_send_done(kiln_tuner_job *job) {
    kiln_tuner *t = job->tuner;
    kiln_message done = {
        .type = KILN_MSG_JOB_DONE,
        .job_done = {.job = kiln_str_from(job->id),
                     .code = job->code,
                     .text = kiln_str_slice(kiln_str_from(job->text), 0, KILN_MESSAGES_PROSE),
                     .records = job->records,
                     .trials = measured(job),
                     .wall_ms = (t->effects.now_ns - job->began_ns) / UINT64_C(1000000)},
    };
    kiln_msg_task_state *states =
        KILN_ARENA_ARRAY(kiln_tuner_step_arena(t), kiln_msg_task_state, job->task_count);
    for (uint32_t i = 0; i < job->task_count; i++)
        states[i] = kiln_tuner_task_state_of(job, &job->task[i]);
    done.job_done.tasks.item = states;
    done.job_done.tasks.count = job->task_count;
    done.job_done.faults.count = kiln_tuner_faults_of(job, &done.job_done.faults.item);
    kiln_tuner_send(t, &done);
    job->again_ns = t->effects.now_ns + KILN_TUNER_RESEND_NS;
}

void kiln_tuner_job_end(kiln_tuner_job *job) {
    job->state = KILN_TUNER_JOB_ENDED;
    kiln_tuner_job_send_done(job);
}

/* Waits for records that are being written; drops all other trials. */
void kiln_tuner_job_stop(kiln_tuner_job *job, kiln_code code, kiln_str text) {
    if (job->state > KILN_TUNER_JOB_RUNNING) return;
    job->code = code;
    job->text = kiln_str_dup(&job->arena, text);
    if (job->state == KILN_TUNER_JOB_PREPARING) {
        kiln_tuner_job_end(job); /* it has no records */
        return;
    }
    job->state = KILN_TUNER_JOB_STOPPING;
    kiln_tuner_leases_drop(job);
    for (uint32_t i = job->trial.count; i-- > 0;)
        if (job->trial.data[i]->state != KILN_TRIAL_RECORDING)
            kiln_tuner_trial_remove(job, job->trial.data[i]);
    kiln_tuner_count_stored(job);
    kiln_tuner_finals_give_up(job);
}
