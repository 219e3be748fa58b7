/* Nodes that are not one operator: values known while importing, and older forms of operators. */
#include <math.h>
#include <string.h>

#include "base/small_float.h"
#include "compiler-core/frontend/onnx/compose.h"
#include "compiler-core/graph/op.h"

#define RANGE_ITEMS_MAX ((int64_t)1 << 28) /* items that a double can count exactly */

static kiln_tensor vector_of_i64(kiln_importer *im, const int64_t *item, uint32_t count,
                                 uint32_t rank) {
    kiln_shape shape = {.rank = rank, .dim = {count}};
    kiln_tensor tensor = kiln_tensor_create(im->graph->arena, KILN_I64, &shape);
    if (count) memcpy(tensor.data, item, sizeof *item * count);
    return tensor;
}

static kiln_status input_info(const kiln_importer *im, uint32_t index,
                              const kiln_value_info **out_info) {
    kiln_value value = kiln_import_input(im, index);
    if (!value) return KILN_ERROR(INVALID_ARGUMENT, "input %u is missing", index);
    *out_info = &im->graph->value.data[value];
    return KILN_OK;
}

/* ---- constants ------------------------------------------------------------------------------- */

kiln_status kiln_import_constant(kiln_importer *im) {
    kiln_tensor tensor;
    uint32_t bits = 0;
    if (im->node->n_attribute != 1)
        return KILN_ERROR(INVALID_ARGUMENT, "it must have exactly one attribute");
    const Onnx__AttributeProto *a = im->node->attribute[0];
    kiln_str name = kiln_proto_text(a->name);
    if (kiln_str_is(name, "value") && a->t) {
        kiln_status st =
            kiln_onnx_tensor(a->t, &im->files, &im->budget_bytes, im->graph->arena, &tensor);
        if (st) return kiln_status_note(st, "attribute value");
        bits = kiln_onnx_tensor_bits(a->t);
    } else if (kiln_str_is(name, "value_int")) {
        tensor = vector_of_i64(im, &a->i, 1, 0);
    } else if (kiln_str_is(name, "value_ints")) {
        tensor = vector_of_i64(im, a->ints, (uint32_t)a->n_ints, 1);
    } else if (kiln_str_is(name, "value_float") || kiln_str_is(name, "value_floats")) {
        bool scalar = kiln_str_is(name, "value_float");
        kiln_shape shape = {.rank = scalar ? 0 : 1, .dim = {(int64_t)a->n_floats}};
        tensor = kiln_tensor_create(im->graph->arena, KILN_F32, &shape);
        size_t count = (size_t)kiln_shape_count(&shape);
        if (count) memcpy(tensor.data, scalar ? &a->f : a->floats, sizeof(float) * count);
    } else {
        return KILN_ERROR(UNIMPLEMENTED, "attribute %.*s", KILN_STR_ARG(name));
    }
    kiln_import_define_constant(im, &tensor);
    kiln_import_set_bits(im, kiln_import_defined(im, 0), bits);
    return KILN_OK;
}

kiln_status kiln_import_constant_of_shape(kiln_importer *im) {
    const Onnx__AttributeProto *a = kiln_import_attribute(im, "value");
    kiln_tensor dims, item = {0};
    kiln_shape shape = {0};
    kiln_status st = kiln_import_demand(im, 0, &dims);
    if (st) return st;
    if (dims.dtype != KILN_I64 || dims.shape.rank > 1 ||
        kiln_shape_count(&dims.shape) > KILN_RANK_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "input 0 is no vector of at most %u dimensions",
                          KILN_RANK_MAX);
    shape.rank = (uint32_t)kiln_shape_count(&dims.shape);
    for (uint32_t d = 0; d < shape.rank; d++) {
        shape.dim[d] = ((const int64_t *)dims.data)[d];
        if (shape.dim[d] < 0)
            return KILN_ERROR(INVALID_ARGUMENT, "input 0: dimension %u is negative", d);
    }
    if (a && a->t) {
        st = kiln_onnx_tensor(a->t, &im->files, &im->budget_bytes, im->graph->arena, &item);
        if (st) return kiln_status_note(st, "attribute value");
        if (kiln_shape_count(&item.shape) != 1)
            return KILN_ERROR(INVALID_ARGUMENT, "attribute value must hold one element");
    } else {
        item = kiln_tensor_create(im->graph->arena, KILN_F32, &(kiln_shape){.rank = 1, .dim = {1}});
    }
    kiln_composer c = {.im = im};
    kiln_value filled = kiln_compose_spread(&c, &item, &shape);
    if (!c.st)
        im->graph->value.data[filled].name =
            kiln_str_copy(im->graph->arena, kiln_import_output_name(im, 0));
    kiln_compose_define(&c, 0, filled);
    if (!c.st && a && a->t) kiln_import_set_bits(im, filled, kiln_onnx_tensor_bits(a->t));
    return c.st;
}

