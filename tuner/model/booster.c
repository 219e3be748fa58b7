#include "tuner/model/booster.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xgboost/c_api.h>

#include "base/alloc.h"
#include "base/macros.h"

struct kiln_booster {
    BoosterHandle handle;
    uint32_t trees;
};

/* Chosen on recorded trials (docs/decisions/0006): shallow trees, because a task has tens to
 * hundreds of samples; regression of the logarithm, because it ranked as well as pairwise loss and
 * its scores have a unit. One thread: the machine's cores belong to builders and measurements, and
 * the same calls then give the same trees. */
static const struct {
    const char *name, *value;
} parameter_table[] = {
    {"objective", "reg:squarederror"},
    {"tree_method", "hist"},
    {"max_depth", "3"},
    {"eta", "0.15"},
    {"min_child_weight", "2"},
    {"lambda", "1"},
    {"subsample", "0.8"},
    {"colsample_bytree", "0.3"},
    {"max_bin", "64"},
    {"base_score", "0"},
    {"nthread", "1"},
    {"verbosity", "0"},
};

/* Predictions (type 1: without transformation) and attributions (type 2) by all trees. */
static const char matrix_config[] = "{\"type\":1,\"training\":false,\"iteration_begin\":0,"
                                    "\"iteration_end\":0,\"strict_shape\":false}";
static const char shap_config[] = "{\"type\":2,\"training\":false,\"iteration_begin\":0,"
                                  "\"iteration_end\":0,\"strict_shape\":false}";
static const char dense_config[] = "{\"type\":1,\"training\":false,\"iteration_begin\":0,"
                                   "\"iteration_end\":0,\"strict_shape\":false,\"missing\":NaN,"
                                   "\"cache_id\":0}";

/* The first line of XGBoost's message; a stack trace follows it. */
static kiln_status xgboost_error(const char *what) {
    const char *message = XGBGetLastError();
    return KILN_ERROR(INTERNAL, "XGBoost could not %s: %.*s", what, (int)strcspn(message, "\n"),
                      message);
}

void kiln_booster_destroy(kiln_booster *booster) {
    if (!booster) return;
    if (booster->handle) XGBoosterFree(booster->handle);
    kiln_free(booster);
}

uint32_t kiln_booster_trees(const kiln_booster *booster) { return booster ? booster->trees : 0; }

static kiln_status make_matrix(const kiln_booster_data *data, DMatrixHandle *out) {
    DMatrixHandle m = NULL;
    bool failed =
        XGDMatrixCreateFromMat(data->row, data->row_count, data->column_count, NAN, &m) != 0;
    failed = failed || XGDMatrixSetFloatInfo(m, "label", data->label, data->row_count) != 0 ||
             XGDMatrixSetFloatInfo(m, "base_margin", data->margin, data->row_count) != 0 ||
             XGDMatrixSetFloatInfo(m, "weight", data->weight, data->row_count) != 0;
    if (failed) {
        kiln_status st = xgboost_error("take the samples");
        if (m) XGDMatrixFree(m);
        return st;
    }
    *out = m;
    return KILN_OK;
}

static kiln_status load_trees(kiln_booster *b, kiln_str bytes) {
    int rounds = 0;
    if (XGBoosterLoadModelFromBuffer(b->handle, bytes.data, bytes.size) != 0 ||
        XGBoosterBoostedRounds(b->handle, &rounds) != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "these bytes are no trained model");
    b->trees = (uint32_t)rounds;
    return KILN_OK;
}

static kiln_status begin(kiln_str from, DMatrixHandle train, uint64_t seed, kiln_booster **out) {
    kiln_booster *b = kiln_alloc(sizeof *b);
    char text[24];
    snprintf(text, sizeof text, "%u", (unsigned)(seed & 0x7fffffff));
    kiln_status st = NULL;
    if (XGBoosterCreate(&train, 1, &b->handle) != 0) st = xgboost_error("begin");
    if (!st && from.size > 0) st = load_trees(b, from);
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(parameter_table) && !st; i++)
        if (XGBoosterSetParam(b->handle, parameter_table[i].name, parameter_table[i].value) != 0)
            st = xgboost_error("take its parameters");
    if (!st && XGBoosterSetParam(b->handle, "seed", text) != 0) st = xgboost_error("take its seed");
    if (st) {
        kiln_booster_destroy(b);
        return st;
    }
    *out = b;
    return KILN_OK;
}

static kiln_status add_trees(kiln_booster *b, DMatrixHandle train, uint32_t count) {
    for (uint32_t i = 0; i < count; i++, b->trees++)
        if (XGBoosterUpdateOneIter(b->handle, (int)b->trees, train) != 0)
            return xgboost_error("add a tree");
    return KILN_OK;
}

