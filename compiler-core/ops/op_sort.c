/* Order: the largest or smallest elements along a dimension. Every element counts those that stand
 * before it, which gives its place without a sort; quadratic in that dimension.
 *
 * Where few elements of many are wanted, the dimension is cut into parts, the first k of each part
 * are candidates, and of these the first k are found in the same way: k times n in all. Candidates
 * are in order within a part, and parts in order of positions, so the earlier of equals stays the
 * earlier. */
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

#define PART_MIN 64    /* elements of a part */
#define PART_CHOSEN 8  /* elements of a part for each one that is chosen of it */
#define PARTS_WORTHY 8 /* fewer are not worth a level of their own */

/* Elements along the axis that are still to be ordered. */
typedef struct candidates {
    uint32_t axis;
    int64_t k, count;
    bool largest;
    kiln_buffer position; /* where each stands in input 0; 0: they are the input's own */
    kiln_buffer value;    /* their values; 0: the input's */
} candidates;

static kiln_shape along_axis(kiln_te *te, const candidates *c, int64_t extent) {
    kiln_shape shape = *kiln_te_in_shape(te, 0);
    shape.dim[c->axis] = extent;
    return shape;
}

static kiln_expr value_at(kiln_te *te, const candidates *c, const kiln_expr *i, uint32_t rank) {
    return c->value ? kiln_te_read(te, c->value, i, rank) : kiln_te_load(te, 0, i);
}

/* Whether its element stands before one's own; of equals, the earlier does. */
static kiln_expr stands_before(kiln_te *te, bool largest, kiln_expr its, kiln_expr own,
                               kiln_expr is_earlier) {
    kiln_expr before = largest ? kiln_less(te, own, its) : kiln_less(te, its, own);
    kiln_expr tie = kiln_and(te, kiln_expr_binary(te->p, KILN_EXPR_EQ, own, its), is_earlier);
    return kiln_expr_binary(te->p, KILN_EXPR_OR, before, tie);
}

/* Number of elements before each one. */
static kiln_buffer places(kiln_te *te, const candidates *c) {
    const kiln_shape shape = along_axis(te, c, c->count);
    kiln_buffer place = kiln_te_temp(te, "place", KILN_INDEX_DTYPE, &shape);
    kiln_te_block block = kiln_te_block_begin(te, "place", &shape);
    kiln_expr r = kiln_te_block_axis(te, &block, "r", c->count, true);
    kiln_expr other[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape.rank; d++) other[d] = d == c->axis ? r : block.i[d];
    kiln_expr own = value_at(te, c, block.i, shape.rank), its = value_at(te, c, other, shape.rank);
    kiln_expr before = stands_before(te, c->largest, its, own, kiln_less(te, r, block.i[c->axis]));
    kiln_te_accumulate(te, &block, place, block.i, shape.rank, KILN_COMBINE_SUM,
                       kiln_select(te, before, kiln_index(te, 1), kiln_index(te, 0)));
    return place;
}

/* Where the elements of places 0 .. count-1 stand among `extent`: `chosen` has the count along
 * `dim`. */
