/* The life of a trial except on its board: proposed, built, uploaded, recorded, observed. */
#ifndef KILN_TUNER_PIPELINE_H
#define KILN_TUNER_PIPELINE_H

#include "tuner/job_end.h"
#include "tuner/recipes.h"

#define KILN_TUNER_INDEX_MAX 1000000u /* trials of one task of a job */

/* Nothing of the task can be measured: its trials are dropped and other tasks get them. When it was
 * the last task the job stops with this end. */
void kiln_tuner_task_give_up(kiln_tuner_job *job, uint32_t task, kiln_code code, kiln_str text);
/* Proposes, observes, builds and uploads whatever can be. */
void kiln_tuner_pipeline_advance(kiln_tuner_job *job);
void kiln_tuner_builds_start(kiln_tuner *t);
void kiln_tuner_reference_made(kiln_tuner_job *job, const kiln_tuner_event *event);
void kiln_tuner_trial_proposed(kiln_tuner_job *job, const kiln_tuner_event *event);
void kiln_tuner_trial_built(kiln_tuner_job *job, const kiln_tuner_event *event);
void kiln_tuner_trial_uploaded(kiln_tuner_job *job, const kiln_tuner_event *event);
void kiln_tuner_trial_recorded(kiln_tuner_job *job, const kiln_tuner_event *event);
/* Records an end that no board reported. */
void kiln_tuner_trial_fail(kiln_tuner_job *job, kiln_tuner_trial *trial, kiln_outcome outcome,
                           const char *text);
/* Uploads its blobs again: the tracker may have lost them. */
void kiln_tuner_trial_reupload(kiln_tuner_job *job, kiln_tuner_trial *trial);
/* Drops trials that no board has: there is no more time for trials. */
void kiln_tuner_drop_unsent(kiln_tuner_job *job);
bool kiln_tuner_pipeline_is_done(const kiln_tuner_job *job);

#endif
