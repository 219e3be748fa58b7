/* Reductions over chosen dimensions. */
#include "base/check.h"
#include "compiler-core/ops/rules.h"

/* Dimensions to reduce. No axes: all, or none with noop_with_empty_axes. */
static kiln_status reduce_mask(const kiln_node_info *node, uint32_t rank, uint32_t *out_mask) {
    uint32_t count = 0, all = kiln_mask_all(rank);
    kiln_node_ints(node, "axes", &count);
    if (count) return kiln_axes_resolve(node, "axes", rank, all, out_mask);
    *out_mask = kiln_node_int(node, "noop_with_empty_axes") ? 0 : all;
    return KILN_OK;
}

static kiln_shape reduced_shape(const kiln_shape *shape, uint32_t mask, bool keep) {
    kiln_shape result = {0};
    for (uint32_t d = 0; d < shape->rank; d++) {
        bool reduced = mask >> d & 1u;
        if (!reduced || keep) result.dim[result.rank++] = reduced ? 1 : shape->dim[d];
    }
    return result;
}

kiln_status kiln_rule_reduce(kiln_infer *infer) {
    const kiln_shape *in = &kiln_infer_input(infer, 0)->shape;
    uint32_t mask;
    kiln_status st = reduce_mask(infer->node, in->rank, &mask);
    if (!st) infer->shape[0] = reduced_shape(in, mask, kiln_node_int(infer->node, "keepdims") != 0);
    return st;
}

/* One kind of reduction: the combined value, and the function of the result. */
typedef struct reduction {
    kiln_combiner combiner;
    kiln_expr (*before)(kiln_te *te, kiln_expr x);
    kiln_expr (*after)(kiln_te *te, kiln_expr x, double count);
} reduction;

static kiln_expr reduction_operand(kiln_te *te, const void *context, const kiln_expr *i) {
    const reduction *kind = context;
    kiln_expr x = kiln_te_load(te, 0, i);
    return kind->before ? kind->before(te, x) : x;
}

/* Element of a reduced temp for one of output 0, which may have dropped the reduced dimensions. */
static kiln_expr kept_at(kiln_te *te, const kiln_te_reduced *reduced, const kiln_te_block *block) {
    bool keep = kiln_node_int(te->node, "keepdims") != 0;
    kiln_expr i[KILN_RANK_MAX] = {0};
    uint32_t at = 0;
    for (uint32_t d = 0; d < KILN_RANK_MAX; d++) {
        i[d] = block->i[at];
        at += keep || !(reduced->mask >> d & 1u);
    }
    return kiln_te_reduced_at(te, reduced, i);
}

static uint32_t mask_of(const kiln_te *te) {
    uint32_t mask = 0;
    KILN_CHECK(!reduce_mask(te->node, kiln_te_in_shape(te, 0)->rank, &mask));
    return mask;
}

/* A plain reduction writes the output itself; one with rounding or arithmetic after it goes through
 * a temp. */
static void reduce(kiln_te *te, const reduction *kind) {
    const kiln_te_reduction r = {.mask = mask_of(te),
                                 .combiner = kind->combiner,
                                 .operand = reduction_operand,
                                 .context = kind};
    if (!kind->after && kiln_te_wide(te) == kiln_te_in_dtype(te, 0) && r.mask) {
        kiln_te_reduce_output(te, r, kiln_node_int(te->node, "keepdims") != 0);
        return;
    }
    const kiln_te_reduced part = kiln_te_reduce(te, "part", r);
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr value = kept_at(te, &part, &block);
    if (kind->after)
        value = kind->after(te, value, kiln_shape_count_of(kiln_te_in_shape(te, 0), r.mask));
    kiln_te_put(te, &block, value);
}

