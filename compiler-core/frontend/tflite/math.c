/* Operators that compute element by element, along one dimension, or over some. */
#include "compiler-core/frontend/tflite/import.h"

/* ---- element by element ---------------------------------------------------------------------- */

/* An operand in the result's layout: missing dimensions are added in front, as in broadcasting. */
static kiln_value operand_of(kiln_tflite *t, uint32_t index, kiln_tflite_layout layout) {
    static const int64_t to_first[] = {0, 3, 1, 2};
    kiln_tflite_tensor *tensor = kiln_tflite_needed(t, index);
    if (!tensor) return 0;
    const uint32_t rank = tensor->shape.rank;
    if (layout == KILN_TFLITE_LAST || rank == 4) return kiln_tflite_data(t, index, layout);
    const kiln_value value = kiln_tflite_data(t, index, KILN_TFLITE_LAST);
    if (rank > 4 || kiln_shape_count(&tensor->shape) == 1) return value;
    kiln_shape shape = {.rank = 4, .dim = {1, 1, 1, 1}};
    for (uint32_t d = 0; d < rank; d++) shape.dim[4 - rank + d] = tensor->shape.dim[d];
    return kiln_tflite_transposed(t, kiln_tflite_reshaped(t, value, &shape), to_first);
}

/* Channels first only where no operand has more dimensions than 4. */
static kiln_tflite_layout layout_of(const kiln_tflite *t) {
    for (uint32_t i = 0; i < t->input.count; i++) {
        const kiln_tflite_tensor *tensor = kiln_tflite_input(t, i);
        if (tensor && tensor->shape.rank > 4) return KILN_TFLITE_LAST;
    }
    return kiln_tflite_preferred(t);
}

void kiln_tflite_elementwise(kiln_tflite *t) {
    kiln_value input[KILN_NODE_OPERANDS_MAX];
    const kiln_tflite_layout layout = layout_of(t);
    for (uint32_t i = 0; i < t->input.count; i++) input[i] = operand_of(t, i, layout);
    kiln_tflite_define(t, 0, kiln_tflite_node(t, t->row->op, input, t->input.count, NULL, 0),
                       layout);
}

/* DEQUANTIZE, QUANTIZE, CAST: the result's type decides the conversion. */
void kiln_tflite_convert(kiln_tflite *t) {
    const kiln_tflite_tensor *result = kiln_tflite_output(t, 0);
    const kiln_tflite_layout layout = kiln_tflite_preferred(t);
    kiln_value value = kiln_tflite_data(t, 0, layout);
    if (result && !result->quantised) value = kiln_tflite_cast(t, value, result->dtype);
    kiln_tflite_define(t, 0, value, layout);
}

static void with_attribute(kiln_tflite *t, kiln_attr attr) {
    const kiln_tflite_layout layout = kiln_tflite_preferred(t);
    const kiln_value x = kiln_tflite_data(t, 0, layout);
    kiln_tflite_define(t, 0, kiln_tflite_node(t, t->row->op, &x, 1, &attr, 1), layout);
}

void kiln_tflite_leaky_relu(kiln_tflite *t) {
    const double alpha = kiln_tflite_float(&t->options_table, KILN_TFLITE_LEAKY_RELU_ALPHA, 0);
    with_attribute(t, kiln_attr_float("alpha", alpha));
}

void kiln_tflite_gelu(kiln_tflite *t) {
    const bool tanh = kiln_tflite_option(t, KILN_TFLITE_GELU_APPROXIMATE, 0);
    with_attribute(t, kiln_tflite_word("approximate", tanh ? "tanh" : "none"));
}

/* RELU6, RELU_N1_TO_1, RELU_0_TO_1 */
void kiln_tflite_clip(kiln_tflite *t) {
    const kiln_tflite_layout layout = kiln_tflite_preferred(t);
    const double low = t->row->number == KILN_TFLITE_OPERATOR_RELU_N1_TO_1 ? -1 : 0,
                 high = t->row->number == KILN_TFLITE_OPERATOR_RELU6 ? 6 : 1;
    kiln_tflite_define(t, 0, kiln_tflite_clipped(t, kiln_tflite_data(t, 0, layout), low, high),
                       layout);
}

void kiln_tflite_not_equal(kiln_tflite *t) {
    const kiln_tflite_layout layout = layout_of(t);
    const kiln_value same =
        kiln_tflite_binary(t, KILN_OP_EQUAL, operand_of(t, 0, layout), operand_of(t, 1, layout));
    kiln_tflite_define(t, 0, kiln_tflite_unary(t, KILN_OP_NOT, same), layout);
}

void kiln_tflite_square(kiln_tflite *t) {
    const kiln_tflite_layout layout = kiln_tflite_preferred(t);
    const kiln_value x = kiln_tflite_data(t, 0, layout);
    kiln_tflite_define(t, 0, kiln_tflite_binary(t, KILN_OP_MUL, x, x), layout);
}

void kiln_tflite_squared_difference(kiln_tflite *t) {
    const kiln_tflite_layout layout = layout_of(t);
    const kiln_value d =
        kiln_tflite_binary(t, KILN_OP_SUB, operand_of(t, 0, layout), operand_of(t, 1, layout));
    kiln_tflite_define(t, 0, kiln_tflite_binary(t, KILN_OP_MUL, d, d), layout);
}

void kiln_tflite_rsqrt(kiln_tflite *t) {
    const kiln_tflite_layout layout = kiln_tflite_preferred(t);
    const kiln_value root = kiln_tflite_unary(t, KILN_OP_SQRT, kiln_tflite_data(t, 0, layout));
    kiln_tflite_define(t, 0, kiln_tflite_unary(t, KILN_OP_RECIPROCAL, root), layout);
}

