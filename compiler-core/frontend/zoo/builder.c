#include "compiler-core/frontend/zoo/builder.h"

#include <string.h>

#include "base/macros.h"

#define OPSET 17 /* the first with LayerNormalization */
#define IR_VERSION 8

static char *text(kiln_zoo_builder *b, const char *value) {
    return kiln_str_dup(b->arena, kiln_str_from(value));
}

static void push_pointer(kiln_zoo_builder *b, size_t *count, void ***list, void *item) {
    if ((*count & (*count - 1)) == 0) { /* full at every power of two */
        void **grown = KILN_ARENA_ARRAY(b->arena, void *, *count ? 2 * *count : 1);
        if (*count) memcpy(grown, *list, *count * sizeof *grown);
        *list = grown;
    }
    (*list)[(*count)++] = item;
}
#define PUSH(b, message, member, item) \
    push_pointer(b, &(message)->n_##member, (void ***)&(message)->member, item)

void kiln_zoo_begin(kiln_zoo_builder *b, kiln_zoo_form form, kiln_arena *arena, uint64_t seed) {
    *b = (kiln_zoo_builder){.arena = arena, .form = form};
    kiln_rand_init(&b->rand, seed);
    onnx__model_proto__init(&b->model);
    onnx__graph_proto__init(&b->graph);
    onnx__operator_set_id_proto__init(&b->opset);
    b->model.has_ir_version = true;
    b->model.ir_version = IR_VERSION;
    b->model.producer_name = text(b, "kiln zoo");
    b->model.graph = &b->graph;
    b->opset.domain = text(b, "");
    b->opset.has_version = true;
    b->opset.version = OPSET;
    PUSH(b, &b->model, opset_import, &b->opset);
}

static Onnx__ValueInfoProto *value_info(kiln_zoo_builder *b, const char *name, int32_t element_type,
                                        const kiln_zoo_shape *dims) {
    Onnx__ValueInfoProto *info = KILN_ARENA_NEW(b->arena, Onnx__ValueInfoProto);
    Onnx__TypeProto *type = KILN_ARENA_NEW(b->arena, Onnx__TypeProto);
    Onnx__TypeProto__Tensor *tensor = KILN_ARENA_NEW(b->arena, Onnx__TypeProto__Tensor);
    Onnx__TensorShapeProto *shape = KILN_ARENA_NEW(b->arena, Onnx__TensorShapeProto);
    onnx__value_info_proto__init(info);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    onnx__tensor_shape_proto__init(shape);
    for (uint32_t i = 0; i < dims->rank; i++) {
        Onnx__TensorShapeProto__Dimension *d =
            KILN_ARENA_NEW(b->arena, Onnx__TensorShapeProto__Dimension);
        onnx__tensor_shape_proto__dimension__init(d);
        d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        d->dim_value = dims->dim[i];
        PUSH(b, shape, dim, d);
    }
    tensor->has_elem_type = true;
    tensor->elem_type = element_type;
    tensor->shape = shape;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    info->name = text(b, name);
    info->type = type;
    return info;
}

const kiln_zoo_expected *kiln_zoo_expectation(const kiln_zoo_builder *b, kiln_str name) {
    for (uint32_t i = 0; i < b->expected.count; i++)
        if (kiln_str_is(name, b->expected.data[i].name)) return &b->expected.data[i];
    return NULL;
}

static void expect(kiln_zoo_builder *b, const char *name, double power, bool rectified) {
    const kiln_zoo_expected expected = {name, power, rectified};
    kiln_vec_push_in(b->arena, &b->expected, expected);
}

/* Whether the result is rectified: of rectifiers, and of operators that keep elements. */
static bool is_rectified(const kiln_zoo_builder *b, const Onnx__NodeProto *node) {
    static const char *const rectifier[] = {"Relu", "Clip"}, *const keeper[] = {
                                                                 "MaxPool", "GlobalAveragePool",
                                                                 "Flatten", "Concat"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(rectifier); i++)
        if (strcmp(node->op_type, rectifier[i]) == 0) return true;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(keeper); i++) {
        if (strcmp(node->op_type, keeper[i]) != 0) continue;
        const kiln_zoo_expected *from = kiln_zoo_expectation(b, kiln_str_from(node->input[0]));
        return from && from->rectified;
    }
    return false;
}

