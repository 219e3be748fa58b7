/* A compilation: a model as a graph after all passes, cut into kernels, with the ways to run each,
 * the chosen way, and the layouts and windows that follow. Made once; `kiln compile` shows its
 * tasks and packs it, a tuner searches them, `kiln explain` prints it.
 *
 *     graph ─ create ─> kernels, joins ─ choose ─> plan, ways, layouts, windows ─ find_searched ─>
 *                                                    │                           tasks to tune
 *                                                    └─────────────> module (deploy/pack)
 *
 * Kernels that can be joined (task/join.h) are tuned joined and separate, and the choice decides
 * which of both are in the plan.
 *
 * Its bytes (encode, decode) are a worker's answer, and are stored for later use. Everything lives
 * in the arena given to `create` or `decode`. */
#ifndef KILN_COMPILER_CORE_LAYOUT_COMPILATION_H
#define KILN_COMPILER_CORE_LAYOUT_COMPILATION_H

#include "base/target.h"
#include "compiler-core/layout/windows.h"
#include "compiler-core/task/join.h"

#define KILN_COMPILATION_VERSION 1u
#define KILN_COMPILATION_TASKS_MAX 4096u

/* A searched task that can replace others, all of them searched. */
typedef struct kiln_alternative {
    uint32_t task;
    uint32_t count, instead_of[KILN_ROW_STEPS_MAX];
    double times; /* runs in one inference */
} kiln_alternative;

/* Times of a measured join and of its kernels, each by its fastest way. */
typedef struct kiln_join_times {
    double joined_ns; /* 0: it was not measured */
    double apart_ns;
} kiln_join_times;

typedef struct kiln_compilation {
    kiln_arena *arena;
    kiln_graph *graph;  /* NULL: decoded from bytes without it; its groups are the plan's */
    kiln_target target; /* view of the argument of `create`, including its calibration */
    kiln_plan base;     /* kernels as fusion cut them; empty without a graph, and so are... */
    kiln_joins joins;   /* ...those of them that can be joined, by steps of `base`; and each node's
                         * group in `base`: [nodes] */
    const uint32_t *base_group;
    kiln_plan plan; /* kernels: steps over the graph's values, and their tasks; `base` until joins
                       are chosen */
    /* after choose */
    bool *joined;                /* [joins] those that the plan has */
    kiln_join_times *join_times; /* [joins] */
    kiln_ways *list;             /* [tasks of the plan] ways to run each; NULL before a choice */
    const kiln_way **way;        /* [steps of the plan] NULL for aliases */
    kiln_layout *layout;         /* [values] in which each is written; NULL without a graph */
    bool no_windows;             /* no value lies inside another one */
    kiln_windows windows;        /* without a graph empty */
    /* after find_searched */
    kiln_tasks searched; /* tasks of `base` that need a kernel and that boards can check, in its
                          * order; conversions between kernels; those of joins, of weight 0. For a
                          * device beside a host only those that the device has schedules for */
    uint32_t alternative_count;
    kiln_alternative *alternative; /* [alternative_count] those of joins */
    /* [searched][arguments]: layouts to search on, as in kiln_space_options. NULL where each kernel
     * may choose: arguments that are no values between kernels. */
    const kiln_layout ***agreed;
} kiln_compilation;

/* Cuts a graph that has had its passes (and kiln_graph_narrow) into kernels. Errors of
 * kiln_plan_create. */
KILN_MUST_USE kiln_status kiln_compilation_create(kiln_graph *graph, const kiln_target *target,
                                                  kiln_arena *arena,
                                                  kiln_compilation **out_compilation);

/* How ways are chosen. All zero: by default schedules and estimates, which needs no measurement and
 * gives the same answer every time. */
typedef struct kiln_choice {
    bool row_major;  /* everything is row-major, even weights */
    bool apart;      /* values pass from kernel to kernel row-major, but weights are packed */
    bool no_windows; /* kernels copy values that could lie inside of another one */
    bool compact;    /* code stays small (rules/space.h) */
    bool no_joins;   /* kernels stay as fusion cut them */
    kiln_accuracy accuracy; /* of default schedules */
    /* Whether the default schedule of a task must use direct sums in spite of `accuracy`; NULL:
     * none must. */
    bool (*is_exact)(void *context, const kiln_task *task);
    /* Adds the measured ways of a task to its list; NULL: nothing was measured. */
    kiln_status (*measured)(void *context, const kiln_task *task, kiln_arena *arena,
                            kiln_ways *list);
    /* Whether the kernel of a join may be chosen; NULL: each may. */
    bool (*may_join)(void *context, const kiln_task *task);
    /* Time to convert a value of that type and shape; NULL: estimated. */
    double (*conversion_ns)(void *context, const kiln_value_info *info, const kiln_layout *from,
                            const kiln_layout *to);
    void *context;
} kiln_choice;

/* Chooses the joins of the plan and one way for each kernel, so that the total time of kernels and
 * conversions is least (assign.h, joined.h); replaces an earlier choice. NULL: all zero. Errors of
 * kiln_plan_create, of kiln_space_create and of `measured`. */
KILN_MUST_USE kiln_status kiln_compilation_choose(kiln_compilation *compilation,
                                                  const kiln_choice *choice);
/* The same with given ways: [steps], 0 for aliases, each below the count of its task's list. */
void kiln_compilation_use(kiln_compilation *compilation, const uint32_t *way);
/* Sets the tasks to tune, each on the layouts of the choice, which its neighbours share. A task
 * with several kernels is searched on the layouts of the first. */
void kiln_compilation_find_searched(kiln_compilation *compilation);
/* Values between kernels become halves where `accuracy` allows products of them
 * (kiln_space_storage); of a graph that has had its passes. */
KILN_MUST_USE kiln_status kiln_compilation_narrow(kiln_graph *graph, const kiln_target *target,
                                                  const kiln_accuracy *accuracy);
/* All passes, kiln_compilation_narrow, then create, choose and find_searched with nothing measured.
 */
KILN_MUST_USE kiln_status kiln_compilation_of_model(kiln_graph *graph, const kiln_target *target,
                                                    const kiln_accuracy *accuracy,
                                                    kiln_arena *arena,
                                                    kiln_compilation **out_compilation);

/* Appends a compilation with a choice; `with_graph`: its graph, too, with all its constants. */
void kiln_compilation_encode(const kiln_compilation *compilation, bool with_graph,
                             kiln_strbuf *out);
/* The choice is decoded; base and joins are not. `bytes` must live as long as `arena`. DATA_LOSS:
 * damaged, or the parts do not fit together; names the part. UNIMPLEMENTED: a newer version. Errors
 * of the parsers of targets and programs. */
KILN_MUST_USE kiln_status kiln_compilation_decode(kiln_str bytes, kiln_arena *arena,
                                                  kiln_compilation **out_compilation);

#endif