/* ---- along the last dimension ---------------------------------------------------------------- */

/* SOFTMAX (of beta times its input), LOG_SOFTMAX, L2_NORMALIZATION. */
void kiln_tflite_along_last(kiln_tflite *t) {
    const kiln_attr attr = kiln_attr_int("axis", -1);
    kiln_value x = kiln_tflite_data(t, 0, KILN_TFLITE_LAST);
    const double beta = t->row->op == KILN_OP_SOFTMAX
                            ? kiln_tflite_float(&t->options_table, KILN_TFLITE_SOFTMAX_BETA, 0)
                            : 1;
    if (beta != 1 && !t->st)
        x = kiln_tflite_binary(t, KILN_OP_MUL, x,
                               kiln_tflite_scalar(t, kiln_tflite_dtype(t, x), beta));
    kiln_tflite_define(t, 0, kiln_tflite_node(t, t->row->op, &x, 1, &attr, 1), KILN_TFLITE_LAST);
}

/* Results are the largest elements and their indices. */
void kiln_tflite_top_k(kiln_tflite *t) {
    const int64_t *k;
    uint32_t count;
    kiln_value result[2];
    const kiln_tflite_tensor *place = kiln_tflite_output(t, 1);
    if (!kiln_tflite_ints(t, 1, 1, &k, &count)) return;
    const kiln_value x = kiln_tflite_data(t, 0, KILN_TFLITE_LAST);
    const kiln_attr attr[] = {kiln_attr_int("axis", -1), kiln_attr_ints("k", k, count)};
    kiln_tflite_nodes(t, KILN_OP_TOP_K, &x, 1, attr, 2, result, 2);
    kiln_tflite_define(t, 0, result[0], KILN_TFLITE_LAST);
    if (place && !t->st)
        kiln_tflite_define(t, 1, kiln_tflite_cast(t, result[1], place->dtype), KILN_TFLITE_LAST);
}

void kiln_tflite_cumsum(kiln_tflite *t) {
    const int64_t *axis;
    uint32_t count;
    if (!kiln_tflite_ints(t, 1, 1, &axis, &count)) return;
    const kiln_value x = kiln_tflite_data(t, 0, KILN_TFLITE_LAST);
    const kiln_attr attr[] = {
        kiln_attr_ints("axis", axis, count),
        kiln_attr_int("exclusive", kiln_tflite_option(t, KILN_TFLITE_CUMSUM_EXCLUSIVE, 0)),
        kiln_attr_int("reverse", kiln_tflite_option(t, KILN_TFLITE_CUMSUM_REVERSE, 0))};
    kiln_tflite_define(t, 0, kiln_tflite_node(t, KILN_OP_CUM_SUM, &x, 1, attr, 3),
                       KILN_TFLITE_LAST);
}

/* ---- over some dimensions -------------------------------------------------------------------- */

/* The reduced dimensions in the file's order; false with an error. */
static bool read_axes(kiln_tflite *t, uint32_t rank, uint32_t *out_gone) {
    const int64_t *axes;
    uint32_t count, axis = 0;
    if (!kiln_tflite_ints(t, 1, KILN_RANK_MAX, &axes, &count)) return false;
    *out_gone = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!kiln_tflite_axis(t, axes[i], rank, &axis)) return false;
        *out_gone |= 1u << axis;
    }
    return true;
}

/* Input 1 lists the dimensions. Without height and width, both layouts have the same order. */
void kiln_tflite_reduce(kiln_tflite *t) {
    const kiln_tflite_tensor *x = kiln_tflite_needed(t, 0);
    const bool keep = kiln_tflite_option(t, KILN_TFLITE_REDUCE_KEEP_DIMS, 0) != 0;
    const uint32_t image = 1u << 1 | 1u << 2;
    uint32_t gone;
    if (!x || !read_axes(t, x->shape.rank, &gone)) return;
    const bool either = keep || (gone & image) == image;
    const kiln_tflite_layout layout = either ? kiln_tflite_preferred(t) : KILN_TFLITE_LAST;
    int64_t axes[KILN_RANK_MAX];
    uint32_t count = 0;
    for (uint32_t d = 0; d < x->shape.rank; d++)
        if (gone >> d & 1) axes[count++] = kiln_tflite_place(layout, d);
    kiln_value y = kiln_tflite_data(t, 0, layout);
    const kiln_attr attr[] = {kiln_attr_ints("axes", axes, count), kiln_attr_int("keepdims", keep),
                              kiln_attr_int("noop_with_empty_axes", 1)};
    y = kiln_tflite_node(t, t->row->op, &y, 1, attr, 3);
    kiln_tflite_define(t, 0, y, keep ? layout : KILN_TFLITE_LAST);
}

/* The index of the largest or least element. */
void kiln_tflite_arg_reduce(kiln_tflite *t) {
    const kiln_tflite_tensor *x = kiln_tflite_needed(t, 0), *result = kiln_tflite_output(t, 0);
    const int64_t *given;
    uint32_t count, axis;
    if (!x || !kiln_tflite_ints(t, 1, 1, &given, &count)) return;
    if (!count || !kiln_tflite_axis(t, given[0], x->shape.rank, &axis)) {
        kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "it has no axis"));
        return;
    }
    kiln_value y = kiln_tflite_data(t, 0, KILN_TFLITE_LAST);
    const kiln_attr attr[] = {kiln_attr_int("axis", axis), kiln_attr_int("keepdims", 0)};
    y = kiln_tflite_node(t, t->row->op, &y, 1, attr, 2);
    if (result) y = kiln_tflite_cast(t, y, result->dtype);
    kiln_tflite_define(t, 0, y, KILN_TFLITE_LAST);
}
