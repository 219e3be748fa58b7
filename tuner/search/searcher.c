#include "tuner/search/searcher.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "tuner/search/search.h"

/* After so many plans without a new candidate the space counts as used up. Spaces are far larger
 * than any budget, except tiny ones, whose last members turn up within a few hundred draws. */
#define PLANS_MAX 512

typedef struct searcher_row {
    const char *name;
    kiln_search_plan plan;
    bool learns;
} searcher_row;

static const searcher_row searcher_table[] = {
#define X(name, text, plan, learns, doc) [KILN_SEARCHER_##name] = {text, plan, learns},
#include "tuner/search/searchers.def"
#undef X
};
_Static_assert(KILN_ARRAY_COUNT(searcher_table) == KILN_SEARCHER_COUNT, "one row per searcher");

struct kiln_searcher {
    kiln_search search;
    uint32_t next;                   /* of search.plan */
    KILN_VEC(kiln_point *) proposed; /* by index; in search.memory */
    char default_hash[KILN_HASH128_TEXT];
    kiln_encoding default_encoding; /* in search.memory */
    bool default_is_due;
    KILN_VEC(kiln_point) by_hand; /* due before it; in search.memory */
    KILN_VEC(kiln_point) adopted; /* due after it; likewise */
};

kiln_status kiln_searcher_find(kiln_str name, kiln_searcher_kind *out_kind) {
    kiln_strbuf known = {0};
    for (unsigned i = 0; i < KILN_SEARCHER_COUNT; i++) {
        kiln_strbuf_printf(&known, "%s%s", i ? ", " : "", searcher_table[i].name);
        if (!kiln_str_is(name, searcher_table[i].name)) continue;
        *out_kind = (kiln_searcher_kind)i;
        kiln_strbuf_deinit(&known);
        return KILN_OK;
    }
    kiln_status st = KILN_ERROR(NOT_FOUND, "no searcher is called '%.*s'; there are %s",
                                KILN_STR_ARG(name), known.data);
    kiln_strbuf_deinit(&known);
    return st;
}

bool kiln_searcher_learns(kiln_searcher_kind kind) { return searcher_table[kind].learns; }

kiln_status kiln_searcher_create(const kiln_searcher_options *options, kiln_points *points,
                                 kiln_searcher **out_searcher) {
    kiln_searcher *s = kiln_alloc(sizeof *s);
    s->search.points = points;
    s->search.options = *options;
    s->default_is_due = true;
    kiln_map_init(&s->search.seen);
    kiln_arena_init(&s->search.memory, 0);
    kiln_arena_init(&s->search.scratch, 0);
    kiln_arena_init(&s->search.kept[0], 0);
    kiln_arena_init(&s->search.kept[1], 0);
    kiln_point first;
    kiln_status st = points->first(points, 0, &s->search.memory, &first);
    if (!st && searcher_table[options->kind].learns && !options->model)
        st = KILN_ERROR(INVALID_ARGUMENT, "the searcher '%s' asks a model",
                        searcher_table[options->kind].name);
    if (st) {
        kiln_searcher_destroy(s);
        return st;
    }
    memcpy(s->default_hash, first.hash, sizeof first.hash);
    s->default_encoding = first.encoding;
    *out_searcher = s;
    return KILN_OK;
}

void kiln_searcher_destroy(kiln_searcher *searcher) {
    if (!searcher) return;
    kiln_search *search = &searcher->search;
    kiln_map_deinit(&search->seen);
    kiln_vec_deinit(&search->result);
    kiln_vec_deinit(&search->plan);
    kiln_vec_deinit(&searcher->proposed);
    kiln_vec_deinit(&searcher->by_hand);
    kiln_vec_deinit(&searcher->adopted);
    kiln_arena_deinit(&search->memory);
    kiln_arena_deinit(&search->scratch);
    kiln_arena_deinit(&search->kept[0]);
    kiln_arena_deinit(&search->kept[1]);
    search->points->destroy(search->points);
    kiln_free(searcher);
}

const char *kiln_searcher_default_hash(const kiln_searcher *searcher) {
    return searcher->default_hash;
}

const kiln_encoding *kiln_searcher_default_encoding(const kiln_searcher *searcher) {
    return &searcher->default_encoding;
}

uint32_t kiln_searcher_proposed(const kiln_searcher *searcher) { return searcher->proposed.count; }

/* ---- results ---- */

