/* Interpreters that only tests need: of whole graphs, and of tensor expressions together with error
 * bounds. They work on arguments as kiln_te_eval does (compiler-core/ir/eval.h). */
#ifndef KILN_TESTS_SUPPORT_INTERPRETER_H
#define KILN_TESTS_SUPPORT_INTERPRETER_H

#include "base/status.h"
#include "compiler-core/graph/graph.h"
#include "compiler-core/ir/ir.h"
#include "compiler-core/ir/loop_eval.h"

/* As kiln_te_eval, and next to each float output the error bound n*eps*sum|a*b| of computing it in
 * its own dtype: bounds[i]: float32 tensor for the i-th OUTPUT argument, made in `arena`. */
KILN_MUST_USE kiln_status kiln_te_eval_bounds(const kiln_program *p, const kiln_tensor *args,
                                              uint32_t arg_count, kiln_arena *arena,
                                              kiln_tensor *bounds);

/* Runs the graph's plan with kiln_te_eval: what modules are tested against. `input`: [graph
 * inputs]; `output`: [graph outputs], made in `arena`. */
KILN_MUST_USE kiln_status kiln_graph_eval(const kiln_graph *graph, const kiln_tensor *input,
                                          kiln_arena *arena, kiln_tensor *output);

#endif
