/* Resize: every output element is a weighted sum of a few input elements ("taps") per dimension:
 * one for nearest, two for linear, four for cubic, more when made smaller without aliasing.
 * Positions are computed in f64 from the output index, exactly as the operator's definition writes
 * them. */
#include <math.h>

#include "base/check.h"
#include "compiler-core/ops/rules.h"

typedef struct resize_plan {
    int64_t in[KILN_RANK_MAX], out[KILN_RANK_MAX];
    double scale[KILN_RANK_MAX];
    double roi_begin[KILN_RANK_MAX], roi_end[KILN_RANK_MAX];
    bool whole[KILN_RANK_MAX]; /* this dimension is not resized */
} resize_plan;

/* The common scale of all resized dimensions that keeps their ratio: the smallest or the largest
 * that any of the sizes needs; 0: each has its own. */
static double common_scale(const kiln_node_info *node, const kiln_shape *shape) {
    uint32_t count = 0, axes_count = 0;
    const int64_t *sizes = kiln_node_ints(node, "sizes", &count),
                  *axes = kiln_node_ints(node, "axes", &axes_count);
    kiln_str policy = kiln_node_text(node, "keep_aspect_ratio_policy");
    bool smallest = kiln_str_is(policy, "not_larger");
    if (!count || kiln_str_is(policy, "stretch")) return 0;
    double scale = smallest ? INFINITY : 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t d = axes ? (axes[i] < 0 ? axes[i] + shape->rank : axes[i]) : i;
        double own = d < 0 || d >= shape->rank ? 0 : (double)sizes[i] / (double)shape->dim[d];
        scale = smallest ? fmin(scale, own) : fmax(scale, own);
    }
    return scale;
}

static kiln_status resolve_dimension(const kiln_node_info *node, uint32_t d, uint32_t item,
                                     double common, resize_plan *plan) {
    uint32_t scale_count = 0, size_count = 0;
    const double *scales = kiln_node_floats(node, "scales", &scale_count);
    const int64_t *sizes = kiln_node_ints(node, "sizes", &size_count);
    if (size_count && common > 0) {
        plan->scale[d] = common;
        plan->out[d] = (int64_t)floor(common * (double)plan->in[d] + 0.5);
    } else if (size_count) {
        plan->out[d] = sizes[item];
        plan->scale[d] = (double)sizes[item] / (double)plan->in[d];
    } else {
        plan->scale[d] = scales[item];
        if (!(plan->scale[d] > 0) || plan->scale[d] > 1e6)
            return KILN_ERROR(INVALID_ARGUMENT, "attribute scales: item %u is out of range", item);
        plan->out[d] = (int64_t)floor((double)plan->in[d] * plan->scale[d]);
    }
    if (plan->out[d] < 0)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute sizes: item %u is negative", item);
    if (plan->in[d] == 0 && plan->out[d] != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "dimension %u is empty", d);
    plan->whole[d] = plan->out[d] == plan->in[d] && plan->scale[d] == 1;
    return KILN_OK;
}

static kiln_status resolve(const kiln_node_info *node, const kiln_shape *shape, resize_plan *plan) {
    uint32_t scale_count = 0, size_count = 0, axes_count = 0, roi_count = 0, seen = 0;
    kiln_node_floats(node, "scales", &scale_count);
    kiln_node_ints(node, "sizes", &size_count);
    const double *roi = kiln_node_floats(node, "roi", &roi_count);
    const int64_t *axes = kiln_node_ints(node, "axes", &axes_count);
    uint32_t count = axes ? axes_count : shape->rank;
    if ((scale_count != 0) == (size_count != 0))
        return KILN_ERROR(INVALID_ARGUMENT, "either scales or sizes must be given");
    if ((scale_count ? scale_count : size_count) != count || count > shape->rank ||
        (roi_count && roi_count != 2 * count))
        return KILN_ERROR(INVALID_ARGUMENT, "scales, sizes or roi do not have %u items", count);
    double common = common_scale(node, shape);
    for (uint32_t d = 0; d < shape->rank; d++) {
        plan->in[d] = plan->out[d] = shape->dim[d];
        plan->scale[d] = plan->roi_end[d] = 1;
        plan->roi_begin[d] = 0;
        plan->whole[d] = true;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t d = 0;
        kiln_status st = kiln_axis_take(axes, i, shape->rank, "axes", &seen, &d);
        if (!st) st = resolve_dimension(node, d, i, common, plan);
        if (st) return st;
        if (!roi_count || !kiln_str_is(kiln_node_text(node, "coordinate_transformation_mode"),
                                       "tf_crop_and_resize"))
            continue;
        plan->roi_begin[d] = roi[i];
        plan->roi_end[d] = roi[i + count];
        plan->whole[d] = plan->whole[d] && roi[i] == 0 && roi[i + count] == 1;
    }
    return KILN_OK;
}

/* How far the filter is stretched: antialiased shrinking uses all inputs that fall into one output
 * element. */
