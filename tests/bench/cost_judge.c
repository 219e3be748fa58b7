#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "tests/bench/cost.h"
#include "tuner/model/model.h"

/* Share of pairs of which the better has the higher score; pairs within 2 % of each other are ties
 * that nobody can tell apart. */
static double pair_share(const cost_task *task, const float *score, uint32_t from) {
    double right = 0, pairs = 0;
    for (uint32_t i = from; i < task->trial.count; i++)
        for (uint32_t k = from; k < i; k++) {
            double ratio = task->trial.data[i].ns / task->trial.data[k].ns;
            if (ratio > 0.98 && ratio < 1.02) continue;
            pairs++;
            right += score[i] == score[k] ? 0.5 : (score[i] > score[k]) == (ratio < 1);
        }
    return pairs > 0 ? right / pairs : 1;
}

/* Speed of the best of the `top` highest scores over the best of all. */
static double top_speed(const cost_task *task, const float *score, uint32_t from, uint32_t top) {
    double best = INFINITY, best_top = INFINITY;
    for (uint32_t i = from; i < task->trial.count; i++) {
        uint32_t above = 0;
        for (uint32_t k = from; k < task->trial.count; k++)
            above += score[k] > score[i] || (score[k] == score[i] && k < i);
        best = fmin(best, task->trial.data[i].ns);
        if (above < top) best_top = fmin(best_top, task->trial.data[i].ns);
    }
    return best / best_top;
}

/* ---- models ---------------------------------------------------------------------------------- */

/* What a column of the table is about. */
typedef struct contender {
    kiln_cost_model_options options;
    bool autotvm; /* sees the baseline's features */
} contender;

static const kiln_encoding *encoding_of(const cost_trial *trial, bool autotvm) {
    return autotvm ? &trial->autotvm : &trial->exact;
}

static void predict(kiln_cost_model *m, const cost_task *task, bool autotvm, float *score) {
    uint32_t count = task->trial.count;
    kiln_encoding *candidate = kiln_alloc(count * sizeof *candidate);
    for (uint32_t i = 0; i < count; i++) candidate[i] = *encoding_of(&task->trial.data[i], autotvm);
    kiln_status st = kiln_cost_model_predict(m, candidate, count, score);
    if (st) fprintf(stderr, "%.200s\n", kiln_status_text(st));
    kiln_status_free(st);
    kiln_free(candidate);
}

/* Adds trials [from, to) of the task and trains. */
static void teach(kiln_cost_model *m, const cost_task *task, bool autotvm, uint32_t from,
                  uint32_t to) {
    for (uint32_t i = from; i < to && i < task->trial.count; i++)
        kiln_cost_model_add(m, kiln_str_from(task->name),
                            encoding_of(&task->trial.data[i], autotvm), NULL,
                            task->trial.data[i].ns);
}

static void train(kiln_cost_model *m) {
    kiln_cost_model_train_begin(m);
    kiln_status st = kiln_cost_model_train_wait(m);
    if (st) fprintf(stderr, "%.200s\n", kiln_status_text(st));
    kiln_status_free(st);
}

typedef struct rating {
    double pairs, top16, top1;
} rating;

static rating rate(kiln_cost_model *m, const cost_task *task, bool autotvm, uint32_t from) {
    float *score = kiln_alloc(task->trial.count * sizeof *score);
    predict(m, task, autotvm, score);
    rating r = {pair_share(task, score, from), top_speed(task, score, from, 16),
                top_speed(task, score, from, 1)};
    kiln_free(score);
    return r;
}

static rating rate_cold(const cost_task *task) {
    kiln_cost_model *m = kiln_cost_model_create(NULL);
    rating r = rate(m, task, false, 0);
    kiln_cost_model_destroy(m);
    return r;
}

/* Learns from the task's first trials, in the steps in which a search would; judged on the rest. */
static rating rate_task(const cost_task *task, const contender *who) {
    static const uint32_t step[] = {0, 32, 64, 100};
    kiln_cost_model *m = kiln_cost_model_create(&who->options);
    for (uint32_t i = 1; i < KILN_ARRAY_COUNT(step); i++) {
        teach(m, task, who->autotvm, step[i - 1], step[i]);
        train(m);
    }
    rating r = rate(m, task, who->autotvm, 100);
    kiln_cost_model_destroy(m);
    return r;
}

