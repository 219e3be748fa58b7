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
    const kiln_value_info *in = kiln_node_input(infer->graph, infer->node, 0);
    uint32_t mask;
    kiln_status st = reduce_mask(infer->node, in->shape.rank, &mask);
    if (st) return st;
    infer->dtype[0] = in->dtype;
    infer->shape[0] = reduced_shape(&in->shape, mask, kiln_node_int(infer->node, "keepdims") != 0);
    return KILN_OK;
}

/* One kind of reduction: what is combined, and what is done with the result. */
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

/* The index into a kept-dimensions temp of an output that may have dropped them. */
static void kept_index(kiln_te *te, const kiln_te_block *out, uint32_t mask, bool keep,
                       uint32_t rank, kiln_expr *index) {
    uint32_t at = 0;
    for (uint32_t d = 0; d < rank; d++) {
        bool reduced = mask >> d & 1u;
        index[d] = reduced ? kiln_index(te, 0) : out->i[at];
        at += !reduced || keep;
    }
}

static kiln_expr masked_load(kiln_te *te, kiln_buffer temp, const kiln_te_block *block,
                             uint32_t mask, bool keep, uint32_t rank) {
    kiln_expr index[KILN_RANK_MAX] = {0};
    kept_index(te, block, mask, keep, rank, index);
    return kiln_te_read(te, temp, index, rank);
}

/* A plain reduction writes the output itself; one with rounding or arithmetic after it goes through
 * a temp. */
static void reduce(kiln_te *te, const reduction *kind) {
    static const char *const letter[2][KILN_RANK_MAX] = {
        {"i", "j", "k", "l", "m", "n", "o", "p"}, {"ri", "rj", "rk", "rl", "rm", "rn", "ro", "rp"}};
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    kiln_dtype dtype = kiln_te_in_dtype(te, 0), wide = kiln_te_compute_dtype(dtype);
    bool keep = kiln_node_int(te->node, "keepdims") != 0;
    uint32_t mask = 0;
    kiln_status st = reduce_mask(te->node, shape->rank, &mask);
    KILN_CHECK(st == NULL);
    double count = 1;
    for (uint32_t d = 0; d < shape->rank; d++)
        if (mask >> d & 1u) count *= (double)shape->dim[d];
    if (kind->after || wide != dtype || !mask) {
        kiln_buffer temp =
            kiln_te_reduce(te, "part", shape, mask, wide, kind->combiner, reduction_operand, kind);
        kiln_te_block block = kiln_te_block_begin(te, "", &te->p->buffer.data[te->output[0]].shape);
        kiln_expr value = masked_load(te, temp, &block, mask, keep, shape->rank);
        if (kind->after) value = kind->after(te, value, count);
        kiln_te_store(te, &block, te->output[0], block.i, block.rank, value);
        return;
    }
    kiln_te_block block = {
        .id = kiln_block_create(te->p, kiln_str_from(kiln_op_get(te->node->op)->name))};
    kiln_expr element[KILN_RANK_MAX] = {0}, index[KILN_RANK_MAX] = {0};
    uint32_t rank = 0;
    for (uint32_t d = 0; d < shape->rank; d++) {
        bool reduced = mask >> d & 1u;
        if (!reduced)
            element[d] = kiln_te_block_axis(te, &block, letter[0][d], shape->dim[d], false);
        if (!reduced || keep) index[rank++] = reduced ? kiln_index(te, 0) : element[d];
    }
    for (uint32_t d = 0; d < shape->rank; d++)
        if (mask >> d & 1u)
            element[d] = kiln_te_block_axis(te, &block, letter[1][d], shape->dim[d], true);
    kiln_te_accumulate(te, &block, te->output[0], index, rank, kind->combiner,
                       reduction_operand(te, kind, element));
}

