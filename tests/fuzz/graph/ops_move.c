/* Operators that move elements, and those that make constants. */
#include <string.h>

#include "compiler-core/frontend/onnx/dtype.h"
#include "tests/fuzz/graph/rules.h"

/* ---- shapes ---------------------------------------------------------------------------------- */

/* A random factorisation of the same number of elements. */
static kiln_shape another_shape(draw *d, const kiln_shape *from) {
    kiln_shape shape = {0};
    int64_t left = kiln_shape_count(from);
    if (left == 0) return *from;
    for (int64_t factor = 2; left > 1 && shape.rank < 4; factor++) {
        for (; left % factor == 0 && shape.rank < 4; left /= factor) {
            if (shape.rank && chance(d, 50))
                shape.dim[between(d, 0, shape.rank - 1)] *= factor;
            else
                shape.dim[shape.rank++] = factor;
        }
    }
    if (left > 1 || chance(d, 30)) shape.dim[shape.rank++] = left;
    return shape;
}

bool draw_reshape(draw *d) {
    const fuzz_value *x = feed_data(d, 0, 5);
    kiln_shape shape = another_shape(d, &x->truth.shape);
    bool full = kiln_shape_count(&shape) > 0;
    if (shape.rank && full && chance(d, 30)) shape.dim[between(d, 0, shape.rank - 1)] = -1;
    for (uint32_t i = 0; i < shape.rank && i < x->truth.shape.rank; i++)
        if (full && shape.dim[i] == x->truth.shape.dim[i] && chance(d, 30)) shape.dim[i] = 0;
    if (!full && opset(d) >= 14) set_int(d, "allowzero", 1);
    if (opset(d) >= 5)
        feed_ints(d, shape.dim, shape.rank);
    else
        set_ints(d, "shape", shape.dim, shape.rank);
    results(d, 1);
    return true;
}

bool draw_flatten(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 5);
    if (chance(d, 70)) set_int(d, "axis", between(d, 0, x->truth.shape.rank));
    results(d, 1);
    return true;
}

bool draw_squeeze(draw *d) {
    const fuzz_value *x = feed_data(d, 0, 5);
    int64_t axes[KILN_RANK_MAX];
    uint32_t count = 0, rank = x->truth.shape.rank;
    for (uint32_t a = 0; a < rank; a++)
        if (x->truth.shape.dim[a] == 1 && chance(d, 60))
            axes[count++] = opset(d) >= 11 && chance(d, 30) ? (int64_t)a - rank : a;
    results(d, 1);
    if (!count) return true; /* all that are 1 */
    if (opset(d) >= 13)
        feed_ints(d, axes, count);
    else
        set_ints(d, "axes", axes, count);
    return true;
}

bool draw_unsqueeze(draw *d) {
    const fuzz_value *x = feed_data(d, 0, 4);
    uint32_t count = (uint32_t)between(d, 1, 2), rank = x->truth.shape.rank + count, made = 0;
    int64_t axes[2];
    for (uint32_t a = 0; a < rank && made < count; a++)
        if (rank - a == count - made || chance(d, 40))
            axes[made++] = opset(d) >= 11 && chance(d, 30) ? (int64_t)a - rank : a;
    if (opset(d) >= 13)
        feed_ints(d, axes, count);
    else
        set_ints(d, "axes", axes, count);
    results(d, 1);
    return true;
}

bool draw_transpose(draw *d) {
    const fuzz_value *x = feed_data(d, 0, 5);
    int64_t perm[KILN_RANK_MAX];
    uint32_t rank = x->truth.shape.rank;
    for (uint32_t i = 0; i < rank; i++) perm[i] = i;
    for (uint32_t i = rank; i > 1; i--) {
        int64_t j = between(d, 0, i - 1), swap = perm[i - 1];
        perm[i - 1] = perm[j];
        perm[j] = swap;
    }
    if (rank && chance(d, 80)) set_ints(d, "perm", perm, rank);
    results(d, 1);
    return true;
}

