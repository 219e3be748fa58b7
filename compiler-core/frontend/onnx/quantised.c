/* Convolutions and products of quantised tensors, in integers: exact, while the same arithmetic on
 * real numbers would be rounded.
 *
 *     sum of (x - zero_x) * scale_x * (w - zero_w) * scale_w  =  scale_x * scale_w * (an integer
 * sum)
 *
 * Both of ONNX's forms end here: DequantizeLinear before a convolution or product, and the QLinear
 * operators. */
#include <math.h>
#include <string.h>

#include "base/small_float.h"
#include "compiler-core/frontend/onnx/compose.h"
#include "compiler-core/graph/op.h"
#include "compiler-core/ops/rules.h"

/* A tensor of 8-bit integers with its scale and zero point. */
typedef struct quantised {
    kiln_value data, zero; /* zero: 0 when all zero points are 0 */
    kiln_tensor scale;     /* one element, or one per index of dimension `axis` */
    uint32_t axis;
} quantised;

static bool is_byte(kiln_dtype dtype) { return dtype == KILN_I8 || dtype == KILN_U8; }

static bool is_all_zero(const kiln_graph *graph, kiln_value value) {
    const kiln_value_info *info = &graph->value.data[value];
    for (int64_t i = 0; i < kiln_shape_count(&info->shape); i++)
        if (kiln_dtype_load_i64(info->dtype, info->data, (size_t)i)) return false;
    return true;
}

/* Whether scale and zero point are known, and few enough for arithmetic on sums. */
static bool describe(const kiln_graph *graph, kiln_value data, kiln_value scale, kiln_value zero,
                     uint32_t axis, quantised *out) {
    if (!is_byte(graph->value.data[data].dtype) || !kiln_value_is_constant(graph, scale))
        return false;
    *out = (quantised){.data = data, .scale = kiln_value_tensor(graph, scale), .axis = axis};
    if (out->scale.shape.rank > 1) return false;
    if (!zero) return true;
    if (!kiln_value_is_constant(graph, zero)) return false;
    if (is_all_zero(graph, zero)) return true;
    out->zero = zero;
    return kiln_shape_count(&graph->value.data[zero].shape) == 1;
}

static bool describe_dequantised(const kiln_graph *graph, kiln_value value, quantised *out) {
    kiln_node producer = value ? graph->value.data[value].producer : 0;
    const kiln_node_info *node = &graph->node.data[producer];
    if (!producer || node->op != KILN_OP_DEQUANTIZE_LINEAR) return false;
    const kiln_shape *shape = &graph->value.data[node->input[0]].shape;
    int64_t axis = kiln_node_int(node, "axis");
    kiln_value zero = node->input_count > 2 ? node->input[2] : 0;
    return describe(graph, node->input[0], node->input[1], zero,
                    (uint32_t)(axis < 0 ? axis + shape->rank : axis), out);
}

/* ---- one quantisation ------------------------------------------------------------------------ */

/* Reads an attribute that names a type, if it is given and not 0. */
static kiln_status read_type(const kiln_importer *im, const char *name, bool *out_given,
                             kiln_dtype *out_dtype, uint32_t *out_bits) {
    const int64_t number = kiln_import_int(im, name, 0);
    *out_given = number != 0;
    if (number && !kiln_onnx_type_find(number, out_dtype, out_bits))
        return KILN_ERROR(UNIMPLEMENTED, "attribute %s: type %lld is not supported", name,
                          (long long)number);
    return KILN_OK;
}

/* Zero points of a type that is given by an attribute alone. */
static kiln_value make_zeros(kiln_importer *im, kiln_dtype dtype) {
    const kiln_value_info *scale = &im->graph->value.data[kiln_import_input(im, 1)];
    const kiln_tensor zeros = kiln_tensor_create(im->graph->arena, dtype, &scale->shape);
    return kiln_graph_add_constant(im->graph, KILN_STR("zero_point"), &zeros);
}

/* The result's type is that of the zero point, or `output_dtype`, or u8. `bits` is an attribute of
 * Kiln, not of ONNX. */
