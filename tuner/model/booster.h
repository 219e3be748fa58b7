/* Gradient-boosted trees through XGBoost's C API: the one place that knows it. A booster is a
 * value: training makes a new one. Any thread may use one, but only one at a time. */
#ifndef KILN_TUNER_MODEL_BOOSTER_H
#define KILN_TUNER_MODEL_BOOSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

typedef struct kiln_booster kiln_booster;

/* Rows to learn from. */
typedef struct kiln_booster_data {
    uint32_t row_count, column_count;
    const float *row;     /* [row_count][column_count] */
    const float *label;   /* [row_count] greater is better */
    const float *weight;  /* [row_count] how much it counts */
    const float *margin;  /* [row_count] what is predicted without any tree */
    const bool *held_out; /* [row_count] judges how many trees to add; learnt from after that */
} kiln_booster_data;

typedef struct kiln_booster_plan {
    uint32_t
        rounds_max;    /* trees that are added at most; exactly so many when nothing is held out */
    uint32_t patience; /* trees in vain, one after another, that end the search for the number */
    uint64_t seed;
} kiln_booster_plan;

/* Adds trees to saved ones (`from` empty: to none) that fit `data`. How many is found by making
 * trees without the rows held out, until these are predicted no better; then so many are made from
 * all. `from` is bytes, not a booster, because another thread may be predicting with that one.
 * INTERNAL: XGBoost's message. */
KILN_MUST_USE kiln_status kiln_booster_train(kiln_str from, const kiln_booster_data *data,
                                             const kiln_booster_plan *plan,
                                             kiln_booster **out_booster);
void kiln_booster_destroy(kiln_booster *booster); /* NULL is fine */
uint32_t kiln_booster_trees(const kiln_booster *booster);

/* Sum of the trees, without margins: out [row_count]. */
KILN_MUST_USE kiln_status kiln_booster_predict(kiln_booster *booster, const float *row,
                                               uint32_t row_count, uint32_t column_count,
                                               float *out);
/* SHAP values of one row: out [column_count + 1]; the last belongs to no feature. */
KILN_MUST_USE kiln_status kiln_booster_contributions(kiln_booster *booster, const float *row,
                                                     uint32_t column_count, float *out);

/* The trees as bytes, for kiln_booster_train of this process: XGBoost reads past the end of bytes
 * that are not what it wrote. */
KILN_MUST_USE kiln_status kiln_booster_save(kiln_booster *booster, kiln_strbuf *out);

#endif
