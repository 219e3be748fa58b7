/* Which stored trace each task is packed with. Inside deploy/pack. */
#ifndef KILN_DEPLOY_PACK_CHOOSE_H
#define KILN_DEPLOY_PACK_CHOOSE_H

#include "deploy/pack/pack.h"

/* One way to run a task: a trace and the layouts that it consumes and produces. */
typedef struct kiln_choice {
    kiln_str trace;       /* binary form; empty: the default schedule */
    double median_ns;     /* 0: not measured */
    bool is_default;
    kiln_layout *layout;  /* [arguments of the task's program]; constants: row-major */
} kiln_choice;

/* For each task of the plan one choice. Starts from the fastest record per task and then changes one task at a
 * time while the sum over one inference of kernels (measured) and conversions (estimated from their bytes)
 * gets smaller. */
KILN_MUST_USE kiln_status kiln_choose(const kiln_graph *graph, const kiln_plan *plan, const kiln_pack_options *options,
                                      kiln_arena *arena, kiln_choice *out_choice);

/* Layout in which each value is written, given the choices: [value count]; row-major for inputs, constants and
 * aliases. */
void kiln_choice_layouts(const kiln_graph *graph, const kiln_plan *plan, const kiln_choice *choice, kiln_layout *out_layout);

#endif
