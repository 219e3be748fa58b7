#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "cli/why.h"
#include "tuner/model/model.h"

#define OTHER_RECORDS_MAX 1024u /* of other tasks: replaying one takes about half a millisecond */
#define SEED 1u

#define AVERAGED_MAX 256u /* of the task's own trials */
#define NOTABLE 0.005     /* doublings: less is noise */

typedef struct lessons {
    const kiln_target *target;
    kiln_cost_model *model;
    kiln_arena *arena;
    uint32_t task_count;
    uint32_t own_count; /* kept of the task that is explained */
    kiln_encoding own[AVERAGED_MAX];
} lessons;

/* Adds the records of one task. What this version cannot replay teaches nothing. */
static void add_records(lessons *l, kiln_str key, const kiln_program *te,
                        const kiln_db_record *record, uint32_t count, bool own) {
    kiln_arena scratch;
    uint32_t before = kiln_cost_model_sample_count(l->model);
    kiln_arena_init(&scratch, 0);
    for (uint32_t i = 0; i < count; i++) {
        kiln_trace trace;
        kiln_program *program = NULL;
        kiln_encoding candidate;
        bool ok = kiln_str_is(record[i].outcome, "ok");
        if (!ok && !kiln_str_is(record[i].blame, "candidate")) continue;
        kiln_status st = kiln_trace_decode(record[i].trace, &scratch, &trace);
        if (!st) st = kiln_trace_replay(&trace, te, NULL, &scratch, &program, NULL);
        if (!st)
            st = kiln_model_encode(KILN_MODEL_XGBOOST, program, l->target, &scratch, l->arena,
                                   &candidate);
        if (!st) {
            const kiln_assembled assembled = kiln_record_assembled(&record[i]);
            kiln_cost_model_add(l->model, key, &candidate, &assembled,
                                ok ? record[i].median_ns : 0);
            if (own && ok && l->own_count < AVERAGED_MAX) l->own[l->own_count++] = candidate;
        }
        kiln_status_free(st);
        kiln_arena_reset(&scratch);
    }
    kiln_arena_deinit(&scratch);
    l->task_count += kiln_cost_model_sample_count(l->model) > before;
}

static kiln_status add_other_task(lessons *l, kiln_db *db, kiln_db_filter filter, kiln_str key) {
    kiln_db_record *record = NULL;
    kiln_db_task row;
    kiln_program *te = NULL;
    uint32_t count = 0;
    bool found = false;
    uint32_t taken = kiln_cost_model_sample_count(l->model);
    filter.task_key = key;
    filter.limit = taken < OTHER_RECORDS_MAX ? OTHER_RECORDS_MAX - taken : 1;
    kiln_status st = kiln_db_find_task(db, key, l->arena, &row, &found);
    if (!st) st = kiln_db_records(db, &filter, l->arena, &record, &count);
    if (st || !found) return st;
    kiln_status unreadable = kiln_program_parse(row.canonical, l->arena, &te);
    if (!unreadable) add_records(l, key, te, record, count, false);
    kiln_status_free(unreadable);
    return KILN_OK;
}

static kiln_status learn(lessons *l, kiln_db *db, const kiln_task *task) {
    kiln_strbuf target = {0};
    kiln_db_stat *stat = NULL;
    kiln_db_record *record = NULL;
    uint32_t stat_count = 0, count = 0;
    kiln_target_print(l->target, &target);
    kiln_str text = kiln_str_from(kiln_str_dup(l->arena, kiln_strbuf_view(&target)));
    kiln_strbuf_deinit(&target);
    kiln_db_filter filter = {.target = text, .order = KILN_DB_NEWEST};
    kiln_db_filter own = {.target = text, .order = KILN_DB_NEWEST, .task_key = task->key};
    kiln_status st = kiln_db_stats(db, l->arena, &stat, &stat_count);
    for (uint32_t i = 0; !st && i < stat_count; i++)
        if (!kiln_str_equal(stat[i].task_key, task->key) && kiln_str_equal(stat[i].target, text) &&
            kiln_cost_model_sample_count(l->model) < OTHER_RECORDS_MAX)
            st = add_other_task(l, db, filter, stat[i].task_key);
    if (!st) st = kiln_db_records(db, &own, l->arena, &record, &count);
    if (st) return st;
    add_records(l, task->key, task->te, record, count, true);
    kiln_cost_model_train_begin(l->model);
    return kiln_cost_model_train_wait(l->model);
}

