/* Softmax and normalisations: several reductions and what is computed from them, in one kernel. */
#include "base/check.h"
#include "compiler-core/ops/rules.h"

/* ---- softmax --------------------------------------------------------------------------------- */

kiln_status kiln_rule_softmax(kiln_infer *infer) {
    const kiln_value_info *in = kiln_node_input(infer->graph, infer->node, 0);
    infer->dtype[0] = in->dtype;
    infer->shape[0] = in->shape;
    uint32_t axis;
    return kiln_axis_resolve(kiln_node_int(infer->node, "axis"), in->shape.rank, "axis", &axis);
}

static uint32_t softmax_mask(const kiln_te *te) {
    uint32_t axis = 0, rank = kiln_te_in_shape(te, 0)->rank;
    kiln_status st = kiln_axis_resolve(kiln_node_int(te->node, "axis"), rank, "axis", &axis);
    KILN_CHECK(st == NULL);
    return kiln_node_int(te->node, "flatten") ? kiln_mask_all(rank) & ~kiln_mask_all(axis)
                                              : 1u << axis;
}

typedef struct centred {
    kiln_buffer centre;
    uint32_t mask, rank;
} centred;

static kiln_expr exp_of_difference(kiln_te *te, const void *context, const kiln_expr *i) {
    const centred *c = context;
    kiln_expr centre = kiln_te_read_reduced(te, c->centre, c->mask, i, c->rank);
    return kiln_expr_unary(te->p, KILN_EXPR_EXP, kiln_sub(te, kiln_te_load(te, 0, i), centre));
}

/* The maximum and the sum of exp(x - maximum). */
static kiln_buffer softmax_sums(kiln_te *te, uint32_t mask, centred *out_centred) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    kiln_dtype wide = kiln_te_compute_dtype(kiln_te_in_dtype(te, 0));
    *out_centred = (centred){.mask = mask, .rank = shape->rank};
    out_centred->centre =
        kiln_te_reduce(te, "max", shape, mask, wide, KILN_COMBINE_MAX, kiln_te_operand_input, NULL);
    return kiln_te_reduce(te, "sum", shape, mask, wide, KILN_COMBINE_SUM, exp_of_difference,
                          out_centred);
}

void kiln_te_softmax(kiln_te *te) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    kiln_dtype wide = kiln_te_compute_dtype(kiln_te_in_dtype(te, 0));
    centred c = {.mask = softmax_mask(te), .rank = shape->rank};
    c.centre = kiln_te_reduce(te, "max", shape, c.mask, wide, KILN_COMBINE_MAX,
                              kiln_te_operand_input, NULL);
    /* exp is kept, so that it is computed once per element. */
    kiln_buffer power = kiln_te_temp(te, "exp", wide, shape);
    kiln_te_block block = kiln_te_block_begin(te, "exp", shape);
    kiln_te_store(te, &block, power, block.i, block.rank, exp_of_difference(te, &c, block.i));

    kiln_shape kept = *shape;
    for (uint32_t d = 0; d < shape->rank; d++)
        if (c.mask >> d & 1u) kept.dim[d] = 1;
    kiln_buffer sum = kiln_te_temp(te, "sum", wide, &kept);
    kiln_te_block add = {.id = kiln_block_create(te->p, KILN_STR("softmax.sum"))};
    kiln_expr element[KILN_RANK_MAX] = {0}, index[KILN_RANK_MAX] = {0};
    for (uint32_t reduce = 0; reduce < 2; reduce++) {
        for (uint32_t d = 0; d < shape->rank; d++) {
            if ((c.mask >> d & 1u) != reduce) continue;
            element[d] =
                kiln_te_block_axis(te, &add, reduce ? "r" : "i", shape->dim[d], reduce != 0);
            index[d] = reduce ? kiln_index(te, 0) : element[d];
        }
    }
    kiln_te_accumulate(te, &add, sum, index, shape->rank, KILN_COMBINE_SUM,
                       kiln_te_read(te, power, element, shape->rank));

    /* One division per sum, not one per element. */
    kiln_buffer scale = kiln_te_temp(te, "scale", wide, &kept);
    kiln_te_block invert = kiln_te_block_begin(te, "scale", &kept);
    kiln_expr total = kiln_te_read(te, sum, invert.i, invert.rank);
    kiln_te_store(te, &invert, scale, invert.i, invert.rank,
                  kiln_div(te, kiln_te_const(te, total, 1), total));

    kiln_te_block last = kiln_te_block_begin(te, "", shape);
    kiln_te_store(te, &last, te->output[0], last.i, last.rank,
                  kiln_mul(te, kiln_te_read(te, power, last.i, last.rank),
                           kiln_te_read_reduced(te, scale, c.mask, last.i, last.rank)));
}

