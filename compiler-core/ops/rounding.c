#include "compiler-core/ops/rounding.h"

#include <math.h>

#include "compiler-core/graph/attr.h"
#include "compiler-core/ops/rules.h"

/* Operators whose integer results are rounded from real numbers of no fixed precision. ONNX's
 * QLinearConv and QLinearMatMul are integer sums that end in quantize_linear. Conversions that the
 * specification fixes are not here: Cast cuts off, Div of integers rounds towards zero, and Round
 * takes the even neighbour of a number that is given. */
static const kiln_op rounding_table[] = {
    KILN_OP_QUANTIZE_LINEAR, /* x / scale, or sums times a product of scales */
};

static bool is_rounding(kiln_op op) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(rounding_table); i++)
        if (rounding_table[i] == op) return true;
    return false;
}

/* Operators on floats whose results differ by no more than the largest difference of their inputs:
 * they move, choose or average elements, or have slopes of at most 1. */
static bool enlarges_nothing(kiln_op op) {
    static const kiln_op flat[] = {
        KILN_OP_IDENTITY,
        KILN_OP_CAST,
        KILN_OP_DROPOUT,
        KILN_OP_TRANSPOSE,
        KILN_OP_CONCAT,
        KILN_OP_SPLIT,
        KILN_OP_SLICE,
        KILN_OP_PAD,
        KILN_OP_EXPAND,
        KILN_OP_TILE,
        KILN_OP_GATHER,
        KILN_OP_DEPTH_TO_SPACE,
        KILN_OP_SPACE_TO_DEPTH,
        KILN_OP_WHERE,
        KILN_OP_RELU,
        KILN_OP_CLIP,
        KILN_OP_SIGMOID,
        KILN_OP_TANH,
        KILN_OP_MAX,
        KILN_OP_MIN,
        KILN_OP_MEAN,
        KILN_OP_MAX_POOL,
        KILN_OP_AVERAGE_POOL,
        KILN_OP_GLOBAL_MAX_POOL,
        KILN_OP_GLOBAL_AVERAGE_POOL,
        KILN_OP_REDUCE_MAX,
        KILN_OP_REDUCE_MIN,
        KILN_OP_REDUCE_MEAN,
        KILN_OP_SOFTMAX,
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(flat); i++)
        if (flat[i] == op) return true;
    return kiln_op_is_alias(op) && op != KILN_OP_BIT_CAST;
}

/* The analysis's result for a value. */
typedef struct knowledge {
    bool rounded; /* depends on an operator of the table, directly or not */
    kiln_rounding own;
} knowledge;

/* 0: not known when compiling. */
static double largest_scale(const kiln_graph *graph, kiln_value scale) {
    if (!kiln_value_is_constant(graph, scale)) return 0;
    const kiln_tensor tensor = kiln_value_tensor(graph, scale);
    double largest = 0;
    for (int64_t i = 0; i < kiln_shape_count(&tensor.shape); i++)
        largest = fmax(largest, fabs(kiln_dtype_load_f64(tensor.dtype, tensor.data, (size_t)i)));
    return isfinite(largest) ? largest : 0;
}

static knowledge of_result(const kiln_graph *graph, const kiln_node_info *node, kiln_dtype dtype,
                           const knowledge *known) {
    knowledge k = {.rounded = is_rounding(node->op)};
    const kiln_dtype_kind kind = kiln_dtype_kind_of(dtype);
    const bool is_integer = kind == KILN_KIND_INT || kind == KILN_KIND_UINT;
    if (k.rounded && is_integer) k.own.steps = 1;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const knowledge *in = &known[node->input[i]];
        const bool keeps_integers =
            graph->value.data[node->input[i]].dtype == dtype || node->op == KILN_OP_CAST;
        k.rounded = k.rounded || in->rounded;
        if (is_integer && keeps_integers) k.own.steps = KILN_MAX(k.own.steps, in->own.steps);
        if (kind == KILN_KIND_FLOAT && enlarges_nothing(node->op))
            k.own.quantum = fmax(k.own.quantum, in->own.quantum);
    }
    if (node->op == KILN_OP_DEQUANTIZE_LINEAR && known[node->input[0]].rounded)
        k.own.quantum = largest_scale(graph, node->input[1]);
    return k;
}

kiln_rounding *kiln_graph_rounding(const kiln_graph *graph, kiln_arena *arena) {
    knowledge *known = KILN_ARENA_ARRAY(arena, knowledge, graph->value.count);
    kiln_rounding *output = KILN_ARENA_ARRAY(arena, kiln_rounding, graph->output.count);
    for (kiln_node n = 1; n < graph->node.count; n++) {
        const kiln_node_info *node = &graph->node.data[n];
        if (node->op == KILN_OP_NONE) continue;
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->output[i])
                known[node->output[i]] =
                    of_result(graph, node, graph->value.data[node->output[i]].dtype, known);
    }
    for (uint32_t i = 0; i < graph->output.count; i++) output[i] = known[graph->output.data[i]].own;
    return output;
}
