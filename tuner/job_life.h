/* A job from its assignment to JOB_CLOSE. */
#ifndef KILN_TUNER_JOB_LIFE_H
#define KILN_TUNER_JOB_LIFE_H

#include "tuner/boards.h"

void kiln_tuner_job_assign(kiln_tuner *t, const kiln_msg_job_assign *assign);
void kiln_tuner_job_prepared(kiln_tuner_job *job, const kiln_tuner_event *event);
void kiln_tuner_job_exported(kiln_tuner_job *job, const kiln_tuner_event *event);
void kiln_tuner_job_records_uploaded(kiln_tuner_job *job, const kiln_tuner_event *event);
/* Frees the job. `end`: how it ended; an open state if it goes on elsewhere. */
void kiln_tuner_job_forget(kiln_tuner_job *job, kiln_job_state end);
/* How the job ended; an open state: it has not. */
kiln_job_state kiln_tuner_job_end_of(const kiln_tuner_job *job);
/* Another tuner claimed the job: it begins anew. */
void kiln_tuner_job_claim_lost(kiln_tuner_job *job);
void kiln_tuner_job_tick(kiln_tuner_job *job);
void kiln_tuner_job_reconnected(kiln_tuner_job *job);
uint64_t kiln_tuner_job_next_ns(const kiln_tuner_job *job);

#endif
