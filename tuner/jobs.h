/* Jobs of a tuner, and what is left of the budget of each. */
#ifndef KILN_TUNER_JOBS_H
#define KILN_TUNER_JOBS_H

#include "tuner/leases.h"
#include "tuner/tasks.h"

#define KILN_TUNER_ARENA_BYTES ((size_t)4 << 10)
#define KILN_TUNER_RETRY_NS UINT64_C(500000000)   /* after a failed upload */
#define KILN_TUNER_RESEND_NS UINT64_C(2000000000) /* of JOB_DONE and LEASE_REQ */
#define KILN_TUNER_UPLOADS_MAX 5u /* failures of one upload on a connection that stays */

typedef enum kiln_tuner_job_state {
    KILN_TUNER_JOB_PREPARING,
    KILN_TUNER_JOB_RUNNING,
    KILN_TUNER_JOB_STOPPING, /* waits for records under way */
    KILN_TUNER_JOB_EXPORTING,
    KILN_TUNER_JOB_UPLOADING, /* the blob of its records */
    KILN_TUNER_JOB_ENDED,     /* JOB_DONE is repeated until JOB_CLOSE */
} kiln_tuner_job_state;

/* What a job used of its boards' time. Written by finalist.c. */
typedef struct kiln_tuner_spent {
    double trials_ns, judging_ns; /* for trials, and for judgements */
} kiln_tuner_spent;

/* Written by job_life.c and job_end.c, too. */
typedef struct kiln_tuner_job {
    kiln_tuner *tuner;
    uint64_t handle;
    kiln_arena arena;
    const char *id, *run; /* run: of those of this id; may be empty */
    const char *identity; /* of both: that of its records */
    kiln_msg_job_spec spec;
    kiln_str trusted; /* as in JOB_ASSIGN */
    bool emulated;    /* its target is: times say little */
    kiln_tuner_job_state state;
    uint64_t began_ns;
    kiln_tuner_job_task *task;
    uint32_t task_count;
    uint64_t budget; /* trials of this job at most */
    kiln_tuner_spent spent;
    bool searched; /* all trials are over: finals follow */
    kiln_tuner_trials trial;
    kiln_tuner_leases lease;
    kiln_code code;   /* how it ends */
    const char *text; /* in arena; NULL: fine */
    kiln_digest records;
    uint32_t upload_failures;
    uint64_t again_ns;    /* JOB_DONE or the upload of records: when to repeat; 0: not due */
    uint64_t event_ns;    /* when the next JOB_EVENT may go */
    bool told_no_builder; /* that no board builds for it */
} kiln_tuner_job;

typedef struct kiln_tuner_jobs {
    KILN_TUNER_LIST(kiln_tuner_job *);
    uint64_t last_handle;
} kiln_tuner_jobs;

/* Appends an empty job with a handle and an arena; `free` removes it. */
kiln_tuner_job *kiln_tuner_job_add(kiln_tuner *t);
void kiln_tuner_job_free(kiln_tuner_job *job);
/* NULL: none has that handle, or that identity. */
kiln_tuner_job *kiln_tuner_job_find(kiln_tuner *t, uint64_t handle);
kiln_tuner_job *kiln_tuner_job_find_by_id(kiln_tuner *t, kiln_str id);

/* Trials that were proposed so far, without those that there was no candidate for. */
uint64_t kiln_tuner_job_proposed(const kiln_tuner_job *job);
/* Trials that a task is expected to get: those that it had, and its part of the rest. */
uint32_t kiln_tuner_job_expects(const kiln_tuner_job *job, const kiln_tuner_job_task *task);
/* When its time is up; UINT64_MAX: never. */
uint64_t kiln_tuner_job_end_ns(const kiln_tuner_job *job);
/* Candidates and references that builders have, over all jobs. */
uint32_t kiln_tuner_builds_busy(const kiln_tuner *t);
/* Invariants (kiln_tuner_check). */
void kiln_tuner_jobs_check(const kiln_tuner *t);

#endif
