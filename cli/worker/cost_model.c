/* Serves how good the learned cost model is on a target's stored trials: every fourth trial of a
 * task is held out, a model learns from the others, and what it predicts of those held out is
 * compared with what was measured. */
#include <math.h>
#include <stdlib.h>

#include "cli/common/json.h"
#include "cli/common/records.h"
#include "cli/worker/serve.h"
#include "tuner/model/model.h"

#define SAMPLES_MAX 4096u /* replaying one takes about half a millisecond */
#define TASK_SAMPLES_MAX 1024u
#define TASK_HELD_MIN 4u /* below it a rank says nothing */
#define HELD_EVERY 4u
#define EXPLAINED_MAX 256u
#define FEATURES_SHOWN 24u
#define SCATTER_FEATURES 8u
#define SEED 1u

typedef struct sample {
    kiln_str trial_id;
    kiln_encoding candidate;
    double ns; /* 0: it failed by its own fault */
    float score;
    bool is_held;
} sample;

typedef struct learner {
    kiln_target target;
    kiln_str target_text, only_task;
    const kiln_db_projects *projects; /* NULL: records of all */
    kiln_db *db;
    kiln_cost_model *model;
    kiln_arena *arena;
    uint32_t sample_count, held_count, unreadable_count;
    json_t *tasks, *points;
    double correlation_sum, recall_sum; /* weighted by the trials held out */
    uint32_t task_count;
    kiln_reason *reason; /* of the last one explained: names */
    uint32_t reason_count, explained_count;
    double *importance; /* [reason_count] sum of |part| */
} learner;

typedef struct task_samples {
    const kiln_db_stat *stat;
    sample *sample;
    uint32_t count;
} task_samples;

/* ---- learning -------------------------------------------------------------------------------- */

/* False: this version cannot replay it, or its fault says nothing of the candidate. */
static bool read_sample(learner *l, const kiln_db_record *r, const kiln_program *te,
                        kiln_arena *scratch, sample *out) {
    kiln_trace trace;
    kiln_program *program = NULL;
    const bool is_ok = kiln_str_is(r->outcome, "ok") && r->checked;
    if (!is_ok && !kiln_str_is(r->blame, "candidate")) return false;
    kiln_status st = kiln_trace_decode(r->trace, scratch, &trace);
    if (!st) st = kiln_trace_replay(&trace, te, NULL, scratch, &program, NULL);
    if (!st)
        st = kiln_model_encode(KILN_MODEL_XGBOOST, program, &l->target, scratch, l->arena,
                               &out->candidate);
    const bool is_read = !st;
    kiln_status_free(st); /* counted by the caller */
    out->trial_id = r->trial_id;
    out->ns = is_ok ? r->median_ns : 0;
    return is_read;
}

/* Trials in the order of their measurement; raced ones have no time of their own. */
static kiln_status read_task(learner *l, const kiln_db_stat *stat, task_samples *out) {
    const kiln_db_filter filter = {.task_key = stat->task_key,
                                   .target = l->target_text,
                                   .order = KILN_DB_NEWEST,
                                   .limit = TASK_SAMPLES_MAX,
                                   .projects = l->projects};
    kiln_db_record *record = NULL;
    kiln_db_task row;
    kiln_program *te = NULL;
    uint32_t count = 0;
    bool found = false;
    kiln_arena scratch;
    *out = (task_samples){.stat = stat};
    kiln_status st = kiln_db_find_task(l->db, stat->task_key, l->arena, &row, &found);
    if (!st) st = kiln_db_records(l->db, &filter, l->arena, &record, &count);
    if (st || !found) return st;
    kiln_status unreadable = kiln_program_parse(row.canonical, l->arena, &te);
    if (unreadable) {
        kiln_status_free(unreadable); /* of another version */
        l->unreadable_count += count;
        return KILN_OK;
    }
    out->sample = KILN_ARENA_ARRAY(l->arena, sample, count);
    kiln_arena_init(&scratch, 0);
    for (uint32_t i = count; i-- > 0 && l->sample_count < SAMPLES_MAX;) {
        sample *s = &out->sample[out->count];
        *s = (sample){0};
        if (record[i].raced || record[i].final) continue;
        if (!read_sample(l, &record[i], te, &scratch, s)) {
            l->unreadable_count++;
        } else {
            const kiln_assembled assembled = kiln_record_assembled(&record[i]);
            s->is_held = out->count % HELD_EVERY == HELD_EVERY - 1;
            if (!s->is_held)
                kiln_cost_model_add(l->model, stat->task_key, &s->candidate, &assembled, s->ns);
            out->count++;
            l->sample_count++;
        }
        kiln_arena_reset(&scratch);
    }
    kiln_arena_deinit(&scratch);
    return KILN_OK;
}

