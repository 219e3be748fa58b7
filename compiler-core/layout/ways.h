/* The ways to run a task that a layout assignment may choose among: one per combination of layouts
 * that it consumes and produces. Those that were measured come from whoever has the records; those
 * that need no measurement are made here. */
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
    bool is_default;       /* the default schedule, for the layouts that it wants or is given */
    bool on_host;  /* the trace is for the host of a partial target; compilations' bytes leave it
                      out */
    bool is_given; /* somebody wants this one and no other; compilations' bytes leave it out */
} kiln_way;

typedef struct kiln_ways {
    KILN_VEC(kiln_way) way;
} kiln_ways;

/* What default schedules are made for. */
typedef struct kiln_ways_maker {
    const kiln_target *target; /* a partial one makes ways of its host, too */
    kiln_accuracy accuracy;
    /* Whether a task gets none but direct sums all the same; NULL: none does. */
    bool (*is_exact)(void *context, const kiln_task *task);
    void *context;
    bool compact;      /* small code (rules/space.h) */
    kiln_arena *arena; /* of the lists */
} kiln_ways_maker;

/* Adds one, unless there is one of the same layouts and place, one that is given, or no room. */
void kiln_ways_add(kiln_ways *list, const kiln_task *task, const kiln_way *way, kiln_arena *arena);
/* Of the fastest way; 0: there is none. */
double kiln_ways_least_ns(const kiln_ways *list);
/* Adds to each task's list ([tasks of the plan], measured ones already in it) its default schedule;
 * and to tasks that compute as well on any layout, and to those around a concatenation, the same on
 * the blocks that the others write, so that a blocked image passes from kernel to kernel as it is.
 * What was not measured is a little dearer than the fastest that was; without any it is estimated
 * from operations and bytes. A kernel that a partial target has no schedule for has ways of its
 * host alone; without a host that is an error. Errors of kiln_space_create. */
KILN_MUST_USE kiln_status kiln_ways_add_defaults(const kiln_plan *plan,
                                                 const kiln_ways_maker *maker, kiln_ways *list);
/* Adds the default schedule of one task in the same way, for the layouts that it wants. Errors of
 * kiln_space_create. */
KILN_MUST_USE kiln_status kiln_ways_add_default(const kiln_task *task, const kiln_ways_maker *maker,
                                                kiln_ways *list);
/* Whatever needs no kernel on its layouts (parts.h) costs nothing: for those who leave it out. */
void kiln_ways_free_windows(const kiln_plan *plan, kiln_arena *arena, kiln_ways *list);
/* Leaves each task nothing but the default schedule on row-major arguments. `packed`: copies in
 * other layouts are its own affair, weights among them; otherwise everything is row-major
 * (row_major of kiln_space_options): what a module is without any choice of layouts. */
KILN_MUST_USE kiln_status kiln_ways_make_row_major(const kiln_plan *plan,
                                                   const kiln_ways_maker *maker, bool packed,
                                                   kiln_ways *list);

#endif
