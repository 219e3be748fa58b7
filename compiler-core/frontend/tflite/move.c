/* Operators that move elements. */
#include "compiler-core/frontend/tflite/import.h"

#define FAN                                                                               \
    32u /* most tensors that one node joins or splits, because of the limit of a kernel's \
         * arguments */

/* ---- the same elements in another shape ------------------------------------------------------ */

static void define_reshaped(kiln_tflite *t, const kiln_shape *shape) {
    const kiln_value x = kiln_tflite_data(t, 0, KILN_TFLITE_LAST);
    kiln_tflite_define(t, 0, kiln_tflite_reshaped(t, x, shape), KILN_TFLITE_LAST);
}

/* The new shape is input 1, or in the options, or else the result's; one item may be -1. */
void kiln_tflite_reshape(kiln_tflite *t) {
    const kiln_tflite_tensor *result = kiln_tflite_output(t, 0);
    const kiln_flat_vector option =
        kiln_tflite_items(&t->options_table, KILN_TFLITE_RESHAPE_SHAPE, 4);
    int64_t item[KILN_RANK_MAX];
    const int64_t *given = item;
    uint32_t count = 0;
    if (kiln_tflite_input(t, 1)) {
        if (!kiln_tflite_ints(t, 1, KILN_RANK_MAX, &given, &count)) return;
    } else if (option.count && option.count <= KILN_RANK_MAX) {
        for (; count < option.count; count++) item[count] = kiln_flat_item_int(&option, count, 4);
    } else if (result) {
        for (; count < result->shape.rank; count++) item[count] = result->shape.dim[count];
    }
    const kiln_value x = kiln_tflite_data(t, 0, KILN_TFLITE_LAST);
    const kiln_attr attr[] = {kiln_attr_ints("shape", given, count), kiln_attr_int("allowzero", 1)};
    kiln_tflite_define(t, 0, kiln_tflite_node(t, KILN_OP_RESHAPE, &x, 1, attr, 2),
                       KILN_TFLITE_LAST);
}

/* The options list the dimensions of 1 to remove; none: all. */
void kiln_tflite_squeeze(kiln_tflite *t) {
    const kiln_tflite_tensor *x = kiln_tflite_needed(t, 0);
    const kiln_flat_vector dims = kiln_tflite_items(&t->options_table, KILN_TFLITE_SQUEEZE_DIMS, 4);
    uint32_t gone = 0, axis;
    if (!x) return;
    for (uint32_t i = 0; i < dims.count; i++) {
        if (!kiln_tflite_axis(t, kiln_flat_item_int(&dims, i, 4), x->shape.rank, &axis)) return;
        gone |= 1u << axis;
    }
    kiln_shape shape = {0};
    for (uint32_t d = 0; d < x->shape.rank; d++)
        if (!(dims.count ? gone >> d & 1 : x->shape.dim[d] == 1))
            shape.dim[shape.rank++] = x->shape.dim[d];
    define_reshaped(t, &shape);
}

/* Adds a dimension of 1 before dimension `axis`; false with an error. */
static bool widen(kiln_tflite *t, const kiln_shape *from, uint32_t axis, kiln_shape *out) {
    if (from->rank == KILN_RANK_MAX) {
        kiln_tflite_fail(t, KILN_ERROR(UNIMPLEMENTED, "a result of %u dimensions", from->rank + 1));
        return false;
    }
    *out = (kiln_shape){.rank = from->rank + 1};
    for (uint32_t d = 0; d < out->rank; d++)
        out->dim[d] = d == axis ? 1 : from->dim[d > axis ? d - 1 : d];
    return true;
}

void kiln_tflite_expand_dims(kiln_tflite *t) {
    const kiln_tflite_tensor *x = kiln_tflite_needed(t, 0);
    const int64_t *given;
    uint32_t count, axis = 0;
    kiln_shape shape;
    if (!x || !kiln_tflite_ints(t, 1, 1, &given, &count)) return;
    if (kiln_tflite_axis(t, count ? given[0] : 0, x->shape.rank + 1, &axis) &&
        widen(t, &x->shape, axis, &shape))
        define_reshaped(t, &shape);
}

