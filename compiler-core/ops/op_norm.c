/* Softmax and normalisations: several reductions and the results computed from them, in one
 * kernel. */
#include "base/check.h"
#include "compiler-core/ops/rules.h"

/* ---- softmax --------------------------------------------------------------------------------- */

kiln_status kiln_rule_softmax(kiln_infer *infer) {
    uint32_t axis;
    return kiln_infer_axis(infer, &axis);
}

static uint32_t mask_from(uint32_t rank, uint32_t axis) {
    return kiln_mask_all(rank) & ~kiln_mask_all(axis);
}

uint32_t kiln_te_softmax_mask(const kiln_te *te) {
    uint32_t axis = kiln_te_axis(te);
    return kiln_node_int(te->node, "flatten") ? mask_from(kiln_te_in_shape(te, 0)->rank, axis)
                                              : 1u << axis;
}

static kiln_te_reduced maximum(kiln_te *te, uint32_t mask) {
    return kiln_te_reduce(te, "max",
                          (kiln_te_reduction){.mask = mask, .combiner = KILN_COMBINE_MAX});
}

static kiln_expr difference(kiln_te *te, const kiln_te_reduced *from, const kiln_expr *i) {
    return kiln_sub(te, kiln_te_load(te, 0, i), kiln_te_reduced_at(te, from, i));
}

static kiln_expr exp_of_difference(kiln_te *te, const void *context, const kiln_expr *i) {
    return kiln_unary(te, KILN_EXPR_EXP, difference(te, context, i));
}

void kiln_te_softmax(kiln_te *te) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    kiln_dtype wide = kiln_te_wide(te);
    const kiln_te_reduced max = maximum(te, kiln_te_softmax_mask(te));
    /* exp is kept, so that it is computed once per element. */
    kiln_te_block power = kiln_te_temp_begin(te, "exp", wide, shape);
    kiln_te_put(te, &power, exp_of_difference(te, &max, power.i));

    const kiln_shape kept = te->p->buffer.data[max.buffer].shape;
    kiln_te_reduced sum = {kiln_te_temp(te, "sum", wide, &kept), max.mask};
    kiln_te_block add = {.id = kiln_block_create(te->p, KILN_STR("softmax.sum"))};
    kiln_expr element[KILN_RANK_MAX] = {0}, index[KILN_RANK_MAX] = {0};
    for (uint32_t reduce = 0; reduce < 2; reduce++) {
        for (uint32_t d = 0; d < shape->rank; d++) {
            if ((sum.mask >> d & 1u) != reduce) continue;
            element[d] =
                kiln_te_block_axis(te, &add, reduce ? "r" : "i", shape->dim[d], reduce != 0);
            index[d] = reduce ? kiln_index(te, 0) : element[d];
        }
    }
    kiln_te_accumulate(te, &add, sum.buffer, index, shape->rank, KILN_COMBINE_SUM,
                       kiln_te_at(te, power.to, element));

    /* One division per sum, not one per element. */
    kiln_te_block invert = kiln_te_temp_begin(te, "scale", wide, &kept);
    kiln_expr total = kiln_te_at(te, sum.buffer, invert.i);
    kiln_te_put(te, &invert, kiln_div(te, kiln_te_const(te, total, 1), total));

    const kiln_te_reduced scale = {invert.to, sum.mask};
    kiln_te_block last = kiln_te_output_begin(te, "");
    kiln_te_put(
        te, &last,
        kiln_mul(te, kiln_te_at(te, power.to, last.i), kiln_te_reduced_at(te, &scale, last.i)));
}

static void log_softmax_into(kiln_te *te, kiln_buffer output, uint32_t mask) {
    const kiln_te_reduced max = maximum(te, mask);
    const kiln_te_reduced sum = kiln_te_reduce(te, "sum",
                                               (kiln_te_reduction){.mask = mask,
                                                                   .combiner = KILN_COMBINE_SUM,
                                                                   .operand = exp_of_difference,
                                                                   .context = &max});
    kiln_te_block block = kiln_te_block_begin(te, "log", kiln_te_in_shape(te, 0));
    kiln_expr total = kiln_te_reduced_at(te, &sum, block.i);
    block.to = output;
    kiln_te_put(te, &block,
                kiln_sub(te, difference(te, &max, block.i), kiln_unary(te, KILN_EXPR_LOG, total)));
}

