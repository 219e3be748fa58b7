#include "compiler-core/frontend/zoo/layers.h"

#include <math.h>

#define BIAS_DEVIATION 0.01
#define KEEPS 1.0
#define HALVES 0.5 /* the share of a mean square that remains behind a rectifier */

kiln_zoo_value kiln_zoo_apply(kiln_zoo_builder *b, const char *op, kiln_zoo_value x, double power) {
    Onnx__NodeProto *node = kiln_zoo_node_on(b, op, x);
    return kiln_zoo_result(b, node, x.shape, power * x.power);
}

kiln_zoo_value kiln_zoo_relu(kiln_zoo_builder *b, kiln_zoo_value x) {
    return kiln_zoo_apply(b, "Relu", x, HALVES);
}

kiln_zoo_value kiln_zoo_relu6(kiln_zoo_builder *b, kiln_zoo_value x) {
    Onnx__NodeProto *node = kiln_zoo_node_on(b, "Clip", x);
    kiln_zoo_feed(b, node, kiln_zoo_scalar(b, 0));
    kiln_zoo_feed(b, node, kiln_zoo_scalar(b, 6));
    return kiln_zoo_result(b, node, x.shape, HALVES * x.power);
}

kiln_zoo_value kiln_zoo_binary(kiln_zoo_builder *b, const char *op, kiln_zoo_value x,
                               kiln_zoo_value y) {
    Onnx__NodeProto *node = kiln_zoo_node_on(b, op, x);
    kiln_zoo_feed(b, node, y);
    return kiln_zoo_result(b, node, x.shape, x.power + y.power);
}

/* ---- images ---------------------------------------------------------------------------------- */

static kiln_zoo_window with_defaults(kiln_zoo_window w, kiln_zoo_value x) {
    if (!w.channels) w.channels = x.shape.dim[1];
    if (!w.size) w.size = 1;
    if (!w.stride) w.stride = 1;
    if (!w.group) w.group = 1;
    return w;
}

static void set_window(kiln_zoo_builder *b, Onnx__NodeProto *node, kiln_zoo_window w) {
    kiln_zoo_set_ints(b, node, "kernel_shape", (int64_t[]){w.size, w.size}, 2);
    kiln_zoo_set_ints(b, node, "strides", (int64_t[]){w.stride, w.stride}, 2);
    kiln_zoo_set_ints(b, node, "pads", (int64_t[]){w.pad, w.pad, w.pad, w.pad}, 4);
}

static kiln_zoo_shape slid(kiln_zoo_value x, kiln_zoo_window w) {
    return KILN_ZOO_SHAPE(x.shape.dim[0], w.channels,
                          (x.shape.dim[2] + 2 * w.pad - w.size) / w.stride + 1,
                          (x.shape.dim[3] + 2 * w.pad - w.size) / w.stride + 1);
}

static kiln_zoo_value convolve(kiln_zoo_builder *b, kiln_zoo_value x, kiln_zoo_window w,
                               bool bias) {
    w = with_defaults(w, x);
    int64_t depth = x.shape.dim[1] / w.group;
    Onnx__NodeProto *node = kiln_zoo_node_on(b, "Conv", x);
    kiln_zoo_weights(b, node, "weight", KILN_ZOO_SHAPE(w.channels, depth, w.size, w.size), 0,
                     sqrt(2.0 / (double)(depth * w.size * w.size)));
    if (bias) kiln_zoo_weights(b, node, "bias", KILN_ZOO_SHAPE(w.channels), 0, BIAS_DEVIATION);
    set_window(b, node, w);
    kiln_zoo_set_int(b, node, "group", w.group);
    return kiln_zoo_result(b, node, slid(x, w), 2 * x.power);
}

kiln_zoo_value kiln_zoo_conv(kiln_zoo_builder *b, kiln_zoo_value x, kiln_zoo_window window) {
    return convolve(b, x, window, true);
}

kiln_zoo_value kiln_zoo_conv_norm(kiln_zoo_builder *b, kiln_zoo_value x, kiln_zoo_window window) {
    return kiln_zoo_batch_norm(b, convolve(b, x, window, false));
}

