#include "tuner/model/model.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/rand.h"
#include "base/vec.h"
#include "tuner/model/booster.h"

/* Lessons of other tasks: with all their weight, or before the task itself has spoken, they move
 * the search from where the analytic model rightly sends it (docs/decisions/0006). */
#define LESSON_WEIGHT 0.1f
#define OWN_MIN 8u
#define SAMPLES_MIN 16 /* fewer teach the trees less than the analytic model knows */
#define HELD_OUT_EVERY 4u
#define ROUNDS_FRESH 200
#define ROUNDS_MORE 60
#define PATIENCE 12
#define TREES_MAX 600     /* then from scratch: prediction costs by the tree */
#define SCORE_MIN (-6.0f) /* slower than 64 times the best teaches nothing more */
#define SCORE_FAILED 1.0f /* below the slowest of its task */

typedef struct sample {
    uint32_t task;
    float log_ns; /* NAN: failed */
    bool lesson;  /* of a task that is not searched */
} sample;

struct kiln_cost_model {
    kiln_feature_set set;
    uint32_t column_count;
    uint64_t seed;
    bool shuffle_labels, trees_alone;
    kiln_map task; /* name -> number */
    KILN_VEC(sample) sample;
    KILN_VEC(float) row; /* [sample count][column_count] */
    kiln_booster *booster;
    uint32_t trained_on, lesson_count;
    uint64_t trained_ns;
    /* A training under way: its thread alone touches these until it is joined. */
    bool training, threaded;
    pthread_t thread;
    struct {
        kiln_strbuf from; /* trees to go on from */
        float *row, *label, *weight, *margin;
        bool *held_out;
        kiln_booster_data data;
        kiln_booster_plan plan;
        kiln_booster *result;
        kiln_status status;
        uint64_t took_ns;
    } job;
};

kiln_cost_model *kiln_cost_model_create(const kiln_cost_model_options *options) {
    kiln_cost_model *m = kiln_alloc(sizeof *m);
    if (options) {
        m->set = options->features;
        m->seed = options->seed;
        m->shuffle_labels = options->shuffle_labels;
        m->trees_alone = options->trees_alone;
    }
    m->column_count = kiln_features_count(m->set);
    kiln_map_init(&m->task);
    return m;
}

/* ---- samples --------------------------------------------------------------------------------- */

static void add(kiln_cost_model *model, kiln_str task, const float *features, double latency_ns,
                bool lesson) {
    uint64_t number = kiln_map_count(&model->task);
    if (!kiln_map_find(&model->task, task, &number)) kiln_map_put(&model->task, task, number);
    if (model->sample.count == KILN_COST_MODEL_SAMPLES_MAX) return;
    sample added = {(uint32_t)number, latency_ns > 0 ? log2f((float)latency_ns) : NAN, lesson};
    model->lesson_count += lesson;
    kiln_vec_push(&model->sample, added);
    for (uint32_t i = 0; i < model->column_count; i++) kiln_vec_push(&model->row, features[i]);
}

void kiln_cost_model_add(kiln_cost_model *model, kiln_str task, const float *features,
                         double latency_ns) {
    add(model, task, features, latency_ns, false);
}

void kiln_cost_model_learn(kiln_cost_model *model, kiln_str task, const float *features,
                           double latency_ns) {
    add(model, task, features, latency_ns, true);
}

uint32_t kiln_cost_model_own_count(const kiln_cost_model *model) {
    return model->sample.count - model->lesson_count;
}

uint32_t kiln_cost_model_sample_count(const kiln_cost_model *model) { return model->sample.count; }

/* What is predicted before any tree: the analytic model, which the exact features contain. */
static float margin_of(const kiln_cost_model *m, const float *row) {
    return m->set == KILN_FEATURES_EXACT && !m->trees_alone ? -row[KILN_FEATURE_NS] : 0;
}

/* ---- training -------------------------------------------------------------------------------- */

