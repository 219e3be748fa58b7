/* Tensors of a model: their description in the file, their constants, and the forms of their
 * values.
 */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "compiler-core/frontend/tflite/import.h"

#define NAME_BYTES_MAX 256 /* longer names are cut off */

/* ---- description in the file
 * ---------------------------------------------------------------------- */

typedef struct element_type {
    const char *name;
    kiln_dtype dtype;
    uint32_t bits;
} element_type;

static const element_type type_table[] = {
#define FIELD(table, name, number, bytes)
#define TYPE(name, number, dtype, bits) [number] = {#name, KILN_##dtype, bits},
#define ACTIVATION(name, number, op, low, high)
#include "compiler-core/frontend/tflite/tflite.def"
#undef FIELD
#undef TYPE
#undef ACTIVATION
};

static kiln_status read_shape(const kiln_flat_table *table, kiln_tflite_tensor *out) {
    const kiln_flat_vector shape = kiln_tflite_items(table, KILN_TFLITE_TENSOR_SHAPE, 4),
                           signature =
                               kiln_tflite_items(table, KILN_TFLITE_TENSOR_SHAPE_SIGNATURE, 4);
    if (shape.count > KILN_RANK_MAX) {
        out->refused = "more dimensions than are supported";
        return KILN_OK;
    }
    out->shape.rank = shape.count;
    for (uint32_t d = 0; d < shape.count; d++) {
        out->shape.dim[d] = kiln_flat_item_int(&shape, d, 4);
        out->open[d] = signature.count == shape.count && kiln_flat_item_int(&signature, d, 4) < 0;
        if (out->shape.dim[d] < 0)
            return KILN_ERROR(INVALID_ARGUMENT, "dimension %u is negative", d);
    }
    return KILN_OK;
}

static kiln_status read_scales(kiln_tflite *t, const kiln_flat_vector *scale,
                               const kiln_flat_vector *zero, kiln_tflite_tensor *out) {
    const kiln_shape shape = {.rank = scale->count > 1, .dim = {scale->count}};
    const uint64_t bytes = scale->count * (sizeof(float) + kiln_dtype_size(out->dtype));
    if (bytes > t->budget_bytes)
        return KILN_ERROR(OUT_OF_RANGE, "the model's scales take more memory than is allowed");
    t->budget_bytes -= bytes;
    out->scale = kiln_tensor_create(t->graph->arena, KILN_F32, &shape);
    out->zero = kiln_tensor_create(t->graph->arena, out->dtype, &shape);
    out->zero_is_zero = true;
    for (uint32_t i = 0; i < scale->count; i++) {
        const double item = kiln_flat_item_float(scale, i);
        const int64_t point =
            zero->count ? kiln_flat_item_int(zero, zero->count == 1 ? 0 : i, 8) : 0;
        if (!isfinite(item) || item < 0)
            return KILN_ERROR(INVALID_ARGUMENT, "scale %u is %g", i, item);
        kiln_dtype_store_f64(KILN_F32, out->scale.data, i, item);
        kiln_dtype_store_i64(out->dtype, out->zero.data, i, point);
        if (kiln_dtype_load_i64(out->dtype, out->zero.data, i) != point)
            return KILN_ERROR(INVALID_ARGUMENT, "zero point %lld is no %s", (long long)point,
                              kiln_dtype_name(out->dtype));
        out->zero_is_zero = out->zero_is_zero && point == 0;
    }
    return KILN_OK;
}

static bool is_integer(kiln_dtype dtype) {
    return kiln_dtype_kind_of(dtype) == KILN_KIND_INT ||
           kiln_dtype_kind_of(dtype) == KILN_KIND_UINT;
}

