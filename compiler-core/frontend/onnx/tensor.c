/* TensorProto to tensor. */
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/isolated/isolated.h"
#include "compiler-core/frontend/data_set.h"
#include "compiler-core/frontend/onnx/external.h"
#include "compiler-core/frontend/onnx/proto.h"
#include "compiler-core/frontend/onnx/wire.h"
#include "compiler-core/graph/graph_codec.h"

static kiln_status read_shape(const Onnx__TensorProto *proto, kiln_shape *out_shape) {
    if (proto->n_dims > KILN_RANK_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "%zu dimensions, at most %u are supported", proto->n_dims,
                          KILN_RANK_MAX);
    *out_shape = (kiln_shape){.rank = (uint32_t)proto->n_dims};
    for (size_t d = 0; d < proto->n_dims; d++) {
        if (proto->dims[d] < 0) return KILN_ERROR(INVALID_ARGUMENT, "dimension %zu is negative", d);
        out_shape->dim[d] = proto->dims[d];
    }
    return KILN_OK;
}

/* The typed field that has elements of a type. */
typedef struct typed {
    const void *item;
    size_t count, each; /* items, and bytes of one */
} typed;

static typed typed_of(const Onnx__TensorProto *proto, kiln_dtype dtype) {
    switch ((int)dtype) {
    case KILN_F32: return (typed){proto->float_data, proto->n_float_data, 4};
    case KILN_F64: return (typed){proto->double_data, proto->n_double_data, 8};
    case KILN_I64: return (typed){proto->int64_data, proto->n_int64_data, 8};
    case KILN_U32:
    case KILN_U64: return (typed){proto->uint64_data, proto->n_uint64_data, 8};
    default: return (typed){proto->int32_data, proto->n_int32_data, 4};
    }
}

/* Items are cut to the size of elements: numbers in wider ones, and the bits of narrow floats. */
static void copy_typed(const typed *from, kiln_tensor *tensor) {
    const size_t size = kiln_dtype_size(tensor->dtype);
    const kiln_dtype as = !kiln_dtype_is_float(tensor->dtype) || size > 2 ? tensor->dtype
                          : size == 2                                     ? KILN_U16
                                                                          : KILN_U8;
    for (size_t i = 0; i < from->count; i++) {
        if (from->each == size)
            memcpy((char *)tensor->data + i * from->each, (const char *)from->item + i * from->each,
                   from->each);
        else
            kiln_dtype_store_i64(as, tensor->data, i,
                                 from->each == 8 ? ((const int64_t *)from->item)[i]
                                                 : ((const int32_t *)from->item)[i]);
    }
}

/* Type and shape of a tensor in a file. */
typedef struct tensor_kind {
    kiln_tensor tensor; /* without data */
    uint32_t bits;      /* of packed integers; 0: they are not packed */
    size_t file_bytes;
} tensor_kind;

/* The typed field has a packed byte in each item. */
static void copy_packed(const Onnx__TensorProto *proto, const tensor_kind *kind,
                        kiln_tensor *tensor) {
    const size_t count = (size_t)kiln_shape_count(&tensor->shape), each = 8 / kind->bits;
    uint8_t *byte = tensor->data;
    if (proto->has_raw_data) {
        kiln_onnx_unpack(proto->raw_data.data, count, tensor->dtype, kind->bits, byte);
        return;
    }
    for (size_t i = 0; i < kind->file_bytes; i++) {
        const uint8_t packed = (uint8_t)proto->int32_data[i];
        kiln_onnx_unpack(&packed, KILN_MIN(each, count - i * each), tensor->dtype, kind->bits,
                         byte + i * each);
    }
}

/* Checks sizes first: a wrong size in the model must not cause a large allocation. */
static kiln_status read_data(const Onnx__TensorProto *proto, const tensor_kind *kind,
                             kiln_arena *arena, kiln_tensor *tensor) {
    const size_t items = kind->bits ? kind->file_bytes : (size_t)kiln_shape_count(&tensor->shape);
    if (proto->has_raw_data && proto->raw_data.len != kind->file_bytes)
        return KILN_ERROR(INVALID_ARGUMENT, "%zu bytes of data instead of %zu", proto->raw_data.len,
                          kind->file_bytes);
    const typed from = typed_of(proto, tensor->dtype);
    if (!proto->has_raw_data && from.count != items)
        return KILN_ERROR(INVALID_ARGUMENT, "%zu elements of data instead of %zu", from.count,
                          items);
    *tensor = kiln_tensor_create(arena, tensor->dtype, &tensor->shape);
    if (kind->bits)
        copy_packed(proto, kind, tensor);
    else if (!proto->has_raw_data)
        copy_typed(&from, tensor);
    else if (kind->file_bytes)
        memcpy(tensor->data, proto->raw_data.data, kind->file_bytes);
    return KILN_OK;
}

/* Bytes other than 0 and 1 would be invalid values of bool. */
static void normalise_bool(kiln_tensor *tensor) {
    uint8_t *byte = tensor->data;
    for (size_t i = 0; tensor->dtype == KILN_BOOL && i < (size_t)kiln_shape_count(&tensor->shape);
         i++)
        byte[i] = byte[i] != 0;
}

static kiln_status read_kind(const Onnx__TensorProto *proto, tensor_kind *out, size_t *out_bytes) {
    *out = (tensor_kind){0};
    if (proto->segment) return KILN_ERROR(UNIMPLEMENTED, "segmented data");
    if (!kiln_onnx_type_find(proto->data_type, &out->tensor.dtype, &out->bits))
        return KILN_ERROR(UNIMPLEMENTED, "elements of ONNX type %d", proto->data_type);
    kiln_status st = read_shape(proto, &out->tensor.shape);
    if (!st) st = kiln_shape_bytes(&out->tensor.shape, out->tensor.dtype, out_bytes);
    if (!st)
        out->file_bytes = out->bits ? kiln_onnx_packed_bytes(*out_bytes, out->bits) : *out_bytes;
    return st;
}