kiln_status kiln_import_eye_like(kiln_importer *im) {
    const Onnx__AttributeProto *k = kiln_import_attribute(im, "k"),
                               *type = kiln_import_attribute(im, "dtype");
    const kiln_value_info *in = NULL;
    size_t size_bytes;
    kiln_status st = input_info(im, 0, &in);
    if (st) return st;
    kiln_dtype dtype = in->dtype;
    if (type && !kiln_onnx_dtype_find(type->i, &dtype))
        return KILN_ERROR(UNIMPLEMENTED, "attribute dtype: %lld", (long long)type->i);
    if (in->shape.rank != 2) return KILN_ERROR(INVALID_ARGUMENT, "input 0 must be a matrix");
    st = kiln_shape_bytes(&in->shape, dtype, &size_bytes);
    if (!st) st = kiln_import_take_memory(im, size_bytes);
    if (st) return st;
    kiln_tensor tensor = kiln_tensor_create(im->graph->arena, dtype, &in->shape);
    for (int64_t row_index = 0; row_index < in->shape.dim[0]; row_index++) {
        int64_t column;
        if (__builtin_add_overflow(row_index, k ? k->i : 0, &column)) continue;
        if (column >= 0 && column < in->shape.dim[1])
            kiln_dtype_store_i64(dtype, tensor.data,
                                 (size_t)(row_index * in->shape.dim[1] + column), 1);
    }
    kiln_import_define_constant(im, &tensor);
    return KILN_OK;
}

/* Shapes are known, so Shape and Size are constants. */
kiln_status kiln_import_shape(kiln_importer *im) {
    const Onnx__AttributeProto *start = kiln_import_attribute(im, "start"),
                               *end = kiln_import_attribute(im, "end");
    const kiln_value_info *in = NULL;
    kiln_status st = input_info(im, 0, &in);
    if (st) return st;
    int64_t rank = in->shape.rank, from = start ? start->i : 0, to = end ? end->i : rank;
    from = KILN_MIN(KILN_MAX(from < 0 ? from + rank : from, 0), rank);
    to = KILN_MIN(KILN_MAX(to < 0 ? to + rank : to, 0), rank);
    kiln_tensor tensor =
        vector_of_i64(im, in->shape.dim + from, to > from ? (uint32_t)(to - from) : 0, 1);
    kiln_import_define_constant(im, &tensor);
    return KILN_OK;
}

kiln_status kiln_import_size(kiln_importer *im) {
    const kiln_value_info *in = NULL;
    kiln_status st = input_info(im, 0, &in);
    if (st) return st;
    int64_t count = kiln_shape_count(&in->shape);
    kiln_tensor tensor = vector_of_i64(im, &count, 1, 0);
    kiln_import_define_constant(im, &tensor);
    return KILN_OK;
}

/* start, limit, delta */
kiln_status kiln_import_range(kiln_importer *im) {
    kiln_tensor in[3];
    for (uint32_t i = 0; i < 3; i++) {
        kiln_status st = kiln_import_demand(im, i, &in[i]);
        if (st) return st;
        if (in[i].dtype != in[0].dtype || kiln_shape_count(&in[i].shape) != 1)
            return KILN_ERROR(INVALID_ARGUMENT, "input %u must be a scalar of input 0's type", i);
    }
    double start = kiln_dtype_load_f64(in[0].dtype, in[0].data, 0),
           limit = kiln_dtype_load_f64(in[1].dtype, in[1].data, 0);
    double delta = kiln_dtype_load_f64(in[2].dtype, in[2].data, 0),
           count = ceil((limit - start) / delta);
    if (!(count > 0)) count = 0; /* NaN as well */
    if (count > RANGE_ITEMS_MAX) return KILN_ERROR(OUT_OF_RANGE, "it has too many elements");
    kiln_status st = kiln_import_take_memory(im, (size_t)count * kiln_dtype_size(in[0].dtype));
    if (st) return st;
    kiln_tensor tensor = kiln_tensor_create(im->graph->arena, in[0].dtype,
                                            &(kiln_shape){.rank = 1, .dim = {(int64_t)count}});
    for (size_t i = 0; i < (size_t)count; i++)
        kiln_dtype_store_f64(tensor.dtype, tensor.data, i, start + delta * (double)i);
    kiln_import_define_constant(im, &tensor);
    return KILN_OK;
}

