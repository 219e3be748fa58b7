/* Differences between two choices for the same graph, to undo some of them: the tasks that differ,
 * in groups that are tied because a value between them changes its layout, or because one kernel of
 * one choice is several of the other. Undoing one task of a group alone would add conversions. */
#ifndef KILN_COMPILER_CORE_LAYOUT_TIES_H
#define KILN_COMPILER_CORE_LAYOUT_TIES_H

#include "compiler-core/layout/compilation.h"

/* An earlier choice of a compilation: its plan and ways, which stay valid after a new choice. */
typedef struct kiln_chosen {
    kiln_plan plan;
    const kiln_way *const *way; /* [steps of the plan] */
} kiln_chosen;

typedef struct kiln_ties {
    uint32_t *task;   /* [tasks of the plan] its group, from 1 on; 0: it is the same in both */
    uint32_t *before; /* [tasks of the plan before] the same */
    uint32_t *value;  /* [values] the group of the tasks that write or read it in another layout; or
                       * 0 */
    uint32_t count;   /* groups */
} kiln_ties;

/* `before`: another choice of the same compilation. */
void kiln_ties_find(const kiln_compilation *compilation, const kiln_chosen *before,
                    kiln_arena *arena, kiln_ties *out_ties);

#endif
