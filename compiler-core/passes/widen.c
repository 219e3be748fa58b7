#include "compiler-core/passes/widen.h"

#include "compiler-core/graph/op.h"

static bool is_narrow(kiln_dtype dtype) { return kiln_dtype_is_float(dtype) && dtype != KILN_F64; }

static void widen_constant(kiln_graph *graph, kiln_value value) {
    const kiln_tensor from = kiln_value_tensor(graph, value);
    kiln_tensor to = kiln_tensor_create(graph->arena, KILN_F64, &from.shape);
    const int64_t count = kiln_shape_count(&from.shape);
    for (int64_t i = 0; i < count; i++)
        ((double *)to.data)[i] = kiln_dtype_load_f64(from.dtype, from.data, (size_t)i);
    kiln_graph_set_constant(graph, value, &to);
}

static bool depends_on_type(kiln_op op) {
    switch (op) {
    case KILN_OP_QUANTIZE_LINEAR:
    case KILN_OP_DEQUANTIZE_LINEAR:
    case KILN_OP_CONV_INTEGER:
    case KILN_OP_MATMUL_INTEGER:
    case KILN_OP_BIT_CAST: return true;
    default: return false;
    }
}

static kiln_status widen_node(kiln_graph *graph, kiln_node node) {
    const kiln_op op = graph->node.data[node].op;
    kiln_dtype to = KILN_DTYPE_NONE;
    if (op == KILN_OP_NONE) return KILN_OK;
    if (depends_on_type(op))
        return KILN_ERROR(UNIMPLEMENTED, "what it computes depends on the type of its operands");
    if (op == KILN_OP_EXPRESSION) kiln_graph_set_int(graph, node, "wide", 1);
    const kiln_attr *attr = kiln_node_attr(&graph->node.data[node], "to");
    if (attr && kiln_dtype_find(attr->text, &to) && is_narrow(to)) {
        kiln_attr wide = *attr;
        wide.text = kiln_str_from(kiln_dtype_name(KILN_F64));
        kiln_graph_set_attr(graph, node, &wide);
    }
    return kiln_node_infer(graph, node);
}

kiln_status kiln_graph_widen(kiln_graph *graph) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; i < graph->input.count; i++) {
        kiln_value_info *input = &graph->value.data[graph->input.data[i]];
        if (is_narrow(input->dtype)) input->dtype = KILN_F64;
    }
    for (kiln_value v = 1; v < graph->value.count; v++)
        if (kiln_value_is_constant(graph, v) && is_narrow(graph->value.data[v].dtype))
            widen_constant(graph, v);
    for (kiln_node n = 1; !st && n < graph->node.count; n++) {
        const kiln_str name = graph->node.data[n].name;
        st = kiln_status_note(widen_node(graph, n), "node '%.*s' in double precision",
                              KILN_STR_ARG(name));
    }
    return st ? st : kiln_graph_verify(graph);
}
