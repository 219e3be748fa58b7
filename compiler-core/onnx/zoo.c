#include "compiler-core/onnx/zoo.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/rand.h"
#include "onnx.pb-c.h"

#define OPSET 13
#define IR_VERSION 8
#define EXTENT_MAX 65536

/* ---- the table ------------------------------------------------------------------------------- */

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

/* ---- building messages ----------------------------------------------------------------------- */

/* A model under construction: one node, one input, one output. Protobuf structs in an arena; only
 * read by pack. */
typedef struct builder {
    kiln_arena *arena;
    kiln_rand rand;
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    Onnx__OperatorSetIdProto opset;
    Onnx__NodeProto node;
} builder;

static char *text(builder *b, const char *value) {
    return kiln_str_dup(b->arena, kiln_str_from(value));
}

static void push_pointer(builder *b, size_t *count, void ***list, void *item) {
    void **grown = KILN_ARENA_ARRAY(b->arena, void *, *count + 1);
    if (*count) memcpy(grown, *list, *count * sizeof *grown);
    grown[(*count)++] = item;
    *list = grown;
}
#define PUSH(b, message, member, item) \
    push_pointer(b, &(message)->n_##member, (void ***)&(message)->member, item)

static Onnx__ValueInfoProto *value_info(builder *b, const char *name, const int64_t *dim,
                                        size_t rank) {
    Onnx__ValueInfoProto *info = KILN_ARENA_NEW(b->arena, Onnx__ValueInfoProto);
    Onnx__TypeProto *type = KILN_ARENA_NEW(b->arena, Onnx__TypeProto);
    Onnx__TypeProto__Tensor *tensor = KILN_ARENA_NEW(b->arena, Onnx__TypeProto__Tensor);
    Onnx__TensorShapeProto *shape = KILN_ARENA_NEW(b->arena, Onnx__TensorShapeProto);
    onnx__value_info_proto__init(info);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    onnx__tensor_shape_proto__init(shape);
    for (size_t i = 0; i < rank; i++) {
        Onnx__TensorShapeProto__Dimension *d =
            KILN_ARENA_NEW(b->arena, Onnx__TensorShapeProto__Dimension);
        onnx__tensor_shape_proto__dimension__init(d);
        d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        d->dim_value = dim[i];
        PUSH(b, shape, dim, d);
    }
    tensor->has_elem_type = true;
    tensor->elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    tensor->shape = shape;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    info->name = text(b, name);
    info->type = type;
    return info;
}

/* Weights after He et al. 2015: normal, variance 2 / fan_in. */
static void add_weights(builder *b, const char *name, const int64_t *dim, size_t rank,
                        int64_t fan_in) {
    Onnx__TensorProto *tensor = KILN_ARENA_NEW(b->arena, Onnx__TensorProto);
    onnx__tensor_proto__init(tensor);
    size_t count = 1;
    for (size_t i = 0; i < rank; i++) count *= (size_t)dim[i];
    float *data = KILN_ARENA_ARRAY(b->arena, float, count);
    double deviation = sqrt(2.0 / (double)fan_in);
    for (size_t i = 0; i < count; i++) data[i] = (float)(deviation * kiln_rand_normal(&b->rand));
    tensor->name = text(b, name);
    tensor->n_dims = rank;
    tensor->dims = kiln_arena_copy(b->arena, dim, rank * sizeof *dim);
    tensor->has_data_type = true;
    tensor->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    tensor->has_raw_data = true;
    tensor->raw_data = (ProtobufCBinaryData){count * sizeof *data, (uint8_t *)data};
    PUSH(b, &b->graph, initializer, tensor);
    PUSH(b, &b->node, input, text(b, name));
}

static void add_ints(builder *b, const char *name, const int64_t *value, size_t count) {
    Onnx__AttributeProto *attribute = KILN_ARENA_NEW(b->arena, Onnx__AttributeProto);
    onnx__attribute_proto__init(attribute);
    attribute->name = text(b, name);
    attribute->has_type = true;
    attribute->type = count == 1 && strcmp(name, "group") == 0
                          ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT
                          : ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
    if (attribute->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT) {
        attribute->has_i = true;
        attribute->i = value[0];
    } else {
        attribute->n_ints = count;
        attribute->ints = kiln_arena_copy(b->arena, value, count * sizeof *value);
    }
    PUSH(b, &b->node, attribute, attribute);
}

static void begin(builder *b, kiln_arena *arena, uint64_t seed, const char *op) {
    *b = (builder){.arena = arena};
    kiln_rand_init(&b->rand, seed);
    onnx__model_proto__init(&b->model);
    onnx__graph_proto__init(&b->graph);
    onnx__operator_set_id_proto__init(&b->opset);
    onnx__node_proto__init(&b->node);
    b->model.has_ir_version = true;
    b->model.ir_version = IR_VERSION;
    b->model.producer_name = text(b, "kiln zoo");
    b->model.graph = &b->graph;
    b->opset.domain = text(b, "");
    b->opset.has_version = true;
    b->opset.version = OPSET;
    PUSH(b, &b->model, opset_import, &b->opset);
    b->node.op_type = text(b, op);
    b->node.name = text(b, op);
    PUSH(b, &b->graph, node, &b->node);
}

static void end(builder *b, const char *name, kiln_strbuf *out) {
    b->graph.name = text(b, name);
    PUSH(b, &b->node, output, text(b, "y"));
    size_t size = onnx__model_proto__get_packed_size(&b->model);
    uint8_t *bytes = kiln_arena_alloc(b->arena, size);
    onnx__model_proto__pack(&b->model, bytes);
    kiln_strbuf_append(out, bytes, size);
}

/* ---- entries --------------------------------------------------------------------------------- */

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

static kiln_status build_conv(kiln_str name, const int64_t *v, uint64_t seed, kiln_arena *arena,
                              kiln_strbuf *out) {
    builder b;
    int64_t oh = 0, ow = 0;
    kiln_status st = check_conv(v, &oh, &ow);
    if (st) return st;
    begin(&b, arena, seed, "Conv");
    PUSH(&b, &b.graph, input, value_info(&b, "x", (int64_t[]){1, v[IC], v[H], v[W]}, 4));
    PUSH(&b, &b.graph, output, value_info(&b, "y", (int64_t[]){1, v[OC], oh, ow}, 4));
    PUSH(&b, &b.node, input, text(&b, "x"));
    add_weights(&b, "w", (int64_t[]){v[OC], v[IC] / v[G], v[KH], v[KW]}, 4,
                v[IC] / v[G] * v[KH] * v[KW]);
    add_ints(&b, "kernel_shape", &v[KH], 2);
    add_ints(&b, "strides", &v[SH], 2);
    add_ints(&b, "pads", &v[PT], 4);
    add_ints(&b, "dilations", &v[DH], 2);
    add_ints(&b, "group", &v[G], 1);
    end(&b, kiln_str_dup(arena, name), out);
    return KILN_OK;
}

static kiln_status build_gemm(kiln_str name, const int64_t *v, uint64_t seed, kiln_arena *arena,
                              kiln_strbuf *out) {
    builder b;
    for (unsigned i = 0; i < 3; i++)
        if (v[i] < 1 || v[i] > EXTENT_MAX)
            return KILN_ERROR(INVALID_ARGUMENT, "extents are 1 to %d", EXTENT_MAX);
    begin(&b, arena, seed, "MatMul");
    PUSH(&b, &b.graph, input, value_info(&b, "x", (int64_t[]){v[0], v[2]}, 2));
    PUSH(&b, &b.graph, output, value_info(&b, "y", (int64_t[]){v[0], v[1]}, 2));
    PUSH(&b, &b.node, input, text(&b, "x"));
    add_weights(&b, "w", (int64_t[]){v[2], v[1]}, 2, v[2]);
    end(&b, kiln_str_dup(arena, name), out);
    return KILN_OK;
}

/* Exactly `count` numbers divided by `separator`. */
static bool parse_numbers(kiln_str s, char separator, int64_t *out, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        if (s.size == 0 || !kiln_str_to_i64(kiln_str_cut(&s, separator), &out[i])) return false;
    }
    return s.size == 0;
}

