/* Data movement: each element of the output is one element of an input, or padding. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/ops/rules.h"

/* ---- transpose ------------------------------------------------------------------------------- */

/* Output dimension d is input dimension out_perm[d]; by default reversed. */
static kiln_status permutation(const kiln_node_info *node, uint32_t rank, uint32_t *out_perm) {
    uint32_t count = 0, seen = 0;
    const int64_t *perm = kiln_node_ints(node, "perm", &count);
    if (perm && count != rank)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute perm has %u items instead of %u", count,
                          rank);
    for (uint32_t d = 0; d < rank; d++) {
        out_perm[d] = rank - 1 - d;
        kiln_status st =
            perm ? kiln_axis_take(perm, d, rank, "perm", &seen, &out_perm[d]) : KILN_OK;
        if (st) return st;
    }
    return KILN_OK;
}

kiln_status kiln_rule_transpose(kiln_infer *infer) {
    const kiln_value_info *in = kiln_infer_input(infer, 0);
    uint32_t perm[KILN_RANK_MAX];
    kiln_status st = permutation(infer->node, in->shape.rank, perm);
    for (uint32_t d = 0; !st && d < in->shape.rank; d++)
        infer->shape[0].dim[d] = in->shape.dim[perm[d]];
    return st;
}

void kiln_te_transpose(kiln_te *te) {
    uint32_t perm[KILN_RANK_MAX];
    kiln_te_block block = kiln_te_output_begin(te, "");
    KILN_CHECK(!permutation(te->node, block.rank, perm));
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < block.rank; d++) index[perm[d]] = block.i[d];
    kiln_te_put(te, &block, kiln_te_load_raw(te, 0, index));
}

/* ---- concat, split --------------------------------------------------------------------------- */

kiln_status kiln_rule_concat(kiln_infer *infer) {
    const kiln_value_info *first = kiln_infer_input(infer, 0);
    uint32_t axis = 0;
    kiln_status st = kiln_infer_axis(infer, &axis);
    for (uint32_t i = 1; !st && i < infer->node->input_count; i++) {
        const kiln_value_info *in = kiln_infer_input(infer, i);
        kiln_shape same = in->shape;
        if (same.rank == first->shape.rank) same.dim[axis] = first->shape.dim[axis];
        if (!kiln_shape_equal(&same, &first->shape))
            st = KILN_ERROR(INVALID_ARGUMENT, "input %u has another shape than input 0", i);
        if (!st && in->dtype != first->dtype)
            st = KILN_ERROR(INVALID_ARGUMENT, "input %u has another type than input 0", i);
        if (!st) infer->shape[0].dim[axis] += in->shape.dim[axis];
    }
    return st;
}

void kiln_te_concat(kiln_te *te) {
    uint32_t axis = kiln_te_axis(te);
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr value = 0, at = block.i[axis];
    int64_t end = kiln_te_out_shape(te)->dim[axis];
    /* From the last input to the first: select(i < end of input, input[i - start], rest). */
    for (uint32_t i = te->node->input_count; i-- > 0;) {
        int64_t extent = kiln_te_in_shape(te, i)->dim[axis];
        if (extent == 0) continue;
        kiln_expr here =
            kiln_te_load_moved(te, i, &block, axis, kiln_index_affine(te, at, 1, extent - end));
        kiln_expr is_here = value ? kiln_less(te, at, kiln_index(te, end)) : 0;
        value = value ? kiln_select(te, is_here, here, value) : here;
        end -= extent;
    }
    if (!value) value = kiln_expr_zero(te->p, kiln_te_in_dtype(te, 0)); /* nothing to concatenate */
    kiln_te_put(te, &block, value);
}

