/* The tuner's decisions: from a job to its records. Pure: `step` gets the time and one event, and
 * leaves actions for the shell (tuner/main.c: searchers, builder processes, database, socket) or
 * the simulator to carry out in order.
 *
 *     JOB_ASSIGN ─ PREPARE ─> tasks ─ PROPOSE ─> candidates ─ BUILD ─> artefacts ─┐
 *                                        ^                          UPLOAD, TRIAL │
 *                                        └─ OBSERVE, in trial order <─ RECORD <─ results
 *
 * Its rules:
 *
 * - Trials of a job have one order: that of their proposals. Results are observed in that order,
 *   whatever order boards answer in. A proposal is made whenever the window and the lags allow it,
 *   else the next result is observed; which task proposes depends on observed results alone
 *   (task_scheduler.h). So the same seed and the same results give the same proposals in the same
 *   order.
 * - At most KILN_TUNER_WINDOW trials of a job lie between proposal and observation, and of one task
 *   at most kiln_tuner_lag of its next index.
 * - A trial has one identity (job, task, index) and one record: a result that comes twice, late, or
 *   under an old lease changes nothing. TRIAL_ACK follows the commit.
 * - A trial whose board goes down KILN_TUNER_ATTEMPTS_MAX times is recorded as board_lost.
 * - While all builders are busy and a board that builds with their codegen version would wait, the
 *   board gets a recipe (task, trace) instead of an artefact: every builder makes the same object.
 * - A candidate that is clearly slower than the best ones is stopped early (race.h).
 * - Samples that their board calls out of band are taken again, KILN_TUNER_ATTEMPTS_MAX times in
 *   all. A task stays on one board while other boards have work.
 * - When all trials are observed the finalists of each task are measured again, unless a judgement
 *   during the search still holds (finalist.h). Judgements decide what is shown, shipped and raced
 *   against, but not what is proposed next: that is the same whether a judgement was made or lost.
 * - A tuner that loses its claim on a job gives its leases back and drops what is not measured;
 * when it gets the claim again, it goes on from the stored records.
 * - After a restart the shell gives the stored records back (`stored` of PREPARED); their trials
 * are proposed and observed again, so that the searcher is where it was, but neither built nor
 *   measured.
 * - `trials` of a job bounds its new measurements over all tasks, less those stored; schedules
 *   written by hand come on top and are measured first. `seconds` bounds the time from assignment
 * to the end of the finals, which have a share of it; where it alone bounds the job, tasks that
 *   promise too little get no further trial (task_scheduler.h). With neither bound each task has
 *   KILN_TUNER_TRIALS_DEFAULT trials. */
#ifndef KILN_TUNER_TUNER_H
#define KILN_TUNER_TUNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/vec.h"
#include "proto/proto.h"
#include "tuner/finalist.h"
#include "tuner/task_scheduler.h"

#define KILN_TUNER_JOBS_MAX 64u
#define KILN_TUNER_TASKS_MAX KILN_MESSAGES_TASKS /* of one job */
#define KILN_TUNER_TRIALS_DEFAULT 32u            /* per task, when the job names no budget */
#define KILN_TUNER_LAG_MIN 8u /* trials of one task between proposal and result: first ones */
#define KILN_TUNER_LAG_MAX 24u
#define KILN_TUNER_WINDOW 32u /* trials of one job between proposal and result, over all tasks */
#define KILN_TUNER_LEASE_TRIALS 64u /* K */
#define KILN_TUNER_LEASE_TTL_MS 15000u
#define KILN_TUNER_LEASES_MAX 64u /* of one job: boards used at once */
#define KILN_TUNER_BOARD_DEPTH \
    3u /* trials sent to one lease at a time: one runs, the others' blobs are brought */
#define KILN_TUNER_BOARD_BUILDS                                                                   \
    2u /* a board that builds gets recipes while it has fewer trials: it builds one while another \
          runs */
#define KILN_TUNER_NO_BUILDER_NS                                                                  \
    UINT64_C(10000000000) /* after this time without builders and boards that build the client is \
                             told */
#define KILN_TUNER_ATTEMPTS_MAX 3u
#define KILN_TUNER_EVENT_NS UINT64_C(250000000) /* between progress events */

typedef struct kiln_tuner kiln_tuner;

typedef struct kiln_tuner_options {
    uint32_t builders;   /* candidates built at once, over all jobs; 0: boards build them all, and
                            only such boards are asked for */
    const char *codegen; /* version of our builders; outlives the tuner. Boards that build with the
                            same one may get recipes. NULL: none does */
    uint64_t seed;       /* of the jitter between dials */
} kiln_tuner_options;

