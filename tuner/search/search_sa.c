/* Simulated annealing over traces, guided by the model. Chains persist from plan to plan; each plan
 * trains the model on the results so far, scores the chains anew, heats them, and walks each some
 * steps while it cools. All points of the walks are ranked, and the batch is the top of them.
 *
 * Sources: parallel persistent chains and epsilon-greedy as in AutoTVM (NeurIPS'18); restarts from
 * measured candidates as in Ansor (OSDI'20). Unlike there, scores below zero are scores like
 * others, and diversity does not ignore the score. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "tuner/search/search.h"

/* Each point that is looked at is a replay. With 5 steps and 256 draws these took more processor
 * time than building what was proposed, and found no more on recorded logs; 2 steps or 32 chains
 * find less (decision 5). */
#define CHAINS 48u
#define STEPS 3u           /* of each chain in one plan */
#define FIRST_DRAWS 96u    /* random points that the first chains are chosen from */
#define HOT 0.5            /* temperature of the first step, in octaves of predicted time */
#define COLD 0.05          /* of the last */
#define ELITE 12u          /* chains that restart from the fastest measured points */
#define ELITE_OCTAVES 0.35 /* of points at most this much slower than the best */
#define EPSILON 0.06       /* chance of a proposal drawn without the model */
#define SPREAD 1.0         /* least distance between two proposals of a batch */

typedef struct sa_state {
    kiln_point chain[CHAINS];
    uint32_t chain_count;
} sa_state;

/* All points of this plan: [count], scored. */
typedef KILN_VEC(kiln_point) points_vec;

static int by_score(const void *a, const void *b) {
    const kiln_point *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return strcmp(x->hash, y->hash); /* a total order, so that ties fall the same way everywhere */
}

/* Best first, each once. */
static uint32_t rank(kiln_point *point, uint32_t count) {
    uint32_t kept = 0;
    if (count > 0) qsort(point, count, sizeof *point, by_score);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || strcmp(point[kept - 1].hash, point[i].hash) != 0) point[kept++] = point[i];
    return kept;
}

/* ---- chains ---- */

static void shuffle(kiln_rand *rand, kiln_point *point, uint32_t count) {
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = (uint32_t)kiln_rand_below(rand, i);
        kiln_point swapped = point[i - 1];
        point[i - 1] = point[other];
        point[other] = swapped;
    }
}

/* The first chains: each sketch as its rule prefers it, and the best of many draws. */
static void begin_chains(kiln_search *search, sa_state *sa, points_vec *looked_at) {
    kiln_point point;
    for (uint32_t i = 0;; i++) {
        kiln_status st = search->points->first(search->points, i, &search->scratch, &point);
        bool end = kiln_status_code(st) == KILN_OUT_OF_RANGE;
        if (!st) kiln_vec_push(looked_at, point);
        kiln_status_free(st); /* one that is refused is left out */
        if (end) break;
    }
    for (uint32_t i = 0; i < FIRST_DRAWS; i++) {
        kiln_status st = kiln_search_draw(search, &search->scratch, &point);
        if (!st) kiln_vec_push(looked_at, point);
        kiln_status_free(st);
    }
    kiln_search_score(search, looked_at->data, looked_at->count);
    if (search->options.uninformed)
        shuffle(&search->rand, looked_at->data, looked_at->count);
    else
        looked_at->count = rank(looked_at->data, looked_at->count);
    sa->chain_count = KILN_MIN(looked_at->count, CHAINS);
    if (sa->chain_count) memcpy(sa->chain, looked_at->data, sa->chain_count * sizeof *sa->chain);
}

/* The worst chains go on from the fastest points that were measured. */
static void restart_chains(kiln_search *search, sa_state *sa) {
    double best = search->result.count ? search->result.data[0].latency_ns : 0;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < search->result.count && taken < ELITE && taken < sa->chain_count;
         i++) {
        double latency = search->result.data[i].latency_ns;
        if (latency <= 0 || log2(latency / best) > ELITE_OCTAVES) break;
        sa->chain[sa->chain_count - ++taken] = *search->result.data[i].point;
    }
    kiln_search_score(search, sa->chain, sa->chain_count);
}

static bool accepts(kiln_rand *rand, double before, double after, double temperature) {
    return after >= before || kiln_rand_unit(rand) < exp((after - before) / temperature);
}

static void walk(kiln_search *search, sa_state *sa, points_vec *looked_at) {
    for (uint32_t step = 0; step < STEPS; step++) {
        double temperature = HOT + (COLD - HOT) * step / (STEPS - 1);
        kiln_point moved[CHAINS];
        uint32_t from[CHAINS], count = 0;
        for (uint32_t i = 0; i < sa->chain_count; i++) {
            kiln_status st = search->points->mutate(search->points, &sa->chain[i], &search->rand,
                                                    &search->scratch, &moved[count]);
            if (!st) from[count++] = i;
            kiln_status_free(st); /* an illegal move is a move not made */
        }
        kiln_search_score(search, moved, count);
        for (uint32_t i = 0; i < count; i++) {
            kiln_vec_push(looked_at, moved[i]);
            if (accepts(&search->rand, sa->chain[from[i]].score, moved[i].score, temperature))
                sa->chain[from[i]] = moved[i];
        }
    }
}

/* Chains move to memory that survives the plan. */
static void keep_chains(kiln_search *search, sa_state *sa) {
    kiln_arena *to = kiln_search_turn(search);
    qsort(sa->chain, sa->chain_count, sizeof *sa->chain, by_score);
    for (uint32_t i = 0; i < sa->chain_count; i++)
        sa->chain[i] = kiln_point_copy(&sa->chain[i], to);
}

/* ---- the batch ---- */

static bool is_near_planned(kiln_search *search, const kiln_point *point) {
    for (uint32_t i = 0; i < search->plan.count; i++)
        if (search->points->distance(search->points, &search->plan.data[i], point) < SPREAD)
            return true;
    return false;
}

static void plan_one_at_random(kiln_search *search) {
    kiln_point point;
    kiln_status st = kiln_search_draw(search, &search->scratch, &point);
    if (!st) kiln_search_plan_add(search, &point);
    kiln_status_free(st);
}

/* The best that are new and not all alike; then, should they be refused, the best after them. */
static void choose_batch(kiln_search *search, points_vec *looked_at) {
    uint32_t count =
        search->options.uninformed && !kiln_cost_model_trained_on(search->options.model)
            ? looked_at->count
            : rank(looked_at->data, looked_at->count);
    for (uint32_t i = 0; i < count && search->plan.count < KILN_SEARCH_BATCH; i++) {
        const kiln_point *point = &looked_at->data[i];
        if (kiln_search_is_seen(search, point) || is_near_planned(search, point)) continue;
        if (kiln_rand_unit(&search->rand) < EPSILON)
            plan_one_at_random(search);
        else
            kiln_search_plan_add(search, point);
    }
    if (search->plan.count == 0) plan_one_at_random(search);
}

kiln_status kiln_search_sa(kiln_search *search) {
    sa_state *sa = search->state;
    points_vec looked_at = {0};
    kiln_search_train(search);
    if (!sa) {
        search->state = sa = KILN_ARENA_NEW(&search->memory, sa_state);
        begin_chains(search, sa, &looked_at);
    } else {
        restart_chains(search, sa);
    }
    if (!search->options.uninformed || kiln_cost_model_trained_on(search->options.model))
        walk(search, sa, &looked_at);
    keep_chains(search, sa);
    choose_batch(search, &looked_at);
    kiln_vec_deinit(&looked_at);
    return KILN_OK;
}