typedef struct task_range {
    float best, worst; /* log2 of nanoseconds */
    float offset;      /* mean of score - margin: what the trees need not learn */
    uint32_t count;
} task_range;

static void find_ranges(const kiln_cost_model *m, task_range *range) {
    for (uint32_t t = 0; t < kiln_map_count(&m->task); t++)
        range[t] = (task_range){INFINITY, -INFINITY, 0, 0};
    for (uint32_t i = 0; i < m->sample.count; i++) {
        const sample *s = &m->sample.data[i];
        if (isnan(s->log_ns)) continue;
        range[s->task].best = fminf(range[s->task].best, s->log_ns);
        range[s->task].worst = fmaxf(range[s->task].worst, s->log_ns);
    }
}

static float label_of(const sample *s, const task_range *range) {
    if (isinf(range->best)) return SCORE_MIN; /* nothing of the task ever ran */
    float score = range->best - (isnan(s->log_ns) ? range->worst + SCORE_FAILED : s->log_ns);
    return fmaxf(score, SCORE_MIN);
}

static void shuffle(float *label, uint32_t count, uint64_t seed) {
    kiln_rand rand;
    kiln_rand_init(&rand, seed);
    for (uint32_t i = count; i > 1; i--) {
        uint32_t k = (uint32_t)kiln_rand_below(&rand, i);
        float swapped = label[i - 1];
        label[i - 1] = label[k];
        label[k] = swapped;
    }
}

/* Labels, and margins moved to them task by task: what is common to a task ranks nothing. */
static void make_labels(kiln_cost_model *m) {
    uint32_t count = m->sample.count;
    task_range *range = kiln_alloc(kiln_map_count(&m->task) * sizeof *range);
    find_ranges(m, range);
    for (uint32_t i = 0; i < count; i++)
        m->job.label[i] = label_of(&m->sample.data[i], &range[m->sample.data[i].task]);
    if (m->shuffle_labels) shuffle(m->job.label, count, m->seed);
    for (uint32_t i = 0; i < count; i++) {
        task_range *r = &range[m->sample.data[i].task];
        m->job.margin[i] = margin_of(m, &m->job.row[(size_t)i * m->column_count]);
        r->offset += m->job.label[i] - m->job.margin[i];
        r->count++;
    }
    for (uint32_t i = 0; i < count; i++) {
        const task_range *r = &range[m->sample.data[i].task];
        m->job.margin[i] += r->offset / (float)r->count;
    }
    kiln_free(range);
}

static void *train(void *context) {
    kiln_cost_model *m = context;
    uint64_t began_ns = kiln_clock_precise_ns();
    if (!m->job.status)
        m->job.status = kiln_booster_train(kiln_strbuf_view(&m->job.from), &m->job.data,
                                           &m->job.plan, &m->job.result);
    m->job.took_ns = kiln_clock_precise_ns() - began_ns;
    return NULL;
}

static void free_job(kiln_cost_model *m) {
    kiln_strbuf_deinit(&m->job.from);
    kiln_free(m->job.row);
    kiln_free(m->job.label);
    kiln_free(m->job.weight);
    kiln_free(m->job.margin);
    kiln_free(m->job.held_out);
    memset(&m->job, 0, sizeof m->job);
}

/* What no tree is made from, to see how many trees help: every so-many-th new sample of the tasks
 * that are searched, since it is them that the trees serve. */
static void hold_out(kiln_cost_model *m, uint32_t from) {
    for (uint32_t i = from, own = 0; i < m->sample.count; i++)
        if (!m->sample.data[i].lesson)
            m->job.held_out[i] = own++ % HELD_OUT_EVERY == HELD_OUT_EVERY - 1;
}

