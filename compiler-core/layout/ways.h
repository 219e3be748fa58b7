/* The ways to run a task that a layout assignment may choose among: one per combination of layouts
 * that it consumes and produces. The caller adds the measured ways from its records; ways without
 * measurements are made here. */
#ifndef KILN_COMPILER_CORE_LAYOUT_WAYS_H
#define KILN_COMPILER_CORE_LAYOUT_WAYS_H

#include "base/accuracy.h"
#include "base/target.h"
#include "base/vec.h"
#include "compiler-core/task/task.h"

#define KILN_WAYS_MAX 64u /* per task */

typedef struct kiln_way {
    kiln_str trace;        /* binary form */
    kiln_layout *layout;   /* [arguments of the task's program]; constants: row-major */
    double cost_ns;        /* of one run, measured or estimated */
    double median_ns;      /* measured; 0: not */
    double relative_error; /* measured with it; 0: not, or none; compilations' bytes leave it out */
    bool is_default;       /* the default schedule, for its own layouts or given ones */
    bool on_host;  /* the trace is for the host of a partial target; compilations' bytes leave it
                      out */
    bool is_given; /* the caller demands this way; compilations' bytes leave it out */
} kiln_way;

typedef struct kiln_ways {
    KILN_VEC(kiln_way) way;
} kiln_ways;

/* Options for making default schedules. */
typedef struct kiln_ways_maker {
    const kiln_target *target; /* a partial one makes ways of its host, too */
    kiln_accuracy accuracy;
    /* Whether a task must use direct sums in spite of the accuracy; NULL: none must. */
    bool (*is_exact)(void *context, const kiln_task *task);
    void *context;
    bool compact;      /* small code (rules/space.h) */
    kiln_arena *arena; /* of the lists */
} kiln_ways_maker;

/* Adds a way, unless the list is full, has a given one, or has one with the same layouts and
 * place. */
void kiln_ways_add(kiln_ways *list, const kiln_task *task, const kiln_way *way, kiln_arena *arena);
/* Time of the fastest way; 0: there is none. */
double kiln_ways_least_ns(const kiln_ways *list);
/* Adds to each task's list ([tasks of the plan], measured ways already in it) its default schedule.
 * Tasks that run equally well on any layout, and those around a concatenation, also get it on the
 * blocked layouts of their neighbours, so that a blocked image passes from kernel to kernel
 * unchanged. A way without measurements costs a little more than the fastest measured one; without
 * any, its cost is estimated from operations and bytes. A kernel without a schedule on a partial
 * target has ways of the host only; without a host that is an error. Errors of
 * kiln_space_create. */
KILN_MUST_USE kiln_status kiln_ways_add_defaults(const kiln_plan *plan,
                                                 const kiln_ways_maker *maker, kiln_ways *list);
/* Adds the default schedule of one task in the same way, for the layouts that it prefers. Errors of
 * kiln_space_create. */
KILN_MUST_USE kiln_status kiln_ways_add_default(const kiln_task *task, const kiln_ways_maker *maker,
                                                kiln_ways *list);
/* Sets the cost of ways that need no kernel on their layouts (parts.h) to 0, for callers that leave
 * such kernels out. */
void kiln_ways_free_windows(const kiln_plan *plan, kiln_arena *arena, kiln_ways *list);
/* Leaves each task only the default schedule on row-major arguments. `packed`: kernels may make
 * copies in other layouts, also of weights; otherwise everything is row-major (row_major of
 * kiln_space_options), as in a module without any choice of layouts. */
KILN_MUST_USE kiln_status kiln_ways_make_row_major(const kiln_plan *plan,
                                                   const kiln_ways_maker *maker, bool packed,
                                                   kiln_ways *list);

#endif
