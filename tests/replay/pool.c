#include "tests/replay/pool.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/macros.h"
#include "base/map.h"
#include "tuner/tuner.h"

#define GENES_MAX 64u     /* numbers that a trace decides */
#define NEIGHBOURS 12u    /* of a member */
#define SKETCH_DIFFERS 2u /* another sketch is as far as so many other decisions */
#define ADOPTED_MAX 6u    /* as tuner/transfer.c */

typedef struct member {
    kiln_point point;
    kiln_outcome outcome;
    double median_ns;
    uint32_t sketch, gene_count;
    int64_t gene[GENES_MAX];
    uint32_t neighbour[NEIGHBOURS]; /* nearest first */
} member;

struct kiln_replay_pool {
    kiln_points points;
    kiln_arena memory;
    kiln_str key, group; /* of the task; with the target, where both are known */
    kiln_target target;
    kiln_space space; /* of the task on the target today */
    member *member;
    uint32_t count, neighbour_count;
    double best_ns;
    kiln_model_kind model;
    kiln_map index; /* hash -> member */
};

/* ---- making ---- */

static bool take_genes(const kiln_trace *trace, member *m) {
    for (uint32_t i = 0; i < trace->count; i++)
        for (uint32_t k = 0; k < trace->instruction[i].decision_count; k++) {
            if (m->gene_count == GENES_MAX) return false;
            m->gene[m->gene_count++] = trace->instruction[i].decision[k];
        }
    return true;
}

/* False: the trace does not replay any more. */
static bool make_member(kiln_replay_pool *pool, const kiln_replay_trial *trial,
                        const kiln_program *te, const kiln_target *target, kiln_arena *scratch,
                        member *out) {
    kiln_program *program = NULL;
    kiln_strbuf bytes = {0};
    *out =
        (member){.outcome = trial->outcome, .median_ns = trial->median_ns, .sketch = trial->sketch};
    kiln_status st = kiln_trace_replay(&trial->trace, te, NULL, scratch, &program, NULL);
    bool replays = st == NULL && take_genes(&trial->trace, out);
    kiln_status_free(st);
    if (!replays) return false;
    st = kiln_model_encode(pool->model, program, target, scratch, &pool->memory,
                           &out->point.encoding);
    kiln_status_free(st); /* recorded pools are of targets that have features */
    if (st) return false;
    kiln_trace_encode(&trial->trace, &bytes);
    out->point.trace.data = kiln_arena_copy(&pool->memory, bytes.data, bytes.size);
    out->point.trace.size = bytes.size;
    kiln_hash128_print(kiln_hash128_of(bytes.data, bytes.size), out->point.hash);
    kiln_strbuf_deinit(&bytes);
    return true;
}

static uint32_t gene_distance(const member *a, const member *b) {
    uint32_t both = KILN_MIN(a->gene_count, b->gene_count);
    uint32_t distance = KILN_MAX(a->gene_count, b->gene_count) - both;
    if (a->sketch != b->sketch) distance += SKETCH_DIFFERS;
    for (uint32_t i = 0; i < both; i++) distance += a->gene[i] != b->gene[i];
    return distance;
}

static void find_neighbours(kiln_replay_pool *pool, member *m) {
    uint32_t distance[NEIGHBOURS], count = 0;
    for (uint32_t i = 0; i < pool->count; i++) {
        if (&pool->member[i] == m) continue;
        uint32_t d = gene_distance(m, &pool->member[i]), at = count;
        while (at > 0 && distance[at - 1] > d) at--;
        if (at == NEIGHBOURS) continue;
        count = KILN_MIN(count + 1, NEIGHBOURS);
        memmove(&distance[at + 1], &distance[at], (count - at - 1) * sizeof *distance);
        memmove(&m->neighbour[at + 1], &m->neighbour[at], (count - at - 1) * sizeof *m->neighbour);
        distance[at] = d;
        m->neighbour[at] = i;
    }
    pool->neighbour_count = count;
}

static void index_members(kiln_replay_pool *pool) {
    for (uint32_t i = 0; i < pool->count; i++) {
        member *m = &pool->member[i];
        kiln_map_put(&pool->index, kiln_str_from(m->point.hash), i);
        if (m->outcome == KILN_OUTCOME_OK && m->median_ns > 0 &&
            (pool->best_ns <= 0 || m->median_ns < pool->best_ns))
            pool->best_ns = m->median_ns;
        find_neighbours(pool, m);
    }
}

