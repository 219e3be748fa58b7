/* Folds batch normalisations into the convolutions before them: on the file's model, like the pass
 * fold-scale on graphs. */
#include <math.h>
#include <string.h>

#include "compiler-core/frontend/onnx/quantize.h"

/* Constants of one normalisation, [channels] each. */
typedef struct norm {
    kiln_tensor scale, shift, mean, variance;
    double epsilon;
} norm;

static bool has_channels(const kiln_tensor *t, int64_t channels) {
    return t->shape.rank == 1 && t->shape.dim[0] == channels;
}

static bool read_norm(kiln_onnx_edit *edit, const Onnx__NodeProto *node, int64_t channels,
                      norm *out) {
    if (!kiln_onnx_node_is(node, "BatchNormalization") || node->n_output != 1 ||
        kiln_onnx_node_int(node, "training_mode", 0) || !kiln_onnx_node_int(node, "spatial", 1))
        return false;
    out->epsilon = kiln_onnx_node_float(node, "epsilon", 1e-5);
    kiln_tensor *const part[] = {&out->scale, &out->shift, &out->mean, &out->variance};
    for (size_t i = 0; i < 4; i++)
        if (!kiln_onnx_edit_floats(edit, kiln_onnx_node_input(node, i + 1), part[i]) ||
            !has_channels(part[i], channels))
            return false;
    return true;
}

static double at(const kiln_tensor *t, int64_t i) { return (double)((const float *)t->data)[i]; }

/* weights * s, and (bias - mean) * s + shift, with s = scale / sqrt(variance + epsilon). */
static void scale_channels(const norm *n, kiln_tensor *weights, kiln_tensor *bias) {
    const int64_t channels = weights->shape.dim[0];
    const int64_t each = kiln_shape_count(&weights->shape) / channels;
    for (int64_t c = 0; c < channels; c++) {
        const double s = at(&n->scale, c) / sqrt(at(&n->variance, c) + n->epsilon);
        float *w = (float *)weights->data + c * each, *b = (float *)bias->data + c;
        for (int64_t i = 0; i < each; i++) w[i] = (float)((double)w[i] * s);
        *b = (float)(((double)*b - at(&n->mean, c)) * s + at(&n->shift, c));
    }
}

/* False: they cannot be folded. */
static bool fold(kiln_onnx_edit *edit, uint32_t conv, const Onnx__NodeProto *normalisation) {
    const Onnx__NodeProto *node = edit->node.data[conv];
    const char *weights_name = kiln_onnx_node_input(node, 1),
               *bias_name = kiln_onnx_node_input(node, 2);
    kiln_tensor weights, bias;
    norm n;
    if (!kiln_onnx_edit_floats(edit, weights_name, &weights) || weights.shape.rank < 3 ||
        weights.shape.dim[0] < 1)
        return false;
    const kiln_shape channels = {1, {weights.shape.dim[0]}};
    if (!*bias_name)
        bias = kiln_tensor_create(edit->arena, KILN_F32, &channels);
    else if (!kiln_onnx_edit_floats(edit, bias_name, &bias) ||
             !has_channels(&bias, channels.dim[0]))
        return false;
    if (!read_norm(edit, normalisation, channels.dim[0], &n)) return false;
    scale_channels(&n, &weights, &bias);
    Onnx__NodeProto *folded = kiln_onnx_edit_copy_node(edit, node, 3);
    folded->input[1] = kiln_onnx_edit_add_constant(edit, weights_name, "_folded", &weights);
    folded->input[2] = kiln_onnx_edit_add_constant(edit, *bias_name ? bias_name : weights_name,
                                                   *bias_name ? "_folded" : "_bias", &bias);
    folded->output[0] = normalisation->output[0];
    edit->node.data[conv] = folded;
    return true;
}

/* The convolution whose result only `node` reads, or NONE. */
static uint32_t find_conv(const kiln_onnx_edit *edit, const kiln_sites *sites,
                          const Onnx__NodeProto *node) {
    const uint32_t x = kiln_sites_find(sites, kiln_onnx_node_input(node, 0));
    if (x == KILN_SITE_NONE) return KILN_SITE_NONE;
    const kiln_site_value *value = &sites->value.data[x];
    if (value->producer == KILN_SITE_NONE || value->readers != 1 || value->pinned)
        return KILN_SITE_NONE;
    const Onnx__NodeProto *producer = edit->node.data[value->producer]; /* NULL: the node was
                                                                         * folded */
    return producer && kiln_onnx_node_is(producer, "Conv") ? value->producer : KILN_SITE_NONE;
}

void kiln_onnx_fold_norms(kiln_onnx_edit *edit) {
    static const kiln_quantize_options nothing = {.weight_bits = 8, .activation_bits = 8};
    kiln_sites sites;
    uint32_t kept = 0;
    kiln_sites_init(&sites, edit, &nothing);
    for (uint32_t i = 0; i < edit->node.count; i++) {
        if (!kiln_onnx_node_is(edit->node.data[i], "BatchNormalization")) continue;
        const uint32_t conv = find_conv(edit, &sites, edit->node.data[i]);
        if (conv != KILN_SITE_NONE && fold(edit, conv, edit->node.data[i]))
            edit->node.data[i] = NULL;
    }
    for (uint32_t i = 0; i < edit->node.count; i++)
        if (edit->node.data[i]) edit->node.data[kept++] = edit->node.data[i];
    edit->node.count = kept;
    kiln_sites_deinit(&sites);
}
