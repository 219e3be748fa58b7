/* Candidates that boards build: which boards get recipes instead of artefacts, and when. */
#ifndef KILN_TUNER_RECIPES_H
#define KILN_TUNER_RECIPES_H

#include "tuner/jobs.h"

bool kiln_tuner_board_builds(const kiln_tuner *t, const kiln_tuner_lease *lease);
/* Whether the board should build candidates itself now: it can, our builders are all busy, and it
 * would soon wait. `in_flight`: trials that it has. */
bool kiln_tuner_wants_recipes(const kiln_tuner_job *job, const kiln_tuner_lease *lease,
                              uint32_t in_flight);
/* Whether the trial can go to such a board. */
bool kiln_tuner_recipe_is_ready(const kiln_tuner_job *job, const kiln_tuner_trial *trial);
/* The recipe of a trial that is sent by recipe. */
kiln_msg_recipe kiln_tuner_recipe_of(const kiln_tuner_job *job, const kiln_tuner_trial *trial);
/* Tells the client that nothing happens before a board comes that builds, once it is time for that;
 * returns whether it did. */
bool kiln_tuner_tell_no_builder(kiln_tuner_job *job);
uint64_t kiln_tuner_no_builder_ns(const kiln_tuner_job *job);
/* Whether the trial waits for its task's blobs to be with the tracker, so that it can go. */
bool kiln_tuner_recipe_is_wanted(const kiln_tuner_job *job, const kiln_tuner_trial *trial);

#endif
