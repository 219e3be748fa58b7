/* Files and bytes to ModelProto, and properties of a model without importing it. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/isolated/isolated.h"
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

/* protobuf has no magic number: the first byte must be the tag of a field of ModelProto. */
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
    st = kiln_import_model_once(model, folder, options, arena, out_graph);
    kiln_onnx_model_free(model);
    return st;
}

static kiln_dtype port_dtype(const Onnx__ValueInfoProto *info) {
    kiln_dtype dtype = KILN_DTYPE_NONE;
    uint32_t bits;
    bool tensor = info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    return tensor && kiln_onnx_type_find(info->type->tensor_type->elem_type, &dtype, &bits)
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

/* ---- ports of a file, read without rights ---------------------------------------------------- */

typedef struct file {
    const char *path;
    kiln_mapping bytes;
} file;

/* The result for the parent: this head, then for each input and output its dtype, the size of its
 * name, the name.
 */
typedef struct ports_head {
    uint32_t node_count, input_count, output_count;
} ports_head;

static void write_ports(const kiln_str *name, const kiln_dtype *dtype, uint32_t count,
                        kiln_strbuf *out) {
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t fields[] = {(uint32_t)dtype[i], (uint32_t)name[i].size};
        kiln_strbuf_append(out, fields, sizeof fields);
        kiln_strbuf_str(out, name[i]);
    }
}

static kiln_status list_isolated(void *context, kiln_arena *arena,
                                 kiln_isolated_result *out_result) {
    const file *f = context;
    Onnx__ModelProto *model = NULL;
    kiln_onnx_ports ports = {0};
    kiln_strbuf out = {0};
    kiln_str *part = KILN_ARENA_ARRAY(arena, kiln_str, 1);
    kiln_status st = kiln_onnx_model_unpack((kiln_str){f->bytes.data, f->bytes.size}, &model);
    if (st) return kiln_status_note(st, "%s", f->path);
    list_ports(model->graph, arena, &ports);
    const ports_head head = {ports.node_count, ports.input_count, ports.output_count};
    kiln_strbuf_append(&out, &head, sizeof head);
    write_ports(ports.input, ports.input_dtype, ports.input_count, &out);
    write_ports(ports.output, ports.output_dtype, ports.output_count, &out);
    *part = kiln_strbuf_end(&out, arena);
    *out_result = (kiln_isolated_result){1, part};
    return KILN_OK;
}

/* Cuts `size` bytes off the front of `rest`; false: there are fewer. */
static bool cut(kiln_str *rest, void *out, size_t size) {
    if (rest->size < size) return false;
    memcpy(out, rest->data, size);
    *rest = kiln_str_slice(*rest, size, rest->size);
    return true;
}

static bool read_ports(kiln_str *rest, uint32_t count, kiln_arena *arena, kiln_str **out_name,
                       kiln_dtype **out_dtype) {
    uint32_t fields[2];
    if (count > rest->size / sizeof fields) return false;
    *out_name = KILN_ARENA_ARRAY(arena, kiln_str, count);
    *out_dtype = KILN_ARENA_ARRAY(arena, kiln_dtype, count);
    for (uint32_t i = 0; i < count; i++) {
        if (!cut(rest, fields, sizeof fields) || fields[0] >= KILN_DTYPE_COUNT) return false;
        if (fields[1] > rest->size) return false;
        (*out_dtype)[i] = (kiln_dtype)fields[0];
        (*out_name)[i] = kiln_str_copy(arena, kiln_str_slice(*rest, 0, fields[1]));
        *rest = kiln_str_slice(*rest, fields[1], rest->size);
    }
    return true;
}

kiln_status kiln_onnx_ports_read(const char *path, kiln_arena *arena, kiln_onnx_ports *out_ports) {
    file f = {.path = path};
    kiln_mapping result = {0};
    ports_head head;
    kiln_onnx_ports ports = {0};
    const kiln_isolated_work work = {.what = path, .run = list_isolated, .context = &f};
    kiln_status st = kiln_model_file_map(path, &f.bytes);
    if (!st) st = kiln_isolated_run(&work, &result);
    kiln_str rest = {result.data, result.size};
    if (!st && !(cut(&rest, &head, sizeof head) &&
                 read_ports(&rest, head.input_count, arena, &ports.input, &ports.input_dtype) &&
                 read_ports(&rest, head.output_count, arena, &ports.output, &ports.output_dtype)))
        st = KILN_ERROR(DATA_LOSS, "%s: no list of inputs and outputs was read", path);
    kiln_file_unmap(&f.bytes);
    kiln_file_unmap(&result);
    if (st) return st;
    ports.node_count = head.node_count;
    ports.input_count = head.input_count;
    ports.output_count = head.output_count;
    *out_ports = ports;
    return KILN_OK;
}

/* ---- weights beside a file ------------------------------------------------------------------- */

static kiln_status look_isolated(void *context, kiln_arena *arena,
                                 kiln_isolated_result *out_result) {
    const file *f = context;
    const kiln_str bytes = {f->bytes.data, f->bytes.size};
    kiln_str *part = KILN_ARENA_NEW(arena, kiln_str);
    const bool is_external = kiln_onnx_probe(bytes) && kiln_onnx_wire_is_external(bytes);
    *part = is_external ? KILN_STR("1") : KILN_STR("0");
    *out_result = (kiln_isolated_result){1, part};
    return KILN_OK;
}

kiln_status kiln_onnx_is_external_read(const char *path, bool *out_is_external) {
    file f = {.path = path};
    kiln_mapping result = {0};
    const kiln_isolated_work work = {.what = path, .run = look_isolated, .context = &f};
    kiln_status st = kiln_model_file_map(path, &f.bytes);
    if (!st) st = kiln_isolated_run(&work, &result);
    if (!st) *out_is_external = kiln_str_is((kiln_str){result.data, result.size}, "1");
    kiln_file_unmap(&f.bytes);
    kiln_file_unmap(&result);
    return st;
}