kiln_status kiln_import_quantize_linear(kiln_importer *im) {
    kiln_value input[] = {kiln_import_input(im, 0), kiln_import_input(im, 1),
                          kiln_import_input(im, 2)};
    kiln_import_row row = *im->row;
    kiln_dtype dtype = KILN_U8, precision = KILN_F32;
    uint32_t bits = 0, ignored;
    bool given, precise;
    if (kiln_import_reads_poison(im)) return kiln_import_node(im);
    kiln_status st = read_type(im, "output_dtype", &given, &dtype, &bits);
    if (!st) st = read_type(im, "precision", &precise, &precision, &ignored);
    const uint32_t zero_bits = kiln_import_bits(im, input[2]);
    if (!st && kiln_import_attribute(im, "bits")) st = KILN_ERROR(UNIMPLEMENTED, "attribute bits");
    if (!st && (!input[0] || !input[1])) st = KILN_ERROR(INVALID_ARGUMENT, "an input is missing");
    if (st) return st;
    if (input[2] && !given) {
        dtype = im->graph->value.data[input[2]].dtype;
        bits = zero_bits;
    }
    if (input[2] && (dtype != im->graph->value.data[input[2]].dtype || bits != zero_bits))
        return KILN_ERROR(INVALID_ARGUMENT, "attribute output_dtype is not the zero point's type");
    if (kiln_small_float_of(dtype)) return kiln_import_quantize_small(im, dtype);
    if (precision != KILN_F32)
        return KILN_ERROR(UNIMPLEMENTED, "attribute precision: %s, only f32 is supported",
                          kiln_dtype_name(precision));
    if (kiln_import_int(im, "block_size", 0)) {
        st = kiln_import_quantize_blocks(im, dtype, bits);
        if (!st) kiln_import_set_bits(im, kiln_import_defined(im, 0), bits);
        return st;
    }
    if (!input[2] && given) input[2] = make_zeros(im, dtype);
    if (bits) row.spec = kiln_arena_printf(im->graph->arena, "%s bits=%u", row.spec, bits);
    st = kiln_import_emit(im, &row, input, input[2] ? 3 : 2);
    if (!st) kiln_import_set_bits(im, kiln_import_defined(im, 0), bits);
    return st;
}

kiln_status kiln_import_dequantize_linear(kiln_importer *im) {
    const kiln_value data = kiln_import_input(im, 0), scale = kiln_import_input(im, 1),
                     zero = kiln_import_input(im, 2);
    kiln_dtype dtype = KILN_DTYPE_NONE;
    uint32_t bits;
    bool given;
    if (kiln_import_reads_poison(im)) return kiln_import_node(im);
    if (data && scale &&
        (kiln_small_float_of(im->graph->value.data[data].dtype) ||
         kiln_small_float_of(im->graph->value.data[scale].dtype)))
        return kiln_import_dequantize_small(im);
    kiln_status st = read_type(im, "output_dtype", &given, &dtype, &bits);
    if (!st && given && scale && dtype != im->graph->value.data[scale].dtype)
        st = KILN_ERROR(UNIMPLEMENTED, "attribute output_dtype: it is not the scale's type");
    if (!st && zero && kiln_import_bits(im, data) != kiln_import_bits(im, zero))
        st = KILN_ERROR(INVALID_ARGUMENT,
                        "integers of %u bits with a zero point of %u (0: those of a whole type)",
                        kiln_import_bits(im, data), kiln_import_bits(im, zero));
    if (st || !kiln_import_int(im, "block_size", 0)) return st ? st : kiln_import_node(im);
    return data && scale ? kiln_import_dequantize_blocks(im)
                         : KILN_ERROR(INVALID_ARGUMENT, "an input is missing");
}

/* ---- sums ------------------------------------------------------------------------------------ */

static bool is_scalar(const quantised *q) { return kiln_shape_count(&q->scale.shape) == 1; }