static kiln_status read_quantisation(kiln_tflite *t, const kiln_flat_table *table,
                                     kiln_tflite_tensor *out) {
    const kiln_flat_table q = kiln_tflite_child(table, KILN_TFLITE_TENSOR_QUANTIZATION);
    const kiln_flat_vector scale = kiln_tflite_items(&q, KILN_TFLITE_QUANTIZATION_SCALE, 4),
                           zero = kiln_tflite_items(&q, KILN_TFLITE_QUANTIZATION_ZERO_POINT, 8);
    if (kiln_tflite_int(&q, KILN_TFLITE_QUANTIZATION_DETAILS, 0))
        out->refused = "a custom quantisation";
    if (out->refused || !scale.count || !is_integer(out->dtype)) return KILN_OK;
    const int64_t axis = kiln_tflite_int(&q, KILN_TFLITE_QUANTIZATION_AXIS, 0);
    if (zero.count > 1 && zero.count != scale.count)
        return KILN_ERROR(INVALID_ARGUMENT, "%u zero points with %u scales", zero.count,
                          scale.count);
    if (scale.count > 1 &&
        (axis < 0 || axis >= out->shape.rank || out->shape.dim[axis] != (int64_t)scale.count))
        return KILN_ERROR(INVALID_ARGUMENT, "%u scales along dimension %lld do not fit its shape",
                          scale.count, (long long)axis);
    out->quantised = true;
    out->axis = scale.count > 1 ? (uint32_t)axis : 0;
    return read_scales(t, &scale, &zero, out);
}

static kiln_str read_name(const kiln_tflite *t, const kiln_flat_table *table, uint32_t index) {
    kiln_str name = kiln_tflite_text(table, KILN_TFLITE_TENSOR_NAME);
    name = kiln_str_slice(name, 0, KILN_MIN(kiln_str_find_char(name, 0), NAME_BYTES_MAX));
    if (!name.size) return kiln_str_printf(t->graph->arena, "tensor.%u", index);
    return name;
}

static kiln_status read_tensor(kiln_tflite *t, const kiln_flat_table *table, uint32_t index) {
    kiln_tflite_tensor *out = &t->tensor[index];
    const int64_t type = kiln_tflite_int(table, KILN_TFLITE_TENSOR_TYPE, 0);
    out->name = read_name(t, table, index);
    out->buffer = (uint32_t)kiln_tflite_int(table, KILN_TFLITE_TENSOR_BUFFER, 0);
    kiln_status st = read_shape(table, out);
    if (type < 0 || type >= (int64_t)KILN_ARRAY_COUNT(type_table) || !type_table[type].dtype) {
        out->refused = "elements of a type that is not supported";
    } else {
        out->dtype = type_table[type].dtype;
        out->bits = type_table[type].bits;
    }
    if (kiln_tflite_int(table, KILN_TFLITE_TENSOR_IS_VARIABLE, 0)) out->variable = true;
    if (kiln_tflite_child(table, KILN_TFLITE_TENSOR_SPARSITY).file) out->refused = "sparse tensors";
    if (kiln_tflite_int(table, KILN_TFLITE_TENSOR_EXTERNAL_BUFFER, 0))
        out->refused = "constants in another file";
    if (!st) st = read_quantisation(t, table, out);
    out->poison = out->refused != NULL;
    return kiln_status_note(st, "tensor \"%.*s\"", KILN_STR_ARG(out->name));
}

kiln_status kiln_tflite_read_tensors(kiln_tflite *t, const kiln_flat_table *graph) {
    const kiln_flat_vector tensor = kiln_tflite_items(graph, KILN_TFLITE_GRAPH_TENSORS, 4);
    if (tensor.count > KILN_GRAPH_VALUES_MAX) return KILN_ERROR(OUT_OF_RANGE, "too many tensors");
    t->tensor = KILN_ARENA_ARRAY(t->graph->arena, kiln_tflite_tensor, tensor.count);
    t->tensor_count = tensor.count;
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < tensor.count; i++) {
        const kiln_flat_table table = kiln_flat_item_table(&tensor, i);
        st = kiln_flat_status(&t->file);
        if (!st) st = read_tensor(t, &table, i);
    }
    return st;
}

/* ---- constants ------------------------------------------------------------------------------- */

/* A constant's bytes: in its buffer, or behind the tables where files are large. */
static kiln_status find_bytes(const kiln_tflite *t, uint32_t buffer, kiln_str *out_bytes) {
    const kiln_flat_table table = kiln_flat_item_table(&t->buffer, buffer);
    const kiln_flat_vector data = kiln_tflite_items(&table, KILN_TFLITE_BUFFER_DATA, 1);
    const uint64_t offset = (uint64_t)kiln_tflite_int(&table, KILN_TFLITE_BUFFER_OFFSET, 0),
                   size = (uint64_t)kiln_tflite_int(&table, KILN_TFLITE_BUFFER_SIZE, 0);
    *out_bytes = kiln_flat_bytes(&data);
    if (offset <= 1) return kiln_flat_status(&t->file); /* 0 and 1 mean that there is none */
    if (offset > t->file.bytes.size || size > t->file.bytes.size - offset)
        return KILN_ERROR(INVALID_ARGUMENT, "its data is outside of the file");
    *out_bytes = (kiln_str){t->file.bytes.data + offset, (size_t)size};
    return kiln_flat_status(&t->file);
}

