#include "tuner/finalist.h"

#include <string.h>

#include "base/alloc.h"
#include "base/macros.h"
#include "base/stats.h"
#include "tuner/state.h"

/* ---- Standings ---- */

#define SAMPLES_MAX 1024u

/* Samples as times of one run. */
static uint32_t runs_of(const kiln_u64s *samples, uint32_t runs, double *out_ns) {
    uint32_t count = KILN_MIN(samples->count, SAMPLES_MAX);
    for (uint32_t i = 0; i < count; i++) out_ns[i] = (double)samples->item[i] / KILN_MAX(runs, 1u);
    return count;
}

kiln_tuner_standing kiln_tuner_standing_of(const kiln_msg_trial_result *result, uint32_t place) {
    double base[SAMPLES_MAX], own[SAMPLES_MAX], gain[SAMPLES_MAX];
    uint32_t count = runs_of(&result->samples_ns, result->runs, base);
    kiln_tuner_standing none = {0};
    if (count == 0 || result->outcome != KILN_OUTCOME_OK) return none;
    if (place == 0) return (kiln_tuner_standing){kiln_stats_median(base, count), 1};
    const kiln_msg_rival_result *rival = &result->rivals.item[place - 1];
    if (rival->outcome != KILN_OUTCOME_OK) return none;
    if (runs_of(&rival->samples_ns, rival->runs, own) != count) return none;
    /* Pair by pair: what slows the machine down for longer than a round slows both. */
    for (uint32_t i = 0; i < count; i++) gain[i] = own[i] > 0 ? base[i] / own[i] : 0;
    return (kiln_tuner_standing){kiln_stats_median(own, count), kiln_stats_of(gain, count).low};
}

/* ---- Finals of a job ---- */

static bool was_measured(const kiln_tuner_job_task *task) { return task->done > task->failed; }

bool kiln_tuner_finals_advance(kiln_tuner_job *job) {
    bool open = false;
    for (uint32_t i = 0; i < job->task_count; i++) {
        kiln_tuner_job_task *task = &job->task[i];
        if (task->final == KILN_TUNER_FINAL_NONE && was_measured(task)) {
            task->final = KILN_TUNER_FINAL_OPEN;
            kiln_tuner_act_on(job, KILN_TUNER_GATHER, NULL)->task = i;
        }
        open = open || task->final == KILN_TUNER_FINAL_OPEN;
    }
    return open;
}

void kiln_tuner_final_gathered(kiln_tuner_job *job, const kiln_tuner_event *event) {
    if (event->task >= job->task_count || job->state != KILN_TUNER_JOB_RUNNING) return;
    kiln_tuner_job_task *task = &job->task[event->task];
    if (task->final != KILN_TUNER_FINAL_OPEN) return;
    if (event->finalist_count < 2 || event->finalist_count > KILN_TUNER_ARTEFACTS_MAX) {
        task->final = KILN_TUNER_FINAL_DONE; /* the default has nobody to stand against */
        return;
    }
    kiln_tuner_trial *trial = kiln_alloc(sizeof *trial);
    trial->state = KILN_TRIAL_UPLOADING;
    trial->task = event->task;
    trial->index = KILN_TUNER_FINAL;
    trial->attempt = 1;
    trial->artefact_count = event->finalist_count;
    memcpy(trial->artefact, event->finalist, event->finalist_count * sizeof trial->artefact[0]);
    kiln_trial_identity(kiln_str_from(job->id), task->given.key, trial->index, trial->id);
    kiln_vec_push(&job->trial, trial);
}

void kiln_tuner_final_end(kiln_tuner_job *job, kiln_tuner_trial *trial) {
    job->task[trial->task].final = KILN_TUNER_FINAL_DONE;
    kiln_tuner_trial_remove(job, trial);
}

/* What the task is said to have reached from here on is what its final says. */
bool kiln_tuner_final_count(kiln_tuner_job *job, const kiln_tuner_trial *trial,
                            const kiln_msg_trial_result *result) {
    kiln_tuner_job_task *task = &job->task[trial->task];
    kiln_tuner_standing base = kiln_tuner_standing_of(result, 0);
    if (base.median_ns <= 0 || result->rivals.count != trial->artefact_count - 1) return false;
    task->given.default_ns = task->best_ns = base.median_ns;
    for (uint32_t place = 1; place < trial->artefact_count; place++) {
        kiln_tuner_standing standing = kiln_tuner_standing_of(result, place);
        if (standing.median_ns > 0 && standing.gain_low >= 1)
            task->best_ns = KILN_MIN(task->best_ns, standing.median_ns);
    }
    task->changed = true;
    return true;
}
