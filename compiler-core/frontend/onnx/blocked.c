/* Quantisations with a scale for each block of elements, or with one computed from the data. Passes
 * on integers with one scale do not apply to them. */
#include "compiler-core/frontend/onnx/compose.h"

static kiln_value binary(kiln_composer *c, kiln_op op, kiln_value a, kiln_value b) {
    return kiln_compose_binary(c, op, a, b);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

typedef struct block {
    kiln_shape shape; /* of the elements */
    uint32_t axis;
    int64_t size;
} block;

static kiln_status read_block(kiln_importer *im, block *b) {
    const kiln_value x = kiln_import_input(im, 0), scale = kiln_import_input(im, 1);
    int64_t axis = kiln_import_int(im, "axis", 1);
    b->size = kiln_import_int(im, "block_size", 0);
    b->shape = im->graph->value.data[x].shape;
    kiln_shape wanted = b->shape;
    if (axis < 0) axis += wanted.rank;
    if (axis < 0 || axis >= wanted.rank || b->size < 1)
        return KILN_ERROR(INVALID_ARGUMENT, "attributes axis and block_size: %lld and %lld",
                          (long long)axis, (long long)b->size);
    b->axis = (uint32_t)axis;
    wanted.dim[axis] = wanted.dim[axis] / b->size + (wanted.dim[axis] % b->size != 0);
    const kiln_value zero = kiln_import_input(im, 2);
    if (!kiln_shape_equal(&im->graph->value.data[scale].shape, &wanted) ||
        (zero && !kiln_shape_equal(&im->graph->value.data[zero].shape, &wanted)))
        return KILN_ERROR(INVALID_ARGUMENT, "its scales are not one for each block of %lld",
                          (long long)b->size);
    return KILN_OK;
}

/* A value per block, repeated for each of its elements. */
static kiln_value spread(kiln_composer *c, const block *b, kiln_value x) {
    const int64_t extent = b->shape.dim[b->axis];
    const kiln_attr attr = kiln_attr_int("axis", b->axis);
    kiln_tensor number =
        kiln_tensor_create(c->im->graph->arena, KILN_I64, &(kiln_shape){1, {extent}});
    for (int64_t i = 0; i < extent; i++) ((int64_t *)number.data)[i] = i / b->size;
    const kiln_value operand[] = {x, kiln_compose_constant(c, &number)};
    kiln_value result = 0;
    kiln_compose_node(c, KILN_OP_GATHER, operand, 2, &attr, 1, &result, 1);
    return result;
}

/* A vector along attribute axis, with ones behind it. */
static kiln_value along_axis(kiln_composer *c, kiln_value operand) {
    const kiln_shape *x = kiln_compose_shape(c, kiln_import_input(c->im, 0)),
                     *own = kiln_compose_shape(c, operand);
    int64_t axis = kiln_import_int(c->im, "axis", 1);
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank || own->rank != 1 || own->dim[0] != x->dim[axis]) {
        kiln_compose_fail(c, KILN_ERROR(INVALID_ARGUMENT,
                                        "its scales or zero points are not one, nor one for each "
                                        "index of dimension %lld",
                                        (long long)axis));
        return 0;
    }
    kiln_shape shape = {.rank = x->rank - (uint32_t)axis, .dim = {own->dim[0]}};
    for (uint32_t d = 1; d < shape.rank; d++) shape.dim[d] = 1;
    return kiln_compose_reshape(c, operand, &shape);
}

kiln_value kiln_compose_granules(kiln_composer *c, kiln_value operand) {
    if (c->st) return 0;
    if (kiln_import_int(c->im, "block_size", 0)) {
        block b;
        kiln_compose_fail(c, read_block(c->im, &b));
        return c->st ? 0 : spread(c, &b, operand);
    }
    if (kiln_shape_count(kiln_compose_shape(c, operand)) == 1)
        return kiln_compose_reshape(c, operand, &(kiln_shape){0});
    return along_axis(c, operand);
}

/* (x - zero) * scale, in the scale's type. */
kiln_status kiln_import_dequantize_blocks(kiln_importer *im) {
    kiln_composer c = {.im = im};
    block b;
    kiln_status st = read_block(im, &b);
    if (st) return st;
    const kiln_value scale = kiln_import_input(im, 1), zero = kiln_import_input(im, 2);
    const kiln_dtype dtype = kiln_compose_dtype(&c, scale);
    kiln_value x = kiln_compose_cast(&c, kiln_import_input(im, 0), dtype);
    if (zero) x = binary(&c, KILN_OP_SUB, x, kiln_compose_cast(&c, spread(&c, &b, zero), dtype));
    kiln_compose_define(&c, 0, binary(&c, KILN_OP_MUL, x, spread(&c, &b, scale)));
    return c.st;
}