void kiln_cost_model_train_begin(kiln_cost_model *model) {
    kiln_cost_model *m = model;
    uint32_t count = m->sample.count;
    if (m->training || count < SAMPLES_MIN || count == m->trained_on) return;
    if (kiln_cost_model_own_count(m) < OWN_MIN) return;
    bool goes_on = m->booster && kiln_booster_trees(m->booster) <= TREES_MAX;
    if (goes_on) m->job.status = kiln_booster_save(m->booster, &m->job.from);
    m->job.row = kiln_alloc(m->row.count * sizeof *m->job.row);
    memcpy(m->job.row, m->row.data, m->row.count * sizeof *m->job.row);
    m->job.label = kiln_alloc(count * sizeof *m->job.label);
    m->job.margin = kiln_alloc(count * sizeof *m->job.margin);
    m->job.held_out = kiln_alloc(count * sizeof *m->job.held_out);
    m->job.weight = kiln_alloc(count * sizeof *m->job.weight);
    for (uint32_t i = 0; i < count; i++)
        m->job.weight[i] = m->sample.data[i].lesson ? LESSON_WEIGHT : 1;
    make_labels(m);
    hold_out(m, goes_on ? m->trained_on : 0);
    m->job.data = (kiln_booster_data){.row_count = count,
                                      .column_count = m->column_count,
                                      .row = m->job.row,
                                      .label = m->job.label,
                                      .weight = m->job.weight,
                                      .margin = m->job.margin,
                                      .held_out = m->job.held_out};
    m->job.plan = (kiln_booster_plan){goes_on ? ROUNDS_MORE : ROUNDS_FRESH, PATIENCE, m->seed};
    m->training = true;
    m->threaded = pthread_create(&m->thread, NULL, train, m) == 0;
    if (!m->threaded) (void)train(m); /* no thread to be had: here, then */
}

kiln_status kiln_cost_model_train_wait(kiln_cost_model *model) {
    kiln_cost_model *m = model;
    if (!m->training) return KILN_OK;
    if (m->threaded) pthread_join(m->thread, NULL);
    m->training = false;
    kiln_status st = m->job.status;
    m->trained_ns += m->job.took_ns;
    if (!st) {
        kiln_booster_destroy(m->booster);
        m->booster = m->job.result;
        m->trained_on = m->job.data.row_count;
    }
    free_job(m);
    return kiln_status_note(st, "training the cost model");
}

uint32_t kiln_cost_model_trained_on(const kiln_cost_model *model) { return model->trained_on; }

uint64_t kiln_cost_model_trained_ns(const kiln_cost_model *model) { return model->trained_ns; }

void kiln_cost_model_destroy(kiln_cost_model *model) {
    if (!model) return;
    kiln_status_free(kiln_cost_model_train_wait(model)); /* nobody wants its result any more */
    kiln_booster_destroy(model->booster);
    kiln_map_deinit(&model->task);
    kiln_vec_deinit(&model->sample);
    kiln_vec_deinit(&model->row);
    kiln_free(model);
}

/* ---- predicting ------------------------------------------------------------------------------ */

kiln_status kiln_cost_model_predict(kiln_cost_model *model, const float *rows, uint32_t row_count,
                                    float *out_score) {
    kiln_status st = NULL;
    if (model->booster && row_count > 0)
        st = kiln_booster_predict(model->booster, rows, row_count, model->column_count, out_score);
    else
        memset(out_score, 0, row_count * sizeof *out_score);
    for (uint32_t i = 0; i < row_count && !st; i++)
        out_score[i] += margin_of(model, &rows[(size_t)i * model->column_count]);
    return st;
}

kiln_status kiln_cost_model_contributions(kiln_cost_model *model, const float *row,
                                          float *out_contribution) {
    kiln_status st = NULL;
    if (model->booster)
        st = kiln_booster_contributions(model->booster, row, model->column_count, out_contribution);
    else
        memset(out_contribution, 0, (model->column_count + 1) * sizeof *out_contribution);
    if (!st && model->set == KILN_FEATURES_EXACT && !model->trees_alone)
        out_contribution[KILN_FEATURE_NS] += margin_of(model, row);
    return st;
}
