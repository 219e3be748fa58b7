/* Order: the largest or smallest elements along a dimension.
 *
 * If there are few elements, each counts those that come before it, which gives its place without a
 * sort; quadratic, but on all lanes. Many are merged: each element starts as a run of one; two runs
 * become one, which keeps no more elements than wanted. Each element of the result finds by
 * bisection how many of those before it come from the first run: n log^2 k in all. The first run
 * has the earlier elements, so equal elements keep their order. NaNs may be anywhere. */
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

/* The dimension's elements as runs in order. */
typedef struct runs {
    const kiln_te_order *order;
    int64_t count, run;   /* elements in all runs; of each, the last one may have fewer */
    kiln_buffer position; /* each element's position in the dimension; 0: in order */
} runs;

static kiln_shape with_extent(const kiln_te_order *o, int64_t extent) {
    kiln_shape shape = o->shape;
    shape.dim[o->axis] = extent;
    return shape;
}

/* Element `at` of a buffer with the order's dimensions; other indices are the block's. */
static kiln_expr read_moved(kiln_te *te, const kiln_te_order *o, const kiln_te_block *block,
                            kiln_buffer buffer, kiln_expr at) {
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < o->shape.rank; d++) index[d] = d == o->axis ? at : block->i[d];
    return kiln_te_at(te, buffer, index);
}

static kiln_expr value_at(kiln_te *te, const kiln_te_order *o, const kiln_te_block *block,
                          kiln_expr at) {
    return o->keys ? read_moved(te, o, block, o->keys, at)
                   : kiln_cast(te, kiln_te_wide(te), kiln_te_load_moved(te, 0, block, o->axis, at));
}

static kiln_expr stands_before(kiln_te *te, const kiln_te_order *o, kiln_expr its, kiln_expr own) {
    return o->largest ? kiln_less(te, own, its) : kiln_less(te, its, own);
}

/* ---- counting -------------------------------------------------------------------------------- */

/* Number of elements before each one; of equals, the earlier ones. */
static kiln_buffer places(kiln_te *te, const kiln_te_order *o) {
    kiln_te_block block = kiln_te_temp_begin(te, "place", KILN_INDEX_DTYPE, &o->shape);
    kiln_expr r = kiln_te_block_axis(te, &block, "r", o->shape.dim[o->axis], true);
    kiln_expr at = block.i[o->axis], own = value_at(te, o, &block, at),
              its = value_at(te, o, &block, r);
    kiln_expr tie = kiln_and(te, kiln_equal(te, own, its), kiln_less(te, r, at));
    kiln_expr before = kiln_binary(te, KILN_EXPR_OR, stands_before(te, o, its, own), tie);
    kiln_te_combine(te, &block, KILN_COMBINE_SUM,
                    kiln_select(te, before, kiln_index(te, 1), kiln_index(te, 0)));
    return block.to;
}

/* The elements that have the wanted places. */
static kiln_buffer count_places(kiln_te *te, const kiln_te_order *o) {
    const kiln_shape shape = with_extent(o, o->wanted);
    kiln_buffer place = places(te, o);
    kiln_te_block block = kiln_te_temp_begin(te, "position", KILN_INDEX_DTYPE, &shape);
    kiln_expr r = kiln_te_block_axis(te, &block, "r", o->shape.dim[o->axis], true);
    kiln_expr is_it = kiln_equal(te, read_moved(te, o, &block, place, r), block.i[o->axis]);
    kiln_te_combine(te, &block, KILN_COMBINE_MAX, kiln_select(te, is_it, r, kiln_index(te, 0)));
    return block.to;
}

/* ---- merging --------------------------------------------------------------------------------- */

/* Position of element `at` of the runs in the dimension. */
static kiln_expr origin(kiln_te *te, const runs *u, const kiln_te_block *block, kiln_expr at) {
    at = kiln_index_clamp(te, at, u->count);
    if (!u->position) return at;
    return kiln_index_clamp(te, read_moved(te, u->order, block, u->position, at),
                            u->order->shape.dim[u->order->axis]);
}

/* Whether element `b`, of the second run, comes before `a` of the first. */
static kiln_expr overtakes(kiln_te *te, const runs *u, const kiln_te_block *block, kiln_expr b,
                           kiln_expr a) {
    return stands_before(te, u->order, value_at(te, u->order, block, origin(te, u, block, b)),
                         value_at(te, u->order, block, origin(te, u, block, a)));
}

/* The element of the runs that the block writes when runs of `kept` elements are made. Of two runs
 * that begin at `first` and `second` it has `t` elements before it, `taken` of them in the
 * first. */
