/* Tasks of a job: what PREPARED says of each, what its results showed, and what it has yet to
 * propose. */
#ifndef KILN_TUNER_TASKS_H
#define KILN_TUNER_TASKS_H

#include "tuner/race.h"
#include "tuner/task_scheduler.h"
#include "tuner/trials.h"

/* A blob that all trials of a task need. Written by pipeline.c. */
typedef enum kiln_tuner_blob_state {
    KILN_TUNER_BLOB_NONE,
    KILN_TUNER_BLOB_MAKING,
    KILN_TUNER_BLOB_HERE, /* in our store */
    KILN_TUNER_BLOB_UPLOADING,
    KILN_TUNER_BLOB_UP,
} kiln_tuner_blob_state;

/* Written by pipeline.c. */
typedef struct kiln_tuner_blob {
    kiln_tuner_blob_state state;
    kiln_msg_blob_ref ref;
} kiln_tuner_blob;

typedef enum kiln_tuner_final_state {
    KILN_TUNER_FINAL_NONE,
    KILN_TUNER_FINAL_EARLY, /* a judgement is being gathered or measured; NONE follows */
    KILN_TUNER_FINAL_OPEN,  /* the one at the end is */
    KILN_TUNER_FINAL_DONE,
} kiln_tuner_final_state;

/* The finals of a task, and its best so far. Written by finalist.c. */
typedef struct kiln_tuner_finals {
    kiln_tuner_final_state state;
    double best_ns;   /* as reported: the judged time, or that of a candidate that looks clearly
                         faster */
    double gain_low;  /* of it over the default, as a final says; 0: none has shown it */
    double judged_ns; /* of the best of the last final, in turns; 0: there was none */
    double judged_gain_low;  /* of it over the default */
    double alone_ns;         /* the fastest candidate that was in no final; 0: none */
    double late_ns, rest_ns; /* of those that came after the last GATHER, and that it left out */
    uint32_t judged_done;    /* `done` when the last judgement began */
} kiln_tuner_finals;

/* Written by pipeline.c, too. */
typedef struct kiln_tuner_job_task {
    kiln_tuner_task given;  /* texts in the job's arena */
    kiln_tuner_stats stats; /* what observed results promise of further ones */
    bool closed;            /* nothing more is proposed: its share is stored, or its space ended */
    kiln_rest rest;         /* why nothing more is proposed, or no final was */
    const char *error;      /* why it was given up, in the job's arena; NULL: it was not */
    uint32_t next_propose, next_observe;
    uint32_t missing;             /* of those observed: there was no such candidate */
    uint32_t done, failed, raced; /* recorded */
    kiln_tuner_race race;
    const char *home; /* node of the board that measures it, in the job's arena; NULL: none yet */
    bool changed;     /* since the last JOB_EVENT */
    kiln_tuner_finals final;
    kiln_tuner_blob reference; /* what its results are compared with. It is made when the first
                                  candidate is about to be built, so that no task waits for those
                                  of others. */
    kiln_tuner_blob program;   /* its text, of which recipes are made; here with the reference */
    const kiln_tuner_result **stored; /* [stored_end], by index; what an earlier run recorded and
                                         this one has not counted yet; NULL: nothing */
    uint32_t stored_end;
} kiln_tuner_job_task;

/* The job's tasks as PREPARED describes them, which become its own; nothing more is proposed of
 * those whose share is stored. */
kiln_tuner_job_task *kiln_tuner_tasks_create(const kiln_tuner_event *event,
                                             const kiln_msg_job_spec *spec, kiln_arena *job,
                                             uint64_t *out_budget);
/* What an earlier run recorded of that trial, once; NULL: nothing. */
const kiln_tuner_result *kiln_tuner_task_take_stored(kiln_tuner_job_task *task, uint32_t index);
/* Counts a result of the task; returns whether it may be its best. */
bool kiln_tuner_task_count(kiln_tuner_job_task *task, const kiln_tuner_result *result,
                           bool is_default);
/* Takes the times of a final: of the default, and of the best candidate, which bounds later trials
 * (tuner/race.h). */
void kiln_tuner_task_judged(kiln_tuner_job_task *task, double default_ns, double judged_ns);
/* Notes why nothing more is proposed or judged of the task. */
void kiln_tuner_task_set_rest(kiln_tuner_job_task *task, kiln_rest rest);
/* The task is measured on that board from now on; `node` lasts as long as the job. */
void kiln_tuner_task_set_home(kiln_tuner_job_task *task, const char *node);
/* Marks the task for the next JOB_EVENT; `take` returns the mark and clears it. */
void kiln_tuner_task_set_changed(kiln_tuner_job_task *task);
bool kiln_tuner_task_take_changed(kiln_tuner_job_task *task);
/* Invariants (kiln_tuner_check). */
void kiln_tuner_tasks_check(const kiln_tuner_job *job);

#endif
