/* Chooses the joins of a plan: kernels that can be joined (task/join.h) are joined where that
 * reduces the total time, with layouts assigned again. */
#ifndef KILN_COMPILER_CORE_LAYOUT_JOINED_H
#define KILN_COMPILER_CORE_LAYOUT_JOINED_H

#include "compiler-core/layout/assign.h"
#include "compiler-core/task/join.h"

/* The steps of `base` with those joins of it whose bit is set, [joins]. Its tasks are those of
 * `base`, then those of the joins, whether a step uses them or not. */
kiln_plan kiln_joined_plan(const kiln_plan *base, const kiln_joins *joins, const bool *joined,
                           kiln_arena *arena);

/* Sets the bits of the joins with the least total time, by local search. Starts with the set that
 * saves most by the kernels' own times, which is exact, or with none where its conversions cost
 * more than it saves; then adds each join, in place of those that it overlaps, or removes it, until
 * no change gains. `assignment` has the plan of kiln_joined_plan without any join, and the lists of
 * all tasks; a join whose task has no way is not tried. Cost: an assignment for each join and
 * round. */
void kiln_joined_choose(const kiln_assignment *assignment, const kiln_joins *joins,
                        kiln_arena *arena, bool *out_joined);

#endif