static kiln_expr merged(kiln_te *te, const runs *u, const kiln_te_block *block, int64_t kept) {
    kiln_expr d = block->i[u->order->axis], zero = kiln_index(te, 0), run = kiln_index(te, u->run);
    kiln_expr pair = kiln_index_floordiv(te, d, kept);
    kiln_expr t = kiln_index_floormod(te, d, kept);
    kiln_expr first = kiln_mul(te, pair, kiln_index(te, 2 * u->run));
    kiln_expr second = kiln_add(te, first, run);
    kiln_expr rest = kiln_sub(te, kiln_index(te, u->count), second);
    kiln_expr firsts = kiln_min(te, run, kiln_add(te, rest, run)),
              seconds = kiln_max(te, zero, kiln_min(te, run, rest));
    kiln_expr taken = kiln_max(te, zero, kiln_sub(te, t, seconds)), most = kiln_min(te, t, firsts);
    int64_t step = 1, range = KILN_MIN(u->run, kept - 1);
    while (2 * step <= range) step *= 2;
    for (; range > 0 && step > 0; step /= 2) {
        kiln_expr more = kiln_index_affine(te, taken, 1, step);
        kiln_expr last = kiln_index_affine(te, kiln_add(te, first, more), 1, -1);
        kiln_expr past = overtakes(te, u, block, kiln_add(te, second, kiln_sub(te, t, more)), last);
        taken = kiln_select(
            te, kiln_and(te, kiln_less_equal(te, more, most), kiln_unary(te, KILN_EXPR_NOT, past)),
            more, taken);
    }
    kiln_expr a = kiln_add(te, first, taken), of_second = kiln_sub(te, t, taken),
              b = kiln_add(te, second, of_second);
    kiln_expr sooner =
        kiln_and(te, kiln_less(te, of_second, seconds), overtakes(te, u, block, b, a));
    return kiln_select(
        te, kiln_binary(te, KILN_EXPR_OR, sooner, kiln_less_equal(te, firsts, taken)), b, a);
}

static void merge(kiln_te *te, runs *u) {
    const int64_t kept = KILN_MIN(2 * u->run, u->order->wanted),
                  pairs = (u->count + 2 * u->run - 1) / (2 * u->run),
                  last = u->count - (pairs - 1) * 2 * u->run,
                  count = (pairs - 1) * kept + KILN_MIN(kept, last);
    const kiln_shape shape = with_extent(u->order, count);
    kiln_te_block block = kiln_te_temp_begin(te, "merged", KILN_INDEX_DTYPE, &shape);
    kiln_te_put(te, &block, origin(te, u, &block, merged(te, u, &block, kept)));
    *u = (runs){u->order, count, kept, block.to};
}

int64_t kiln_te_order_steps(const kiln_te_order *o) {
    const int64_t extent = o->shape.dim[o->axis];
    int64_t steps = 0, bits = 0, share = extent;
    for (int64_t run = 1; run < extent; run *= 2) {
        bits += run < 2 * o->wanted;
        if (run >= o->wanted) share /= 2;
        steps += (bits + 1) * share;
    }
    return steps / extent * KILN_BISECTION_STEP;
}

kiln_buffer kiln_te_order_merge(kiln_te *te, const kiln_te_order *o) {
    runs u = {.order = o, .count = o->shape.dim[o->axis], .run = 1};
    while (u.count > u.run) merge(te, &u);
    return u.position;
}

static kiln_buffer find_positions(kiln_te *te, const kiln_te_order *o) {
    const int64_t extent = o->shape.dim[o->axis];
    bool merged_sooner = extent > 1 && o->wanted > 0 && kiln_te_order_steps(o) < extent + o->wanted;
    return merged_sooner ? kiln_te_order_merge(te, o) : count_places(te, o);
}

void kiln_te_top_k(kiln_te *te) {
    kiln_te_order o = {.shape = *kiln_te_in_shape(te, 0),
                       .largest = kiln_node_int(te->node, "largest") != 0};
    kiln_status st = resolve(te->node, &o.shape, &o.axis, &o.wanted);
    KILN_CHECK(st == NULL);
    const kiln_shape chosen = with_extent(&o, o.wanted);
    kiln_buffer position = find_positions(te, &o);
    for (uint32_t n = 0; n < te->node->output_count; n++) {
        if (!te->output[n]) continue;
        kiln_te_block block = kiln_te_block_begin(te, n ? "index" : "", &chosen);
        kiln_expr at = kiln_te_at(te, position, block.i);
        kiln_te_store(te, &block, te->output[n], block.i, block.rank,
                      n ? at
                        : kiln_te_load_moved(te, 0, &block, o.axis,
                                             kiln_index_clamp(te, at, o.shape.dim[o.axis])));
    }
}