static kiln_expr magnitude(kiln_te *te, kiln_expr x) {
    bool is_unsigned =
        kiln_dtype_kind_of((kiln_dtype)kiln_expr_get(te->p, x)->dtype) == KILN_KIND_UINT;
    return is_unsigned ? x : kiln_expr_unary(te->p, KILN_EXPR_ABS, x);
}
static kiln_expr square(kiln_te *te, kiln_expr x) { return kiln_mul(te, x, x); }
static kiln_expr divide(kiln_te *te, kiln_expr x, double count) {
    return kiln_div(te, x, kiln_te_const(te, x, count));
}
static kiln_expr square_root(kiln_te *te, kiln_expr x, double count) {
    (void)count;
    return kiln_expr_unary(te->p, KILN_EXPR_SQRT, x);
}
static kiln_expr logarithm(kiln_te *te, kiln_expr x, double count) {
    (void)count;
    return kiln_expr_unary(te->p, KILN_EXPR_LOG, x);
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
typedef struct shifted {
    kiln_buffer best;
    uint32_t mask, rank;
} shifted;

static kiln_expr finite_best(kiln_te *te, kiln_expr best) {
    return kiln_select(te, kiln_expr_unary(te->p, KILN_EXPR_ISINF, best),
                       kiln_te_const(te, best, 0), best);
}

static kiln_expr shifted_exp(kiln_te *te, const void *context, const kiln_expr *i) {
    const shifted *s = context;
    kiln_expr best = kiln_te_read_reduced(te, s->best, s->mask, i, s->rank);
    return kiln_expr_unary(te->p, KILN_EXPR_EXP,
                           kiln_sub(te, kiln_te_load(te, 0, i), finite_best(te, best)));
}

void kiln_te_reduce_log_sum_exp(kiln_te *te) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    kiln_dtype wide = kiln_te_compute_dtype(kiln_te_in_dtype(te, 0));
    bool keep = kiln_node_int(te->node, "keepdims") != 0;
    uint32_t mask = 0;
    kiln_status st = reduce_mask(te->node, shape->rank, &mask);
    KILN_CHECK(st == NULL);
    shifted s = {.mask = mask, .rank = shape->rank};
    s.best =
        kiln_te_reduce(te, "max", shape, mask, wide, KILN_COMBINE_MAX, kiln_te_operand_input, NULL);
    kiln_buffer sum =
        kiln_te_reduce(te, "sum", shape, mask, wide, KILN_COMBINE_SUM, shifted_exp, &s);
    kiln_te_block block = kiln_te_block_begin(te, "", &te->p->buffer.data[te->output[0]].shape);
    kiln_expr best = masked_load(te, s.best, &block, mask, keep, shape->rank);
    kiln_expr total = masked_load(te, sum, &block, mask, keep, shape->rank);
    kiln_expr value =
        kiln_add(te, finite_best(te, best), kiln_expr_unary(te->p, KILN_EXPR_LOG, total));
    kiln_te_store(te, &block, te->output[0], block.i, block.rank, value);
}

/* ---- position of the extreme ----------------------------------------------------------------- */

kiln_status kiln_rule_arg_reduce(kiln_infer *infer) {
    const kiln_value_info *in = kiln_node_input(infer->graph, infer->node, 0);
    uint32_t axis;
    kiln_status st =
        kiln_axis_resolve(kiln_node_int(infer->node, "axis"), in->shape.rank, "axis", &axis);
    if (st) return st;
    if (in->shape.dim[axis] == 0)
        return KILN_ERROR(INVALID_ARGUMENT, "dimension %u is empty", axis);
    infer->dtype[0] = KILN_I64;
    infer->shape[0] =
        reduced_shape(&in->shape, 1u << axis, kiln_node_int(infer->node, "keepdims") != 0);
    return KILN_OK;
}

typedef struct arg_context {
    kiln_buffer best;
    uint32_t mask, rank, axis;
    bool last;
} arg_context;

