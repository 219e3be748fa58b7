#include "tuner/model/model.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/rand.h"
#include "base/vec.h"
#include "tuner/model/model_row.h"

/* Samples of other tasks: with full weight, or without samples of the task itself, they make
 * predictions worse than the analytic model's (docs/decisions/0006). */
#define TRANSFER_WEIGHT 0.1f
#define OWN_MIN 8u
#define SAMPLES_MIN 16 /* with fewer the trees are worse than the analytic model */
#define HELD_OUT_EVERY 4u
#define SCORE_MIN (-6.0f) /* slower than 64 times the best teaches nothing more */
#define SCORE_FAILED 1.0f /* below the slowest of its task */

static const struct {
    const char *name;
    const kiln_model_row *row;
} model_table[] = {
#define X(NAME, name, doc) [KILN_MODEL_##NAME] = {#name, &kiln_model_##name},
#include "tuner/model/models.def"
#undef X
};

typedef struct sample {
    kiln_encoding candidate; /* data in the model's memory */
    kiln_assembled assembled;
    uint32_t task;
    float log_ns;     /* NAN: failed */
    bool transferred; /* of a task that is not searched */
} sample;

struct kiln_cost_model {
    kiln_cost_model_options options;
    const kiln_model_row *row;
    kiln_arena memory;
    kiln_map task; /* name -> number */
    KILN_VEC(sample) sample;
    void *fitted;
    uint32_t trained_on, transferred_count;
    uint64_t trained_ns;
    /* A training under way: its thread alone touches these until it is joined. */
    bool training, threaded;
    pthread_t thread;
    struct {
        kiln_strbuf before;
        kiln_model_sample *sample;
        kiln_model_data data;
        void *result;
        kiln_status status;
        uint64_t took_ns;
    } job;
};

/* ---- kinds ----------------------------------------------------------------------------------- */

kiln_status kiln_model_find(kiln_str name, kiln_model_kind *out_kind) {
    kiln_strbuf known = {0};
    kiln_status st = NULL;
    for (unsigned i = 0; i < KILN_MODEL_COUNT; i++) {
        kiln_strbuf_printf(&known, "%s%s", i ? ", " : "", model_table[i].name);
        if (!kiln_str_is(name, model_table[i].name)) continue;
        *out_kind = (kiln_model_kind)i;
        goto done;
    }
    st = KILN_ERROR(NOT_FOUND, "no cost model is called '%.*s'; there are %s", KILN_STR_ARG(name),
                    known.data);
done:
    kiln_strbuf_deinit(&known);
    return st;
}

const char *kiln_model_name(kiln_model_kind kind) { return model_table[kind].name; }

kiln_status kiln_model_encode(kiln_model_kind kind, const kiln_program *scheduled,
                              const kiln_target *target, kiln_arena *scratch, kiln_arena *arena,
                              kiln_encoding *out) {
    return model_table[kind].row->encode(scheduled, target, scratch, arena, out);
}

double kiln_model_distance(kiln_model_kind kind, const kiln_encoding *a, const kiln_encoding *b) {
    return model_table[kind].row->distance(a, b);
}

kiln_status kiln_model_compute(const kiln_program *scheduled, const kiln_target *target,
                               kiln_arena *scratch, kiln_arena *arena, kiln_encoding *out) {
    const kiln_feature_set *features = kiln_features_of(target);
    if (features->count == 0)
        return KILN_ERROR(UNIMPLEMENTED, "candidates for %s targets have no features",
                          kiln_target_kind_name(target->kind));
    float *vector = KILN_ARENA_ARRAY(arena, float, features->count);
    features->compute(scheduled, target, scratch, vector);
    *out = (kiln_encoding){.data = vector,
                           .size_bytes = features->count * (uint32_t)sizeof *vector,
                           .fits = features->fits(vector),
                           .features = features};
    return KILN_OK;
}

