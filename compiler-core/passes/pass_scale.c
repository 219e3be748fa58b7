/* Scaling and shifting each channel by constants is folded into the weights of the convolution
 * before it: y = (conv(x, w) + b) * s + t = conv(x, w * s) + (b * s + t). Batch normalisation is
 * such a step with s = scale / sqrt(variance + epsilon), t = bias - mean * s; so are sums and
 * products with constants. Of halves the new weights are rounded once, as the old ones were, and
 * the value between the two steps is no longer rounded. */
#include <math.h>

#include "compiler-core/graph/op.h"
#include "compiler-core/ops/rules.h"
#include "compiler-core/passes/rewrite.h"

static double element(const kiln_graph *graph, kiln_value value, int64_t index) {
    const kiln_value_info *info = &graph->value.data[value];
    return kiln_dtype_load_f64(info->dtype, info->data, (size_t)index);
}

/* A constant with one element, or one per channel (dimension 1 of `shape`), when broadcast to
 * `shape`. */
static bool is_per_channel(const kiln_graph *graph, kiln_value value, const kiln_shape *shape) {
    const kiln_shape *own = &graph->value.data[value].shape;
    if (!kiln_value_is_constant(graph, value) || own->rank > shape->rank) return false;
    for (uint32_t d = 0; d < own->rank; d++) {
        uint32_t at = d + shape->rank - own->rank;
        if (own->dim[d] != 1 && (at != 1 || own->dim[d] != shape->dim[1])) return false;
    }
    return true;
}

static double of_channel(const kiln_graph *graph, kiln_value value, int64_t channel) {
    return element(graph, value,
                   kiln_shape_count(&graph->value.data[value].shape) == 1 ? 0 : channel);
}

/* The input that the node scales and shifts; -1: it does something else. */
static int scaled_input(const kiln_graph *graph, const kiln_node_info *node) {
    const kiln_shape *shape = node->output_count ? &graph->value.data[node->output[0]].shape : NULL;
    switch ((int)node->op) {
    case KILN_OP_BATCH_NORM:
        for (uint32_t i = 1; i < 5; i++)
            if (!kiln_value_is_constant(graph, node->input[i])) return -1;
        return 0;
    case KILN_OP_ADD:
    case KILN_OP_MUL:
    case KILN_OP_SUB:
        if (is_per_channel(graph, node->input[0], shape)) return 1; /* c - x as well */
        return is_per_channel(graph, node->input[1], shape) ? 0 : -1;
    case KILN_OP_DIV: return is_per_channel(graph, node->input[1], shape) ? 0 : -1;
    default: return -1;
    }
}

/* y = x * scale + shift of one channel. */
static void scale_of(const kiln_graph *graph, const kiln_node_info *node, int input,
                     int64_t channel, double *out_scale, double *out_shift) {
    if (node->op == KILN_OP_BATCH_NORM) {
        double root =
            sqrt(element(graph, node->input[4], channel) + kiln_node_float(node, "epsilon"));
        *out_scale = element(graph, node->input[1], channel) / root;
        *out_shift = element(graph, node->input[2], channel) -
                     element(graph, node->input[3], channel) * *out_scale;
        return;
    }
    double other = of_channel(graph, node->input[1 - input], channel);
    *out_scale = node->op == KILN_OP_MUL ? other : node->op == KILN_OP_DIV ? 1 / other : 1;
    *out_shift = node->op == KILN_OP_ADD ? other : 0;
    if (node->op == KILN_OP_SUB) {
        *out_scale = input ? -1 : 1;
        *out_shift = input ? other : -other;
    }
}

/* The convolution with constant weights whose only reader this is; 0: none. */
static kiln_node foldable_conv(const kiln_sweep *s, kiln_value value, kiln_value result) {
    const kiln_graph *graph = s->graph;
    kiln_node producer = graph->value.data[value].producer;
    if (!producer || !kiln_sweep_reads_alone(s, value)) return 0;
    const kiln_node_info *conv = &graph->node.data[producer];
    bool folds =
        (conv->op == KILN_OP_CONV || conv->op == KILN_OP_CONV_TRANSPOSE) &&
        kiln_value_is_constant(graph, conv->input[1]) &&
        (conv->input_count < 3 || !conv->input[2] || kiln_value_is_constant(graph, conv->input[2]));
    folds = folds &&
            kiln_shape_equal(&graph->value.data[value].shape, &graph->value.data[result].shape);
    return folds && kiln_dtype_is_float(graph->value.data[value].dtype) ? producer : 0;
}

