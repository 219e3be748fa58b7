/* Order: the largest or smallest elements along a dimension. Every element counts those that stand
 * before it, which gives its place without a sort; quadratic in that dimension. */
#include "base/check.h"
#include "compiler-core/ops/rules.h"

static kiln_status resolve(const kiln_node_info *node, const kiln_shape *shape, uint32_t *out_axis,
                           int64_t *out_k) {
    uint32_t count = 0;
    const int64_t *k = kiln_node_ints(node, "k", &count);
    kiln_status st = kiln_axis_resolve(kiln_node_int(node, "axis"), shape->rank, "axis", out_axis);
    if (st) return st;
    if (count != 1 || k[0] < 0 || k[0] > shape->dim[*out_axis])
        return KILN_ERROR(INVALID_ARGUMENT, "attribute k must be one number, at most %lld",
                          (long long)shape->dim[*out_axis]);
    *out_k = k[0];
    return KILN_OK;
}

kiln_status kiln_rule_top_k(kiln_infer *infer) {
    const kiln_value_info *in = kiln_node_input(infer->graph, infer->node, 0);
    uint32_t axis = 0;
    int64_t k = 0;
    kiln_status st = resolve(infer->node, &in->shape, &axis, &k);
    for (uint32_t i = 0; !st && i < infer->node->output_count; i++) {
        infer->dtype[i] = i ? KILN_I64 : in->dtype;
        infer->shape[i] = in->shape;
        infer->shape[i].dim[axis] = k;
    }
    return st;
}

/* Number of elements before each one; of equals, the earlier comes first. */
static kiln_buffer places(kiln_te *te, uint32_t axis) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    bool largest = kiln_node_int(te->node, "largest") != 0;
    kiln_buffer place = kiln_te_temp(te, "place", KILN_INDEX_DTYPE, shape);
    kiln_te_block block = kiln_te_block_begin(te, "place", shape);
    kiln_expr r = kiln_te_block_axis(te, &block, "r", shape->dim[axis], true);
    kiln_expr other[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape->rank; d++) other[d] = d == axis ? r : block.i[d];
    kiln_expr own = kiln_te_load(te, 0, block.i), its = kiln_te_load(te, 0, other);
    kiln_expr before = largest ? kiln_less(te, own, its) : kiln_less(te, its, own);
    kiln_expr tie = kiln_and(te, kiln_expr_binary(te->p, KILN_EXPR_EQ, own, its),
                             kiln_less(te, r, block.i[axis]));
    kiln_te_accumulate(te, &block, place, block.i, shape->rank, KILN_COMBINE_SUM,
                       kiln_select(te, kiln_expr_binary(te->p, KILN_EXPR_OR, before, tie),
                                   kiln_index(te, 1), kiln_index(te, 0)));
    return place;
}

/* Where the elements of places 0 .. k-1 stand. */
static kiln_buffer positions(kiln_te *te, uint32_t axis, kiln_buffer place,
                             const kiln_shape *chosen) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    kiln_buffer position = kiln_te_temp(te, "position", KILN_INDEX_DTYPE, chosen);
    kiln_te_block block = kiln_te_block_begin(te, "position", chosen);
    kiln_expr r = kiln_te_block_axis(te, &block, "r", shape->dim[axis], true);
    kiln_expr element[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape->rank; d++) element[d] = d == axis ? r : block.i[d];
    kiln_expr is_it = kiln_expr_binary(
        te->p, KILN_EXPR_EQ, kiln_te_read(te, place, element, shape->rank), block.i[axis]);
    kiln_te_accumulate(te, &block, position, block.i, shape->rank, KILN_COMBINE_MAX,
                       kiln_select(te, is_it, r, kiln_index(te, 0)));
    return position;
}

void kiln_te_top_k(kiln_te *te) {
    uint32_t axis = 0;
    int64_t k = 0;
    kiln_shape chosen = *kiln_te_in_shape(te, 0);
    kiln_status st = resolve(te->node, &chosen, &axis, &k);
    KILN_CHECK(st == NULL);
    int64_t extent = chosen.dim[axis];
    chosen.dim[axis] = k;
    kiln_buffer position = positions(te, axis, places(te, axis), &chosen);
    for (uint32_t o = 0; o < te->node->output_count; o++) {
        if (!te->output[o]) continue;
        kiln_te_block block = kiln_te_block_begin(te, o ? "index" : "", &chosen);
        kiln_expr at = kiln_te_read(te, position, block.i, block.rank);
        kiln_expr index[KILN_RANK_MAX] = {0};
        for (uint32_t d = 0; d < block.rank; d++) index[d] = block.i[d];
        index[axis] = kiln_index_from(te, at, extent);
        kiln_te_store(te, &block, te->output[o], block.i, block.rank,
                      o ? at : kiln_te_load_raw(te, 0, index));
    }
}
