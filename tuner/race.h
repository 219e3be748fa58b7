/* When a candidate has lost: the bound that goes with each TRIAL, from the results of its task so
 * far. A kernel whose first samples are all slower is stopped by its board; what was measured is
 * recorded as a lower bound of its time. Pure. */
#ifndef KILN_TUNER_RACE_H
#define KILN_TUNER_RACE_H

#include <stdint.h>

/* Nobody is stopped who could still be among so many: more than the finalists of a task. */
#define KILN_TUNER_RACE_RANK 5u
/* Nor who is within this factor of the best. Far from it on purpose: a model learns from exact
 * times near the best, and of what lies further only that it does. Of the recorded logs in
 * tuner/measure/replay/logs it would have stopped 1 to 7 % of 500 trials of a dense convolution,
 * and half of those of a depthwise one; 1.5 would have stopped 9 to 39 and 82 %. */
#define KILN_TUNER_RACE_FACTOR 2.0

typedef struct kiln_tuner_race {
    double fastest_ns[KILN_TUNER_RACE_RANK]; /* ascending */
    uint32_t count;
} kiln_tuner_race;

/* A right result, measured to its end. */
void kiln_tuner_race_take(kiln_tuner_race *race, double median_ns);
/* Nothing is faster than what was judged in turns: who looked faster alone was lucky. */
void kiln_tuner_race_judge(kiln_tuner_race *race, double judged_ns);
/* 0: nobody is stopped yet. */
double kiln_tuner_race_bound_ns(const kiln_tuner_race *race);

#endif