/* Sizes of the parts: given, or equal with a smaller last one. */
static kiln_status split_sizes(const kiln_node_info *node, int64_t extent, int64_t *out_size) {
    uint32_t count = 0, parts = node->output_count;
    const int64_t *split = kiln_node_ints(node, "split", &count);
    int64_t each = (extent + parts - 1) / parts, sum = 0;
    if (split && count != parts)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute split has %u items for %u outputs", count,
                          parts);
    if (!split && !kiln_node_has(node, "num_outputs") && extent % parts != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "%lld elements cannot be split into %u equal parts",
                          (long long)extent, parts);
    for (uint32_t i = 0; i < parts; i++) {
        out_size[i] = split ? split[i] : KILN_MAX(0, KILN_MIN(each, extent - sum));
        if (out_size[i] < 0 || out_size[i] > extent)
            return KILN_ERROR(INVALID_ARGUMENT, "attribute split: item %u is out of range", i);
        sum += out_size[i];
    }
    return sum == extent ? KILN_OK
                         : KILN_ERROR(INVALID_ARGUMENT, "the parts do not add up to %lld elements",
                                      (long long)extent);
}

kiln_status kiln_rule_split(kiln_infer *infer) {
    const kiln_value_info *in = kiln_infer_input(infer, 0);
    uint32_t axis = 0;
    int64_t size[KILN_NODE_OPERANDS_MAX];
    kiln_status st = kiln_infer_axis(infer, &axis);
    if (!st) st = split_sizes(infer->node, in->shape.dim[axis], size);
    for (uint32_t i = 0; !st && i < infer->node->output_count; i++)
        infer->shape[i].dim[axis] = size[i];
    return st;
}

void kiln_te_split(kiln_te *te) {
    uint32_t axis = kiln_te_axis(te);
    int64_t size[KILN_NODE_OPERANDS_MAX], begin_at = 0;
    KILN_CHECK(!split_sizes(te->node, kiln_te_in_shape(te, 0)->dim[axis], size));
    for (uint32_t i = 0; i < te->node->output_count; i++) {
        if (te->output[i]) {
            kiln_te_block block =
                kiln_te_block_begin(te, "", &te->p->buffer.data[te->output[i]].shape);
            block.to = te->output[i];
            kiln_expr at = kiln_index_affine(te, block.i[axis], 1, begin_at);
            kiln_te_put(te, &block, kiln_te_load_moved(te, 0, &block, axis, at));
        }
        begin_at += size[i];
    }
}

/* ---- slice ----------------------------------------------------------------------------------- */

typedef struct slice_plan {
    int64_t start[KILN_RANK_MAX], step[KILN_RANK_MAX], count[KILN_RANK_MAX];
} slice_plan;

/* NumPy's slicing of one dimension: bounds count from the end when negative and are clamped. */
static void slice_dimension(int64_t extent, int64_t start, int64_t end, int64_t step, uint32_t d,
                            slice_plan *plan) {
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
    if (start < 0) start = start < -extent ? -1 - extent : start; /* keeps the sum in range */
    if (start < 0) start += extent;
    if (end < 0) end = end < -extent ? -1 - extent : end;
    if (end < 0) end += extent;
    start = KILN_MAX(KILN_MIN(start, step > 0 ? extent : extent - 1), step > 0 ? 0 : -1);
    end = KILN_MAX(KILN_MIN(end, high), low);
    int64_t room = step > 0 ? end - start : start - end;
    int64_t size = step == INT64_MIN ? INT64_MAX : step > 0 ? step : -step;
    plan->start[d] = start;
    plan->step[d] = step;
    plan->count[d] = room > 0 ? (room - 1) / size + 1 : 0;
    if (plan->count[d] <= 1) plan->step[d] = 1; /* a huge step over one element is no step */
}

static kiln_status slice_resolve(const kiln_node_info *node, const kiln_shape *shape,
                                 slice_plan *plan) {
    uint32_t count = 0, ends = 0, axes_count = 0, steps_count = 0, seen = 0;
    const int64_t *start = kiln_node_ints(node, "starts", &count),
                  *end = kiln_node_ints(node, "ends", &ends);
    const int64_t *axes = kiln_node_ints(node, "axes", &axes_count),
                  *step = kiln_node_ints(node, "steps", &steps_count);
    if (!start || !end || count != ends || (axes && axes_count != count) ||
        (step && steps_count != count) || count > shape->rank)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "attributes starts, ends, axes and steps differ in length");
    for (uint32_t d = 0; d < shape->rank; d++)
        slice_dimension(shape->dim[d], 0, shape->dim[d], 1, d, plan);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t d = 0;
        kiln_status st = kiln_axis_take(axes, i, shape->rank, "axes", &seen, &d);
        if (st) return st;
        if (step && step[i] == 0)
            return KILN_ERROR(INVALID_ARGUMENT, "attribute steps: 0 goes nowhere");

        slice_dimension(shape->dim[d], start[i], end[i], step ? step[i] : 1, d, plan);
    }
    return KILN_OK;
}