static kiln_status find_entry(kiln_str name, uint64_t seed, kiln_arena *arena, kiln_strbuf *out) {
    int64_t v[CONV_FIELDS];
    kiln_str rest = name, kind = kiln_str_cut(&rest, ':');
    if (kiln_str_is(kind, "conv")) {
        for (size_t i = 0; i < KILN_ARRAY_COUNT(conv_table); i++)
            if (kiln_str_is(rest, conv_table[i].name))
                return build_conv(name, conv_table[i].v, seed, arena, out);
        if (parse_numbers(rest, ',', v, CONV_FIELDS)) return build_conv(name, v, seed, arena, out);
    }
    if (kiln_str_is(kind, "gemm") && parse_numbers(rest, 'x', v, 3))
        return build_gemm(name, v, seed, arena, out);
    return KILN_ERROR(INVALID_ARGUMENT,
                      "the zoo has no such entry; it has conv:C1 to conv:C12, conv:D1 to conv:D9, "
                      "conv:IC,H,W,OC,KH,KW,SH,SW,PT,PL,PB,PR,DH,DW,G and gemm:MxNxK");
}

kiln_status kiln_zoo_build(kiln_str name, uint64_t seed, kiln_strbuf *out) {
    kiln_arena arena;
    kiln_arena_init(&arena, (size_t)1 << 20);
    kiln_status st = find_entry(name, seed, &arena, out);
    kiln_arena_deinit(&arena);
    return kiln_status_note(st, "%.*s", KILN_STR_ARG(name));
}

void kiln_zoo_list(kiln_strbuf *out) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(conv_table); i++) {
        const int64_t *v = conv_table[i].v;
        kiln_strbuf_printf(out,
                           "conv:%-4s %lldx%lld, %lld -> %lld channels, %lldx%lld, stride %lld%s\n",
                           conv_table[i].name, (long long)v[H], (long long)v[W], (long long)v[IC],
                           (long long)v[OC], (long long)v[KH], (long long)v[KW], (long long)v[SH],
                           v[G] > 1 ? ", depthwise" : "");
    }
    kiln_strbuf_text(out, "conv:IC,H,W,OC,KH,KW,SH,SW,PT,PL,PB,PR,DH,DW,G  any other convolution\n"
                          "gemm:MxNxK  matrix product of an MxK input with KxN weights\n");
}
