/* What a searcher moves in: closed traces, encoded for a cost model. Two makers exist: the space of
 * a task (points_space.c), where moves are mutations that replay judges, and a recorded pool
 * (tests/replay/pool.h), where moves go to neighbours among what was measured once.
 * Strategies do not know which one they have. */
#ifndef KILN_TUNER_SEARCH_POINTS_H
#define KILN_TUNER_SEARCH_POINTS_H

#include "base/rand.h"
#include "base/status.h"
#include "compiler-core/core.h"
#include "tuner/model/model.h"

typedef struct kiln_point {
    kiln_str trace; /* binary form */
    char hash[KILN_HASH128_TEXT];
    kiln_encoding encoding; /* for models of the points' kind; data NULL: it has none */
    float score;            /* of the model when it was last asked */
    bool adopted;           /* it was fast on another target */
    bool by_hand;           /* a person wrote it */
    bool outside;           /* no member of the space: no search moves from it */
} kiln_point;

/* Members are required unless said otherwise; results live in the arena that is passed in. All are
 * called from one thread at a time and are deterministic. */
typedef struct kiln_points kiln_points;
struct kiln_points {
    /* The index-th of the points to begin with: 0 is the default schedule, then the other sketches
     * as their rules prefer them. OUT_OF_RANGE behind the last. */
    kiln_status (*first)(kiln_points *points, uint32_t index, kiln_arena *arena, kiln_point *out);
    /* One by chance. */
    kiln_status (*draw)(kiln_points *points, kiln_rand *rand, kiln_arena *arena, kiln_point *out);
    /* The index-th of `size` in a fixed order, for the grid. */
    kiln_status (*at)(kiln_points *points, uint64_t index, kiln_arena *arena, kiln_point *out);
    double (*size)(kiln_points *points);
    /* A neighbour, and a child of two. ILLEGAL_SCHEDULE: ask again, or give up after some. */
    kiln_status (*mutate)(kiln_points *points, const kiln_point *parent, kiln_rand *rand,
                          kiln_arena *arena, kiln_point *out);
    kiln_status (*cross)(kiln_points *points, const kiln_point *a, const kiln_point *b,
                         kiln_rand *rand, kiln_arena *arena, kiln_point *out);
    /* How far apart two points are: kiln_trace_distance. */
    double (*distance)(kiln_points *points, const kiln_point *a, const kiln_point *b);
    /* A trace from elsewhere: a record of this task. NOT_FOUND: it is no member, so that no search
     * may move from it; `out` is written all the same. */
    kiln_status (*find)(kiln_points *points, kiln_str trace, kiln_arena *arena, kiln_point *out);
    /* The member nearest to a trace of this task from another target. ILLEGAL_SCHEDULE: nothing
     * like it is legal here. */
    kiln_status (*adopt)(kiln_points *points, kiln_str trace, kiln_arena *arena, kiln_point *out);
    /* Whether a candidate can be built, as far as it can be told without a compiler: lowering and
     * the register bound. ILLEGAL_SCHEDULE, RESOURCE_EXHAUSTED: no. */
    kiln_status (*check)(kiln_points *points, const kiln_point *point);
    void (*destroy)(kiln_points *points);
};

/* The space of `te` on `target`, which must outlive it, for models of one kind; what `options`
 * point at is copied. Errors are those of kiln_space_create. */
KILN_MUST_USE kiln_status kiln_points_of_space(const kiln_program *te, const kiln_target *target,
                                               const kiln_space_options *options,
                                               kiln_model_kind model, kiln_points **out_points);

/* A copy whose parts live in `arena`. */
kiln_point kiln_point_copy(const kiln_point *point, kiln_arena *arena);

#endif
