/* Pooling over windows and over everything. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/ops/rules.h"

/* The type of sums: integers of few bits have room there for more than 2^23 elements. */
static kiln_dtype sum_dtype(kiln_dtype dtype) {
    return kiln_dtype_is_float(dtype) ? kiln_te_compute_dtype(dtype) : KILN_I32;
}

/* Averages of integers are floats. */
static void infer_average(kiln_infer *infer) {
    const bool averages =
        infer->node->op == KILN_OP_AVERAGE_POOL || infer->node->op == KILN_OP_GLOBAL_AVERAGE_POOL;
    if (averages && !kiln_dtype_is_float(infer->dtype[0])) infer->dtype[0] = KILN_F32;
}

kiln_status kiln_rule_pool(kiln_infer *infer) {
    const kiln_value_info *data = kiln_infer_input(infer, 0);
    kiln_sliding_window window;
    kiln_status st = kiln_sliding_window_resolve(infer->node, &data->shape, NULL, &window);
    if (st) return st;
    for (uint32_t i = 0; i < infer->node->output_count; i++) {
        if (i) infer->dtype[i] = KILN_I64;
        memcpy(&infer->shape[i].dim[2], window.out, sizeof *window.out * window.rank);
    }
    infer_average(infer);
    return KILN_OK;
}

/* The iterators of a pooling block: output, then window. */
typedef struct pool_axes {
    kiln_te_block block;
    kiln_expr element[KILN_RANK_MAX]; /* index into the padded data */
} pool_axes;

static pool_axes make_axes(kiln_te *te, const char *suffix, const kiln_sliding_window *w,
                           kiln_buffer to) {
    static const char *const kernel[6] = {"kh", "kw", "kd", "k3", "k4", "k5"};
    pool_axes a = {.block = kiln_te_block_begin(te, suffix, kiln_te_out_shape(te))};
    a.block.to = to;
    a.element[0] = a.block.i[0];
    a.element[1] = a.block.i[1];
    for (uint32_t d = 0; d < w->rank; d++) {
        kiln_expr k = kiln_te_block_axis(te, &a.block, kernel[d], w->kernel[d], true);
        kiln_expr start = kiln_mul(te, a.block.i[d + 2], kiln_index(te, w->stride[d]));
        a.element[d + 2] = kiln_add(te, start, kiln_mul(te, k, kiln_index(te, w->dilation[d])));
    }
    return a;
}

static kiln_sliding_window window_of(const kiln_te *te) {
    kiln_sliding_window window;
    KILN_CHECK(!kiln_sliding_window_resolve(te->node, kiln_te_in_shape(te, 0), NULL, &window));
    return window;
}

/* ---- max ------------------------------------------------------------------------------------- */

/* Position of a window's element in the whole input, row-major (or with the spatial dimensions
 * column-major). */
static kiln_expr flat_position(kiln_te *te, const kiln_sliding_window *w,
                               const kiln_expr *element) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    kiln_expr flat =
        kiln_add(te, kiln_mul(te, element[0], kiln_index(te, shape->dim[1])), element[1]);
    bool columns = kiln_node_int(te->node, "storage_order") != 0;
    for (uint32_t d = 0; d < w->rank; d++) {
        uint32_t at = columns ? w->rank - 1 - d : d;
        kiln_expr inside = kiln_index_affine(te, element[at + 2], 1, -w->pad_low[at]);
        flat = kiln_add(te, kiln_mul(te, flat, kiln_index(te, w->in[at])), inside);
    }
    return flat;
}

/* The first position whose element is the window's maximum. */
static void max_positions(kiln_te *te, const kiln_sliding_window *w, kiln_buffer padded,
                          kiln_buffer best) {
    pool_axes a = make_axes(te, "index", w, te->output[1]);
    kiln_expr element = kiln_te_read_window(te, padded, a.element);
    kiln_expr is_best = kiln_equal(te, element, kiln_te_at(te, best, a.block.i));
    for (uint32_t d = 0; d < w->rank; d++) {
        /* padding may equal a maximum of -inf, but is no element */
        kiln_expr at = kiln_index_affine(te, a.element[d + 2], 1, -w->pad_low[d]);
        is_best = kiln_and(te, is_best, kiln_index_inside(te, at, 0, w->in[d]));
    }
    kiln_expr position = kiln_select(te, is_best, flat_position(te, w, a.element),
                                     kiln_expr_identity(te->p, KILN_COMBINE_MIN, KILN_I64));
    kiln_te_combine(te, &a.block, KILN_COMBINE_MIN, position);
}

