#include "compiler-core/frontend/onnx/edit.h"

#include <string.h>

#include "base/macros.h"
#include "compiler-core/frontend/onnx/external.h"

#define IR_VERSION_MIN 4 /* the first whose initialisers need not be inputs */

static const char *text(const char *name) { return name ? name : ""; }

/* ---- reading nodes --------------------------------------------------------------------------- */

const char *kiln_onnx_node_input(const Onnx__NodeProto *node, size_t index) {
    return index < node->n_input ? node->input[index] : "";
}

bool kiln_onnx_node_is(const Onnx__NodeProto *node, const char *op) {
    const char *domain = text(node->domain);
    return (!*domain || strcmp(domain, "ai.onnx") == 0) && strcmp(text(node->op_type), op) == 0;
}

static const Onnx__AttributeProto *attribute(const Onnx__NodeProto *node, const char *name) {
    for (size_t i = 0; i < node->n_attribute; i++)
        if (strcmp(text(node->attribute[i]->name), name) == 0) return node->attribute[i];
    return NULL;
}

int64_t kiln_onnx_node_int(const Onnx__NodeProto *node, const char *name, int64_t otherwise) {
    const Onnx__AttributeProto *a = attribute(node, name);
    return a && a->has_i ? a->i : otherwise;
}

double kiln_onnx_node_float(const Onnx__NodeProto *node, const char *name, double otherwise) {
    const Onnx__AttributeProto *a = attribute(node, name);
    return a && a->has_f ? (double)a->f : otherwise;
}

/* Bodies are nested no deeper than the check of the file allows. */
static void graph_reads(const Onnx__GraphProto *graph, void (*see)(void *context, const char *name),
                        void *context) {
    for (size_t i = 0; i < graph->n_node; i++) {
        for (size_t k = 0; k < graph->node[i]->n_input; k++) see(context, graph->node[i]->input[k]);
        kiln_onnx_node_body_reads(graph->node[i], see, context);
    }
    for (size_t i = 0; i < graph->n_output; i++) see(context, text(graph->output[i]->name));
}

void kiln_onnx_node_body_reads(const Onnx__NodeProto *node,
                               void (*see)(void *context, const char *name), void *context) {
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__AttributeProto *a = node->attribute[i];
        if (a->g) graph_reads(a->g, see, context);
        for (size_t k = 0; k < a->n_graphs; k++) graph_reads(a->graphs[k], see, context);
    }
}

/* ---- names and constants --------------------------------------------------------------------- */

static void take_name(void *context, const char *name) {
    kiln_map_put(context, kiln_str_from(name), 0);
}

static void take_names(kiln_onnx_edit *edit, const Onnx__GraphProto *graph) {
    kiln_map *taken = &edit->taken;
    for (size_t i = 0; i < graph->n_input; i++) take_name(taken, text(graph->input[i]->name));
    for (size_t i = 0; i < graph->n_initializer; i++)
        take_name(taken, text(graph->initializer[i]->name));
    for (size_t i = 0; i < graph->n_node; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        for (size_t k = 0; k < node->n_output; k++) take_name(taken, node->output[k]);
        for (size_t k = 0; k < node->n_attribute; k++) {
            if (node->attribute[k]->g) take_names(edit, node->attribute[k]->g);
            for (size_t g = 0; g < node->attribute[k]->n_graphs; g++)
                take_names(edit, node->attribute[k]->graphs[g]);
        }
    }
}

char *kiln_onnx_edit_name(kiln_onnx_edit *edit, const char *wanted, const char *suffix) {
    char *name = kiln_arena_printf(edit->arena, "%s%s", wanted, suffix);
    while (!kiln_map_put(&edit->taken, kiln_str_from(name), 0))
        name = kiln_arena_printf(edit->arena, "%s_", name);
    return name;
}

/* An input without a name is left out, so it is no constant either. */
static void note_constant(kiln_onnx_edit *edit, const char *name, const Onnx__TensorProto *tensor) {
    if (!*name) return;
    kiln_map_put(&edit->constant, kiln_str_from(name), (uint64_t)(uintptr_t)tensor);
}

bool kiln_onnx_edit_is_constant(const kiln_onnx_edit *edit, const char *name) {
    uint64_t tensor;
    return kiln_map_find(&edit->constant, kiln_str_from(name), &tensor);
}

static const Onnx__TensorProto *find_floats(const kiln_onnx_edit *edit, const char *name) {
    uint64_t tensor;
    if (!kiln_map_find(&edit->constant, kiln_str_from(name), &tensor)) return NULL;
    const Onnx__TensorProto *proto = (const Onnx__TensorProto *)(uintptr_t)tensor;
    return proto->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ? proto : NULL;
}

