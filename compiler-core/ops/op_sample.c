/* GridSample: every output element is a weighted sum of input elements around a position that is
 * data. Of these elements, those outside are replaced by one inside (border, reflection) or count
 * as zero. Moving the position itself inside would be something else: cubic weights of elements
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

/* A position beyond low or high is folded back as often as it takes. */
static kiln_expr reflect(kiln_te *te, const side *s, kiln_expr x) {
    double range = s->high - s->low;
    kiln_expr zero = kiln_te_const(te, x, 0);
    if (range <= 0) return kiln_te_const(te, x, s->low);
    /* Distance from `low` on a line that goes there and back. */
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

/* From -1..1 to a position in elements. Where the border is repeated, farther outside is no
 * different, so that it is kept finite. */
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
