/* Batch normalisation into the weights of the convolution before it: with s = scale / sqrt(variance
 * + eps), y = (conv(x, w) + b - mean) * s + bias = conv(x, w * s) + (b - mean) * s + bias. */
#include <math.h>

#include "compiler-core/ops/op.h"
#include "compiler-core/ops/rules.h"
#include "compiler-core/passes/rewrite.h"

/* The convolution whose only reader is this batch normalisation; 0: there is none that can be
 * folded. */
static kiln_node foldable_conv(const kiln_graph *graph, const kiln_node_info *norm,
                               const uint32_t *uses) {
    kiln_node producer = graph->value.data[norm->input[0]].producer;
    if (!producer || uses[norm->input[0]] != 1) return 0;
    const kiln_node_info *conv = &graph->node.data[producer];
    bool folds =
        (conv->op == KILN_OP_CONV || conv->op == KILN_OP_CONV_TRANSPOSE) &&
        kiln_value_is_constant(graph, conv->input[1]) &&
        (conv->input_count < 3 || !conv->input[2] || kiln_value_is_constant(graph, conv->input[2]));
    for (uint32_t i = 1; i < 5; i++) folds = folds && kiln_value_is_constant(graph, norm->input[i]);
    kiln_dtype dtype = graph->value.data[norm->input[0]].dtype;
    return folds && (dtype == KILN_F32 || dtype == KILN_F64) ? producer : 0;
}

static double element(const kiln_graph *graph, kiln_value value, int64_t index) {
    const kiln_value_info *info = &graph->value.data[value];
    return kiln_dtype_load_f64(info->dtype, info->data, (size_t)index);
}

/* The output channel that element `i` of a convolution's weights belongs to. */
static int64_t channel_of(const kiln_node_info *conv, const kiln_shape *weight, int64_t i) {
    int64_t first = kiln_shape_count(weight) / weight->dim[0];
    if (conv->op == KILN_OP_CONV) return i / first; /* [c_out][c_in / group].. */
    /* Transposed: [c_in][c_out / group].. */
    int64_t each = weight->dim[1], c_in = i / first, group = kiln_node_int(conv, "group");
    return c_in / (weight->dim[0] / group) * each + i % first / (first / each);
}

static void fold(kiln_graph *graph, kiln_node conv_node, kiln_node norm_node) {
    const kiln_node_info norm = graph->node.data[norm_node], conv = graph->node.data[conv_node];
    const kiln_value_info old = graph->value.data[conv.input[1]];
    int64_t channels = kiln_shape_count(&graph->value.data[norm.input[1]].shape);
    kiln_tensor weight = kiln_tensor_create(graph->arena, old.dtype, &old.shape);
    kiln_tensor bias =
        kiln_tensor_create(graph->arena, old.dtype, &(kiln_shape){.rank = 1, .dim = {channels}});
    bool has_bias = conv.input_count > 2 && conv.input[2];
    double *scale = KILN_ARENA_ARRAY(graph->arena, double, channels);
    for (int64_t c = 0; c < channels; c++) {
        scale[c] = element(graph, norm.input[1], c) /
                   sqrt(element(graph, norm.input[4], c) + kiln_node_float(&norm, "epsilon"));
        double before = has_bias ? element(graph, conv.input[2], c) : 0;
        double shifted = (before - element(graph, norm.input[3], c)) * scale[c] +
                         element(graph, norm.input[2], c);
        kiln_dtype_store_f64(bias.dtype, bias.data, (size_t)c, shifted);
    }
    for (int64_t i = 0; i < kiln_shape_count(&old.shape); i++)
        kiln_dtype_store_f64(weight.dtype, weight.data, (size_t)i,
                             element(graph, conv.input[1], i) *
                                 scale[channel_of(&conv, &old.shape, i)]);
    kiln_str name = old.name,
             bias_name =
                 kiln_str_from(kiln_arena_printf(graph->arena, "%.*s.bias", KILN_STR_ARG(name)));
    kiln_value *input = KILN_ARENA_ARRAY(graph->arena, kiln_value, 3);
    input[0] = conv.input[0];
    input[1] = kiln_graph_add_constant(
        graph, kiln_str_from(kiln_arena_printf(graph->arena, "%.*s.folded", KILN_STR_ARG(name))),
        &weight);
    input[2] = kiln_graph_add_constant(graph, bias_name, &bias);
    graph->node.data[conv_node].input = input;
    graph->node.data[conv_node].input_count = 3;
}

kiln_status kiln_pass_fold_batch_norm(kiln_graph *graph) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    const uint32_t *uses = kiln_graph_count_uses(graph, &scratch);
    for (kiln_node n = 1; n < graph->node.count; n++) {
        if (graph->node.data[n].op != KILN_OP_BATCH_NORM) continue;
        kiln_node conv = foldable_conv(graph, &graph->node.data[n], uses);
        if (!conv) continue;
        fold(graph, conv, n);
        kiln_value before = graph->node.data[n].input[0], after = graph->node.data[n].output[0];
        kiln_graph_remove_node(graph, n);
        kiln_graph_replace_value(graph, after, before);
    }
    kiln_arena_deinit(&scratch);
    return KILN_OK;
}
