/* The two ends of a loop. They compute nothing: a plan turns them into steps. */
#include "compiler-core/ops/rules.h"

static bool is_one(const kiln_value_info *in, kiln_dtype dtype) {
    return in->dtype == dtype && kiln_shape_count(&in->shape) == 1;
}

/* Whether attribute `reversed` has one item per row or stack, or is left out. */
static kiln_status check_reversed(const kiln_node_info *node, uint32_t count) {
    uint32_t items = 0;
    const int64_t *reversed = kiln_node_ints(node, "reversed", &items);
    return !reversed || items == count
               ? KILN_OK
               : KILN_ERROR(INVALID_ARGUMENT, "attribute reversed: %u items instead of %u", items,
                            count);
}

kiln_status kiln_rule_loop_begin(kiln_infer *infer) {
    const kiln_node_info *node = infer->node;
    int64_t trips = kiln_node_int(node, "trips"), carried = kiln_node_int(node, "carried");
    int64_t guarded = kiln_node_int(node, "guarded") != 0, first = 1 + guarded;
    if (trips < 1 || trips > KILN_LOOP_TRIPS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute trips: %lld", (long long)trips);
    if (carried < 0 || carried > (int64_t)node->input_count - first ||
        node->output_count != (int64_t)node->input_count - guarded)
        return KILN_ERROR(INVALID_ARGUMENT, "%lld carried values with %u inputs and %u outputs",
                          (long long)carried, node->input_count, node->output_count);
    if (!is_one(kiln_node_input(infer->graph, node, 0), KILN_I64))
        return KILN_ERROR(INVALID_ARGUMENT, "its number of iterations is no i64");
    if (guarded && !is_one(kiln_node_input(infer->graph, node, 1), KILN_BOOL))
        return KILN_ERROR(INVALID_ARGUMENT, "its condition is no truth value");
    infer->dtype[0] = KILN_I64;
    for (uint32_t i = 1; i < node->output_count; i++) {
        const kiln_value_info *in = kiln_node_input(infer->graph, node, i + (uint32_t)guarded);
        infer->dtype[i] = in->dtype;
        infer->shape[i] = in->shape;
        if (i <= carried) continue;
        if (in->shape.rank == 0 || in->shape.dim[0] != trips)
            return KILN_ERROR(INVALID_ARGUMENT, "input %u has no %lld rows", i + (uint32_t)guarded,
                              (long long)trips);
        infer->shape[i].rank--;
        for (uint32_t d = 0; d < KILN_RANK_MAX; d++)
            infer->shape[i].dim[d] = d < infer->shape[i].rank ? in->shape.dim[d + 1] : 0;
    }
    return check_reversed(node, node->output_count - 1 - (uint32_t)carried);
}

static kiln_status push_row(const kiln_value_info *item, int64_t trips, kiln_shape *out) {
    if (item->shape.rank == KILN_RANK_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "stacks of %u dimensions", KILN_RANK_MAX + 1);
    out->rank = item->shape.rank + 1;
    out->dim[0] = trips;
    for (uint32_t d = 1; d < out->rank; d++) out->dim[d] = item->shape.dim[d - 1];
    return KILN_OK;
}

kiln_status kiln_rule_loop_end(kiln_infer *infer) {
    const kiln_graph *graph = infer->graph;
    const kiln_node_info *node = infer->node;
    kiln_node n = kiln_node_input(graph, node, 0)->producer;
    const kiln_node_info *begin = n ? &graph->node.data[n] : NULL;
    if (!begin || begin->op != KILN_OP_LOOP_BEGIN || begin->output[0] != node->input[0])
        return KILN_ERROR(INVALID_ARGUMENT, "its first input is no number of an iteration");
    const uint32_t carried = (uint32_t)kiln_node_int(begin, "carried"),
                   guarded = kiln_node_int(begin, "guarded") != 0;
    if (node->input_count < 1 + guarded + carried ||
        node->output_count != node->input_count - 1 - guarded)
        return KILN_ERROR(INVALID_ARGUMENT, "%u inputs and %u outputs with %u carried values",
                          node->input_count, node->output_count, carried);
    if (guarded && !is_one(kiln_node_input(graph, node, 1), KILN_BOOL))
        return KILN_ERROR(INVALID_ARGUMENT, "its condition is no truth value");
    kiln_status st = check_reversed(node, node->output_count - carried);
    for (uint32_t i = 0; !st && i < node->output_count; i++) {
        const kiln_value_info *in = kiln_node_input(graph, node, 1 + guarded + i),
                              *first = i < carried ? kiln_node_input(graph, begin, 1 + guarded + i)
                                                   : NULL;
        infer->dtype[i] = in->dtype;
        infer->shape[i] = in->shape;
        if (first && (first->dtype != in->dtype || !kiln_shape_equal(&first->shape, &in->shape)))
            st = KILN_ERROR(UNIMPLEMENTED, "carried value %u changes its type", i);
        else if (!first && kiln_loop_is_reversed(node, i - carried) &&
                 !kiln_loop_describe(graph, n).is_constant)
            st = KILN_ERROR(UNIMPLEMENTED, "results from the last iteration to the first, of a "
                                           "loop whose length is known at run time only");
        else if (!first)
            st = push_row(in, kiln_node_int(begin, "trips"), &infer->shape[i]);
    }
    return st;
}

static bool is_constant(const kiln_graph *graph, const kiln_node_info *begin) {
    if (kiln_node_int(begin, "guarded") != 0 || !kiln_value_is_constant(graph, begin->input[0]))
        return false;
    const kiln_tensor count = kiln_value_tensor(graph, begin->input[0]);
    return kiln_dtype_load_i64(count.dtype, count.data, 0) == kiln_node_int(begin, "trips");
}

kiln_loop_info kiln_loop_describe(const kiln_graph *graph, kiln_node begin) {
    const kiln_node_info *node = &graph->node.data[begin];
    return (kiln_loop_info){.carried = (uint32_t)kiln_node_int(node, "carried"),
                            .guarded = kiln_node_int(node, "guarded") != 0,
                            .trips = kiln_node_int(node, "trips"),
                            .is_constant = is_constant(graph, node)};
}

bool kiln_loop_grows(const kiln_graph *graph, kiln_value value) {
    kiln_node n = graph->value.data[value].producer;
    const kiln_node_info *end = &graph->node.data[n];
    if (!n || end->op != KILN_OP_LOOP_END) return false;
    kiln_loop_info loop = kiln_loop_describe(graph, graph->value.data[end->input[0]].producer);
    for (uint32_t i = 0; i < loop.carried; i++)
        if (end->output[i] == value) return false;
    return !loop.is_constant;
}

bool kiln_loop_is_reversed(const kiln_node_info *node, uint32_t index) {
    uint32_t count = 0;
    const int64_t *reversed = kiln_node_ints(node, "reversed", &count);
    return index < count && reversed[index] != 0;
}