void kiln_tflite_shape_of(kiln_tflite *t) {
    kiln_tflite_tensor *x = kiln_tflite_needed(t, 0);
    const kiln_tflite_tensor *result = kiln_tflite_output(t, 0);
    if (!x || !kiln_tflite_stored(t, x, x->home) || !result) return;
    const kiln_tensor shape = kiln_tensor_create(t->graph->arena, result->dtype,
                                                 &(kiln_shape){.rank = 1, .dim = {x->shape.rank}});
    for (uint32_t d = 0; d < x->shape.rank; d++)
        kiln_dtype_store_i64(result->dtype, shape.data, d, x->shape.dim[d]);
    kiln_tflite_define(t, 0, kiln_tflite_constant(t, &shape), KILN_TFLITE_LAST);
}

/* ---- joining and cutting --------------------------------------------------------------------- */

static kiln_value join(kiln_tflite *t, const kiln_value *part, uint32_t count, uint32_t axis) {
    kiln_value group[FAN];
    uint32_t each = 1, groups = 0;
    while ((count + each - 1) / each > FAN) each *= FAN;
    for (uint32_t at = 0; at < count; at += each, groups++)
        group[groups] = each == 1 ? part[at] : join(t, part + at, KILN_MIN(each, count - at), axis);
    if (groups == 1) return group[0];
    const kiln_attr attr = kiln_attr_int("axis", axis);
    return kiln_tflite_node(t, KILN_OP_CONCAT, group, groups, &attr, 1);
}

void kiln_tflite_concat(kiln_tflite *t) {
    kiln_value part[KILN_NODE_OPERANDS_MAX];
    const kiln_tflite_layout layout = kiln_tflite_preferred(t);
    const kiln_tflite_tensor *x = kiln_tflite_needed(t, 0);
    uint32_t axis = 0;
    if (kiln_tflite_set_row(t) || !x ||
        !kiln_tflite_axis(t, kiln_tflite_option(t, KILN_TFLITE_CONCATENATION_AXIS, 0),
                          x->shape.rank, &axis))
        return;
    for (uint32_t i = 0; i < t->input.count; i++) part[i] = kiln_tflite_data(t, i, layout);
    kiln_tflite_define(t, 0, join(t, part, t->input.count, kiln_tflite_place(layout, axis)),
                       layout);
}

/* Joins along a new dimension. */
void kiln_tflite_pack(kiln_tflite *t) {
    kiln_value part[KILN_NODE_OPERANDS_MAX];
    const kiln_tflite_tensor *x = kiln_tflite_needed(t, 0);
    uint32_t axis = 0;
    kiln_shape shape;
    if (!x || !kiln_tflite_axis(t, kiln_tflite_option(t, KILN_TFLITE_PACK_AXIS, 0),
                                x->shape.rank + 1, &axis))
        return;
    if (!widen(t, &x->shape, axis, &shape)) return;
    for (uint32_t i = 0; i < t->input.count; i++)
        part[i] = kiln_tflite_reshaped(t, kiln_tflite_data(t, i, KILN_TFLITE_LAST), &shape);
    kiln_tflite_define(t, 0, join(t, part, t->input.count, axis), KILN_TFLITE_LAST);
}

/* Defines the results in order, of these sizes along a dimension. */
static void cut(kiln_tflite *t, kiln_value x, uint32_t axis, const int64_t *size,
                kiln_value *part) {
    const uint32_t count = t->output.count;
    int64_t at = 0;
    if (count <= FAN) {
        const kiln_attr attr[] = {kiln_attr_int("axis", axis),
                                  kiln_attr_ints("split", size, count)};
        kiln_tflite_nodes(t, KILN_OP_SPLIT, &x, 1, attr, 2, part, count);
        return;
    }
    for (uint32_t i = 0; i < count; at += size[i++])
        part[i] = kiln_tflite_cut_out(t, x, axis, at, at + size[i]);
}

