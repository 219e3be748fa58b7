/* Cost models: which of two candidates is faster, before they are measured. A model is a row of
 * models.def and one file (model_row.h); everybody else sees what is declared here, and candidates
 * as encodings, which only the model can read.
 *
 * Samples are added in the order of trials. Training runs on a thread of the model's own, over the
 * samples that were there when it began, and its result is taken over only by
 * kiln_cost_model_train_wait. So what is predicted depends on the sequence of calls alone, never on
 * timing: a searcher for which proposal k uses the model trained on the first f(k) samples calls
 * train_begin when sample f(k) has arrived and train_wait before proposal k.
 *
 * Scores are logarithms: of two candidates of one task, the one whose score is greater by 1 is
 * predicted to take half the time. Between tasks they mean nothing.
 *
 * Not thread-safe: one owner calls. Deterministic: same calls, same scores. */
#ifndef KILN_TUNER_MODEL_MODEL_H
#define KILN_TUNER_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assembled.h"
#include "base/status.h"
#include "base/str.h"
#include "compiler-core/core.h"

typedef enum kiln_model_kind {
#define X(NAME, name, doc) KILN_MODEL_##NAME,
#include "tuner/model/models.def"
#undef X
    KILN_MODEL_COUNT
} kiln_model_kind;

/* NOT_FOUND: no such name (lists the known ones). */
KILN_MUST_USE kiln_status kiln_model_find(kiln_str name, kiln_model_kind *out_kind);
const char *kiln_model_name(kiln_model_kind kind);

/* ---- candidates ------------------------------------------------------------------------------ */

/* A candidate as the models of one kind see it. A copy of the struct and of the bytes is as good.
 */
typedef struct kiln_encoding {
    const void *data; /* aligned to 16 */
    uint32_t size_bytes;
    bool fits; /* the target's registers, as far as can be told before lowering refuses it */
    const kiln_feature_set *features; /* what the model made it from */
} kiln_encoding;

/* Encodes `scheduled`, a loop program as replay leaves it, into `arena`. Pure; some 10 us.
 * `scratch` is left as it was used: reset it when convenient. UNIMPLEMENTED: nothing is known of
 * candidates of the target's kind. */
KILN_MUST_USE kiln_status kiln_model_encode(kiln_model_kind kind, const kiln_program *scheduled,
                                            const kiln_target *target, kiln_arena *scratch,
                                            kiln_arena *arena, kiln_encoding *out);
/* Distance of two candidates for models of this kind, of one task or of two; 0: the same. */
double kiln_model_distance(kiln_model_kind kind, const kiln_encoding *a, const kiln_encoding *b);
/* Where the analytic model sees the cycles go. out_term: [*out_count] in `arena`, of those that the
 * target's features count. */
typedef struct kiln_model_term {
    const char *doc;
    double cycles;
} kiln_model_term;
kiln_model_term *kiln_model_terms(const kiln_program *scheduled, const kiln_target *target,
                                  kiln_arena *arena, uint32_t *out_count);

/* ---- a model --------------------------------------------------------------------------------- */

/* Samples that a model takes; later ones are dropped. */
#define KILN_COST_MODEL_SAMPLES_MAX 20000

typedef struct kiln_cost_model kiln_cost_model;

typedef struct kiln_cost_model_options {
    kiln_model_kind kind;
    uint64_t seed;
    bool uninformed;     /* nothing but results: to see what they alone teach */
    bool shuffle_labels; /* learn nothing: for the test that a searcher's lead comes from here */
} kiln_cost_model_options;

/* `options` NULL: all zero, which is XGBoost's trees. */
kiln_cost_model *kiln_cost_model_create(const kiln_cost_model_options *options);
/* Waits for a training that is under way. NULL is fine. */
void kiln_cost_model_destroy(kiln_cost_model *model);
kiln_model_kind kiln_cost_model_kind(const kiln_cost_model *model);

/* One measured candidate, copied. `assembled`: what an assembler said of it; NULL: nothing is
 * known. `task` groups what is comparable: key and target of a task.
 * `latency_ns` <= 0: it failed by its own fault (build, wrong result, crash, timeout); faults of
 * boards are no samples. The least of a candidate's samples ranks better than their median: what
 * disturbs a measurement makes it longer. */
void kiln_cost_model_add(kiln_cost_model *model, kiln_str task, const kiln_encoding *candidate,
                         const kiln_assembled *assembled, double latency_ns);
uint32_t kiln_cost_model_sample_count(const kiln_cost_model *model);

/* The same of a task that is not searched: it counts a tenth, nothing is trained before some own
 * samples are there, and these alone say when to train and how much is enough. At most
 * KILN_TRANSFER_RECORDS_PER_TASK of each task are worth their time. */
#define KILN_TRANSFER_RECORDS_PER_TASK 128u
void kiln_cost_model_learn(kiln_cost_model *model, kiln_str task, const kiln_encoding *candidate,
                           const kiln_assembled *assembled, double latency_ns);
/* Samples of searched tasks. */
uint32_t kiln_cost_model_own_count(const kiln_cost_model *model);

/* Starts training on all samples added so far, going on from what was learnt before. Nothing
 * happens when a training is under way or there are too few samples. */
void kiln_cost_model_train_begin(kiln_cost_model *model);
/* Waits for the training and takes its result over. OK at once when none is under way. Errors of
 * the row; predictions then go on as before. */
KILN_MUST_USE kiln_status kiln_cost_model_train_wait(kiln_cost_model *model);
/* Samples that what is in use was learnt from; 0: nothing was. */
uint32_t kiln_cost_model_trained_on(const kiln_cost_model *model);
/* Time that all trainings taken over so far took on their thread. */
uint64_t kiln_cost_model_trained_ns(const kiln_cost_model *model);

/* Scores of `count` candidates of one task: `out_score` [count]. Larger batches cost less each. */
KILN_MUST_USE kiln_status kiln_cost_model_predict(kiln_cost_model *model,
                                                  const kiln_encoding *candidate, uint32_t count,
                                                  float *out_score);

/* The part of one feature in a candidate's score. */
typedef struct kiln_reason {
    const char *name, *unit, *doc;
    double value; /* of the candidate */
    float part;   /* in units of the score */
} kiln_reason;
/* The reasons of one candidate's score: `out_reason` [*out_count] in `arena`, of one model always
 * the same ones in the same order; parts that are no reason's are the last one's, whose name is "".
 * They add up to the score. */
KILN_MUST_USE kiln_status kiln_cost_model_explain(kiln_cost_model *model,
                                                  const kiln_encoding *candidate, kiln_arena *arena,
                                                  kiln_reason **out_reason, uint32_t *out_count);

#endif