bool kiln_onnx_edit_has_floats(const kiln_onnx_edit *edit, const char *name,
                               kiln_shape *out_shape) {
    const Onnx__TensorProto *proto = find_floats(edit, name);
    if (!proto || proto->n_dims > KILN_RANK_MAX) return false;
    *out_shape = (kiln_shape){.rank = (uint32_t)proto->n_dims};
    for (size_t d = 0; d < proto->n_dims; d++) {
        if (proto->dims[d] < 1) return false;
        out_shape->dim[d] = proto->dims[d];
    }
    return true;
}

bool kiln_onnx_edit_floats(kiln_onnx_edit *edit, const char *name, kiln_tensor *out_tensor) {
    const Onnx__TensorProto *proto = find_floats(edit, name);
    uint64_t budget_bytes = KILN_TENSOR_BYTES_MAX;
    if (!proto) return false;
    kiln_status st =
        kiln_onnx_tensor(proto, &(kiln_onnx_files){0}, &budget_bytes, edit->arena, out_tensor);
    const bool good = !st;
    kiln_status_free(st); /* the import reports the error */
    return good;
}

static Onnx__TensorProto *make_tensor(kiln_onnx_edit *edit, char *name, const kiln_tensor *from,
                                      uint32_t bits) {
    if (!bits) bits = kiln_onnx_dtype_bits(from->dtype);
    Onnx__TensorProto *tensor = KILN_ARENA_NEW(edit->arena, Onnx__TensorProto);
    const size_t bytes = kiln_tensor_bytes(from),
                 size = bits ? kiln_onnx_packed_bytes(bytes, bits) : bytes;
    uint8_t *data = kiln_arena_alloc(edit->arena, size);
    if (bits)
        kiln_onnx_pack(from->data, bytes, bits, data);
    else if (size)
        memcpy(data, from->data, size);
    onnx__tensor_proto__init(tensor);
    tensor->name = name;
    tensor->n_dims = from->shape.rank;
    tensor->dims =
        kiln_arena_copy(edit->arena, from->shape.dim, from->shape.rank * sizeof *tensor->dims);
    tensor->has_data_type = true;
    tensor->data_type = kiln_onnx_type_number(from->dtype, bits);
    tensor->has_raw_data = true;
    tensor->raw_data = (ProtobufCBinaryData){size, data};
    return tensor;
}

char *kiln_onnx_edit_add_packed(kiln_onnx_edit *edit, const char *wanted, const char *suffix,
                                const kiln_tensor *tensor, uint32_t bits) {
    Onnx__TensorProto *made =
        make_tensor(edit, kiln_onnx_edit_name(edit, wanted, suffix), tensor, bits);
    kiln_vec_push_in(edit->arena, &edit->initializer, made);
    note_constant(edit, made->name, made);
    return made->name;
}

char *kiln_onnx_edit_add_constant(kiln_onnx_edit *edit, const char *wanted, const char *suffix,
                                  const kiln_tensor *tensor) {
    return kiln_onnx_edit_add_packed(edit, wanted, suffix, tensor, 0);
}

/* ---- reading and writing a model --------------------------------------------------- */

static kiln_status take_initializers(kiln_onnx_edit *edit, const kiln_onnx_files *files,
                                     uint64_t memory_bytes) {
    const Onnx__GraphProto *graph = edit->source->graph;
    kiln_status st = KILN_OK;
    for (size_t i = 0; !st && i < graph->n_initializer; i++) {
        Onnx__TensorProto *tensor = graph->initializer[i];
        if (kiln_onnx_is_external(tensor)) {
            kiln_tensor data;
            st =
                kiln_status_note(kiln_onnx_tensor(tensor, files, &memory_bytes, edit->arena, &data),
                                 "initialiser \"%s\"", text(tensor->name));
            if (!st) tensor = make_tensor(edit, tensor->name, &data, kiln_onnx_tensor_bits(tensor));
        }
        if (st) break;
        kiln_vec_push_in(edit->arena, &edit->initializer, tensor);
        note_constant(edit, text(tensor->name), tensor);
    }
    return st;
}