/* ---- moving ---- */

static kiln_status give(kiln_replay_pool *pool, uint32_t index, kiln_point *out) {
    *out = pool->member[index].point;
    return KILN_OK;
}

static kiln_status find_member(const kiln_replay_pool *pool, const kiln_point *point,
                               const member **out_member) {
    uint64_t index = 0;
    if (!kiln_map_find(&pool->index, kiln_str_from(point->hash), &index))
        return KILN_ERROR(NOT_FOUND, "the log has no such trace");
    *out_member = &pool->member[index];
    return KILN_OK;
}

/* Of a point of the pool. */
static const member *member_of(const kiln_replay_pool *pool, const kiln_point *point) {
    const member *found = NULL;
    KILN_CHECK(find_member(pool, point, &found) == KILN_OK);
    return found;
}

static kiln_status pool_first(kiln_points *points, uint32_t index, kiln_arena *arena,
                              kiln_point *out) {
    (void)arena;
    return index ? KILN_ERROR(OUT_OF_RANGE, "only the default schedule is marked in a log")
                 : give((kiln_replay_pool *)(void *)points, 0, out);
}

static kiln_status pool_draw(kiln_points *points, kiln_rand *rand, kiln_arena *arena,
                             kiln_point *out) {
    kiln_replay_pool *pool = (kiln_replay_pool *)(void *)points;
    (void)arena;
    return give(pool, (uint32_t)kiln_rand_below(rand, pool->count), out);
}

static kiln_status pool_at(kiln_points *points, uint64_t index, kiln_arena *arena,
                           kiln_point *out) {
    kiln_replay_pool *pool = (kiln_replay_pool *)(void *)points;
    (void)arena;
    return index < pool->count ? give(pool, (uint32_t)index, out)
                               : KILN_ERROR(OUT_OF_RANGE, "the log has %u trials", pool->count);
}

static double pool_size(kiln_points *points) { return ((kiln_replay_pool *)(void *)points)->count; }

static kiln_status pool_mutate(kiln_points *points, const kiln_point *parent, kiln_rand *rand,
                               kiln_arena *arena, kiln_point *out) {
    kiln_replay_pool *pool = (kiln_replay_pool *)(void *)points;
    (void)arena;
    if (pool->neighbour_count == 0) return KILN_ERROR(ILLEGAL_SCHEDULE, "the log has one trial");
    uint64_t which = kiln_rand_below(rand, pool->neighbour_count);
    return give(pool, member_of(pool, parent)->neighbour[which], out);
}

static kiln_status pool_cross(kiln_points *points, const kiln_point *a, const kiln_point *b,
                              kiln_rand *rand, kiln_arena *arena, kiln_point *out) {
    kiln_replay_pool *pool = (kiln_replay_pool *)(void *)points;
    const member *first = member_of(pool, a), *second = member_of(pool, b);
    member child = *first;
    uint32_t least = UINT32_MAX, best = 0;
    (void)arena;
    for (uint32_t i = 0; i < KILN_MIN(first->gene_count, second->gene_count); i++)
        if (kiln_rand_below(rand, 2)) child.gene[i] = second->gene[i];
    for (uint32_t i = 0; i < pool->count; i++) {
        uint32_t distance = gene_distance(&child, &pool->member[i]);
        bool parent = &pool->member[i] == first || &pool->member[i] == second;
        if (parent || distance >= least) continue;
        least = distance;
        best = i;
    }
    return least == UINT32_MAX ? KILN_ERROR(ILLEGAL_SCHEDULE, "there is no third member")
                               : give(pool, best, out);
}

static double pool_distance(kiln_points *points, const kiln_point *a, const kiln_point *b) {
    kiln_replay_pool *pool = (kiln_replay_pool *)(void *)points;
    return gene_distance(member_of(pool, a), member_of(pool, b));
}

