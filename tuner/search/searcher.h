/* Proposes candidates of one task. A searcher is deterministic: the same task, target, seed, known
 * records and observed results give the same proposals, so that a killed tuner goes on where it was
 * by proposing and observing again from the start. What a person wrote comes first, then the
 * default schedule, unless they are known already; what was fast on other targets follows. No trace
 * is proposed twice, and none that replay, legality or the register bound refuses: those are drawn
 * again and leave no record.
 *
 * Calls of one searcher, and of all that share a model, come from one thread at a time, in the
 * order of tuner/tuner.h; they may take tens of milliseconds (training, replays), so the tuner
 * calls them off its loop. A strategy is a row of searchers.def and one file with a plan function
 * (search.h). */
#ifndef KILN_TUNER_SEARCH_SEARCHER_H
#define KILN_TUNER_SEARCH_SEARCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/outcome.h"
#include "base/status.h"
#include "base/str.h"
#include "tuner/model/model.h"
#include "tuner/search/points.h"

typedef enum kiln_searcher_kind {
#define X(name, text, plan, learns, doc) KILN_SEARCHER_##name,
#include "tuner/search/searchers.def"
#undef X
    KILN_SEARCHER_COUNT
} kiln_searcher_kind;

/* NOT_FOUND: no such name (lists the known ones). */
KILN_MUST_USE kiln_status kiln_searcher_find(kiln_str name, kiln_searcher_kind *out_kind);
/* Whether it asks a model, which must then be given. */
bool kiln_searcher_learns(kiln_searcher_kind kind);

typedef struct kiln_searcher kiln_searcher;

typedef struct kiln_searcher_options {
    kiln_searcher_kind kind;
    uint64_t seed;
    kiln_str task;          /* its group in the model; must outlive the searcher */
    kiln_cost_model *model; /* shared by the searchers of a job; NULL where none is asked */
    bool uninformed; /* begin with draws in the order of chance, not of the analytic model: for
                        comparisons of what was learned */
} kiln_searcher_options;

/* Takes over `points`, which are for models of the kind of options->model, where there is one.
 * INVALID_ARGUMENT: the strategy asks a model and there is none. */
KILN_MUST_USE kiln_status kiln_searcher_create(const kiln_searcher_options *options,
                                               kiln_points *points, kiln_searcher **out_searcher);
void kiln_searcher_destroy(kiln_searcher *searcher); /* NULL is fine */

/* A record of this task from an earlier job: never proposed, and learnt from. Before the first
 * proposal only. `latency_ns` <= 0: it failed by its own fault. `assembled`: as for
 * kiln_cost_model_add. A trace that does not replay any more is ignored. */
void kiln_searcher_know(kiln_searcher *searcher, kiln_str trace, kiln_str hash,
                        const kiln_assembled *assembled, double latency_ns);
/* A trace of this task that was fast on another target: the nearest member of this space is
 * proposed right after the default schedule, in the order of these calls. Before the first proposal
 * only. One that has no legal counterpart here is ignored. */
void kiln_searcher_adopt(kiln_searcher *searcher, kiln_str trace);
/* A trace of this task that a person wrote: the first proposal, in the order of these calls, as it
 * is, whether the space holds it or not. Where it does not, the nearest member is proposed behind
 * the default schedule. Before the first proposal only. One that is known is not measured again.
 * Errors of the points' find and check. */
KILN_MUST_USE kiln_status kiln_searcher_begin_with(kiln_searcher *searcher, kiln_str trace);
/* The next proposal; it lives as long as the searcher. Its index is the number that
 * kiln_searcher_proposed had before.
 * OUT_OF_RANGE: no new candidate in many draws: the space is used up. */
KILN_MUST_USE kiln_status kiln_searcher_propose(kiln_searcher *searcher,
                                                const kiln_point **out_point);
/* How proposal `index` ended; each at most once, in order. Board and infrastructure faults teach
 * nothing. `latency_ns`: of one run, the least sample where there are several. */
void kiln_searcher_observe(kiln_searcher *searcher, uint32_t index, kiln_outcome outcome,
                           const kiln_assembled *assembled, double latency_ns);
uint32_t kiln_searcher_proposed(const kiln_searcher *searcher);
/* Hash of the default schedule's trace: [KILN_HASH128_TEXT]. */
const char *kiln_searcher_default_hash(const kiln_searcher *searcher);
/* It as models see it; lives as long as the searcher. */
const kiln_encoding *kiln_searcher_default_encoding(const kiln_searcher *searcher);

#endif