void kiln_te_max_pool(kiln_te *te) {
    kiln_sliding_window w = window_of(te);
    kiln_dtype dtype = kiln_te_in_dtype(te, 0), wide = kiln_te_compute_dtype(dtype);
    kiln_buffer padded =
        kiln_te_pad_window(te, &w, kiln_expr_identity(te->p, KILN_COMBINE_MAX, dtype));
    kiln_buffer best = te->output[0] && wide == dtype
                           ? te->output[0]
                           : kiln_te_temp(te, "best", wide, kiln_te_out_shape(te));
    pool_axes a = make_axes(te, "", &w, best);
    kiln_te_combine(te, &a.block, KILN_COMBINE_MAX, kiln_te_read_window(te, padded, a.element));
    if (te->output[0]) kiln_te_round(te, best);
    if (te->node->output_count > 1 && te->output[1]) max_positions(te, &w, padded, best);
}

/* ---- average and Lp -------------------------------------------------------------------------- */

/* How many elements of a window along dimension d count: those k in [0, kernel) with
 * low <= start + k * dilation < high. */
static kiln_expr count_along(kiln_te *te, const kiln_sliding_window *w, uint32_t d, kiln_expr out,
                             int64_t low, int64_t high) {
    kiln_expr start = kiln_index_affine(te, out, w->stride[d], -w->pad_low[d]);
    /* ceil((bound - start) / dilation) = floor((bound - start + dilation - 1) / dilation) */
    kiln_expr first = kiln_sub(te, kiln_index(te, low + w->dilation[d] - 1), start);
    kiln_expr end = kiln_sub(te, kiln_index(te, high + w->dilation[d] - 1), start);
    first = kiln_index_floordiv(te, first, w->dilation[d]);
    end = kiln_index_floordiv(te, end, w->dilation[d]);
    return kiln_sub(te, kiln_min(te, end, kiln_index(te, w->kernel[d])),
                    kiln_max(te, first, kiln_index(te, 0)));
}

/* The divisor of an average: elements inside the input, or inside the declared padding. A ceil_mode
 * window that ends beyond both never counts what is there. */
static kiln_expr average_count(kiln_te *te, const kiln_sliding_window *w, const kiln_expr *out,
                               kiln_expr like) {
    bool include = kiln_node_int(te->node, "count_include_pad") != 0;
    kiln_expr count = kiln_index(te, 1);
    for (uint32_t d = 0; d < w->rank; d++) {
        int64_t low = include ? -w->pad_low[d] : 0,
                high = w->in[d] + (include ? w->pad_high[d] : 0);
        int64_t reach = (w->out[d] - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] + 1 -
                        w->pad_low[d];
        bool whole = low <= -w->pad_low[d] && reach <= high;
        kiln_expr along =
            whole ? kiln_index(te, w->kernel[d]) : count_along(te, w, d, out[d + 2], low, high);
        count = kiln_mul(te, count, along);
    }
    return kiln_cast(te, (kiln_dtype)kiln_expr_get(te->p, like)->dtype, count);
}

/* |x|^p, and its inverse on the sum. */
static kiln_expr power(kiln_te *te, kiln_expr x, int64_t p) {
    kiln_expr magnitude = kiln_unary(te, KILN_EXPR_ABS, x);
    if (p == 1) return magnitude;
    if (p == 2) return kiln_mul(te, x, x);
    return kiln_binary(te, KILN_EXPR_POW, magnitude, kiln_te_const(te, x, (double)p));
}

static kiln_expr root(kiln_te *te, kiln_expr x, int64_t p) {
    if (p == 1) return x;
    if (p == 2) return kiln_unary(te, KILN_EXPR_SQRT, x);
    return kiln_binary(te, KILN_EXPR_POW, x, kiln_te_const(te, x, 1.0 / (double)p));
}

