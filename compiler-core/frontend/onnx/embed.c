/* A model as one piece: external tensor data folded in, for sending it elsewhere. */
#include "base/file.h"
#include "compiler-core/frontend/onnx/external.h"
#include "compiler-core/frontend/onnx/proto.h"

/* The message keeps its own allocator: what is put in lives in `arena` and is taken out before it
 * is freed. */
static kiln_status fold_tensor(Onnx__TensorProto *tensor, const char *folder, kiln_arena *arena) {
    size_t bytes = 0;
    kiln_str data = {0};
    if (!kiln_onnx_is_external(tensor)) return KILN_OK;
    kiln_status st = kiln_onnx_tensor_bytes(tensor, &bytes);
    if (!st) st = kiln_onnx_external_read(folder, tensor, bytes, arena, &data);
    if (st) return st;
    tensor->has_raw_data = true;
    tensor->raw_data = (ProtobufCBinaryData){data.size, (uint8_t *)(uintptr_t)data.data};
    tensor->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT;
    return KILN_OK;
}

/* Takes the folded data out again: they belong to the arena, not to protobuf-c. */
static void unfold_tensor(Onnx__TensorProto *tensor) {
    if (tensor->n_external_data == 0) return;
    tensor->has_raw_data = false;
    tensor->raw_data = (ProtobufCBinaryData){0};
}

static kiln_status pack(const Onnx__ModelProto *model, const char *path, kiln_strbuf *out) {
    size_t size = onnx__model_proto__get_packed_size(model);
    if (size > KILN_MODEL_FILE_BYTES_MAX)
        return KILN_ERROR(OUT_OF_RANGE,
                          "%s with its external data is larger than a model may be (%zu bytes)",
                          path, size);
    size_t at = out->size;
    char zero[4096] = {0};
    while (out->size < at + size)
        kiln_strbuf_append(out, zero, KILN_MIN(sizeof zero, at + size - out->size));
    onnx__model_proto__pack(model, (uint8_t *)out->data + at);
    return KILN_OK;
}

/* An open dimension with what it was before: a name that protobuf-c frees with the message. */
typedef struct filled_dim {
    Onnx__TensorShapeProto__Dimension *dim, before;
} filled_dim;
typedef KILN_VEC(filled_dim) filled_dims;

static void fill_dims(const Onnx__GraphProto *graph, const kiln_import_options *options,
                      kiln_arena *arena, filled_dims *out) {
    for (size_t i = 0; i < graph->n_input; i++) {
        const Onnx__TypeProto *type = graph->input[i]->type;
        if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) continue;
        const Onnx__TensorShapeProto *shape = type->tensor_type->shape;
        for (size_t d = 0; shape && d < shape->n_dim; d++) {
            int64_t value = 0;
            filled_dim filled = {shape->dim[d], *shape->dim[d]};
            if (!kiln_onnx_dim_is_open(filled.dim)) continue;
            kiln_str name = kiln_onnx_dim_name(graph->input[i], d, arena);
            if (!kiln_onnx_dim_find(options, name, &value)) continue;
            kiln_vec_push_in(arena, out, filled);
            filled.dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            filled.dim->dim_value = value;
        }
    }
}

static void empty_dims(filled_dims *filled) {
    for (uint32_t i = 0; i < filled->count; i++) *filled->data[i].dim = filled->data[i].before;
}

static kiln_status embed(Onnx__ModelProto *model, const char *path,
                         const kiln_import_options *options, kiln_arena *arena, kiln_strbuf *out) {
    filled_dims filled = {0};
    size_t folded = 0;
    kiln_status st = kiln_onnx_dims_check(model->graph, options);
    if (!st) fill_dims(model->graph, options, arena, &filled);
    for (; !st && folded < model->graph->n_initializer; folded++)
        st = fold_tensor(model->graph->initializer[folded], kiln_folder_of(path, arena), arena);
    if (!st) st = pack(model, path, out);
    for (size_t i = 0; i < folded; i++) unfold_tensor(model->graph->initializer[i]);
    empty_dims(&filled);
    return st;
}

kiln_status kiln_onnx_embed(const char *path, const kiln_import_options *options,
                            kiln_strbuf *out) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_str bytes = {0};
    kiln_status st = kiln_file_read(path, KILN_MODEL_FILE_BYTES_MAX, &scratch, &bytes);
    Onnx__ModelProto *model = NULL;
    if (!st) st = kiln_onnx_model_unpack(bytes, &model);
    bool changes = options && options->dim_count > 0;
    for (size_t i = 0; !st && i < model->graph->n_initializer; i++)
        changes = changes || kiln_onnx_is_external(model->graph->initializer[i]);
    if (!st && changes)
        st = embed(model, path, options, &scratch, out);
    else if (!st)
        kiln_strbuf_append(out, bytes.data, bytes.size); /* the same bytes, the same name */
    kiln_onnx_model_free(model);
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "reading %s", path);
}
