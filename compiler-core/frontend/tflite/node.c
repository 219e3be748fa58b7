/* Appends nodes to the graph. */
#include <string.h>

#include "base/macros.h"
#include "compiler-core/frontend/tflite/import.h"

void kiln_tflite_fail(kiln_tflite *t, kiln_status st) {
    if (t->st)
        kiln_status_free(st); /* errors caused by the first one are dropped */
    else
        t->st = st;
}

static kiln_str part_name(const kiln_tflite *t) {
    return kiln_str_printf(t->graph->arena, "%s.%u", t->row ? t->row->name : "TENSOR", t->number);
}

void kiln_tflite_nodes(kiln_tflite *t, kiln_op op, const kiln_value *input, uint32_t input_count,
                       const kiln_attr *attr, uint32_t attr_count, kiln_value *output,
                       uint32_t output_count) {
    kiln_graph *graph = t->graph;
    memset(output, 0, sizeof *output * output_count);
    if (!t->st && (graph->node.count == KILN_GRAPH_NODES_MAX ||
                   graph->value.count + output_count >= KILN_GRAPH_VALUES_MAX))
        t->st = KILN_ERROR(OUT_OF_RANGE, "too many nodes");
    for (uint32_t i = 0; !t->st && i < input_count; i++)
        if (!input[i] && op != KILN_OP_CONV_INTEGER && op != KILN_OP_MATMUL_INTEGER)
            t->st = KILN_ERROR(INVALID_ARGUMENT, "an input is missing");
    if (t->st) return;
    const kiln_str name = part_name(t);
    const kiln_node node = kiln_graph_add_node(graph, op, name, input_count, output_count);
    for (uint32_t i = 0; i < input_count; i++) kiln_graph_set_input(graph, node, i, input[i]);
    for (uint32_t i = 0; i < attr_count; i++) kiln_graph_set_attr(graph, node, &attr[i]);
    for (uint32_t i = 0; i < output_count; i++) {
        output[i] = kiln_graph_add_value(graph, name);
        kiln_graph_set_output(graph, node, i, output[i]);
    }
    t->st = kiln_status_note(kiln_node_infer(graph, node), "its part %s", kiln_op_get(op)->name);
    if (t->st) memset(output, 0, sizeof *output * output_count);
}

kiln_value kiln_tflite_node(kiln_tflite *t, kiln_op op, const kiln_value *input,
                            uint32_t input_count, const kiln_attr *attr, uint32_t attr_count) {
    kiln_value output = 0;
    kiln_tflite_nodes(t, op, input, input_count, attr, attr_count, &output, 1);
    return output;
}

kiln_value kiln_tflite_unary(kiln_tflite *t, kiln_op op, kiln_value a) {
    return kiln_tflite_node(t, op, &a, 1, NULL, 0);
}

kiln_value kiln_tflite_binary(kiln_tflite *t, kiln_op op, kiln_value a, kiln_value b) {
    return kiln_tflite_node(t, op, (kiln_value[]){a, b}, 2, NULL, 0);
}

kiln_attr kiln_tflite_word(const char *name, const char *word) {
    return (kiln_attr){
        .name = kiln_str_from(name), .kind = KILN_ATTR_TEXT, .text = kiln_str_from(word)};
}

kiln_value kiln_tflite_cast(kiln_tflite *t, kiln_value a, kiln_dtype dtype) {
    if (t->st || kiln_tflite_dtype(t, a) == dtype) return a;
    const kiln_attr attr = kiln_tflite_word("to", kiln_dtype_name(dtype));
    return kiln_tflite_node(t, KILN_OP_CAST, &a, 1, &attr, 1);
}

kiln_value kiln_tflite_reshaped(kiln_tflite *t, kiln_value a, const kiln_shape *shape) {
    if (t->st || kiln_shape_equal(kiln_tflite_shape(t, a), shape)) return a;
    const kiln_attr attr[] = {kiln_attr_ints("shape", shape->dim, shape->rank),
                              kiln_attr_int("allowzero", 1)};
    return kiln_tflite_node(t, KILN_OP_RESHAPE, &a, 1, attr, 2);
}

kiln_value kiln_tflite_transposed(kiln_tflite *t, kiln_value a, const int64_t *order) {
    if (t->st) return 0;
    const kiln_attr attr = kiln_attr_ints("perm", order, kiln_tflite_shape(t, a)->rank);
    return kiln_tflite_node(t, KILN_OP_TRANSPOSE, &a, 1, &attr, 1);
}

kiln_value kiln_tflite_cut_out(kiln_tflite *t, kiln_value a, int64_t axis, int64_t start,
                               int64_t end) {
    const kiln_attr attr[] = {kiln_attr_ints("axes", &axis, 1), kiln_attr_ints("starts", &start, 1),
                              kiln_attr_ints("ends", &end, 1)};
    return kiln_tflite_node(t, KILN_OP_SLICE, &a, 1, attr, 3);
}

kiln_value kiln_tflite_clipped(kiln_tflite *t, kiln_value a, double low, double high) {
    if (t->st) return 0;
    const kiln_dtype dtype = kiln_tflite_dtype(t, a);
    const kiln_value input[] = {a, kiln_tflite_scalar(t, dtype, low),
                                kiln_tflite_scalar(t, dtype, high)};
    return kiln_tflite_node(t, KILN_OP_CLIP, input, 3, NULL, 0);
}

kiln_value kiln_tflite_constant(kiln_tflite *t, const kiln_tensor *tensor) {
    if (!t->st && t->graph->value.count >= KILN_GRAPH_VALUES_MAX)
        t->st = KILN_ERROR(OUT_OF_RANGE, "too many tensors");
    return t->st ? 0 : kiln_graph_add_constant(t->graph, part_name(t), tensor);
}

kiln_value kiln_tflite_scalar(kiln_tflite *t, kiln_dtype dtype, double value) {
    const kiln_tensor scalar = kiln_tensor_create(t->graph->arena, dtype, &(kiln_shape){0});
    kiln_dtype_store_f64(dtype, scalar.data, 0, value);
    return kiln_tflite_constant(t, &scalar);
}

const kiln_shape *kiln_tflite_shape(const kiln_tflite *t, kiln_value value) {
    return &t->graph->value.data[value].shape;
}

kiln_dtype kiln_tflite_dtype(const kiln_tflite *t, kiln_value value) {
    return t->graph->value.data[value].dtype;
}

bool kiln_tflite_axis(kiln_tflite *t, int64_t given, uint32_t rank, uint32_t *out_axis) {
    const int64_t axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis >= rank)
        kiln_tflite_fail(
            t, KILN_ERROR(INVALID_ARGUMENT, "axis %lld of %u dimensions", (long long)given, rank));
    else
        *out_axis = (uint32_t)axis;
    return !t->st;
}

uint32_t kiln_tflite_place(kiln_tflite_layout layout, uint32_t dimension) {
    static const uint32_t first[] = {0, 2, 3, 1};
    return layout == KILN_TFLITE_FIRST && dimension < KILN_ARRAY_COUNT(first) ? first[dimension]
                                                                              : dimension;
}

kiln_tflite_layout kiln_tflite_preferred(const kiln_tflite *t) {
    for (uint32_t i = 0; i < t->input.count; i++) {
        const kiln_tflite_tensor *tensor = kiln_tflite_input(t, i);
        if (tensor && tensor->shape.rank == 4 && tensor->home == KILN_TFLITE_FIRST)
            return KILN_TFLITE_FIRST;
    }
    return KILN_TFLITE_LAST;
}
