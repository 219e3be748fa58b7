/* A compilation: a model as a graph after all passes, cut into kernels, with the ways to run each,
 * the one that was chosen, and what follows from the choice. Made once; the command shows its tasks
 * and packs it, a tuner searches them, `kiln explain` prints it.
 *
 *     graph ─ create ─> kernels, joins ─ choose ─> plan, ways, layouts, windows ─ find_searched ─>
 *                                                    │                             what is tuned
 *                                                    └─────────────> module (deploy/pack)
 *
 * Kernels that may be one (task/join.h) are tuned beside the separate ones, and the choice says
 * which of both stand in the plan.
 *
 * Bytes (encode, decode): what a worker found, for the program that asked it, and a compilation
 * that is kept. Everything lives in the arena that `create` or `decode` was given. */
#ifndef KILN_COMPILER_CORE_LAYOUT_COMPILATION_H
#define KILN_COMPILER_CORE_LAYOUT_COMPILATION_H

#include "base/target.h"
#include "compiler-core/layout/windows.h"
#include "compiler-core/task/join.h"

#define KILN_COMPILATION_VERSION 1u
#define KILN_COMPILATION_TASKS_MAX 4096u

/* A searched task that may stand in place of others, all of them searched. */
typedef struct kiln_alternative {
    uint32_t task;
    uint32_t count, instead_of[KILN_ROW_STEPS_MAX];
    double times; /* that one inference would run it */
} kiln_alternative;

/* What a measured join and its kernels take, each by its fastest way. */
typedef struct kiln_join_times {
    double joined_ns; /* 0: it was not measured */
    double apart_ns;
} kiln_join_times;

typedef struct kiln_compilation {
    kiln_arena *arena;
    kiln_graph *graph;  /* NULL: decoded from bytes that leave it out; its groups are the plan's */
    kiln_target target; /* views of what `create` was given, its calibration included */
    kiln_plan base;     /* kernels as fusion cut them; empty without a graph, and so are... */
    kiln_joins joins;   /* ...those of them that may be one, by steps of `base`; and the group that
                           each node has in `base`: [nodes] */
    const uint32_t *base_group;
    kiln_plan plan; /* kernels: steps over the graph's values, and their tasks; `base` until joins
                       are chosen */
    /* after choose */
    bool *joined;                /* [joins] those that the plan has */
    kiln_join_times *join_times; /* [joins] */
    kiln_ways *list;             /* [tasks of the plan] ways to run each; NULL: nothing is chosen */
    const kiln_way **way;        /* [steps of the plan] NULL for aliases */
    kiln_layout *layout;         /* [values] in which each is written; NULL without a graph */
    bool no_windows;             /* values have memory of their own */
    kiln_windows windows;        /* without a graph empty */
    /* after find_searched */
    kiln_tasks searched; /* tasks of `base` that need a kernel and that boards can check, in its
                            order; conversions between kernels; those of joins, of weight 0.
                            Beside a host those that its device has schedules for, and no more */
    uint32_t alternative_count;
    kiln_alternative *alternative; /* [alternative_count] those of joins */
    /* [searched][arguments]: layouts to search on, as kiln_space_options has them. NULL where
     * nothing is agreed: what comes from or goes to outside of the kernels is for each kernel to
     * choose. */
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
    bool row_major;  /* everything is row-major, packed weights included */
    bool apart;      /* values pass from kernel to kernel row-major, but weights are packed */
    bool no_windows; /* kernels copy what could lie inside of another value */
    bool compact;    /* code stays small (rules/space.h) */
    bool no_joins;   /* kernels stay as fusion cut them */
    kiln_accuracy accuracy; /* of default schedules */
    /* Whether the default schedule of a task keeps to direct sums all the same; NULL: none does. */
    bool (*is_exact)(void *context, const kiln_task *task);
    /* Adds the measured ways of a task to its list; NULL: nothing was measured. */
    kiln_status (*measured)(void *context, const kiln_task *task, kiln_arena *arena,
                            kiln_ways *list);
    /* Whether the kernel of a join may be chosen; NULL: each may. */
    bool (*may_join)(void *context, const kiln_task *task);
    /* Time of converting a value of that type and shape; NULL: it is estimated. */
    double (*conversion_ns)(void *context, const kiln_value_info *info, const kiln_layout *from,
                            const kiln_layout *to);
    void *context;
} kiln_choice;

/* Which joins the plan has and one way for each kernel, so that kernels and the conversions between
 * them take least time together (assign.h, joined.h), in place of an earlier choice. NULL: all
 * zero. Errors of kiln_plan_create, of kiln_space_create and of `measured`. */
KILN_MUST_USE kiln_status kiln_compilation_choose(kiln_compilation *compilation,
                                                  const kiln_choice *choice);
/* The same with ways that were chosen elsewhere: [steps], 0 for aliases, each below the count of
 * its task's list. */
void kiln_compilation_use(kiln_compilation *compilation, const uint32_t *way);
/* What is tuned, each task on the layouts that its neighbours agree on: those of the choice. A task
 * that stands at several places is searched on the layouts of the first. */
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
/* It keeps its choice: base and joins are not there. `bytes` must live as long as `arena`.
 * DATA_LOSS: damaged, or the parts do not fit together; says which. UNIMPLEMENTED: of a newer
 * version. Errors of the parsers of targets and programs. */
KILN_MUST_USE kiln_status kiln_compilation_decode(kiln_str bytes, kiln_arena *arena,
                                                  kiln_compilation **out_compilation);

#endif