/* scale_x * scale_w * factor: one number, or one per output channel. */
static kiln_tensor product_of_scales(const kiln_importer *im, const quantised *x,
                                     const quantised *w, double factor) {
    kiln_tensor product = kiln_tensor_create(im->graph->arena, KILN_F32, &w->scale.shape);
    for (int64_t i = 0; i < kiln_shape_count(&product.shape); i++)
        kiln_dtype_store_f64(KILN_F32, product.data, (size_t)i,
                             kiln_dtype_load_f64(x->scale.dtype, x->scale.data, 0) * factor *
                                 kiln_dtype_load_f64(w->scale.dtype, w->scale.data, (size_t)i));
    return product;
}

/* Reshapes a vector over output channels to broadcast to a result of `rank` dimensions whose
 * channels are `axis`. */
static kiln_value along(kiln_composer *c, kiln_value vector, uint32_t rank, uint32_t axis) {
    if (c->st || kiln_compose_shape(c, vector)->rank != 1) return vector;
    kiln_shape shape = {.rank = rank - axis, .dim = {kiln_compose_shape(c, vector)->dim[0]}};
    for (uint32_t d = 1; d < shape.rank; d++) shape.dim[d] = 1;
    return kiln_compose_reshape(c, vector, &shape);
}

/* A bias that was quantised with the scale of the sums is added to the sums. */
static kiln_value integer_bias(const kiln_graph *graph, kiln_value bias, const kiln_tensor *scale) {
    kiln_node producer = bias ? graph->value.data[bias].producer : 0;
    const kiln_node_info *node = &graph->node.data[producer];
    if (!producer || node->op != KILN_OP_DEQUANTIZE_LINEAR) return 0;
    const kiln_value_info *own = &graph->value.data[node->input[1]];
    bool zero =
        node->input_count < 3 || !node->input[2] ||
        (kiln_value_is_constant(graph, node->input[2]) && is_all_zero(graph, node->input[2]));
    if (graph->value.data[node->input[0]].dtype != KILN_I32 || !zero || !own->data ||
        own->dtype != KILN_F32 || kiln_shape_count(&own->shape) != kiln_shape_count(&scale->shape))
        return 0;
    for (int64_t i = 0; i < kiln_shape_count(&own->shape); i++) {
        double mine = (double)((const float *)own->data)[i],
               theirs = (double)((const float *)scale->data)[i];
        if (fabs(mine - theirs) > 1e-6 * fabs(theirs)) return 0;
    }
    return node->input[0];
}

/* (sums + bias) * scale; the result's channels are dimension `axis`. */
static kiln_value scaled(kiln_composer *c, kiln_value sums, kiln_value bias_sums,
                         const kiln_tensor *scale, uint32_t axis) {
    if (c->st) return 0;
    uint32_t rank = kiln_compose_shape(c, sums)->rank;
    if (bias_sums)
        sums = kiln_compose_binary(c, KILN_OP_ADD, sums, along(c, bias_sums, rank, axis));
    kiln_value factor = along(c, kiln_compose_constant(c, scale), rank, axis);
    return kiln_compose_binary(c, KILN_OP_MUL, kiln_compose_cast(c, sums, KILN_F32), factor);
}

static kiln_value plus_bias(kiln_composer *c, kiln_value value, kiln_value bias, uint32_t axis) {
    if (!bias || c->st) return value;
    uint32_t rank = kiln_compose_shape(c, value)->rank;
    return kiln_compose_binary(c, KILN_OP_ADD, value, along(c, bias, rank, axis));
}

/* The operator on integers. Convolutions get the ONNX node's attributes. */
static kiln_value convolve(kiln_composer *c, const quantised *x, const quantised *w) {
    const kiln_import_row row = {"", 0, KILN_OP_CONV_INTEGER, NULL, ""};
    kiln_value operand[] = {x->data, w->data, x->zero, w->zero}, sums = 0;
    if (!c->st) c->st = kiln_import_emit(c->im, &row, operand, w->zero ? 4 : x->zero ? 3 : 2);
    if (!c->st) sums = kiln_import_defined(c->im, 0);
    return sums;
}