/* The position where the element is the best one, else the identity of the reduction that picks the
 * first (min) or last (max) of them. */
static kiln_expr arg_position(kiln_te *te, const void *context, const kiln_expr *i) {
    const arg_context *arg = context;
    kiln_expr best = kiln_te_read_reduced(te, arg->best, arg->mask, i, arg->rank);
    kiln_expr is_best = kiln_expr_binary(te->p, KILN_EXPR_EQ, kiln_te_load(te, 0, i), best);
    return kiln_select(te, is_best, i[arg->axis], kiln_index(te, arg->last ? -1 : INT64_MAX));
}

/* A temp with the position of the best element along `axis`, that dimension kept as 1. */
static kiln_buffer arg_reduce(kiln_te *te, uint32_t axis, kiln_combiner combiner, bool last) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    arg_context arg = {.mask = 1u << axis, .rank = shape->rank, .axis = axis, .last = last};
    kiln_dtype wide = kiln_te_compute_dtype(kiln_te_in_dtype(te, 0));
    arg.best =
        kiln_te_reduce(te, "best", shape, arg.mask, wide, combiner, kiln_te_operand_input, NULL);
    return kiln_te_reduce(te, "position", shape, arg.mask, KILN_I64,
                          last ? KILN_COMBINE_MAX : KILN_COMBINE_MIN, arg_position, &arg);
}

static uint32_t axis_of(const kiln_te *te) {
    uint32_t axis = 0;
    kiln_status st = kiln_axis_resolve(kiln_node_int(te->node, "axis"),
                                       kiln_te_in_shape(te, 0)->rank, "axis", &axis);
    KILN_CHECK(st == NULL);
    return axis;
}

static void arg_output(kiln_te *te, kiln_combiner combiner) {
    uint32_t axis = axis_of(te);
    kiln_buffer position =
        arg_reduce(te, axis, combiner, kiln_node_int(te->node, "select_last_index") != 0);
    kiln_te_block block = kiln_te_block_begin(te, "", &te->p->buffer.data[te->output[0]].shape);
    bool keep = kiln_node_int(te->node, "keepdims") != 0;
    kiln_expr value =
        masked_load(te, position, &block, 1u << axis, keep, kiln_te_in_shape(te, 0)->rank);
    kiln_te_store(te, &block, te->output[0], block.i, block.rank, value);
}

void kiln_te_arg_max(kiln_te *te) { arg_output(te, KILN_COMBINE_MAX); }
void kiln_te_arg_min(kiln_te *te) { arg_output(te, KILN_COMBINE_MIN); }

/* ---- running sums and products --------------------------------------------------------------- */

kiln_status kiln_rule_cum_sum(kiln_infer *infer) {
    const kiln_value_info *in = kiln_node_input(infer->graph, infer->node, 0);
    infer->dtype[0] = in->dtype;
    infer->shape[0] = in->shape;
    uint32_t mask = 0;
    kiln_status st = kiln_axes_resolve(infer->node, "axis", in->shape.rank, 1, &mask);
    if (!st && (mask == 0 || (mask & (mask - 1)) != 0))
        st = KILN_ERROR(INVALID_ARGUMENT, "attribute axis must be one dimension");
    return st;
}