/* Sums over windows of x, or of |x|^p with the attribute p, in a temp. */
static kiln_buffer window_sums(kiln_te *te, const kiln_sliding_window *w, bool powers) {
    kiln_dtype dtype = kiln_te_in_dtype(te, 0);
    kiln_buffer padded = kiln_te_pad_window(te, w, kiln_expr_zero(te->p, dtype));
    kiln_buffer sum = kiln_te_temp(te, "sum", sum_dtype(dtype), kiln_te_out_shape(te));
    pool_axes a = make_axes(te, "", w, sum);
    kiln_expr x = kiln_cast(te, sum_dtype(dtype), kiln_te_read_window(te, padded, a.element));
    kiln_te_combine(te, &a.block, KILN_COMBINE_SUM,
                    powers ? power(te, x, kiln_node_int(te->node, "p")) : x);
    return sum;
}

void kiln_te_average_pool(kiln_te *te) {
    kiln_sliding_window w = window_of(te);
    kiln_buffer sum = window_sums(te, &w, false);
    kiln_te_block divide = kiln_te_output_begin(te, "divide");
    kiln_expr total = kiln_cast(te, kiln_te_out_wide(te), kiln_te_at(te, sum, divide.i));
    kiln_te_put(te, &divide, kiln_div(te, total, average_count(te, &w, divide.i, total)));
}

void kiln_te_lp_pool(kiln_te *te) {
    kiln_sliding_window w = window_of(te);
    kiln_buffer sum = window_sums(te, &w, true);
    kiln_te_block block = kiln_te_output_begin(te, "root");
    kiln_te_put(te, &block, root(te, kiln_te_at(te, sum, block.i), kiln_node_int(te->node, "p")));
}

/* ---- over everything ------------------------------------------------------------------------- */

kiln_status kiln_rule_global_pool(kiln_infer *infer) {
    kiln_shape *shape = &infer->shape[0];
    if (shape->rank < 3) return KILN_ERROR(INVALID_ARGUMENT, "input 0 needs at least 3 dimensions");
    for (uint32_t d = 2; d < shape->rank; d++) {
        if (shape->dim[d] == 0) return KILN_ERROR(INVALID_ARGUMENT, "input 0 is empty");
        shape->dim[d] = 1;
    }
    infer_average(infer);
    return KILN_OK;
}

/* The spatial dimensions reduced to 1, in `dtype`. */
static kiln_expr reduce_spatial(kiln_te *te, const char *suffix, kiln_dtype dtype,
                                kiln_combiner combiner, kiln_te_operand operand,
                                kiln_te_block *out_block) {
    const uint32_t mask = kiln_mask_all(kiln_te_in_shape(te, 0)->rank) & ~3u;
    const kiln_te_reduced reduced =
        kiln_te_reduce(te, suffix,
                       (kiln_te_reduction){
                           .mask = mask, .dtype = dtype, .combiner = combiner, .operand = operand});
    *out_block = kiln_te_output_begin(te, "");
    return kiln_te_at(te, reduced.buffer, out_block->i);
}

void kiln_te_global_average_pool(kiln_te *te) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    kiln_te_block block;
    kiln_dtype sums = sum_dtype(kiln_te_in_dtype(te, 0));
    kiln_expr total = reduce_spatial(te, "sum", sums, KILN_COMBINE_SUM, NULL, &block);
    total = kiln_cast(te, kiln_te_out_wide(te), total);
    double count = kiln_shape_count_of(shape, kiln_mask_all(shape->rank) & ~3u);
    kiln_te_put(te, &block, kiln_div(te, total, kiln_te_const(te, total, count)));
}

void kiln_te_global_max_pool(kiln_te *te) {
    kiln_te_block block;
    kiln_expr best = reduce_spatial(te, "best", kiln_te_wide(te), KILN_COMBINE_MAX, NULL, &block);
    kiln_te_put(te, &block, best);
}

static kiln_expr operand_power(kiln_te *te, const void *context, const kiln_expr *i) {
    (void)context;
    return power(te, kiln_te_load(te, 0, i), kiln_node_int(te->node, "p"));
}

void kiln_te_global_lp_pool(kiln_te *te) {
    kiln_te_block block;
    kiln_expr total =
        reduce_spatial(te, "sum", kiln_te_wide(te), KILN_COMBINE_SUM, operand_power, &block);
    kiln_te_put(te, &block, root(te, total, kiln_node_int(te->node, "p")));
}
