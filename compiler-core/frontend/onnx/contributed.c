/* Operators of com.microsoft that ONNX Runtime's quantiser writes in its QOperator form:
 * dequantised, an operator on floats, quantised. Passes turn it into arithmetic on integers, as in
 * the QDQ form. */
#include "compiler-core/frontend/onnx/compose.h"

/* Input `first` with the scale and the zero point (which may be left out) behind it. */
static kiln_value dequantised(kiln_composer *c, uint32_t first) {
    const kiln_value operand[] = {kiln_import_input(c->im, first),
                                  kiln_import_input(c->im, first + 1),
                                  kiln_import_input(c->im, first + 2)};
    kiln_value result = 0;
    if (!operand[0] || !operand[1])
        kiln_compose_fail(
            c, KILN_ERROR(INVALID_ARGUMENT, "input %u is missing", first + (operand[0] != 0)));
    kiln_compose_node(c, KILN_OP_DEQUANTIZE_LINEAR, operand, operand[2] ? 3 : 2, NULL, 0, &result,
                      1);
    return result;
}

/* `value`, quantised by the scale at input `scale` and the zero point behind it; without one, 0 of
 * the type of input `like`. */
static kiln_status define_quantised(kiln_composer *c, kiln_value value, uint32_t scale,
                                    uint32_t like) {
    kiln_value operand[] = {value, kiln_import_input(c->im, scale),
                            kiln_import_input(c->im, scale + 1)},
               result = 0;
    if (!operand[1])
        kiln_compose_fail(c, KILN_ERROR(INVALID_ARGUMENT, "input %u is missing", scale));
    if (!c->st && !operand[2])
        operand[2] =
            kiln_compose_scalar(c, kiln_compose_dtype(c, kiln_import_input(c->im, like)), 0);
    kiln_compose_node(c, KILN_OP_QUANTIZE_LINEAR, operand, 3, NULL, 0, &result, 1);
    kiln_compose_define(c, 0, result);
    return c->st;
}

/* a, its scale and zero point, b and those of b, those of the result. */
static kiln_status import_binary(kiln_importer *im, kiln_op op) {
    kiln_composer c = {.im = im};
    const kiln_value a = dequantised(&c, 0), b = dequantised(&c, 3);
    return define_quantised(&c, kiln_compose_binary(&c, op, a, b), 6, 0);
}

kiln_status kiln_import_qlinear_add(kiln_importer *im) { return import_binary(im, KILN_OP_ADD); }
kiln_status kiln_import_qlinear_mul(kiln_importer *im) { return import_binary(im, KILN_OP_MUL); }

/* The result's scale and zero point, then each part with its own. */
kiln_status kiln_import_qlinear_concat(kiln_importer *im) {
    kiln_composer c = {.im = im};
    kiln_value part[KILN_NODE_OPERANDS_MAX];
    uint32_t count = 0;
    if (im->node->n_input < 5 || (im->node->n_input - 2) % 3 != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "%zu inputs, where three for each part follow two",
                          im->node->n_input);
    if (im->node->n_input > KILN_NODE_OPERANDS_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "%zu inputs", im->node->n_input);
    for (uint32_t i = 2; i < im->node->n_input; i += 3) part[count++] = dequantised(&c, i);
    if (c.st) return c.st;
    const int64_t rank = kiln_compose_shape(&c, part[0])->rank,
                  axis = kiln_import_int(im, "axis", 0), from_start = axis < 0 ? axis + rank : axis;
    if (from_start < 0 || from_start >= rank)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute axis: %lld is out of range",
                          (long long)axis);
    kiln_value whole = kiln_compose_concat(&c, part, count, (uint32_t)from_start);
    return define_quantised(&c, whole, 0, 2);
}

/* x, its scale and zero point, those of the result. The operator gets the node's attributes.
 */
static kiln_status import_unary(kiln_importer *im, kiln_op op, const char *spec) {
    const kiln_import_row row = {"", 1, op, NULL, spec};
    kiln_composer c = {.im = im};
    const kiln_value x = dequantised(&c, 0);
    if (!c.st) c.st = kiln_import_emit(im, &row, &x, 1);
    return define_quantised(&c, c.st ? 0 : kiln_import_defined(im, 0), 3, 0);
}

kiln_status kiln_import_qlinear_average_pool(kiln_importer *im) {
    return import_unary(im, KILN_OP_AVERAGE_POOL, "!channels_last=0");
}
kiln_status kiln_import_qlinear_global_average_pool(kiln_importer *im) {
    return import_unary(im, KILN_OP_GLOBAL_AVERAGE_POOL, "!channels_last=0");
}
kiln_status kiln_import_qlinear_sigmoid(kiln_importer *im) {
    return import_unary(im, KILN_OP_SIGMOID, "");
}
kiln_status kiln_import_qlinear_leaky_relu(kiln_importer *im) {
    return import_unary(im, KILN_OP_LEAKY_RELU, "");
}