kiln_zoo_value kiln_zoo_deconv(kiln_zoo_builder *b, kiln_zoo_value x, kiln_zoo_window window) {
    kiln_zoo_window w = with_defaults(window, x);
    /* Number of products that are summed in one output: all for an image of one pixel, where
     * windows cannot overlap, else one window of every stride x stride. */
    int64_t taps = x.shape.dim[2] == 1 ? 1 : w.size * w.size / (w.stride * w.stride);
    int64_t side = (x.shape.dim[2] - 1) * w.stride + w.size - 2 * w.pad;
    Onnx__NodeProto *node = kiln_zoo_node_on(b, "ConvTranspose", x);
    kiln_zoo_weights(b, node, "weight", KILN_ZOO_SHAPE(x.shape.dim[1], w.channels, w.size, w.size),
                     0, sqrt(2.0 / (double)(x.shape.dim[1] * taps)));
    set_window(b, node, w);
    return kiln_zoo_result(b, node, KILN_ZOO_SHAPE(x.shape.dim[0], w.channels, side, side),
                           2 * x.power);
}

kiln_zoo_value kiln_zoo_batch_norm(kiln_zoo_builder *b, kiln_zoo_value x) {
    kiln_zoo_shape channels = KILN_ZOO_SHAPE(x.shape.dim[1]);
    Onnx__NodeProto *node = kiln_zoo_node_on(b, "BatchNormalization", x);
    kiln_zoo_weights(b, node, "scale", channels, 1, 0.1);
    kiln_zoo_weights(b, node, "bias", channels, 0, 0.1);
    kiln_zoo_weights(b, node, "mean", channels, 0, 0.1 * sqrt(x.power));
    kiln_zoo_weights(b, node, "variance", channels, x.power, 0.05 * x.power);
    return kiln_zoo_result(b, node, x.shape, 1);
}

kiln_zoo_value kiln_zoo_max_pool(kiln_zoo_builder *b, kiln_zoo_value x, kiln_zoo_window window) {
    kiln_zoo_window w = with_defaults(window, x);
    Onnx__NodeProto *node = kiln_zoo_node_on(b, "MaxPool", x);
    set_window(b, node, w);
    return kiln_zoo_result(b, node, slid(x, w), x.power);
}

kiln_zoo_value kiln_zoo_global_average(kiln_zoo_builder *b, kiln_zoo_value x) {
    kiln_zoo_value y = kiln_zoo_apply(b, "GlobalAveragePool", x, KEEPS);
    y.shape = KILN_ZOO_SHAPE(x.shape.dim[0], x.shape.dim[1], 1, 1);
    return y;
}

kiln_zoo_value kiln_zoo_concat(kiln_zoo_builder *b, kiln_zoo_value x, kiln_zoo_value y) {
    kiln_zoo_shape shape = x.shape;
    shape.dim[1] += y.shape.dim[1];
    Onnx__NodeProto *node = kiln_zoo_node_on(b, "Concat", x);
    kiln_zoo_feed(b, node, y);
    kiln_zoo_set_int(b, node, "axis", 1);
    return kiln_zoo_result(b, node, shape, (x.power + y.power) / 2);
}

/* ---- moving ---------------------------------------------------------------------------------- */

kiln_zoo_value kiln_zoo_flatten(kiln_zoo_builder *b, kiln_zoo_value x) {
    int64_t count = 1;
    for (uint32_t i = 1; i < x.shape.rank; i++) count *= x.shape.dim[i];
    kiln_zoo_value y = kiln_zoo_apply(b, "Flatten", x, KEEPS);
    y.shape = KILN_ZOO_SHAPE(x.shape.dim[0], count);
    return y;
}

kiln_zoo_value kiln_zoo_reshape(kiln_zoo_builder *b, kiln_zoo_value x, kiln_zoo_shape shape) {
    Onnx__NodeProto *node = kiln_zoo_node_on(b, "Reshape", x);
    kiln_zoo_feed(b, node, kiln_zoo_integers(b, shape.dim, shape.rank));
    return kiln_zoo_result(b, node, shape, x.power);
}