/* ---- judging --------------------------------------------------------------------------------- */

/* Of pairs with times that differ: those in the right order, ties of scores counting half. */
static double pairs_right(const sample *held, uint32_t count, double *out_pairs) {
    double right = 0, pairs = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = i + 1; k < count; k++) {
            if (held[i].ns == held[k].ns) continue;
            const bool is_faster = held[i].ns < held[k].ns;
            pairs++;
            if (held[i].score == held[k].score)
                right += 0.5;
            else
                right += (held[i].score > held[k].score) == is_faster;
        }
    }
    *out_pairs = pairs;
    return right;
}

/* Mean rank (from 1) of `value` among all: ties share one. */
static double rank_of(const double *all, uint32_t count, double value) {
    double below = 0, equal = 0;
    for (uint32_t i = 0; i < count; i++) {
        below += all[i] < value;
        equal += all[i] == value;
    }
    return below + (equal + 1) / 2;
}

/* Spearman's coefficient: the correlation of ranks; 0 where one of both is constant. */
static double rank_correlation(const double *a, const double *b, uint32_t count) {
    double mean = ((double)count + 1) / 2, ab = 0, aa = 0, bb = 0;
    for (uint32_t i = 0; i < count; i++) {
        const double x = rank_of(a, count, a[i]) - mean, y = rank_of(b, count, b[i]) - mean;
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

/* Of the best by measurement, at most ten, the share that is in the first tenth by prediction. */
static double recall_of(const double *score, const double *speed, uint32_t count) {
    const uint32_t tenth = KILN_MAX(count / 10, 1), best = KILN_MIN(tenth, 10);
    double found = 0;
    for (uint32_t i = 0; i < count; i++)
        found += rank_of(speed, count, speed[i]) > count - best &&
                 rank_of(score, count, score[i]) > count - tenth;
    return KILN_MIN(found / best, 1);
}

/* Both in doublings of speed, against the best of the task: so points of all tasks are of one kind.
 */
static void add_points(learner *l, const double *score, const double *speed, uint32_t count) {
    double top = score[0], least_ns = -speed[0];
    for (uint32_t i = 1; i < count; i++) {
        top = KILN_MAX(top, score[i]);
        least_ns = KILN_MIN(least_ns, -speed[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(l->points,
                              json_pack("[f, f]", log2(least_ns / -speed[i]), score[i] - top));
}

/* Adds up what each feature contributes to the scores of trials held out. */
static kiln_status explain(learner *l, const sample *held, uint32_t count) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < count && l->explained_count < EXPLAINED_MAX; i++) {
        st = kiln_cost_model_explain(l->model, &held[i].candidate, l->arena, &l->reason,
                                     &l->reason_count);
        if (st) break;
        if (!l->importance) l->importance = KILN_ARENA_ARRAY(l->arena, double, l->reason_count);
        for (uint32_t f = 0; f < l->reason_count; f++)
            l->importance[f] += fabs((double)l->reason[f].part);
        l->explained_count++;
    }
    return st;
}

static kiln_status predict(learner *l, task_samples *t) {
    kiln_encoding *candidate = KILN_ARENA_ARRAY(l->arena, kiln_encoding, t->count + 1);
    float *score = KILN_ARENA_ARRAY(l->arena, float, t->count + 1);
    for (uint32_t i = 0; i < t->count; i++) candidate[i] = t->sample[i].candidate;
    kiln_status st =
        t->count ? kiln_cost_model_predict(l->model, candidate, t->count, score) : KILN_OK;
    for (uint32_t i = 0; !st && i < t->count; i++) t->sample[i].score = score[i];
    return st;
}

static kiln_status judge(learner *l, task_samples *t) {
    sample *held = KILN_ARENA_ARRAY(l->arena, sample, t->count + 1);
    double *score = KILN_ARENA_ARRAY(l->arena, double, t->count + 1),
           *speed = KILN_ARENA_ARRAY(l->arena, double, t->count + 1), pairs = 0;
    uint32_t count = 0;
    kiln_status st = predict(l, t);
    for (uint32_t i = 0; !st && i < t->count; i++) {
        if (!t->sample[i].is_held || t->sample[i].ns <= 0) continue;
        held[count] = t->sample[i];
        score[count] = (double)held[count].score;
        speed[count] = -held[count].ns;
        count++;
    }
    if (!st) st = explain(l, held, count);
    if (st || count < TASK_HELD_MIN) return st;
    const double right = pairs_right(held, count, &pairs);
    const double correlation = rank_correlation(score, speed, count);
    l->held_count += count;
    l->task_count++;
    l->correlation_sum += count * correlation;
    l->recall_sum += count * recall_of(score, speed, count);
    add_points(l, score, speed, count);
    json_array_append_new(
        l->tasks,
        json_pack("{s:o, s:o, s:i, s:i, s:f, s:f}", "task", kiln_json_str(t->stat->task_key), "op",
                  kiln_json_str(t->stat->op), "samples", (int)t->count, "held_out", (int)count,
                  "rank_correlation", correlation, "pairs_right", pairs > 0 ? right / pairs : 0.5));
    return KILN_OK;
}

/* ---- saying ---------------------------------------------------------------------------------- */

/* The features with the largest contributions, the first one first: *out_count numbers. */
static uint32_t *order_features(const learner *l, uint32_t most, uint32_t *out_count) {
    uint32_t *order = KILN_ARENA_ARRAY(l->arena, uint32_t, most + 1), count = 0;
    bool *is_taken = KILN_ARENA_ARRAY(l->arena, bool, l->reason_count + 1);
    while (count < most) {
        int best = -1;
        for (uint32_t f = 0; f + 1 < l->reason_count; f++) /* the last is no feature's */
            if (!is_taken[f] && l->importance[f] > 0 &&
                (best < 0 || l->importance[f] > l->importance[best]))
                best = (int)f;
        if (best < 0) break;
        is_taken[best] = true;
        order[count++] = (uint32_t)best;
    }
    *out_count = count;
    return order;
}

static json_t *features_json(const learner *l, const uint32_t *order, uint32_t count) {
    json_t *features = json_array();
    for (uint32_t i = 0; i < count; i++) {
        const kiln_reason *r = &l->reason[order[i]];
        json_array_append_new(features, json_pack("{s:s, s:s, s:s, s:f}", "feature", r->name,
                                                  "unit", r->unit, "doc", r->doc, "gain",
                                                  l->importance[order[i]] / l->explained_count));
    }
    return features;
}

/* Every trial of one task over the features that matter. */
static kiln_status say_trials(learner *l, kiln_events *events, const task_samples *t,
                              const uint32_t *order, uint32_t count) {
    json_t *trials = json_array();
    kiln_status st = KILN_OK;
    count = KILN_MIN(count, SCATTER_FEATURES);
    for (uint32_t i = 0; !st && i < t->count; i++) {
        kiln_reason *reason = NULL;
        uint32_t reason_count = 0;
        const sample *s = &t->sample[i];
        json_t *values = json_array();
        st = kiln_cost_model_explain(l->model, &s->candidate, l->arena, &reason, &reason_count);
        for (uint32_t f = 0; !st && f < count; f++)
            json_array_append_new(values, json_real(reason[order[f]].value));
        json_array_append_new(trials, json_pack("{s:o, s:f, s:f, s:b, s:o}", "trial",
                                                kiln_json_str(s->trial_id), "median_ns", s->ns,
                                                "score", (double)s->score, "held_out",
                                                (int)s->is_held, "values", values));
    }
    json_t *features = features_json(l, order, count);
    if (!st)
        kiln_events_result(events, json_pack("{s:s, s:o, s:O, s:O}", "event", "trials", "task",
                                             kiln_json_str(t->stat->task_key), "features", features,
                                             "trials", trials));
    json_decref(features);
    json_decref(trials);
    return st;
}

static kiln_status say(learner *l, kiln_events *events, const task_samples *task,
                       uint32_t task_count) {
    uint32_t count = 0;
    const uint32_t *order = order_features(l, FEATURES_SHOWN, &count);
    kiln_status st = KILN_OK;
    const double held = KILN_MAX(l->held_count, 1);
    kiln_events_result(
        events,
        json_pack("{s:s, s:o, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:{s:[s, s], s:O}, s:O, s:o}",
                  "event", "cost model", "target", kiln_json_str(l->target_text), "records",
                  (int)l->sample_count, "learnt_from", (int)kiln_cost_model_trained_on(l->model),
                  "held_out", (int)l->held_count, "unreadable", (int)l->unreadable_count, "tasks",
                  (int)l->task_count, "rank_correlation", l->correlation_sum / held, "top_recall",
                  l->recall_sum / held, "points", "columns", "measured", "predicted", "rows",
                  l->points, "by_task", l->tasks, "importance", features_json(l, order, count)));
    for (uint32_t i = 0; !st && i < task_count && l->only_task.size; i++)
        if (kiln_str_equal(task[i].stat->task_key, l->only_task) && l->explained_count)
            st = say_trials(l, events, &task[i], order, count);
    return st;
}

/* ---- the request ----------------------------------------------------------------------------- */

static int by_records(const void *a, const void *b) {
    const kiln_db_stat *x = a, *y = b;
    return (x->record_count < y->record_count) - (x->record_count > y->record_count);
}

/* The task that is asked for first, then those with most records. */
static kiln_status read_tasks(learner *l, task_samples **out_task, uint32_t *out_count) {
    kiln_db_stat *stat = NULL;
    uint32_t stat_count = 0, count = 0;
    kiln_status st = kiln_db_stats_of(l->db, l->projects, l->arena, &stat, &stat_count);
    if (st) return st;
    qsort(stat, stat_count, sizeof *stat, by_records);
    task_samples *task = KILN_ARENA_ARRAY(l->arena, task_samples, stat_count + 1);
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; !st && i < stat_count; i++) {
            const bool is_asked = kiln_str_equal(stat[i].task_key, l->only_task);
            if (is_asked != (turn == 0) || !kiln_str_equal(stat[i].target, l->target_text))
                continue;
            if (l->sample_count < SAMPLES_MAX) st = read_task(l, &stat[i], &task[count++]);
        }
    }
    *out_task = task;
    *out_count = count;
    return st;
}

static kiln_status answer(learner *l, kiln_events *events) {
    task_samples *task = NULL;
    uint32_t count = 0;
    kiln_status st = read_tasks(l, &task, &count);
    if (!st && !l->sample_count)
        st = KILN_ERROR(NOT_FOUND, "the database has no trial of %.*s that can be replayed",
                        KILN_STR_ARG(l->target_text));
    if (st) return st;
    kiln_cost_model_train_begin(l->model);
    st = kiln_cost_model_train_wait(l->model);
    for (uint32_t i = 0; !st && i < count && kiln_cost_model_trained_on(l->model); i++)
        st = judge(l, &task[i]);
    return st ? st : say(l, events, task, count);
}

/* NULL: of all. */
static const kiln_db_projects *read_projects(const kiln_opt_list *list, kiln_arena *arena,
                                             kiln_db_projects *out) {
    const uint32_t count = (uint32_t)KILN_MIN(list->count, KILN_DB_PROJECTS_MAX);
    kiln_str *name = KILN_ARENA_ARRAY(arena, kiln_str, count + 1);
    for (uint32_t i = 0; i < count; i++) name[i] = kiln_str_from(list->item[i]);
    *out = (kiln_db_projects){name, count};
    return count ? out : NULL;
}

kiln_status kiln_serve_cost_model(const kiln_served *served) {
    const char *db_option = NULL, *task = "", *path = NULL;
    kiln_opt_list project = {0};
    kiln_db_projects projects;
    const kiln_cost_model_options options = {.seed = SEED};
    const kiln_opt option[] = {
        {"db", KILN_OPT_TEXT, &db_option, "PATH", "records database (default $KILN_HOME/kiln.db)"},
        {"task", KILN_OPT_TEXT, &task, "KEY", "also every trial of this task, over the features"},
        {"project", KILN_OPT_LIST, &project, "PROJECT", "only records of these projects"},
    };
    const kiln_opt_table table = {"", "", option, KILN_ARRAY_COUNT(option), 0, 0};
    learner l = {.target_text = kiln_str_from(served->subject), .arena = served->process};
    kiln_status st = kiln_served_options(served, &table);
    if (!st) st = kiln_target_parse(l.target_text, served->process, &l.target);
    if (!st) st = kiln_db_path(db_option, served->process, &path);
    if (!st) st = kiln_db_open(path, KILN_DB_RECORDS, KILN_DB_READ, &l.db);
    if (st) return st;
    l.only_task = kiln_str_from(task);
    l.projects = read_projects(&project, served->process, &projects);
    l.model = kiln_cost_model_create(&options);
    l.tasks = json_array();
    l.points = json_array();
    st = answer(&l, served->events);
    json_decref(l.tasks);
    json_decref(l.points);
    kiln_cost_model_destroy(l.model);
    kiln_db_close(l.db);
    return st;
}
