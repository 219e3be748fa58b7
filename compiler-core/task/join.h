/* Kernels that may also be one kernel. Fusion says which nodes share a kernel whatever happens
 * (passes/pass_fuse.c). A join is a row of two or three such kernels, of one of two kinds. Found
 * from access patterns alone.
 *
 * SERIES: each has reductions, and they could be computed together block by block: a block of the
 * last result along outer axes needs blocks of the results before it that stay in a near cache.
 * Whether that is faster is for measurement to say (layout/compilation.h); without any, plans have
 * those whose kernels would pass on far more than L2 holds, with few operations for each byte.
 *
 * PARTS: one product, and all that reads its result: small kernels that compute element by element
 * on several parts of it, as the state of a recurrent step is computed from its gates. They are the
 * same loops in one kernel, so what is spared is calling them. Plans have such joins by measurement
 * alone. */
#ifndef KILN_COMPILER_CORE_TASK_JOIN_H
#define KILN_COMPILER_CORE_TASK_JOIN_H

#include "compiler-core/task/task.h"

typedef enum kiln_join_kind { KILN_JOIN_SERIES = 1, KILN_JOIN_PARTS = 2 } kiln_join_kind;

typedef struct kiln_join {
    kiln_join_kind kind;
    kiln_step_row row; /* of the plan that was looked at */
    kiln_step step;    /* what would stand in place of the last of them; `task` is of kiln_joins */
    double near_bytes; /* that blocks of the results between the kernels take */
    double again;      /* share of the operations that blocks do again */
    bool by_default;   /* plans have it where nothing was measured */
} kiln_join;

typedef struct kiln_joins {
    uint32_t count;
    kiln_join *join;  /* in the order of their first steps, shorter ones first; they may overlap */
    kiln_tasks tasks; /* distinct */
} kiln_joins;

/* The joins of a plan of `graph`: those that meet all conditions of join_conditions.def. Errors of
 * kiln_plan_join. */
KILN_MUST_USE kiln_status kiln_joins_find(const kiln_graph *graph, const kiln_plan *plan,
                                          const kiln_target *target, kiln_arena *arena,
                                          kiln_joins *out_joins);
/* "conv+relu > max_pool". */
void kiln_step_row_print(const kiln_step_row *row, const kiln_plan *plan, kiln_strbuf *out);
/* One line per task of theirs: its kernels, what its first join needs, and its key. */
void kiln_joins_print(const kiln_joins *joins, const kiln_plan *plan, kiln_strbuf *out);
/* Makes the nodes of a join one group: the next plan of the graph has them as one kernel. */
void kiln_join_apply(const kiln_join *join, kiln_graph *graph);

#endif
