/* Trials of a job: the states that each goes through, and what is known of it. A final is a trial,
 * too (index KILN_TUNER_FINAL). */
#ifndef KILN_TUNER_TRIALS_H
#define KILN_TUNER_TRIALS_H

#include "base/hash.h"
#include "tuner/effects.h"

#define KILN_TUNER_ARTEFACTS_MAX (1u + KILN_TUNER_FINALISTS)

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
                             turn to be observed */
} kiln_trial_state;

/* A trial between PROPOSE and OBSERVE, or a final. Written by pipeline.c, too. */
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
    kiln_tuner_result result; /* once it has one; `assembled` from its build on */
} kiln_tuner_trial;

typedef struct kiln_tuner_trials { /* in order of proposal */
    KILN_TUNER_LIST(kiln_tuner_trial *);
} kiln_tuner_trials;

/* Appends a trial that is to be proposed, or a final. `id`: its identity. */
kiln_tuner_trial *kiln_tuner_trial_add(kiln_tuner_job *job, uint32_t task, uint32_t index,
                                       const char id[KILN_HASH128_TEXT]);
kiln_tuner_trial *kiln_tuner_trial_find(kiln_tuner_job *job, uint32_t task, uint32_t index);
/* Frees it. */
void kiln_tuner_trial_remove(kiln_tuner_job *job, kiln_tuner_trial *trial);
/* The trial is built: these artefacts are to be uploaded. */
void kiln_tuner_trial_set_artefacts(kiln_tuner_trial *trial, const kiln_msg_blob_ref *artefact,
                                    uint32_t count);
/* The trial was sent to the board of this lease, as a recipe if it is not built. */
void kiln_tuner_trial_sent(kiln_tuner_trial *trial, uint64_t lease, uint64_t now_ns);
/* News of the trial came; `runs`: the code of its candidate is running. */
void kiln_tuner_trial_heard(kiln_tuner_trial *trial, uint64_t now_ns, bool runs);
/* A trial that was sent must be sent again, or built first if it was sent as a recipe. */
void kiln_tuner_trial_requeue(kiln_tuner_trial *trial);
/* The same when its lease ended; returns whether its board was lost while it ran there. */
bool kiln_tuner_trial_lost(kiln_tuner_trial *trial, bool board_lost);
void kiln_tuner_trial_next_attempt(kiln_tuner_trial *trial);
/* The same after a result that showed nothing. */
void kiln_tuner_trial_repeat(kiln_tuner_trial *trial);
/* Its board measured it: the result is to be recorded. */
void kiln_tuner_trial_measured(kiln_tuner_trial *trial, const kiln_tuner_result *result);
/* Invariants (kiln_tuner_check). */
void kiln_tuner_trials_check(const kiln_tuner_job *job);

#endif
