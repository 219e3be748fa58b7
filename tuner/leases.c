/* The list of the leases that a job holds or asks for; boards.c decides what happens to each. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "tuner/state.h"

kiln_tuner_lease *kiln_tuner_lease_add(kiln_tuner_job *job, uint64_t request) {
    kiln_tuner_lease *lease = kiln_alloc(sizeof *lease);
    kiln_arena_init(&lease->arena, 1024);
    lease->request = request;
    kiln_vec_push(&job->lease, lease);
    return lease;
}

void kiln_tuner_lease_remove(kiln_tuner_job *job, kiln_tuner_lease *lease) {
    kiln_vec_remove(&job->lease, lease);
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

static bool is_held(const kiln_tuner_job *job, uint64_t number) {
    for (uint32_t i = 0; i < job->lease.count; i++)
        if (job->lease.data[i]->lease == number) return true;
    return false;
}

void kiln_tuner_leases_check(const kiln_tuner_job *job) {
    KILN_CHECK(job->lease.count == 0 || job->state == KILN_TUNER_JOB_RUNNING);
    for (uint32_t i = 0; i < job->lease.count; i++)
        KILN_CHECK(job->lease.data[i]->request > 0 &&
                   job->lease.data[i]->request <= job->tuner->requests.last);
    for (uint32_t i = 0; i < job->trial.count; i++) /* a board has what is sent */
        KILN_CHECK(job->trial.data[i]->state != KILN_TRIAL_SENT ||
                   is_held(job, job->trial.data[i]->lease));
}