kiln_model_term *kiln_model_terms(const kiln_program *scheduled, const kiln_target *target,
                                  kiln_arena *arena, uint32_t *out_count) {
    const kiln_feature_set *features = kiln_features_of(target);
    kiln_model_term *term = KILN_ARENA_ARRAY(arena, kiln_model_term, features->term_count);
    kiln_encoding encoding;
    kiln_status st = kiln_model_compute(scheduled, target, arena, arena, &encoding);
    const float *vector = st ? NULL : encoding.data;
    *out_count = st ? 0 : features->term_count;
    kiln_status_free(st); /* a kind without features has no terms */
    for (uint32_t i = 0; i < *out_count; i++) {
        uint32_t f = features->first_term + i;
        term[i] = (kiln_model_term){features->info[f].doc, exp2((double)vector[f]) - 1};
    }
    return term;
}

/* ---- samples --------------------------------------------------------------------------------- */

kiln_cost_model *kiln_cost_model_create(const kiln_cost_model_options *options) {
    kiln_cost_model *m = kiln_alloc(sizeof *m);
    if (options) m->options = *options;
    m->row = model_table[m->options.kind].row;
    kiln_arena_init(&m->memory, 0);
    kiln_map_init(&m->task);
    return m;
}

kiln_model_kind kiln_cost_model_kind(const kiln_cost_model *model) { return model->options.kind; }

static void add(kiln_cost_model *model, kiln_str task, const kiln_encoding *candidate,
                const kiln_assembled *assembled, double latency_ns, bool transferred) {
    uint64_t number = kiln_map_count(&model->task);
    if (!kiln_map_find(&model->task, task, &number)) kiln_map_put(&model->task, task, number);
    if (model->sample.count == KILN_COST_MODEL_SAMPLES_MAX) return;
    sample added = {.candidate = *candidate,
                    .task = (uint32_t)number,
                    .log_ns = latency_ns > 0 ? log2f((float)latency_ns) : NAN,
                    .transferred = transferred};
    if (assembled) added.assembled = *assembled;
    added.candidate.data = kiln_arena_copy(&model->memory, candidate->data, candidate->size_bytes);
    model->transferred_count += transferred;
    kiln_vec_push(&model->sample, added);
}

void kiln_cost_model_add(kiln_cost_model *model, kiln_str task, const kiln_encoding *candidate,
                         const kiln_assembled *assembled, double latency_ns) {
    add(model, task, candidate, assembled, latency_ns, false);
}

void kiln_cost_model_learn(kiln_cost_model *model, kiln_str task, const kiln_encoding *candidate,
                           const kiln_assembled *assembled, double latency_ns) {
    add(model, task, candidate, assembled, latency_ns, true);
}

uint32_t kiln_cost_model_own_count(const kiln_cost_model *model) {
    return model->sample.count - model->transferred_count;
}

uint32_t kiln_cost_model_sample_count(const kiln_cost_model *model) { return model->sample.count; }

/* ---- training -------------------------------------------------------------------------------- */

typedef struct task_range {
    float best, worst; /* log2 of nanoseconds */
} task_range;