bool draw_concat(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 5);
    kiln_shape shape = x->truth.shape;
    int64_t axis = draw_axis(d, shape.rank), at = axis < 0 ? axis + shape.rank : axis;
    int64_t more = between(d, 0, 3);
    if (opset(d) >= 4 || axis != 1) set_int(d, "axis", axis);
    for (; more > 0; more--) {
        kiln_shape part = shape;
        if (chance(d, 50)) part.dim[at] = between(d, 1, 5);
        if (chance(d, 10))
            feed_same(d, x);
        else
            feed_of(d, x->truth.dtype, part, 0, 0);
    }
    results(d, 1);
    return true;
}

bool draw_split(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 5);
    const kiln_shape *shape = &x->truth.shape;
    int64_t axis = draw_axis(d, shape->rank),
            extent = shape->dim[axis < 0 ? axis + shape->rank : axis];
    int64_t part[3], left = extent;
    uint32_t count = (uint32_t)between(d, 1, 3);
    set_int(d, "axis", axis);
    results(d, count);
    if (opset(d) >= 18 && extent >= count && chance(d, 40)) {
        if ((extent + count - 1) / count * (count - 1) >= extent)
            return false; /* an empty last part */
        set_int(d, "num_outputs", count);
        return true;
    }
    for (uint32_t i = 0; i < count; i++) {
        part[i] = i + 1 == count ? left : between(d, 0, left);
        left -= part[i];
        if (part[i] == 0 && !chance(d, 10)) return false;
    }
    if (opset(d) >= 13)
        feed_ints(d, part, count);
    else
        set_ints(d, "split", part, count);
    return true;
}

bool draw_slice(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 5);
    int64_t start[KILN_RANK_MAX], end[KILN_RANK_MAX], axes[KILN_RANK_MAX], step[KILN_RANK_MAX];
    uint32_t count = 0, rank = x->truth.shape.rank;
    bool with_axes = chance(d, 70);
    for (uint32_t a = 0; a < rank; a++) {
        int64_t extent = x->truth.shape.dim[a];
        if (with_axes && !chance(d, 60)) continue;
        axes[count] = opset(d) >= 11 && chance(d, 20) ? (int64_t)a - rank : a;
        start[count] = extent ? between(d, 0, extent - 1) : 0;
        end[count] = between(d, start[count], extent + 1);
        step[count] = opset(d) >= 10 ? between(d, 1, 3) : 1;
        if (opset(d) >= 10 && extent && chance(d, 25)) { /* backwards */
            end[count] = chance(d, 50) ? INT64_MIN : between(d, 0, start[count]);
            step[count] = -step[count];
        } else if (chance(d, 20)) {
            end[count] = INT64_MAX;
        }
        if (extent && chance(d, 20)) start[count] -= extent;
        count++;
    }
    if (count == 0) return false;
    results(d, 1);
    if (opset(d) < 10) {
        set_ints(d, "starts", start, count);
        set_ints(d, "ends", end, count);
        if (with_axes) set_ints(d, "axes", axes, count);
        return true;
    }
    feed_ints(d, start, count);
    feed_ints(d, end, count);
    if (with_axes)
        feed_ints(d, axes, count);
    else
        feed_nothing(d);
    feed_ints(d, step, count);
    return true;
}

