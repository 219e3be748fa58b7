/* Rules for all devices that run grids of groups of threads. They bind independent loops
 * (sched/prims.def: bind) and place nests; lowering inserts barriers
 * (docs/decisions/0019-fork-join-then-barriers.md). All sizes come from the target: threads of a
 * group, bytes that a group shares. Private to rules/. */
#ifndef KILN_COMPILER_CORE_RULES_GROUP_H
#define KILN_COMPILER_CORE_RULES_GROUP_H

#include "compiler-core/rules/rules.h"

/* Options of the rule "tile".
 *
 * direct  each thread reads its own operands; nothing is copied into shared memory */
extern const char *const kiln_group_tile_option[1];

/* group_tile.c: one large reduction in tiles, one for each group. Threads of a group hold the sums
 * of some points each, and share their operands. */
kiln_sketch_result kiln_sketch_group_tile(kiln_sched *s, uint32_t options);
/* group_spread.c: any program, a thread for each result. */
kiln_sketch_result kiln_sketch_group_spread(kiln_sched *s, uint32_t options);

/* group_spread.c: a block alone at the root, a thread for each result; sums stay in memory of the
 * thread. Steps that its loops do not allow are skipped. */
void kiln_group_spread_block(kiln_sched *s, kiln_block block);

#endif