kiln_zoo_value kiln_zoo_transpose(kiln_zoo_builder *b, kiln_zoo_value x, const int64_t *order) {
    kiln_zoo_shape shape = {.rank = x.shape.rank};
    for (uint32_t i = 0; i < shape.rank; i++) shape.dim[i] = x.shape.dim[order[i]];
    Onnx__NodeProto *node = kiln_zoo_node_on(b, "Transpose", x);
    kiln_zoo_set_ints(b, node, "perm", order, shape.rank);
    return kiln_zoo_result(b, node, shape, x.power);
}

/* ---- matrices -------------------------------------------------------------------------------- */

static int64_t width_of(kiln_zoo_value x) { return x.shape.dim[x.shape.rank - 1]; }

kiln_zoo_value kiln_zoo_dense(kiln_zoo_builder *b, kiln_zoo_value x, int64_t outputs) {
    Onnx__NodeProto *node = kiln_zoo_node_on(b, "Gemm", x);
    kiln_zoo_weights(b, node, "weight", KILN_ZOO_SHAPE(outputs, width_of(x)), 0,
                     sqrt(2.0 / (double)width_of(x)));
    kiln_zoo_weights(b, node, "bias", KILN_ZOO_SHAPE(outputs), 0, BIAS_DEVIATION);
    kiln_zoo_set_int(b, node, "transB", 1);
    return kiln_zoo_result(b, node, KILN_ZOO_SHAPE(x.shape.dim[0], outputs), 2 * x.power);
}

kiln_zoo_value kiln_zoo_linear(kiln_zoo_builder *b, kiln_zoo_value x, int64_t outputs) {
    kiln_zoo_value weight =
        kiln_zoo_random(b, KILN_ZOO_SHAPE(width_of(x), outputs), sqrt(1 / (double)width_of(x)));
    return kiln_zoo_binary(b, "Add", kiln_zoo_matmul(b, x, weight),
                           kiln_zoo_random(b, KILN_ZOO_SHAPE(outputs), BIAS_DEVIATION));
}

kiln_zoo_value kiln_zoo_matmul(kiln_zoo_builder *b, kiln_zoo_value x, kiln_zoo_value y) {
    kiln_zoo_shape shape = x.shape;
    shape.dim[shape.rank - 1] = width_of(y);
    Onnx__NodeProto *node = kiln_zoo_node_on(b, "MatMul", x);
    kiln_zoo_feed(b, node, y);
    return kiln_zoo_result(b, node, shape, x.power * y.power * (double)width_of(x));
}

kiln_zoo_value kiln_zoo_embed(kiln_zoo_builder *b, kiln_zoo_value x, int64_t rows, int64_t width) {
    kiln_zoo_shape shape = x.shape;
    shape.dim[shape.rank++] = width;
    Onnx__NodeProto *node = kiln_zoo_node(b, "Gather");
    kiln_zoo_weights(b, node, "table", KILN_ZOO_SHAPE(rows, width), 0, 1);
    kiln_zoo_feed(b, node, x);
    return kiln_zoo_result(b, node, shape, 1);
}

kiln_zoo_value kiln_zoo_softmax(kiln_zoo_builder *b, kiln_zoo_value x) {
    double average = 1 / (double)width_of(x);
    kiln_zoo_value y = kiln_zoo_apply(b, "Softmax", x, KEEPS);
    y.power = average * average;
    return y;
}

kiln_zoo_value kiln_zoo_layer_norm(kiln_zoo_builder *b, kiln_zoo_value x) {
    Onnx__NodeProto *node = kiln_zoo_node_on(b, "LayerNormalization", x);
    kiln_zoo_weights(b, node, "scale", KILN_ZOO_SHAPE(width_of(x)), 1, 0.1);
    kiln_zoo_weights(b, node, "bias", KILN_ZOO_SHAPE(width_of(x)), 0, 0.1);
    return kiln_zoo_result(b, node, x.shape, 1);
}