static double distance(const kiln_attribution *a) { return fabs(a->winner - a->average); }

static int by_distance(const void *a, const void *b) {
    double x = distance(a), y = distance(b);
    return (x < y) - (x > y);
}

/* Parts of one candidate's score, added to `sum` with a weight. */
static kiln_status add_parts(lessons *l, const kiln_encoding *candidate, double weight,
                             kiln_reason **out_reason, uint32_t *out_count, double *sum) {
    kiln_status st = kiln_cost_model_explain(l->model, candidate, l->arena, out_reason, out_count);
    for (uint32_t i = 0; !st && i < *out_count; i++)
        sum[i] += weight * (double)(*out_reason)[i].part;
    return st;
}

static kiln_status ask(lessons *l, const kiln_program *winner, const kiln_program *fallback,
                       kiln_attributions *out) {
    kiln_encoding row[2];
    kiln_reason *reason = NULL, *ignored = NULL;
    uint32_t count = 0;
    kiln_status st =
        kiln_model_encode(KILN_MODEL_XGBOOST, winner, l->target, l->arena, l->arena, &row[0]);
    if (!st)
        st =
            kiln_model_encode(KILN_MODEL_XGBOOST, fallback, l->target, l->arena, l->arena, &row[1]);
    if (!st) st = kiln_cost_model_explain(l->model, &row[0], l->arena, &ignored, &count);
    double *part[3];
    for (uint32_t i = 0; i < 3; i++) part[i] = KILN_ARENA_ARRAY(l->arena, double, count);
    if (!st) st = add_parts(l, &row[1], 1, &ignored, &count, part[1]);
    for (uint32_t i = 0; !st && i < l->own_count; i++)
        st = add_parts(l, &l->own[i], 1.0 / l->own_count, &ignored, &count, part[2]);
    if (!st) st = add_parts(l, &row[0], 1, &reason, &count, part[0]);
    if (st) return st;
    double doublings = 0;
    count--; /* the last one is no feature's */
    kiln_attribution *all = KILN_ARENA_ARRAY(l->arena, kiln_attribution, count);
    for (uint32_t i = 0; i < count; i++) {
        all[i] = (kiln_attribution){reason[i].name, reason[i].unit, reason[i].doc, reason[i].value,
                                    part[0][i],     part[1][i],     part[2][i]};
        doublings += part[0][i] - part[2][i];
    }
    out->gain = exp2(doublings);
    qsort(all, count, sizeof *all, by_distance);
    while (out->count < KILN_ATTRIBUTIONS_MAX && distance(&all[out->count]) >= NOTABLE) {
        out->item[out->count] = all[out->count];
        out->count++;
    }
    return KILN_OK;
}

kiln_status kiln_attributions_of(kiln_db *db, const kiln_task *task, const kiln_target *target,
                                 const kiln_program *winner, const kiln_program *fallback,
                                 kiln_arena *arena, kiln_attributions *out) {
    kiln_cost_model_options options = {.seed = SEED};
    lessons *l = KILN_ARENA_NEW(arena, lessons);
    l->target = target;
    l->model = kiln_cost_model_create(&options);
    l->arena = arena;
    *out = (kiln_attributions){0};
    kiln_status st = learn(l, db, task);
    out->sample_count = kiln_cost_model_sample_count(l->model);
    out->task_count = l->task_count;
    if (!st && kiln_cost_model_trained_on(l->model) && l->own_count)
        st = ask(l, winner, fallback, out);
    kiln_cost_model_destroy(l->model);
    return st;
}