/* Two integers in a byte, the lower four bits first. */
static void unpack(const kiln_str from, size_t count, int8_t *out) {
    for (size_t i = 0; i < count; i++) {
        const uint32_t code = (uint32_t)(uint8_t)from.data[i / 2] >> (i % 2 * 4) & 15u;
        out[i] = (int8_t)((int32_t)(code ^ 8u) - 8);
    }
}

static kiln_status load_constant(kiln_tflite *t, const kiln_tflite_tensor *tensor,
                                 kiln_tensor *out) {
    kiln_str bytes = {0};
    size_t size = 0;
    if (tensor->buffer >= t->buffer.count)
        return KILN_ERROR(INVALID_ARGUMENT, "there is no buffer %u", tensor->buffer);
    kiln_status st = find_bytes(t, tensor->buffer, &bytes);
    if (!st) st = kiln_shape_bytes(&tensor->shape, tensor->dtype, &size);
    if (st) return st;
    if (!bytes.size && size)
        return KILN_ERROR(INVALID_ARGUMENT, "it has no data and no earlier operator makes it");
    const size_t packed = tensor->bits ? size / 2 + size % 2 : size;
    if (bytes.size != packed)
        return KILN_ERROR(INVALID_ARGUMENT, "%zu bytes of data instead of %zu", bytes.size, packed);
    if (size > t->budget_bytes)
        return KILN_ERROR(OUT_OF_RANGE, "the model's constants take more memory than is allowed");
    t->budget_bytes -= size;
    t->given_bytes += size;
    *out = kiln_tensor_create(t->graph->arena, tensor->dtype, &tensor->shape);
    if (tensor->bits)
        unpack(bytes, size, out->data);
    else if (size)
        memcpy(out->data, bytes.data, size);
    uint8_t *byte = out->data; /* values other than 0 and 1 are invalid bools */
    for (size_t i = 0; tensor->dtype == KILN_BOOL && i < size; i++) byte[i] = byte[i] != 0;
    return KILN_OK;
}

static void make_constant(kiln_tflite *t, kiln_tflite_tensor *tensor) {
    kiln_tensor data;
    kiln_status st = load_constant(t, tensor, &data);
    if (st) {
        kiln_tflite_fail(t, kiln_status_note(st, "tensor \"%.*s\"", KILN_STR_ARG(tensor->name)));
    } else if (t->graph->value.count >= KILN_GRAPH_VALUES_MAX) {
        kiln_tflite_fail(t, KILN_ERROR(OUT_OF_RANGE, "too many tensors"));
    } else {
        tensor->stored[KILN_TFLITE_LAST] = kiln_graph_add_constant(t->graph, tensor->name, &data);
        tensor->home = KILN_TFLITE_LAST;
    }
}

/* Makes the value of a variable before the run an input, under its name. Before the first run it is
 * 0. */
static void make_variable(kiln_tflite *t, kiln_tflite_tensor *tensor) {
    if (t->depth || tensor->bits)
        kiln_tflite_fail(t, KILN_ERROR(UNIMPLEMENTED, "tensor \"%.*s\": a variable of %s",
                                       KILN_STR_ARG(tensor->name),
                                       t->depth ? "a subgraph that is called" : "packed integers"));
    else if (t->graph->value.count >= KILN_GRAPH_VALUES_MAX)
        kiln_tflite_fail(t, KILN_ERROR(OUT_OF_RANGE, "too many tensors"));
    if (t->st) return;
    tensor->stored[KILN_TFLITE_LAST] =
        kiln_graph_add_input(t->graph, tensor->name, tensor->dtype, &tensor->shape);
    tensor->home = KILN_TFLITE_LAST;
}

/* ---- operands -------------------------------------------------------------------------------- */

static kiln_tflite_tensor *operand(const kiln_tflite *t, const kiln_flat_vector *list,
                                   uint32_t index) {
    if (index >= list->count) return NULL;
    const int64_t number = kiln_flat_item_int(list, index, 4);
    return number < 0 || number >= t->tensor_count ? NULL : &t->tensor[number];
}

