/* Trials of a job and the states that each goes through; pipeline.c and boards.c decide when. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "tuner/state.h"

void kiln_trial_identity(kiln_str job, kiln_str task_key, uint32_t index,
                         char out_text[KILN_HASH128_TEXT]) {
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "trial 1\n%.*s\n%.*s\n%u\n", KILN_STR_ARG(job),
                       KILN_STR_ARG(task_key), index);
    kiln_hash128_print(kiln_hash128_of(text.data, text.size), out_text);
    kiln_strbuf_deinit(&text);
}

kiln_tuner_trial *kiln_tuner_trial_add(kiln_tuner_job *job, uint32_t task, uint32_t index,
                                       const char id[KILN_HASH128_TEXT]) {
    kiln_tuner_trial *trial = kiln_alloc(sizeof *trial);
    trial->task = task;
    trial->index = index;
    trial->attempt = 1;
    memcpy(trial->id, id, sizeof trial->id);
    kiln_vec_push(&job->trial, trial);
    return trial;
}

kiln_tuner_trial *kiln_tuner_trial_find(kiln_tuner_job *job, uint32_t task, uint32_t index) {
    for (uint32_t i = 0; i < job->trial.count; i++)
        if (job->trial.data[i]->task == task && job->trial.data[i]->index == index)
            return job->trial.data[i];
    return NULL;
}

void kiln_tuner_trial_remove(kiln_tuner_job *job, kiln_tuner_trial *trial) {
    kiln_vec_remove(&job->trial, trial);
    kiln_free((char *)trial->trace.data);
    kiln_free(trial);
}

void kiln_tuner_trial_set_artefacts(kiln_tuner_trial *trial, const kiln_msg_blob_ref *artefact,
                                    uint32_t count) {
    memcpy(trial->artefact, artefact, count * sizeof *artefact);
    trial->artefact_count = count;
    trial->state = KILN_TRIAL_UPLOADING;
}

void kiln_tuner_trial_sent(kiln_tuner_trial *trial, uint64_t lease, uint64_t now_ns) {
    trial->by_recipe = trial->state == KILN_TRIAL_TO_BUILD;
    trial->state = KILN_TRIAL_SENT;
    trial->lease = lease;
    trial->started = false;
    trial->news_ns = now_ns;
}

void kiln_tuner_trial_heard(kiln_tuner_trial *trial, uint64_t now_ns, bool runs) {
    trial->news_ns = now_ns;
    trial->started = trial->started || runs;
}

void kiln_tuner_trial_requeue(kiln_tuner_trial *trial) {
    trial->state = trial->by_recipe ? KILN_TRIAL_TO_BUILD : KILN_TRIAL_READY;
    trial->by_recipe = false;
}

bool kiln_tuner_trial_lost(kiln_tuner_trial *trial, bool board_lost) {
    /* A trial that had not begun did nothing to its board. */
    const bool fell = trial->started && board_lost;
    kiln_tuner_trial_requeue(trial);
    trial->losses++;
    trial->falls += fell;
    return fell;
}

void kiln_tuner_trial_next_attempt(kiln_tuner_trial *trial) { trial->attempt++; }

void kiln_tuner_trial_repeat(kiln_tuner_trial *trial) {
    trial->repeats++;
    trial->attempt++;
}

void kiln_tuner_trial_measured(kiln_tuner_trial *trial, const kiln_tuner_result *result) {
    trial->result = *result;
    trial->state = KILN_TRIAL_RECORDING;
    trial->from_board = true;
}

void kiln_tuner_trials_check(const kiln_tuner_job *job) {
    for (uint32_t i = 0; i < job->trial.count; i++) {
        const kiln_tuner_trial *trial = job->trial.data[i];
        KILN_CHECK(trial->task < job->task_count && trial->attempt > 0);
        KILN_CHECK(trial->up_count <= trial->artefact_count);
        KILN_CHECK(!trial->by_recipe || trial->state >= KILN_TRIAL_SENT);
        KILN_CHECK(trial->state != KILN_TRIAL_READY || trial->up_count == trial->artefact_count);
        for (uint32_t k = 0; k < i; k++)
            KILN_CHECK(job->trial.data[k]->task != trial->task ||
                       job->trial.data[k]->index != trial->index);
    }
}
