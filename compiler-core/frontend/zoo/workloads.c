/* Single operators: convolutions, matrix products, and rows normalised in two ways. */
#include "compiler-core/frontend/zoo/workloads.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "compiler-core/frontend/zoo/layers.h"

#define EXTENT_MAX 65536
#define BIAS_DEVIATION 0.1

typedef kiln_zoo_builder builder;
typedef kiln_zoo_value value;

static value input(builder *b, kiln_zoo_shape shape) {
    return kiln_zoo_input(b, kiln_zoo_float_type(b), shape);
}

/* Exactly `count` numbers divided by `separator`. */
static bool parse_numbers(kiln_str s, char separator, int64_t *out, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        if (s.size == 0 || !kiln_str_to_i64(kiln_str_cut(&s, separator), &out[i])) return false;
    }
    return s.size == 0;
}

/* ---- convolutions ---------------------------------------------------------------------------- */

enum { IC, H, W, OC, KH, KW, SH, SW, PT, PL, PB, PR, DH, DW, G, CONV_FIELDS };

typedef struct conv_row {
    const char *name;
    int64_t v[CONV_FIELDS];
} conv_row;

/* C1..C12: the convolutions of ResNet-18 (TVM, OSDI'18, table 2); D1..D9: the depthwise ones of
 * MobileNet v1. */
