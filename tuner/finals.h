/* When finals and judgements (finalist.h) of a job's tasks are held, and what follows from them. */
#ifndef KILN_TUNER_FINALS_H
#define KILN_TUNER_FINALS_H

#include "tuner/jobs.h"

/* A time from a single measurement: it may be the best until a final says otherwise. */
void kiln_tuner_best_take(kiln_tuner_job_task *task, double median_ns);
/* Adds the time that a board spent on a trial or a judgement. */
void kiln_tuner_time_take(kiln_tuner_job *job, const kiln_tuner_trial *trial,
                          const kiln_msg_phases *spent_ns);
/* During the search: begins a judgement if one is due and the boards' time allows it. */
void kiln_tuner_judge(kiln_tuner_job *job);
/* Time to keep for the finals of the job's tasks, of the job's `seconds`. */
uint64_t kiln_tuner_finals_reserve_ns(const kiln_tuner_job *job);
/* After every trial was observed: begins finals while there is time, the most promising first.
 * False when all are over. */
bool kiln_tuner_finals_advance(kiln_tuner_job *job);
/* There is no time for those that remain. */
void kiln_tuner_finals_give_up(kiln_tuner_job *job);
void kiln_tuner_final_gathered(kiln_tuner_job *job, const kiln_tuner_event *event);
/* Takes a final's result into the task's state; false when it cannot be used. */
bool kiln_tuner_final_count(kiln_tuner_job *job, const kiln_tuner_trial *trial,
                            const kiln_msg_trial_result *result);
/* Whether the machine was disturbed and the final is to be measured again. If the board did not say
 * that it was, only when there is time beside all other finals. A judgement is never repeated. */
bool kiln_tuner_final_is_disturbed(const kiln_tuner_job *job, const kiln_tuner_trial *trial,
                                   const kiln_msg_trial_result *result);
/* The final is recorded, or given up: then the results before it count. Frees the trial. */
void kiln_tuner_final_end(kiln_tuner_job *job, kiln_tuner_trial *trial);
/* Invariants (kiln_tuner_check). */
void kiln_tuner_finals_check(const kiln_tuner_job *job);

#endif
