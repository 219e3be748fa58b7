/* Linear algebra other than products: determinants. */
#include "compiler-core/frontend/onnx/compose.h"

/* ---- Det ------------------------------------------------------------------------------------- */

/* Elimination with the largest element of each column as its pivot: an iteration for each column,
 * of [batch] matrices at once. Rows above the current one are not read any more. */
typedef struct elimination {
    kiln_value rows;       /* 0, 1, ... */
    kiln_value zero, none; /* none: -1, below any size */
} elimination;

/* Number of the row with the pivot: [batch][1]. */
static kiln_value pivot_row(kiln_composer *c, const elimination *e, kiln_value column,
                            kiln_value number) {
    const kiln_attr attr[] = {kiln_attr_int("axis", 1), kiln_attr_int("keepdims", 1)};
    const kiln_value size =
        kiln_compose_where(c, kiln_compose_binary(c, KILN_OP_LESS, e->rows, number), e->none,
                           kiln_compose_unary(c, KILN_OP_ABS, column));
    kiln_value row = 0;
    kiln_compose_node(c, KILN_OP_ARG_MAX, &size, 1, attr, 2, &row, 1);
    return row;
}

/* Each matrix after the pivot's row and row `number` are swapped, and the pivot's column is
 * eliminated. */
static kiln_value eliminated(kiln_composer *c, const elimination *e, kiln_value matrix,
                             kiln_value column, kiln_value is_pivot, kiln_value upper,
                             kiln_value row, kiln_value number) {
    const kiln_value pivot = kiln_compose_unsqueeze(c, kiln_compose_gather(c, upper, number, 1), 1),
                     own = kiln_compose_unsqueeze(c, kiln_compose_gather(c, row, number, 1), 1);
    const kiln_value lower = kiln_compose_where(c, is_pivot, own, column);
    /* A column of zeros: nothing to subtract, and the determinant is 0. */
    const kiln_value used = kiln_compose_where(
        c, kiln_compose_binary(c, KILN_OP_EQUAL, pivot, e->zero), e->none, pivot);
    const kiln_value factor =
        kiln_compose_where(c, kiln_compose_binary(c, KILN_OP_GREATER, e->rows, number),
                           kiln_compose_binary(c, KILN_OP_DIV, lower, used), e->zero);
    const kiln_value exchanged = kiln_compose_where(c, kiln_compose_unsqueeze(c, is_pivot, 2),
                                                    kiln_compose_unsqueeze(c, row, 1), matrix);
    return kiln_compose_binary(c, KILN_OP_SUB, exchanged,
                               kiln_compose_binary(c, KILN_OP_MUL,
                                                   kiln_compose_unsqueeze(c, factor, 2),
                                                   kiln_compose_unsqueeze(c, upper, 1)));
}

/* carry: [0] matrices, [1] products of the pivots so far, [batch][1]. */
static void eliminate(kiln_composer *c, void *context, kiln_compose_loop *loop) {
    static const int64_t rows = 1;
    const elimination *e = context;
    const kiln_value matrix = loop->carry[0], number = loop->number;
    const kiln_value column = kiln_compose_gather(c, matrix, number, 2),
                     row = kiln_compose_gather(c, matrix, number, 1);
    const kiln_value at = pivot_row(c, e, column, number);
    const kiln_value is_pivot = kiln_compose_binary(c, KILN_OP_EQUAL, e->rows, at);
    const kiln_attr attr[] = {kiln_attr_ints("axes", &rows, 1), kiln_attr_int("keepdims", 0)};
    const kiln_value masked =
        kiln_compose_where(c, kiln_compose_unsqueeze(c, is_pivot, 2), matrix, e->zero);
    kiln_value upper = 0;
    kiln_compose_node(c, KILN_OP_REDUCE_SUM, &masked, 1, attr, 2, &upper, 1);
    const kiln_value pivot = kiln_compose_unsqueeze(c, kiln_compose_gather(c, upper, number, 1), 1);
    const kiln_value signed_pivot =
        kiln_compose_where(c, kiln_compose_binary(c, KILN_OP_EQUAL, at, number), pivot,
                           kiln_compose_unary(c, KILN_OP_NEG, pivot));
    loop->carry[0] = eliminated(c, e, matrix, column, is_pivot, upper, row, number);
    loop->carry[1] = kiln_compose_binary(c, KILN_OP_MUL, loop->carry[1], signed_pivot);
}

kiln_status kiln_import_det(kiln_importer *im) {
    kiln_composer c = {.im = im};
    const kiln_value x = kiln_import_input(im, 0);
    if (!x) return KILN_ERROR(INVALID_ARGUMENT, "it has no input");
    kiln_shape shape = *kiln_compose_shape(&c, x);
    const kiln_dtype dtype = kiln_compose_dtype(&c, x),
                     wide = dtype == KILN_F64 ? KILN_F64 : KILN_F32;
    if (shape.rank < 2 || shape.dim[shape.rank - 1] != shape.dim[shape.rank - 2] ||
        !kiln_dtype_is_float(dtype))
        return KILN_ERROR(INVALID_ARGUMENT, "its input must hold square matrices of floats");
    const int64_t size = shape.dim[shape.rank - 1];
    if (size < 1 || size > KILN_LOOP_TRIPS_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "matrices of %lld rows", (long long)size);
    shape.rank -= 2;
    const int64_t batch = kiln_shape_count(&shape);
    kiln_tensor rows = kiln_tensor_create(im->graph->arena, KILN_I64, &(kiln_shape){1, {size}});
    for (int64_t i = 0; i < size; i++) ((int64_t *)rows.data)[i] = i;
    elimination e = {.rows = kiln_compose_constant(&c, &rows),
                     .zero = kiln_compose_scalar(&c, wide, 0),
                     .none = kiln_compose_scalar(&c, wide, -1)};
    kiln_value carry[] = {kiln_compose_reshape(&c, kiln_compose_cast(&c, x, wide),
                                               &(kiln_shape){3, {batch, size, size}}),
                          kiln_compose_filled(&c, wide, &(kiln_shape){2, {batch, 1}}, 1)};
    kiln_compose_loop loop = {.trips = size, .carried = 2, .carry = carry};
    kiln_compose_repeat(&c, &loop, eliminate, &e);
    kiln_compose_define(&c, 0,
                        kiln_compose_cast(&c, kiln_compose_reshape(&c, carry[1], &shape), dtype));
    return c.st;
}