static kiln_expr magnitude(kiln_te *te, kiln_expr x) {
    bool is_unsigned =
        kiln_dtype_kind_of((kiln_dtype)kiln_expr_get(te->p, x)->dtype) == KILN_KIND_UINT;
    return is_unsigned ? x : kiln_unary(te, KILN_EXPR_ABS, x);
}
static kiln_expr square(kiln_te *te, kiln_expr x) { return kiln_mul(te, x, x); }
static kiln_expr divide(kiln_te *te, kiln_expr x, double count) {
    return kiln_div(te, x, kiln_te_const(te, x, count));
}
static kiln_expr square_root(kiln_te *te, kiln_expr x, double count) {
    (void)count;
    return kiln_unary(te, KILN_EXPR_SQRT, x);
}
static kiln_expr logarithm(kiln_te *te, kiln_expr x, double count) {
    (void)count;
    return kiln_unary(te, KILN_EXPR_LOG, x);
}

#define REDUCTION(name, combiner, before, after)                                \
    void kiln_te_##name(kiln_te *te) {                                          \
        static const reduction kind = {KILN_COMBINE_##combiner, before, after}; \
        reduce(te, &kind);                                                      \
    }
REDUCTION(reduce_sum, SUM, NULL, NULL)
REDUCTION(reduce_mean, SUM, NULL, divide)
REDUCTION(reduce_max, MAX, NULL, NULL)
REDUCTION(reduce_min, MIN, NULL, NULL)
REDUCTION(reduce_prod, PROD, NULL, NULL)
REDUCTION(reduce_l1, SUM, magnitude, NULL)
REDUCTION(reduce_l2, SUM, square, square_root)
REDUCTION(reduce_sum_square, SUM, square, NULL)
REDUCTION(reduce_log_sum, SUM, NULL, logarithm)
#undef REDUCTION

/* log(sum(exp(x))) = m + log(sum(exp(x - m))) with m the maximum, so that nothing overflows. An
 * infinite maximum is not subtracted: inf - inf would be NaN. */
static kiln_expr finite_best(kiln_te *te, kiln_expr best) {
    return kiln_select(te, kiln_unary(te, KILN_EXPR_ISINF, best), kiln_te_const(te, best, 0), best);
}

static kiln_expr shifted_exp(kiln_te *te, const void *context, const kiln_expr *i) {
    kiln_expr best = finite_best(te, kiln_te_reduced_at(te, context, i));
    return kiln_unary(te, KILN_EXPR_EXP, kiln_sub(te, kiln_te_load(te, 0, i), best));
}

void kiln_te_reduce_log_sum_exp(kiln_te *te) {
    kiln_te_reduction r = {.mask = mask_of(te), .combiner = KILN_COMBINE_MAX};
    const kiln_te_reduced max = kiln_te_reduce(te, "max", r);
    r = (kiln_te_reduction){
        .mask = r.mask, .combiner = KILN_COMBINE_SUM, .operand = shifted_exp, .context = &max};
    const kiln_te_reduced sum = kiln_te_reduce(te, "sum", r);
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr best = kept_at(te, &max, &block), total = kept_at(te, &sum, &block);
    kiln_te_put(te, &block,
                kiln_add(te, finite_best(te, best), kiln_unary(te, KILN_EXPR_LOG, total)));
}

/* ---- position of the extreme ----------------------------------------------------------------- */

kiln_status kiln_rule_arg_reduce(kiln_infer *infer) {
    const kiln_shape *in = &kiln_infer_input(infer, 0)->shape;
    uint32_t axis;
    kiln_status st = kiln_infer_axis(infer, &axis);
    if (st) return st;
    if (in->dim[axis] == 0) return KILN_ERROR(INVALID_ARGUMENT, "dimension %u is empty", axis);
    infer->dtype[0] = KILN_I64;
    infer->shape[0] = reduced_shape(in, 1u << axis, kiln_node_int(infer->node, "keepdims") != 0);
    return KILN_OK;
}

typedef struct extreme {
    kiln_te_reduced best;
    bool last; /* of equal ones */
} extreme;

/* Over several dimensions the position is one number over all of them. */
static kiln_expr flat_index(kiln_te *te, uint32_t mask, const kiln_expr *i) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    kiln_expr flat = kiln_index(te, 0);
    for (uint32_t d = 0; d < shape->rank; d++)
        if (mask >> d & 1u)
            flat = kiln_add(te, kiln_mul(te, flat, kiln_index(te, shape->dim[d])), i[d]);
    return flat;
}

/* The position where the element is the best one, else the identity of the reduction that picks the
 * first (min) or last (max) of them. */