bool draw_pad(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 5);
    const kiln_shape *shape = &x->truth.shape;
    int64_t pads[2 * KILN_RANK_MAX], axes[KILN_RANK_MAX];
    const char *mode =
        word(d, opset(d) >= 19 ? "constant reflect edge wrap" : "constant reflect edge");
    bool constant = strcmp(mode, "constant") == 0, with_axes = opset(d) >= 18 && chance(d, 40);
    uint32_t count = 0, rank = shape->rank;
    int64_t low[KILN_RANK_MAX], high[KILN_RANK_MAX];
    for (uint32_t a = 0; a < rank; a++) {
        int64_t most = constant ? 3 : KILN_MIN(shape->dim[a] - (strcmp(mode, "reflect") == 0), 3);
        if (with_axes && chance(d, 40)) continue;
        axes[count] = chance(d, 20) ? (int64_t)a - rank : a;
        low[count] = between(d, 0, most);
        high[count++] = between(d, 0, most);
        if (constant && shape->dim[a] > 3 && chance(d, 15)) low[count - 1] = -1; /* cuts off */
    }
    if (with_axes && count == 0) return false;
    memcpy(pads, low, count * sizeof *low);
    memcpy(pads + count, high, count * sizeof *high);
    if (!constant || chance(d, 50)) set_text(d, "mode", mode);
    results(d, 1);
    if (opset(d) < 11) {
        set_ints(d, "pads", pads, 2 * count);
        if (constant && kiln_dtype_is_float(x->truth.dtype)) set_float(d, "value", real(d, -2, 2));
        return true;
    }
    feed_ints(d, pads, 2 * count);
    if (constant && chance(d, 60))
        feed_scalar(d, x->truth.dtype, (double)between(d, 0, 5));
    else if (with_axes)
        feed_nothing(d);
    if (with_axes) feed_ints(d, axes, count);
    return true;
}

bool draw_expand(draw *d) {
    const fuzz_value *x = feed_data(d, 0, 4);
    kiln_shape shape = x->truth.shape;
    int64_t count = kiln_shape_count(&shape);
    for (uint32_t i = 0; i < shape.rank; i++)
        if (shape.dim[i] == 1 && count < FUZZ_ELEMENTS_MAX / 4 && chance(d, 60))
            count *= shape.dim[i] = between(d, 2, 4);
        else if (chance(d, 30))
            shape.dim[i] = 1; /* both directions */
    if (shape.rank < 5 && count < FUZZ_ELEMENTS_MAX / 4 && chance(d, 40)) {
        memmove(shape.dim + 1, shape.dim, shape.rank++ * sizeof *shape.dim);
        shape.dim[0] = between(d, 1, 3);
    }
    feed_ints(d, shape.dim, shape.rank);
    results(d, 1);
    return true;
}

bool draw_tile(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 4);
    int64_t repeats[KILN_RANK_MAX], count = kiln_shape_count(&x->truth.shape);
    for (uint32_t i = 0; i < x->truth.shape.rank; i++) {
        repeats[i] = count < FUZZ_ELEMENTS_MAX / 3 ? between(d, 1, 3) : 1;
        count *= repeats[i];
    }
    feed_ints(d, repeats, x->truth.shape.rank);
    results(d, 1);
    return true;
}

bool draw_depth_to_space(draw *d) {
    const int64_t block = between(d, 1, 3);
    kiln_shape shape = {
        4,
        {between(d, 1, 2), between(d, 1, 4) * block * block, between(d, 1, 5), between(d, 1, 7)}};
    feed_of(d, draw_dtype(d, d->types), shape, 0, 0);
    set_int(d, "blocksize", block);
    if (opset(d) >= 11 && chance(d, 50)) set_text(d, "mode", word(d, "DCR CRD"));
    results(d, 1);
    return true;
}

bool draw_space_to_depth(draw *d) {
    const int64_t block = between(d, 1, 3);
    kiln_shape shape = {
        4,
        {between(d, 1, 2), between(d, 1, 4), block * between(d, 1, 4), block * between(d, 1, 5)}};
    feed_of(d, draw_dtype(d, d->types), shape, 0, 0);
    set_int(d, "blocksize", block);
    results(d, 1);
    return true;
}

bool draw_trilu(draw *d) {
    const fuzz_value *x = feed_data(d, 2, 4);
    (void)x;
    if (chance(d, 60)) feed_int(d, between(d, -4, 4));
    if (chance(d, 60)) set_int(d, "upper", between(d, 0, 1));
    results(d, 1);
    return true;
}

