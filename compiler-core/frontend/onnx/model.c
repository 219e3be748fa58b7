/* Files and bytes to ModelProto, and what can be told of a model without importing it. */
#include "base/alloc.h"
#include "base/file.h"
#include "compiler-core/frontend/data_set.h"
#include "compiler-core/frontend/onnx/import.h"
#include "compiler-core/frontend/onnx/wire.h"

static void *take(void *unused, size_t size) {
    (void)unused;
    return kiln_alloc(size);
}

static void give(void *unused, void *memory) {
    (void)unused;
    kiln_free(memory);
}

static const ProtobufCAllocator allocator = {take, give, NULL};
ProtobufCAllocator *const kiln_onnx_allocator =
    (ProtobufCAllocator *)&allocator; /* protobuf-c only reads it */

kiln_status kiln_onnx_model_unpack(kiln_str bytes, Onnx__ModelProto **out_model) {
    kiln_status st = kiln_onnx_wire_check(bytes, &onnx__model_proto__descriptor);
    if (st) return st;
    Onnx__ModelProto *model =
        onnx__model_proto__unpack(kiln_onnx_allocator, bytes.size, (const uint8_t *)bytes.data);
    if (!model) return KILN_ERROR(INVALID_ARGUMENT, "not an ONNX file");
    if (model->graph) {
        *out_model = model;
        return KILN_OK;
    }
    kiln_onnx_model_free(model);
    return KILN_ERROR(INVALID_ARGUMENT, "not an ONNX model: it has no graph");
}

void kiln_onnx_model_free(Onnx__ModelProto *model) {
    if (model) onnx__model_proto__free_unpacked(model, kiln_onnx_allocator);
}

/* protobuf has no mark of its own: the first byte is the tag of a field of ModelProto, or it is
 * none. */
bool kiln_onnx_probe(kiln_str bytes) {
    if (!bytes.size) return false;
    const uint8_t tag = (uint8_t)bytes.data[0];
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(&onnx__model_proto__descriptor, tag >> 3);
    if (!field) return false;
    bool number = field->type == PROTOBUF_C_TYPE_INT64;
    return (tag & 7) ==
           (number ? PROTOBUF_C_WIRE_TYPE_VARINT : PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED);
}

kiln_status kiln_onnx_import(kiln_str bytes, const char *folder, const kiln_import_options *options,
                             kiln_arena *arena, kiln_graph **out_graph) {
    Onnx__ModelProto *model = NULL;
    kiln_status st = kiln_onnx_model_unpack(bytes, &model);
    if (st) return st;
    st = kiln_import_model(model, folder, options, arena, out_graph);
    kiln_onnx_model_free(model);
    return st;
}

static kiln_dtype port_dtype(const Onnx__ValueInfoProto *info) {
    kiln_dtype dtype = KILN_DTYPE_NONE;
    bool tensor = info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    return tensor && kiln_onnx_dtype_find(info->type->tensor_type->elem_type, &dtype)
               ? dtype
               : KILN_DTYPE_NONE;
}

static void list_ports(const Onnx__GraphProto *graph, kiln_arena *arena, kiln_onnx_ports *out) {
    out->node_count = (uint32_t)graph->n_node;
    out->input = KILN_ARENA_ARRAY(arena, kiln_str, graph->n_input);
    out->output = KILN_ARENA_ARRAY(arena, kiln_str, graph->n_output);
    out->input_dtype = KILN_ARENA_ARRAY(arena, kiln_dtype, graph->n_input);
    out->output_dtype = KILN_ARENA_ARRAY(arena, kiln_dtype, graph->n_output);
    kiln_map initializer;
    uint64_t ignored;
    kiln_map_init(&initializer);
    for (size_t i = 0; i < graph->n_initializer; i++)
        kiln_map_put(&initializer, kiln_proto_text(graph->initializer[i]->name), 0);
    for (size_t i = 0; i < graph->n_input; i++) {
        if (kiln_map_find(&initializer, kiln_proto_text(graph->input[i]->name), &ignored)) continue;
        out->input_dtype[out->input_count] = port_dtype(graph->input[i]);
        out->input[out->input_count++] =
            kiln_str_copy(arena, kiln_proto_text(graph->input[i]->name));
    }
    kiln_map_deinit(&initializer);
    for (size_t i = 0; i < graph->n_output; i++) {
        out->output_dtype[out->output_count] = port_dtype(graph->output[i]);
        out->output[out->output_count++] =
            kiln_str_copy(arena, kiln_proto_text(graph->output[i]->name));
    }
}

kiln_status kiln_onnx_ports_read(const char *path, kiln_arena *arena, kiln_onnx_ports *out_ports) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_str bytes;
    Onnx__ModelProto *model = NULL;
    kiln_onnx_ports ports = {0};
    kiln_status st = kiln_file_read(path, KILN_MODEL_FILE_BYTES_MAX, &scratch, &bytes);
    if (!st) st = kiln_status_note(kiln_onnx_model_unpack(bytes, &model), "%s", path);
    if (!st) list_ports(model->graph, arena, &ports);
    kiln_onnx_model_free(model);
    kiln_arena_deinit(&scratch);
    if (!st) *out_ports = ports;
    return st;
}
