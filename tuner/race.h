/* Early stopping: a bound goes with each TRIAL, computed from the results of its task so far. The
 * board stops a kernel whose first samples are all slower; its time is recorded as a lower bound.
 * Pure. */
#ifndef KILN_TUNER_RACE_H
#define KILN_TUNER_RACE_H

#include <stdint.h>

/* A candidate that could still be among the fastest so many is not stopped: more than the finalists
 * of a task. */
#define KILN_TUNER_RACE_RANK 5u
/* A candidate within this factor of the best is not stopped. The factor is large on purpose: the
 * model needs exact times near the best, and of slow candidates only that they are slow. Of the
 * recorded logs in tests/replay/logs it would have stopped 1 to 7 % of 500 trials of a dense
 * convolution, and half of those of a depthwise one; 1.5 would have stopped 9 to 39 and 82 %. */
#define KILN_TUNER_RACE_FACTOR 2.0

typedef struct kiln_tuner_race {
    double fastest_ns[KILN_TUNER_RACE_RANK]; /* ascending */
    uint32_t count;
} kiln_tuner_race;

/* A right result, measured to its end. */
void kiln_tuner_race_take(kiln_tuner_race *race, double median_ns);
/* No candidate counts as faster than the judged best: those that looked faster were lucky. */
void kiln_tuner_race_judge(kiln_tuner_race *race, double judged_ns);
/* 0: no candidate is stopped yet. */
double kiln_tuner_race_bound_ns(const kiln_tuner_race *race);

#endif