kiln_status kiln_rule_slice(kiln_infer *infer) {
    const kiln_value_info *in = kiln_infer_input(infer, 0);
    slice_plan plan;
    kiln_status st = slice_resolve(infer->node, &in->shape, &plan);
    for (uint32_t d = 0; !st && d < in->shape.rank; d++) infer->shape[0].dim[d] = plan.count[d];
    return st;
}

void kiln_te_slice(kiln_te *te) {
    slice_plan plan;
    KILN_CHECK(!slice_resolve(te->node, kiln_te_in_shape(te, 0), &plan));
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < block.rank; d++)
        index[d] = kiln_index_affine(te, block.i[d], plan.step[d], plan.start[d]);
    kiln_te_put(te, &block, kiln_te_load_raw(te, 0, index));
}

/* ---- pad ------------------------------------------------------------------------------------- */

typedef struct pad_plan {
    int64_t low[KILN_RANK_MAX], high[KILN_RANK_MAX];
} pad_plan;

static kiln_status pad_resolve(const kiln_node_info *node, const kiln_shape *shape,
                               pad_plan *plan) {
    uint32_t count = 0, axes_count = 0;
    const int64_t *pads = kiln_node_ints(node, "pads", &count),
                  *axes = kiln_node_ints(node, "axes", &axes_count);
    uint32_t rank = axes ? axes_count : shape->rank;
    memset(plan, 0, sizeof *plan);
    if (!pads || count != 2 * rank || rank > shape->rank)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute pads needs %u items", 2 * rank);
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t d = i;
        kiln_status st = axes ? kiln_axis_resolve(axes[i], shape->rank, "axes", &d) : KILN_OK;
        if (st) return st;
        if (pads[i] > INT32_MAX || pads[i] < -INT32_MAX || pads[i + rank] > INT32_MAX ||
            pads[i + rank] < -INT32_MAX)
            return KILN_ERROR(INVALID_ARGUMENT, "attribute pads: item %u is out of range", i);
        plan->low[d] = pads[i];
        plan->high[d] = pads[i + rank];
    }
    return KILN_OK;
}

kiln_status kiln_rule_pad(kiln_infer *infer) {
    const kiln_value_info *in = kiln_infer_input(infer, 0), *fill = kiln_infer_input(infer, 1);
    kiln_str mode = kiln_node_text(infer->node, "mode");
    pad_plan plan;
    kiln_status st = pad_resolve(infer->node, &in->shape, &plan);
    if (st) return st;
    bool constant = kiln_str_is(mode, "constant");
    if (!constant && !kiln_str_is(mode, "reflect") && !kiln_str_is(mode, "edge") &&
        !kiln_str_is(mode, "wrap"))
        return KILN_ERROR(UNIMPLEMENTED, "attribute mode: \"%.*s\"", KILN_STR_ARG(mode));
    if (fill && (fill->dtype != in->dtype || kiln_shape_count(&fill->shape) != 1))
        return KILN_ERROR(INVALID_ARGUMENT, "input 1 must be a scalar of input 0's type");
    for (uint32_t d = 0; d < in->shape.rank; d++) {
        infer->shape[0].dim[d] += plan.low[d] + plan.high[d];
        if (infer->shape[0].dim[d] < 0)
            return KILN_ERROR(INVALID_ARGUMENT,
                              "attribute pads removes more of dimension %u than there is", d);
        if (!constant && in->shape.dim[d] == 0 && infer->shape[0].dim[d])
            return KILN_ERROR(INVALID_ARGUMENT, "dimension %u is empty", d);
    }
    return KILN_OK;
}