void kiln_te_log_softmax(kiln_te *te) {
    log_softmax_into(te, te->output[0], kiln_te_softmax_mask(te));
}

static kiln_expr square_of_input(kiln_te *te, const void *context, const kiln_expr *i) {
    (void)context;
    kiln_expr x = kiln_te_load(te, 0, i);
    return kiln_mul(te, x, x);
}

static kiln_expr magnitude_of_input(kiln_te *te, const void *context, const kiln_expr *i) {
    (void)context;
    return kiln_unary(te, KILN_EXPR_ABS, kiln_te_load(te, 0, i));
}

/* x / |x|_p along the axis, p in {1, 2}. */
void kiln_te_lp_norm(kiln_te *te) {
    bool magnitudes = kiln_node_int(te->node, "p") == 1;
    const kiln_te_reduced sum = kiln_te_reduce(
        te, "sum",
        (kiln_te_reduction){.mask = 1u << kiln_te_axis(te),
                            .combiner = KILN_COMBINE_SUM,
                            .operand = magnitudes ? magnitude_of_input : square_of_input});
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr norm = kiln_te_reduced_at(te, &sum, block.i);
    if (!magnitudes) norm = kiln_unary(te, KILN_EXPR_SQRT, norm);
    /* A vector of zeros stays one. */
    kiln_expr is_zero = kiln_equal(te, norm, kiln_te_const(te, norm, 0));
    kiln_expr divisor = kiln_select(te, is_zero, kiln_te_const(te, norm, 1), norm);
    kiln_te_put(te, &block, kiln_div(te, kiln_te_load(te, 0, block.i), divisor));
}

/* ---- mean and variance ----------------------------------------------------------------------- */

/* Temps in the compute dtype, reduced dimensions kept as 1. */
typedef struct moments {
    kiln_te_reduced mean;
    kiln_te_reduced square; /* sum of (x - mean)^2 */
    double count;           /* elements of one mean */
} moments;

/* The value at one element of a temp of the moments' shape. */
typedef kiln_expr (*statistic)(kiln_te *te, const moments *m, kiln_expr from);

/* Such a temp: computed once per reduced row, not once per element. */
static kiln_te_reduced make_statistic(kiln_te *te, const char *suffix, const moments *m,
                                      kiln_te_reduced from, statistic value) {
    const kiln_buffer_info source = te->p->buffer.data[from.buffer];
    kiln_te_block block = kiln_te_temp_begin(te, suffix, source.dtype, &source.shape);
    kiln_te_put(te, &block, value(te, m, kiln_te_reduced_at(te, &from, block.i)));
    return (kiln_te_reduced){block.to, from.mask};
}

static kiln_expr average(kiln_te *te, const moments *m, kiln_expr sum) {
    return kiln_div(te, sum, kiln_te_const(te, sum, m->count));
}

static kiln_expr squared_difference(kiln_te *te, const void *context, const kiln_expr *i) {
    kiln_expr apart = difference(te, context, i);
    return kiln_mul(te, apart, apart);
}

static moments make_moments(kiln_te *te, uint32_t mask) {
    kiln_te_reduction r = {.mask = mask, .combiner = KILN_COMBINE_SUM};
    moments m = {.count = kiln_shape_count_of(kiln_te_in_shape(te, 0), mask)};
    m.mean = make_statistic(te, "mean", &m, kiln_te_reduce(te, "sum", r), average);
    r.operand = squared_difference;
    r.context = &m.mean;
    m.square = kiln_te_reduce(te, "square", r);
    return m;
}

static kiln_expr inverse_deviation(kiln_te *te, const moments *m, kiln_expr squares) {
    kiln_expr variance = average(te, m, squares);
    kiln_expr guarded =
        kiln_add(te, variance, kiln_te_const(te, variance, kiln_node_float(te->node, "epsilon")));
    return kiln_div(te, kiln_te_const(te, variance, 1), kiln_unary(te, KILN_EXPR_SQRT, guarded));
}