/* A task as PREPARED describes it. */
typedef struct kiln_tuner_task {
    kiln_str key, op;      /* for messages */
    uint32_t weight;       /* calls per inference; 0: only in place of others */
    uint32_t stored_count; /* records of other models' jobs: they count towards this task's share */
    uint32_t repeat_count; /* records of earlier jobs on this model: they count towards the whole */
    uint32_t by_hand_count; /* schedules written by hand that no record has: they are proposed
                               first, beside the task's share */
    double flops;           /* of one call, in the direct form */
    double least_flops;     /* of one call by the algorithm that needs the fewest */
    double best_ns;         /* of those records; 0: none */
    double default_ns;      /* median of the default schedule where known; 0: unknown */
    double peak_flops;      /* of the boards that measured it before; 0: unknown */
    uint64_t input_seed;    /* of the inputs that boards make */
    kiln_str error;         /* why it cannot be searched; empty: it can */
} kiln_tuner_task;

/* A fused task and the tasks that it can replace; all by their place in the list. */
typedef struct kiln_tuner_alternative {
    uint32_t task, count, instead_of[KILN_TUNER_ROW];
    double times; /* per inference */
} kiln_tuner_alternative;

/* How trial `index` of `task` ended, as it is recorded and observed. */
typedef struct kiln_tuner_result {
    uint32_t task, index;
    kiln_outcome outcome;
    double median_ns;  /* of one run; 0 unless ok */
    double least_ns;   /* the same of the samples' least */
    bool raced;        /* stopped early: median_ns is a lower bound, and no best */
    double peak_flops; /* that its board reached beside it; 0: unknown */
    kiln_assembled assembled;
} kiln_tuner_result;

typedef enum kiln_tuner_event_kind {
    KILN_TUNER_OPENED,   /* the dialled connection is open */
    KILN_TUNER_CLOSED,   /* it closed, or could not be made */
    KILN_TUNER_MESSAGE,  /* message from the tracker */
    KILN_TUNER_PREPARED, /* job, task..., alternative..., stored..., failure: PREPARE is done */
    KILN_TUNER_PROPOSED, /* job, task, index, trace, exhausted, is_default: PROPOSE is done; the
                            shell keeps the candidate under (job, task, index) until OBSERVE.
                            exhausted: the space has no further candidate. is_default: it is the
                            default schedule. */
    KILN_TUNER_BUILT,    /* job, task, index, outcome, artefact, assembled, text: BUILD is done; the
                            artefact is in our store */
    KILN_TUNER_REFERENCED, /* job, task, artefact, program, failure: REFERENCE is done; it and the
                              task's text are blobs in our store */
    KILN_TUNER_UPLOADED,   /* digest, failure: UPLOAD is done */
    KILN_TUNER_RECORDED,   /* job, task, index, failure: RECORD is committed (or cannot be: the job
                              ends) */
    KILN_TUNER_GATHERED,   /* job, task, finalist..., alone_ns: GATHER is done; the artefacts are in
                              our store, the default's first. Fewer than two: there is no final. */
    KILN_TUNER_EXPORTED,   /* job, digest, failure: EXPORT is done; the blob is in our store */
    KILN_TUNER_CLAIM_LOST, /* job: another tuner works on it. It begins anew, and PREPARE waits for
                              the end of the other's claim. */
    KILN_TUNER_TICK,       /* at kiln_tuner_next_ns, or more often */
} kiln_tuner_event_kind;

typedef struct kiln_tuner_event {
    kiln_tuner_event_kind kind;
    const kiln_message *message;
    uint64_t job; /* handle given by PREPARE; unknown ones are ignored */
    const kiln_tuner_task *task_list;
    uint32_t task_count;
    const kiln_tuner_alternative *alternative; /* PREPARED, as the tasks */
    uint32_t alternative_count;
    const kiln_tuner_result *stored; /* this job's own committed results, in any order */
    uint32_t stored_count;
    uint64_t spent_ns; /* PREPARED: what earlier runs used of the job's time */
    uint32_t task, index;
    bool exhausted, is_default;
    kiln_outcome outcome; /* BUILT: OK, or BUILD_ERROR, LINK_ERROR, TIMEOUT, CRASH, INFRA */
    kiln_msg_blob_ref artefact, program;
    kiln_assembled assembled; /* BUILT, whatever its outcome */
    kiln_str trace;           /* binary form; copied */
    const kiln_msg_blob_ref *finalist;
    uint32_t finalist_count;
    double alone_ns; /* GATHERED: of the fastest that is and was in no final; 0: none */
    kiln_digest digest;
    const char *text;    /* BUILT: error text for the record */
    kiln_code code;      /* of failure */
    const char *failure; /* NULL: it worked */
} kiln_tuner_event;

