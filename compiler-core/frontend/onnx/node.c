/* One ONNX node to one graph node: its attributes and inputs, by the words of nodes.def. */
#include <string.h>

#include "compiler-core/frontend/onnx/proto.h"
#include "compiler-core/graph/attr.h"
#include "compiler-core/graph/op.h"

/* ---- attributes ------------------------------------------------------------------------------ */

const Onnx__AttributeProto *kiln_import_attribute(const kiln_importer *im, const char *name) {
    for (size_t i = 0; i < im->node->n_attribute; i++)
        if (im->node->attribute[i]->name && strcmp(im->node->attribute[i]->name, name) == 0)
            return im->node->attribute[i];
    return NULL;
}

/* Old files leave the type out; it follows from the field that is set. */
static Onnx__AttributeProto__AttributeType attribute_type(const Onnx__AttributeProto *a) {
    if (a->has_type && a->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED) return a->type;
    if (a->has_f) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
    if (a->has_i) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    if (a->has_s) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
    if (a->n_floats) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
    if (a->t) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
    return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
}

static double *widen(kiln_importer *im, const float *item, size_t count) {
    double *wide = KILN_ARENA_ARRAY(im->graph->arena, double, count);
    for (size_t i = 0; i < count; i++) wide[i] = (double)item[i];
    return wide;
}

static kiln_status convert_attribute(kiln_importer *im, const Onnx__AttributeProto *a,
                                     kiln_attr *out_attr) {
    static const int64_t no_ints = 0;
    kiln_attr attr = {.name = kiln_proto_text(a->name)};
    if (a->ref_attr_name && *a->ref_attr_name)
        return KILN_ERROR(UNIMPLEMENTED, "attribute %s: references to functions' attributes",
                          a->name);
    if (a->n_ints > KILN_ATTR_ITEMS_MAX || a->n_floats > KILN_ATTR_ITEMS_MAX)
        return KILN_ERROR(OUT_OF_RANGE, "attribute %s has too many items", a->name);
    switch ((int)attribute_type(a)) {
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT:
        attr.kind = KILN_ATTR_INT;
        attr.i = a->i;
        break;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT:
        attr.kind = KILN_ATTR_FLOAT;
        attr.f = (double)a->f;
        break;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING:
        attr.kind = KILN_ATTR_TEXT;
        attr.text = kiln_proto_bytes(a->s);
        break;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
        attr.kind = KILN_ATTR_INTS;
        attr.count = (uint32_t)a->n_ints;
        attr.ints = a->n_ints ? a->ints : &no_ints;
        break;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS:
        attr.kind = KILN_ATTR_FLOATS;
        attr.count = (uint32_t)a->n_floats;
        attr.floats = widen(im, a->floats, a->n_floats);
        break;
    default:
        return KILN_ERROR(UNIMPLEMENTED, "attribute %s: its kind (tensor, graph, text list, ...)",
                          a->name);
    }
    *out_attr = attr;
    return KILN_OK;
}

/* ---- the words of nodes.def ------------------------------------------------------------------ */

/* "#1:axes" */
static kiln_status value_to_attribute(kiln_importer *im, kiln_str word, kiln_node node,
                                      kiln_op op) {
    int64_t index = 0;
    kiln_str name = word, number = kiln_str_cut(&name, ':');
    kiln_attr attr, expected;
    bool has_default;
    if (!kiln_str_to_i64(number, &index) || !kiln_attr_spec_find(op, name, &expected, &has_default))
        return KILN_ERROR(INTERNAL, "nodes.def: bad word");
    if ((size_t)index >= im->node->n_input || !*im->node->input[index]) return KILN_OK;
    if (kiln_import_is_poison(im, im->node->input[index])) return KILN_OK;
    kiln_tensor tensor;
    kiln_status st = kiln_import_demand(im, (uint32_t)index, &tensor);
    if (st) return kiln_status_note(st, "%.*s", KILN_STR_ARG(name));
    int64_t count = kiln_shape_count(&tensor.shape);
    if (count > KILN_ATTR_ITEMS_MAX || tensor.shape.rank > 1)
        return KILN_ERROR(INVALID_ARGUMENT, "input %lld must be a short vector", (long long)index);
    attr = (kiln_attr){.name = name, .kind = expected.kind, .count = (uint32_t)count};
    /* Resize: an empty roi, scales or sizes means that it is not given. */
    if (count == 0 && op == KILN_OP_RESIZE) return KILN_OK;
    int64_t *ints = KILN_ARENA_ARRAY(im->graph->arena, int64_t, count + 1);
    double *floats = KILN_ARENA_ARRAY(im->graph->arena, double, count + 1);
    for (int64_t i = 0; i < count; i++) {
        ints[i] = kiln_dtype_load_i64(tensor.dtype, tensor.data, (size_t)i);
        floats[i] = kiln_dtype_load_f64(tensor.dtype, tensor.data, (size_t)i);
    }
    attr.ints = ints;
    attr.floats = floats;
    kiln_graph_set_attr(im->graph, node, &attr);
    return KILN_OK;
}