static double filter_scale(const kiln_node_info *node, const resize_plan *plan, uint32_t d) {
    return kiln_node_int(node, "antialias") ? fmin(plan->scale[d], 1) : 1;
}

/* Elements that one output element is made of. They begin at floor(position) + 1 - taps / 2. */
static double taps_of(const kiln_node_info *node, const resize_plan *plan, uint32_t d) {
    kiln_str mode = kiln_node_text(node, "mode");
    if (plan->whole[d] || kiln_str_is(mode, "nearest")) return 1;
    double reach = kiln_str_is(mode, "cubic") ? 2 : 1;
    return -2 * floor(-reach / filter_scale(node, plan, d));
}

/* Text attributes and the words that they may be. */
static kiln_status check_words(const kiln_node_info *node) {
    static const char *const table[][2] = {
        {"mode", "nearest linear cubic"},
        {"coordinate_transformation_mode",
         "half_pixel half_pixel_symmetric pytorch_half_pixel align_corners asymmetric "
         "tf_half_pixel_for_nn tf_crop_and_resize"},
        {"nearest_mode", "round_prefer_floor round_prefer_ceil floor ceil"},
        {"keep_aspect_ratio_policy", "stretch not_larger not_smaller"}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++) {
        kiln_str given = kiln_node_text(node, table[i][0]), words = kiln_str_from(table[i][1]);
        bool known = false;
        while (words.size) known |= kiln_str_equal(given, kiln_str_cut(&words, ' '));
        if (!known)
            return KILN_ERROR(UNIMPLEMENTED, "attribute %s: \"%.*s\"", table[i][0],
                              KILN_STR_ARG(given));
    }
    return KILN_OK;
}

kiln_status kiln_rule_resize(kiln_infer *infer) {
    const kiln_value_info *in = kiln_infer_input(infer, 0);
    kiln_str mode = kiln_node_text(infer->node, "mode");
    kiln_status st = check_words(infer->node);
    if (st) return st;
    if (!kiln_str_is(mode, "nearest") && !kiln_dtype_is_float(in->dtype))
        return KILN_ERROR(UNIMPLEMENTED, "attribute mode: %.*s interpolation of integers",
                          KILN_STR_ARG(mode));
    resize_plan plan;
    st = resolve(infer->node, &in->shape, &plan);
    for (uint32_t d = 0; !st && d < in->shape.rank; d++)
        if (taps_of(infer->node, &plan, d) > KILN_TAPS_MAX)
            st = KILN_ERROR(UNIMPLEMENTED, "attribute antialias: a scale of %g", plan.scale[d]);

    for (uint32_t d = 0; !st && d < in->shape.rank; d++) infer->shape[0].dim[d] = plan.out[d];
    return st;
}

static kiln_expr f64(kiln_te *te, double value) { return kiln_expr_float(te->p, KILN_F64, value); }

/* Position in the input, in elements, of output index `i` along dimension d. */
static kiln_expr position(kiln_te *te, const resize_plan *plan, uint32_t d, kiln_expr i) {
    kiln_str transform = kiln_node_text(te->node, "coordinate_transformation_mode");
    kiln_expr x = kiln_cast(te, KILN_F64, i), scale = f64(te, plan->scale[d]), half = f64(te, 0.5);
    /* The output's length before rounding down, as the definition has it. */
    double in_last = (double)(plan->in[d] - 1), out_last = plan->scale[d] * (double)plan->in[d] - 1;
    if (kiln_str_is(transform, "asymmetric")) return kiln_div(te, x, scale);
    if (kiln_str_is(transform, "tf_half_pixel_for_nn"))
        return kiln_div(te, kiln_add(te, x, half), scale);
    if (kiln_str_is(transform, "align_corners"))
        return out_last > 0 ? kiln_div(te, kiln_mul(te, x, f64(te, in_last)), f64(te, out_last))
                            : f64(te, 0);
    if (kiln_str_is(transform, "tf_crop_and_resize")) {
        double begin = plan->roi_begin[d], end = plan->roi_end[d];
        if (out_last <= 0) return f64(te, 0.5 * (begin + end) * in_last);
        kiln_expr moved =
            kiln_div(te, kiln_mul(te, x, f64(te, (end - begin) * in_last)), f64(te, out_last));
        return kiln_add(te, f64(te, begin * in_last), moved);
    }
    if (kiln_str_is(transform, "pytorch_half_pixel") && plan->out[d] <= 1) return f64(te, 0);
    kiln_expr centre = kiln_sub(te, kiln_div(te, kiln_add(te, x, half), scale), half);
    if (!kiln_str_is(transform, "half_pixel_symmetric")) return centre;
    double adjustment = (double)plan->out[d] / (plan->scale[d] * (double)plan->in[d]);
    return kiln_add(te, f64(te, (double)plan->in[d] / 2 * (1 - adjustment)), centre);
}