kiln_zoo_value kiln_zoo_input(kiln_zoo_builder *b, int32_t type, kiln_zoo_shape shape) {
    char *name = text(b, "x");
    PUSH(b, &b->graph, input, value_info(b, "x", type, &shape));
    expect(b, name, 1, false);
    return (kiln_zoo_value){name, shape, 1};
}

kiln_zoo_value kiln_zoo_images(kiln_zoo_builder *b, int32_t type, int64_t channels, int64_t height,
                               int64_t width) {
    b->has_images = true;
    return kiln_zoo_input(b, type, KILN_ZOO_SHAPE(b->form.batch, channels, height, width));
}

int32_t kiln_zoo_float_type(const kiln_zoo_builder *b) {
    if (b->form.floats == KILN_F16) return ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16;
    return b->form.floats == KILN_BF16 ? ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16
                                       : ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
}

void kiln_zoo_end(kiln_zoo_builder *b, kiln_str name, kiln_zoo_value y, kiln_strbuf *out) {
    memcpy(y.name, "y", sizeof "y"); /* all nodes that name the value share this text */
    b->graph.name = kiln_str_dup(b->arena, name);
    PUSH(b, &b->graph, output, value_info(b, y.name, kiln_zoo_float_type(b), &y.shape));
    size_t size = onnx__model_proto__get_packed_size(&b->model);
    uint8_t *bytes = kiln_arena_alloc(b->arena, size);
    onnx__model_proto__pack(&b->model, bytes);
    kiln_strbuf_append(out, bytes, size);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

Onnx__NodeProto *kiln_zoo_node(kiln_zoo_builder *b, const char *op) {
    Onnx__NodeProto *node = KILN_ARENA_NEW(b->arena, Onnx__NodeProto);
    onnx__node_proto__init(node);
    node->op_type = text(b, op);
    node->name = kiln_arena_printf(b->arena, "%s_%zu", op, b->graph.n_node);
    PUSH(b, &b->graph, node, node);
    return node;
}

void kiln_zoo_feed(kiln_zoo_builder *b, Onnx__NodeProto *node, kiln_zoo_value x) {
    PUSH(b, node, input, x.name);
}

Onnx__NodeProto *kiln_zoo_node_on(kiln_zoo_builder *b, const char *op, kiln_zoo_value x) {
    Onnx__NodeProto *node = kiln_zoo_node(b, op);
    kiln_zoo_feed(b, node, x);
    return node;
}

kiln_zoo_value kiln_zoo_result(kiln_zoo_builder *b, Onnx__NodeProto *node, kiln_zoo_shape shape,
                               double power) {
    char *name = kiln_arena_printf(b->arena, "%s:%zu", node->name, node->n_output);
    PUSH(b, node, output, name);
    expect(b, name, power, is_rectified(b, node));
    return (kiln_zoo_value){name, shape, power};
}

static Onnx__AttributeProto *add_attribute(kiln_zoo_builder *b, Onnx__NodeProto *node,
                                           const char *name,
                                           Onnx__AttributeProto__AttributeType type) {
    Onnx__AttributeProto *attribute = KILN_ARENA_NEW(b->arena, Onnx__AttributeProto);
    onnx__attribute_proto__init(attribute);
    attribute->name = text(b, name);
    attribute->has_type = true;
    attribute->type = type;
    PUSH(b, node, attribute, attribute);
    return attribute;
}

void kiln_zoo_set_ints(kiln_zoo_builder *b, Onnx__NodeProto *node, const char *name,
                       const int64_t *value, size_t count) {
    Onnx__AttributeProto *attribute =
        add_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    attribute->n_ints = count;
    attribute->ints = kiln_arena_copy(b->arena, value, count * sizeof *value);
}

void kiln_zoo_set_int(kiln_zoo_builder *b, Onnx__NodeProto *node, const char *name, int64_t value) {
    Onnx__AttributeProto *attribute =
        add_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    attribute->has_i = true;
    attribute->i = value;
}

/* ---- constants ------------------------------------------------------------------------------- */

static void add_constant(kiln_zoo_builder *b, char *name, int32_t type, const kiln_zoo_shape *shape,
                         ProtobufCBinaryData data) {
    Onnx__TensorProto *tensor = KILN_ARENA_NEW(b->arena, Onnx__TensorProto);
    onnx__tensor_proto__init(tensor);
    tensor->name = name;
    tensor->n_dims = shape->rank;
    tensor->dims = kiln_arena_copy(b->arena, shape->dim, shape->rank * sizeof *shape->dim);
    tensor->has_data_type = true;
    tensor->data_type = type;
    tensor->has_raw_data = true;
    tensor->raw_data = data;
    PUSH(b, &b->graph, initializer, tensor);
}

/* Converts to the model's float type. */
static void add_floats(kiln_zoo_builder *b, char *name, const kiln_zoo_shape *shape, float *value,
                       size_t count) {
    uint16_t *half = (uint16_t *)value; /* narrowed in place, from the first on */
    const kiln_dtype type = b->form.floats;
    for (size_t i = 0; type != KILN_F32 && i < count; i++)
        half[i] = type == KILN_F16 ? kiln_f32_to_f16(value[i]) : kiln_f32_to_bf16(value[i]);
    add_constant(b, name, kiln_zoo_float_type(b), shape,
                 (ProtobufCBinaryData){count * kiln_dtype_size(type), (uint8_t *)value});
}

static void add_normal(kiln_zoo_builder *b, char *name, const kiln_zoo_shape *shape, double mean,
                       double deviation) {
    size_t count = 1;
    for (uint32_t i = 0; i < shape->rank; i++) count *= (size_t)shape->dim[i];
    float *data = KILN_ARENA_ARRAY(b->arena, float, count);
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(mean + deviation * kiln_rand_normal(&b->rand));
    add_floats(b, name, shape, data, count);
}

void kiln_zoo_weights(kiln_zoo_builder *b, Onnx__NodeProto *node, const char *suffix,
                      kiln_zoo_shape shape, double mean, double deviation) {
    char *name = kiln_arena_printf(b->arena, "%s.%s", node->name, suffix);
    add_normal(b, name, &shape, mean, deviation);
    PUSH(b, node, input, name);
}

void kiln_zoo_bytes(kiln_zoo_builder *b, Onnx__NodeProto *node, const char *suffix,
                    kiln_zoo_shape shape) {
    size_t count = 1;
    for (uint32_t i = 0; i < shape.rank; i++) count *= (size_t)shape.dim[i];
    uint8_t *data = KILN_ARENA_ARRAY(b->arena, uint8_t, count);
    for (size_t i = 0; i < count; i++) data[i] = (uint8_t)kiln_rand_below(&b->rand, 256);
    char *name = kiln_arena_printf(b->arena, "%s.%s", node->name, suffix);
    add_constant(b, name, ONNX__TENSOR_PROTO__DATA_TYPE__INT8, &shape,
                 (ProtobufCBinaryData){count, data});
    PUSH(b, node, input, name);
}

void kiln_zoo_byte(kiln_zoo_builder *b, Onnx__NodeProto *node, const char *suffix, uint8_t value) {
    kiln_zoo_shape shape = {0};
    char *name = kiln_arena_printf(b->arena, "%s.%s", node->name, suffix);
    add_constant(b, name, ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, &shape,
                 (ProtobufCBinaryData){1, kiln_arena_copy(b->arena, &value, 1)});
    PUSH(b, node, input, name);
}

static char *constant_name(kiln_zoo_builder *b) {
    return kiln_arena_printf(b->arena, "constant_%u", b->constant_count++);
}

kiln_zoo_value kiln_zoo_random(kiln_zoo_builder *b, kiln_zoo_shape shape, double deviation) {
    char *name = constant_name(b);
    add_normal(b, name, &shape, 0, deviation);
    return (kiln_zoo_value){name, shape, deviation * deviation};
}

kiln_zoo_value kiln_zoo_scalar(kiln_zoo_builder *b, float value) {
    kiln_zoo_shape shape = {0};
    char *name = constant_name(b);
    add_floats(b, name, &shape, kiln_arena_copy(b->arena, &value, sizeof value), 1);
    return (kiln_zoo_value){name, shape, (double)value * (double)value};
}

kiln_zoo_value kiln_zoo_integers(kiln_zoo_builder *b, const int64_t *value, size_t count) {
    kiln_zoo_shape shape = KILN_ZOO_SHAPE((int64_t)count);
    size_t size = count * sizeof *value;
    char *name = constant_name(b);
    add_constant(b, name, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, &shape,
                 (ProtobufCBinaryData){size, kiln_arena_copy(b->arena, value, size)});
    return (kiln_zoo_value){name, shape, 0};
}