/* A temp of 1 / sqrt(variance + epsilon). */
static kiln_te_reduced make_inverse(kiln_te *te, const moments *m) {
    return make_statistic(te, "inverse", m, m->square, inverse_deviation);
}

kiln_status kiln_rule_instance_norm(kiln_infer *infer) {
    if (infer->shape[0].rank < 3)
        return KILN_ERROR(INVALID_ARGUMENT, "input 0 needs at least 3 dimensions");
    return kiln_rule_batch_norm(infer);
}

/* Over the spatial dimensions; scale and bias by channel. */
void kiln_te_instance_norm(kiln_te *te) {
    moments m = make_moments(te, mask_from(kiln_te_in_shape(te, 0)->rank, 2));
    const kiln_te_reduced inverse = make_inverse(te, &m);
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr value =
        kiln_mul(te, difference(te, &m.mean, block.i), kiln_te_reduced_at(te, &inverse, block.i));
    value = kiln_mul(te, value, kiln_te_load(te, 1, &block.i[1]));
    kiln_te_put(te, &block, kiln_add(te, value, kiln_te_load(te, 2, &block.i[1])));
}

kiln_status kiln_rule_layer_norm(kiln_infer *infer) {
    const kiln_value_info *in = kiln_infer_input(infer, 0);
    uint32_t axis;
    kiln_status st = kiln_infer_axis(infer, &axis);
    if (st) return st;
    for (uint32_t i = 1; i < infer->node->input_count; i++) {
        const kiln_value_info *operand = kiln_infer_input(infer, i);
        if (!operand) continue;
        kiln_shape both = in->shape;
        st = kiln_shape_broadcast(&both, &operand->shape);
        if (!st && (!kiln_shape_equal(&both, &in->shape) || operand->dtype != in->dtype))
            st = KILN_ERROR(INVALID_ARGUMENT, "it is larger than input 0, or of another type");
        if (st) return kiln_status_note(st, "input %u", i);
    }
    for (uint32_t i = 1; i < infer->node->output_count; i++) {
        infer->dtype[i] = KILN_F32;
        for (uint32_t d = axis; d < in->shape.rank; d++) infer->shape[i].dim[d] = 1;
    }
    return KILN_OK;
}

/* `value` * inverse * scale + bias. */
static void scaled_output(kiln_te *te, kiln_te_block *block, kiln_expr value,
                          const kiln_te_reduced *inverse) {
    value = kiln_mul(te, value, kiln_te_reduced_at(te, inverse, block->i));
    value = kiln_mul(te, value, kiln_te_load_broadcast(te, 1, block->i, block->rank));
    if (kiln_te_has(te, 2))
        value = kiln_add(te, value, kiln_te_load_broadcast(te, 2, block->i, block->rank));
    kiln_te_put(te, block, value);
}

static uint32_t layer_mask(kiln_te *te) {
    return mask_from(kiln_te_in_shape(te, 0)->rank, kiln_te_axis(te));
}

/* Over the dimensions from `axis` on. Outputs 1 and 2 are the mean and 1 / standard deviation. */
void kiln_te_layer_norm(kiln_te *te) {
    moments m = make_moments(te, layer_mask(te));
    const kiln_te_reduced inverse = make_inverse(te, &m), *statistics[] = {NULL, &m.mean, &inverse};
    if (te->output[0]) {
        kiln_te_block block = kiln_te_output_begin(te, "");
        scaled_output(te, &block, difference(te, &m.mean, block.i), &inverse);
    }
    for (uint32_t i = 1; i < te->node->output_count; i++) {
        if (!te->output[i]) continue;
        kiln_te_block block = kiln_te_block_begin(te, i == 1 ? "mean" : "deviation",
                                                  &te->p->buffer.data[te->output[i]].shape);
        block.to = te->output[i];
        kiln_te_put(te, &block, kiln_te_reduced_at(te, statistics[i], block.i));
    }
}

