/* The learned cost model: gradient-boosted trees (XGBoost) that rank candidates by their features.
 *
 * Samples are added in the order of trials. Training runs on a thread of the model's own, over the
 * samples that were there when it began, and its result is taken over only by
 * kiln_cost_model_train_wait. So what is predicted depends on the sequence of calls alone, never on
 * timing: a searcher for which proposal k uses the model trained on the first f(k) samples calls
 * train_begin when sample f(k) has arrived and train_wait before proposal k.
 *
 * Scores are logarithms: of two candidates of one task, the one whose score is greater by 1 is
 * predicted to take half the time. Between tasks they mean nothing. A model that was never trained
 * predicts by the analytic model alone, and trees correct the analytic model.
 *
 * Not thread-safe: one owner calls. Deterministic: same calls, same scores. docs/decisions/0006
 * says how the parameters were chosen. */
#ifndef KILN_TUNER_MODEL_MODEL_H
#define KILN_TUNER_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "compiler-core/core.h"

/* Samples that a model takes; later ones are dropped. */
#define KILN_COST_MODEL_SAMPLES_MAX 20000

typedef struct kiln_cost_model kiln_cost_model;

typedef struct kiln_cost_model_options {
    kiln_feature_set features;
    uint64_t seed;
    bool trees_alone;    /* nothing from the analytic model: to see what results alone teach */
    bool shuffle_labels; /* learn nothing: for the test that a searcher's lead comes from here */
} kiln_cost_model_options;

/* `options` NULL: the exact features, seed 0. */
kiln_cost_model *kiln_cost_model_create(const kiln_cost_model_options *options);
/* Waits for a training that is under way. NULL is fine. */
void kiln_cost_model_destroy(kiln_cost_model *model);

/* One measured candidate. `task` groups what is comparable: key and target of a task. `features`:
 * kiln_features_count of the model's set. `latency_ns` <= 0: it failed by its own fault (build,
 * wrong result, crash, timeout); faults of boards are no samples. The least of a candidate's
 * samples ranks better than their median: what disturbs a measurement makes it longer. */
void kiln_cost_model_add(kiln_cost_model *model, kiln_str task, const float *features,
                         double latency_ns);
uint32_t kiln_cost_model_sample_count(const kiln_cost_model *model);

/* The same of a task that is not searched: it counts a tenth, nothing is trained before some own
 * samples are there, and these alone say when to train and how many trees are enough. At most
 * KILN_LESSONS_PER_TASK of each task are worth their time. */
#define KILN_LESSONS_PER_TASK 128u
void kiln_cost_model_learn(kiln_cost_model *model, kiln_str task, const float *features,
                           double latency_ns);
/* Samples of searched tasks. */
uint32_t kiln_cost_model_own_count(const kiln_cost_model *model);

/* Starts training on all samples added so far, going on from the booster before (warm start).
 * Nothing happens when a training is under way or there are too few samples. */
void kiln_cost_model_train_begin(kiln_cost_model *model);
/* Waits for the training and takes its result over. OK at once when none is under way.
 * INTERNAL: XGBoost's message; predictions go on with the booster before. */
KILN_MUST_USE kiln_status kiln_cost_model_train_wait(kiln_cost_model *model);
/* Samples that the booster in use has seen; 0: none yet, predictions are analytic. */
uint32_t kiln_cost_model_trained_on(const kiln_cost_model *model);
/* Time that all trainings taken over so far took on their thread. */
uint64_t kiln_cost_model_trained_ns(const kiln_cost_model *model);

/* Scores of `row_count` candidates of one task: `rows` [row_count][kiln_features_count], row-major;
 * `out_score` [row_count]. Larger batches cost less a row: 128 rows about 5 us each. */
KILN_MUST_USE kiln_status kiln_cost_model_predict(kiln_cost_model *model, const float *rows,
                                                  uint32_t row_count, float *out_score);
/* What each feature contributes to the score of one candidate (SHAP values of the trees, in units
 * of the score): out [kiln_features_count + 1], the last is what all candidates share. They add up
 * to the score. */
KILN_MUST_USE kiln_status kiln_cost_model_contributions(kiln_cost_model *model, const float *row,
                                                        float *out_contribution);

#endif