static kiln_status pool_find(kiln_points *points, kiln_str trace, kiln_arena *arena,
                             kiln_point *out) {
    kiln_replay_pool *pool = (kiln_replay_pool *)(void *)points;
    char hash[KILN_HASH128_TEXT];
    uint64_t index = 0;
    (void)arena;
    kiln_hash128_print(kiln_hash128_of(trace.data, trace.size), hash);
    return kiln_map_find(&pool->index, kiln_str_from(hash), &index)
               ? give(pool, (uint32_t)index, out)
               : KILN_ERROR(NOT_FOUND, "the log has no such trace");
}

/* The member nearest to what the space of the task would take. */
static kiln_status pool_adopt(kiln_points *points, kiln_str bytes, kiln_arena *arena,
                              kiln_point *out) {
    kiln_replay_pool *pool = (kiln_replay_pool *)(void *)points;
    kiln_trace foreign;
    kiln_trace adopted;
    member wanted = {0};
    uint32_t best = 0;
    kiln_status st = kiln_trace_decode(bytes, arena, &foreign);
    if (!st) st = kiln_space_adopt(&pool->space, &foreign, arena, &adopted, NULL);
    if (st) return st;
    if (!take_genes(&adopted, &wanted))
        return KILN_ERROR(ILLEGAL_SCHEDULE, "more decisions than a log compares");
    for (uint32_t i = 1; i < pool->count; i++)
        if (gene_distance(&wanted, &pool->member[i]) < gene_distance(&wanted, &pool->member[best]))
            best = i;
    return give(pool, best, out);
}

static kiln_status pool_check(kiln_points *points, const kiln_point *point) {
    (void)points;
    (void)point;
    return KILN_OK; /* it was measured */
}

static void pool_let_go(kiln_points *points) { (void)points; /* it serves the next search */ }

/* ---- life ---- */

kiln_status kiln_replay_pool_create(const kiln_replay_log *log, kiln_model_kind model,
                                    kiln_replay_pool **out_pool) {
    static const kiln_points table = {pool_first,  pool_draw,  pool_at,       pool_size,
                                      pool_mutate, pool_cross, pool_distance, pool_find,
                                      pool_adopt,  pool_check, pool_let_go};
    kiln_replay_pool *pool = kiln_alloc(sizeof *pool);
    kiln_arena scratch;
    kiln_program *te = NULL;
    pool->points = table;
    pool->model = model;
    kiln_arena_init(&pool->memory, 0);
    kiln_arena_init(&scratch, (size_t)1 << 20);
    kiln_map_init(&pool->index);
    pool->key = kiln_str_from(kiln_str_dup(&pool->memory, log->key));
    pool->member = KILN_ARENA_ARRAY(&pool->memory, member, log->trial_count);
    pool->group = kiln_str_from(kiln_arena_printf(
        &pool->memory, "%.*s %.*s", KILN_STR_ARG(log->key), KILN_STR_ARG(log->target)));
    kiln_status st = kiln_program_parse(log->program, &pool->memory, &te);
    if (!st) st = kiln_target_parse(log->target, &pool->memory, &pool->target);
    if (!st) st = kiln_space_create(te, &pool->target, &pool->memory, &pool->space);
    for (uint32_t i = 0; !st && i < log->trial_count; i++) {
        pool->count += make_member(pool, &log->trial[i], te, &pool->target, &scratch,
                                   &pool->member[pool->count]);
        kiln_arena_reset(&scratch);
        if (i == 0 && pool->count == 0)
            st = KILN_ERROR(FAILED_PRECONDITION, "the default schedule of the log does not replay");
    }
    if (!st) index_members(pool);
    if (!st && (pool->best_ns <= 0 || pool->count < log->trial_count / 2))
        st = KILN_ERROR(FAILED_PRECONDITION, "%u of %u traces replay", pool->count,
                        log->trial_count);
    kiln_arena_deinit(&scratch);
    if (st)
        kiln_replay_pool_destroy(pool);
    else
        *out_pool = pool;
    return kiln_status_note(st, "replaying the log of %.*s", KILN_STR_ARG(log->key));
}

void kiln_replay_pool_destroy(kiln_replay_pool *pool) {
    if (!pool) return;
    kiln_map_deinit(&pool->index);
    kiln_arena_deinit(&pool->memory);
    kiln_free(pool);
}

uint32_t kiln_replay_pool_count(const kiln_replay_pool *pool) { return pool->count; }
double kiln_replay_pool_best_ns(const kiln_replay_pool *pool) { return pool->best_ns; }

/* ---- searching ---- */