static void log_softmax_into(kiln_te *te, kiln_buffer output, uint32_t mask) {
    centred c;
    kiln_buffer sum = softmax_sums(te, mask, &c);
    kiln_te_block block = kiln_te_block_begin(te, "log", kiln_te_in_shape(te, 0));
    kiln_expr difference = kiln_sub(te, kiln_te_load(te, 0, block.i),
                                    kiln_te_read_reduced(te, c.centre, mask, block.i, block.rank));
    kiln_expr total = kiln_te_read_reduced(te, sum, mask, block.i, block.rank);
    kiln_te_store(te, &block, output, block.i, block.rank,
                  kiln_sub(te, difference, kiln_expr_unary(te->p, KILN_EXPR_LOG, total)));
}

void kiln_te_log_softmax(kiln_te *te) { log_softmax_into(te, te->output[0], softmax_mask(te)); }

static kiln_expr power_of_input(kiln_te *te, const void *context, const kiln_expr *i) {
    (void)context;
    kiln_expr x = kiln_te_load(te, 0, i);
    return kiln_node_int(te->node, "p") == 1 ? kiln_expr_unary(te->p, KILN_EXPR_ABS, x)
                                             : kiln_mul(te, x, x);
}

/* x / |x|_p along the axis, p in {1, 2}. */
void kiln_te_lp_norm(kiln_te *te) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    uint32_t axis = 0;
    kiln_status st = kiln_axis_resolve(kiln_node_int(te->node, "axis"), shape->rank, "axis", &axis);
    KILN_CHECK(st == NULL);
    kiln_dtype wide = kiln_te_compute_dtype(kiln_te_in_dtype(te, 0));
    kiln_buffer sum =
        kiln_te_reduce(te, "sum", shape, 1u << axis, wide, KILN_COMBINE_SUM, power_of_input, NULL);
    kiln_te_block block = kiln_te_block_begin(te, "", shape);
    kiln_expr norm = kiln_te_read_reduced(te, sum, 1u << axis, block.i, block.rank);
    if (kiln_node_int(te->node, "p") != 1) norm = kiln_expr_unary(te->p, KILN_EXPR_SQRT, norm);
    /* A vector of zeros stays one. */
    kiln_expr is_zero = kiln_expr_binary(te->p, KILN_EXPR_EQ, norm, kiln_te_const(te, norm, 0));
    kiln_expr divisor = kiln_select(te, is_zero, kiln_te_const(te, norm, 1), norm);
    kiln_te_store(te, &block, te->output[0], block.i, block.rank,
                  kiln_div(te, kiln_te_load(te, 0, block.i), divisor));
}

/* ---- mean and variance ----------------------------------------------------------------------- */

/* Temps in the compute dtype, reduced dimensions kept as 1. */
typedef struct moments {
    kiln_buffer mean;
    kiln_buffer square; /* sum of (x - mean)^2 */
    uint32_t mask, rank;
    double count;
} moments;

/* The value at one element of a temp of the moments' shape. */
typedef kiln_expr (*statistic)(kiln_te *te, const moments *m, kiln_buffer from, const kiln_expr *i);

