/* Elements at positions that are data.
 *
 * GridSample: every output element is a weighted sum of input elements around a position that is
 * data. Of these elements, those outside are replaced by one inside (border, reflection) or count
 * as zero. Moving the position itself inside would give other results: cubic weights of elements
 * beyond the border are not zero. */
#include "base/check.h"
#include "compiler-core/ops/rules.h"

/* data: [n][channels][d...], grid: [n][o...][r] with the last dimension's coordinate first. */
kiln_status kiln_rule_grid_sample(kiln_infer *infer) {
    static const char *const modes[] = {"linear", "nearest", "cubic"};
    static const char *const paddings[] = {"zeros", "border", "reflection"};
    const kiln_value_info *data = kiln_infer_input(infer, 0), *grid = kiln_infer_input(infer, 1);
    kiln_str mode = kiln_node_text(infer->node, "mode"),
             padding = kiln_node_text(infer->node, "padding_mode");
    bool known_mode = false, known_padding = false;
    for (uint32_t i = 0; i < 3; i++) {
        known_mode |= kiln_str_is(mode, modes[i]);
        known_padding |= kiln_str_is(padding, paddings[i]);
    }
    if (!known_mode)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute mode: \"%.*s\"", KILN_STR_ARG(mode));
    if (!known_padding)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute padding_mode: \"%.*s\"",
                          KILN_STR_ARG(padding));
    const kiln_shape *from = &data->shape, *at = &grid->shape;
    if (from->rank < 3 || at->rank != from->rank || at->dim[0] != from->dim[0] ||
        at->dim[at->rank - 1] != (int64_t)from->rank - 2 || !kiln_dtype_is_float(grid->dtype))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "input 1 does not hold a position in input 0 per element");
    for (uint32_t d = 2; d < from->rank; d++)
        if (from->dim[d] == 0) return KILN_ERROR(INVALID_ARGUMENT, "dimension %u is empty", d);
    infer->dtype[0] = data->dtype;
    infer->shape[0] = *from;
    for (uint32_t d = 2; d < from->rank; d++) infer->shape[0].dim[d] = at->dim[d - 1];
    return KILN_OK;
}

/* One spatial dimension of the data. */
typedef struct side {
    int64_t extent;
    double low, high; /* where reflection turns */
    bool nearest, cubic, zeros, border;
} side;

/* A position beyond low or high is reflected until it is inside. */
static kiln_expr reflect(kiln_te *te, const side *s, kiln_expr x) {
    double range = s->high - s->low;
    kiln_expr zero = kiln_te_const(te, x, 0);
    if (range <= 0) return kiln_te_const(te, x, s->low);
    /* Distance from `low`; it is folded at `high` below. */
    kiln_expr away = kiln_unary(te, KILN_EXPR_ABS, kiln_sub(te, x, kiln_te_const(te, x, s->low)));
    kiln_expr turns =
        kiln_unary(te, KILN_EXPR_FLOOR, kiln_div(te, away, kiln_te_const(te, x, 2 * range)));
    kiln_expr along = kiln_sub(te, away, kiln_mul(te, turns, kiln_te_const(te, x, 2 * range)));
    kiln_expr back = kiln_sub(te, kiln_te_const(te, x, 2 * range), along);
    kiln_expr folded = kiln_max(te, kiln_min(te, along, back), zero);
    return kiln_add(te, folded, kiln_te_const(te, x, s->low));
}

static kiln_expr clamp(kiln_te *te, kiln_expr x, double low, double high) {
    return kiln_max(te, kiln_min(te, x, kiln_te_const(te, x, high)), kiln_te_const(te, x, low));
}

#define CUBIC_REACH 2 /* elements around a position that have a weight, to each side */

/* From -1..1 to a position in elements. If the border is repeated, positions far outside are
 * clamped to keep them finite: the result is the same. */
static kiln_expr position(kiln_te *te, const side *s, bool corners, kiln_expr coordinate) {
    double length = (double)s->extent;
    kiln_expr one = kiln_te_const(te, coordinate, 1), half = kiln_te_const(te, coordinate, 0.5);
    kiln_expr up = kiln_add(te, coordinate, one), x;
    if (corners)
        x = kiln_mul(te, up, kiln_te_const(te, coordinate, (length - 1) / 2));
    else
        x = kiln_sub(te, kiln_mul(te, up, kiln_te_const(te, coordinate, length / 2)), half);
    if (s->nearest) x = kiln_unary(te, KILN_EXPR_ROUND, x);
    double reach = s->cubic ? CUBIC_REACH : 0;
    return s->border ? clamp(te, x, -reach, length - 1 + reach) : x;
}

