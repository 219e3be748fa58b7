/* A compilation: a model as a graph after all passes, cut into kernels, with the ways to run each,
 * the one that was chosen, and what follows from the choice. Made once; the command shows its tasks
 * and packs it, a tuner searches them, `kiln explain` prints it.
 *
 *     graph ─ create ─> kernels ─ choose ─> ways, layouts, windows ─ find_searched ─> what is tuned
 *                                     └─────────────────────────────> module (deploy/pack)
 *
 * Bytes (encode, decode): what a worker found, for the program that asked it, and a compilation
 * that is kept. Everything lives in the arena that `create` or `decode` was given. */
#ifndef KILN_COMPILER_CORE_LAYOUT_COMPILATION_H
#define KILN_COMPILER_CORE_LAYOUT_COMPILATION_H

#include "base/target.h"
#include "compiler-core/layout/windows.h"
#include "compiler-core/task/task.h"

#define KILN_COMPILATION_VERSION 1u
#define KILN_COMPILATION_TASKS_MAX 4096u

typedef struct kiln_compilation {
    kiln_arena *arena;
    kiln_graph *graph;  /* NULL: decoded from bytes that leave it out */
    kiln_target target; /* views of what `create` was given, its calibration included */
    kiln_plan plan;     /* its kernels: steps over the graph's values, and their tasks */
    /* after choose */
    kiln_ways *list;      /* [tasks of the plan] ways to run each; NULL: nothing is chosen */
    const kiln_way **way; /* [steps of the plan] NULL for aliases */
    kiln_layout *layout;  /* [values] in which each is written; NULL without a graph */
    bool no_windows;      /* values have memory of their own */
    kiln_windows windows; /* without a graph empty */
    /* after find_searched */
    kiln_tasks searched; /* tasks of the plan that need a kernel and that boards can check, in its
                            order; then the conversions between them */
    /* [searched][arguments]: layouts to search on, as kiln_space_options has them. NULL where
     * nothing is agreed: what comes from or goes to outside of the kernels is for each kernel to
     * choose. */
    const kiln_layout ***agreed;
} kiln_compilation;

/* Cuts a graph that has had its passes into kernels. Errors of kiln_plan_create. */
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
    kiln_accuracy accuracy; /* of default schedules */
    /* Adds the measured ways of a task to its list; NULL: nothing was measured. */
    kiln_status (*measured)(void *context, const kiln_task *task, kiln_arena *arena,
                            kiln_ways *list);
    /* Time of converting a value of that type and shape; NULL: it is estimated. */
    double (*conversion_ns)(void *context, const kiln_value_info *info, const kiln_layout *from,
                            const kiln_layout *to);
    void *context;
} kiln_choice;

/* One way for each kernel, so that kernels and the conversions between them take least time
 * together (assign.h), in place of an earlier choice. NULL: all zero. Errors of kiln_space_create
 * and of `measured`. */
KILN_MUST_USE kiln_status kiln_compilation_choose(kiln_compilation *compilation,
                                                  const kiln_choice *choice);
/* The same with ways that were chosen elsewhere: [steps], 0 for aliases, each below the count of
 * its task's list. */
void kiln_compilation_use(kiln_compilation *compilation, const uint32_t *way);
/* What is tuned, each task on the layouts that its neighbours agree on: those of the choice. A task
 * that stands at several places is searched on the layouts of the first. */
void kiln_compilation_find_searched(kiln_compilation *compilation);
/* All passes, then the three calls above with nothing measured. */
KILN_MUST_USE kiln_status kiln_compilation_of_model(kiln_graph *graph, const kiln_target *target,
                                                    kiln_arena *arena,
                                                    kiln_compilation **out_compilation);

/* Appends a compilation with a choice; `with_graph`: its graph, too, with all its constants. */
void kiln_compilation_encode(const kiln_compilation *compilation, bool with_graph,
                             kiln_strbuf *out);
/* `bytes` must live as long as `arena`. DATA_LOSS: damaged, or the parts do not fit together; says
 * which. UNIMPLEMENTED: of a newer version. Errors of the parsers of targets and programs. */
KILN_MUST_USE kiln_status kiln_compilation_decode(kiln_str bytes, kiln_arena *arena,
                                                  kiln_compilation **out_compilation);

#endif