static const conv_row conv_table[] = {
    {"C1", {3, 224, 224, 64, 7, 7, 2, 2, 3, 3, 3, 3, 1, 1, 1}},
    {"C2", {64, 56, 56, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
    {"C3", {64, 56, 56, 64, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1}},
    {"C4", {64, 56, 56, 128, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1}},
    {"C5", {64, 56, 56, 128, 1, 1, 2, 2, 0, 0, 0, 0, 1, 1, 1}},
    {"C6", {128, 28, 28, 128, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
    {"C7", {128, 28, 28, 256, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1}},
    {"C8", {128, 28, 28, 256, 1, 1, 2, 2, 0, 0, 0, 0, 1, 1, 1}},
    {"C9", {256, 14, 14, 256, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
    {"C10", {256, 14, 14, 512, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1}},
    {"C11", {256, 14, 14, 512, 1, 1, 2, 2, 0, 0, 0, 0, 1, 1, 1}},
    {"C12", {512, 7, 7, 512, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
    {"D1", {32, 112, 112, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 32}},
    {"D2", {64, 112, 112, 64, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 64}},
    {"D3", {128, 56, 56, 128, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 128}},
    {"D4", {128, 56, 56, 128, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 128}},
    {"D5", {256, 28, 28, 256, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 256}},
    {"D6", {256, 28, 28, 256, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 256}},
    {"D7", {512, 14, 14, 512, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 512}},
    {"D8", {512, 14, 14, 512, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 512}},
    {"D9", {1024, 7, 7, 1024, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1024}},
};

static kiln_status check_conv(const int64_t *v, int64_t *oh, int64_t *ow) {
    for (unsigned i = 0; i < CONV_FIELDS; i++) {
        bool pad = i >= PT && i <= PR;
        if (v[i] < (pad ? 0 : 1) || v[i] > EXTENT_MAX)
            return KILN_ERROR(INVALID_ARGUMENT, "field %u is out of range", i + 1);
    }
    if (v[IC] % v[G] || v[OC] % v[G])
        return KILN_ERROR(INVALID_ARGUMENT, "the groups divide IC and OC");
    int64_t h = v[H] + v[PT] + v[PB] - ((v[KH] - 1) * v[DH] + 1),
            w = v[W] + v[PL] + v[PR] - ((v[KW] - 1) * v[DW] + 1);
    if (h < 0 || w < 0)
        return KILN_ERROR(INVALID_ARGUMENT, "the kernel is larger than the padded image");
    *oh = h / v[SH] + 1;
    *ow = w / v[SW] + 1;
    return KILN_OK;
}

static const int64_t *find_conv(kiln_str rest, int64_t *parsed) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(conv_table); i++)
        if (kiln_str_is(rest, conv_table[i].name)) return conv_table[i].v;
    return parse_numbers(rest, ',', parsed, CONV_FIELDS) ? parsed : NULL;
}

/* The convolution that `rest` describes and the extents of its result. */
static kiln_status read_conv(kiln_str rest, int64_t *v, int64_t *oh, int64_t *ow) {
    int64_t parsed[CONV_FIELDS];
    const int64_t *found = find_conv(rest, parsed);
    if (!found) return KILN_ERROR(INVALID_ARGUMENT, "no such convolution");
    memcpy(v, found, sizeof parsed);
    return check_conv(v, oh, ow);
}

static void set_conv(builder *b, Onnx__NodeProto *node, const int64_t *v) {
    kiln_zoo_set_ints(b, node, "kernel_shape", &v[KH], 2);
    kiln_zoo_set_ints(b, node, "strides", &v[SH], 2);
    kiln_zoo_set_ints(b, node, "pads", &v[PT], 4);
    kiln_zoo_set_ints(b, node, "dilations", &v[DH], 2);
    kiln_zoo_set_int(b, node, "group", v[G]);
}

kiln_status kiln_zoo_workload_conv(builder *b, kiln_str rest, value *out) {
    int64_t v[CONV_FIELDS], oh = 0, ow = 0;
    kiln_status st = read_conv(rest, v, &oh, &ow);
    if (st) return st;
    value x = kiln_zoo_images(b, kiln_zoo_float_type(b), v[IC], v[H], v[W]);
    Onnx__NodeProto *node = kiln_zoo_node_on(b, "Conv", x);
    kiln_zoo_weights(b, node, "weight", KILN_ZOO_SHAPE(v[OC], v[IC] / v[G], v[KH], v[KW]), 0,
                     sqrt(2.0 / (double)(v[IC] / v[G] * v[KH] * v[KW])));
    if (b->form.shifted)
        kiln_zoo_weights(b, node, "bias", KILN_ZOO_SHAPE(v[OC]), 0, BIAS_DEVIATION);
    set_conv(b, node, v);
    *out = kiln_zoo_result(b, node, KILN_ZOO_SHAPE(x.shape.dim[0], v[OC], oh, ow), 2 * x.power);
    if (b->form.shifted) *out = kiln_zoo_relu(b, *out);
    return KILN_OK;
}

#define ZERO_POINT 120  /* of the data; any but the middle, which is the simplest */
#define VARIANCE 5461.0 /* of bytes that are uniformly distributed */

kiln_status kiln_zoo_workload_qconv(builder *b, kiln_str rest, value *out) {
    int64_t v[CONV_FIELDS], oh = 0, ow = 0;
    kiln_status st = read_conv(rest, v, &oh, &ow);
    if (st) return st;
    kiln_zoo_shape shape = KILN_ZOO_SHAPE(b->form.batch, v[OC], oh, ow);
    double power = VARIANCE * VARIANCE * (double)(v[IC] / v[G] * v[KH] * v[KW]);
    Onnx__NodeProto *node = kiln_zoo_node(b, "ConvInteger");
    kiln_zoo_feed(b, node,
                  kiln_zoo_images(b, ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, v[IC], v[H], v[W]));
    kiln_zoo_bytes(b, node, "weight", KILN_ZOO_SHAPE(v[OC], v[IC] / v[G], v[KH], v[KW]));
    kiln_zoo_byte(b, node, "zero", ZERO_POINT);
    set_conv(b, node, v);
    value sums = kiln_zoo_result(b, node, shape, power);
    Onnx__NodeProto *cast = kiln_zoo_node_on(b, "Cast", sums), *scaled = kiln_zoo_node(b, "Mul");
    kiln_zoo_set_int(b, cast, "to", kiln_zoo_float_type(b));
    kiln_zoo_feed(b, scaled, kiln_zoo_result(b, cast, shape, power));
    kiln_zoo_feed(b, scaled, kiln_zoo_scalar(b, (float)(1 / sqrt(power))));
    *out = kiln_zoo_result(b, scaled, shape, 1);
    return KILN_OK;
}

/* ---- matrices -------------------------------------------------------------------------------- */

static kiln_status check_extents(const int64_t *extent, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        if (extent[i] < 1 || extent[i] > EXTENT_MAX)
            return KILN_ERROR(INVALID_ARGUMENT, "extents are 1 to %d", EXTENT_MAX);
    return KILN_OK;
}

kiln_status kiln_zoo_workload_gemm(builder *b, kiln_str rest, value *out) {
    int64_t v[3];
    if (!parse_numbers(rest, 'x', v, 3)) return KILN_ERROR(INVALID_ARGUMENT, "no such product");
    kiln_status st = check_extents(v, 3);
    if (st) return st;
    Onnx__NodeProto *node = kiln_zoo_node(b, "MatMul");
    kiln_zoo_feed(b, node, input(b, KILN_ZOO_SHAPE(v[0], v[2])));
    kiln_zoo_weights(b, node, "weight", KILN_ZOO_SHAPE(v[2], v[1]), 0, sqrt(2.0 / (double)v[2]));
    *out = kiln_zoo_result(b, node, KILN_ZOO_SHAPE(v[0], v[1]), 2);
    return KILN_OK;
}

/* Rows of the last of two extents. */
static kiln_status rows(builder *b, kiln_str rest, value *out) {
    int64_t v[2];
    if (!parse_numbers(rest, 'x', v, 2)) return KILN_ERROR(INVALID_ARGUMENT, "no such rows");
    kiln_status st = check_extents(v, 2);
    if (!st) *out = input(b, KILN_ZOO_SHAPE(v[0], v[1]));
    return st;
}

kiln_status kiln_zoo_workload_softmax(builder *b, kiln_str rest, value *out) {
    kiln_status st = rows(b, rest, out);
    if (!st) *out = kiln_zoo_softmax(b, *out);
    return st;
}

kiln_status kiln_zoo_workload_layer_norm(builder *b, kiln_str rest, value *out) {
    kiln_status st = rows(b, rest, out);
    if (!st) *out = kiln_zoo_layer_norm(b, *out);
    return st;
}

kiln_status kiln_zoo_workload_attention(builder *b, kiln_str rest, value *out) {
    static const int64_t across[] = {0, 1, 3, 2};
    int64_t v[3];
    if (!parse_numbers(rest, 'x', v, 3)) return KILN_ERROR(INVALID_ARGUMENT, "no such attention");
    kiln_status st = check_extents(v, 3);
    if (st) return st;
    const value x = input(b, KILN_ZOO_SHAPE(1, v[0], v[1], v[2]));
    const value scale = kiln_zoo_scalar(b, (float)(1 / sqrt((double)v[2])));
    value score = kiln_zoo_matmul(b, x, kiln_zoo_transpose(b, x, across));
    score = kiln_zoo_binary(b, "Mul", score, scale);
    *out = kiln_zoo_matmul(b, kiln_zoo_softmax(b, score), x);
    return KILN_OK;
}

void kiln_zoo_list_convs(kiln_strbuf *out) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(conv_table); i++) {
        const int64_t *v = conv_table[i].v;
        kiln_strbuf_printf(out, "conv:%-4s = conv:%lld", conv_table[i].name, (long long)v[IC]);
        for (unsigned k = IC + 1; k < CONV_FIELDS; k++)
            kiln_strbuf_printf(out, ",%lld", (long long)v[k]);
        kiln_strbuf_text(out, "\n");
    }
}
