/* Recorded trials as cost models see them, and what is asked of a model. */
#ifndef KILN_TESTS_BENCH_COST_H
#define KILN_TESTS_BENCH_COST_H

#include "base/alloc.h"
#include "base/figures.h"
#include "base/str.h"
#include "base/vec.h"
#include "tuner/model/model.h"

typedef struct cost_trial {
    double ns;
    kiln_encoding exact, autotvm; /* of the target's features, of the baseline's */
    char *decisions;              /* "3;5;4,1": of each sampler */
} cost_trial;

typedef struct cost_task {
    const char *name; /* of the database */
    kiln_str op, key;
    KILN_VEC(cost_trial) trial;
} cost_task;

typedef struct cost_speed {
    double replay_ns, features_ns;
    uint32_t count;
} cost_speed;

typedef struct cost_data {
    KILN_VEC(cost_task) task;
    cost_speed speed;
    kiln_figures calibration; /* of all targets; empty: the table's figures hold */
} cost_data;

/* Prints a table per question: pairs ranked right, the best of the first 16, and the same for tasks
 * that the model has never seen. */
void cost_judge(const cost_data *data);

#endif
