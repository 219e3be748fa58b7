/* What two choices for the same graph have apart, for those who take some of it back: tasks that
 * differ, and which of them hang together because a value between them passes in another layout, or
 * because one kernel of the one choice is several of the other. Taking back one of a group alone
 * would put conversions where there were none. */
#ifndef KILN_COMPILER_CORE_LAYOUT_TIES_H
#define KILN_COMPILER_CORE_LAYOUT_TIES_H

#include "compiler-core/layout/compilation.h"

/* A choice that a compilation had: its plan and ways, which stay when it chooses anew. */
typedef struct kiln_chosen {
    kiln_plan plan;
    const kiln_way *const *way; /* [steps of the plan] */
} kiln_chosen;

typedef struct kiln_ties {
    uint32_t *task;   /* [tasks of the plan] its group, from 1 on; 0: it is the same in both */
    uint32_t *before; /* [tasks of the plan before] the same */
    uint32_t *value;  /* [values] the group of those that write or read it in another layout; 0 */
    uint32_t count;   /* groups */
} kiln_ties;

/* `before`: another choice of the same compilation. */
void kiln_ties_find(const kiln_compilation *compilation, const kiln_chosen *before,
                    kiln_arena *arena, kiln_ties *out_ties);

#endif