bool draw_reverse_sequence(draw *d) {
    const fuzz_value *x = feed_data(d, 2, 4);
    int64_t time = between(d, 0, 1);
    set_int(d, "time_axis", time);
    set_int(d, "batch_axis", 1 - time);
    if (x->truth.shape.dim[time] < 1) return false;
    feed_of(d, KILN_I64, (kiln_shape){1, {x->truth.shape.dim[1 - time]}}, 1,
            (double)x->truth.shape.dim[time]);
    results(d, 1);
    return true;
}

/* ---- indices --------------------------------------------------------------------------------- */

static double lowest_index(const draw *d, int64_t extent) {
    return opset(d) >= 11 ? -(double)extent : 0;
}

bool draw_gather(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 4);
    int64_t axis = draw_axis(d, x->truth.shape.rank);
    int64_t extent = x->truth.shape.dim[axis < 0 ? axis + x->truth.shape.rank : axis];
    if (extent == 0 || kiln_shape_count(&x->truth.shape) > FUZZ_ELEMENTS_MAX) return false;
    if (axis || chance(d, 50)) set_int(d, "axis", axis);
    kiln_shape shape = chance(d, 20) ? (kiln_shape){0}
                                     : (kiln_shape){(uint32_t)between(d, 1, 2),
                                                    {between(d, 1, 3), between(d, 1, 3)}};
    feed_of(d, draw_dtype(d, INDICES), shape, lowest_index(d, extent), (double)extent - 1);
    results(d, 1);
    return true;
}

/* Indices of the shape of `x`, or smaller but along `axis`. */
static kiln_shape index_shape(draw *d, const fuzz_value *x, int64_t axis) {
    kiln_shape shape = x->truth.shape;
    for (uint32_t i = 0; i < shape.rank; i++)
        if (i == axis ? chance(d, 50) : chance(d, 20)) shape.dim[i] = between(d, 1, shape.dim[i]);
    return shape;
}

bool draw_gather_elements(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 4);
    int64_t axis = draw_axis(d, x->truth.shape.rank),
            at = axis < 0 ? axis + x->truth.shape.rank : axis;
    set_int(d, "axis", axis);
    feed_of(d, draw_dtype(d, INDICES), index_shape(d, x, at),
            lowest_index(d, x->truth.shape.dim[at]), (double)x->truth.shape.dim[at] - 1);
    results(d, 1);
    return true;
}

/* Tuples of indices: every part in its own range, as a constant or an input. */
static void feed_tuples(draw *d, kiln_shape shape, const int64_t *extent, bool distinct) {
    kiln_tensor tensor = kiln_tensor_create(d->g->arena, KILN_I64, &shape);
    int64_t depth = shape.dim[shape.rank - 1], rows = depth ? kiln_shape_count(&shape) / depth : 0;
    int64_t all = 1, at = 0;
    for (int64_t k = 0; k < depth; k++) all *= extent[k];
    for (int64_t r = 0; r < rows; r++) { /* distinct: each place at most once, in order */
        at = distinct ? between(d, at, all - rows + r) : between(d, 0, all - 1);
        int64_t rest = at++;
        for (int64_t k = depth - 1; k >= 0; k--) {
            int64_t index = rest % extent[k];
            rest /= extent[k];
            ((int64_t *)tensor.data)[r * depth + k] =
                chance(d, 15) && opset(d) >= 12 ? index - extent[k] : index;
        }
    }
    uint32_t value = fuzz_graph_add(d->g, chance(d, 50) ? FUZZ_CONSTANT : FUZZ_INPUT, &tensor);
    feed_same(d, &d->g->value[value]);
}