/* The output channel that element `i` of a convolution's weights belongs to. */
static int64_t channel_of(const kiln_node_info *conv, const kiln_shape *weight, int64_t i) {
    int64_t first = kiln_shape_count(weight) / weight->dim[0];
    if (conv->op == KILN_OP_CONV) return i / first; /* [c_out][c_in / group].. */
    /* Transposed: [c_in][c_out / group].. */
    int64_t each = weight->dim[1], c_in = i / first, group = kiln_node_int(conv, "group");
    return c_in / (weight->dim[0] / group) * each + i % first / (first / each);
}

/* False: the type does not hold the number, which can happen with halves. */
static bool store(kiln_tensor *to, int64_t i, double value) {
    kiln_dtype_store_f64(to->dtype, to->data, (size_t)i, value);
    return isfinite(kiln_dtype_load_f64(to->dtype, to->data, (size_t)i)) || !isfinite(value);
}

/* False: they do not fit into the weights' type. */
static bool fold(kiln_sweep *s, kiln_node conv_node, kiln_node scale_node, int input) {
    kiln_graph *graph = s->graph;
    const kiln_node_info by = graph->node.data[scale_node], conv = graph->node.data[conv_node];
    const kiln_value_info old = graph->value.data[conv.input[1]];
    int64_t channels = graph->value.data[by.output[0]].shape.dim[1];
    kiln_tensor weight = kiln_tensor_create(graph->arena, old.dtype, &old.shape);
    kiln_tensor bias =
        kiln_tensor_create(graph->arena, old.dtype, &(kiln_shape){.rank = 1, .dim = {channels}});
    bool has_bias = conv.input_count > 2 && conv.input[2], scaled = false, fits = true;
    double *scale = KILN_ARENA_ARRAY(graph->arena, double, channels);
    for (int64_t c = 0; c < channels; c++) {
        double shift = 0;
        scale_of(graph, &by, input, c, &scale[c], &shift);
        double before = has_bias ? element(graph, conv.input[2], c) : 0;
        fits &= store(&bias, c, before * scale[c] + shift);
        scaled |= scale[c] != 1;
    }
    for (int64_t i = 0; i < kiln_shape_count(&old.shape); i++)
        fits &= store(&weight, i,
                      element(graph, conv.input[1], i) * scale[channel_of(&conv, &old.shape, i)]);
    if (!fits) return false;
    const char *weight_name =
        kiln_arena_printf(graph->arena, "%.*s.folded", KILN_STR_ARG(old.name));
    const char *bias_name = kiln_arena_printf(graph->arena, "%.*s.bias", KILN_STR_ARG(old.name));
    kiln_value *operand = KILN_ARENA_ARRAY(graph->arena, kiln_value, 3);
    operand[0] = conv.input[0];
    operand[1] = scaled ? kiln_graph_add_constant(graph, kiln_str_from(weight_name), &weight)
                        : conv.input[1];
    operand[2] = kiln_graph_add_constant(graph, kiln_str_from(bias_name), &bias);
    graph->node.data[conv_node].input = operand;
    graph->node.data[conv_node].input_count = 3;
    return true;
}

static kiln_value look(kiln_sweep *s, kiln_node n) {
    const kiln_node_info *node = &s->graph->node.data[n];
    int input = scaled_input(s->graph, node);
    kiln_node conv = input < 0 ? 0 : foldable_conv(s, node->input[input], node->output[0]);
    if (!conv) return 0;
    kiln_value result = node->input[input];
    return fold(s, conv, n, input) ? result : 0;
}

kiln_status kiln_pass_fold_scale(kiln_graph *graph) {
    kiln_graph_sweep(graph, look, NULL);
    return KILN_OK;
}