typedef enum kiln_tuner_action_kind {
    KILN_TUNER_DIAL,
    KILN_TUNER_HANG_UP,
    KILN_TUNER_SEND,    /* message to the tracker; dropped when there is no connection */
    KILN_TUNER_PREPARE, /* fetch and import the model of `spec` (job identity `text`), find tasks,
                           look up stored records; PREPARED follows */
    KILN_TUNER_PROPOSE, /* ask the searcher of (job, task) for candidate `index`; PROPOSED follows
                         */
    KILN_TUNER_BUILD, /* build it in a worker; BUILT follows. At most `builders` are out at a time.
                       */
    KILN_TUNER_REFERENCE, /* make the reference of (job, task) in a worker; REFERENCED follows. It
                             counts as a build; without builders one is made at a time. */
    KILN_TUNER_UPLOAD,    /* give blob `digest` to the tracker; UPLOADED follows */
    KILN_TUNER_RECORD,    /* write the record of (job, task, index): from `result` (a board's), or
                             `outcome` and `text` when no board answered; RECORDED follows after the
                             commit. What a board built is told in `result`. `grant` is the
                             lease's. Of a final (index KILN_TUNER_FINAL): a record for each of the
                             finalists, from `result` and its rivals. */
    KILN_TUNER_OBSERVE,   /* tell the searcher and the model of (job, task) how candidate `index`
                             ended; forget the candidate */
    KILN_TUNER_GATHER, /* find the default and the finalists (finalist.h) of (job, task) among all
                           its records, and build what is not in our store; GATHERED follows.
                           early: those of a judgement within the search. */
    KILN_TUNER_EXPORT, /* write the job's records as a JSON-lines blob; EXPORTED follows */
    KILN_TUNER_FORGET, /* the job is over here: free what the shell keeps for it. `text`: how it
                          ended, for its row; NULL: it goes on, here or elsewhere */
} kiln_tuner_action_kind;

typedef struct kiln_tuner_action {
    kiln_tuner_action_kind kind;
    kiln_message message;
    uint64_t job; /* handle, unique in this run */
    const kiln_msg_job_spec *spec;
    kiln_str trusted; /* PREPARE: as in JOB_ASSIGN */
    const char *text; /* PREPARE: job identity. RECORD: error text, may be empty. FORGET: see
                         there. */
    uint32_t task, index, attempt;
    const char *trial; /* RECORD: identity of the trial */
    kiln_digest digest;
    kiln_outcome outcome;                /* RECORD, OBSERVE */
    kiln_blame blame;                    /* RECORD */
    double least_ns;                     /* OBSERVE: of one run, the least sample; 0 unless ok.
                                            What disturbs a measurement makes it longer, so it
                                            ranks candidates better than their median. */
    kiln_assembled assembled;            /* RECORD, OBSERVE: what is known of the candidate */
    bool raced;                          /* OBSERVE: it lost after its first samples */
    bool early;                          /* GATHER */
    const kiln_msg_trial_result *result; /* RECORD; NULL when no board answered */
    const kiln_msg_lease_grant *grant;   /* RECORD: board, device; NULL when no board answered */
} kiln_tuner_action;

typedef struct kiln_tuner_actions {
    kiln_arena arena;
    KILN_VEC(kiln_tuner_action) list;
} kiln_tuner_actions;

/* Copies the options. Never NULL; destroy accepts NULL. */
kiln_tuner *kiln_tuner_create(const kiln_tuner_options *options, uint64_t now_ns);
void kiln_tuner_destroy(kiln_tuner *tuner);
/* Decides. Appends to `actions`, which the caller owns and resets. `now_ns` never goes back. Cost:
 * O(jobs x window) per event. */
void kiln_tuner_step(kiln_tuner *tuner, uint64_t now_ns, const kiln_tuner_event *event,
                     kiln_tuner_actions *actions);
uint64_t kiln_tuner_next_ns(const kiln_tuner *tuner);
/* Aborts where what one owner of the tuner's state holds contradicts itself or another's, between
 * two steps. For tests, the simulator and debug builds. */
void kiln_tuner_check(const kiln_tuner *tuner);

/* Empties the list and keeps its memory; deinit frees it. */
void kiln_tuner_actions_reset(kiln_tuner_actions *actions);
void kiln_tuner_actions_deinit(kiln_tuner_actions *actions);

/* Trials that a job may measure (UINT64_MAX: the time bounds them), and which tasks get none of
 * them: out_closed [count]. Of `trials` each task has an equal share, the first ones one more; what
 * is stored of a share is not measured again. Schedules written by hand come on top. */
uint64_t kiln_tuner_budget(const kiln_msg_job_spec *spec, const kiln_tuner_task *task,
                           uint32_t count, bool *out_closed);

/* Trials of one task that may lie between proposal and observation when `index` is proposed: few at
 * first, when each result changes what is learned, more later, when boards should not wait. */
static inline uint32_t kiln_tuner_lag(uint32_t index) {
    uint32_t lag = KILN_TUNER_LAG_MIN + index / 16;
    return lag < KILN_TUNER_LAG_MAX ? lag : KILN_TUNER_LAG_MAX;
}

/* How a trial is measured in a search: when to stop sampling, and deadlines. */
typedef struct kiln_search_measure {
    kiln_msg_policy policy;
    kiln_msg_phases deadlines_ms;
} kiln_search_measure;
const kiln_search_measure *kiln_search_measure_of(bool emulated);

/* Identity of trial `index` of a task of a job: the same in every run of every tuner. */
void kiln_trial_identity(kiln_str job, kiln_str task_key, uint32_t index,
                         char out_text[KILN_HASH128_TEXT]);

#endif
