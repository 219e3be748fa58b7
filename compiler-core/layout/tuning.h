/* What is tuned of a model: its tasks, each on layouts that its neighbours agree on, and the
 * conversions that are left between them. */
#ifndef KILN_COMPILER_CORE_LAYOUT_TUNING_H
#define KILN_COMPILER_CORE_LAYOUT_TUNING_H

#include "base/target.h"
#include "compiler-core/task/task.h"

typedef struct kiln_tuning {
    kiln_tasks
        tasks; /* those of the plan that need a kernel (windows.h) and that boards can check, in its
                  order; then conversions */
    /* [tasks][arguments]: layouts to search on, as kiln_space_options has them. NULL where
     * nothing is agreed: what comes from or goes to outside of the kernels is for each kernel to
     * choose. */
    const kiln_layout ***layout;
} kiln_tuning;

/* Assigns layouts by default schedules and estimates (assign.h), which needs no measurement and
 * gives the same answer every time. A task that stands at several places is searched on the layouts
 * of the first. Errors of kiln_plan_create and kiln_space_create. */
KILN_MUST_USE kiln_status kiln_tuning_create(const kiln_graph *graph, const kiln_target *target,
                                             kiln_arena *arena, kiln_tuning *out_tuning);

#endif