/* Each output combines what stands before it; quadratic. */
static void cumulate(kiln_te *te, kiln_combiner combiner) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    uint32_t mask = 0, axis = 0;
    kiln_status st = kiln_axes_resolve(te->node, "axis", shape->rank, 1, &mask);
    KILN_CHECK(st == NULL);
    while (!(mask >> axis & 1u)) axis++;
    kiln_dtype dtype = kiln_te_in_dtype(te, 0), wide = kiln_te_compute_dtype(dtype);
    kiln_buffer sum = wide == dtype ? te->output[0] : kiln_te_temp(te, "sum", wide, shape);
    kiln_te_block block = kiln_te_block_begin(te, "", shape);
    kiln_expr element[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape->rank; d++) element[d] = block.i[d];
    kiln_expr at = block.i[axis];
    element[axis] = kiln_te_block_axis(te, &block, "r", shape->dim[axis], true);
    bool reverse = kiln_node_int(te->node, "reverse") != 0,
         exclusive = kiln_node_int(te->node, "exclusive") != 0;
    kiln_expr counts = kiln_expr_binary(te->p, exclusive ? KILN_EXPR_LT : KILN_EXPR_LE,
                                        reverse ? at : element[axis], reverse ? element[axis] : at);
    kiln_expr x = kiln_te_load(te, 0, element);
    kiln_te_accumulate(te, &block, sum, block.i, shape->rank, combiner,
                       kiln_select(te, counts, x, kiln_expr_identity(te->p, combiner, wide)));
    if (sum == te->output[0]) return;
    kiln_te_block round = kiln_te_block_begin(te, "round", shape);
    kiln_te_store(te, &round, te->output[0], round.i, round.rank,
                  kiln_te_read(te, sum, round.i, round.rank));
}

void kiln_te_cum_sum(kiln_te *te) { cumulate(te, KILN_COMBINE_SUM); }
void kiln_te_cum_prod(kiln_te *te) { cumulate(te, KILN_COMBINE_PROD); }

/* ---- hardmax: 1 at the first maximum, else 0 ------------------------------------------------- */

/* Before opset 13 the maximum is over all dimensions from `axis` on; the position is then one
 * number over all of them. */
typedef struct hardmax_context {
    kiln_buffer best;
    uint32_t mask, rank;
    const kiln_shape *shape;
} hardmax_context;

static kiln_expr flat_index(kiln_te *te, const hardmax_context *h, const kiln_expr *i) {
    kiln_expr flat = kiln_index(te, 0);
    for (uint32_t d = 0; d < h->rank; d++)
        if (h->mask >> d & 1u)
            flat = kiln_add(te, kiln_mul(te, flat, kiln_index(te, h->shape->dim[d])), i[d]);
    return flat;
}

static kiln_expr hardmax_position(kiln_te *te, const void *context, const kiln_expr *i) {
    const hardmax_context *h = context;
    kiln_expr best = kiln_te_read_reduced(te, h->best, h->mask, i, h->rank);
    kiln_expr is_best = kiln_expr_binary(te->p, KILN_EXPR_EQ, kiln_te_load(te, 0, i), best);
    return kiln_select(te, is_best, flat_index(te, h, i), kiln_index(te, INT64_MAX));
}

void kiln_te_hardmax(kiln_te *te) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    uint32_t axis = axis_of(te);
    bool flatten = kiln_node_int(te->node, "flatten") != 0;
    hardmax_context h = {.mask = flatten ? kiln_mask_all(shape->rank) & ~kiln_mask_all(axis)
                                         : 1u << axis,
                         .rank = shape->rank,
                         .shape = shape};
    kiln_dtype wide = kiln_te_compute_dtype(kiln_te_in_dtype(te, 0));
    h.best = kiln_te_reduce(te, "best", shape, h.mask, wide, KILN_COMBINE_MAX,
                            kiln_te_operand_input, NULL);
    kiln_buffer position = kiln_te_reduce(te, "position", shape, h.mask, KILN_I64, KILN_COMBINE_MIN,
                                          hardmax_position, &h);
    kiln_te_block block = kiln_te_block_begin(te, "", shape);
    kiln_expr first = kiln_te_read_reduced(te, position, h.mask, block.i, block.rank);
    kiln_expr is_first = kiln_expr_binary(te->p, KILN_EXPR_EQ, flat_index(te, &h, block.i), first);
    kiln_te_store(te, &block, te->output[0], block.i, block.rank,
                  kiln_select(te, is_first, kiln_expr_const(te->p, wide, 1),
                              kiln_expr_const(te->p, wide, 0)));
}