static void take_nodes(kiln_onnx_edit *edit) {
    const Onnx__GraphProto *graph = edit->source->graph;
    for (size_t i = 0; i < graph->n_node; i++) {
        Onnx__NodeProto *node = graph->node[i];
        kiln_vec_push_in(edit->arena, &edit->node, node);
        if (!kiln_onnx_node_is(node, "Constant") || node->n_output != 1) continue;
        const Onnx__AttributeProto *value = attribute(node, "value");
        if (value && value->t && !kiln_onnx_is_external(value->t))
            note_constant(edit, node->output[0], value->t);
    }
    for (size_t i = 0; i < graph->n_input; i++)
        kiln_vec_push_in(edit->arena, &edit->input, graph->input[i]);
    for (size_t i = 0; i < graph->n_output; i++)
        kiln_vec_push_in(edit->arena, &edit->output, graph->output[i]);
}

kiln_status kiln_onnx_edit_init(kiln_onnx_edit *edit, kiln_str bytes, const kiln_onnx_files *files,
                                uint64_t memory_bytes, kiln_arena *arena) {
    *edit = (kiln_onnx_edit){.arena = arena, .opset = 1};
    kiln_map_init(&edit->constant);
    kiln_map_init(&edit->taken);
    kiln_status st = kiln_onnx_model_unpack(bytes, &edit->source);
    if (st) return st;
    edit->model = *edit->source;
    edit->graph = *edit->source->graph;
    edit->model.graph = &edit->graph;
    edit->model.has_ir_version = true;
    edit->model.ir_version = KILN_MAX(edit->model.ir_version, IR_VERSION_MIN);
    for (size_t i = 0; i < edit->model.n_opset_import; i++) {
        const char *domain = text(edit->model.opset_import[i]->domain);
        if (!*domain || strcmp(domain, "ai.onnx") == 0)
            edit->opset = edit->model.opset_import[i]->version;
    }
    take_names(edit, edit->source->graph);
    st = take_initializers(edit, files, memory_bytes);
    if (!st) take_nodes(edit);
    return st;
}

void kiln_onnx_edit_set_opset(kiln_onnx_edit *edit, int64_t opset) {
    const size_t count = edit->model.n_opset_import;
    Onnx__OperatorSetIdProto **list =
        KILN_ARENA_ARRAY(edit->arena, Onnx__OperatorSetIdProto *, count + 1);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const char *domain = text(edit->model.opset_import[i]->domain);
        if (*domain && strcmp(domain, "ai.onnx") != 0) list[kept++] = edit->model.opset_import[i];
    }
    Onnx__OperatorSetIdProto *set = KILN_ARENA_NEW(edit->arena, Onnx__OperatorSetIdProto);
    onnx__operator_set_id_proto__init(set);
    set->domain = kiln_str_dup(edit->arena, KILN_STR(""));
    set->has_version = true;
    set->version = opset;
    list[kept++] = set;
    edit->model.opset_import = list;
    edit->model.n_opset_import = kept;
    edit->opset = opset;
}

void kiln_onnx_edit_deinit(kiln_onnx_edit *edit) {
    kiln_map_deinit(&edit->constant);
    kiln_map_deinit(&edit->taken);
    kiln_onnx_model_free(edit->source);
}

/* Removes unread initialisers, and inputs that only let callers replace initialisers, because
 * Kiln's modules have none. */
static void drop_unread(kiln_onnx_edit *edit) {
    kiln_map read;
    uint64_t ignored;
    uint32_t kept = 0, inputs = 0;
    kiln_map_init(&read);
    edit->graph.n_output = edit->output.count;
    edit->graph.output = edit->output.data;
    edit->graph.n_node = edit->node.count;
    edit->graph.node = edit->node.data;
    graph_reads(&edit->graph, take_name, &read);
    for (uint32_t i = 0; i < edit->input.count; i++) {
        Onnx__ValueInfoProto *input = edit->input.data[i];
        if (!kiln_map_find(&edit->constant, kiln_str_from(text(input->name)), &ignored))
            edit->input.data[inputs++] = input;
    }
    edit->input.count = inputs;
    edit->graph.n_input = inputs;
    edit->graph.input = edit->input.data;
    for (uint32_t i = 0; i < edit->initializer.count; i++) {
        Onnx__TensorProto *tensor = edit->initializer.data[i];
        if (kiln_map_find(&read, kiln_str_from(text(tensor->name)), &ignored))
            edit->initializer.data[kept++] = tensor;
    }
    edit->initializer.count = kept;
    kiln_map_deinit(&read);
}

const Onnx__ModelProto *kiln_onnx_edit_model(kiln_onnx_edit *edit) {
    drop_unread(edit);
    edit->graph.n_initializer = edit->initializer.count;
    edit->graph.initializer = edit->initializer.data;
    edit->graph.n_value_info = 0;
    edit->graph.n_quantization_annotation = 0;
    return &edit->model;
}