/* "!training_mode=0" */
static kiln_status check_required(const kiln_importer *im, kiln_str word) {
    kiln_str value = word, name = kiln_str_cut(&value, '=');
    int64_t wanted = 0;
    if (!kiln_str_to_i64(value, &wanted)) return KILN_ERROR(INTERNAL, "nodes.def: bad word");
    for (size_t i = 0; i < im->node->n_attribute; i++) {
        const Onnx__AttributeProto *a = im->node->attribute[i];
        if (kiln_str_equal(kiln_proto_text(a->name), name) && a->i != wanted)
            return KILN_ERROR(UNIMPLEMENTED, "attribute %s: %lld, only %lld is supported", a->name,
                              (long long)a->i, (long long)wanted);
    }
    return KILN_OK;
}

/* "axis=1", unless the node has the attribute. */
static kiln_status set_preset(kiln_importer *im, kiln_str word, kiln_node node, kiln_op op) {
    kiln_str value = word, name = kiln_str_cut(&value, '=');
    kiln_attr attr;
    bool has_default, good = kiln_attr_spec_find(op, name, &attr, &has_default);
    attr.text = value;
    if (good && attr.kind == KILN_ATTR_INT) good = kiln_str_to_i64(value, &attr.i);
    if (good && attr.kind == KILN_ATTR_FLOAT) good = kiln_str_to_f64(value, &attr.f);
    if (!good) return KILN_ERROR(INTERNAL, "nodes.def: bad word");
    kiln_graph_set_attr(im->graph, node, &attr);
    return KILN_OK;
}

/* Use of a node's attribute in the import. */
typedef enum attribute_use { USE_ATTRIBUTE, USE_NOTHING, USE_INPUT } attribute_use;

static attribute_use use_of(const kiln_import_row *row, kiln_str name) {
    kiln_str spec = kiln_str_from(row->spec);
    if (kiln_str_is(name, "consumed_inputs")) return USE_NOTHING; /* a hint of the oldest opsets */
    while (spec.size) {
        kiln_str word = kiln_str_cut(&spec, ' ');
        char kind = word.size ? word.data[0] : ' ';
        kiln_str rest = kiln_str_slice(word, 1, word.size), before = rest;
        if (kind == '-' && kiln_str_equal(rest, name)) return USE_NOTHING;
        if (kind == '!' && kiln_str_equal(kiln_str_cut(&before, '='), name)) return USE_NOTHING;
        if (kind == '@' && kiln_str_equal(kiln_str_cut(&before, ':'), name)) return USE_INPUT;
    }
    return USE_ATTRIBUTE;
}

static bool becomes_attribute(const kiln_import_row *row, uint32_t index) {
    kiln_str spec = kiln_str_from(row->spec);
    while (spec.size) {
        kiln_str word = kiln_str_cut(&spec, ' ');
        if (word.size < 2 || word.data[0] != '#') continue;
        int64_t number;
        kiln_str rest = kiln_str_slice(word, 1, word.size);
        if (kiln_str_to_i64(kiln_str_cut(&rest, ':'), &number) && number == (int64_t)index)
            return true;
    }
    return false;
}

/* Attributes of the node, checked against ops.def one by one so that all errors are listed.
 */
static kiln_status set_attributes(kiln_importer *im, const kiln_import_row *row, kiln_node node) {
    for (size_t i = 0; i < im->node->n_attribute; i++) {
        const Onnx__AttributeProto *a = im->node->attribute[i];
        kiln_attr attr, expected;
        bool has_default;
        if (!a->name) return KILN_ERROR(INVALID_ARGUMENT, "an attribute has no name");
        if (use_of(row, kiln_proto_text(a->name)) != USE_ATTRIBUTE) continue;
        kiln_status st =
            kiln_attr_spec_find(row->op, kiln_proto_text(a->name), &expected, &has_default)
                ? convert_attribute(im, a, &attr)
                : KILN_ERROR(UNIMPLEMENTED, "attribute %s", a->name);
        if (!st) {
            kiln_graph_set_attr(im->graph, node, &attr);
        } else if (kiln_status_code(st) == KILN_UNIMPLEMENTED) {
            kiln_import_add_problem(im, st);
        } else {
            return st;
        }
    }
    return KILN_OK;
}