/* Where the element at `i` (which may lie outside [0, extent)) comes from. */
static kiln_expr pad_source(kiln_te *te, kiln_str mode, kiln_expr i, int64_t extent) {
    if (kiln_str_is(mode, "constant")) return i;
    if (kiln_str_is(mode, "edge")) return kiln_index_clamp(te, i, extent);
    if (kiln_str_is(mode, "wrap")) return kiln_index_floormod(te, i, extent);
    /* reflect: a wave of period 2 * (extent - 1) */
    if (extent == 1) return kiln_index(te, 0);
    kiln_expr phase = kiln_index_floormod(te, i, 2 * (extent - 1));
    return kiln_min(te, phase, kiln_sub(te, kiln_index(te, 2 * (extent - 1)), phase));
}

void kiln_te_pad(kiln_te *te) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    kiln_str mode = kiln_node_text(te->node, "mode");
    pad_plan plan;
    KILN_CHECK(!pad_resolve(te->node, shape, &plan));
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr index[KILN_RANK_MAX] = {0}, inside = kiln_expr_int(te->p, KILN_BOOL, 1);
    bool constant = kiln_str_is(mode, "constant");
    for (uint32_t d = 0; d < block.rank; d++) {
        kiln_expr i = kiln_index_affine(te, block.i[d], 1, -plan.low[d]);
        index[d] = plan.low[d] > 0 || plan.high[d] > 0 ? pad_source(te, mode, i, shape->dim[d]) : i;
        if (constant && plan.low[d] > 0)
            inside = kiln_and(te, inside, kiln_less_equal(te, kiln_index(te, 0), i));
        if (constant && plan.high[d] > 0)
            inside = kiln_and(te, inside, kiln_less(te, i, kiln_index(te, shape->dim[d])));
    }
    kiln_expr value = kiln_te_load_raw(te, 0, index), zero[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < KILN_RANK_MAX; d++) zero[d] = kiln_index(te, 0);
    kiln_expr fill = kiln_te_has(te, 1) ? kiln_te_load_raw(te, 1, zero)
                                        : kiln_expr_zero(te->p, kiln_te_in_dtype(te, 0));
    kiln_te_put(te, &block, constant ? kiln_select(te, inside, value, fill) : value);
}

/* ---- expand, tile ---------------------------------------------------------------------------- */

kiln_status kiln_rule_expand(kiln_infer *infer) {
    uint32_t count = 0;
    const int64_t *wanted = kiln_node_ints(infer->node, "shape", &count);
    if (!wanted || count > KILN_RANK_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute shape is missing or too long");
    kiln_shape shape = {.rank = count};
    for (uint32_t d = 0; d < count; d++) {
        if (wanted[d] < 0)
            return KILN_ERROR(INVALID_ARGUMENT, "attribute shape: dimension %u is negative", d);
        shape.dim[d] = wanted[d];
    }
    return kiln_status_note(kiln_shape_broadcast(&infer->shape[0], &shape), "attribute shape");
}

kiln_status kiln_rule_tile(kiln_infer *infer) {
    const kiln_value_info *in = kiln_infer_input(infer, 0);
    uint32_t count = 0;
    const int64_t *repeat = kiln_node_ints(infer->node, "repeats", &count);
    if (!repeat || count != in->shape.rank)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute repeats needs %u items", in->shape.rank);
    for (uint32_t d = 0; d < count; d++) {
        if (repeat[d] < 0 ||
            __builtin_mul_overflow(in->shape.dim[d], repeat[d], &infer->shape[0].dim[d]))
            return KILN_ERROR(INVALID_ARGUMENT, "attribute repeats: item %u is out of range", d);
    }
    return KILN_OK;
}

void kiln_te_tile(kiln_te *te) {
    const kiln_shape *shape = kiln_te_in_shape(te, 0);
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < block.rank; d++) {
        bool repeated = kiln_te_out_shape(te)->dim[d] > shape->dim[d];
        index[d] = repeated ? kiln_index_floormod(te, block.i[d], shape->dim[d]) : block.i[d];
    }
    kiln_te_put(te, &block, kiln_te_load_raw(te, 0, index));
}

/* ---- depth and space ------------------------------------------------------------------------- */