/* ---- other forms of operators ---------------------------------------------------- */

/* The current node with a text attribute of another value. */
static kiln_status emit_with(kiln_importer *im, const char *name, const char *text,
                             uint32_t input_count) {
    kiln_value input[] = {kiln_import_input(im, 0), kiln_import_input(im, 1)};
    kiln_import_row row = *im->row;
    row.spec = kiln_arena_printf(im->graph->arena, "%s%s-%s %s=%s", row.spec, *row.spec ? " " : "",
                                 name, name, text);
    return kiln_import_emit(im, &row, input, input_count);
}

/* To integers of 2 or 4 bits, one in each byte of `dtype`: the lowest bits of the whole number. */
static kiln_status cast_to_bits(kiln_importer *im, kiln_dtype dtype, uint32_t bits) {
    kiln_composer c = {.im = im};
    const double count = (double)(1 << bits), offset = dtype == KILN_I8 ? count / 2 : 0;
    kiln_value x = kiln_import_input(im, 0);
    if (!x) return KILN_ERROR(INVALID_ARGUMENT, "input 0 is missing");
    const kiln_value half = kiln_compose_scalar(&c, KILN_I32, offset);
    x = kiln_compose_binary(&c, KILN_OP_ADD, kiln_compose_cast(&c, x, KILN_I32), half);
    x = kiln_compose_binary(&c, KILN_OP_BITWISE_AND, x,
                            kiln_compose_scalar(&c, KILN_I32, count - 1));
    x = kiln_compose_cast(&c, kiln_compose_binary(&c, KILN_OP_SUB, x, half), dtype);
    kiln_compose_define(&c, 0, x);
    if (!c.st) kiln_import_set_bits(im, x, bits);
    return c.st;
}

/* To a float of at most 8 bits. */
static kiln_status cast_to_small(kiln_importer *im, kiln_dtype dtype) {
    kiln_composer c = {.im = im};
    kiln_value x = kiln_import_input(im, 0);
    if (!x) return KILN_ERROR(INVALID_ARGUMENT, "input 0 is missing");
    x = kiln_compose_small(&c, x, dtype);
    kiln_compose_define(&c, 0, x);
    if (!c.st) kiln_import_set_bits(im, x, kiln_onnx_dtype_bits(dtype));
    return c.st;
}

/* Translates ONNX's number of a type to Kiln's name. */
kiln_status kiln_import_cast(kiln_importer *im) {
    const Onnx__AttributeProto *to = kiln_import_attribute(im, "to");
    kiln_dtype dtype;
    uint32_t bits = 0;
    if (kiln_import_reads_poison(im)) return KILN_OK;
    const bool narrow = im->row->op == KILN_OP_CAST;
    if (!(narrow ? kiln_onnx_type_find(to ? to->i : 0, &dtype, &bits)
                 : kiln_onnx_dtype_find(to ? to->i : 0, &dtype)))
        return KILN_ERROR(UNIMPLEMENTED, "attribute to: type %lld is not supported",
                          (long long)(to ? to->i : 0));
    if (!narrow && kiln_onnx_dtype_bits(dtype))
        return KILN_ERROR(UNIMPLEMENTED, "attribute to: elements of 4 bits");
    if (narrow && kiln_small_float_of(dtype)) return cast_to_small(im, dtype);
    if (bits) return cast_to_bits(im, dtype, bits);
    return emit_with(im, "to", kiln_dtype_name(dtype), 1);
}

/* The type of input 1 becomes the attribute `to`. */
kiln_status kiln_import_cast_like(kiln_importer *im) {
    const kiln_value_info *like = NULL;
    if (kiln_import_reads_poison(im)) return KILN_OK;
    kiln_status st = input_info(im, 1, &like);
    const uint32_t bits = kiln_import_bits(im, kiln_import_input(im, 1));
    if (!st && kiln_small_float_of(like->dtype)) return cast_to_small(im, like->dtype);
    if (!st && bits) return cast_to_bits(im, like->dtype, bits);
    return st ? st : emit_with(im, "to", kiln_dtype_name(like->dtype), 1);
}

