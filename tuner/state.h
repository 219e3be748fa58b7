/* What the tuner's step holds, shared by its files and nobody else. Each calls only those whose
 * functions stand before its own: there are no circles. */
#ifndef KILN_TUNER_STATE_H
#define KILN_TUNER_STATE_H

#include "base/hash.h"
#include "tuner/job.h"
#include "tuner/race.h"
#include "tuner/task_scheduler.h"

#define KILN_TUNER_ARENA_BYTES ((size_t)4 << 10)
#define KILN_TUNER_RETRY_NS UINT64_C(500000000)   /* after a failed upload */
#define KILN_TUNER_RESEND_NS UINT64_C(2000000000) /* of JOB_DONE and LEASE_REQ */
#define KILN_TUNER_IDLE_NS                                                \
    UINT64_C(1000000000) /* a lease without work is given back after this \
                          */
#define KILN_TUNER_SILENCE_NS \
    UINT64_C(300000000000)            /* a sent trial without news: its lease is given up */
#define KILN_TUNER_UPLOADS_MAX 5u     /* failures of one upload on a connection that stays */
#define KILN_TUNER_INDEX_MAX 1000000u /* trials of one task of a job */
#define KILN_TUNER_LOSSES_MAX 10u     /* lost leases of all kinds, started or not */

typedef enum kiln_trial_state {
    KILN_TRIAL_PROPOSING,
    KILN_TRIAL_TO_BUILD, /* by a builder, or by a board that gets it as a recipe */
    KILN_TRIAL_BUILDING,
    KILN_TRIAL_UPLOADING, /* its artefact or its task's reference is not with the tracker yet */
    KILN_TRIAL_READY,     /* waits for a lease */
    KILN_TRIAL_SENT,
    KILN_TRIAL_RECORDING,
    KILN_TRIAL_RECORDED,  /* waits for its turn to be observed */
    KILN_TRIAL_EXHAUSTED, /* there was no such candidate, or its task was given up; waits for its
                             turn to say so */
} kiln_trial_state;

#define KILN_TUNER_ARTEFACTS_MAX (1u + KILN_TUNER_FINALISTS)

/* A trial between PROPOSE and OBSERVE, or a final. */
typedef struct kiln_tuner_trial {
    kiln_trial_state state;
    uint32_t task, index;
    char id[KILN_HASH128_TEXT];
    kiln_msg_blob_ref artefact[KILN_TUNER_ARTEFACTS_MAX]; /* one, or those of the finalists */
    uint32_t artefact_count, up_count; /* how many there are, and are with the tracker */
    bool uploading;                    /* the next one */
    kiln_str trace;                    /* what the artefact is built of; owned */
    bool by_recipe;                    /* sent without an artefact: its board builds it */
    bool is_default;
    uint32_t upload_failures;
    uint64_t upload_again_ns; /* 0: not due */
    uint32_t attempt;         /* 1 for the first */
    uint32_t losses;          /* lost leases */
    uint32_t falls;           /* of boards, while it ran there */
    uint32_t repeats;         /* of results that showed nothing */
    bool started;             /* this attempt was seen running */
    uint64_t lease;           /* when sent */
    uint64_t news_ns;         /* when sent: last sign of it */
    bool from_board;          /* recorded from a TRIAL_RESULT, which is acknowledged with `lease` */
    kiln_outcome outcome;
    double median_ns, least_ns;
    double peak_flops; /* of its board; 0: unknown */
    kiln_assembled assembled;
    bool raced;
} kiln_tuner_trial;

typedef struct kiln_tuner_stored {
    bool have;
    kiln_outcome outcome;
    double median_ns, least_ns, peak_flops;
    kiln_assembled assembled;
    bool raced;
} kiln_tuner_stored;

typedef enum kiln_tuner_final_state {
    KILN_TUNER_FINAL_NONE,
    KILN_TUNER_FINAL_EARLY, /* a judgement is being gathered or measured; NONE follows */
    KILN_TUNER_FINAL_OPEN,  /* the one at the end is */
    KILN_TUNER_FINAL_DONE,
} kiln_tuner_final_state;

/* A blob that all trials of a task need. */
typedef enum kiln_tuner_blob_state {
    KILN_TUNER_BLOB_NONE,
    KILN_TUNER_BLOB_MAKING,
    KILN_TUNER_BLOB_HERE, /* in our store */
    KILN_TUNER_BLOB_UPLOADING,
    KILN_TUNER_BLOB_UP,
} kiln_tuner_blob_state;

typedef struct kiln_tuner_blob {
    kiln_tuner_blob_state state;
    kiln_msg_blob_ref ref;
} kiln_tuner_blob;