/* Cuts input `index` into equal parts along a dimension: [output count]; false with an error. */
static bool cut_equally(kiln_tflite *t, uint32_t index, int64_t given_axis, uint32_t *out_axis,
                        kiln_value *part) {
    int64_t size[KILN_NODE_OPERANDS_MAX];
    const kiln_tflite_tensor *x = kiln_tflite_needed(t, index);
    const uint32_t count = t->output.count;
    if (!x || !kiln_tflite_axis(t, given_axis, x->shape.rank, out_axis)) return false;
    const int64_t extent = x->shape.dim[*out_axis];
    if (!count || extent % count)
        kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "%lld elements in %u equal parts",
                                       (long long)extent, count));
    for (uint32_t i = 0; !t->st && i < count; i++) size[i] = extent / count;
    if (!t->st) cut(t, kiln_tflite_data(t, index, KILN_TFLITE_LAST), *out_axis, size, part);
    return !t->st;
}

static void define_parts(kiln_tflite *t, const kiln_value *part) {
    for (uint32_t i = 0; i < t->output.count; i++)
        kiln_tflite_define(t, i, part[i], KILN_TFLITE_LAST);
}

/* Input 0 is the dimension, input 1 the data. */
void kiln_tflite_split(kiln_tflite *t) {
    kiln_value part[KILN_NODE_OPERANDS_MAX];
    const int64_t *given;
    uint32_t count, axis;
    if (!kiln_tflite_ints(t, 0, 1, &given, &count)) return;
    if (cut_equally(t, 1, count ? given[0] : 0, &axis, part)) define_parts(t, part);
}

/* Inputs: data, sizes, of which one may be -1, the dimension. */
void kiln_tflite_split_sizes(kiln_tflite *t) {
    kiln_value part[KILN_NODE_OPERANDS_MAX];
    int64_t size[KILN_NODE_OPERANDS_MAX], rest;
    const kiln_tflite_tensor *x = kiln_tflite_needed(t, 0);
    const int64_t *sizes, *given;
    uint32_t count, ones, axis = 0;
    if (!x || !kiln_tflite_ints(t, 1, KILN_NODE_OPERANDS_MAX, &sizes, &count) ||
        !kiln_tflite_ints(t, 2, 1, &given, &ones) ||
        !kiln_tflite_axis(t, ones ? given[0] : 0, x->shape.rank, &axis))
        return;
    rest = x->shape.dim[axis];
    for (uint32_t i = 0; i < count; i++)
        if (sizes[i] >= 0 && sizes[i] <= rest) rest -= sizes[i];
    for (uint32_t i = 0; i < count; i++) size[i] = sizes[i] < 0 ? rest : sizes[i];
    if (count != t->output.count) {
        kiln_tflite_fail(
            t, KILN_ERROR(INVALID_ARGUMENT, "%u sizes for %u results", count, t->output.count));
        return;
    }
    cut(t, kiln_tflite_data(t, 0, KILN_TFLITE_LAST), axis, size, part);
    if (!t->st) define_parts(t, part);
}

