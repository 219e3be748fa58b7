/* The rules of graph.h and ops.def, checked after every pass. */
#include "base/map.h"
#include "compiler-core/graph/graph.h"
#include "compiler-core/graph/loops.h"
#include "compiler-core/graph/op.h"

static kiln_status check_value_ids(const kiln_graph *graph, const kiln_node_info *node) {
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->input[i] >= graph->value.count)
            return KILN_ERROR(INTERNAL, "input %u does not exist", i);
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->output[i] >= graph->value.count)
            return KILN_ERROR(INTERNAL, "output %u does not exist", i);
    return KILN_OK;
}

/* Reads come after the write; every result knows its producer. */
static kiln_status check_order(const kiln_graph *graph, kiln_node n, const bool *defined) {
    const kiln_node_info *node = &graph->node.data[n];
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->input[i] && !defined[node->input[i]])
            return KILN_ERROR(INTERNAL, "reads %%%.*s before it is computed",
                              KILN_STR_ARG(graph->value.data[node->input[i]].name));
    for (uint32_t i = 0; i < node->output_count; i++) {
        kiln_value v = node->output[i];
        if (v && (defined[v] || graph->value.data[v].producer != n))
            return KILN_ERROR(INTERNAL, "%%%.*s has several producers",
                              KILN_STR_ARG(graph->value.data[v].name));
    }
    return KILN_OK;
}

/* Runs the shape rule again: its result must equal the recorded type. */
static kiln_status check_types(kiln_graph *graph, kiln_node n) {
    const kiln_node_info *node = &graph->node.data[n];
    kiln_value_info before[KILN_NODE_OPERANDS_MAX];
    for (uint32_t i = 0; i < node->output_count; i++)
        before[i] = graph->value.data[node->output[i]];
    kiln_status st = kiln_node_infer(graph, n);
    for (uint32_t i = 0; !st && i < node->output_count; i++) {
        const kiln_value_info *after = &graph->value.data[node->output[i]];
        if (!node->output[i] || before[i].dtype == KILN_DTYPE_NONE) continue;
        if (after->dtype != before[i].dtype || !kiln_shape_equal(&after->shape, &before[i].shape))
            st = KILN_ERROR(INTERNAL, "%%%.*s is not of the inferred type",
                            KILN_STR_ARG(after->name));
    }
    return st;
}

static kiln_status check_names(const kiln_graph *graph) {
    kiln_map names;
    kiln_map_init(&names);
    kiln_status st = KILN_OK;
    for (kiln_value v = 1; !st && v < graph->value.count; v++)
        if (!kiln_map_put(&names, graph->value.data[v].name, v))
            st = KILN_ERROR(INTERNAL, "two values are called %%%.*s",
                            KILN_STR_ARG(graph->value.data[v].name));
    kiln_map_deinit(&names);
    return st;
}

static kiln_status check_nodes(kiln_graph *graph, bool *defined) {
    for (kiln_value v = 1; v < graph->value.count; v++)
        defined[v] = graph->value.data[v].data != NULL;
    for (uint32_t i = 0; i < graph->input.count; i++) defined[graph->input.data[i]] = true;
    for (kiln_node n = 1; n < graph->node.count; n++) {
        const kiln_node_info *node = &graph->node.data[n];
        if (node->op == KILN_OP_NONE) continue;
        kiln_status st = check_value_ids(graph, node);
        if (!st) st = check_order(graph, n, defined);
        if (!st) st = check_types(graph, n);
        if (st)
            return kiln_status_note(st, "node \"%.*s\" (%s)", KILN_STR_ARG(node->name),
                                    kiln_op_get(node->op)->name);
        for (uint32_t i = 0; i < node->output_count; i++) defined[node->output[i]] = true;
    }
    for (uint32_t i = 0; i < graph->output.count; i++)
        if (!graph->output.data[i] || !defined[graph->output.data[i]])
            return KILN_ERROR(INTERNAL, "output %u is never computed", i);
    return KILN_OK;
}

kiln_status kiln_graph_verify(kiln_graph *graph) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_status st = check_names(graph);
    if (!st) st = check_nodes(graph, KILN_ARENA_ARRAY(&scratch, bool, graph->value.count));
    kiln_graph_loops loops;
    if (!st) st = kiln_graph_loops_find(graph, &scratch, &loops);
    kiln_arena_deinit(&scratch);
    return st;
}
