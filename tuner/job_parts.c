/* What a job consists of: its trials and its leases, and what is left of its budgets. */
#include <string.h>

#include "base/alloc.h"
#include "base/macros.h"
#include "tuner/state.h"

/* ---- Trials ---- */

kiln_tuner_trial *kiln_tuner_trial_find(kiln_tuner_job *job, uint32_t task, uint32_t index) {
    for (uint32_t i = 0; i < job->trial.count; i++)
        if (job->trial.data[i]->task == task && job->trial.data[i]->index == index)
            return job->trial.data[i];
    return NULL;
}

void kiln_tuner_trial_remove(kiln_tuner_job *job, kiln_tuner_trial *trial) {
    for (uint32_t i = 0; i < job->trial.count; i++) {
        if (job->trial.data[i] != trial) continue;
        memmove(&job->trial.data[i], &job->trial.data[i + 1],
                (--job->trial.count - i) * sizeof trial);
        break;
    }
    kiln_free((char *)trial->trace.data);
    kiln_free(trial);
}

static uint32_t count_busy(const kiln_tuner_job *job) {
    uint32_t busy = 0;
    for (uint32_t i = 0; i < job->trial.count; i++)
        busy += job->trial.data[i]->state == KILN_TRIAL_BUILDING;
    for (uint32_t i = 0; i < job->task_count; i++)
        busy += job->task[i].reference.state == KILN_TUNER_BLOB_MAKING;
    return busy;
}

uint32_t kiln_tuner_builds_busy(const kiln_tuner *t) {
    uint32_t busy = 0;
    for (uint32_t j = 0; j < t->job.count; j++) busy += count_busy(t->job.data[j]);
    return busy;
}

/* ---- Leases ---- */

void kiln_tuner_lease_remove(kiln_tuner_job *job, kiln_tuner_lease *lease) {
    for (uint32_t i = 0; i < job->lease.count; i++) {
        if (job->lease.data[i] != lease) continue;
        memmove(&job->lease.data[i], &job->lease.data[i + 1],
                (--job->lease.count - i) * sizeof lease);
        break;
    }
    kiln_arena_deinit(&lease->arena);
    kiln_free(lease);
}

void kiln_tuner_lease_release(kiln_tuner_job *job, kiln_tuner_lease *lease) {
    kiln_message message = {.type = KILN_MSG_LEASE_RELEASE,
                            .lease_release = {.lease = lease->lease, .request = lease->request}};
    kiln_tuner_send(job->tuner, &message);
    kiln_tuner_lease_remove(job, lease);
}

void kiln_tuner_leases_drop(kiln_tuner_job *job) {
    while (job->lease.count) kiln_tuner_lease_release(job, job->lease.data[0]);
}

/* ---- Budgets ---- */

uint32_t kiln_tuner_job_expects(const kiln_tuner_job *job, const kiln_tuner_job_task *task) {
    uint32_t open = 0, own = task->next_propose - task->missing;
    for (uint32_t i = 0; i < job->task_count; i++) open += !job->task[i].closed;
    if (task->closed || open == 0 || job->budget == UINT64_MAX) return own;
    uint64_t rest = job->budget - KILN_MIN(job->proposed, job->budget), before = 0;
    for (const kiln_tuner_job_task *other = job->task; other < task; other++)
        before += !other->closed;
    return own + (uint32_t)(rest / open + (before < rest % open));
}

uint64_t kiln_tuner_job_end_ns(const kiln_tuner_job *job) {
    double budget_ns = job->spec.seconds * 1e9;
    /* A budget beyond what the clock can tell is none. */
    if (budget_ns <= 0 || budget_ns > 9e18) return UINT64_MAX;
    return job->began_ns + (uint64_t)budget_ns;
}