static kiln_status rule_blocks(kiln_infer *infer, bool to_space) {
    const kiln_value_info *in = kiln_infer_input(infer, 0);
    int64_t size = kiln_node_int(infer->node, "blocksize");
    if (in->shape.rank != 4) return KILN_ERROR(INVALID_ARGUMENT, "input 0 must have 4 dimensions");
    if (size < 1 || size > 1024)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute blocksize: %lld is out of range",
                          (long long)size);
    const int64_t *dim = in->shape.dim;
    bool fits = to_space ? dim[1] % (size * size) == 0 : dim[2] % size == 0 && dim[3] % size == 0;
    if (!fits)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute blocksize: %lld does not divide the input",
                          (long long)size);
    infer->shape[0].dim[1] = to_space ? dim[1] / (size * size) : dim[1] * size * size;
    for (uint32_t d = 2; d < 4; d++)
        infer->shape[0].dim[d] = to_space ? dim[d] * size : dim[d] / size;
    return KILN_OK;
}

kiln_status kiln_rule_depth_to_space(kiln_infer *infer) {
    kiln_str mode = kiln_node_text(infer->node, "mode");
    if (!kiln_str_is(mode, "DCR") && !kiln_str_is(mode, "CRD"))
        return KILN_ERROR(INVALID_ARGUMENT, "attribute mode: \"%.*s\" is not known",
                          KILN_STR_ARG(mode));
    return rule_blocks(infer, true);
}

kiln_status kiln_rule_space_to_depth(kiln_infer *infer) { return rule_blocks(infer, false); }

/* DCR: channel = (block row, block column, c); CRD: (c, block row, block column). */
void kiln_te_depth_to_space(kiln_te *te) {
    int64_t size = kiln_node_int(te->node, "blocksize"), channels = kiln_te_out_shape(te)->dim[1];
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr cell =
        kiln_add(te, kiln_mul(te, kiln_index_floormod(te, block.i[2], size), kiln_index(te, size)),
                 kiln_index_floormod(te, block.i[3], size));
    bool depth_first = kiln_str_is(kiln_node_text(te->node, "mode"), "DCR");
    kiln_expr channel =
        depth_first ? kiln_add(te, kiln_mul(te, cell, kiln_index(te, channels)), block.i[1])
                    : kiln_add(te, kiln_mul(te, block.i[1], kiln_index(te, size * size)), cell);
    kiln_expr index[4] = {block.i[0], channel, kiln_index_floordiv(te, block.i[2], size),
                          kiln_index_floordiv(te, block.i[3], size)};
    kiln_te_put(te, &block, kiln_te_load_raw(te, 0, index));
}

void kiln_te_space_to_depth(kiln_te *te) {
    int64_t size = kiln_node_int(te->node, "blocksize"), channels = kiln_te_in_shape(te, 0)->dim[1];
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr cell = kiln_index_floordiv(te, block.i[1], channels);
    kiln_expr row = kiln_add(te, kiln_mul(te, block.i[2], kiln_index(te, size)),
                             kiln_index_floordiv(te, cell, size));
    kiln_expr column = kiln_add(te, kiln_mul(te, block.i[3], kiln_index(te, size)),
                                kiln_index_floormod(te, cell, size));
    kiln_expr index[4] = {block.i[0], kiln_index_floormod(te, block.i[1], channels), row, column};
    kiln_te_put(te, &block, kiln_te_load_raw(te, 0, index));
}

/* ---- triangles ------------------------------------------------------------------------------- */

kiln_status kiln_rule_trilu(kiln_infer *infer) {
    return infer->shape[0].rank >= 2
               ? KILN_OK
               : KILN_ERROR(INVALID_ARGUMENT, "input 0 needs at least 2 dimensions");
}

void kiln_te_trilu(kiln_te *te) {
    uint32_t count = 0;
    const int64_t *k = kiln_node_ints(te->node, "k", &count);
    int64_t shift = count ? KILN_MAX(KILN_MIN(k[0], INT32_MAX), -INT32_MAX) : 0;
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr row = kiln_index_affine(te, block.i[block.rank - 2], 1, shift),
              column = block.i[block.rank - 1];
    bool upper = kiln_node_int(te->node, "upper") != 0;
    kiln_expr keep = kiln_less_equal(te, upper ? row : column, upper ? column : row);
    kiln_expr value = kiln_te_load_raw(te, 0, block.i);
    kiln_te_put(te, &block,
                kiln_select(te, keep, value, kiln_expr_zero(te->p, kiln_te_in_dtype(te, 0))));
}
