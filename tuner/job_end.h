/* Results of a job: counted, reported, and the end of the job. */
#ifndef KILN_TUNER_JOB_END_H
#define KILN_TUNER_JOB_END_H

#include "tuner/finals.h"

/* Counts the result of a trial; or all results of an earlier run that this run will not propose
 * again. */
void kiln_tuner_count_result(kiln_tuner_job *job, const kiln_tuner_trial *trial);
void kiln_tuner_count_stored(kiln_tuner_job *job);
/* Views into the job. */
kiln_msg_task_state kiln_tuner_task_state_of(const kiln_tuner_job *job,
                                             const kiln_tuner_job_task *task);
/* Tasks that were given up, as many as a message may tell, in the arena of the step. */
uint32_t kiln_tuner_faults_of(const kiln_tuner_job *job, kiln_msg_task_fault **out_fault);
void kiln_tuner_job_send_done(kiln_tuner_job *job);
/* Nothing is left to do: sends JOB_DONE. */
void kiln_tuner_job_end(kiln_tuner_job *job);
/* Stops measuring; the job ends this way once its records are exported. The first end counts. */
void kiln_tuner_job_stop(kiln_tuner_job *job, kiln_code code, kiln_str text);

#endif
