/* Moves in the space of closed traces: a search changes decisions of a trace and replays it. Replay
 * checks legality; decisions that no longer fit because another one changed (a tiling of a loop
 * that now has another extent) snap to the nearest valid value, so that a move keeps most of a good
 * trace. */
#ifndef KILN_COMPILER_CORE_RULES_MUTATE_H
#define KILN_COMPILER_CORE_RULES_MUTATE_H

#include "base/rand.h"
#include "base/status.h"
#include "compiler-core/rules/space.h"

/* One random move from `parent`, a closed trace of this space or one recorded earlier:
 *   tile        a prime factor of one part moves to another
 *   categorical another category or row; neighbours in the table are more likely
 *   location    a neighbouring place
 *   sketch      the same decisions in another sketch
 * ILLEGAL_SCHEDULE: the move is not legal, or there is nothing to change. The new trace differs
 * from `parent`. Costs one replay. */
KILN_MUST_USE kiln_status kiln_space_mutate(const kiln_space *space, const kiln_trace *parent,
                                            kiln_rand *rand, kiln_arena *arena,
                                            kiln_trace *out_trace, kiln_program **out_program);
/* Mixes decisions of both parents: each from a random parent if both have it; sketch of the first.
 * ILLEGAL_SCHEDULE as above. */
KILN_MUST_USE kiln_status kiln_space_cross(const kiln_space *space, const kiln_trace *first,
                                           const kiln_trace *second, kiln_rand *rand,
                                           kiln_arena *arena, kiln_trace *out_trace,
                                           kiln_program **out_program);
/* The member nearest to `foreign`, a closed trace of the same program in the space of another
 * target (another core: other lanes, registers, caches): its decisions in the most similar sketch,
 * and the rule's preferences for decisions that it lacks. A row of a table becomes the row with the
 * nearest numbers; tilings and places snap. Deterministic; costs one replay. ILLEGAL_SCHEDULE:
 * `foreign` has less than half of the sketch's decisions, or it is not legal here. */
KILN_MUST_USE kiln_status kiln_space_adopt(const kiln_space *space, const kiln_trace *foreign,
                                           kiln_arena *arena, kiln_trace *out_trace,
                                           kiln_program **out_program);
/* Whether the trace closes a sketch of this space. A record of the same task may not, if other
 * rules or layouts made it. */
bool kiln_space_holds(const kiln_space *space, const kiln_trace *trace);
/* The number of different decisions, plus one for different sketches. A decision of several numbers
 * counts by the share of different numbers. */
double kiln_trace_distance(const kiln_trace *a, const kiln_trace *b);

#endif