/* Before opset 20 the modes were named after images. */
kiln_status kiln_import_grid_sample(kiln_importer *im) {
    const Onnx__AttributeProto *mode = kiln_import_attribute(im, "mode");
    kiln_str name = mode ? kiln_proto_bytes(mode->s) : KILN_STR("bilinear");
    const char *now = kiln_str_is(name, "bilinear")  ? "linear"
                      : kiln_str_is(name, "bicubic") ? "cubic"
                                                     : "nearest";
    return emit_with(im, "mode", now, 2);
}

/* At inference the ratio does not matter; training_mode (input 2) must be false, or the ratio 0. */
kiln_status kiln_import_dropout(kiln_importer *im) {
    if (kiln_import_input(im, 2)) {
        kiln_tensor training;
        kiln_status st = kiln_import_demand(im, 2, &training);
        if (st) return kiln_status_note(st, "training_mode");
        if (kiln_shape_count(&training.shape) != 1)
            return KILN_ERROR(INVALID_ARGUMENT, "training_mode must be a scalar");
        double ratio = 0.5;
        const bool trains = kiln_dtype_load_i64(training.dtype, training.data, 0) != 0;
        if (trains && kiln_import_input(im, 1)) {
            st = kiln_status_note(kiln_import_demand_float(im, 1, &ratio), "ratio");
            if (st) return st;
        }
        if (trains && ratio != 0)
            return KILN_ERROR(UNIMPLEMENTED, "training_mode: 1, only 0 is supported");
    }
    kiln_value input = kiln_import_input(im, 0);
    return kiln_import_emit(im, im->row, &input, 1);
}

/* Appends ones to the shape of an operand, so that its dimensions align with those from `axis`
 * on. */
static kiln_status align(kiln_importer *im, kiln_value *operand, uint32_t rank, uint32_t axis) {
    const kiln_value_info *info = &im->graph->value.data[*operand];
    int64_t axes[KILN_RANK_MAX];
    uint32_t ones = 0;
    for (uint32_t d = axis + info->shape.rank; d < rank; d++)
        axes[ones++] = info->shape.rank + (d - axis - info->shape.rank);
    if (!ones) return KILN_OK;
    kiln_str name = kiln_import_fresh_name(im);
    kiln_node node = kiln_graph_add_node(im->graph, KILN_OP_UNSQUEEZE, name, 1, 1);
    kiln_graph_set_input(im->graph, node, 0, *operand);
    kiln_graph_set_ints(im->graph, node, "axes", axes, ones);
    *operand = kiln_graph_add_named_value(im->graph, name);
    kiln_graph_set_output(im->graph, node, 0, *operand);
    return kiln_node_infer(im->graph, node);
}

/* Before opset 7 the second operand's dimensions could be aligned with those from `axis` on. */
kiln_status kiln_import_broadcast(kiln_importer *im) {
    const Onnx__AttributeProto *axis = kiln_import_attribute(im, "axis"),
                               *wanted = kiln_import_attribute(im, "broadcast");
    kiln_value input[2] = {kiln_import_input(im, 0), kiln_import_input(im, 1)};
    if (input[0] && input[1] && axis && wanted && wanted->i) {
        uint32_t rank = im->graph->value.data[input[0]].shape.rank,
                 own = im->graph->value.data[input[1]].shape.rank;
        int64_t at = axis->i < 0 ? axis->i + rank : axis->i;
        if (at < 0 || at + own > rank)
            return KILN_ERROR(INVALID_ARGUMENT, "attribute axis: %lld is out of range",
                              (long long)axis->i);
        kiln_status st = align(im, &input[1], rank, (uint32_t)at);
        if (st) return st;
    }
    return kiln_import_emit(im, im->row, input, 2);
}

/* Before opset 7 a vector of slopes belonged to the channels (dimension 1). */
kiln_status kiln_import_prelu(kiln_importer *im) {
    kiln_value input[2] = {kiln_import_input(im, 0), kiln_import_input(im, 1)};
    if (input[0] && input[1]) {
        const kiln_shape *slope = &im->graph->value.data[input[1]].shape;
        uint32_t rank = im->graph->value.data[input[0]].shape.rank;
        bool by_channel = slope->rank == 1 && slope->dim[0] != 1 && rank > 1;
        kiln_status st = by_channel ? align(im, &input[1], rank, 1) : KILN_OK;
        if (st) return st;
    }
    return kiln_import_emit(im, im->row, input, 2);
}