kiln_tflite_tensor *kiln_tflite_input(const kiln_tflite *t, uint32_t index) {
    return operand(t, &t->input, index);
}

kiln_tflite_tensor *kiln_tflite_output(const kiln_tflite *t, uint32_t index) {
    return operand(t, &t->output, index);
}

kiln_tflite_tensor *kiln_tflite_needed(kiln_tflite *t, uint32_t index) {
    kiln_tflite_tensor *tensor = kiln_tflite_input(t, index);
    if (!tensor) kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "input %u is missing", index));
    return t->st ? NULL : tensor;
}

static bool equal_numbers(const kiln_tflite_tensor *a, const kiln_tflite_tensor *b) {
    return a->quantised && b->quantised && a->dtype == b->dtype && a->scale.shape.rank == 0 &&
           b->scale.shape.rank == 0 && memcmp(a->scale.data, b->scale.data, sizeof(float)) == 0 &&
           memcmp(a->zero.data, b->zero.data, kiln_dtype_size(a->dtype)) == 0;
}

bool kiln_tflite_same_numbers(const kiln_tflite *t) {
    const kiln_tflite_tensor *first = kiln_tflite_output(t, 0);
    bool read = false;
    for (uint32_t i = 0; i < t->output.count; i++) {
        const kiln_tflite_tensor *tensor = kiln_tflite_output(t, i);
        if (!first || !tensor || !equal_numbers(first, tensor)) return false;
    }
    for (uint32_t i = 0; first && i < t->input.count; i++) {
        const kiln_tflite_tensor *tensor = kiln_tflite_input(t, i);
        if (!tensor || !tensor->quantised) continue; /* axes, shapes, ... */
        if (!equal_numbers(first, tensor)) return false;
        read = true;
    }
    return read;
}

/* ---- forms of values ------------------------------------------------------------------------- */

kiln_value kiln_tflite_stored(kiln_tflite *t, kiln_tflite_tensor *tensor,
                              kiln_tflite_layout layout) {
    static const int64_t to_last[] = {0, 2, 3, 1}, to_first[] = {0, 3, 1, 2};
    if (t->st || !tensor) return 0;
    if (tensor->part.list)
        kiln_tflite_fail(t, KILN_ERROR(UNIMPLEMENTED,
                                       "tensor \"%.*s\" has a size that only the run knows",
                                       KILN_STR_ARG(tensor->name)));
    else if (!tensor->stored[KILN_TFLITE_LAST] && !tensor->stored[KILN_TFLITE_FIRST]) {
        if (tensor->variable)
            make_variable(t, tensor);
        else
            make_constant(t, tensor);
    }
    if (!t->st && layout == KILN_TFLITE_FIRST && tensor->shape.rank != 4)
        kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT,
                                       "tensor \"%.*s\" has %u dimensions instead of 4",
                                       KILN_STR_ARG(tensor->name), tensor->shape.rank));
    if (!t->st && !tensor->stored[layout])
        tensor->stored[layout] = kiln_tflite_transposed(
            t, tensor->stored[tensor->home], layout == KILN_TFLITE_FIRST ? to_first : to_last);
    return t->st ? 0 : tensor->stored[layout];
}

static kiln_value number_value(kiln_tflite *t, const kiln_tensor *number, kiln_value *made) {
    if (!*made) *made = kiln_tflite_constant(t, number);
    return *made;
}

kiln_value kiln_tflite_scale(kiln_tflite *t, kiln_tflite_tensor *tensor) {
    return number_value(t, &tensor->scale, &tensor->scale_value);
}

kiln_value kiln_tflite_zero(kiln_tflite *t, kiln_tflite_tensor *tensor) {
    return number_value(t, &tensor->zero, &tensor->zero_value);
}

/* quantize_linear or dequantize_linear by the tensor's scale and zero point. */
static kiln_value by_numbers(kiln_tflite *t, kiln_op op, kiln_tflite_tensor *tensor,
                             kiln_value value, kiln_tflite_layout layout) {
    if (t->st) return 0;
    const bool many = tensor->scale.shape.rank > 0;
    const uint32_t axis = many ? kiln_tflite_place(layout, tensor->axis) : 0;
    const kiln_attr attr = kiln_attr_int("axis", axis);
    const kiln_value input[] = {value, kiln_tflite_scale(t, tensor), kiln_tflite_zero(t, tensor)};
    return kiln_tflite_node(t, op, input, 3, &attr, many);
}