/* Such a temp: computed once per row of what is reduced, not once per element. */
static kiln_buffer make_statistic(kiln_te *te, const char *suffix, const moments *m,
                                  kiln_buffer from, statistic value) {
    const kiln_buffer_info source = te->p->buffer.data[from];
    kiln_buffer to = kiln_te_temp(te, suffix, source.dtype, &source.shape);
    kiln_te_block block = kiln_te_block_begin(te, suffix, &source.shape);
    kiln_te_store(te, &block, to, block.i, block.rank, value(te, m, from, block.i));
    return to;
}

static kiln_expr average(kiln_te *te, const moments *m, kiln_buffer sums, const kiln_expr *i) {
    kiln_expr sum = kiln_te_read_reduced(te, sums, m->mask, i, m->rank);
    return kiln_div(te, sum, kiln_te_const(te, sum, m->count));
}

static kiln_expr mean_at(kiln_te *te, const moments *m, const kiln_expr *i) {
    return kiln_te_read_reduced(te, m->mean, m->mask, i, m->rank);
}

static kiln_expr squared_difference(kiln_te *te, const void *context, const kiln_expr *i) {
    kiln_expr difference = kiln_sub(te, kiln_te_load(te, 0, i), mean_at(te, context, i));
    return kiln_mul(te, difference, difference);
}

static moments make_moments(kiln_te *te, uint32_t mask) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    kiln_dtype wide = kiln_te_compute_dtype(kiln_te_in_dtype(te, 0));
    moments m = {.mask = mask, .rank = shape->rank, .count = 1};
    for (uint32_t d = 0; d < shape->rank; d++)
        if (mask >> d & 1u) m.count *= (double)shape->dim[d];
    kiln_buffer sum =
        kiln_te_reduce(te, "sum", shape, mask, wide, KILN_COMBINE_SUM, kiln_te_operand_input, NULL);
    m.mean = make_statistic(te, "mean", &m, sum, average);
    m.square =
        kiln_te_reduce(te, "square", shape, mask, wide, KILN_COMBINE_SUM, squared_difference, &m);
    return m;
}

static kiln_expr inverse_deviation(kiln_te *te, const moments *m, kiln_buffer squares,
                                   const kiln_expr *i) {
    kiln_expr variance = average(te, m, squares, i);
    kiln_expr guarded =
        kiln_add(te, variance, kiln_te_const(te, variance, kiln_node_float(te->node, "epsilon")));
    return kiln_div(te, kiln_te_const(te, variance, 1),
                    kiln_expr_unary(te->p, KILN_EXPR_SQRT, guarded));
}

/* A temp of 1 / sqrt(variance + epsilon). */
static kiln_buffer make_inverse(kiln_te *te, const moments *m) {
    return make_statistic(te, "inverse", m, m->square, inverse_deviation);
}

static kiln_expr statistic_at(kiln_te *te, const moments *m, kiln_buffer temp, const kiln_expr *i) {
    return kiln_te_read_reduced(te, temp, m->mask, i, m->rank);
}

kiln_status kiln_rule_instance_norm(kiln_infer *infer) {
    const kiln_value_info *in = kiln_node_input(infer->graph, infer->node, 0);
    if (in->shape.rank < 3)
        return KILN_ERROR(INVALID_ARGUMENT, "input 0 needs at least 3 dimensions");
    return kiln_rule_batch_norm(infer);
}

/* Over the spatial dimensions; scale and bias by channel. */
void kiln_te_instance_norm(kiln_te *te) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    moments m = make_moments(te, kiln_mask_all(shape->rank) & ~3u);
    kiln_buffer inverse = make_inverse(te, &m);
    kiln_te_block block = kiln_te_block_begin(te, "", shape);
    kiln_expr value = kiln_sub(te, kiln_te_load(te, 0, block.i), mean_at(te, &m, block.i));
    value = kiln_mul(te, kiln_mul(te, value, statistic_at(te, &m, inverse, block.i)),
                     kiln_te_load(te, 1, &block.i[1]));
    kiln_te_store(te, &block, te->output[0], block.i, block.rank,
                  kiln_add(te, value, kiln_te_load(te, 2, &block.i[1])));
}

