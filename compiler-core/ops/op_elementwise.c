/* Elementwise operators: one function each, from one element of every input to one element of the
 * output. Halves arrive as f32 and are rounded when stored. */
#include "base/check.h"
#include "compiler-core/ops/rules.h"

/* ---- shape rules ----------------------------------------------------------------------------- */

/* Shapes of all inputs broadcast; all have the dtype of input `first` from there on. */
static kiln_status broadcast_from(kiln_infer *infer, uint32_t first) {
    infer->shape[0] = (kiln_shape){0};
    infer->dtype[0] = kiln_infer_input(infer, first)->dtype;
    for (uint32_t i = 0; i < infer->node->input_count; i++) {
        const kiln_value_info *in = kiln_infer_input(infer, i);
        if (!in) continue;
        if (i > first && in->dtype != infer->dtype[0])
            return KILN_ERROR(INVALID_ARGUMENT, "input %u is of type %s, input %u of type %s",
                              first, kiln_dtype_name(infer->dtype[0]), i,
                              kiln_dtype_name(in->dtype));
        kiln_status st = kiln_shape_broadcast(&infer->shape[0], &in->shape);
        if (st) return kiln_status_note(st, "input %u", i);
    }
    return KILN_OK;
}

kiln_status kiln_rule_broadcast(kiln_infer *infer) { return broadcast_from(infer, 0); }

kiln_status kiln_rule_predicate(kiln_infer *infer) {
    kiln_status st = broadcast_from(infer, 0);
    infer->dtype[0] = KILN_BOOL;
    return st;
}

/* The exponent may have any type. */
kiln_status kiln_rule_pow(kiln_infer *infer) {
    return kiln_shape_broadcast(&infer->shape[0], &kiln_infer_input(infer, 1)->shape);
}

kiln_status kiln_rule_cast(kiln_infer *infer) {
    kiln_str to = kiln_node_text(infer->node, "to");
    if (kiln_dtype_find(to, &infer->dtype[0])) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT, "attribute to: there is no type %.*s", KILN_STR_ARG(to));
}

kiln_status kiln_rule_where(kiln_infer *infer) { return broadcast_from(infer, 1); }

kiln_status kiln_rule_clip(kiln_infer *infer) {
    const kiln_value_info *in = kiln_infer_input(infer, 0);
    for (uint32_t i = 1; i < infer->node->input_count; i++) {
        const kiln_value_info *bound = kiln_infer_input(infer, i);
        if (!bound) continue;
        if (bound->dtype != in->dtype)
            return KILN_ERROR(INVALID_ARGUMENT, "input %u has another type than input 0", i);
        if (kiln_shape_count(&bound->shape) != 1 || bound->shape.rank > in->shape.rank)
            return KILN_ERROR(INVALID_ARGUMENT, "input %u must be a scalar", i);
    }
    return KILN_OK;
}

void kiln_te_elementwise(kiln_te *te) {
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr x[KILN_NODE_OPERANDS_MAX] = {0};
    for (uint32_t i = 0; i < te->node->input_count; i++)
        if (kiln_te_has(te, i)) x[i] = kiln_te_load_broadcast(te, i, block.i, block.rank);
    kiln_te_put(te, &block, kiln_op_get(te->node->op)->element(te, x));
}

/* ---- one input ------------------------------------------------------------------------------- */

#define UNARY(name, op)                                              \
    kiln_expr kiln_element_##name(kiln_te *te, const kiln_expr *x) { \
        return kiln_unary(te, KILN_EXPR_##op, x[0]);                 \
    }
UNARY(abs, ABS)
UNARY(neg, NEG)
UNARY(floor, FLOOR)
UNARY(ceil, CEIL)
UNARY(round, ROUND)
UNARY(sqrt, SQRT)
UNARY(exp, EXP)
UNARY(log, LOG)
UNARY(erf, ERF)
UNARY(sin, SIN)
UNARY(cos, COS)
UNARY(tan, TAN)
UNARY(asin, ASIN)
UNARY(acos, ACOS)
UNARY(atan, ATAN)
UNARY(sinh, SINH)
UNARY(cosh, COSH)
UNARY(asinh, ASINH)
UNARY(acosh, ACOSH)
UNARY(atanh, ATANH)
UNARY(sigmoid, SIGMOID)
UNARY(tanh, TANH)
UNARY(not, NOT)
UNARY(is_nan, ISNAN)
#undef UNARY

