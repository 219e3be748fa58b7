/* The meaning of operators. One row of ops.def and one definition per operator: the shape rule and
 * the tensor expression. Everything else (reference semantics, fusion class, flops, kernels) is
 * derived from the tensor expression; nothing is registered by hand.
 *
 * Used by the graph's verifier, the importer (shapes), passes (folding, fusion) and task
 * extraction. */
#ifndef KILN_COMPILER_CORE_GRAPH_OP_H
#define KILN_COMPILER_CORE_GRAPH_OP_H

#include "base/map.h"
#include "compiler-core/graph/graph.h"
#include "compiler-core/ir/ir.h"

struct kiln_infer; /* ops/rules.h: argument of shape rules and builders */
struct kiln_te;

typedef kiln_status (*kiln_shape_rule)(struct kiln_infer *infer);
typedef void (*kiln_te_builder)(struct kiln_te *te);
/* Elementwise operators: the value of one element; `x` holds one element of each input. */
typedef kiln_expr (*kiln_te_element)(struct kiln_te *te, const kiln_expr *x);

typedef struct kiln_op_info {
    const char *name;               /* in graph text and task names: "conv" */
    uint8_t inputs_min, inputs_max; /* KILN_OP_MANY: up to KILN_NODE_OPERANDS_MAX */
    uint8_t outputs_max;
    const char *dtypes; /* of input 0: letters of f float, i signed, u unsigned, b bool */
    const char *attrs;  /* "axis:int=-1 pads:ints mode:text=constant": kinds and defaults */
    kiln_shape_rule shape;
    kiln_te_builder build;
    kiln_te_element element; /* elementwise operators only */
} kiln_op_info;

#define KILN_OP_MANY 255

/* The row of an operator, and the operator with a name; false: none has it. */
const kiln_op_info *kiln_op_get(kiln_op op);
bool kiln_op_find(kiln_str name, kiln_op *out_op);
/* Results with the elements of input 0 in the same order: reshape, flatten, squeeze, ... No kernel.
 */
bool kiln_op_is_alias(kiln_op op);
/* Whether every result element is an element of an input of the same type: moved, or a maximum or
 * minimum. */
bool kiln_op_keeps_elements(kiln_op op);
/* The two ends of a loop, which have no kernel either. */
bool kiln_op_is_loop(kiln_op op);

#define KILN_LOOP_TRIPS_MAX ((int64_t)1 << 31)
/* The attributes of a loop_begin. */
typedef struct kiln_loop_info {
    uint32_t carried;
    bool guarded;
    int64_t trips;
    bool is_constant; /* the number of iterations does not depend on data */
} kiln_loop_info;
/* The node must be a loop_begin. */
kiln_loop_info kiln_loop_describe(const kiln_graph *graph, kiln_node begin);
/* Whether a value has a row for each iteration of a loop whose length is known at run time only:
 * its shape is a bound. */
bool kiln_loop_grows(const kiln_graph *graph, kiln_value value);
/* Whether row `index` of a loop_begin, or stack `index` of a loop_end, runs from the last row to
 * the first. */
bool kiln_loop_is_reversed(const kiln_node_info *node, uint32_t index);

/* Checks arity, attributes and dtypes, then sets dtype and shape of the node's outputs from its
 * inputs. INVALID_ARGUMENT: the node is wrong. UNIMPLEMENTED: valid, but not supported. Both name
 * the attribute. */
KILN_MUST_USE kiln_status kiln_node_infer(kiln_graph *graph, kiln_node node);

/* Appends the blocks that compute a node to `program`. `input`: [input_count] buffers with the
 * shapes and dtypes of the node's inputs (0 where the node has none; ignored for one-element
 * constants, which are written into the expressions). `output`: [output_count] buffers to compute
 * (0: not wanted). The node has been inferred and is no alias. */
void kiln_node_build(const kiln_graph *graph, kiln_node node, kiln_program *program,
                     const kiln_buffer *input, const kiln_buffer *output);
/* Whether an input becomes a literal in the tensor expression: a constant of one element. */
bool kiln_value_is_literal(const kiln_graph *graph, kiln_value value);

/* The remaining budget of evaluation at compile time, over all nodes: points of the blocks of their
 * tensor expressions (some 3e7 take a second), expressions computed at all of these (3e8), and
 * bytes of their results. It keeps a small model from using much time or memory of the compiler.
 */
typedef struct kiln_effort {
    double points, exprs;
    uint64_t bytes;
} kiln_effort;
/* The budget for a model with `given_bytes` of constants in its file. */
kiln_effort kiln_effort_for(uint64_t given_bytes);

/* Evaluates one node (aliases too) with the interpreter. `input`: [input_count] (data NULL where
 * absent); `output`: [output_count] made in `arena`, data NULL where not wanted. Deducts the cost
 * from `effort`. RESOURCE_EXHAUSTED: the cost exceeds `effort`, which is then unchanged; no result
 * was made. */
KILN_MUST_USE kiln_status kiln_node_eval(const kiln_graph *graph, kiln_node node,
                                         const kiln_tensor *input, kiln_effort *effort,
                                         kiln_arena *arena, kiln_tensor *output);

/* Values that were evaluated, each once. */
typedef struct kiln_evaluation {
    kiln_effort effort;
    kiln_map place;               /* of a value's id in `tensor` */
    KILN_VEC(kiln_tensor) tensor; /* data in the graph's arena */
    KILN_VEC(kiln_value) awaited; /* of each value looked at so far: kiln_value_awaits */
} kiln_evaluation;
/* Empty; `effort` is the budget for all evaluations. */
void kiln_evaluation_init(kiln_evaluation *evaluation, kiln_effort effort);
void kiln_evaluation_deinit(kiln_evaluation *evaluation); /* accepts a zeroed one */
/* An input of the graph that `value` depends on, so that it is known only at run time; 0: none.
 * Cost: O(values) over all calls, repeated for each input that becomes a constant between calls. */
kiln_value kiln_value_awaits(const kiln_graph *graph, kiln_value value,
                             kiln_evaluation *evaluation);
/* The value as a constant; evaluates its operands as well. UNIMPLEMENTED when it depends on a graph
 * input. The graph may grow between calls. Errors of kiln_node_eval as well. */
KILN_MUST_USE kiln_status kiln_value_evaluate(const kiln_graph *graph, kiln_value value,
                                              kiln_evaluation *evaluation, kiln_tensor *out_tensor);

/* The access pattern of an operator, from the loads of its tensor expression. The order matters: a
 * chain has the last pattern of its members. */
typedef enum kiln_access {
    KILN_ACCESS_ELEMENTWISE, /* output[i, j] reads input[i, j] */
    KILN_ACCESS_BROADCAST,   /* reads input[j] or input[i, 0]: a subset of the output's indices, in
                                order */
    KILN_ACCESS_INJECTIVE, /* any other index without a reduction: transpose, concat, slice, gather
                            */
    KILN_ACCESS_REDUCTION, /* read inside one reduction block: conv, matmul, pooling, sums */
    KILN_ACCESS_COMPLEX,   /* several reductions, or a value used again after one: softmax,
                              normalisation */
} kiln_access;

typedef struct kiln_op_class {
    kiln_access node;                          /* the last of the patterns of all blocks */
    kiln_access input[KILN_NODE_OPERANDS_MAX]; /* of each input; ELEMENTWISE for those never read */
} kiln_op_class;

/* Derived from the access pattern of the node's tensor expression. Aliases are INJECTIVE. */
void kiln_node_classify(const kiln_graph *graph, kiln_node node, kiln_op_class *out_class);

#endif
