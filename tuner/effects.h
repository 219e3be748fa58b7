/* What a step does to the outside, and what all owners need of it: the connection to the tracker,
 * the time, and the actions that the step leaves for the shell. */
#ifndef KILN_TUNER_EFFECTS_H
#define KILN_TUNER_EFFECTS_H

#include "tuner/tuner.h"

typedef struct kiln_tuner_job kiln_tuner_job;
typedef struct kiln_tuner_trial kiln_tuner_trial;

/* The fields of a vector (base/vec.h) that is a struct of its own name, so that it has an owner. */
#define KILN_TUNER_LIST(type) \
    type *data;               \
    uint32_t count, capacity

/* Written by step.c. */
typedef struct kiln_tuner_effects {
    kiln_link link;              /* to the tracker */
    uint64_t now_ns;             /* of the step under way */
    kiln_tuner_actions *actions; /* of the step under way; NULL: none is */
} kiln_tuner_effects;

bool kiln_tuner_is_linked(const kiln_tuner *t);

/* Lasts until the actions of the step are carried out. */
kiln_arena *kiln_tuner_step_arena(const kiln_tuner *t);
kiln_tuner_action *kiln_tuner_act(kiln_tuner *t, kiln_tuner_action_kind kind);
/* An action that names the job (and the trial, when not NULL). */
kiln_tuner_action *kiln_tuner_act_on(kiln_tuner_job *job, kiln_tuner_action_kind kind,
                                     const kiln_tuner_trial *trial);
/* Copied deeply; dropped when there is no connection. */
void kiln_tuner_send(kiln_tuner *t, const kiln_message *message);
void kiln_tuner_upload(kiln_tuner *t, const kiln_digest *digest);
/* Tells the board that the result of this attempt needs no repeating. */
void kiln_tuner_acknowledge(kiln_tuner *t, kiln_str trial, uint32_t attempt, uint64_t lease);

#endif