/* x / scale, rounded, plus zero, cut to `bits` of the type (0: all). */
kiln_status kiln_import_quantize_blocks(kiln_importer *im, kiln_dtype dtype, uint32_t bits) {
    kiln_composer c = {.im = im};
    block b;
    kiln_status st = read_block(im, &b);
    if (st) return st;
    const kiln_value zero = kiln_import_input(im, 2);
    kiln_value x = kiln_import_input(im, 0), result = 0;
    const kiln_dtype own = kiln_compose_dtype(&c, x);
    const kiln_value scale = kiln_compose_cast(&c, kiln_import_input(im, 1), own);
    x = kiln_compose_unary(&c, KILN_OP_ROUND, binary(&c, KILN_OP_DIV, x, spread(&c, &b, scale)));
    if (zero) x = binary(&c, KILN_OP_ADD, x, kiln_compose_cast(&c, spread(&c, &b, zero), own));
    /* An integer is only clamped. */
    const kiln_value operand[] = {x, kiln_compose_scalar(&c, own, 1),
                                  kiln_compose_scalar(&c, dtype, 0)};
    const kiln_attr attr = kiln_attr_int("bits", bits);
    kiln_compose_node(&c, KILN_OP_QUANTIZE_LINEAR, operand, 3, &attr, 1, &result, 1);
    kiln_compose_define(&c, 0, result);
    return c.st;
}

/* ---- scales computed from the data
 * ---------------------------------------------------------------------- */

/* The smallest element, at most 0, or the largest, at least 0: a scalar. */
static kiln_value reach(kiln_composer *c, kiln_value x, kiln_op reduce, kiln_op bound) {
    static const int64_t first = 0;
    const kiln_shape flat = {1, {kiln_shape_count(kiln_compose_shape(c, x))}};
    const kiln_attr attr[] = {kiln_attr_ints("axes", &first, 1), kiln_attr_int("keepdims", 0)};
    kiln_value result = 0;
    x = kiln_compose_reshape(c, x, &flat);
    kiln_compose_node(c, reduce, &x, 1, attr, 2, &result, 1);
    return binary(c, bound, result, kiln_compose_scalar(c, KILN_F32, 0));
}

/* 0 is represented exactly; elements that are all 0 have the scale 1. */
kiln_status kiln_import_dynamic_quantize(kiln_importer *im) {
    kiln_composer c = {.im = im};
    const kiln_value x = kiln_import_input(im, 0);
    if (!x) return KILN_ERROR(INVALID_ARGUMENT, "it has no input");
    if (kiln_compose_dtype(&c, x) != KILN_F32)
        return KILN_ERROR(UNIMPLEMENTED, "elements of type %s",
                          kiln_dtype_name(kiln_compose_dtype(&c, x)));
    if (kiln_shape_count(kiln_compose_shape(&c, x)) == 0)
        return KILN_ERROR(INVALID_ARGUMENT, "it has no elements");
    const kiln_value low = reach(&c, x, KILN_OP_REDUCE_MIN, KILN_OP_MIN),
                     high = reach(&c, x, KILN_OP_REDUCE_MAX, KILN_OP_MAX);
    const kiln_value none = kiln_compose_scalar(&c, KILN_F32, 0),
                     most = kiln_compose_scalar(&c, KILN_F32, 255),
                     range = binary(&c, KILN_OP_SUB, high, low);
    const kiln_value scale = kiln_compose_where(&c, binary(&c, KILN_OP_EQUAL, range, none),
                                                kiln_compose_scalar(&c, KILN_F32, 1),
                                                binary(&c, KILN_OP_DIV, range, most));
    const kiln_value place[] = {
        binary(&c, KILN_OP_DIV, kiln_compose_unary(&c, KILN_OP_NEG, low), scale), none, most};
    kiln_value cut = 0, result = 0;
    kiln_compose_node(&c, KILN_OP_CLIP, place, 3, NULL, 0, &cut, 1);
    const kiln_value zero =
        kiln_compose_cast(&c, kiln_compose_unary(&c, KILN_OP_ROUND, cut), KILN_U8);
    const kiln_value operand[] = {x, scale, zero};
    kiln_compose_node(&c, KILN_OP_QUANTIZE_LINEAR, operand, 3, NULL, 0, &result, 1);
    kiln_compose_define(&c, 0, result);
    kiln_compose_define(&c, 1, scale);
    kiln_compose_define(&c, 2, zero);
    return c.st;
}