/* Learns from all other tasks. */
static rating rate_transfer(const cost_data *data, uint32_t left_out, const contender *who) {
    kiln_cost_model *m = kiln_cost_model_create(&who->options);
    for (uint32_t t = 0; t < data->task.count; t++)
        if (t != left_out) teach(m, &data->task.data[t], who->autotvm, 0, 250);
    train(m);
    rating r = rate(m, &data->task.data[left_out], who->autotvm, 0);
    kiln_cost_model_destroy(m);
    return r;
}

/* Time of one prediction in batches as searchers ask for them. */
static void print_speed(const cost_task *task) {
    enum { BATCH = 128, ROUNDS = 64 };
    kiln_cost_model *m = kiln_cost_model_create(NULL);
    teach(m, task, false, 0, 250);
    uint64_t begin = kiln_clock_precise_ns();
    train(m);
    uint64_t trained = kiln_clock_precise_ns();
    kiln_encoding candidate[BATCH];
    float score[BATCH];
    for (uint32_t i = 0; i < BATCH; i++)
        candidate[i] = task->trial.data[i % task->trial.count].exact;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint64_t from = kiln_clock_precise_ns();
        kiln_status_free(
            kiln_cost_model_predict(m, candidate, BATCH, score)); /* timed, not looked at */
        least = KILN_MIN(least, kiln_clock_precise_ns() - from);
    }
    printf("training on %u samples %.0f ms, prediction %.2f us a candidate in batches of %d\n",
           kiln_cost_model_trained_on(m), (double)(trained - begin) * 1e-6,
           (double)least * 1e-3 / (double)BATCH, BATCH);
    kiln_cost_model_destroy(m);
}

#define COLUMN_COUNT 6
static const char *const column_name[COLUMN_COUNT] = {
    "analytic, cold", "100 samples", "shuffled", "autotvm, 100", "other tasks", "autotvm, others"};

void cost_judge(const cost_data *data) {
    const contender exact = {.options = {.seed = 1}},
                    shuffled = {.options = {.seed = 1, .shuffle_labels = true}},
                    autotvm = {.options = {.seed = 1, .uninformed = true}, .autotvm = true};
    rating sum[COLUMN_COUNT] = {{0, 0, 0}};
    printf("%-10s", "task");
    for (uint32_t c = 0; c < COLUMN_COUNT; c++) printf(" | %-17s", column_name[c]);
    printf("\n%-10s", "");
    for (uint32_t c = 0; c < COLUMN_COUNT; c++) printf(" | pairs top16 top1 ");
    printf("\n");
    for (uint32_t t = 0; t < data->task.count; t++) {
        const cost_task *task = &data->task.data[t];
        rating r[COLUMN_COUNT] = {rate_cold(task),
                                  rate_task(task, &exact),
                                  rate_task(task, &shuffled),
                                  rate_task(task, &autotvm),
                                  rate_transfer(data, t, &exact),
                                  rate_transfer(data, t, &autotvm)};
        printf("%-10s", task->name);
        for (uint32_t c = 0; c < COLUMN_COUNT; c++) {
            printf(" | %.3f %.3f %.3f", r[c].pairs, r[c].top16, r[c].top1);
            sum[c].pairs += r[c].pairs;
            sum[c].top16 += r[c].top16;
            sum[c].top1 += r[c].top1;
        }
        printf("\n");
        fflush(stdout);
    }
    printf("%-10s", "mean");
    for (uint32_t c = 0; c < COLUMN_COUNT; c++)
        printf(" | %.3f %.3f %.3f", sum[c].pairs / data->task.count,
               sum[c].top16 / data->task.count, sum[c].top1 / data->task.count);
    printf("\n");
    if (data->task.count > 0) print_speed(&data->task.data[0]);
}