/* x / sqrt(mean of x^2 + epsilon) * scale, over the dimensions from `axis` on. */
void kiln_te_rms_norm(kiln_te *te) {
    uint32_t mask = layer_mask(te);
    moments m = {.count = kiln_shape_count_of(kiln_te_in_shape(te, 0), mask)};
    m.square =
        kiln_te_reduce(te, "square",
                       (kiln_te_reduction){
                           .mask = mask, .combiner = KILN_COMBINE_SUM, .operand = square_of_input});
    const kiln_te_reduced inverse = make_inverse(te, &m);
    kiln_te_block block = kiln_te_output_begin(te, "");
    scaled_output(te, &block, kiln_te_load(te, 0, block.i), &inverse);
}

kiln_status kiln_rule_mean_variance_norm(kiln_infer *infer) {
    uint32_t mask;
    return kiln_axes_resolve(infer->node, "axes", infer->shape[0].rank, 0, &mask);
}

/* (x - mean) / (standard deviation + 1e-9), as in the operator's definition. Default axes are 0,
 * 2, 3. */
void kiln_te_mean_variance_norm(kiln_te *te) {
    uint32_t mask = 0, rank = kiln_te_in_shape(te, 0)->rank;
    KILN_CHECK(!kiln_axes_resolve(te->node, "axes", rank, kiln_mask_all(rank) & 0xdu, &mask));
    moments m = make_moments(te, mask);
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr value = difference(te, &m.mean, block.i);
    kiln_expr deviation =
        kiln_unary(te, KILN_EXPR_SQRT, average(te, &m, kiln_te_reduced_at(te, &m.square, block.i)));
    deviation = kiln_add(te, deviation, kiln_te_const(te, deviation, 1e-9));
    kiln_te_put(te, &block, kiln_div(te, value, deviation));
}

kiln_status kiln_rule_lrn(kiln_infer *infer) {
    int64_t size = kiln_node_int(infer->node, "size");
    if (infer->shape[0].rank < 2)
        return KILN_ERROR(INVALID_ARGUMENT, "input 0 needs at least 2 dimensions");
    return size >= 1 && size <= 65536
               ? KILN_OK
               : KILN_ERROR(INVALID_ARGUMENT, "attribute size: %lld is out of range",
                            (long long)size);
}

/* x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels)^beta */
void kiln_te_lrn(kiln_te *te) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    int64_t size = kiln_node_int(te->node, "size");
    kiln_te_block block = kiln_te_temp_begin(te, "sum", kiln_te_wide(te), shape);
    kiln_expr element[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape->rank; d++) element[d] = block.i[d];
    kiln_expr shift = kiln_te_block_axis(te, &block, "r", size, true);
    element[1] = kiln_index_affine(te, kiln_add(te, block.i[1], shift), 1, -((size - 1) / 2));
    kiln_expr x = kiln_te_load(te, 0, element);
    kiln_expr square = kiln_select(te, kiln_index_inside(te, element[1], 0, shape->dim[1]),
                                   kiln_mul(te, x, x), kiln_te_const(te, x, 0));
    kiln_te_combine(te, &block, KILN_COMBINE_SUM, square);

    kiln_te_block last = kiln_te_output_begin(te, "");
    kiln_expr total = kiln_te_at(te, block.to, last.i);
    kiln_expr scale = kiln_te_const(te, total, kiln_node_float(te->node, "alpha") / (double)size);
    kiln_expr base = kiln_add(te, kiln_te_const(te, total, kiln_node_float(te->node, "bias")),
                              kiln_mul(te, scale, total));
    kiln_expr power = kiln_binary(te, KILN_EXPR_POW, base,
                                  kiln_te_const(te, total, kiln_node_float(te->node, "beta")));
    kiln_te_put(te, &last, kiln_div(te, kiln_te_load(te, 0, last.i), power));
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* scores: [n][classes][d...], target: [n][d...] integers, weight: [classes] or absent. */
kiln_status kiln_rule_loss(kiln_infer *infer) {
    const kiln_value_info *scores = kiln_infer_input(infer, 0);
    const kiln_value_info *target = kiln_infer_input(infer, 1);
    const kiln_value_info *weight = kiln_infer_input(infer, 2);
    kiln_str reduction = kiln_node_text(infer->node, "reduction");
    if (scores->shape.rank < 2 || target->shape.rank + 1 != scores->shape.rank)
        return KILN_ERROR(INVALID_ARGUMENT, "targets must have one dimension fewer than scores");
    for (uint32_t d = 0; d < target->shape.rank; d++)
        if (target->shape.dim[d] != scores->shape.dim[d ? d + 1 : 0])
            return KILN_ERROR(INVALID_ARGUMENT, "targets and scores differ in shape");
    if (weight && (weight->shape.rank != 1 || weight->shape.dim[0] != scores->shape.dim[1] ||
                   weight->dtype != scores->dtype))
        return KILN_ERROR(INVALID_ARGUMENT, "input 2 must be a vector with one weight per class");
    if (kiln_dtype_is_float(target->dtype))
        return KILN_ERROR(INVALID_ARGUMENT, "targets must be integers");
    bool none = kiln_str_is(reduction, "none");
    if (!none && !kiln_str_is(reduction, "mean") && !kiln_str_is(reduction, "sum"))
        return KILN_ERROR(INVALID_ARGUMENT, "attribute reduction: \"%.*s\" is not known",
                          KILN_STR_ARG(reduction));
    infer->shape[0] = none ? target->shape : (kiln_shape){0};
    return KILN_OK;
}