uint32_t kiln_onnx_tensor_bits(const Onnx__TensorProto *proto) {
    kiln_dtype dtype;
    uint32_t bits = 0;
    return kiln_onnx_type_find(proto->data_type, &dtype, &bits) ? bits : 0;
}

uint64_t kiln_onnx_external_bytes(const Onnx__TensorProto *proto) {
    tensor_kind kind = {0};
    size_t size_bytes;
    if (kiln_onnx_is_external(proto))
        kiln_status_free(read_kind(proto, &kind, &size_bytes)); /* reported when it is read */
    return kind.file_bytes;
}

kiln_status kiln_onnx_tensor(const Onnx__TensorProto *proto, const kiln_onnx_files *files,
                             uint64_t *budget_bytes, kiln_arena *arena, kiln_tensor *out_tensor) {
    tensor_kind kind;
    size_t size_bytes = 0;
    kiln_status st = read_kind(proto, &kind, &size_bytes);
    kiln_tensor tensor = kind.tensor;
    if (!st && size_bytes > *budget_bytes)
        st = KILN_ERROR(OUT_OF_RANGE, "the model's constants take more memory than is allowed");
    if (st) return st;
    *budget_bytes -= size_bytes;
    if (kiln_onnx_is_external(proto)) {
        kiln_str data;
        st = kiln_onnx_external_read(files, proto, kind.file_bytes, arena, &data);
        if (!st && kind.bits) {
            tensor = kiln_tensor_create(arena, tensor.dtype, &tensor.shape);
            kiln_onnx_unpack((const uint8_t *)data.data, size_bytes, tensor.dtype, kind.bits,
                             tensor.data);
        } else if (!st) {
            tensor.data = (void *)(uintptr_t)data.data;
        }
    } else {
        st = read_data(proto, &kind, arena, &tensor);
    }
    if (st) return st;
    normalise_bool(&tensor);
    *out_tensor = tensor;
    return KILN_OK;
}

kiln_status kiln_onnx_tensor_decode(kiln_str bytes, kiln_arena *arena,
                                    kiln_named_tensor *out_tensor) {
    kiln_status st = kiln_onnx_wire_check(bytes, &onnx__tensor_proto__descriptor);
    if (st) return st;
    Onnx__TensorProto *proto =
        onnx__tensor_proto__unpack(kiln_onnx_allocator, bytes.size, (const uint8_t *)bytes.data);
    if (!proto) return KILN_ERROR(INVALID_ARGUMENT, "not an ONNX tensor");
    uint64_t budget_bytes = KILN_TENSOR_BYTES_MAX;
    kiln_named_tensor result = {.name = kiln_str_copy(arena, kiln_proto_text(proto->name))};
    st = kiln_onnx_tensor(proto, NULL, &budget_bytes, arena, &result.tensor);
    onnx__tensor_proto__free_unpacked(proto, kiln_onnx_allocator);
    if (!st) *out_tensor = result;
    return st;
}

/* ---- files, read without rights -------------------------------------------------------------- */

typedef struct file {
    const char *path;
    kiln_mapping bytes;
} file;

/* The tensor is returned as the only value of a graph with its name. */
static kiln_status decode_isolated(void *context, kiln_arena *arena,
                                   kiln_isolated_result *out_result) {
    const file *f = context;
    kiln_named_tensor named;
    kiln_status st =
        kiln_onnx_tensor_decode((kiln_str){f->bytes.data, f->bytes.size}, arena, &named);
    if (st) return kiln_status_note(st, "%s", f->path);
    kiln_graph *graph = kiln_graph_create(arena, named.name);
    kiln_value value = kiln_graph_add_constant(graph, KILN_STR("tensor"), &named.tensor);
    kiln_vec_push_in(arena, &graph->output, value);
    const kiln_graph_bytes encoded = kiln_graph_encode(graph, arena);
    *out_result = (kiln_isolated_result){encoded.part_count, encoded.part};
    return KILN_OK;
}

static kiln_status take_tensor(kiln_str bytes, kiln_arena *arena, kiln_named_tensor *out_tensor) {
    kiln_graph *graph = NULL;
    kiln_status st = kiln_graph_decode(bytes, arena, &graph);
    if (st) return st;
    if (graph->output.count != 1 || !kiln_value_is_constant(graph, graph->output.data[0]))
        return KILN_ERROR(DATA_LOSS, "the file holds no tensor");
    const kiln_tensor tensor = kiln_value_tensor(graph, graph->output.data[0]);
    const size_t size = kiln_tensor_bytes(&tensor);
    *out_tensor = (kiln_named_tensor){graph->name, tensor};
    out_tensor->tensor.data = kiln_arena_alloc_aligned(arena, KILN_GRAPH_DATA_ALIGNMENT, size);
    if (size) memcpy(out_tensor->tensor.data, tensor.data, size);
    return KILN_OK;
}

kiln_status kiln_onnx_tensor_load(const char *path, kiln_arena *arena,
                                  kiln_named_tensor *out_tensor) {
    file f = {.path = path};
    kiln_mapping result = {0};
    const kiln_isolated_work work = {.what = path, .run = decode_isolated, .context = &f};
    kiln_status st = kiln_model_file_map(path, &f.bytes);
    if (!st) st = kiln_isolated_run(&work, &result);
    if (!st)
        st = kiln_status_note(take_tensor((kiln_str){result.data, result.size}, arena, out_tensor),
                              "%s", path);
    kiln_file_unmap(&f.bytes);
    kiln_file_unmap(&result);
    return st;
}