bool draw_gather_nd(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 4);
    const kiln_shape *data = &x->truth.shape;
    uint32_t batch = opset(d) >= 12 && data->rank > 1 ? (uint32_t)between(d, 0, data->rank - 1) : 0;
    int64_t depth = between(d, 1, data->rank - batch);
    kiln_shape shape = {.rank = batch};
    memcpy(shape.dim, data->dim, batch * sizeof *shape.dim);
    if (chance(d, 70)) shape.dim[shape.rank++] = between(d, 1, 5);
    shape.dim[shape.rank++] = depth;
    if (batch) set_int(d, "batch_dims", batch);
    feed_tuples(d, shape, data->dim + batch, false);
    results(d, 1);
    return true;
}

/* With "none", an element that is written twice has no defined value. */
static const char *draw_reduction(draw *d, const fuzz_value *x) {
    if (opset(d) < 16 || x->truth.dtype == KILN_BOOL || chance(d, 50)) return "none";
    const char *reduction = word(d, opset(d) >= 18 ? "add mul max min" : "add mul");
    set_text(d, "reduction", reduction);
    return reduction;
}

bool draw_scatter_elements(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 4);
    const kiln_shape *data = &x->truth.shape;
    int64_t axis = draw_axis(d, data->rank), at = axis < 0 ? axis + data->rank : axis, inner = 1;
    bool distinct = strcmp(draw_reduction(d, x), "none") == 0;
    kiln_shape shape = index_shape(d, x, at);
    set_int(d, "axis", axis);
    if (!distinct) {
        feed_of(d, draw_dtype(d, INDICES), shape, lowest_index(d, data->dim[at]),
                (double)data->dim[at] - 1);
    } else { /* along the axis, a rotation: every place once */
        kiln_tensor tensor = kiln_tensor_create(d->g->arena, KILN_I64, &shape);
        int64_t shift = between(d, 0, data->dim[at] - 1);
        for (uint32_t i = (uint32_t)at + 1; i < shape.rank; i++) inner *= shape.dim[i];
        for (int64_t i = 0; i < kiln_shape_count(&shape); i++)
            ((int64_t *)tensor.data)[i] = (i / inner % shape.dim[at] + shift) % data->dim[at];
        uint32_t value = fuzz_graph_add(d->g, chance(d, 50) ? FUZZ_CONSTANT : FUZZ_INPUT, &tensor);
        feed_same(d, &d->g->value[value]);
    }
    feed_of(d, x->truth.dtype, shape, 0, 0);
    results(d, 1);
    return true;
}

bool draw_scatter_nd(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 4);
    const kiln_shape *data = &x->truth.shape;
    int64_t depth = between(d, 1, data->rank), places = 1;
    for (int64_t k = 0; k < depth; k++) places *= data->dim[k];
    bool distinct = strcmp(draw_reduction(d, x), "none") == 0;
    kiln_shape shape = {2, {between(d, 1, distinct ? KILN_MIN(places, 6) : 6), depth}},
               updates = {.rank = 1};
    updates.dim[0] = shape.dim[0];
    for (uint32_t i = (uint32_t)depth; i < data->rank; i++)
        updates.dim[updates.rank++] = data->dim[i];
    feed_tuples(d, shape, data->dim, distinct);
    feed_of(d, x->truth.dtype, updates, 0, 0);
    results(d, 1);
    return true;
}

bool draw_one_hot(draw *d) {
    int64_t depth = between(d, 1, 7);
    const fuzz_value *x = feed(d, &(wanted){INDICES, 0, 3, -(double)depth, (double)depth - 1});
    if (kiln_shape_count(&x->truth.shape) > 300) return false;
    feed_int(d, depth);
    feed_of(d, draw_dtype(d, ANY), (kiln_shape){1, {2}}, 0, 0);
    if (chance(d, 60)) set_int(d, "axis", between(d, -1, x->truth.shape.rank));
    results(d, 1);
    return true;
}

/* ---- constants ------------------------------------------------------------------------------- */

