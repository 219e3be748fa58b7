/* Sums of products of bytes, with the zero points taken out of them. */
#include "compiler-core/ops/rules.h"

#define UNSIGNED_ZERO 128 /* of a byte that becomes a signed one */

static bool is_unsigned(const kiln_te *te) { return kiln_te_in_dtype(te, 0) == KILN_U8; }

static kiln_expr less_bias(kiln_te *te, kiln_expr byte) {
    kiln_expr wide = kiln_cast(te, KILN_I32, byte);
    return is_unsigned(te) ? kiln_sub(te, wide, kiln_te_const(te, wide, UNSIGNED_ZERO)) : wide;
}

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

kiln_te_bytes kiln_te_bytes_begin(kiln_te *te, const int *dim_of) {
    kiln_te_bytes bytes = {.applies = kiln_value_is_constant(te->graph, te->node->input[1]) &&
                                      kiln_te_in_dtype(te, 1) == KILN_I8 && !kiln_te_has(te, 3),
                           .dim_of = dim_of};
    int64_t known;
    if (!bytes.applies) return bytes;
    kiln_expr zero = kiln_te_has(te, 2) ? kiln_te_load_scalar(te, 2, kiln_te_in_dtype(te, 0))
                                        : kiln_expr_int(te->p, kiln_te_in_dtype(te, 0), 0);
    bytes.offset = less_bias(te, zero);
    if (kiln_expr_as_int(te->p, bytes.offset, &known) && known == 0) bytes.offset = 0;
    if (bytes.offset)
        bytes.of_weights = kiln_te_reduce(te, "weights",
                                          (kiln_te_reduction){.shape = kiln_te_in_shape(te, 1),
                                                              .mask = summed_dims(te, dim_of),
                                                              .dtype = KILN_I32,
                                                              .combiner = KILN_COMBINE_SUM,
                                                              .operand = weight})
                               .buffer;
    return bytes;
}

kiln_buffer kiln_te_bytes_data(kiln_te *te, kiln_buffer from) {
    if (!is_unsigned(te)) return from;
    const kiln_shape shape = from ? te->p->buffer.data[from].shape : *kiln_te_in_shape(te, 0);
    kiln_te_block block = kiln_te_temp_begin(te, "signed", KILN_I8, &shape);
    kiln_expr byte = from ? kiln_te_at(te, from, block.i) : kiln_te_load_raw(te, 0, block.i);
    kiln_te_put(te, &block, less_bias(te, byte));
    return block.to;
}

void kiln_te_bytes_finish(kiln_te *te, const kiln_te_bytes *bytes, kiln_buffer sums) {
    const kiln_shape *shape = kiln_te_in_shape(te, 1);
    kiln_te_block block = kiln_te_output_begin(te, "zero");
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape->rank; d++)
        index[d] = bytes->dim_of[d] < 0 ? kiln_index(te, 0) : block.i[bytes->dim_of[d]];
    kiln_expr of_weights = kiln_te_at(te, bytes->of_weights, index);
    kiln_te_put(
        te, &block,
        kiln_sub(te, kiln_te_at(te, sums, block.i), kiln_mul(te, bytes->offset, of_weights)));
}