/* Splits into parts of 1 along a dimension, which is removed. */
void kiln_tflite_unpack(kiln_tflite *t) {
    kiln_value part[KILN_NODE_OPERANDS_MAX];
    uint32_t axis;
    if (!cut_equally(t, 0, kiln_tflite_option(t, KILN_TFLITE_PACK_AXIS, 0), &axis, part)) return;
    kiln_shape shape = *kiln_tflite_shape(t, part[0]);
    shape.rank--;
    for (uint32_t d = axis; d < shape.rank; d++) shape.dim[d] = shape.dim[d + 1];
    for (uint32_t i = 0; i < t->output.count; i++)
        part[i] = kiln_tflite_reshaped(t, part[i], &shape);
    if (!t->st) define_parts(t, part);
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* Inputs: data, the beginning in each dimension, the number of elements, -1: all that follow. */
void kiln_tflite_slice(kiln_tflite *t) {
    kiln_tflite_tensor *x = kiln_tflite_needed(t, 0);
    const int64_t *begin, *size;
    uint32_t begins, sizes;
    int64_t axes[KILN_RANK_MAX], end[KILN_RANK_MAX];
    if (!x || kiln_tflite_slice_in_run(t, x) ||
        !kiln_tflite_ints(t, 1, KILN_RANK_MAX, &begin, &begins) ||
        !kiln_tflite_ints(t, 2, KILN_RANK_MAX, &size, &sizes))
        return;
    if (begins != x->shape.rank || sizes != begins) {
        kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "%u begins and %u sizes of %u dimensions",
                                       begins, sizes, x->shape.rank));
        return;
    }
    for (uint32_t d = 0; d < begins; d++) {
        const int64_t extent = x->shape.dim[d];
        axes[d] = d;
        if (begin[d] < 0 || begin[d] > extent || size[d] < -1 || size[d] > extent - begin[d])
            kiln_tflite_fail(
                t, KILN_ERROR(INVALID_ARGUMENT, "%lld elements from %lld of %lld in dimension %u",
                              (long long)size[d], (long long)begin[d], (long long)extent, d));
        if (t->st) return;
        end[d] = size[d] < 0 ? extent : begin[d] + size[d];
    }
    const kiln_value value = kiln_tflite_data(t, 0, KILN_TFLITE_LAST);
    const kiln_attr attr[] = {kiln_attr_ints("axes", axes, begins),
                              kiln_attr_ints("starts", begin, begins),
                              kiln_attr_ints("ends", end, begins)};
    kiln_tflite_define(t, 0, kiln_tflite_node(t, KILN_OP_SLICE, &value, 1, attr, 3),
                       KILN_TFLITE_LAST);
}

/* Along the dimensions that input 1 lists. */
void kiln_tflite_reverse(kiln_tflite *t) {
    int64_t start[KILN_RANK_MAX], end[KILN_RANK_MAX], step[KILN_RANK_MAX];
    const int64_t *axes;
    uint32_t count;
    if (!kiln_tflite_ints(t, 1, KILN_RANK_MAX, &axes, &count)) return;
    for (uint32_t i = 0; i < count; i++) {
        start[i] = step[i] = -1;
        end[i] = INT64_MIN;
    }
    const kiln_value value = kiln_tflite_data(t, 0, KILN_TFLITE_LAST);
    const kiln_attr attr[] = {
        kiln_attr_ints("axes", axes, count), kiln_attr_ints("starts", start, count),
        kiln_attr_ints("ends", end, count), kiln_attr_ints("steps", step, count)};
    kiln_tflite_define(t, 0, kiln_tflite_node(t, KILN_OP_SLICE, &value, 1, attr, 4),
                       KILN_TFLITE_LAST);
}

typedef struct strided {
    int64_t axis[KILN_RANK_MAX], start[KILN_RANK_MAX], end[KILN_RANK_MAX], step[KILN_RANK_MAX];
    uint32_t count, gone; /* gone: removed dimensions, of which one element is taken */
} strided;