typedef struct kiln_tuner_job_task {
    kiln_tuner_task given;    /* texts in the job's arena */
    kiln_tuner_chance chance; /* what observed results promise of further ones */
    bool closed;       /* nothing more is proposed: its share is stored, or its space ended */
    double gain_low;   /* of the best over the default, as a final says; 0: none has shown it */
    kiln_rest rest;    /* why nothing more is proposed, or no final was */
    const char *error; /* why it was given up, in the job's arena; NULL: it was not */
    uint32_t next_propose, next_observe;
    uint32_t missing;             /* of those observed: there was no such candidate */
    uint32_t done, failed, raced; /* recorded */
    double best_ns;   /* as it is told: the judged one's, or that of one who looks clearly faster */
    double judged_ns; /* of the best of the last final, in turns; 0: there was none */
    double judged_gain_low;  /* of it over the default */
    double alone_ns;         /* the fastest that stood in no final; 0: none */
    double late_ns, rest_ns; /* of those that came after the last GATHER, and that it left out */
    uint32_t judged_done;    /* `done` when the last judgement began */
    kiln_tuner_race race;
    kiln_tuner_final_state final;
    const char *home; /* node of the board that measures it, in the job's arena; NULL: none yet */
    bool changed;     /* since the last JOB_EVENT */
    kiln_tuner_blob reference; /* what its results are compared with. It is made when the first
                                  candidate is about to be built, so that no task waits for those
                                  of others. */
    kiln_tuner_blob program;   /* its text, of which recipes are made; here with the reference */
    kiln_tuner_stored *stored; /* [stored_end], by index; what an earlier run recorded and this
                                  one has not counted yet */
    uint32_t stored_end;
} kiln_tuner_job_task;

typedef struct kiln_tuner_lease {
    uint64_t request, lease; /* lease 0: not granted yet */
    uint64_t ask_ns;         /* request: when to repeat it */
    kiln_arena arena;        /* of grant */
    kiln_msg_lease_grant grant;
    uint32_t sent;                    /* trials so far, of K */
    uint64_t renew_ns, idle_since_ns; /* idle 0: it has work */
} kiln_tuner_lease;

typedef enum kiln_tuner_job_state {
    KILN_TUNER_JOB_PREPARING,
    KILN_TUNER_JOB_RUNNING,
    KILN_TUNER_JOB_STOPPING, /* waits for records under way */
    KILN_TUNER_JOB_EXPORTING,
    KILN_TUNER_JOB_UPLOADING, /* the blob of its records */
    KILN_TUNER_JOB_ENDED,     /* JOB_DONE is repeated until JOB_CLOSE */
} kiln_tuner_job_state;

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
    uint64_t budget, proposed;          /* trials of this job: at most, and so far */
    double trials_ns, judging_ns;       /* boards' time for them, and for judgements */
    bool searched;                      /* all trials are over: finals follow */
    KILN_VEC(kiln_tuner_trial *) trial; /* in order of proposal */
    KILN_VEC(kiln_tuner_lease *) lease;
    kiln_code code;   /* how it ends */
    const char *text; /* in arena; NULL: fine */
    kiln_digest records;
    uint32_t upload_failures;
    uint64_t again_ns; /* JOB_DONE or the upload of records: when to repeat; 0: not due */
    uint64_t event_ns; /* when the next JOB_EVENT may go */
    bool told_lonely;  /* that no board builds for it */
} kiln_tuner_job;

struct kiln_tuner {
    kiln_tuner_options options;
    kiln_link link;
    KILN_VEC(kiln_tuner_job *) job;
    uint64_t last_handle, last_request;
    /* Of the step under way. */
    uint64_t now_ns;
    kiln_tuner_actions *actions;
};

/* effects.c */
kiln_tuner_action *kiln_tuner_act(kiln_tuner *t, kiln_tuner_action_kind kind);
/* An action that names the job (and the trial, when not NULL). */
kiln_tuner_action *kiln_tuner_act_on(kiln_tuner_job *job, kiln_tuner_action_kind kind,
                                     const kiln_tuner_trial *trial);
void kiln_tuner_send(
    kiln_tuner *t,
    const kiln_message *message); /* deep copy; dropped when there is no connection */
void kiln_tuner_upload(kiln_tuner *t, const kiln_digest *digest);

/* job_parts.c */
kiln_tuner_trial *kiln_tuner_trial_find(kiln_tuner_job *job, uint32_t task, uint32_t index);
void kiln_tuner_trial_remove(kiln_tuner_job *job, kiln_tuner_trial *trial);
/* Candidates and references that builders have, over all jobs. */
uint32_t kiln_tuner_builds_busy(const kiln_tuner *t);
void kiln_tuner_lease_remove(kiln_tuner_job *job, kiln_tuner_lease *lease);
/* Tells the tracker, and removes it; `drop`: all of the job. */
void kiln_tuner_lease_release(kiln_tuner_job *job, kiln_tuner_lease *lease);
void kiln_tuner_leases_drop(kiln_tuner_job *job);
/* When its time is up; UINT64_MAX: never. */
uint64_t kiln_tuner_job_end_ns(const kiln_tuner_job *job);
/* Trials that a task is expected to get: those that it had, and its part of the rest. */
uint32_t kiln_tuner_job_expects(const kiln_tuner_job *job, const kiln_tuner_job_task *task);