static kiln_taps make_taps(kiln_te *te, const side *s, kiln_expr x) {
    kiln_taps t = {.count = s->nearest ? 1 : s->cubic ? 4 : 2};
    kiln_expr base = s->nearest ? x : kiln_unary(te, KILN_EXPR_FLOOR, x);
    kiln_expr past = kiln_sub(te, x, base);
    double last = (double)(s->extent - 1);
    for (uint32_t k = 0; k < t.count; k++) {
        int offset = s->nearest ? 0 : (int)k + 1 - (int)t.count / 2;
        kiln_expr at = kiln_add(te, base, kiln_te_const(te, x, offset));
        kiln_expr distance = offset <= 0 ? kiln_add(te, past, kiln_te_const(te, x, -offset))
                                         : kiln_sub(te, kiln_te_const(te, x, offset), past);
        if (s->cubic)
            t.weight[k] = kiln_te_cubic_weight(te, -0.75, distance, offset == 0 || offset == 1);
        else if (!s->nearest)
            t.weight[k] = kiln_sub(te, kiln_te_const(te, x, 1), distance);
        kiln_expr inside = clamp(te, s->zeros || s->border ? at : reflect(te, s, at), 0, last);
        if (s->zeros) {
            kiln_expr is_inside = kiln_equal(te, inside, at);
            kiln_expr weight = t.weight[k] ? t.weight[k] : kiln_te_const(te, x, 1);
            t.weight[k] = kiln_select(te, is_inside, weight, kiln_te_const(te, x, 0));
        }
        t.index[k] = kiln_index_from(te, inside, s->extent);
    }
    return t;
}

void kiln_te_grid_sample(kiln_te *te) {
    const kiln_shape *data = kiln_te_in_shape(te, 0);
    kiln_str mode = kiln_node_text(te->node, "mode"),
             padding = kiln_node_text(te->node, "padding_mode");
    bool corners = kiln_node_int(te->node, "align_corners") != 0;
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr index[KILN_RANK_MAX] = {block.i[0], block.i[1]}, at[KILN_RANK_MAX] = {block.i[0]};
    kiln_taps t[KILN_RANK_MAX];
    for (uint32_t d = 2; d < data->rank; d++) at[d - 1] = block.i[d];
    for (uint32_t d = 2; d < data->rank; d++) {
        double edge = corners ? 0 : 0.5;
        side s = {.extent = data->dim[d],
                  .low = -edge,
                  .high = (double)data->dim[d] - 1 + edge,
                  .nearest = kiln_str_is(mode, "nearest"),
                  .cubic = kiln_str_is(mode, "cubic"),
                  .zeros = kiln_str_is(padding, "zeros"),
                  .border = kiln_str_is(padding, "border")};
        at[data->rank - 1] = kiln_index(te, (int64_t)data->rank - 1 - d);
        t[d] = make_taps(te, &s, position(te, &s, corners, kiln_te_load(te, 1, at)));
    }
    kiln_te_put(te, &block, kiln_te_sum_taps(te, t, 2, data->rank, index));
}

/* ---- RoiAlign -------------------------------------------------------------------------------- */

/* data: [n][channels][h][w], boxes: [count][x1, y1, x2, y2], and the image of each: [count]. A box
 * is cut into bins, and a bin's result is made of `sampling_ratio` positions along each dimension.
 */
kiln_status kiln_rule_roi_align(kiln_infer *infer) {
    const kiln_value_info *data = kiln_infer_input(infer, 0), *box = kiln_infer_input(infer, 1),
                          *image = kiln_infer_input(infer, 2);
    const kiln_node_info *node = infer->node;
    const kiln_str mode = kiln_node_text(node, "mode"),
                   shift = kiln_node_text(node, "coordinate_transformation_mode");
    const int64_t height = kiln_node_int(node, "output_height"),
                  width = kiln_node_int(node, "output_width"),
                  ratio = kiln_node_int(node, "sampling_ratio");
    if (!kiln_str_is(mode, "avg") && !kiln_str_is(mode, "max"))
        return KILN_ERROR(INVALID_ARGUMENT, "attribute mode: \"%.*s\"", KILN_STR_ARG(mode));
    if (!kiln_str_is(shift, "half_pixel") && !kiln_str_is(shift, "output_half_pixel"))
        return KILN_ERROR(INVALID_ARGUMENT, "attribute coordinate_transformation_mode: \"%.*s\"",
                          KILN_STR_ARG(shift));
    if (data->shape.rank != 4 || box->shape.rank != 2 || box->shape.dim[1] != 4 ||
        box->dtype != data->dtype || image->shape.rank != 1 ||
        image->shape.dim[0] != box->shape.dim[0])
        return KILN_ERROR(INVALID_ARGUMENT,
                          "inputs must be [n, c, h, w], boxes [count, 4] and their images [count]");
    const kiln_dtype_kind kind = kiln_dtype_kind_of(image->dtype);
    if (kind != KILN_KIND_INT && kind != KILN_KIND_UINT)
        return KILN_ERROR(INVALID_ARGUMENT, "input 2 must hold integers");
    if (kiln_shape_count(&data->shape) == 0 || height < 1 || width < 1)
        return KILN_ERROR(INVALID_ARGUMENT, "an image or a result without elements");
    if (ratio < 1 || ratio > INT16_MAX)
        return KILN_ERROR(UNIMPLEMENTED,
                          "attribute sampling_ratio: %lld; as many positions as a "
                          "box is large are not supported",
                          (long long)ratio);
    infer->shape[0] = (kiln_shape){4, {box->shape.dim[0], data->shape.dim[1], height, width}};
    return KILN_OK;
}