bool draw_constant(draw *d) {
    static const float floats[] = {0.5f, -1, 3};
    static const int64_t ints[] = {4, -5};
    kiln_tensor tensor = draw_tensor(d, draw_dtype(d, ANY & ~T_(BF16)), draw_shape(d, 0, 3), 0, 0);
    results(d, 1);
    switch (opset(d) >= 12 ? between(d, 0, 4) : 0) {
    case 1: set_int(d, "value_int", 7); break;
    case 2: set_ints(d, "value_ints", ints, 2); break;
    case 3: set_float(d, "value_float", -0.25); break;
    case 4:
        d->node->attributes = with_attr_floats(d->node->attributes, "value_floats", floats, 3);
        break;
    default: set_tensor(d, "value", &tensor);
    }
    return true;
}

bool draw_constant_of_shape(draw *d) {
    kiln_shape shape = draw_shape(d, 0, 4);
    kiln_tensor item = draw_tensor(d, draw_dtype(d, ANY & ~T_(BF16)), (kiln_shape){1, {1}}, 0, 0);
    feed_ints(d, shape.dim, shape.rank);
    if (chance(d, 70)) set_tensor(d, "value", &item);
    results(d, 1);
    return true;
}

bool draw_eye_like(draw *d) {
    feed(d, &(wanted){ANY, 2, 2, 0, 0});
    if (chance(d, 50))
        set_int(
            d, "dtype",
            kiln_onnx_dtype_number(draw_dtype(d, T_(F32) | T_(F64) | T_(I32) | T_(I64) | T_(U64))));
    if (chance(d, 50)) set_int(d, "k", between(d, -4, 4));
    results(d, 1);
    return true;
}

bool draw_shape_of(draw *d) {
    const fuzz_value *x = feed(d, &(wanted){ANY, 0, 5, 0, 0});
    if (opset(d) >= 15 && chance(d, 50)) set_int(d, "start", between(d, -3, x->truth.shape.rank));
    if (opset(d) >= 15 && chance(d, 50)) set_int(d, "end", between(d, -3, x->truth.shape.rank + 1));
    results(d, 1);
    return true;
}

bool draw_size_of(draw *d) {
    feed(d, &(wanted){ANY, 0, 5, 0, 0});
    results(d, 1);
    return true;
}

bool draw_range(draw *d) {
    kiln_dtype dtype = draw_dtype(d, T_(F32) | T_(F64) | T_(I16) | INDICES);
    bool is_float = kiln_dtype_is_float(dtype);
    double start = is_float ? real(d, -3, 3) : (double)between(d, -9, 9);
    double step = is_float ? real(d, 0.25, 2) : (double)between(d, 1, 4);
    double limit = start + step * (double)between(d, 1, 20);
    if (chance(d, 30)) step = -step, limit = 2 * start - limit;
    const double operand[] = {start, limit, step};
    for (uint32_t i = 0; i < 3; i++) {
        kiln_tensor tensor = kiln_tensor_create(d->g->arena, dtype, &(kiln_shape){0});
        kiln_dtype_store_f64(dtype, tensor.data, 0, operand[i]);
        feed_same(d, &d->g->value[fuzz_graph_fix(d->g, &tensor)]);
    }
    results(d, 1);
    return true;
}

bool draw_dropout(draw *d) {
    feed_data(d, 0, 5);
    if (opset(d) < 7) set_int(d, "is_test", 1);
    if (opset(d) < 12 && chance(d, 50)) set_float(d, "ratio", 0.25);
    results(d, opset(d) >= 10 && chance(d, 30) ? 2 : 1);
    if (opset(d) < 12 && d->node->output_count > 1)
        peer_may_differ(d,
                        "before opset 12 the mask of a Dropout that does nothing is not defined");
    return true;
}

/* ---- as many results as data says ------------------------------------------------------------ */