static kiln_expr attribute(kiln_te *te, const char *name, kiln_expr like) {
    return kiln_te_const(te, like, kiln_node_float(te->node, name));
}

static kiln_expr negative(kiln_te *te, kiln_expr x) {
    return kiln_less(te, x, kiln_te_const(te, x, 0));
}

/* x if it is not negative, else `below`. */
static kiln_expr or_below(kiln_te *te, kiln_expr x, kiln_expr below) {
    return kiln_select(te, negative(te, x), below, x);
}

static kiln_expr magnitude(kiln_te *te, kiln_expr x) { return kiln_unary(te, KILN_EXPR_ABS, x); }

static kiln_expr plus_one(kiln_te *te, kiln_expr x) {
    return kiln_add(te, kiln_te_const(te, x, 1), x);
}

kiln_expr kiln_element_identity(kiln_te *te, const kiln_expr *x) {
    (void)te;
    return x[0];
}

/* The store casts to the output's dtype. To bool, any non-zero value is true, NaN too. */
kiln_expr kiln_element_cast(kiln_te *te, const kiln_expr *x) {
    if (te->p->buffer.data[te->output[0]].dtype != KILN_BOOL ||
        kiln_te_in_dtype(te, 0) == KILN_BOOL)
        return x[0];
    return kiln_binary(te, KILN_EXPR_NE, x[0], kiln_te_const(te, x[0], 0));
}

kiln_expr kiln_element_sign(kiln_te *te, const kiln_expr *x) {
    kiln_expr zero = kiln_te_const(te, x[0], 0), one = kiln_te_const(te, x[0], 1);
    kiln_expr positive = kiln_select(te, kiln_less(te, zero, x[0]), one, zero);
    if (kiln_dtype_kind_of(kiln_te_in_dtype(te, 0)) == KILN_KIND_UINT) return positive;
    return kiln_select(te, kiln_less(te, x[0], zero), kiln_te_const(te, x[0], -1), positive);
}

kiln_expr kiln_element_reciprocal(kiln_te *te, const kiln_expr *x) {
    return kiln_div(te, kiln_te_const(te, x[0], 1), x[0]);
}

kiln_expr kiln_element_relu(kiln_te *te, const kiln_expr *x) {
    return kiln_max(te, x[0], kiln_te_const(te, x[0], 0));
}

kiln_expr kiln_element_leaky_relu(kiln_te *te, const kiln_expr *x) {
    return or_below(te, x[0], kiln_mul(te, x[0], attribute(te, "alpha", x[0])));
}

kiln_expr kiln_element_thresholded_relu(kiln_te *te, const kiln_expr *x) {
    return kiln_select(te, kiln_less(te, attribute(te, "alpha", x[0]), x[0]), x[0],
                       kiln_te_const(te, x[0], 0));
}

static kiln_expr exp_minus_one(kiln_te *te, kiln_expr x) {
    return kiln_sub(te, kiln_unary(te, KILN_EXPR_EXP, x), kiln_te_const(te, x, 1));
}

kiln_expr kiln_element_elu(kiln_te *te, const kiln_expr *x) {
    return or_below(te, x[0], kiln_mul(te, attribute(te, "alpha", x[0]), exp_minus_one(te, x[0])));
}

kiln_expr kiln_element_selu(kiln_te *te, const kiln_expr *x) {
    return kiln_mul(te, attribute(te, "gamma", x[0]), kiln_element_elu(te, x));
}

kiln_expr kiln_element_celu(kiln_te *te, const kiln_expr *x) {
    kiln_expr alpha = attribute(te, "alpha", x[0]);
    return or_below(te, x[0], kiln_mul(te, alpha, exp_minus_one(te, kiln_div(te, x[0], alpha))));
}

static kiln_expr hard_sigmoid(kiln_te *te, kiln_expr x, double alpha, double beta) {
    kiln_expr line =
        kiln_add(te, kiln_mul(te, x, kiln_te_const(te, x, alpha)), kiln_te_const(te, x, beta));
    return kiln_max(te, kiln_min(te, line, kiln_te_const(te, x, 1)), kiln_te_const(te, x, 0));
}

