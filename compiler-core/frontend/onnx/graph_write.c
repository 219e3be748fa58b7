#include "compiler-core/frontend/onnx/graph_write.h"

#include <string.h>

#include "base/macros.h"
#include "base/map.h"
#include "compiler-core/frontend/onnx/dtype.h"
#include "compiler-core/frontend/onnx/proto.h"
#include "compiler-core/graph/op.h"

#define OPSET 20
#define IR_VERSION 9
#define SLOTS_MAX 8u /* inputs of an ONNX node that are attributes here */

typedef struct writer {
    kiln_graph *graph;
    kiln_arena *arena;
    kiln_map node_name; /* names used so far */
    Onnx__GraphProto out;
    KILN_VEC(Onnx__NodeProto *) node;
    KILN_VEC(Onnx__TensorProto *) initializer;
    KILN_VEC(Onnx__ValueInfoProto *) input, output;
} writer;

/* ---- values ---------------------------------------------------------------------------------- */

static char *copy_text(writer *w, kiln_str text) { return kiln_str_dup(w->arena, text); }

static char *name_of(writer *w, kiln_value value) {
    return copy_text(w, value ? w->graph->value.data[value].name : KILN_STR(""));
}

static Onnx__ValueInfoProto *port_of(writer *w, kiln_value value) {
    const kiln_value_info *from = &w->graph->value.data[value];
    Onnx__ValueInfoProto *info = KILN_ARENA_NEW(w->arena, Onnx__ValueInfoProto);
    Onnx__TypeProto *type = KILN_ARENA_NEW(w->arena, Onnx__TypeProto);
    Onnx__TypeProto__Tensor *tensor = KILN_ARENA_NEW(w->arena, Onnx__TypeProto__Tensor);
    Onnx__TensorShapeProto *shape = KILN_ARENA_NEW(w->arena, Onnx__TensorShapeProto);
    onnx__value_info_proto__init(info);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    onnx__tensor_shape_proto__init(shape);
    shape->n_dim = from->shape.rank;
    shape->dim = KILN_ARENA_ARRAY(w->arena, Onnx__TensorShapeProto__Dimension *, shape->n_dim);
    for (uint32_t d = 0; d < from->shape.rank; d++) {
        Onnx__TensorShapeProto__Dimension *dim =
            KILN_ARENA_NEW(w->arena, Onnx__TensorShapeProto__Dimension);
        onnx__tensor_shape_proto__dimension__init(dim);
        dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        dim->dim_value = from->shape.dim[d];
        shape->dim[d] = dim;
    }
    tensor->has_elem_type = true;
    tensor->elem_type = kiln_onnx_type_number(from->dtype, 0);
    tensor->shape = shape;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    info->name = name_of(w, value);
    info->type = type;
    return info;
}

static void add_constant(writer *w, char *name, const kiln_tensor *from) {
    size_t size = kiln_tensor_bytes(from);
    uint8_t *data = from->data;
    const uint32_t bits = kiln_onnx_dtype_bits(from->dtype);
    Onnx__TensorProto *tensor = KILN_ARENA_NEW(w->arena, Onnx__TensorProto);
    if (bits) {
        data = kiln_arena_alloc(w->arena, kiln_onnx_packed_bytes(size, bits));
        kiln_onnx_pack(from->data, size, bits, data);
        size = kiln_onnx_packed_bytes(size, bits);
    }
    onnx__tensor_proto__init(tensor);
    tensor->name = name;
    tensor->n_dims = from->shape.rank;
    tensor->dims =
        kiln_arena_copy(w->arena, from->shape.dim, from->shape.rank * sizeof *tensor->dims);
    tensor->has_data_type = true;
    tensor->data_type = kiln_onnx_type_number(from->dtype, 0);
    tensor->has_raw_data = true;
    tensor->raw_data = (ProtobufCBinaryData){size, data};
    kiln_vec_push_in(w->arena, &w->initializer, tensor);
}