/* Keeps `result` sorted. */
static void insert_result(kiln_search *search, kiln_search_result added) {
    kiln_vec_push(&search->result, added);
    uint32_t at = search->result.count - 1;
    for (; at > 0 && added.latency_ns > 0; at--) {
        double before = search->result.data[at - 1].latency_ns;
        if (before > 0 && before <= added.latency_ns) break;
        search->result.data[at] = search->result.data[at - 1];
    }
    search->result.data[at] = added;
}

static void learn(kiln_search *search, const kiln_point *point, const kiln_assembled *assembled,
                  double latency_ns) {
    if (search->options.model)
        kiln_cost_model_add(search->options.model, search->options.task, &point->encoding,
                            assembled, latency_ns);
}

void kiln_searcher_know(kiln_searcher *searcher, kiln_str trace, kiln_str hash,
                        const kiln_assembled *assembled, double latency_ns) {
    kiln_search *search = &searcher->search;
    KILN_CHECK(searcher->proposed.count == 0);
    if (!kiln_map_put(&search->seen, hash, 1)) return;
    if (kiln_str_is(hash, searcher->default_hash)) searcher->default_is_due = false;
    kiln_point *point = KILN_ARENA_NEW(&search->memory, kiln_point);
    kiln_status st = search->points->find(search->points, trace, &search->memory, point);
    bool outside = kiln_status_code(st) == KILN_NOT_FOUND && point->encoding.data;
    if (!st) insert_result(search, (kiln_search_result){point, latency_ns > 0 ? latency_ns : 0});
    if (!st || outside) learn(search, point, assembled, latency_ns);
    kiln_status_free(st); /* of another version of the primitives: nothing is known of it */
}

void kiln_searcher_adopt(kiln_searcher *searcher, kiln_str trace) {
    kiln_search *search = &searcher->search;
    kiln_point point;
    KILN_CHECK(searcher->proposed.count == 0);
    kiln_status st = search->points->adopt(search->points, trace, &search->memory, &point);
    if (!st) {
        point.adopted = true;
        kiln_vec_push(&searcher->adopted, point);
    }
    kiln_status_free(st); /* nothing like it is legal here */
}

kiln_status kiln_searcher_begin_with(kiln_searcher *searcher, kiln_str trace) {
    kiln_search *search = &searcher->search;
    kiln_point point;
    KILN_CHECK(searcher->proposed.count == 0);
    kiln_status st = search->points->find(search->points, trace, &search->memory, &point);
    point.outside = kiln_status_code(st) == KILN_NOT_FOUND;
    if (point.outside) {
        kiln_status_free(st); /* it competes all the same */
        st = KILN_OK;
    }
    if (!st) st = search->points->check(search->points, &point);
    if (st) return st;
    point.by_hand = true;
    kiln_vec_push(&searcher->by_hand, point);
    if (point.outside) kiln_searcher_adopt(searcher, trace);
    return KILN_OK;
}

void kiln_searcher_observe(kiln_searcher *searcher, uint32_t index, kiln_outcome outcome,
                           const kiln_assembled *assembled, double latency_ns) {
    KILN_CHECK(index < searcher->proposed.count);
    if (outcome != KILN_OUTCOME_OK && kiln_outcome_blame(outcome) != KILN_BLAME_CANDIDATE) return;
    const kiln_point *point = searcher->proposed.data[index];
    double least_ns = outcome == KILN_OUTCOME_OK && latency_ns > 0 ? latency_ns : 0;
    if (!point->outside) insert_result(&searcher->search, (kiln_search_result){point, least_ns});
    learn(&searcher->search, point, assembled, least_ns);
}

/* ---- proposals ---- */

bool kiln_search_is_seen(const kiln_search *search, const kiln_point *point) {
    uint64_t ignored;
    return kiln_map_find(&search->seen, kiln_str_from(point->hash), &ignored);
}

void kiln_search_plan_add(kiln_search *search, const kiln_point *point) {
    kiln_vec_push(&search->plan, *point);
}

static bool is_refused(kiln_status st) {
    kiln_code code = kiln_status_code(st);
    return code == KILN_ILLEGAL_SCHEDULE || code == KILN_RESOURCE_EXHAUSTED;
}