static kiln_buffer positions(kiln_te *te, uint32_t dim, int64_t extent, kiln_buffer place,
                             const kiln_shape *chosen) {
    kiln_buffer position = kiln_te_temp(te, "position", KILN_INDEX_DTYPE, chosen);
    kiln_te_block block = kiln_te_block_begin(te, "position", chosen);
    kiln_expr r = kiln_te_block_axis(te, &block, "r", extent, true);
    kiln_expr element[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < chosen->rank; d++) element[d] = d == dim ? r : block.i[d];
    kiln_expr is_it = kiln_expr_binary(
        te->p, KILN_EXPR_EQ, kiln_te_read(te, place, element, chosen->rank), block.i[dim]);
    kiln_te_accumulate(te, &block, position, block.i, chosen->rank, KILN_COMBINE_MAX,
                       kiln_select(te, is_it, r, kiln_index(te, 0)));
    return position;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* The axis as parts and elements of a part; the other dimensions as they are. */
static kiln_shape in_parts(kiln_te *te, const candidates *c, int64_t parts, int64_t elements) {
    kiln_shape shape = *kiln_te_in_shape(te, 0), split = {.rank = shape.rank + 1};
    for (uint32_t d = 0; d < shape.rank; d++) split.dim[d + (d > c->axis)] = shape.dim[d];
    split.dim[c->axis] = parts;
    split.dim[c->axis + 1] = elements;
    return split;
}

/* Indices of the whole from those of parts. */
static void joined(const candidates *c, const kiln_expr *i, uint32_t rank, kiln_expr at,
                   kiln_expr *out) {
    for (uint32_t d = 0; d + 1 < rank; d++) out[d] = i[d + (d > c->axis)];
    out[c->axis] = at;
}

/* What is read from a buffer may be anything, for all that is known; as an index it is kept inside.
 */
static kiln_expr kept_inside(kiln_te *te, kiln_expr at, int64_t extent) {
    return kiln_max(te, kiln_min(te, at, kiln_index(te, extent - 1)), kiln_index(te, 0));
}

/* Where a candidate stands in the input. */
static kiln_expr origin(kiln_te *te, const candidates *c, const kiln_expr *i, uint32_t rank) {
    if (!c->position) return i[c->axis];
    return kept_inside(te, kiln_te_read(te, c->position, i, rank),
                       kiln_te_in_shape(te, 0)->dim[c->axis]);
}

/* The values of all parts; of the last one's rest, which is beyond the candidates, zeros. */
static kiln_buffer values_in_parts(kiln_te *te, const candidates *c, const kiln_shape *split) {
    kiln_dtype dtype = kiln_te_compute_dtype(kiln_te_in_dtype(te, 0));
    kiln_buffer values = kiln_te_temp(te, "part", dtype, split);
    kiln_te_block block = kiln_te_block_begin(te, "part", split);
    kiln_expr index[KILN_RANK_MAX] = {0};
    int64_t size = split->dim[c->axis + 1];
    kiln_expr at =
        kiln_add(te, kiln_index_affine(te, block.i[c->axis], size, 0), block.i[c->axis + 1]);
    joined(c, block.i, split->rank, at, index);
    index[c->axis] = origin(te, c, index, split->rank - 1);
    kiln_expr value = kiln_te_load(te, 0, index);
    kiln_te_store(te, &block, values, block.i, block.rank,
                  kiln_select(te, kiln_less(te, at, kiln_index(te, c->count)), value,
                              kiln_te_const(te, value, 0)));
    return values;
}

/* Number of elements of the part before each one. What is beyond the candidates stands behind all.
 */
static kiln_buffer places_in_parts(kiln_te *te, const candidates *c, const kiln_shape *split,
                                   kiln_buffer values) {
    uint32_t dim = c->axis + 1;
    kiln_buffer place = kiln_te_temp(te, "place", KILN_INDEX_DTYPE, split);
    kiln_te_block block = kiln_te_block_begin(te, "place", split);
    kiln_expr r = kiln_te_block_axis(te, &block, "r", split->dim[dim], true);
    kiln_expr other[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < split->rank; d++) other[d] = d == dim ? r : block.i[d];
    kiln_expr first = kiln_index_affine(te, block.i[c->axis], split->dim[dim], 0);
    kiln_expr count = kiln_index(te, c->count);
    kiln_expr own_is_one = kiln_less(te, kiln_add(te, first, block.i[dim]), count);
    kiln_expr its_is_one = kiln_less(te, kiln_add(te, first, r), count);
    kiln_expr before = stands_before(te, c->largest, kiln_te_read(te, values, other, split->rank),
                                     kiln_te_read(te, values, block.i, split->rank),
                                     kiln_less(te, r, block.i[dim]));
    kiln_expr not_own = kiln_expr_unary(te->p, KILN_EXPR_NOT, own_is_one);
    before = kiln_and(te, its_is_one, kiln_expr_binary(te->p, KILN_EXPR_OR, not_own, before));
    kiln_te_accumulate(te, &block, place, block.i, split->rank, KILN_COMBINE_SUM,
                       kiln_select(te, before, kiln_index(te, 1), kiln_index(te, 0)));
    return place;
}

/* The first k of every part of `size` elements. */
static void choose_in_parts(kiln_te *te, candidates *c, int64_t size) {
    int64_t parts = (c->count + size - 1) / size, last = c->count - (parts - 1) * size;
    const kiln_shape split = in_parts(te, c, parts, size), of_each = in_parts(te, c, parts, c->k);
    kiln_buffer values = values_in_parts(te, c, &split);
    kiln_buffer chosen =
        positions(te, c->axis + 1, size, places_in_parts(te, c, &split, values), &of_each);
    const kiln_shape shape = along_axis(te, c, (parts - 1) * c->k + KILN_MIN(c->k, last));
    kiln_buffer position = kiln_te_temp(te, "candidate", KILN_INDEX_DTYPE, &shape);
    kiln_te_block block = kiln_te_block_begin(te, "candidate", &shape);
    kiln_expr k = kiln_index(te, c->k), index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape.rank; d++) index[d + (d > c->axis)] = block.i[d];
    index[c->axis] = kiln_expr_binary(te->p, KILN_EXPR_FLOORDIV, block.i[c->axis], k);
    index[c->axis + 1] = kiln_expr_binary(te->p, KILN_EXPR_FLOORMOD, block.i[c->axis], k);
    kiln_expr at = kiln_add(te, kiln_index_affine(te, index[c->axis], size, 0),
                            kiln_te_read(te, chosen, index, of_each.rank));
    kiln_expr whole[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape.rank; d++) whole[d] = block.i[d];
    whole[c->axis] = c->position ? kept_inside(te, at, c->count) : at;
    kiln_te_store(te, &block, position, block.i, block.rank, origin(te, c, whole, shape.rank));
    c->position = position;
    c->count = shape.dim[c->axis];
}