static uint32_t layer_mask(uint32_t rank, uint32_t axis) {
    return kiln_mask_all(rank) & ~kiln_mask_all(axis);
}

kiln_status kiln_rule_layer_norm(kiln_infer *infer) {
    const kiln_value_info *in = kiln_node_input(infer->graph, infer->node, 0);
    uint32_t axis;
    kiln_status st =
        kiln_axis_resolve(kiln_node_int(infer->node, "axis"), in->shape.rank, "axis", &axis);
    if (st) return st;
    for (uint32_t i = 1; i < infer->node->input_count; i++) {
        const kiln_value_info *operand = kiln_node_input(infer->graph, infer->node, i);
        if (!operand) continue;
        kiln_shape both = in->shape;
        st = kiln_shape_broadcast(&both, &operand->shape);
        if (!st && (!kiln_shape_equal(&both, &in->shape) || operand->dtype != in->dtype))
            st = KILN_ERROR(INVALID_ARGUMENT, "it is larger than input 0, or of another type");
        if (st) return kiln_status_note(st, "input %u", i);
    }
    for (uint32_t i = 0; i < infer->node->output_count; i++) {
        infer->dtype[i] = i ? KILN_F32 : in->dtype;
        infer->shape[i] = in->shape;
        for (uint32_t d = axis; i && d < in->shape.rank; d++) infer->shape[i].dim[d] = 1;
    }
    return KILN_OK;
}

static void layer_norm_output(kiln_te *te, const moments *m, kiln_buffer inverse) {
    kiln_te_block block = kiln_te_block_begin(te, "", kiln_te_in_shape(te, 0));
    kiln_expr value = kiln_sub(te, kiln_te_load(te, 0, block.i), mean_at(te, m, block.i));
    value = kiln_mul(te, value, statistic_at(te, m, inverse, block.i));
    value = kiln_mul(te, value, kiln_te_load_broadcast(te, 1, block.i, block.rank));
    if (kiln_te_has(te, 2))
        value = kiln_add(te, value, kiln_te_load_broadcast(te, 2, block.i, block.rank));
    kiln_te_store(te, &block, te->output[0], block.i, block.rank, value);
}

/* Over the dimensions from `axis` on. Outputs 1 and 2 are the mean and 1 / standard deviation. */
void kiln_te_layer_norm(kiln_te *te) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    uint32_t axis = 0;
    kiln_status st = kiln_axis_resolve(kiln_node_int(te->node, "axis"), shape->rank, "axis", &axis);
    KILN_CHECK(st == NULL);
    moments m = make_moments(te, layer_mask(shape->rank, axis));
    kiln_buffer inverse = make_inverse(te, &m);
    if (te->output[0]) layer_norm_output(te, &m, inverse);
    for (uint32_t i = 1; i < te->node->output_count; i++) {
        if (!te->output[i]) continue;
        kiln_te_block block = kiln_te_block_begin(te, i == 1 ? "mean" : "deviation",
                                                  &te->p->buffer.data[te->output[i]].shape);
        kiln_expr wanted =
            i == 1 ? mean_at(te, &m, block.i) : statistic_at(te, &m, inverse, block.i);
        kiln_te_store(te, &block, te->output[i], block.i, block.rank, wanted);
    }
}

static kiln_expr square_of_input(kiln_te *te, const void *context, const kiln_expr *i) {
    (void)context;
    kiln_expr x = kiln_te_load(te, 0, i);
    return kiln_mul(te, x, x);
}

