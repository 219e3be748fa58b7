/* Moves in the space of closed traces: a search changes decisions of a trace that it has and
 * replays it. Replay judges legality, as for any trace; decisions that no longer fit because
 * another one changed (a tiling of a loop that now has another extent) snap to the nearest that
 * does, so that a move keeps as much of a good trace as it can. */
#ifndef KILN_COMPILER_CORE_RULES_MUTATE_H
#define KILN_COMPILER_CORE_RULES_MUTATE_H

#include "base/rand.h"
#include "base/status.h"
#include "compiler-core/rules/space.h"

/* One random move from `parent`, a closed trace of this space or one recorded earlier:
 *   tile        a prime factor of one part moves to another
 *   categorical another category or row, near ones in the table's order more often
 *   location    a neighbouring place
 *   sketch      the same decisions in another sketch
 * ILLEGAL_SCHEDULE: the move is not legal, or there is nothing to change. The new trace differs
 * from `parent`. Costs one replay. */
KILN_MUST_USE kiln_status kiln_space_mutate(const kiln_space *space, const kiln_trace *parent,
                                            kiln_rand *rand, kiln_arena *arena,
                                            kiln_trace *out_trace, kiln_program **out_program);
/* Decisions of both parents: each from one of them by chance, where both have it; sketch of the
 * first. ILLEGAL_SCHEDULE as above. */
KILN_MUST_USE kiln_status kiln_space_cross(const kiln_space *space, const kiln_trace *first,
                                           const kiln_trace *second, kiln_rand *rand,
                                           kiln_arena *arena, kiln_trace *out_trace,
                                           kiln_program **out_program);
/* The member nearest to `foreign`, a closed trace of the same program in the space of another
 * target (another core: other lanes, registers, caches): its decisions in the sketch most like its
 * own, and the rule's where only this sketch asks. A row of a table stands for its numbers and
 * becomes the row with the nearest ones; tilings and places snap. Deterministic; costs one replay.
 * ILLEGAL_SCHEDULE: `foreign` decides less than half of what the sketch asks, or it is not legal
 * here. */
KILN_MUST_USE kiln_status kiln_space_adopt(const kiln_space *space, const kiln_trace *foreign,
                                           kiln_arena *arena, kiln_trace *out_trace,
                                           kiln_program **out_program);
/* Whether the trace closes a sketch of this space. A record of the same task may not: it was made
 * by other rules, or on other layouts. */
bool kiln_space_holds(const kiln_space *space, const kiln_trace *trace);
/* How many decisions differ, plus one when the sketches do. A decision of several numbers counts by
 * the share of them that differs. */
double kiln_trace_distance(const kiln_trace *a, const kiln_trace *b);

#endif