static kiln_expr extreme_position(kiln_te *te, const void *context, const kiln_expr *i) {
    const extreme *e = context;
    kiln_expr is_best = kiln_equal(te, kiln_te_load(te, 0, i), kiln_te_reduced_at(te, &e->best, i));
    return kiln_select(te, is_best, flat_index(te, e->best.mask, i),
                       kiln_index(te, e->last ? -1 : INT64_MAX));
}

/* A temp with the position of the best element. */
static kiln_te_reduced find_extreme(kiln_te *te, uint32_t mask, kiln_combiner combiner, bool last) {
    kiln_te_reduction r = {.mask = mask, .combiner = combiner};
    const extreme e = {kiln_te_reduce(te, "best", r), last};
    r = (kiln_te_reduction){.mask = mask,
                            .dtype = KILN_I64,
                            .combiner = last ? KILN_COMBINE_MAX : KILN_COMBINE_MIN,
                            .operand = extreme_position,
                            .context = &e};
    return kiln_te_reduce(te, "position", r);
}

static void arg_output(kiln_te *te, kiln_combiner combiner) {
    const kiln_te_reduced position = find_extreme(
        te, 1u << kiln_te_axis(te), combiner, kiln_node_int(te->node, "select_last_index") != 0);
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_te_put(te, &block, kept_at(te, &position, &block));
}

void kiln_te_arg_max(kiln_te *te) { arg_output(te, KILN_COMBINE_MAX); }
void kiln_te_arg_min(kiln_te *te) { arg_output(te, KILN_COMBINE_MIN); }

/* ---- running sums and products --------------------------------------------------------------- */

kiln_status kiln_rule_cum_sum(kiln_infer *infer) {
    uint32_t mask = 0;
    kiln_status st = kiln_axes_resolve(infer->node, "axis", infer->shape[0].rank, 1, &mask);
    if (!st && (mask == 0 || (mask & (mask - 1)) != 0))
        st = KILN_ERROR(INVALID_ARGUMENT, "attribute axis must be one dimension");
    return st;
}

/* Each output combines all elements before it; quadratic. */
static void cumulate(kiln_te *te, kiln_combiner combiner) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    uint32_t mask = 0, axis = 0;
    KILN_CHECK(!kiln_axes_resolve(te->node, "axis", shape->rank, 1, &mask));
    while (!(mask >> axis & 1u)) axis++;
    kiln_buffer sums = kiln_te_sums(te, false);
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr at = block.i[axis], r = kiln_te_block_axis(te, &block, "r", shape->dim[axis], true);
    bool reverse = kiln_node_int(te->node, "reverse") != 0,
         exclusive = kiln_node_int(te->node, "exclusive") != 0;
    kiln_expr counts = kiln_binary(te, exclusive ? KILN_EXPR_LT : KILN_EXPR_LE, reverse ? at : r,
                                   reverse ? r : at);
    kiln_dtype wide = kiln_te_wide(te);
    kiln_expr x = kiln_cast(te, wide, kiln_te_load_moved(te, 0, &block, axis, r));
    block.to = sums;
    kiln_te_combine(te, &block, combiner,
                    kiln_select(te, counts, x, kiln_expr_identity(te->p, combiner, wide)));
    kiln_te_round(te, sums);
}

void kiln_te_cum_sum(kiln_te *te) { cumulate(te, KILN_COMBINE_SUM); }
void kiln_te_cum_prod(kiln_te *te) { cumulate(te, KILN_COMBINE_PROD); }

/* ---- hardmax: 1 at the first maximum, else 0 ------------------------------------------------- */

void kiln_te_hardmax(kiln_te *te) {
    const kiln_te_reduced position =
        find_extreme(te, kiln_te_softmax_mask(te), KILN_COMBINE_MAX, false);
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_dtype wide = kiln_te_wide(te);
    kiln_expr first = kiln_te_reduced_at(te, &position, block.i);
    kiln_expr is_first = kiln_equal(te, flat_index(te, position.mask, block.i), first);
    kiln_te_put(te, &block,
                kiln_select(te, is_first, kiln_expr_const(te->p, wide, 1),
                            kiln_expr_const(te->p, wide, 0)));
}
