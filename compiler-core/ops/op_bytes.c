/* Sums of products of bytes, with the zero points taken out of them. */
#include "compiler-core/ops/rules.h"

#define UNSIGNED_ZERO 128 /* of a byte that becomes a signed one */

static kiln_expr i32(kiln_te *te, kiln_expr e) { return kiln_expr_cast(te->p, KILN_I32, e); }

static bool is_unsigned(const kiln_te *te) { return kiln_te_in_dtype(te, 0) == KILN_U8; }

static kiln_expr less_bias(kiln_te *te, kiln_expr byte) {
    kiln_expr wide = i32(te, byte);
    return is_unsigned(te) ? kiln_sub(te, wide, kiln_te_const(te, wide, UNSIGNED_ZERO)) : wide;
}

static kiln_expr weight(kiln_te *te, const void *context, const kiln_expr *i) {
    (void)context;
    return i32(te, kiln_te_load_raw(te, 1, i));
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
    kiln_expr first = kiln_index(te, 0);
    int64_t known;
    if (!bytes.applies) return bytes;
    kiln_expr zero = kiln_te_has(te, 2) ? kiln_te_load_raw(te, 2, &first)
                                        : kiln_expr_int(te->p, kiln_te_in_dtype(te, 0), 0);
    bytes.offset = less_bias(te, zero);
    if (kiln_expr_as_int(te->p, bytes.offset, &known) && known == 0) bytes.offset = 0;
    if (bytes.offset)
        bytes.of_weights =
            kiln_te_reduce(te, "weights", kiln_te_in_shape(te, 1), summed_dims(te, dim_of),
                           KILN_I32, KILN_COMBINE_SUM, weight, NULL);
    return bytes;
}

kiln_buffer kiln_te_bytes_data(kiln_te *te, kiln_buffer from) {
    if (!is_unsigned(te)) return from;
    const kiln_shape shape = from ? te->p->buffer.data[from].shape : *kiln_te_in_shape(te, 0);
    kiln_buffer data = kiln_te_temp(te, "signed", KILN_I8, &shape);
    kiln_te_block block = kiln_te_block_begin(te, "signed", &shape);
    kiln_expr byte =
        from ? kiln_te_read(te, from, block.i, block.rank) : kiln_te_load_raw(te, 0, block.i);
    kiln_te_store(te, &block, data, block.i, block.rank, less_bias(te, byte));
    return data;
}

void kiln_te_bytes_finish(kiln_te *te, const kiln_te_bytes *bytes, kiln_buffer sums) {
    const kiln_shape *shape = kiln_te_in_shape(te, 1);
    kiln_te_block block = kiln_te_block_begin(te, "zero", &te->p->buffer.data[te->output[0]].shape);
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape->rank; d++)
        index[d] = bytes->dim_of[d] < 0 ? kiln_index(te, 0) : block.i[bytes->dim_of[d]];
    kiln_expr of_weights = kiln_te_read(te, bytes->of_weights, index, shape->rank);
    kiln_expr sum = kiln_te_read(te, sums, block.i, block.rank);
    kiln_te_store(te, &block, te->output[0], block.i, block.rank,
                  kiln_sub(te, sum, kiln_mul(te, bytes->offset, of_weights)));
}