bool draw_compress(draw *d) {
    const kiln_shape shape = feed(d, &(wanted){ANY, 1, 3, 0, 0})->truth.shape;
    const bool flat = chance(d, 40), is_known = chance(d, 50);
    const int64_t axis = between(d, 0, shape.rank - 1),
                  length = flat ? kiln_shape_count(&shape) : shape.dim[axis];
    if (!flat) set_int(d, "axis", chance(d, 50) ? axis : axis - shape.rank);
    const kiln_shape part = {1, {between(d, 1, length)}};
    if (is_known || (!flat && axis > 0)) {
        kiln_tensor chosen = draw_tensor(d, KILN_BOOL, part, 0, 0);
        ((uint8_t *)chosen.data)[0] = 1;
        feed_same(d, &d->g->value[fuzz_graph_fix(d->g, &chosen)]);
    } else {
        const kiln_tensor chosen = draw_tensor(d, KILN_BOOL, part, 0, 0);
        feed_same(d, &d->g->value[fuzz_graph_add(d->g, FUZZ_INPUT, &chosen)]);
        results_grow(d);
    }
    results(d, 1);
    return true;
}

bool draw_non_zero(draw *d) {
    const kiln_shape shape = draw_shape(d, 1, 3);
    kiln_tensor x =
        draw_tensor(d, draw_dtype(d, T_(F32) | T_(I32) | T_(I64) | TRUTHS), shape, 0, 2);
    feed_same(d, &d->g->value[fuzz_graph_fix(d->g, &x)]);
    results(d, 1);
    return true;
}

bool draw_unique(draw *d) {
    const bool rows = chance(d, 30);
    const kiln_shape shape = draw_shape(d, rows ? 2 : 1, rows ? 2 : 3);
    if (kiln_shape_count(&shape) > 200) return false;
    kiln_tensor x = draw_tensor(d, draw_dtype(d, T_(F32) | T_(I64)), shape, 0, 0);
    for (size_t i = 0; i < (size_t)kiln_shape_count(&shape); i++) /* of a few values */
        kiln_dtype_store_f64(x.dtype, x.data, i, (double)between(d, -2, 2));
    feed_same(d, &d->g->value[fuzz_graph_add(d->g, FUZZ_INPUT, &x)]);
    if (rows) set_int(d, "axis", 0);
    set_int(d, "sorted", between(d, 0, 1));
    results_grow(d);
    results(d, 4);
    return true;
}

bool draw_non_max_suppression(draw *d) {
    const int64_t batch = between(d, 1, 2), classes = between(d, 1, 3), boxes = between(d, 1, 9);
    feed_of(d, KILN_F32, (kiln_shape){3, {batch, boxes, 4}}, 0, 8);
    feed_of(d, KILN_F32, (kiln_shape){3, {batch, classes, boxes}}, -1, 1);
    feed_int(d, between(d, 0, 4));
    if (chance(d, 80)) feed_scalar(d, KILN_F32, real(d, 0.125, 0.875));
    if (d->node->input_count == 4 && chance(d, 50)) feed_scalar(d, KILN_F32, real(d, -1, 1));
    set_int(d, "center_point_box", between(d, 0, 1));
    results_grow(d);
    results(d, 1);
    return true;
}

bool draw_ngrams(draw *d) {
    static const int64_t start[] = {0, 2};
    int64_t pool[] = {0, 1, 0, 0, 0, 1, 1, 1}, place[] = {0, 1, 2, 3, 4};
    const int64_t items = between(d, 1, 9), least = between(d, 1, 2);
    kiln_shape shape = {1, {items}};
    if (chance(d, 50)) shape = (kiln_shape){2, {between(d, 1, 3), items}};
    feed_of(d, chance(d, 50) ? KILN_I64 : KILN_I32, shape, 0, 2);
    place[between(d, 0, 4)] = between(d, 5, 8);
    set_ints(d, "pool_int64s", pool, 8);
    set_ints(d, "ngram_counts", start, 2);
    set_ints(d, "ngram_indexes", place, 5);
    set_int(d, "min_gram_length", least);
    set_int(d, "max_gram_length", between(d, least, 2));
    set_int(d, "max_skip_count", between(d, 0, 3));
    set_text(d, "mode", word(d, "TF IDF TFIDF"));
    results(d, 1);
    return true;
}