/* The rows that are held out, or the others. */
static kiln_status slice(DMatrixHandle all, const kiln_booster_data *data, bool held_out,
                         DMatrixHandle *out) {
    int *index = kiln_alloc(data->row_count * sizeof *index);
    bst_ulong count = 0;
    for (uint32_t i = 0; i < data->row_count; i++)
        if (data->held_out[i] == held_out) index[count++] = (int)i;
    int failed = XGDMatrixSliceDMatrix(all, index, count, out);
    kiln_free(index);
    return failed ? xgboost_error("hold samples out") : KILN_OK;
}

/* Squared error of the held-out rows. */
static kiln_status validate(kiln_booster *b, DMatrixHandle held_out, const kiln_booster_data *data,
                            double *out_error) {
    const bst_ulong *shape;
    bst_ulong rank;
    const float *score;
    if (XGBoosterPredictFromDMatrix(b->handle, held_out, matrix_config, &shape, &rank, &score) != 0)
        return xgboost_error("validate");
    double error = 0;
    for (uint32_t i = 0; i < data->row_count; i++) {
        if (!data->held_out[i]) continue;
        double miss = (double)*score++ - data->label[i];
        error += data->weight[i] * miss * miss;
    }
    *out_error = error;
    return KILN_OK;
}

/* How many trees do best on rows that they were not made from. */
static kiln_status find_rounds(kiln_str from, DMatrixHandle all, const kiln_booster_data *data,
                               const kiln_booster_plan *plan, uint32_t *out_rounds) {
    DMatrixHandle part[2] = {NULL, NULL}; /* to learn from, held out */
    kiln_booster *b = NULL;
    uint32_t best_round = 0;
    double error = 0, best = INFINITY;
    kiln_status st = slice(all, data, false, &part[0]);
    if (!st) st = slice(all, data, true, &part[1]);
    if (!st) st = begin(from, part[0], plan->seed, &b);
    for (uint32_t round = 0; !st; round++) {
        st = validate(b, part[1], data, &error);
        if (!st && error < best) {
            best = error;
            best_round = round;
        }
        if (round - best_round >= plan->patience || round == plan->rounds_max) break;
        if (!st) st = add_trees(b, part[0], 1);
    }
    kiln_booster_destroy(b);
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(part); i++)
        if (part[i]) XGDMatrixFree(part[i]);
    if (!st) *out_rounds = best_round;
    return st;
}

static uint32_t held_out_count(const kiln_booster_data *data) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < data->row_count; i++) count += data->held_out[i];
    return count;
}

kiln_status kiln_booster_train(kiln_str from, const kiln_booster_data *data,
                               const kiln_booster_plan *plan, kiln_booster **out_booster) {
    DMatrixHandle all = NULL;
    kiln_booster *b = NULL;
    uint32_t rounds = plan->rounds_max;
    kiln_status st = make_matrix(data, &all);
    if (!st && held_out_count(data) > 0) st = find_rounds(from, all, data, plan, &rounds);
    if (!st) st = begin(from, all, plan->seed, &b);
    if (!st) st = add_trees(b, all, rounds);
    if (all) XGDMatrixFree(all);
    if (st || b->trees == 0) {
        kiln_booster_destroy(b);
        b = NULL;
    }
    if (!st) *out_booster = b;
    return st;
}

kiln_status kiln_booster_predict(kiln_booster *booster, const float *row, uint32_t row_count,
                                 uint32_t column_count, float *out) {
    char array[160];
    const bst_ulong *shape;
    bst_ulong rank;
    const float *score;
    snprintf(array, sizeof array,
             "{\"data\":[%llu,true],\"shape\":[%u,%u],\"typestr\":\"<f4\",\"version\":3}",
             (unsigned long long)(uintptr_t)row, row_count, column_count);
    if (XGBoosterPredictFromDense(booster->handle, array, dense_config, NULL, &shape, &rank,
                                  &score) != 0)
        return xgboost_error("predict");
    memcpy(out, score, row_count * sizeof *out);
    return KILN_OK;
}

kiln_status kiln_booster_contributions(kiln_booster *booster, const float *row,
                                       uint32_t column_count, float *out) {
    DMatrixHandle m = NULL;
    const bst_ulong *shape;
    bst_ulong rank;
    const float *value;
    kiln_status st = NULL;
    if (XGDMatrixCreateFromMat(row, 1, column_count, NAN, &m) != 0 ||
        XGBoosterPredictFromDMatrix(booster->handle, m, shap_config, &shape, &rank, &value) != 0)
        st = xgboost_error("attribute");
    else
        memcpy(out, value, (column_count + 1) * sizeof *out);
    if (m) XGDMatrixFree(m);
    return st;
}

kiln_status kiln_booster_save(kiln_booster *booster, kiln_strbuf *out) {
    bst_ulong size = 0;
    const char *bytes = NULL;
    if (XGBoosterSaveModelToBuffer(booster->handle, "{\"format\":\"ubj\"}", &size, &bytes) != 0)
        return xgboost_error("save");
    kiln_strbuf_str(out, (kiln_str){bytes, size});
    return KILN_OK;
}