/* An attribute as the one-dimensional tensor that ONNX uses for it. */
static kiln_tensor tensor_of(writer *w, const kiln_attr *a) {
    const bool real = a->kind == KILN_ATTR_FLOATS || a->kind == KILN_ATTR_FLOAT,
               list = a->kind == KILN_ATTR_FLOATS || a->kind == KILN_ATTR_INTS;
    const kiln_shape shape = {1, {list ? a->count : 1}};
    const kiln_tensor tensor = kiln_tensor_create(w->arena, real ? KILN_F32 : KILN_I64, &shape);
    for (uint32_t i = 0; i < shape.dim[0]; i++) {
        if (real)
            kiln_dtype_store_f64(KILN_F32, tensor.data, i, list ? a->floats[i] : a->f);
        else
            ((int64_t *)tensor.data)[i] = list ? a->ints[i] : a->i;
    }
    return tensor;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static Onnx__AttributeProto *attribute_of(writer *w, const kiln_attr *a) {
    Onnx__AttributeProto *to = KILN_ARENA_NEW(w->arena, Onnx__AttributeProto);
    onnx__attribute_proto__init(to);
    to->name = copy_text(w, a->name);
    to->has_type = true;
    switch (a->kind) {
    case KILN_ATTR_INT:
        to->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
        to->has_i = true;
        to->i = a->i;
        break;
    case KILN_ATTR_FLOAT:
        to->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
        to->has_f = true;
        to->f = (float)a->f;
        break;
    case KILN_ATTR_TEXT:
        to->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
        to->has_s = true;
        to->s = (ProtobufCBinaryData){a->text.size, (uint8_t *)copy_text(w, a->text)};
        break;
    case KILN_ATTR_INTS:
        to->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
        to->n_ints = a->count;
        to->ints = kiln_arena_copy(w->arena, a->ints, a->count * sizeof *a->ints);
        break;
    case KILN_ATTR_FLOATS:
        to->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
        to->n_floats = a->count;
        to->floats = KILN_ARENA_ARRAY(w->arena, float, a->count);
        for (uint32_t i = 0; i < a->count; i++) to->floats[i] = (float)a->floats[i];
        break;
    case KILN_ATTR_KIND_COUNT: break;
    }
    return to;
}

/* Inputs of the ONNX node that the words "#1:axes" of its row take from attributes. */
typedef struct slots {
    uint32_t count;
    int64_t place[SLOTS_MAX];
    kiln_str name[SLOTS_MAX];
} slots;

static slots slots_of(const kiln_import_row *row) {
    slots s = {0};
    kiln_str rest = kiln_str_from(row->spec);
    while (rest.size) {
        kiln_str word = kiln_str_cut(&rest, ' ');
        if (!kiln_str_starts(word, "#") || s.count == SLOTS_MAX) continue;
        s.name[s.count] = kiln_str_slice(word, 1, word.size);
        const kiln_str place = kiln_str_cut(&s.name[s.count], ':');
        if (kiln_str_to_i64(place, &s.place[s.count])) s.count++;
    }
    return s;
}

static int64_t slot_at(const slots *s, int64_t place) {
    for (uint32_t i = 0; i < s->count; i++)
        if (s->place[i] == place) return i;
    return -1;
}

/* A new name: results have other names. */
static char *constant_name(writer *w, const kiln_node_info *node, kiln_str attribute) {
    char *name = kiln_arena_printf(w->arena, "%s.%.*s", name_of(w, node->output[0]),
                                   KILN_STR_ARG(attribute));
    while (kiln_graph_find_value(w->graph, kiln_str_from(name)))
        name = kiln_arena_printf(w->arena, "%s_", name);
    return name;
}

static void write_inputs(writer *w, const kiln_node_info *from, const slots *s,
                         Onnx__NodeProto *to) {
    const uint32_t most = from->input_count + SLOTS_MAX + 1;
    uint32_t next = 0;
    to->input = KILN_ARENA_ARRAY(w->arena, char *, most);
    for (uint32_t place = 0; place < most; place++) {
        const int64_t slot = slot_at(s, place);
        const kiln_attr *a =
            slot < 0 ? NULL : kiln_node_attr(from, kiln_str_dup(w->arena, s->name[slot]));
        to->input[place] = copy_text(w, KILN_STR(""));
        if (a) {
            const kiln_tensor data = tensor_of(w, a);
            to->input[place] = constant_name(w, from, a->name);
            add_constant(w, to->input[place], &data);
        } else if (slot < 0 && next < from->input_count) {
            to->input[place] = name_of(w, from->input[next++]);
        }
        if (*to->input[place]) to->n_input = place + 1;
    }
}

static void write_attributes(writer *w, const kiln_node_info *from, const slots *s,
                             Onnx__NodeProto *to) {
    to->attribute = KILN_ARENA_ARRAY(w->arena, Onnx__AttributeProto *, from->attr_count);
    for (uint32_t i = 0; i < from->attr_count; i++) {
        kiln_attr a = from->attr[i];
        bool is_input = false;
        for (uint32_t k = 0; k < s->count; k++) is_input |= kiln_str_equal(s->name[k], a.name);
        if (is_input) continue;
        kiln_dtype dtype;
        if (from->op == KILN_OP_CAST && kiln_str_is(a.name, "to") &&
            kiln_dtype_find(a.text, &dtype))
            a = kiln_attr_int("to", kiln_onnx_type_number(dtype, 0));
        to->attribute[to->n_attribute++] = attribute_of(w, &a);
    }
}

static kiln_status write_node(writer *w, kiln_node n) {
    const kiln_node_info *from = &w->graph->node.data[n];
    const kiln_import_row *row = kiln_import_row_of(from->op, OPSET);
    if (!row)
        return KILN_ERROR(UNIMPLEMENTED, "node \"%.*s\": %s has no form in ONNX here",
                          KILN_STR_ARG(from->name), kiln_op_get(from->op)->name);
    const slots s = slots_of(row);
    Onnx__NodeProto *to = KILN_ARENA_NEW(w->arena, Onnx__NodeProto);
    onnx__node_proto__init(to);
    to->op_type = copy_text(w, kiln_str_from(row->name));
    /* Some readers of ONNX require unique names of nodes; results have other names. */
    to->name = kiln_map_put(&w->node_name, from->name, 0)
                   ? copy_text(w, from->name)
                   : kiln_arena_printf(w->arena, "%s.node", name_of(w, from->output[0]));
    write_inputs(w, from, &s, to);
    write_attributes(w, from, &s, to);
    to->n_output = from->output_count;
    to->output = KILN_ARENA_ARRAY(w->arena, char *, from->output_count);
    for (uint32_t i = 0; i < from->output_count; i++) to->output[i] = name_of(w, from->output[i]);
    kiln_vec_push_in(w->arena, &w->node, to);
    return KILN_OK;
}

/* ---- constants --------------------------------------------------------------------------------
 */

static bool is_of_constants(const kiln_graph *graph, const kiln_node_info *node) {
    bool all = node->op != KILN_OP_NONE && node->input_count > 0 && node->output_count == 1;
    for (uint32_t i = 0; all && i < node->input_count; i++)
        all = !node->input[i] || kiln_value_is_constant(graph, node->input[i]);
    return all;
}

/* Folds nodes on constants, such as weights in another order than the file's. Nodes that take too
 * long to compute are kept. */
static void fold_constants(kiln_graph *graph) {
    kiln_evaluation evaluation;
    kiln_evaluation_init(&evaluation, kiln_effort_for(graph->given_bytes));
    for (kiln_node n = 1; n < graph->node.count; n++) {
        if (!is_of_constants(graph, &graph->node.data[n])) continue;
        const kiln_value value = graph->node.data[n].output[0];
        kiln_tensor known;
        kiln_status st = kiln_value_evaluate(graph, value, &evaluation, &known);
        if (!st) {
            kiln_graph_remove_node(graph, n);
            kiln_graph_set_constant(graph, value, &known);
        }
        kiln_status_free(st); /* takes too long */
    }
    kiln_evaluation_deinit(&evaluation);
}

/* ---- the model ------------------------------------------------------------------------------- */

static kiln_status pack(writer *w, kiln_str *out_bytes) {
    Onnx__OperatorSetIdProto set, *const sets[] = {&set};
    Onnx__ModelProto model;
    onnx__operator_set_id_proto__init(&set);
    onnx__model_proto__init(&model);
    w->out.n_node = w->node.count;
    w->out.node = w->node.data;
    w->out.n_initializer = w->initializer.count;
    w->out.initializer = w->initializer.data;
    w->out.n_input = w->input.count;
    w->out.input = w->input.data;
    w->out.n_output = w->output.count;
    w->out.output = w->output.data;
    set.domain = copy_text(w, KILN_STR(""));
    set.has_version = model.has_ir_version = true;
    set.version = OPSET;
    model.ir_version = IR_VERSION;
    model.n_opset_import = 1;
    model.opset_import = (Onnx__OperatorSetIdProto **)(uintptr_t)sets;
    model.graph = &w->out;
    const size_t size = onnx__model_proto__get_packed_size(&model);
    if (size >= KILN_MODEL_FILE_BYTES_MAX)
        return KILN_ERROR(OUT_OF_RANGE, "as ONNX it has %zu bytes, a model has at most %zu", size,
                          KILN_MODEL_FILE_BYTES_MAX);
    uint8_t *bytes = kiln_arena_alloc(w->arena, size);
    onnx__model_proto__pack(&model, bytes);
    *out_bytes = (kiln_str){(const char *)bytes, size};
    return KILN_OK;
}

kiln_status kiln_onnx_of_graph(kiln_graph *graph, kiln_arena *arena, kiln_str *out_bytes) {
    writer w = {.graph = graph, .arena = arena};
    kiln_status st = KILN_OK;
    kiln_map_init(&w.node_name);
    fold_constants(graph);
    onnx__graph_proto__init(&w.out);
    w.out.name = copy_text(&w, graph->name.size ? graph->name : KILN_STR("main"));
    for (kiln_value v = 1; v < graph->value.count; v++) {
        if (!kiln_value_is_constant(graph, v)) continue;
        const kiln_tensor data = kiln_value_tensor(graph, v);
        add_constant(&w, name_of(&w, v), &data);
    }
    for (uint32_t i = 0; i < graph->input.count; i++)
        kiln_vec_push_in(arena, &w.input, port_of(&w, graph->input.data[i]));
    for (uint32_t i = 0; i < graph->output.count; i++)
        kiln_vec_push_in(arena, &w.output, port_of(&w, graph->output.data[i]));
    for (kiln_node n = 1; !st && n < graph->node.count; n++)
        if (graph->node.data[n].op != KILN_OP_NONE) st = write_node(&w, n);
    kiln_map_deinit(&w.node_name);
    return st ? st : pack(&w, out_bytes);
}