static kiln_status make_plan(kiln_searcher *s) {
    kiln_search *search = &s->search;
    kiln_rand base;
    search->plan.count = s->next = 0;
    kiln_arena_reset(&search->scratch);
    kiln_rand_init(&base, search->options.seed);
    /* The known records are part of the seed: a second search of a task draws other points. */
    search->rand =
        kiln_rand_split(&base, (uint64_t)kiln_map_count(&search->seen) << 32 ^ search->plans);
    kiln_status st = KILN_OK;
    if (s->by_hand.count) {
        for (uint32_t i = 0; i < s->by_hand.count; i++)
            kiln_search_plan_add(search, &s->by_hand.data[i]);
        s->by_hand.count = 0;
    } else if (s->default_is_due) {
        kiln_point first;
        s->default_is_due = false;
        st = search->points->first(search->points, 0, &search->scratch, &first);
        if (!st) kiln_search_plan_add(search, &first);
    } else if (s->adopted.count) {
        for (uint32_t i = 0; i < s->adopted.count; i++)
            kiln_search_plan_add(search, &s->adopted.data[i]);
        s->adopted.count = 0;
    } else {
        search->plans++;
        st = searcher_table[search->options.kind].plan(search);
    }
    if (is_refused(st)) {
        kiln_status_free(st); /* refused before any trial: planned again, no record */
        st = KILN_OK;
    }
    return st;
}

/* The next point of the plan that is new and can be built; NULL at its end. */
static kiln_status take_planned(kiln_searcher *s, kiln_point **out_point) {
    kiln_search *search = &s->search;
    *out_point = NULL;
    while (s->next < search->plan.count) {
        const kiln_point *point = &search->plan.data[s->next++];
        if (!kiln_map_put(&search->seen, kiln_str_from(point->hash), 1)) continue;
        kiln_status st = search->points->check(search->points, point);
        if (is_refused(st)) {
            kiln_status_free(st);
            continue;
        }
        if (st) return st;
        kiln_point copy = kiln_point_copy(point, &search->memory);
        *out_point = kiln_arena_copy(&search->memory, &copy, sizeof copy);
        return KILN_OK;
    }
    return KILN_OK;
}

kiln_status kiln_searcher_propose(kiln_searcher *searcher, const kiln_point **out_point) {
    kiln_point *point = NULL;
    kiln_status st = take_planned(searcher, &point);
    for (unsigned i = 0; !st && !point && i < PLANS_MAX; i++) {
        st = make_plan(searcher);
        if (!st) st = take_planned(searcher, &point);
    }
    if (st) return kiln_status_note(st, "proposal %u", searcher->proposed.count);
    if (!point)
        return KILN_ERROR(OUT_OF_RANGE,
                          "no new candidate in %u plans after %u proposals: the space is used up",
                          PLANS_MAX, searcher->proposed.count);
    kiln_vec_push(&searcher->proposed, point);
    *out_point = point;
    return KILN_OK;
}

/* ---- for strategies ---- */

#define DRAWS_MAX 64
/* The model is trained when this many results are new, and more when it has many already: the time
 * of all trainings then grows little faster than the number of results. */
#define TRAIN_STEP 4u
#define TRAIN_SHARE 12u

kiln_arena *kiln_search_turn(kiln_search *search) {
    kiln_arena *arena = &search->kept[search->kept_turn ^= 1];
    kiln_arena_reset(arena);
    return arena;
}

kiln_status kiln_search_draw(kiln_search *search, kiln_arena *arena, kiln_point *out) {
    kiln_status st = KILN_OK;
    for (unsigned i = 0; i < DRAWS_MAX; i++) {
        st = search->points->draw(search->points, &search->rand, arena, out);
        if (!st && !kiln_search_is_seen(search, out)) return KILN_OK;
        if (st && !is_refused(st)) return st;
        kiln_status_free(st);
    }
    return KILN_ERROR(ILLEGAL_SCHEDULE, "nothing new in %u draws", DRAWS_MAX);
}

void kiln_search_train(kiln_search *search) {
    kiln_cost_model *model = search->options.model;
    uint32_t fresh = kiln_cost_model_sample_count(model) - kiln_cost_model_trained_on(model);
    uint32_t own = kiln_cost_model_own_count(model);
    if (fresh < TRAIN_STEP + (own - KILN_MIN(own, fresh)) / TRAIN_SHARE) return;
    kiln_cost_model_train_begin(model);
    kiln_status_free(
        kiln_cost_model_train_wait(model)); /* predictions go on with the trees before */
}

void kiln_search_score(kiln_search *search, kiln_point *point, uint32_t count) {
    kiln_encoding *candidate = KILN_ARENA_ARRAY(&search->scratch, kiln_encoding, count);
    float *score = KILN_ARENA_ARRAY(&search->scratch, float, count);
    for (uint32_t i = 0; i < count; i++) candidate[i] = point[i].encoding;
    kiln_status st = kiln_cost_model_predict(search->options.model, candidate, count, score);
    for (uint32_t i = 0; i < count; i++) point[i].score = st ? 0 : score[i];
    kiln_status_free(st); /* all alike: the search goes on by chance */
}