kiln_expr kiln_element_hard_sigmoid(kiln_te *te, const kiln_expr *x) {
    return hard_sigmoid(te, x[0], kiln_node_float(te->node, "alpha"),
                        kiln_node_float(te->node, "beta"));
}

kiln_expr kiln_element_hard_swish(kiln_te *te, const kiln_expr *x) {
    return kiln_mul(te, x[0], hard_sigmoid(te, x[0], 1.0 / 6, 0.5));
}

kiln_expr kiln_element_swish(kiln_te *te, const kiln_expr *x) {
    kiln_expr scaled = kiln_mul(te, attribute(te, "alpha", x[0]), x[0]);
    return kiln_mul(te, x[0], kiln_unary(te, KILN_EXPR_SIGMOID, scaled));
}

/* log(1 + exp(x)) without overflow: max(x, 0) + log(1 + exp(-|x|)). */
kiln_expr kiln_element_softplus(kiln_te *te, const kiln_expr *x) {
    kiln_expr tail =
        kiln_unary(te, KILN_EXPR_EXP, kiln_unary(te, KILN_EXPR_NEG, magnitude(te, x[0])));
    return kiln_add(te, kiln_element_relu(te, x),
                    kiln_unary(te, KILN_EXPR_LOG, plus_one(te, tail)));
}

kiln_expr kiln_element_softsign(kiln_te *te, const kiln_expr *x) {
    return kiln_div(te, x[0], plus_one(te, magnitude(te, x[0])));
}

kiln_expr kiln_element_mish(kiln_te *te, const kiln_expr *x) {
    return kiln_mul(te, x[0], kiln_unary(te, KILN_EXPR_TANH, kiln_element_softplus(te, x)));
}

kiln_expr kiln_element_gelu(kiln_te *te, const kiln_expr *x) {
    kiln_expr v = x[0], half = kiln_mul(te, kiln_te_const(te, v, 0.5), v);
    if (!kiln_str_is(kiln_node_text(te->node, "approximate"), "tanh")) {
        kiln_expr inner = kiln_mul(te, v, kiln_te_const(te, v, 0.7071067811865476));
        return kiln_mul(te, half, plus_one(te, kiln_unary(te, KILN_EXPR_ERF, inner)));
    }
    /* tanh(sqrt(2/pi) * (x + 0.044715 x^3)) */
    kiln_expr cubic =
        kiln_mul(te, kiln_mul(te, kiln_mul(te, v, v), v), kiln_te_const(te, v, 0.044715));
    kiln_expr inner =
        kiln_mul(te, kiln_add(te, v, cubic), kiln_te_const(te, v, 0.7978845608028654));
    return kiln_mul(te, half, plus_one(te, kiln_unary(te, KILN_EXPR_TANH, inner)));
}

/* Integers are compared and shifted in f64, as their attributes are floats. */
kiln_expr kiln_element_shrink(kiln_te *te, const kiln_expr *x) {
    kiln_dtype dtype = kiln_te_in_dtype(te, 0);
    kiln_expr v = kiln_dtype_is_float(dtype) ? x[0] : kiln_cast(te, KILN_F64, x[0]);
    kiln_expr lambda = attribute(te, "lambd", v), bias = attribute(te, "bias", v),
              zero = kiln_te_const(te, v, 0);
    kiln_expr below = kiln_less(te, v, kiln_unary(te, KILN_EXPR_NEG, lambda));
    kiln_expr above = kiln_select(te, kiln_less(te, lambda, v), kiln_sub(te, v, bias), zero);
    return kiln_select(te, below, kiln_add(te, v, bias), above);
}

kiln_expr kiln_element_is_inf(kiln_te *te, const kiln_expr *x) {
    kiln_expr infinite = kiln_unary(te, KILN_EXPR_ISINF, x[0]);
    bool positive = kiln_node_int(te->node, "detect_positive") != 0,
         below = kiln_node_int(te->node, "detect_negative") != 0;
    if (positive && below) return infinite;
    if (!positive && !below) return kiln_expr_int(te->p, KILN_BOOL, 0);
    kiln_expr zero = kiln_te_const(te, x[0], 0);
    return kiln_and(te, infinite, positive ? kiln_less(te, zero, x[0]) : kiln_less(te, x[0], zero));
}

