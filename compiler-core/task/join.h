/* Kernels that can be joined into one kernel. Fusion decides which nodes always share a kernel
 * (passes/pass_fuse.c). A join is a row of two or three such kernels, of one of two kinds. Found
 * from access patterns alone.
 *
 * SERIES: each has reductions, and they could be computed together block by block: a block of the
 * last result along outer axes needs blocks of the results before it that stay in a near cache.
 * A measurement decides whether that is faster (layout/compilation.h); without one, plans have the
 * joins whose kernels would exchange far more data than L2 holds, with few operations for each
 * byte.
 *
 * PARTS: one product, and all readers of its result: small kernels that compute element by element
 * on several parts of it, as the state of a recurrent step is computed from its gates. One kernel
 * has the same loops and saves the calls. Plans have such joins only after a measurement. */
#ifndef KILN_COMPILER_CORE_TASK_JOIN_H
#define KILN_COMPILER_CORE_TASK_JOIN_H

#include "compiler-core/task/task.h"

typedef enum kiln_join_kind { KILN_JOIN_SERIES = 1, KILN_JOIN_PARTS = 2 } kiln_join_kind;

typedef struct kiln_join {
    kiln_join_kind kind;
    kiln_step_row row; /* of the plan that was looked at */
    kiln_step step;    /* the step that replaces the last of them; `task` is an index into
                        * kiln_joins */
    double near_bytes; /* size of blocks of the results between the kernels */
    double again;      /* share of the operations that blocks repeat */
    bool by_default;   /* in plans without measurements */
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
/* One line per task of the joins: its kernels, the needs of its first join, and its key. */
void kiln_joins_print(const kiln_joins *joins, const kiln_plan *plan, kiln_strbuf *out);
/* Makes the nodes of a join one group, so that they are one kernel in the next plan of the
 * graph. */
void kiln_join_apply(const kiln_join *join, kiln_graph *graph);

#endif