static kiln_value multiply(kiln_composer *c, const quantised *x, const quantised *w) {
    kiln_value operand[] = {x->data, w->data, x->zero, w->zero}, sums = 0;
    kiln_compose_node(c, KILN_OP_MATMUL_INTEGER, operand,
                      w->zero   ? 4
                      : x->zero ? 3
                                : 2,
                      NULL, 0, &sums, 1);
    return sums;
}

/* The sums of a product, scaled; its channels are the last dimension. */
static kiln_value scaled_product(kiln_composer *c, const quantised *x, const quantised *w,
                                 const kiln_tensor *scale) {
    kiln_value sums = multiply(c, x, w);
    return c->st ? 0 : scaled(c, sums, 0, scale, kiln_compose_shape(c, sums)->rank - 1);
}

/* ---- the operators --------------------------------------------------------------------------- */

/* Whether the operands of a convolution, or of a product, are quantised so that its sums can be
 * scaled. */
static bool find_operands(const kiln_importer *im, uint32_t channel_axis, quantised *x,
                          quantised *w) {
    kiln_value weight = kiln_import_input(im, 1);
    if (!describe_dequantised(im->graph, kiln_import_input(im, 0), x) ||
        !describe_dequantised(im->graph, weight, w) || x->scale.dtype != KILN_F32)
        return false; /* the result's type is that of the scales */
    return is_scalar(x) && (is_scalar(w) || w->axis == channel_axis);
}

kiln_status kiln_import_conv(kiln_importer *im) {
    quantised x, w;
    if (kiln_import_reads_poison(im) || !find_operands(im, 0, &x, &w)) return kiln_import_node(im);
    kiln_composer c = {.im = im};
    kiln_tensor scale = product_of_scales(im, &x, &w, 1);
    kiln_value bias = kiln_import_input(im, 2), whole = integer_bias(im->graph, bias, &scale);
    kiln_value sums = convolve(&c, &x, &w);
    kiln_value y = scaled(&c, sums, whole, &scale, 1);
    kiln_compose_define(&c, 0, plus_bias(&c, y, whole ? 0 : bias, 1));
    return c.st;
}

kiln_status kiln_import_matmul(kiln_importer *im) {
    quantised x, w;
    if (kiln_import_reads_poison(im) || !find_operands(im, 1, &x, &w) ||
        im->graph->value.data[w.data].shape.rank != 2)
        return kiln_import_node(im);
    kiln_composer c = {.im = im};
    kiln_tensor scale = product_of_scales(im, &x, &w, 1);
    kiln_compose_define(&c, 0, scaled_product(&c, &x, &w, &scale));
    return c.st;
}

kiln_status kiln_import_gemm(kiln_importer *im) {
    quantised x, w;
    bool turn_b = kiln_import_int(im, "transB", 0) != 0;
    double beta = kiln_import_float(im, "beta", 1);
    if (kiln_import_reads_poison(im) || !find_operands(im, turn_b ? 0 : 1, &x, &w) ||
        kiln_import_int(im, "transA", 0) || beta != 1)
        return kiln_import_node(im);
    static const int64_t swap[] = {1, 0};
    kiln_composer c = {.im = im};
    kiln_tensor scale = product_of_scales(im, &x, &w, kiln_import_float(im, "alpha", 1));
    kiln_value bias = kiln_import_input(im, 2), whole = integer_bias(im->graph, bias, &scale);
    if (turn_b) w.data = kiln_compose_ints(&c, KILN_OP_TRANSPOSE, w.data, "perm", swap, 2);
    kiln_value y = scaled(&c, multiply(&c, &x, &w), whole, &scale, 1);
    if (bias && !whole) y = kiln_compose_binary(&c, KILN_OP_ADD, y, bias);
    kiln_compose_define(&c, 0, y);
    return c.st;
}

/* Operands of both: x, its scale, its zero point, w, its scale, its zero point, the result's scale
 * and zero point. */
