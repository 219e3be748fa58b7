/* Shallow trees that correct the analytic model: docs/decisions/0006-the-cost-model.md. An encoding
 * is the vector of the target's features. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "tuner/model/booster.h"
#include "tuner/model/model_row.h"

#define ROUNDS_FRESH 200
#define ROUNDS_MORE 60
#define PATIENCE 12
#define TREES_MAX 600 /* then from scratch: prediction costs by the tree */

static uint32_t columns_of(const kiln_encoding *candidate) {
    return candidate->size_bytes / (uint32_t)sizeof(float);
}

static const float *vector_of(const kiln_encoding *candidate) { return candidate->data; }

static double distance(const kiln_encoding *a, const kiln_encoding *b) {
    double sum = 0;
    KILN_CHECK(a->size_bytes == b->size_bytes);
    for (uint32_t f = 0; f < columns_of(a); f++) {
        double difference = (double)vector_of(a)[f] - (double)vector_of(b)[f];
        sum += difference * difference;
    }
    return sum;
}

/* What is predicted before any tree: the analytic model, which the features contain. */
static float margin_of(const kiln_encoding *candidate, bool uninformed) {
    return uninformed ? 0 : -vector_of(candidate)[candidate->features->predicted_ns];
}

/* ---- learning -------------------------------------------------------------------------------- */

/* Margins are moved to the labels task by task: what is common to a task ranks nothing. */
static void make_margins(const kiln_model_data *data, float *margin) {
    struct {
        float offset; /* mean of label - margin: what the trees need not learn */
        uint32_t count;
    } *task = kiln_alloc(data->task_count * sizeof *task);
    for (uint32_t i = 0; i < data->sample_count; i++) {
        const kiln_model_sample *s = &data->sample[i];
        margin[i] = margin_of(&s->candidate, data->uninformed);
        task[s->task].offset += s->label - margin[i];
        task[s->task].count++;
    }
    for (uint32_t i = 0; i < data->sample_count; i++)
        margin[i] += task[data->sample[i].task].offset / (float)task[data->sample[i].task].count;
    kiln_free(task);
}

static kiln_status fit(const kiln_model_data *data, void **out_fitted) {
    uint32_t count = data->sample_count, columns = columns_of(&data->sample[0].candidate);
    float *row = kiln_alloc((size_t)count * columns * sizeof *row),
          *label = kiln_alloc(count * sizeof *label), *margin = kiln_alloc(count * sizeof *margin),
          *weight = kiln_alloc(count * sizeof *weight);
    bool *held_out = kiln_alloc(count * sizeof *held_out);
    for (uint32_t i = 0; i < count; i++) {
        const kiln_model_sample *s = &data->sample[i];
        KILN_CHECK(columns_of(&s->candidate) == columns);
        const kiln_feature_set *features = s->candidate.features;
        float *own = &row[(size_t)i * columns];
        memcpy(own, vector_of(&s->candidate), columns * sizeof *row);
        if (features->take_assembled) features->take_assembled(own, &s->assembled);
        label[i] = s->label;
        weight[i] = s->weight;
        held_out[i] = s->held_out;
    }
    make_margins(data, margin);
    const kiln_booster_data rows = {.row_count = count,
                                    .column_count = columns,
                                    .row = row,
                                    .label = label,
                                    .weight = weight,
                                    .margin = margin,
                                    .held_out = held_out};
    const kiln_booster_plan plan = {data->before.size ? ROUNDS_MORE : ROUNDS_FRESH, PATIENCE,
                                    data->seed};
    kiln_booster *booster = NULL;
    kiln_status st = kiln_booster_train(data->before, &rows, &plan, &booster);
    kiln_free(row);
    kiln_free(label);
    kiln_free(margin);
    kiln_free(weight);
    kiln_free(held_out);
    if (!st) *out_fitted = booster;
    return st;
}

static kiln_status save(void *fitted, kiln_strbuf *out) {
    return kiln_booster_trees(fitted) <= TREES_MAX ? kiln_booster_save(fitted, out) : KILN_OK;
}

static void forget(void *fitted) { kiln_booster_destroy(fitted); }

/* ---- predicting ------------------------------------------------------------------------------ */

static kiln_status predict(void *fitted, bool uninformed, const kiln_encoding *candidate,
                           uint32_t count, float *out_score) {
    kiln_status st = NULL;
    memset(out_score, 0, count * sizeof *out_score);
    if (fitted && count > 0) {
        uint32_t columns = columns_of(candidate);
        float *row = kiln_alloc((size_t)count * columns * sizeof *row);
        for (uint32_t i = 0; i < count; i++)
            memcpy(&row[(size_t)i * columns], vector_of(&candidate[i]), columns * sizeof *row);
        st = kiln_booster_predict(fitted, row, count, columns, out_score);
        kiln_free(row);
    }
    for (uint32_t i = 0; i < count && !st; i++)
        out_score[i] += margin_of(&candidate[i], uninformed);
    return st;
}

/* SHAP values of the trees, and the analytic model's part in its own feature. */
static kiln_status explain(void *fitted, bool uninformed, const kiln_encoding *candidate,
                           kiln_arena *arena, kiln_reason **out_reason, uint32_t *out_count) {
    uint32_t columns = columns_of(candidate);
    const kiln_feature_set *features = candidate->features;
    float *part = KILN_ARENA_ARRAY(arena, float, columns + 1);
    kiln_reason *reason = KILN_ARENA_ARRAY(arena, kiln_reason, columns + 1);
    kiln_status st =
        fitted ? kiln_booster_contributions(fitted, vector_of(candidate), columns, part) : KILN_OK;
    if (st) return st;
    part[features->predicted_ns] += margin_of(candidate, uninformed);
    for (uint32_t i = 0; i < columns; i++)
        reason[i] = (kiln_reason){features->info[i].name, features->info[i].unit,
                                  features->info[i].doc, (double)vector_of(candidate)[i], part[i]};
    reason[columns] = (kiln_reason){"", "", "what all have in common", 0, part[columns]};
    *out_reason = reason;
    *out_count = columns + 1;
    return KILN_OK;
}

const kiln_model_row kiln_model_xgboost = {
    kiln_model_compute, distance, fit, save, forget, predict, explain};