static kiln_expr round_position(kiln_te *te, kiln_expr x) {
    kiln_str rounding = kiln_node_text(te->node, "nearest_mode");
    if (kiln_str_is(rounding, "floor")) return kiln_unary(te, KILN_EXPR_FLOOR, x);
    if (kiln_str_is(rounding, "ceil")) return kiln_unary(te, KILN_EXPR_CEIL, x);
    if (kiln_str_is(rounding, "round_prefer_ceil"))
        return kiln_unary(te, KILN_EXPR_FLOOR, kiln_add(te, x, f64(te, 0.5)));
    return kiln_unary(te, KILN_EXPR_CEIL, kiln_sub(te, x, f64(te, 0.5)));
}

/* The filter at distance `t` >= 0 from its centre. Unless it is stretched, each tap lies in a known
 * piece of the filter. */
static kiln_expr filter_weight(kiln_te *te, kiln_expr t, bool inner, bool stretched) {
    kiln_expr zero = f64(te, 0), one = f64(te, 1);
    if (!kiln_str_is(kiln_node_text(te->node, "mode"), "cubic")) {
        kiln_expr weight = kiln_sub(te, one, t);
        return stretched ? kiln_max(te, weight, zero) : weight;
    }
    double a = kiln_node_float(te->node, "cubic_coeff_a");
    if (!stretched) return kiln_te_cubic_weight(te, a, t, inner);
    kiln_expr outer =
        kiln_select(te, kiln_less(te, t, f64(te, 2)), kiln_te_cubic_weight(te, a, t, false), zero);
    return kiln_select(te, kiln_less(te, t, one), kiln_te_cubic_weight(te, a, t, true), outer);
}

/* Taps that fall outside lose their weight where they are excluded, and the others share it. */
static void share_weight(kiln_te *te, kiln_taps *t, const kiln_expr *at, int64_t extent) {
    kiln_expr sum = f64(te, 0);
    for (uint32_t k = 0; k < t->count; k++) {
        if (kiln_node_int(te->node, "exclude_outside"))
            t->weight[k] =
                kiln_select(te, kiln_index_inside(te, at[k], 0, extent), t->weight[k], f64(te, 0));
        sum = kiln_add(te, sum, t->weight[k]);
    }
    for (uint32_t k = 0; k < t->count; k++) t->weight[k] = kiln_div(te, t->weight[k], sum);
}

static kiln_taps make_taps(kiln_te *te, const resize_plan *plan, uint32_t d, kiln_expr i) {
    kiln_taps t = {.count = (uint32_t)taps_of(te->node, plan, d), .index = {i}};
    if (plan->whole[d]) return t;
    bool nearest = kiln_str_is(kiln_node_text(te->node, "mode"), "nearest");
    double stretch = filter_scale(te->node, plan, d);
    kiln_expr x = position(te, plan, d, i), zero = kiln_index(te, 0),
              last = kiln_index(te, plan->in[d] - 1), at[KILN_TAPS_MAX];
    kiln_expr floor_x = nearest ? round_position(te, x) : kiln_unary(te, KILN_EXPR_FLOOR, x);
    kiln_expr base = kiln_cast(te, KILN_INDEX_DTYPE, floor_x), s = kiln_sub(te, x, floor_x);
    for (uint32_t k = 0; k < t.count; k++) {
        int64_t offset = nearest ? 0 : (int64_t)k + 1 - t.count / 2;
        at[k] = kiln_index_affine(te, base, 1, offset);
        t.index[k] = kiln_max(te, kiln_min(te, at[k], last), zero);
        kiln_expr distance = offset <= 0 ? kiln_add(te, s, f64(te, (double)-offset))
                                         : kiln_sub(te, f64(te, (double)offset), s);
        if (stretch < 1) distance = kiln_mul(te, distance, f64(te, stretch));
        bool inner = offset == 0 || offset == 1;
        if (!nearest) t.weight[k] = filter_weight(te, distance, inner, stretch < 1);
    }
    if (!nearest && (stretch < 1 || kiln_node_int(te->node, "exclude_outside")))
        share_weight(te, &t, at, plan->in[d]);
    return t;
}

void kiln_te_resize(kiln_te *te) {
    resize_plan plan;
    KILN_CHECK(!resolve(te->node, kiln_te_in_shape(te, 0), &plan));
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_taps t[KILN_RANK_MAX];
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < block.rank; d++) t[d] = make_taps(te, &plan, d, block.i[d]);
    kiln_expr value = kiln_te_sum_taps(te, t, 0, block.rank, index);
    if (kiln_str_is(kiln_node_text(te->node, "coordinate_transformation_mode"),
                    "tf_crop_and_resize")) {
        kiln_expr outside =
            kiln_te_const(te, value, kiln_node_float(te->node, "extrapolation_value"));
        for (uint32_t d = 0; d < block.rank; d++) {
            if (plan.whole[d]) continue;
            kiln_expr x = position(te, &plan, d, block.i[d]);
            value = kiln_select(te, kiln_less(te, x, f64(te, 0)), outside, value);
            value = kiln_select(te, kiln_less(te, f64(te, (double)(plan.in[d] - 1)), x), outside,
                                value);
        }
    }
    kiln_te_put(te, &block, value);
}