static void find_ranges(const kiln_cost_model *m, task_range *range) {
    for (uint32_t t = 0; t < kiln_map_count(&m->task); t++)
        range[t] = (task_range){INFINITY, -INFINITY};
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

static void shuffle(kiln_model_sample *added, uint32_t count, uint64_t seed) {
    kiln_rand rand;
    kiln_rand_init(&rand, seed);
    for (uint32_t i = count; i > 1; i--) {
        uint32_t k = (uint32_t)kiln_rand_below(&rand, i);
        float swapped = added[i - 1].label;
        added[i - 1].label = added[k].label;
        added[k].label = swapped;
    }
}

static void make_labels(kiln_cost_model *m) {
    uint32_t count = m->sample.count;
    task_range *range = kiln_alloc(kiln_map_count(&m->task) * sizeof *range);
    find_ranges(m, range);
    for (uint32_t i = 0; i < count; i++) {
        const sample *s = &m->sample.data[i];
        m->job.sample[i] = (kiln_model_sample){.candidate = s->candidate,
                                               .assembled = s->assembled,
                                               .task = s->task,
                                               .label = label_of(s, &range[s->task]),
                                               .weight = s->transferred ? TRANSFER_WEIGHT : 1};
    }
    if (m->options.shuffle_labels) shuffle(m->job.sample, count, m->options.seed);
    kiln_free(range);
}

static void *train(void *context) {
    kiln_cost_model *m = context;
    uint64_t began_ns = kiln_clock_precise_ns();
    if (!m->job.status && m->row->fit) m->job.status = m->row->fit(&m->job.data, &m->job.result);
    m->job.took_ns = kiln_clock_precise_ns() - began_ns;
    return NULL;
}

static void free_job(kiln_cost_model *m) {
    kiln_strbuf_deinit(&m->job.before);
    kiln_free(m->job.sample);
    memset(&m->job, 0, sizeof m->job);
}

/* Holds out one of every few new samples of searched tasks, to find how many trees help. The one is
 * drawn at random: samples of two builders alternate, and a fixed choice would hold out one
 * builder's only. */
static void hold_out(kiln_cost_model *m, uint32_t from) {
    kiln_rand rand;
    kiln_rand_init(&rand, m->options.seed);
    for (uint32_t i = from, own = 0, drawn = 0; i < m->sample.count; i++) {
        if (m->sample.data[i].transferred) continue;
        if (own % HELD_OUT_EVERY == 0) drawn = (uint32_t)kiln_rand_below(&rand, HELD_OUT_EVERY);
        m->job.sample[i].held_out = own++ % HELD_OUT_EVERY == drawn;
    }
}

void kiln_cost_model_train_begin(kiln_cost_model *model) {
    kiln_cost_model *m = model;
    uint32_t count = m->sample.count;
    if (m->training || count < SAMPLES_MIN || count == m->trained_on) return;
    if (kiln_cost_model_own_count(m) < OWN_MIN) return;
    if (m->fitted && m->row->save) m->job.status = m->row->save(m->fitted, &m->job.before);
    m->job.sample = kiln_alloc(count * sizeof *m->job.sample);
    make_labels(m);
    hold_out(m, m->job.before.size ? m->trained_on : 0);
    m->job.data = (kiln_model_data){.sample_count = count,
                                    .task_count = kiln_map_count(&m->task),
                                    .sample = m->job.sample,
                                    .before = kiln_strbuf_view(&m->job.before),
                                    .seed = m->options.seed,
                                    .uninformed = m->options.uninformed};
    m->training = true;
    m->threaded = m->row->fit && pthread_create(&m->thread, NULL, train, m) == 0;
    if (!m->threaded) (void)train(m); /* no thread, or nothing to learn: on this one */
}

static void forget(kiln_cost_model *m) {
    if (m->fitted) m->row->forget(m->fitted);
    m->fitted = NULL;
}

kiln_status kiln_cost_model_train_wait(kiln_cost_model *model) {
    kiln_cost_model *m = model;
    if (!m->training) return KILN_OK;
    if (m->threaded) pthread_join(m->thread, NULL);
    m->training = false;
    kiln_status st = m->job.status;
    m->trained_ns += m->job.took_ns;
    if (!st) {
        forget(m);
        m->fitted = m->job.result;
        m->trained_on = m->job.data.sample_count;
    }
    free_job(m);
    return kiln_status_note(st, "training the cost model");
}

uint32_t kiln_cost_model_trained_on(const kiln_cost_model *model) { return model->trained_on; }

uint64_t kiln_cost_model_trained_ns(const kiln_cost_model *model) { return model->trained_ns; }

void kiln_cost_model_destroy(kiln_cost_model *model) {
    if (!model) return;
    kiln_status_free(kiln_cost_model_train_wait(model)); /* its result is not used any more */
    forget(model);
    kiln_map_deinit(&model->task);
    kiln_vec_deinit(&model->sample);
    kiln_arena_deinit(&model->memory);
    kiln_free(model);
}

/* ---- predicting ------------------------------------------------------------------------------ */

kiln_status kiln_cost_model_predict(kiln_cost_model *model, const kiln_encoding *candidate,
                                    uint32_t count, float *out_score) {
    return model->row->predict(model->fitted, model->options.uninformed, candidate, count,
                               out_score);
}

kiln_status kiln_cost_model_explain(kiln_cost_model *model, const kiln_encoding *candidate,
                                    kiln_arena *arena, kiln_reason **out_reason,
                                    uint32_t *out_count) {
    return model->row->explain(model->fitted, model->options.uninformed, candidate, arena,
                               out_reason, out_count);
}