typedef struct loss_context {
    kiln_buffer scores; /* 0: input 0 itself */
    bool weights;       /* the element's weight instead of its loss */
} loss_context;

/* Loss (or weight) of the target at index `i`. */
static kiln_expr loss_at(kiln_te *te, const void *context, const kiln_expr *i) {
    const loss_context *c = context;
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    kiln_expr target = kiln_te_load(te, 1, i), index[KILN_RANK_MAX] = {i[0]};
    kiln_expr class_index = kiln_index_from(te, target, shape->dim[1]);
    index[1] = class_index;
    for (uint32_t d = 2; d < shape->rank; d++) index[d] = i[d - 1];
    kiln_expr score = c->scores ? kiln_te_at(te, c->scores, index) : kiln_te_load(te, 0, index);
    kiln_expr weight =
        kiln_te_has(te, 2) ? kiln_te_load(te, 2, &class_index) : kiln_te_const(te, score, 1);
    kiln_expr value =
        c->weights ? weight : kiln_mul(te, kiln_unary(te, KILN_EXPR_NEG, score), weight);
    if (!kiln_node_has(te->node, "ignore_index")) return value;
    kiln_expr ignored =
        kiln_expr_int(te->p, kiln_te_in_dtype(te, 1), kiln_node_int(te->node, "ignore_index"));
    return kiln_select(te, kiln_equal(te, target, ignored), kiln_te_const(te, value, 0), value);
}

static void loss_output(kiln_te *te, kiln_buffer scores) {
    const kiln_shape *target = kiln_te_in_shape(te, 1);
    kiln_str reduction = kiln_node_text(te->node, "reduction");
    const loss_context loss = {scores, false}, weight = {scores, true};
    if (kiln_str_is(reduction, "none")) {
        kiln_te_block block = kiln_te_output_begin(te, "");
        kiln_te_put(te, &block, loss_at(te, &loss, block.i));
        return;
    }
    kiln_te_reduction r = {.shape = target,
                           .mask = kiln_mask_all(target->rank),
                           .combiner = KILN_COMBINE_SUM,
                           .operand = loss_at,
                           .context = &loss};
    kiln_te_reduced sum = kiln_te_reduce(te, "sum", r), weights = {0};
    r.context = &weight;
    if (kiln_str_is(reduction, "mean")) weights = kiln_te_reduce(te, "weights", r);
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr value = kiln_te_reduced_at(te, &sum, block.i);
    if (weights.buffer) value = kiln_div(te, value, kiln_te_reduced_at(te, &weights, block.i));
    kiln_te_put(te, &block, value);
}

void kiln_te_nll_loss(kiln_te *te) { loss_output(te, 0); }

/* Output 1 is log(softmax(scores)) along the classes. */
void kiln_te_softmax_loss(kiln_te *te) {
    bool wanted = te->node->output_count > 1 && te->output[1] != 0;
    kiln_buffer log =
        wanted ? te->output[1] : kiln_te_temp(te, "log", kiln_te_wide(te), kiln_te_in_shape(te, 0));
    log_softmax_into(te, log, 2u);
    if (te->output[0]) loss_output(te, log);
}