/* ---- several inputs -------------------------------------------------------------------------- */

#define BINARY(name, op, a, b)                                       \
    kiln_expr kiln_element_##name(kiln_te *te, const kiln_expr *x) { \
        return kiln_binary(te, KILN_EXPR_##op, x[a], x[b]);          \
    }
BINARY(add, ADD, 0, 1)
BINARY(sub, SUB, 0, 1)
BINARY(mul, MUL, 0, 1)
BINARY(div, DIV, 0, 1)
BINARY(and, AND, 0, 1)
BINARY(or, OR, 0, 1)
BINARY(xor, XOR, 0, 1)
BINARY(equal, EQ, 0, 1)
BINARY(less, LT, 0, 1)
BINARY(less_equal, LE, 0, 1)
BINARY(greater, LT, 1, 0)
BINARY(greater_equal, LE, 1, 0)
#undef BINARY

/* A float power is computed in the wider of both float types, an integer one in f64. */
kiln_expr kiln_element_pow(kiln_te *te, const kiln_expr *x) {
    kiln_dtype base = kiln_te_wide(te), exponent = kiln_te_compute_dtype(kiln_te_in_dtype(te, 1));
    bool wide = !kiln_dtype_is_float(base) || exponent == KILN_F64;
    kiln_dtype dtype = wide ? KILN_F64 : base;
    return kiln_binary(te, KILN_EXPR_POW, kiln_cast(te, dtype, x[0]), kiln_cast(te, dtype, x[1]));
}

kiln_expr kiln_element_mod(kiln_te *te, const kiln_expr *x) {
    bool truncate = kiln_node_int(te->node, "fmod") != 0;
    return kiln_binary(te, truncate ? KILN_EXPR_REM : KILN_EXPR_FLOORMOD, x[0], x[1]);
}

kiln_expr kiln_element_prelu(kiln_te *te, const kiln_expr *x) {
    return or_below(te, x[0], kiln_mul(te, x[0], x[1]));
}

kiln_expr kiln_element_bit_shift(kiln_te *te, const kiln_expr *x) {
    bool left = kiln_str_is(kiln_node_text(te->node, "direction"), "LEFT");
    return kiln_binary(te, left ? KILN_EXPR_SHL : KILN_EXPR_SHR, x[0], x[1]);
}

static kiln_expr chain(kiln_te *te, const kiln_expr *x, kiln_expr_op op) {
    kiln_expr value = x[0];
    for (uint32_t i = 1; i < te->node->input_count; i++) value = kiln_binary(te, op, value, x[i]);
    return value;
}

kiln_expr kiln_element_max(kiln_te *te, const kiln_expr *x) { return chain(te, x, KILN_EXPR_MAX); }
kiln_expr kiln_element_min(kiln_te *te, const kiln_expr *x) { return chain(te, x, KILN_EXPR_MIN); }
kiln_expr kiln_element_sum(kiln_te *te, const kiln_expr *x) { return chain(te, x, KILN_EXPR_ADD); }
kiln_expr kiln_element_mean(kiln_te *te, const kiln_expr *x) {
    return kiln_div(te, chain(te, x, KILN_EXPR_ADD),
                    kiln_te_const(te, x[0], te->node->input_count));
}

kiln_expr kiln_element_where(kiln_te *te, const kiln_expr *x) {
    return kiln_select(te, x[0], x[1], x[2]);
}

/* min(max(x, low), high): the upper bound wins where they cross. */
kiln_expr kiln_element_clip(kiln_te *te, const kiln_expr *x) {
    kiln_expr value = x[0];
    if (kiln_te_has(te, 1)) value = kiln_max(te, value, x[1]);
    if (kiln_te_has(te, 2)) value = kiln_min(te, value, x[2]);
    return value;
}

/* ---- operators with operands of their own shape ---------------------------------------------- */

