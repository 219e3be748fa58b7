/* The points of a recorded log (tuner/search/points.h): a searcher that moves in it proposes traces
 * that were measured, and gets the measured times. What stands for the moves of the whole space,
 * since a log holds one trace in hundreds: a draw is any member, a neighbour is one of the few
 * members that differ in the fewest decisions, a child is the member nearest to a mixture of its
 * parents. The default schedule is the first proposal, as it is of every search. */
#ifndef KILN_TESTS_REPLAY_POOL_H
#define KILN_TESTS_REPLAY_POOL_H

#include "tests/replay/log.h"
#include "tuner/search/searcher.h"

/* A log made ready: traces replayed and encoded for models of one kind. Serves any number of
 * searches, one at a time. */
typedef struct kiln_replay_pool kiln_replay_pool;

/* About 0.3 ms a trial. Traces that do not replay any more are left out. INVALID_ARGUMENT: the
 * program or target does not parse. FAILED_PRECONDITION: hardly a trace replays. `log` may go
 * afterwards. */
KILN_MUST_USE kiln_status kiln_replay_pool_create(const kiln_replay_log *log, kiln_model_kind model,
                                                  kiln_replay_pool **out_pool);
void kiln_replay_pool_destroy(kiln_replay_pool *pool); /* NULL is fine */
uint32_t kiln_replay_pool_count(const kiln_replay_pool *pool);
double kiln_replay_pool_best_ns(const kiln_replay_pool *pool);

typedef struct kiln_replay_options {
    kiln_searcher_kind kind;
    uint64_t seed;
    bool
        uninformed; /* begin by chance, and a model of trees alone: the analytic model has no say */
    bool shuffle_labels; /* the model learns nothing: kiln_cost_model_options */
    /* Logs that are known from the start (transfer), as the tuner's database knows them: of other
     * tasks, from which the model learns, and of this task on another target, the fastest trials of
     * which are proposed first, too. Not the pool itself. */
    kiln_replay_pool *const *known;
    uint32_t known_count;
    /* The log holds every trace of the task's space: searches move in the space itself, as a
     * tuner's do, and the log only says how long each trace takes. */
    bool whole_space;
} kiln_replay_options;

/* Searches the pool as a tuner would, results coming as late as tuner/tuner.h lets them:
 * out_best_ns[k] is the fastest of the first k + 1 trials, [trials]. Searches end early when they
 * end: the rest then repeats the last. out_tried: [trials], numbers of the traces that were tried,
 * in the order of those of the log that replay, *out_tried_count of them; both NULL where nobody
 * asks. NOT_FOUND: the log was to hold the whole space, and does not. */
KILN_MUST_USE kiln_status kiln_replay_pool_search(kiln_replay_pool *pool,
                                                  const kiln_replay_options *options,
                                                  uint32_t trials, double *out_best_ns,
                                                  uint32_t *out_tried, uint32_t *out_tried_count);

#endif
