/* The list of a tuner's jobs, and what is left of the budget of each. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/macros.h"
#include "tuner/state.h"

/* ---- The list ---- */

kiln_tuner_job *kiln_tuner_job_add(kiln_tuner *t) {
    kiln_tuner_job *job = kiln_alloc(sizeof *job);
    job->tuner = t;
    job->handle = ++t->job.last_handle;
    kiln_arena_init(&job->arena, KILN_TUNER_ARENA_BYTES);
    kiln_vec_push(&t->job, job);
    return job;
}

void kiln_tuner_job_free(kiln_tuner_job *job) {
    while (job->trial.count) kiln_tuner_trial_remove(job, job->trial.data[0]);
    kiln_vec_remove(&job->tuner->job, job);
    kiln_free(job->trial.data);
    kiln_free(job->lease.data);
    kiln_arena_deinit(&job->arena);
    kiln_free(job);
}

kiln_tuner_job *kiln_tuner_job_find(kiln_tuner *t, uint64_t handle) {
    for (uint32_t i = 0; i < t->job.count; i++)
        if (t->job.data[i]->handle == handle) return t->job.data[i];
    return NULL;
}

kiln_tuner_job *kiln_tuner_job_find_by_id(kiln_tuner *t, kiln_str id) {
    for (uint32_t i = 0; i < t->job.count; i++)
        if (kiln_str_is(id, t->job.data[i]->id)) return t->job.data[i];
    return NULL;
}

/* ---- Budgets ---- */

static uint32_t proposed(const kiln_tuner_job_task *task) {
    return task->next_propose - task->missing;
}

uint64_t kiln_tuner_job_proposed(const kiln_tuner_job *job) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < job->task_count; i++) sum += proposed(&job->task[i]);
    return sum;
}

uint32_t kiln_tuner_job_expects(const kiln_tuner_job *job, const kiln_tuner_job_task *task) {
    uint32_t open = 0;
    for (uint32_t i = 0; i < job->task_count; i++) open += !job->task[i].closed;
    if (task->closed || open == 0 || job->budget == UINT64_MAX) return proposed(task);
    uint64_t rest = job->budget - KILN_MIN(kiln_tuner_job_proposed(job), job->budget), before = 0;
    for (const kiln_tuner_job_task *other = job->task; other < task; other++)
        before += !other->closed;
    return proposed(task) + (uint32_t)(rest / open + (before < rest % open));
}

uint64_t kiln_tuner_job_end_ns(const kiln_tuner_job *job) {
    double budget_ns = job->spec.seconds * 1e9;
    /* A budget beyond what the clock can tell is none. */
    if (budget_ns <= 0 || budget_ns > 9e18) return UINT64_MAX;
    return job->began_ns + (uint64_t)budget_ns;
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

void kiln_tuner_jobs_check(const kiln_tuner *t) {
    KILN_CHECK(t->job.count <= KILN_TUNER_JOBS_MAX);
    for (uint32_t i = 0; i < t->job.count; i++) {
        const kiln_tuner_job *job = t->job.data[i];
        KILN_CHECK(job->tuner == t && job->handle <= t->job.last_handle);
        KILN_CHECK(job->state > KILN_TUNER_JOB_PREPARING || job->task_count == 0);
        KILN_CHECK(job->state < KILN_TUNER_JOB_EXPORTING || job->trial.count == 0);
        for (uint32_t k = 0; k < i; k++) KILN_CHECK(strcmp(t->job.data[k]->id, job->id) != 0);
    }
}
