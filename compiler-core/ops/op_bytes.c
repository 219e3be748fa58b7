/* Sums of products of bytes, with the zero points moved out of the sums. */
#include "compiler-core/ops/rules.h"

static kiln_expr weight(kiln_te *te, const void *context, const kiln_expr *i) {
    (void)context;
    return kiln_te_load_raw(te, 1, i);
}

/* Bit d: dimension d of w is summed up. */
static uint32_t summed_dims(kiln_te *te, const int *dim_of) {
    uint32_t summed = 0;
    for (uint32_t d = 0; d < kiln_te_in_shape(te, 1)->rank; d++)
        summed |= (uint32_t)(dim_of[d] < 0) << d;
    return summed;
}

/* The weights' sums times the constant zero point: computed once, when the weights are loaded. */
static kiln_buffer times_zero(kiln_te *te, const kiln_te_bytes *bytes) {
    const kiln_shape shape = te->p->buffer.data[bytes->of_weights].shape;
    kiln_te_block block = kiln_te_temp_begin(te, "offset", KILN_I32, &shape);
    kiln_te_put(te, &block, kiln_mul(te, kiln_te_at(te, bytes->of_weights, block.i), bytes->zero));
    return block.to;
}

kiln_te_bytes kiln_te_bytes_begin(kiln_te *te, const int *dim_of) {
    kiln_te_bytes bytes = {.applies = kiln_value_is_constant(te->graph, te->node->input[1]) &&
                                      kiln_te_in_dtype(te, 1) == KILN_I8 && !kiln_te_has(te, 3),
                           .dim_of = dim_of};
    int64_t known;
    if (!bytes.applies || !kiln_te_has(te, 2)) return bytes;
    bytes.zero = kiln_te_load_scalar(te, 2, KILN_I32);
    if (kiln_expr_as_int(te->p, bytes.zero, &known) && known == 0) bytes.zero = 0;
    if (bytes.zero)
        bytes.of_weights = kiln_te_reduce(te, "weights",
                                          (kiln_te_reduction){.shape = kiln_te_in_shape(te, 1),
                                                              .mask = summed_dims(te, dim_of),
                                                              .dtype = KILN_I32,
                                                              .combiner = KILN_COMBINE_SUM,
                                                              .operand = weight})
                               .buffer;
    if (bytes.zero && kiln_expr_is_const(te->p, bytes.zero))
        bytes.of_weights = times_zero(te, &bytes);
    return bytes;
}

void kiln_te_bytes_finish(kiln_te *te, const kiln_te_bytes *bytes, kiln_buffer sums) {
    const kiln_shape *shape = kiln_te_in_shape(te, 1);
    kiln_te_block block = kiln_te_output_begin(te, "zero");
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape->rank; d++)
        index[d] = bytes->dim_of[d] < 0 ? kiln_index(te, 0) : block.i[bytes->dim_of[d]];
    kiln_expr of_weights = kiln_te_at(te, bytes->of_weights, index);
    if (!kiln_expr_is_const(te->p, bytes->zero)) of_weights = kiln_mul(te, of_weights, bytes->zero);
    kiln_te_put(te, &block, kiln_sub(te, kiln_te_at(te, sums, block.i), of_weights));
}
