/* Proposes candidates of one task. A searcher is deterministic: the same task, target, seed and observed
 * results give the same proposals, so that a killed tuner goes on where it was by proposing again from the
 * start. Proposal 0 is the default schedule, unless it is excluded. No trace is proposed twice, and none that replay,
 * legality or the register bound refuses: those are drawn again and leave no record.
 *
 * A strategy is a row of searchers.def and one file with a draw function; copy search_random.c. */
#ifndef KILN_TUNER_SEARCH_SEARCHER_H
#define KILN_TUNER_SEARCH_SEARCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rand.h"
#include "base/status.h"
#include "base/str.h"
#include "base/target.h"
#include "compiler-core/core.h"

typedef enum kiln_searcher_kind {
#define X(name, text, draw, doc) KILN_SEARCHER_##name,
#include "tuner/search/searchers.def"
#undef X
    KILN_SEARCHER_COUNT
} kiln_searcher_kind;

/* NOT_FOUND: no such name (lists the known ones). UNIMPLEMENTED: reserved for a later version. */
KILN_MUST_USE kiln_status kiln_searcher_find(kiln_str name, kiln_searcher_kind *out_kind);

typedef struct kiln_searcher kiln_searcher;

/* `te` and `target` must outlive the searcher. Errors are those of kiln_space_create. */
KILN_MUST_USE kiln_status kiln_searcher_create(kiln_searcher_kind kind, const kiln_program *te, const kiln_target *target,
                                               uint64_t seed, kiln_searcher **out_searcher);
void kiln_searcher_destroy(kiln_searcher *searcher); /* NULL is fine */

/* Never propose a trace with this hash: it was measured before. Before the first proposal only. */
void kiln_searcher_exclude(kiln_searcher *searcher, kiln_str trace_hash);
/* The next proposal, with the number that kiln_searcher_proposed had before; trace in `candidate`.
 * OUT_OF_RANGE: no new candidate in many draws: the space is used up. About 1 ms. */
KILN_MUST_USE kiln_status kiln_searcher_propose(kiln_searcher *searcher, kiln_arena *candidate, kiln_trace *out_trace);
uint32_t kiln_searcher_proposed(const kiln_searcher *searcher);
/* Hash of the default schedule's trace: [KILN_HASH128_TEXT]. */
const char *kiln_searcher_default_hash(const kiln_searcher *searcher);

/* For strategies: one draw, which may repeat earlier ones. `attempt` counts draws of this searcher so far.
 * ILLEGAL_SCHEDULE: draw again. OUT_OF_RANGE: nothing is left. */
typedef struct kiln_draw {
    const kiln_space *space;
    kiln_rand rand;   /* seeded by (seed, attempt) */
    uint64_t attempt;
} kiln_draw;
typedef kiln_status (*kiln_draw_function)(kiln_draw *draw, kiln_arena *candidate, kiln_trace *out_trace, kiln_program **out_program);

/* The strategies, one file each. */
KILN_MUST_USE kiln_status kiln_search_random(kiln_draw *draw, kiln_arena *candidate, kiln_trace *out_trace, kiln_program **out_program);
KILN_MUST_USE kiln_status kiln_search_grid(kiln_draw *draw, kiln_arena *candidate, kiln_trace *out_trace, kiln_program **out_program);

#endif