/* Operands 1.. are vectors along dimension `axis` of input 0. */
static kiln_status check_vectors(const kiln_infer *infer, uint32_t axis) {
    const kiln_shape *shape = &kiln_infer_input(infer, 0)->shape;
    for (uint32_t i = 1; i < infer->node->input_count; i++) {
        const kiln_value_info *in = kiln_infer_input(infer, i);
        if (!in) continue;
        if (in->shape.rank != 1 || in->shape.dim[0] != shape->dim[axis])
            return KILN_ERROR(INVALID_ARGUMENT, "input %u must be a vector of %lld elements", i,
                              (long long)shape->dim[axis]);
    }
    return KILN_OK;
}

kiln_status kiln_rule_batch_norm(kiln_infer *infer) {
    if (infer->shape[0].rank < 2)
        return KILN_ERROR(INVALID_ARGUMENT, "input 0 must have at least two dimensions");
    return check_vectors(infer, 1);
}

void kiln_te_batch_norm(kiln_te *te) {
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr x[5] = {kiln_te_load(te, 0, block.i)};
    for (uint32_t i = 1; i < 5; i++)
        x[i] = kiln_cast(te, kiln_te_wide(te), kiln_te_load(te, i, &block.i[1]));
    kiln_expr variance = kiln_add(te, x[4], attribute(te, "epsilon", x[0]));
    kiln_expr scale = kiln_div(te, x[1], kiln_unary(te, KILN_EXPR_SQRT, variance));
    kiln_te_put(te, &block, kiln_add(te, kiln_mul(te, kiln_sub(te, x[0], x[3]), scale), x[2]));
}

kiln_status kiln_rule_dropout(kiln_infer *infer) {
    if (infer->node->output_count > 1) infer->dtype[1] = KILN_BOOL;
    return KILN_OK;
}

/* At inference nothing is dropped: the data, and a mask that is true everywhere. */
void kiln_te_dropout(kiln_te *te) {
    for (uint32_t i = 0; i < te->node->output_count; i++) {
        if (!te->output[i]) continue;
        kiln_te_block block = kiln_te_block_begin(te, i ? "mask" : "", kiln_te_in_shape(te, 0));
        kiln_expr value = i ? kiln_expr_int(te->p, KILN_BOOL, 1) : kiln_te_load(te, 0, block.i);
        kiln_te_store(te, &block, te->output[i], block.i, block.rank, value);
    }
}

/* Scale and zero point are scalars, or vectors along `axis`. */
static kiln_status rule_quantize(kiln_infer *infer, kiln_dtype dtype) {
    uint32_t axis;
    infer->dtype[0] = dtype;
    if (kiln_shape_count(&kiln_infer_input(infer, 1)->shape) == 1) return KILN_OK;
    kiln_status st = kiln_infer_axis(infer, &axis);
    return st ? st : check_vectors(infer, axis);
}

kiln_status kiln_rule_quantize_linear(kiln_infer *infer) {
    const kiln_value_info *zero = kiln_infer_input(infer, 2);
    const kiln_dtype dtype = zero ? zero->dtype : KILN_U8;
    const int64_t bits = kiln_node_int(infer->node, "bits");
    if (kiln_dtype_kind_of(dtype) != KILN_KIND_INT && kiln_dtype_kind_of(dtype) != KILN_KIND_UINT)
        return KILN_ERROR(INVALID_ARGUMENT, "input 2 has type %s", kiln_dtype_name(dtype));
    if (bits && ((dtype != KILN_I8 && dtype != KILN_U8) || bits < 1 || bits > 8))
        return KILN_ERROR(INVALID_ARGUMENT, "attribute bits: %lld of type %s", (long long)bits,
                          kiln_dtype_name(dtype));
    return rule_quantize(infer, dtype);
}

void kiln_quantize_range(const kiln_node_info *node, kiln_dtype dtype, int64_t *out_low,
                         int64_t *out_high) {
    const int64_t given = kiln_node_int(node, "bits");
    const uint32_t bits = given ? (uint32_t)given : 8u * (uint32_t)kiln_dtype_size(dtype);
    const bool is_signed = kiln_dtype_kind_of(dtype) == KILN_KIND_INT;
    KILN_CHECK(bits <= 32);
    *out_low = is_signed ? -((int64_t)1 << (bits - 1)) : 0;
    *out_high = ((int64_t)1 << (is_signed ? bits - 1 : bits)) - 1;
}