/* x / sqrt(mean of x^2 + epsilon) * scale, over the dimensions from `axis` on. */
void kiln_te_rms_norm(kiln_te *te) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    uint32_t axis = 0;
    kiln_status st = kiln_axis_resolve(kiln_node_int(te->node, "axis"), shape->rank, "axis", &axis);
    KILN_CHECK(st == NULL);
    kiln_dtype wide = kiln_te_compute_dtype(kiln_te_in_dtype(te, 0));
    moments m = {.mask = layer_mask(shape->rank, axis), .rank = shape->rank, .count = 1};
    for (uint32_t d = axis; d < shape->rank; d++) m.count *= (double)shape->dim[d];
    m.square =
        kiln_te_reduce(te, "square", shape, m.mask, wide, KILN_COMBINE_SUM, square_of_input, NULL);
    kiln_buffer inverse = make_inverse(te, &m);
    kiln_te_block block = kiln_te_block_begin(te, "", shape);
    kiln_expr value =
        kiln_mul(te, kiln_te_load(te, 0, block.i), statistic_at(te, &m, inverse, block.i));
    kiln_te_store(te, &block, te->output[0], block.i, block.rank,
                  kiln_mul(te, value, kiln_te_load_broadcast(te, 1, block.i, block.rank)));
}

kiln_status kiln_rule_mean_variance_norm(kiln_infer *infer) {
    const kiln_value_info *in = kiln_node_input(infer->graph, infer->node, 0);
    infer->dtype[0] = in->dtype;
    infer->shape[0] = in->shape;
    uint32_t mask;
    return kiln_axes_resolve(infer->node, "axes", in->shape.rank, 0, &mask);
}

/* (x - mean) / (standard deviation + 1e-9), as in the operator's definition. Default axes are 0,
 * 2, 3. */
void kiln_te_mean_variance_norm(kiln_te *te) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    uint32_t mask = 0;
    kiln_status st =
        kiln_axes_resolve(te->node, "axes", shape->rank, kiln_mask_all(shape->rank) & 0xdu, &mask);
    KILN_CHECK(st == NULL);
    moments m = make_moments(te, mask);
    kiln_te_block block = kiln_te_block_begin(te, "", shape);
    kiln_expr value = kiln_sub(te, kiln_te_load(te, 0, block.i), mean_at(te, &m, block.i));
    kiln_expr deviation =
        kiln_expr_unary(te->p, KILN_EXPR_SQRT, average(te, &m, m.square, block.i));
    deviation = kiln_add(te, deviation, kiln_te_const(te, deviation, 1e-9));
    kiln_te_store(te, &block, te->output[0], block.i, block.rank, kiln_div(te, value, deviation));
}