kiln_value kiln_tflite_real(kiln_tflite *t, kiln_tflite_tensor *tensor, kiln_tflite_layout layout) {
    const kiln_value stored = kiln_tflite_stored(t, tensor, layout);
    if (t->st || !tensor->quantised) return stored;
    if (!tensor->real[layout])
        tensor->real[layout] = by_numbers(t, KILN_OP_DEQUANTIZE_LINEAR, tensor, stored, layout);
    return t->st ? 0 : tensor->real[layout];
}

kiln_value kiln_tflite_as_real(kiln_tflite *t, kiln_tflite_tensor *tensor, kiln_value stored) {
    return tensor->quantised
               ? by_numbers(t, KILN_OP_DEQUANTIZE_LINEAR, tensor, stored, KILN_TFLITE_LAST)
               : stored;
}

kiln_value kiln_tflite_as_stored(kiln_tflite *t, kiln_tflite_tensor *tensor, kiln_value real) {
    return tensor->quantised
               ? by_numbers(t, KILN_OP_QUANTIZE_LINEAR, tensor, real, KILN_TFLITE_LAST)
               : real;
}

kiln_tflite_tensor *kiln_tflite_variable(kiln_tflite *t, uint32_t index) {
    kiln_tflite_tensor *tensor = kiln_tflite_needed(t, index);
    if (tensor && !tensor->variable)
        kiln_tflite_fail(
            t, KILN_ERROR(INVALID_ARGUMENT, "input %u, its state, is no variable", index));
    return t->st ? NULL : tensor;
}

void kiln_tflite_write(kiln_tflite *t, kiln_tflite_tensor *variable, kiln_value stored) {
    if (t->st) return;
    if (kiln_tflite_dtype(t, stored) != variable->dtype ||
        !kiln_shape_equal(kiln_tflite_shape(t, stored), &variable->shape)) {
        kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "its state \"%.*s\" has another shape",
                                       KILN_STR_ARG(variable->name)));
        return;
    }
    variable->written = true;
    variable->home = KILN_TFLITE_LAST;
    for (uint32_t layout = 0; layout < KILN_TFLITE_LAYOUT_COUNT; layout++)
        variable->stored[layout] = variable->real[layout] = 0;
    variable->stored[KILN_TFLITE_LAST] = stored;
}

kiln_value kiln_tflite_data(kiln_tflite *t, uint32_t index, kiln_tflite_layout layout) {
    kiln_tflite_tensor *tensor = kiln_tflite_needed(t, index);
    return t->keeps ? kiln_tflite_stored(t, tensor, layout) : kiln_tflite_real(t, tensor, layout);
}

/* Graph inputs that `value` depends on become constants where the caller knows their data. */
static void bind_known_inputs(kiln_tflite *t, kiln_value value) {
    kiln_value awaited;
    while (t->options->known_count &&
           (awaited = kiln_value_awaits(t->graph, value, &t->evaluation))) {
        const kiln_value_info *info = &t->graph->value.data[awaited];
        const kiln_tensor *known = NULL;
        for (uint32_t i = 0; i < t->options->known_count; i++)
            if (kiln_str_equal(t->options->known[i].name, info->name))
                known = &t->options->known[i].tensor;
        if (!known || known->dtype != info->dtype || !kiln_shape_equal(&known->shape, &info->shape))
            return;
        kiln_graph_set_constant(t->graph, awaited, known);
        t->bound_count++;
    }
}

bool kiln_tflite_ints(kiln_tflite *t, uint32_t index, uint32_t most, const int64_t **out_item,
                      uint32_t *out_count) {
    kiln_tensor known;
    const kiln_value value = kiln_tflite_stored(t, kiln_tflite_needed(t, index), KILN_TFLITE_LAST);
    if (t->st) return false;
    bind_known_inputs(t, value);
    t->st = kiln_status_note(kiln_value_evaluate(t->graph, value, &t->evaluation, &known),
                             "input %u must be known when compiling", index);
    const int64_t count = t->st ? 0 : kiln_shape_count(&known.shape);
    if (!t->st && (!is_integer(known.dtype) || count > most))
        t->st = KILN_ERROR(INVALID_ARGUMENT, "input %u must be at most %u integers", index, most);
    if (t->st) return false;
    int64_t *item = KILN_ARENA_ARRAY(t->graph->arena, int64_t, count + 1);
    for (int64_t i = 0; i < count; i++)
        item[i] = kiln_dtype_load_i64(known.dtype, known.data, (size_t)i);
    *out_item = item;
    *out_count = (uint32_t)count;
    return true;
}

