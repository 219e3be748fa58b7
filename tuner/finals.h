/* When the finals and judgements of a job's tasks are held, and what follows from them; what they
 * are says finalist.h. */
#ifndef KILN_TUNER_FINALS_H
#define KILN_TUNER_FINALS_H

#include "tuner/jobs.h"

/* A time of a task that was measured alone: it may be the best until a final says otherwise. */
void kiln_tuner_best_take(kiln_tuner_job_task *task, double median_ns);
/* What a board spent on a trial or a judgement. */
void kiln_tuner_time_take(kiln_tuner_job *job, const kiln_tuner_trial *trial,
                          const kiln_msg_phases *spent_ns);
/* Within the search: begins a judgement where one is due and the boards' time allows it. */
void kiln_tuner_judge(kiln_tuner_job *job);
/* Time that the finals of the job's tasks are to get before its end, of what `seconds` names. */
uint64_t kiln_tuner_finals_reserve_ns(const kiln_tuner_job *job);
/* When every trial was observed: begins finals while there is time, those first that promise most.
 * False when they are all over. */
bool kiln_tuner_finals_advance(kiln_tuner_job *job);
/* There is no time for those that remain. */
void kiln_tuner_finals_give_up(kiln_tuner_job *job);
void kiln_tuner_final_gathered(kiln_tuner_job *job, const kiln_tuner_event *event);
/* Takes a final's result into the task's state; false when it cannot be used. */
bool kiln_tuner_final_count(kiln_tuner_job *job, const kiln_tuner_trial *trial,
                            const kiln_msg_trial_result *result);
/* Whether its figures are those of a disturbed machine, and it is to be measured again: where its
 * board did not say so, if there is time beside all other finals. A judgement never is. */
bool kiln_tuner_final_is_disturbed(const kiln_tuner_job *job, const kiln_tuner_trial *trial,
                                   const kiln_msg_trial_result *result);
/* It is recorded, or given up: what was known before stands. Frees the trial. */
void kiln_tuner_final_end(kiln_tuner_job *job, kiln_tuner_trial *trial);
/* Invariants (kiln_tuner_check). */
void kiln_tuner_finals_check(const kiln_tuner_job *job);

#endif
