/* Finals: the fastest candidates of a task are measured again, interleaved with the default
 * schedule, on one board and in one process, by a stricter rule. The fastest of many separate
 * measurements is also the luckiest; a candidate that ships must beat the default when both run
 * side by side.
 *
 * A final is a trial of its own (index KILN_TUNER_FINAL): the default is its artefact, the
 * finalists are its rivals. Each task has one at its end. A judgement is a small final during the
 * search: the default, the winner so far and the fastest candidate that was in no final yet. Its
 * winner is the best of the task from then on, and its losers are not considered again. It is held
 *
 * - for a task whose best promises a gain that no final has shown, or looks faster than the judged
 *   best by KILN_TUNER_JUDGE_STEP;
 * - after each quarter of the task's trials, or when it gets no more while other tasks do;
 * - one at a time, while judgements take no more than KILN_TUNER_JUDGE_SHARE of the time that
 *   boards spend on trials.
 *
 * At the end of a task the last judgement counts, and nothing is measured again, unless a candidate
 * that was in no final looks faster than the judged best. */
#ifndef KILN_TUNER_FINALIST_H
#define KILN_TUNER_FINALIST_H

#include <stdint.h>

#include "proto/proto.h"

/* Share of a job's time that finals are given at most. */
#define KILN_TUNER_FINALS_SHARE 0.3

/* Share of the boards' time for trials that judgements may take. */
#define KILN_TUNER_JUDGE_SHARE 0.03
#define KILN_TUNER_JUDGE_STEP 0.02 /* smaller gains are left to the final at the end */
/* More than two measurements differ by in 95 % of pairs on a quiet board (base/reading.h): a
 * candidate that looks faster than the judged best by this much is reported as the best at once. */
#define KILN_TUNER_CLEAR_STEP 0.04
#define KILN_TUNER_JUDGED_LEAST 2u  /* the default and one candidate */
#define KILN_TUNER_JUDGE_PARTS 4u   /* of a task's trials, after each of which it may be judged */
#define KILN_TUNER_JUDGE_TRIALS 16u /* at least so many between two judgements of a task */

#define KILN_TUNER_FINAL UINT32_MAX /* index of the trial that measures a task's finalists */
/* Candidates beside the default: the fastest, and where there are several pairs of layouts the
 * fastest of the best of those that are not among them, since a network may want another pair. */
#define KILN_TUNER_FINALISTS_FASTEST 3u
#define KILN_TUNER_FINALISTS_PAIRS 2u
#define KILN_TUNER_FINALISTS (KILN_TUNER_FINALISTS_FASTEST + KILN_TUNER_FINALISTS_PAIRS)
_Static_assert(KILN_TUNER_FINALISTS <= KILN_MESSAGES_RIVALS, "a final is one trial");

/* As for a trial, but longer: each of the kernels gets so much. */
extern const kiln_msg_policy kiln_tuner_final_policy;
/* The same pairs at least, but fewer at most. */
extern const kiln_msg_policy kiln_tuner_judge_policy;

/* Result of a finalist. */
typedef struct kiln_tuner_standing {
    double median_ns; /* of one run (base/reading.h); 0 when it did not run right */
    double gain_low;  /* lower end of the 95 % interval of the median of the default's time over its
                         own, from samples taken in the same round; at least 1: it is really faster.
                         The default itself has 1. */
} kiln_tuner_standing;

/* Of the default (place 0) or finalist `place` - 1 in a final's result. */
kiln_tuner_standing kiln_tuner_standing_of(const kiln_msg_trial_result *result, uint32_t place);
/* The same, with the gain over the one in place `other` instead of the default. */
kiln_tuner_standing kiln_tuner_standing_beside(const kiln_msg_trial_result *result, uint32_t place,
                                               uint32_t other);
/* The place that won: the fastest of the default and of those that are really faster. */
uint32_t kiln_tuner_winner(const kiln_msg_trial_result *result);

#endif