static kiln_status apply_spec(kiln_importer *im, const kiln_import_row *row, kiln_node node) {
    kiln_str spec = kiln_str_from(row->spec);
    kiln_status st = KILN_OK;
    while (!st && spec.size) {
        kiln_str word = kiln_str_cut(&spec, ' ');
        kiln_str rest = kiln_str_slice(word, 1, word.size);
        switch (word.data[0]) {
        case '-':
        case '~':
        case '@': break;
        case '#': st = value_to_attribute(im, rest, node, row->op); break;
        case '!': st = check_required(im, rest); break;
        default: st = set_preset(im, word, node, row->op);
        }
    }
    return st;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

kiln_status kiln_import_emit(kiln_importer *im, const kiln_import_row *row, const kiln_value *input,
                             uint32_t input_count) {
    uint32_t outputs = (uint32_t)im->node->n_output;
    while (outputs > 1 && !*im->node->output[outputs - 1]) outputs--;
    if (!*im->node->output[0]) return KILN_ERROR(UNIMPLEMENTED, "its first output is left out");
    if (outputs > KILN_NODE_OPERANDS_MAX || im->graph->node.count == KILN_GRAPH_NODES_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "so many nodes or outputs");
    uint8_t most = kiln_op_get(row->op)->outputs_max;
    if (most != KILN_OP_MANY && outputs > most) return KILN_ERROR(UNIMPLEMENTED, "output %u", most);
    kiln_node node = kiln_graph_add_node(
        im->graph, row->op, kiln_str_from(kiln_import_node_name(im->node)), input_count, outputs);
    for (uint32_t i = 0; i < input_count; i++) kiln_graph_set_input(im->graph, node, i, input[i]);
    kiln_status st = apply_spec(im, row, node);
    if (!st) st = set_attributes(im, row, node);
    if (st || kiln_import_reads_poison(im)) {
        kiln_graph_remove_node(im->graph, node);
        return st;
    }
    for (uint32_t i = 0; i < outputs; i++) {
        if (!*im->node->output[i]) continue;
        kiln_value value = kiln_graph_add_named_value(im->graph, kiln_import_output_name(im, i));
        kiln_graph_set_output(im->graph, node, i, value);
        kiln_import_define(im, i, value);
    }
    return kiln_node_infer(im->graph, node);
}

/* "@min:1": a scalar of input 0's type. */
static kiln_value attribute_to_constant(kiln_importer *im, const Onnx__AttributeProto *a) {
    kiln_value data = kiln_import_input(im, 0);
    if (!data) return 0;
    kiln_tensor scalar =
        kiln_tensor_create(im->graph->arena, im->graph->value.data[data].dtype, &(kiln_shape){0});
    kiln_dtype_store_f64(scalar.dtype, scalar.data, 0, a->has_f ? (double)a->f : (double)a->i);
    return kiln_graph_add_constant(im->graph, kiln_proto_text(a->name), &scalar);
}

kiln_status kiln_import_node(kiln_importer *im) {
    kiln_value input[KILN_NODE_OPERANDS_MAX] = {0};
    uint32_t count = 0;
    const kiln_import_row *row = im->row;
    if (im->node->n_input > KILN_NODE_OPERANDS_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "%zu inputs", im->node->n_input);
    for (uint32_t i = 0; i < im->node->n_input; i++)
        if (!becomes_attribute(row, i)) input[count++] = kiln_import_input(im, i);
    kiln_str spec = kiln_str_from(row->spec);
    while (spec.size) {
        kiln_str word = kiln_str_cut(&spec, ' ');
        if (word.data[0] != '@') continue;
        kiln_str number = kiln_str_slice(word, 1, word.size), name = kiln_str_cut(&number, ':');
        int64_t at = 0;
        const Onnx__AttributeProto *a =
            kiln_import_attribute(im, kiln_str_dup(im->graph->arena, name));
        if (!a || !kiln_str_to_i64(number, &at)) continue;
        input[at] = attribute_to_constant(im, a);
        count = KILN_MAX(count, (uint32_t)at + 1);
    }
    while (count > 0 && !input[count - 1] && !kiln_import_reads_poison(im)) count--;
    return kiln_import_emit(im, row, input, count);
}