kiln_status kiln_rule_dequantize_linear(kiln_infer *infer) {
    return rule_quantize(infer, kiln_infer_input(infer, 1)->dtype);
}

static kiln_expr quantize_operand(kiln_te *te, uint32_t input, kiln_dtype dtype,
                                  const kiln_te_block *block) {
    if (kiln_shape_count(kiln_te_in_shape(te, input)) == 1)
        return kiln_te_load_scalar(te, input, dtype);
    return kiln_cast(te, dtype, kiln_te_load(te, input, &block->i[kiln_te_axis(te)]));
}

/* Whether an input is given, and is no literal of `neutral`. */
static bool changes(kiln_te *te, uint32_t input, double neutral) {
    if (!kiln_te_has(te, input)) return false;
    const kiln_value value = te->node->input[input];
    const kiln_value_info *info = &te->graph->value.data[value];
    return !kiln_value_is_literal(te->graph, value) ||
           kiln_dtype_load_f64(info->dtype, info->data, 0) != neutral;
}

/* round(x) + zero for an integer type of at most 16 bits, or some bits of it, saturated: x is
 * clipped to the type's range before it is rounded, so that the rest is exact in i32. A NaN becomes
 * the zero point. */
static kiln_expr quantised_narrow(kiln_te *te, kiln_expr x, kiln_expr zero, kiln_dtype dtype) {
    int64_t least_integer, most_integer;
    kiln_quantize_range(te->node, dtype, &least_integer, &most_integer);
    kiln_expr low = kiln_expr_int(te->p, dtype, least_integer),
              high = kiln_expr_int(te->p, dtype, most_integer);
    kiln_expr least = kiln_sub(te, kiln_cast(te, KILN_F32, low), kiln_cast(te, KILN_F32, zero)),
              most = kiln_sub(te, kiln_cast(te, KILN_F32, high), kiln_cast(te, KILN_F32, zero));
    x = kiln_min(te, kiln_max(te, x, least), most);
    x = kiln_cast(te, KILN_I32, kiln_unary(te, KILN_EXPR_ROUND, x));
    return kiln_cast(te, dtype, kiln_add(te, x, zero));
}

/* saturate(round(x / scale) + zero). */
void kiln_te_quantize_linear(kiln_te *te) {
    /* The quotient is rounded to f32 before it is rounded to an integer: ties depend on it. */
    kiln_te_block divide = kiln_te_temp_begin(te, "scaled", KILN_F32, kiln_te_in_shape(te, 0));
    kiln_expr x = kiln_cast(te, KILN_F32, kiln_te_load(te, 0, divide.i));
    if (changes(te, 1, 1)) x = kiln_div(te, x, quantize_operand(te, 1, KILN_F32, &divide));
    kiln_te_put(te, &divide, x);

    const kiln_dtype dtype = te->p->buffer.data[te->output[0]].dtype;
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr value = kiln_te_at(te, divide.to, block.i);
    if (kiln_dtype_size(dtype) <= 2) {
        kiln_expr zero = kiln_expr_int(te->p, KILN_I32, 0);
        if (changes(te, 2, 0)) zero = quantize_operand(te, 2, KILN_I32, &block);
        kiln_te_put(te, &block, quantised_narrow(te, value, zero, dtype));
        return;
    }
    value = kiln_unary(te, KILN_EXPR_ROUND, value); /* the cast to the integer type saturates */
    if (changes(te, 2, 0)) value = kiln_add(te, value, quantize_operand(te, 2, KILN_F32, &block));
    kiln_te_put(te, &block, value);
}

void kiln_te_dequantize_linear(kiln_te *te) {
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr x = kiln_cast(te, KILN_F32, kiln_te_load(te, 0, block.i));
    if (changes(te, 2, 0)) x = kiln_sub(te, x, quantize_operand(te, 2, KILN_F32, &block));
    if (changes(te, 1, 1)) x = kiln_mul(te, x, quantize_operand(te, 1, KILN_F32, &block));
    kiln_te_put(te, &block, x);
}