kiln_status kiln_rule_lrn(kiln_infer *infer) {
    const kiln_value_info *in = kiln_node_input(infer->graph, infer->node, 0);
    int64_t size = kiln_node_int(infer->node, "size");
    infer->dtype[0] = in->dtype;
    infer->shape[0] = in->shape;
    if (in->shape.rank < 2)
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
    kiln_dtype wide = kiln_te_compute_dtype(kiln_te_in_dtype(te, 0));
    kiln_buffer sum = kiln_te_temp(te, "sum", wide, shape);
    kiln_te_block block = kiln_te_block_begin(te, "sum", shape);
    kiln_expr element[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape->rank; d++) element[d] = block.i[d];
    kiln_expr shift = kiln_te_block_axis(te, &block, "r", size, true);
    element[1] = kiln_index_affine(te, kiln_add(te, block.i[1], shift), 1, -((size - 1) / 2));
    kiln_expr x = kiln_te_load(te, 0, element);
    kiln_expr square = kiln_select(te, kiln_index_inside(te, element[1], 0, shape->dim[1]),
                                   kiln_mul(te, x, x), kiln_te_const(te, x, 0));
    kiln_te_accumulate(te, &block, sum, block.i, shape->rank, KILN_COMBINE_SUM, square);

    kiln_te_block last = kiln_te_block_begin(te, "", shape);
    kiln_expr total = kiln_te_read(te, sum, last.i, last.rank);
    kiln_expr scale = kiln_te_const(te, total, kiln_node_float(te->node, "alpha") / (double)size);
    kiln_expr base = kiln_add(te, kiln_te_const(te, total, kiln_node_float(te->node, "bias")),
                              kiln_mul(te, scale, total));
    kiln_expr power = kiln_expr_binary(te->p, KILN_EXPR_POW, base,
                                       kiln_te_const(te, total, kiln_node_float(te->node, "beta")));
    kiln_te_store(te, &last, te->output[0], last.i, last.rank,
                  kiln_div(te, kiln_te_load(te, 0, last.i), power));
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* scores: [n][classes][d...], target: [n][d...] integers, weight: [classes] or absent. */
kiln_status kiln_rule_loss(kiln_infer *infer) {
    const kiln_value_info *scores = kiln_node_input(infer->graph, infer->node, 0);
    const kiln_value_info *target = kiln_node_input(infer->graph, infer->node, 1);
    const kiln_value_info *weight = kiln_node_input(infer->graph, infer->node, 2);
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
    for (uint32_t i = 0; i < infer->node->output_count; i++) {
        infer->dtype[i] = scores->dtype;
        infer->shape[i] = i ? scores->shape : none ? target->shape : (kiln_shape){0};
    }
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
    kiln_expr score =
        c->scores ? kiln_te_read(te, c->scores, index, shape->rank) : kiln_te_load(te, 0, index);
    kiln_expr weight =
        kiln_te_has(te, 2) ? kiln_te_load(te, 2, &class_index) : kiln_te_const(te, score, 1);
    kiln_expr value =
        c->weights ? weight : kiln_mul(te, kiln_expr_unary(te->p, KILN_EXPR_NEG, score), weight);
    if (!kiln_node_has(te->node, "ignore_index")) return value;
    kiln_expr ignored =
        kiln_expr_int(te->p, kiln_te_in_dtype(te, 1), kiln_node_int(te->node, "ignore_index"));
    return kiln_select(te, kiln_expr_binary(te->p, KILN_EXPR_EQ, target, ignored),
                       kiln_te_const(te, value, 0), value);
}

static void loss_output(kiln_te *te, kiln_buffer scores) {
    const kiln_shape *target = kiln_te_in_shape(te, 1);
    kiln_dtype wide = kiln_te_compute_dtype(kiln_te_in_dtype(te, 0));
    kiln_str reduction = kiln_node_text(te->node, "reduction");
    loss_context loss = {scores, false}, weight = {scores, true};
    uint32_t all = kiln_mask_all(target->rank);
    if (kiln_str_is(reduction, "none")) {
        kiln_te_block block = kiln_te_block_begin(te, "", target);
        kiln_te_store(te, &block, te->output[0], block.i, block.rank, loss_at(te, &loss, block.i));
        return;
    }
    kiln_buffer sum =
                    kiln_te_reduce(te, "sum", target, all, wide, KILN_COMBINE_SUM, loss_at, &loss),
                weights = 0;
    if (kiln_str_is(reduction, "mean"))
        weights =
            kiln_te_reduce(te, "weights", target, all, wide, KILN_COMBINE_SUM, loss_at, &weight);
    kiln_te_block block = kiln_te_block_begin(te, "", &te->p->buffer.data[te->output[0]].shape);
    kiln_expr value = kiln_te_read_reduced(te, sum, all, block.i, target->rank);
    if (weights)
        value = kiln_div(te, value, kiln_te_read_reduced(te, weights, all, block.i, target->rank));
    kiln_te_store(te, &block, te->output[0], block.i, block.rank, value);
}

void kiln_te_nll_loss(kiln_te *te) { loss_output(te, 0); }

/* Output 1 is log(softmax(scores)) along the classes. */
void kiln_te_softmax_loss(kiln_te *te) {
    bool wanted = te->node->output_count > 1 && te->output[1] != 0;
    kiln_dtype wide = kiln_te_compute_dtype(kiln_te_in_dtype(te, 0));
    kiln_buffer log =
        wanted ? te->output[1] : kiln_te_temp(te, "log", wide, kiln_te_in_shape(te, 0));
    log_softmax_into(te, log, 2u);
    if (te->output[0]) loss_output(te, log);
}