static int64_t clamped(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

/* One dimension of a strided slice. A masked bound is the end of the dimension. */
static bool read_stride(kiln_tflite *t, uint32_t d, int64_t extent, int64_t begin, int64_t end,
                        strided *s) {
    const uint32_t bit = 1u << d;
    const int64_t step = s->step[d];
    const bool one =
        (kiln_tflite_option(t, KILN_TFLITE_STRIDED_SLICE_SHRINK_AXIS_MASK, 0) & bit) != 0;
    if (!step || step < -INT32_MAX || step > INT32_MAX || begin < -INT32_MAX || end < -INT32_MAX ||
        (one && (begin < -extent || begin >= extent || step < 0))) {
        kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "from %lld by %lld of %lld",
                                       (long long)begin, (long long)step, (long long)extent));
        return false;
    }
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
    const bool from_edge =
                   !one && kiln_tflite_option(t, KILN_TFLITE_STRIDED_SLICE_BEGIN_MASK, 0) & bit,
               to_edge = kiln_tflite_option(t, KILN_TFLITE_STRIDED_SLICE_END_MASK, 0) & bit;
    begin = clamped(begin < 0 ? begin + extent : begin, low, high);
    end = clamped(end < 0 ? end + extent : end, low, high);
    if (from_edge) begin = step > 0 ? low : high;
    if (to_edge) end = step > 0 ? high : low;
    if (one) end = begin + 1;
    if (one) s->gone |= bit;
    s->axis[d] = d;
    s->start[d] = begin;
    s->end[d] = end < 0 ? -extent - 1 : end; /* -1 would be the last element */
    return true;
}

void kiln_tflite_strided_slice(kiln_tflite *t) {
    const kiln_tflite_tensor *x = kiln_tflite_needed(t, 0);
    const int64_t *begin, *end, *step;
    uint32_t ends, steps;
    strided s = {0};
    if (!x || !kiln_tflite_ints(t, 1, KILN_RANK_MAX, &begin, &s.count) ||
        !kiln_tflite_ints(t, 2, KILN_RANK_MAX, &end, &ends) ||
        !kiln_tflite_ints(t, 3, KILN_RANK_MAX, &step, &steps))
        return;
    if (kiln_tflite_option(t, KILN_TFLITE_STRIDED_SLICE_ELLIPSIS_MASK, 0) ||
        kiln_tflite_option(t, KILN_TFLITE_STRIDED_SLICE_NEW_AXIS_MASK, 0) ||
        kiln_tflite_option(t, KILN_TFLITE_STRIDED_SLICE_OFFSET, 0)) {
        kiln_tflite_fail(t, KILN_ERROR(UNIMPLEMENTED, "ellipses, new dimensions or offsets"));
        return;
    }
    if (s.count > x->shape.rank || ends != s.count || steps != s.count) {
        kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "begins, ends and steps do not fit"));
        return;
    }
    for (uint32_t d = 0; d < s.count; d++) {
        s.step[d] = step[d];
        if (!read_stride(t, d, x->shape.dim[d], begin[d], end[d], &s)) return;
    }
    kiln_value y = kiln_tflite_data(t, 0, KILN_TFLITE_LAST);
    const kiln_attr attr[] = {
        kiln_attr_ints("axes", s.axis, s.count), kiln_attr_ints("starts", s.start, s.count),
        kiln_attr_ints("ends", s.end, s.count), kiln_attr_ints("steps", s.step, s.count)};
    y = kiln_tflite_node(t, KILN_OP_SLICE, &y, 1, attr, 4);
    if (t->st) return;
    kiln_shape shape = {0};
    for (uint32_t d = 0; d < x->shape.rank; d++)
        if (!(s.gone >> d & 1)) shape.dim[shape.rank++] = kiln_tflite_shape(t, y)->dim[d];
    kiln_tflite_define(t, 0, kiln_tflite_reshaped(t, y, &shape), KILN_TFLITE_LAST);
}

/* ---- others ---------------------------------------------------------------------------------- */