/* The two elements around sample `s` of bin `o` of a box from input 1's column `low` to `low` + 2,
 * along dimension `d`. Positions more than one element outside have no weight, nearer ones are on
 * the border. */
static kiln_taps bin_taps(kiln_te *te, uint32_t d, int64_t low, kiln_expr roi, kiln_expr o,
                          kiln_expr s) {
    const int64_t extent = kiln_te_in_shape(te, 0)->dim[d], bins = kiln_te_out_shape(te)->dim[d],
                  ratio = kiln_node_int(te->node, "sampling_ratio");
    const double scale = kiln_node_float(te->node, "spatial_scale");
    const bool half =
        kiln_str_is(kiln_node_text(te->node, "coordinate_transformation_mode"), "half_pixel");
    const kiln_expr at[] = {roi, kiln_index(te, low)}, behind[] = {roi, kiln_index(te, low + 2)};
    kiln_expr from = kiln_te_load(te, 1, at), to = kiln_te_load(te, 1, behind);
    const kiln_expr shift = kiln_te_const(te, from, half ? 0.5 : 0);
    from = kiln_sub(te, kiln_mul(te, from, kiln_te_const(te, from, scale)), shift);
    to = kiln_sub(te, kiln_mul(te, to, kiln_te_const(te, from, scale)), shift);
    kiln_expr size = kiln_sub(te, to, from);
    if (!half) size = kiln_max(te, size, kiln_te_const(te, from, 1));
    const kiln_dtype dtype = kiln_te_wide(te);
    const kiln_expr number = kiln_add(te, kiln_mul(te, o, kiln_index(te, ratio)), s);
    const kiln_expr along =
        kiln_add(te, kiln_cast(te, dtype, number), kiln_te_const(te, from, 0.5));
    const kiln_expr part = kiln_div(te, size, kiln_te_const(te, from, (double)(bins * ratio)));
    const kiln_expr x = kiln_add(te, from, kiln_mul(te, along, part));
    const kiln_expr inside = clamp(te, x, 0, (double)(extent - 1)),
                    base = kiln_unary(te, KILN_EXPR_FLOOR, inside),
                    past = kiln_sub(te, inside, base);
    const kiln_expr counts = kiln_and(te, kiln_less_equal(te, kiln_te_const(te, x, -1), x),
                                      kiln_less_equal(te, x, kiln_te_const(te, x, (double)extent)));
    kiln_taps t = {.count = 2};
    const kiln_expr zero = kiln_te_const(te, x, 0), one = kiln_te_const(te, x, 1);
    for (uint32_t k = 0; k < 2; k++) {
        t.index[k] = kiln_index_from(te, k ? kiln_add(te, base, one) : base, extent);
        t.weight[k] = kiln_select(te, counts, k ? past : kiln_sub(te, one, past), zero);
    }
    return t;
}

/* The largest of the four elements around a position, each times its weight. */
static kiln_expr largest_tap(kiln_te *te, const kiln_taps *t, kiln_expr *index) {
    kiln_expr best = 0;
    for (uint32_t k = 0; k < 4; k++) {
        index[2] = t[2].index[k / 2];
        index[3] = t[3].index[k % 2];
        const kiln_expr weight = kiln_mul(te, t[2].weight[k / 2], t[3].weight[k % 2]);
        const kiln_expr value = kiln_mul(te, weight, kiln_te_load(te, 0, index));
        best = best ? kiln_max(te, best, value) : value;
    }
    return best;
}

void kiln_te_roi_align(kiln_te *te) {
    const int64_t ratio = kiln_node_int(te->node, "sampling_ratio");
    const bool average = kiln_str_is(kiln_node_text(te->node, "mode"), "avg");
    const kiln_buffer sums = kiln_te_sums(te, false);
    kiln_te_block block = kiln_te_block_begin(te, "", kiln_te_out_shape(te));
    const kiln_expr i[4] = {block.i[0], block.i[1], block.i[2], block.i[3]};
    const kiln_expr sy = kiln_te_block_axis(te, &block, "sy", ratio, true),
                    sx = kiln_te_block_axis(te, &block, "sx", ratio, true);
    kiln_taps t[4] = {{0}};
    t[2] = bin_taps(te, 2, 1, i[0], i[2], sy);
    t[3] = bin_taps(te, 3, 0, i[0], i[3], sx);
    kiln_expr index[KILN_RANK_MAX] = {0};
    index[0] = kiln_index_from(te, kiln_te_load(te, 2, i), kiln_te_in_shape(te, 0)->dim[0]);
    index[1] = i[1];
    kiln_expr value = average ? kiln_te_sum_taps(te, t, 2, 4, index) : largest_tap(te, t, index);
    if (average) value = kiln_mul(te, value, kiln_te_const(te, value, 1 / (double)(ratio * ratio)));
    kiln_te_accumulate(te, &block, sums, i, 4, average ? KILN_COMBINE_SUM : KILN_COMBINE_MAX,
                       value);
    kiln_te_round(te, sums);
}
