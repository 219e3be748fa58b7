/* Tasks, the unit of tuning. A task is the fused computation of one kernel as a tensor expression;
 * equal computations in one or many models are one task, identified by its key.
 *
 * The program's arguments stand in the order of kernel_abi.h: inputs, constants, outputs. Only the
 * text of the tensor expression (ir_text.h) is sent to tuners, builders and boards. */
#ifndef KILN_COMPILER_CORE_TASK_TASK_H
#define KILN_COMPILER_CORE_TASK_TASK_H

#include "base/manifest.h"
#include "base/target.h"
#include "compiler-core/graph/graph.h"
#include "compiler-core/ir/ir.h"

#define KILN_TASK_KEY_VERSION 2
#define KILN_ROW_STEPS_MAX 3u /* kernels that may become one */

typedef struct kiln_task {
    kiln_str key; /* "v2:<32 hex digits>": hash of the text of `te` */
    kiln_str op;  /* for people: "conv+add+relu" */
    kiln_program *te;
    double flops;  /* that one run needs, in the direct form */
    double weight; /* calls per inference */
} kiln_task;

typedef struct kiln_tasks {
    uint32_t count;
    kiln_task *task; /* distinct, in order of first use */
} kiln_tasks;

typedef enum kiln_step_kind {
    KILN_STEP_KERNEL, /* runs `task`; arg: one graph value per argument of its program */
    KILN_STEP_ALIAS,  /* arg[1] is arg[0]'s bytes under another shape */
    /* The steps between these two are a loop's body (graph/loops.h). Their arguments are the inputs
     * of `node`, all read row-major; their results are the node's. Bodies nest. */
    KILN_STEP_LOOP,
    KILN_STEP_LOOP_END,
} kiln_step_kind;

typedef struct kiln_step {
    kiln_step_kind kind;
    kiln_str name; /* of the first node of the group */
    kiln_str op;   /* "conv+relu", "reshape" */
    uint32_t task; /* KERNEL: index into tasks */
    uint32_t arg_count;
    kiln_value *arg;
    uint32_t read_count; /* number of leading arguments that are read, row-major by steps that are
                          * no kernels; a kernel writes the others */
    double times;        /* executions in one inference; a guess where loops end by a condition */
    kiln_node node;      /* of loops: the loop_begin, the loop_end */
    uint32_t partner;    /* of loops: the step that is their other end */
    uint32_t member_count;
    const kiln_node *member; /* KERNEL: the nodes that it computes, ascending */
} kiln_step;

/* How one inference runs: steps in order over graph values. */
typedef struct kiln_plan {
    kiln_tasks tasks;
    uint32_t step_count;
    kiln_step *step;
} kiln_plan;

/* Cuts a fused graph into tasks. RESOURCE_EXHAUSTED: a kernel has more than KILN_MANIFEST_ARGS_MAX
 * arguments. */
KILN_MUST_USE kiln_status kiln_tasks_extract(const kiln_graph *graph, kiln_arena *arena,
                                             kiln_tasks *out_tasks);
/* The same, and the steps that use them. */
KILN_MUST_USE kiln_status kiln_plan_create(const kiln_graph *graph, kiln_arena *arena,
                                           kiln_plan *out_plan);
/* Kernels in a row, each of which reads the result of the one before. */
typedef struct kiln_step_row {
    uint32_t count;
    uint32_t step[KILN_ROW_STEPS_MAX]; /* of a plan */
} kiln_step_row;
/* The step that each row would be as one kernel: the plan's step if all its nodes were one group.
 * out_step: [count]; their tasks are indices into `*out_tasks`, which are distinct. Errors of
 * kiln_tasks_extract. */
KILN_MUST_USE kiln_status kiln_plan_join(const kiln_graph *graph, const kiln_plan *plan,
                                         const kiln_step_row *row, uint32_t count,
                                         kiln_arena *arena, kiln_step *out_step,
                                         kiln_tasks *out_tasks);
/* Key of a tensor expression, in `arena`. Its text has no name of a model: kernels' buffers are
 * named after role and number, the rest by their operators (in expressions: by the expression's
 * author). Equal keys mean equal names, so that a trace recorded under a key fits every program
 * with this key. */
kiln_str kiln_task_key(const kiln_program *te, kiln_arena *arena);
/* One line per task (key, op, flops, weight); with `verbose` the tensor expressions as well. */
void kiln_tasks_print(const kiln_tasks *tasks, bool verbose, kiln_strbuf *out);

#endif