/* Input 1 lists the padding before and behind each dimension; it is filled with input 2, or 0. */
static void pad(kiln_tflite *t, const char *mode, bool filled) {
    kiln_tflite_tensor *x = kiln_tflite_needed(t, 0), *fill = kiln_tflite_input(t, 2);
    const int64_t *given;
    uint32_t count;
    int64_t pads[2 * KILN_RANK_MAX];
    if (!x || !kiln_tflite_ints(t, 1, 2 * KILN_RANK_MAX, &given, &count)) return;
    const uint32_t rank = x->shape.rank;
    if (count != 2 * rank) {
        kiln_tflite_fail(t,
                         KILN_ERROR(INVALID_ARGUMENT, "%u paddings of %u dimensions", count, rank));
        return;
    }
    const kiln_tflite_layout layout = rank == 4 ? kiln_tflite_preferred(t) : KILN_TFLITE_LAST;
    for (uint32_t d = 0; d < rank; d++) {
        pads[kiln_tflite_place(layout, d)] = given[2 * d];
        pads[rank + kiln_tflite_place(layout, d)] = given[2 * d + 1];
        if (given[2 * d] < 0 || given[2 * d + 1] < 0)
            kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "a padding is negative"));
    }
    t->keeps = kiln_tflite_same_numbers(t);
    kiln_value input[] = {kiln_tflite_data(t, 0, layout), 0};
    if (filled && fill)
        input[1] = kiln_tflite_data(t, 2, KILN_TFLITE_LAST);
    else if (filled && t->keeps)
        input[1] = kiln_tflite_zero(t, x);
    const kiln_attr attr[] = {kiln_attr_ints("pads", pads, 2 * rank),
                              kiln_tflite_word("mode", mode)};
    kiln_tflite_define(t, 0, kiln_tflite_node(t, KILN_OP_PAD, input, input[1] ? 2 : 1, attr, 2),
                       layout);
}

void kiln_tflite_pad(kiln_tflite *t) { pad(t, "constant", true); }

void kiln_tflite_mirror_pad(kiln_tflite *t) {
    if (kiln_tflite_option(t, KILN_TFLITE_MIRROR_PAD_MODE, 0))
        kiln_tflite_fail(t, KILN_ERROR(UNIMPLEMENTED, "mirroring that repeats the edge"));
    pad(t, "reflect", false);
}

/* Elements of input 0 at the indices in input 1. */
static void take(kiln_tflite *t, const kiln_attr *attr, uint32_t attr_count) {
    t->keeps = kiln_tflite_same_numbers(t);
    const kiln_value input[] = {kiln_tflite_data(t, 0, KILN_TFLITE_LAST),
                                kiln_tflite_stored(t, kiln_tflite_needed(t, 1), KILN_TFLITE_LAST)};
    kiln_tflite_define(t, 0, kiln_tflite_node(t, t->row->op, input, 2, attr, attr_count),
                       KILN_TFLITE_LAST);
}

void kiln_tflite_gather(kiln_tflite *t) {
    const kiln_attr attr = kiln_attr_int("axis", kiln_tflite_option(t, KILN_TFLITE_GATHER_AXIS, 0));
    if (kiln_tflite_option(t, KILN_TFLITE_GATHER_BATCH_DIMS, 0))
        kiln_tflite_fail(t, KILN_ERROR(UNIMPLEMENTED, "dimensions of batches"));
    take(t, &attr, 1);
}

void kiln_tflite_gather_nd(kiln_tflite *t) { take(t, NULL, 0); }

/* An operator whose input 1 is an attribute: one integer for each dimension. */
static void by_list(kiln_tflite *t, const char *name) {
    const int64_t *item;
    uint32_t count;
    if (!kiln_tflite_ints(t, 1, KILN_RANK_MAX, &item, &count)) return;
    const kiln_value x = kiln_tflite_data(t, 0, KILN_TFLITE_LAST);
    const kiln_attr attr = kiln_attr_ints(name, item, count);
    kiln_tflite_define(t, 0, kiln_tflite_node(t, t->row->op, &x, 1, &attr, 1), KILN_TFLITE_LAST);
}

void kiln_tflite_transpose(kiln_tflite *t) { by_list(t, "perm"); }
void kiln_tflite_tile(kiln_tflite *t) { by_list(t, "repeats"); }
void kiln_tflite_broadcast_to(kiln_tflite *t) { by_list(t, "shape"); }
