/* Rules for devices that run grids of groups of threads: what they share, whatever the kind. They
 * bind loops that do not depend on each other (sched/prims.def: bind) and place nests; barriers are
 * no concern of theirs (docs/decisions/0019-fork-join-then-barriers.md). All sizes come from the
 * target: threads of a group, bytes that a group shares. Private to rules/. */
#ifndef KILN_COMPILER_CORE_RULES_GROUP_H
#define KILN_COMPILER_CORE_RULES_GROUP_H

#include "compiler-core/rules/rules.h"

/* Options of the rule "tile".
 *
 * direct  each thread reads for itself; nothing is copied into memory that the group shares */
extern const char *const kiln_group_tile_option[1];

/* group_tile.c: one large reduction in tiles, one for each group. Threads of a group hold the sums
 * of some points each, and share what they read. */
kiln_sketch_result kiln_sketch_group_tile(kiln_sched *s, uint32_t options);
/* group_spread.c: anything at all, a thread for each result. */
kiln_sketch_result kiln_sketch_group_spread(kiln_sched *s, uint32_t options);

/* group_spread.c: a block that stands alone at the root, a thread for each result; sums stay in
 * memory of the thread. What its loops do not allow is left as it was. */
void kiln_group_spread_block(kiln_sched *s, kiln_block block);

#endif