/* The values of candidates, one behind the other. */
static void gather_values(kiln_te *te, candidates *c) {
    const kiln_shape shape = along_axis(te, c, c->count);
    c->value = kiln_te_temp(te, "value", kiln_te_compute_dtype(kiln_te_in_dtype(te, 0)), &shape);
    kiln_te_block block = kiln_te_block_begin(te, "value", &shape);
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape.rank; d++) index[d] = block.i[d];
    index[c->axis] = origin(te, c, block.i, shape.rank);
    kiln_te_store(te, &block, c->value, block.i, block.rank, kiln_te_load(te, 0, index));
}

static void choose_candidates(kiln_te *te, candidates *c) {
    int64_t size = KILN_MAX(PART_MIN, PART_CHOSEN * c->k);
    if (c->k == 0 || kiln_te_in_shape(te, 0)->rank == KILN_RANK_MAX) return;
    while (c->count >= PARTS_WORTHY * size) choose_in_parts(te, c, size);
    if (c->position) gather_values(te, c);
}

void kiln_te_top_k(kiln_te *te) {
    candidates c = {.largest = kiln_node_int(te->node, "largest") != 0};
    kiln_shape chosen = *kiln_te_in_shape(te, 0);
    kiln_status st = resolve(te->node, &chosen, &c.axis, &c.k);
    KILN_CHECK(st == NULL);
    int64_t extent = c.count = chosen.dim[c.axis];
    chosen.dim[c.axis] = c.k;
    choose_candidates(te, &c);
    kiln_buffer position = positions(te, c.axis, c.count, places(te, &c), &chosen);
    for (uint32_t o = 0; o < te->node->output_count; o++) {
        if (!te->output[o]) continue;
        kiln_te_block block = kiln_te_block_begin(te, o ? "index" : "", &chosen);
        kiln_expr at = kiln_te_read(te, position, block.i, block.rank);
        kiln_expr index[KILN_RANK_MAX] = {0};
        for (uint32_t d = 0; d < block.rank; d++) index[d] = block.i[d];
        if (c.position) {
            index[c.axis] = kept_inside(te, at, c.count);
            at = kiln_te_read(te, c.position, index, block.rank);
        }
        index[c.axis] = kept_inside(te, at, extent);
        kiln_te_store(te, &block, te->output[o], block.i, block.rank,
                      o ? at : kiln_te_load_raw(te, 0, index));
    }
}