/* ---- results --------------------------------------------------------------------------------- */

static const struct {
    kiln_op op;
    double low, high;
} activation_table[] = {
#define FIELD(table, name, number, bytes)
#define TYPE(name, number, dtype, bits)
#define ACTIVATION(name, number, op, low, high) [number] = {KILN_OP_##op, low, high},
#include "compiler-core/frontend/tflite/tflite.def"
#undef FIELD
#undef TYPE
#undef ACTIVATION
};

static kiln_value activated(kiln_tflite *t, kiln_value value) {
    const int64_t number = kiln_tflite_option(t, t->row->activation, 0);
    if (number < 0 || number >= (int64_t)KILN_ARRAY_COUNT(activation_table)) {
        kiln_tflite_fail(t, KILN_ERROR(UNIMPLEMENTED, "activation number %lld", (long long)number));
        return 0;
    }
    const kiln_op op = activation_table[number].op;
    if (op == KILN_OP_NONE) return value;
    if (op == KILN_OP_CLIP)
        return kiln_tflite_clipped(t, value, activation_table[number].low,
                                   activation_table[number].high);
    return kiln_tflite_unary(t, op, value);
}

/* The shape of a value in the file's order of dimensions. */
static kiln_shape shape_in_file(const kiln_tflite *t, kiln_value value, kiln_tflite_layout layout) {
    const kiln_shape own = *kiln_tflite_shape(t, value);
    kiln_shape shape = own;
    for (uint32_t d = 0; layout == KILN_TFLITE_FIRST && d < own.rank; d++)
        shape.dim[d] = own.dim[kiln_tflite_place(layout, d)];
    return shape;
}

/* Files give a shape to every tensor except those whose size is known at run time only. */
static void check_shape(kiln_tflite *t, const kiln_tflite_tensor *tensor, const kiln_shape *shape) {
    const kiln_shape *said = &tensor->shape;
    bool same = said->rank == shape->rank;
    for (uint32_t d = 0; same && d < said->rank; d++)
        same = t->shapes_are_ours || tensor->open[d] || said->dim[d] == shape->dim[d];
    if (same || said->rank == 0) return;
    kiln_strbuf text = {0};
    kiln_shape_print(shape, &text);
    kiln_strbuf_text(&text, ", the file says ");
    kiln_shape_print(said, &text);
    kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "its result \"%.*s\" has shape %s",
                                   KILN_STR_ARG(tensor->name), text.data));
    kiln_strbuf_deinit(&text);
}

void kiln_tflite_define(kiln_tflite *t, uint32_t index, kiln_value value,
                        kiln_tflite_layout layout) {
    kiln_tflite_tensor *tensor = kiln_tflite_output(t, index);
    if (t->st || !tensor) return;
    if (tensor->stored[KILN_TFLITE_LAST] || tensor->stored[KILN_TFLITE_FIRST])
        kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "its result \"%.*s\" is there already",
                                       KILN_STR_ARG(tensor->name)));
    value = activated(t, value);
    if (tensor->quantised && !t->keeps)
        value = by_numbers(t, KILN_OP_QUANTIZE_LINEAR, tensor, value, layout);
    if (t->st) return;
    if (kiln_tflite_dtype(t, value) != tensor->dtype)
        kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "its result \"%.*s\" is %s instead of %s",
                                       KILN_STR_ARG(tensor->name),
                                       kiln_dtype_name(kiln_tflite_dtype(t, value)),
                                       kiln_dtype_name(tensor->dtype)));
    const kiln_shape shape = shape_in_file(t, value, layout);
    check_shape(t, tensor, &shape);
    if (t->st) return;
    tensor->shape = shape;
    tensor->home = layout;
    tensor->stored[layout] = value;
    if (value >= t->first_value && !kiln_graph_find_value(t->graph, tensor->name))
        kiln_graph_rename_value(t->graph, value, tensor->name);
}
