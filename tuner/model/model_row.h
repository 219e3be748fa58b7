/* Functions of a row of models.def. Private to tuner/model; called by model.c.
 *
 * A row keeps nothing but what it was fitted to: a value that is made anew by each fit and read by
 * predictions until it is forgotten. */
#ifndef KILN_TUNER_MODEL_MODEL_ROW_H
#define KILN_TUNER_MODEL_MODEL_ROW_H

#include "tuner/model/model.h"

/* A measured candidate as a row learns from it. */
typedef struct kiln_model_sample {
    kiln_encoding candidate;
    kiln_assembled assembled; /* 0 registers: not known */
    uint32_t task;            /* numbered from 0; only samples of one task are comparable */
    float label; /* score that would be right: log2 of the task's best time over its own, and less
                    than the slowest's for a candidate that failed */
    float weight;
    bool held_out; /* judges how far to learn; learnt from after that */
} kiln_model_sample;

typedef struct kiln_model_data {
    uint32_t sample_count, task_count;
    const kiln_model_sample *sample; /* in the order in which they were added */
    kiln_str before;                 /* what `save` wrote; empty: begin anew */
    uint64_t seed;
    bool uninformed; /* kiln_cost_model_options */
} kiln_model_data;

typedef struct kiln_model_row {
    /* Required. kiln_model_encode; any thread. */
    kiln_status (*encode)(const kiln_program *scheduled, const kiln_target *target,
                          kiln_arena *scratch, kiln_arena *arena, kiln_encoding *out);
    /* Required. kiln_model_distance; any thread. */
    double (*distance)(const kiln_encoding *a, const kiln_encoding *b);
    /* Optional: NULL where nothing is learnt. Learns from `data`; *out_fitted NULL: nothing was
     * found. Runs on a thread of its own while another one predicts with what was fitted before,
     * which it does not see. The same data gives the same result. */
    kiln_status (*fit)(const kiln_model_data *data, void **out_fitted);
    /* Optional: appends what the next fit goes on from; nothing: it begins anew. */
    kiln_status (*save)(void *fitted, kiln_strbuf *out);
    void (*forget)(void *fitted); /* required with `fit`; not called with NULL */
    /* Required. `fitted` NULL: nothing was learnt yet. out_score: [count]. */
    kiln_status (*predict)(void *fitted, bool uninformed, const kiln_encoding *candidate,
                           uint32_t count, float *out_score);
    /* Required. kiln_cost_model_explain. */
    kiln_status (*explain)(void *fitted, bool uninformed, const kiln_encoding *candidate,
                           kiln_arena *arena, kiln_reason **out_reason, uint32_t *out_count);
} kiln_model_row;

#define X(NAME, name, doc) extern const kiln_model_row kiln_model_##name;
#include "tuner/model/models.def"
#undef X

/* For rows: the features of a candidate, in `arena`, as an encoding. Errors of `encode`. */
KILN_MUST_USE kiln_status kiln_model_compute(const kiln_program *scheduled,
                                             const kiln_target *target, kiln_arena *scratch,
                                             kiln_arena *arena, kiln_encoding *out);

#endif
