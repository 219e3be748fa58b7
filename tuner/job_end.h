/* What a job found, as it is counted and told, and its end. */
#ifndef KILN_TUNER_JOB_END_H
#define KILN_TUNER_JOB_END_H

#include "tuner/finals.h"

/* Counts the result of a trial, or those that an earlier run recorded and this one does not come to
 * propose any more. */
void kiln_tuner_count_result(kiln_tuner_job *job, const kiln_tuner_trial *trial);
void kiln_tuner_count_stored(kiln_tuner_job *job);
/* Views into the job. */
kiln_msg_task_state kiln_tuner_task_state_of(const kiln_tuner_job *job,
                                             const kiln_tuner_job_task *task);
/* Tasks that were given up, as many as a message may tell, in the arena of the step. */
uint32_t kiln_tuner_faults_of(const kiln_tuner_job *job, kiln_msg_task_fault **out_fault);
void kiln_tuner_job_send_done(kiln_tuner_job *job);
/* There is nothing more to do for it: tells so. */
void kiln_tuner_job_end(kiln_tuner_job *job);
/* Stops measuring; what is recorded is handed in with this end. The first end counts. */
void kiln_tuner_job_stop(kiln_tuner_job *job, kiln_code code, kiln_str text);

#endif