kiln_status kiln_onnx_edit_pack(kiln_onnx_edit *edit, kiln_str *out_bytes) {
    const Onnx__ModelProto *model = kiln_onnx_edit_model(edit);
    const size_t size = onnx__model_proto__get_packed_size(model);
    if (size >= KILN_MODEL_FILE_BYTES_MAX)
        return KILN_ERROR(OUT_OF_RANGE,
                          "with all its data it has %zu bytes, a model has at most %zu", size,
                          KILN_MODEL_FILE_BYTES_MAX);
    uint8_t *bytes = kiln_arena_alloc(edit->arena, size);
    onnx__model_proto__pack(model, bytes);
    *out_bytes = (kiln_str){(const char *)bytes, size};
    return KILN_OK;
}

/* ---- nodes and outputs ----------------------------------------------------------------------- */

static char *copy_text(kiln_onnx_edit *edit, const char *value) {
    return kiln_str_dup(edit->arena, kiln_str_from(value));
}

static void set_type(kiln_onnx_edit *edit, Onnx__ValueInfoProto **info, kiln_dtype dtype) {
    Onnx__ValueInfoProto *copy = kiln_arena_copy(edit->arena, *info, sizeof **info);
    copy->type = kiln_arena_copy(edit->arena, copy->type, sizeof *copy->type);
    copy->type->tensor_type =
        kiln_arena_copy(edit->arena, copy->type->tensor_type, sizeof *copy->type->tensor_type);
    copy->type->tensor_type->elem_type = kiln_onnx_type_number(dtype, 0);
    *info = copy;
}

void kiln_onnx_edit_set_type(kiln_onnx_edit *edit, const char *name, kiln_dtype dtype) {
    for (uint32_t i = 0; i < edit->input.count; i++)
        if (strcmp(text(edit->input.data[i]->name), name) == 0)
            set_type(edit, &edit->input.data[i], dtype);
    for (uint32_t i = 0; i < edit->output.count; i++)
        if (strcmp(text(edit->output.data[i]->name), name) == 0)
            set_type(edit, &edit->output.data[i], dtype);
}

void kiln_onnx_edit_add_output(kiln_onnx_edit *edit, const char *name) {
    Onnx__ValueInfoProto *info = KILN_ARENA_NEW(edit->arena, Onnx__ValueInfoProto);
    onnx__value_info_proto__init(info);
    info->name = copy_text(edit, name);
    kiln_vec_push_in(edit->arena, &edit->output, info);
}

Onnx__NodeProto *kiln_onnx_edit_copy_node(kiln_onnx_edit *edit, const Onnx__NodeProto *node,
                                          size_t input_count) {
    Onnx__NodeProto *copy = kiln_arena_copy(edit->arena, node, sizeof *node);
    copy->n_input = KILN_MAX(input_count, node->n_input);
    copy->input = KILN_ARENA_ARRAY(edit->arena, char *, copy->n_input);
    for (size_t i = 0; i < copy->n_input; i++)
        copy->input[i] = copy_text(edit, kiln_onnx_node_input(node, i));
    copy->output =
        kiln_arena_copy(edit->arena, node->output, node->n_output * sizeof *node->output);
    return copy;
}

Onnx__NodeProto *kiln_onnx_edit_make_node(kiln_onnx_edit *edit, const char *op,
                                          uint32_t input_count, char *const *input, char *output) {
    Onnx__NodeProto *node = KILN_ARENA_NEW(edit->arena, Onnx__NodeProto);
    onnx__node_proto__init(node);
    node->op_type = copy_text(edit, op);
    node->name = kiln_arena_printf(edit->arena, "%s_node", output);
    node->n_input = input_count;
    node->input = kiln_arena_copy(edit->arena, input, input_count * sizeof *input);
    node->n_output = 1;
    node->output = kiln_arena_copy(edit->arena, &output, sizeof output);
    return node;
}

void kiln_onnx_edit_set_int(kiln_onnx_edit *edit, Onnx__NodeProto *node, const char *name,
                            int64_t value) {
    Onnx__AttributeProto *a = KILN_ARENA_NEW(edit->arena, Onnx__AttributeProto);
    Onnx__AttributeProto **list =
        KILN_ARENA_ARRAY(edit->arena, Onnx__AttributeProto *, node->n_attribute + 1);
    onnx__attribute_proto__init(a);
    a->name = copy_text(edit, name);
    a->has_type = true;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    a->has_i = true;
    a->i = value;
    if (node->n_attribute) memcpy(list, node->attribute, node->n_attribute * sizeof *list);
    list[node->n_attribute++] = a;
    node->attribute = list;
}