/* finalist.c */
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

/* job_end.c */
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

/* recipes.c */
bool kiln_tuner_board_builds(const kiln_tuner *t, const kiln_tuner_lease *lease);
/* Whether the board is to build candidates itself now: it can, our builders have all that they can
 * take, and it would soon wait. `in_flight`: trials that it has. */
bool kiln_tuner_wants_recipes(const kiln_tuner_job *job, const kiln_tuner_lease *lease,
                              uint32_t in_flight);
/* Whether the trial can go to such a board. */
bool kiln_tuner_recipe_is_ready(const kiln_tuner_job *job, const kiln_tuner_trial *trial);
/* Of a trial that is sent by recipe. */
kiln_msg_recipe kiln_tuner_recipe_of(const kiln_tuner_job *job, const kiln_tuner_trial *trial);
/* Tells the client, once, that nothing happens before a board comes that builds; and when. */
void kiln_tuner_tell_lonely(kiln_tuner_job *job);
uint64_t kiln_tuner_lonely_ns(const kiln_tuner_job *job);
/* Whether the trial waits for its task's blobs to be with the tracker, so that it can go. */
bool kiln_tuner_recipe_is_wanted(const kiln_tuner_job *job, const kiln_tuner_trial *trial);

/* pipeline.c */
/* Nothing of the task can be measured: its trials are dropped, and others may have them. The job
 * goes on while it has another task, else it stops with this end. */
void kiln_tuner_task_give_up(kiln_tuner_job *job, uint32_t task, kiln_code code, kiln_str text);
/* Proposes, observes, builds and uploads whatever can be. */
void kiln_tuner_pipeline_advance(kiln_tuner_job *job);
void kiln_tuner_builds_start(kiln_tuner *t);
void kiln_tuner_reference_made(kiln_tuner_job *job, const kiln_tuner_event *event);
void kiln_tuner_trial_proposed(kiln_tuner_job *job, const kiln_tuner_event *event);
void kiln_tuner_trial_built(kiln_tuner_job *job, const kiln_tuner_event *event);
void kiln_tuner_trial_uploaded(kiln_tuner_job *job, const kiln_tuner_event *event);
void kiln_tuner_trial_recorded(kiln_tuner_job *job, const kiln_tuner_event *event);
/* Records an end that no board told. */
void kiln_tuner_trial_fail(kiln_tuner_job *job, kiln_tuner_trial *trial, kiln_outcome outcome,
                           const char *text);
/* It was sent and has to go again: with its artefact, or it is built anew. */
void kiln_tuner_trial_requeue(kiln_tuner_trial *trial);
/* Its blobs must be (made sure to be) with the tracker again. */
void kiln_tuner_trial_reupload(kiln_tuner_job *job, kiln_tuner_trial *trial);
/* Takes back what no board has: there is no more time for trials. */
void kiln_tuner_drop_unsent(kiln_tuner_job *job);
bool kiln_tuner_pipeline_is_done(const kiln_tuner_job *job);

/* lease.c */
/* Asks for boards, sends trials, gives boards back. */
void kiln_tuner_leases_advance(kiln_tuner_job *job);
void kiln_tuner_leases_reconnected(kiln_tuner_job *job);
uint64_t kiln_tuner_leases_next_ns(const kiln_tuner_job *job);
void kiln_tuner_on_grant(kiln_tuner *t, const kiln_message *message);
void kiln_tuner_on_lost(kiln_tuner *t, const kiln_msg_lease_lost *lost);
void kiln_tuner_on_error(kiln_tuner *t, const kiln_msg_error *error);
void kiln_tuner_on_trial_event(kiln_tuner *t, const kiln_msg_trial_event *event);
void kiln_tuner_on_result(kiln_tuner *t, const kiln_msg_trial_result *result);

/* job.c */
void kiln_tuner_job_assign(kiln_tuner *t, const kiln_msg_job_assign *assign);
void kiln_tuner_job_prepared(kiln_tuner_job *job, const kiln_tuner_event *event);
void kiln_tuner_job_exported(kiln_tuner_job *job, const kiln_tuner_event *event);
void kiln_tuner_job_records_uploaded(kiln_tuner_job *job, const kiln_tuner_event *event);
/* Frees it. `end`: how it ended; an open state where it goes on elsewhere. */
void kiln_tuner_job_forget(kiln_tuner_job *job, kiln_job_state end);
/* How it ended here; an open state: it did not. */
kiln_job_state kiln_tuner_job_end_of(const kiln_tuner_job *job);
/* Another tuner claimed it: it begins anew. */
void kiln_tuner_job_claim_lost(kiln_tuner_job *job);
void kiln_tuner_job_tick(kiln_tuner_job *job);
void kiln_tuner_job_reconnected(kiln_tuner_job *job);
uint64_t kiln_tuner_job_next_ns(const kiln_tuner_job *job);

#endif
