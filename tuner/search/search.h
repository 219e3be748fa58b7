/* The part of a searcher that strategies use. Private to tuner/search. */
#ifndef KILN_TUNER_SEARCH_SEARCH_H
#define KILN_TUNER_SEARCH_SEARCH_H

#include "base/map.h"
#include "base/vec.h"
#include "tuner/search/searcher.h"

#define KILN_SEARCH_BATCH 4u /* proposals planned at once, from all results so far */

/* A candidate with its result. */
typedef struct kiln_search_result {
    const kiln_point *point;
    double latency_ns; /* 0: failed */
} kiln_search_result;

typedef struct kiln_search {
    kiln_points *points;
    kiln_searcher_options options;
    kiln_arena memory;  /* lasts as long as the searcher */
    kiln_arena scratch; /* reset before each plan */
    kiln_arena kept[2]; /* for what a strategy carries from plan to plan: kiln_search_turn */
    uint32_t kept_turn;
    kiln_rand rand; /* of this plan: seeded by the search's seed and `plans` */
    uint64_t plans; /* made so far */
    kiln_map seen;  /* hashes that are not to be proposed */
    KILN_VEC(kiln_search_result)
    result;                    /* fastest first, failures last; ties in order of arrival */
    KILN_VEC(kiln_point) plan; /* proposed in this order; in `scratch` */
    void *state;               /* of the strategy; in `memory` */
} kiln_search;

/* Appends up to KILN_SEARCH_BATCH points to `plan`; points that were seen or cannot be built are
 * skipped, and another plan is asked for. OUT_OF_RANGE: nothing is left. */
typedef kiln_status (*kiln_search_plan)(kiln_search *search);

#define X(name, text, plan, learns, doc) KILN_MUST_USE kiln_status plan(kiln_search *search);
#include "tuner/search/searchers.def"
#undef X

/* For strategies. */
bool kiln_search_is_seen(const kiln_search *search, const kiln_point *point);
void kiln_search_plan_add(kiln_search *search,
                          const kiln_point *point); /* in `scratch` or longer */
/* The one of `kept` that was not used last, emptied: what lasts moves there from the other. */
kiln_arena *kiln_search_turn(kiln_search *search);
/* A point by chance that was not seen; tried some times, then any error of the last draw. */
KILN_MUST_USE kiln_status kiln_search_draw(kiln_search *search, kiln_arena *arena, kiln_point *out);
/* Trains the model, when enough results came since it last was, and waits for it. */
void kiln_search_train(kiln_search *search);
/* Fills in the scores of `point` [count]. */
void kiln_search_score(kiln_search *search, kiln_point *point, uint32_t count);

#endif