static bool is_faster(const member *a, const member *b) {
    if (a->outcome != KILN_OUTCOME_OK || a->median_ns <= 0) return false;
    return !b || a->median_ns < b->median_ns || (a->median_ns == b->median_ns && a < b);
}

/* The fastest trials of the task on another target. */
static void adopt(kiln_searcher *searcher, const kiln_replay_pool *other) {
    const member *last = NULL;
    for (uint32_t n = 0; n < ADOPTED_MAX; n++) {
        const member *next = NULL;
        for (const member *m = other->member; m < other->member + other->count; m++)
            if (is_faster(m, next) && (!last || is_faster(last, m))) next = m;
        if (!next) return;
        kiln_searcher_adopt(searcher, next->point.trace);
        last = next;
    }
}

/* As many trials of each other log as a tuner takes from its database, the newest first. */
static void teach(kiln_cost_model *model, kiln_searcher *searcher,
                  const kiln_replay_options *options, const kiln_replay_pool *self) {
    for (uint32_t p = 0; p < options->known_count; p++) {
        const kiln_replay_pool *other = options->known[p];
        uint32_t count = KILN_MIN(other->count, KILN_TRANSFER_RECORDS_PER_TASK);
        if (other != self && kiln_str_equal(other->key, self->key)) adopt(searcher, other);
        for (uint32_t i = 0; other != self && i < count; i++) {
            const member *m = &other->member[other->count - 1 - i];
            double ns = m->outcome == KILN_OUTCOME_OK ? m->median_ns : 0;
            kiln_cost_model_learn(model, other->group, &m->point.encoding, NULL, ns);
        }
    }
}

/* What the searcher moves in. */
static kiln_status points_of(kiln_replay_pool *pool, const kiln_replay_options *options,
                             kiln_points **out_points) {
    *out_points = &pool->points;
    return options->whole_space
               ? kiln_points_of_space(pool->space.te, &pool->target, &(kiln_space_options){0},
                                      pool->model, out_points)
               : KILN_OK;
}

kiln_status kiln_replay_pool_search(kiln_replay_pool *pool, const kiln_replay_options *options,
                                    uint32_t trials, double *out_best_ns, uint32_t *out_tried,
                                    uint32_t *out_tried_count) {
    kiln_cost_model *model = kiln_cost_model_create(
        &(kiln_cost_model_options){.seed = options->seed,
                                   .kind = pool->model,
                                   .uninformed = options->uninformed,
                                   .shuffle_labels = options->shuffle_labels});
    kiln_searcher_options search = {.kind = options->kind,
                                    .seed = options->seed,
                                    .task = pool->key,
                                    .model = model,
                                    .uninformed = options->uninformed};
    kiln_searcher *searcher = NULL;
    const member **asked = kiln_alloc(trials * sizeof *asked);
    uint32_t observed = 0, k = 0;
    double best = 0;
    kiln_points *points = NULL;
    kiln_status st = points_of(pool, options, &points);
    if (!st) st = kiln_searcher_create(&search, points, &searcher);
    if (!st) teach(model, searcher, options, pool);
    for (; !st && k < trials; k++) {
        const kiln_point *point = NULL;
        for (; observed + kiln_tuner_lag(k) <= k; observed++)
            kiln_searcher_observe(searcher, observed, asked[observed]->outcome, NULL,
                                  asked[observed]->median_ns);
        st = kiln_searcher_propose(searcher, &point);
        if (!st) st = find_member(pool, point, &asked[k]);
        if (st) break;
        if (out_tried) out_tried[k] = (uint32_t)(asked[k] - pool->member);
        double median_ns = asked[k]->outcome == KILN_OUTCOME_OK ? asked[k]->median_ns : 0;
        if (median_ns > 0 && (best <= 0 || median_ns < best)) best = median_ns;
        out_best_ns[k] = best;
    }
    if (kiln_status_code(st) == KILN_OUT_OF_RANGE) {
        kiln_status_free(st); /* all of the log was proposed */
        st = KILN_OK;
    }
    if (out_tried) *out_tried_count = k;
    for (; !st && k < trials; k++) out_best_ns[k] = best;
    kiln_searcher_destroy(searcher);
    kiln_cost_model_destroy(model);
    kiln_free(asked);
    return st;
}
