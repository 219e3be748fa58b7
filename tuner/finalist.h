/* The end of a task: its fastest candidates are measured anew, in turns with the default schedule,
 * on one board and in one process, by a stricter rule. What is fastest of many measured alone is
 * also the luckiest; what is shipped must be faster than the default when both run side by side.
 *
 * A final is a trial of its own (index KILN_TUNER_FINAL): the default is its artefact, the
 * finalists are its rivals. */
#ifndef KILN_TUNER_FINALIST_H
#define KILN_TUNER_FINALIST_H

#include <stdint.h>

#include "proto/proto.h"

/* Share of a job's time that finals are given at most. */
#define KILN_TUNER_FINALS_SHARE 0.3

#define KILN_TUNER_FINAL UINT32_MAX /* index of the trial that measures a task's finalists */
/* Candidates beside the default: the fastest, and where there are several pairs of layouts the
 * fastest of the best of those that are not among them, since a network may want another pair. */
#define KILN_TUNER_FINALISTS_FASTEST 3u
#define KILN_TUNER_FINALISTS_PAIRS 2u
#define KILN_TUNER_FINALISTS (KILN_TUNER_FINALISTS_FASTEST + KILN_TUNER_FINALISTS_PAIRS)
_Static_assert(KILN_TUNER_FINALISTS <= KILN_MESSAGES_RIVALS, "a final is one trial");

/* As for a trial, but longer: each of the kernels gets so much. */
extern const kiln_msg_policy kiln_tuner_final_policy;

/* How a finalist did. */
typedef struct kiln_tuner_standing {
    double median_ns; /* of one run (base/reading.h); 0 when it did not run right */
    double gain_low;  /* lower end of the 95 % interval of the median of the default's time over its
                         own, from the  samples that were taken together; at least 1: it is really
                         faster. The  default  itself has 1. */
} kiln_tuner_standing;

/* Of the default (place 0) or finalist `place` - 1 in a final's result. */
kiln_tuner_standing kiln_tuner_standing_of(const kiln_msg_trial_result *result, uint32_t place);

#endif