static kiln_status find_linear_operands(const kiln_importer *im, uint32_t channel_axis,
                                        quantised *x, quantised *w) {
    kiln_value in[8];
    for (uint32_t i = 0; i < 8; i++)
        if (!(in[i] = kiln_import_input(im, i)))
            return KILN_ERROR(INVALID_ARGUMENT, "input %u is missing", i);
    if (describe(im->graph, in[0], in[1], in[2], 0, x) &&
        describe(im->graph, in[3], in[4], in[5], channel_axis, w) && is_scalar(x))
        return KILN_OK;
    return KILN_ERROR(UNIMPLEMENTED,
                      "scales or zero points that are known only at run time, or differ within the "
                      "first operand");
}

/* In ONNX's backend tests scales and zero points are inputs. */
static kiln_status demand_scales(kiln_importer *im) {
    static const uint32_t index[] = {1, 2, 4, 5};
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < KILN_ARRAY_COUNT(index); i++) {
        kiln_tensor known;
        st = kiln_import_demand(im, index[i], &known);
    }
    return st;
}

/* `conv` or a product: y = x / scale + zero, rounded and clamped to the type of `zero`. */
static kiln_status import_qlinear(kiln_importer *im, bool conv) {
    quantised x, w;
    kiln_composer c = {.im = im};
    kiln_status st = demand_scales(im);
    if (!st) st = find_linear_operands(im, conv ? 0 : 1, &x, &w);
    if (st) return st;
    kiln_tensor scale = product_of_scales(im, &x, &w, 1);
    kiln_value y = conv ? scaled(&c, convolve(&c, &x, &w), kiln_import_input(im, 8), &scale, 1)
                        : scaled_product(&c, &x, &w, &scale);
    kiln_value operand[] = {y, kiln_import_input(im, 6), kiln_import_input(im, 7)}, result = 0;
    kiln_compose_node(&c, KILN_OP_QUANTIZE_LINEAR, operand, 3, NULL, 0, &result, 1);
    kiln_compose_define(&c, 0, result);
    return c.st;
}

/* A product and its bias, of integers in units of the sums, with the scale and zero point of the
 * result; without these the result is in floats. */
kiln_status kiln_import_qgemm(kiln_importer *im) {
    quantised x, w;
    static const int64_t swap[] = {1, 0};
    kiln_composer c = {.im = im};
    const bool turn_b = kiln_import_int(im, "transB", 0) != 0;
    kiln_value in[9];
    for (uint32_t i = 0; i < 9; i++) in[i] = kiln_import_input(im, i);
    for (uint32_t i = 0; i < 6; i++)
        if (!in[i]) return KILN_ERROR(INVALID_ARGUMENT, "input %u is missing", i);
    if (!describe(im->graph, in[0], in[1], in[2], 0, &x) ||
        !describe(im->graph, in[3], in[4], in[5], turn_b ? 0 : 1, &w) || !is_scalar(&x) ||
        kiln_import_int(im, "transA", 0))
        return KILN_ERROR(UNIMPLEMENTED, "transA, or scales or zero points that are known only at "
                                         "run time, or differ within the first operand");
    const kiln_tensor scale = product_of_scales(im, &x, &w, kiln_import_float(im, "alpha", 1));
    if (turn_b) w.data = kiln_compose_ints(&c, KILN_OP_TRANSPOSE, w.data, "perm", swap, 2);
    kiln_value y = scaled(&c, multiply(&c, &x, &w), in[6], &scale, 1);
    if (in[7]) {
        kiln_value operand[] = {y, in[7], in[8]};
        if (!in[8]) operand[2] = kiln_compose_scalar(&c, im->graph->value.data[in[0]].dtype, 0);
        kiln_compose_node(&c, KILN_OP_QUANTIZE_LINEAR, operand, 3, NULL, 0, &y, 1);
    }
    kiln_compose_define(&c, 0, y);
    return c.st;
}

kiln_status kiln_import_qlinear_conv(kiln_importer *im) { return import_qlinear(im, true); }
kiln_status kiln_import_qlinear_matmul(kiln_importer *im) { return import_qlinear(im, false); }
