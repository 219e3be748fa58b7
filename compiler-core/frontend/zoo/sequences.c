/* Networks that read text. */
#include <math.h>

#include "compiler-core/frontend/zoo/layers.h"
#include "compiler-core/frontend/zoo/networks.h"

typedef kiln_zoo_builder builder;
typedef kiln_zoo_value value;

static value tokens(builder *b, kiln_zoo_shape shape) {
    return kiln_zoo_input(b, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, shape);
}

/* ---- recurrent ------------------------------------------------------------------------------- */

/* [steps, 1, width] to the same. */
static value lstm(builder *b, value x) {
    int64_t steps = x.shape.dim[0], width = x.shape.dim[2];
    double deviation = sqrt(1 / (double)width);
    Onnx__NodeProto *node = kiln_zoo_node_on(b, "LSTM", x);
    kiln_zoo_weights(b, node, "input", KILN_ZOO_SHAPE(1, 4 * width, width), 0, deviation);
    kiln_zoo_weights(b, node, "recurrence", KILN_ZOO_SHAPE(1, 4 * width, width), 0, deviation);
    kiln_zoo_weights(b, node, "bias", KILN_ZOO_SHAPE(1, 8 * width), 0, deviation);
    kiln_zoo_set_int(b, node, "hidden_size", width);
    value y = kiln_zoo_result(b, node, KILN_ZOO_SHAPE(steps, 1, 1, width), 0.1);
    Onnx__NodeProto *squeeze = kiln_zoo_node_on(b, "Squeeze", y);
    kiln_zoo_feed(b, squeeze, kiln_zoo_integers(b, (int64_t[]){1}, 1));
    return kiln_zoo_result(b, squeeze, x.shape, y.power);
}

value kiln_zoo_net_lstm_lm(builder *b) {
    const int64_t steps = 20, width = 650, words = 10000;
    value x = kiln_zoo_embed(b, tokens(b, KILN_ZOO_SHAPE(steps, 1)), words, width);
    for (int layer = 0; layer < 2; layer++) x = lstm(b, x);
    return kiln_zoo_linear(b, kiln_zoo_reshape(b, x, KILN_ZOO_SHAPE(steps, width)), words);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* A head's queries, keys or values: [1, tokens, width] to a permutation of [1, heads, tokens,
 * depth]. */
static value project(builder *b, value x, int64_t heads, const int64_t order[4]) {
    value y = kiln_zoo_linear(b, x, x.shape.dim[2]);
    y = kiln_zoo_reshape(b, y, KILN_ZOO_SHAPE(1, x.shape.dim[1], heads, x.shape.dim[2] / heads));
    return kiln_zoo_transpose(b, y, order);
}

static value attend(builder *b, value x, int64_t heads) {
    static const int64_t by_head[] = {0, 2, 1, 3}, across[] = {0, 2, 3, 1};
    value q = project(b, x, heads, by_head), k = project(b, x, heads, across),
          v = project(b, x, heads, by_head);
    float scale = (float)(1 / sqrt((double)(x.shape.dim[2] / heads)));
    value score = kiln_zoo_binary(b, "Mul", kiln_zoo_matmul(b, q, k), kiln_zoo_scalar(b, scale));
    value y = kiln_zoo_matmul(b, kiln_zoo_softmax(b, score), v);
    y = kiln_zoo_reshape(b, kiln_zoo_transpose(b, y, by_head), x.shape);
    return kiln_zoo_linear(b, y, x.shape.dim[2]);
}

/* x / 2 (1 + erf(x / sqrt 2)), in the operators that exporters write. */
static value gelu(builder *b, value x) {
    value erf = kiln_zoo_binary(b, "Div", x, kiln_zoo_scalar(b, (float)sqrt(2)));
    erf = kiln_zoo_binary(b, "Add", kiln_zoo_apply(b, "Erf", erf, 1), kiln_zoo_scalar(b, 1));
    return kiln_zoo_binary(b, "Mul", kiln_zoo_binary(b, "Mul", x, erf), kiln_zoo_scalar(b, 0.5f));
}

value kiln_zoo_net_bert_mini(builder *b) {
    const int64_t layers = 4, width = 256, heads = 4, length = 128, words = 30522;
    value x = kiln_zoo_embed(b, tokens(b, KILN_ZOO_SHAPE(1, length)), words, width);
    value position = kiln_zoo_random(b, KILN_ZOO_SHAPE(1, length, width), 1);
    x = kiln_zoo_layer_norm(b, kiln_zoo_binary(b, "Add", x, position));
    for (int64_t i = 0; i < layers; i++) {
        x = kiln_zoo_layer_norm(b, kiln_zoo_binary(b, "Add", attend(b, x, heads), x));
        value y = kiln_zoo_linear(b, gelu(b, kiln_zoo_linear(b, x, 4 * width)), width);
        x = kiln_zoo_layer_norm(b, kiln_zoo_binary(b, "Add", y, x));
    }
    return x;
}
