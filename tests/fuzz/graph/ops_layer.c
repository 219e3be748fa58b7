/* Contractions, windows, normalisations over channels, losses and quantised operators. */
#include <math.h>
#include <string.h>

#include "tests/fuzz/graph/rules.h"

/* ---- windows --------------------------------------------------------------------------------- */

typedef struct window {
    uint32_t dims;
    int64_t kernel[3], stride[3], dilation[3], pad[6];
} window;

/* A window that fits data of `dims` spatial dimensions, whose extents are chosen with it. */
static window draw_window(draw *d, uint32_t dims, bool dilates, int64_t *extent) {
    window w = {.dims = dims};
    for (uint32_t i = 0; i < dims; i++) {
        w.kernel[i] = between(d, 1, 3);
        w.stride[i] = chance(d, 60) ? 1 : between(d, 1, 3);
        w.dilation[i] = dilates && chance(d, 25) ? 2 : 1;
        int64_t reach = (w.kernel[i] - 1) * w.dilation[i] + 1;
        w.pad[i] = between(d, 0, w.kernel[i] - 1);
        w.pad[dims + i] = chance(d, 70) ? w.pad[i] : between(d, 0, w.kernel[i] - 1);
        extent[i] = reach + between(d, 0, dims == 1 ? 20 : dims == 2 ? 8 : 3);
    }
    return w;
}

static bool is_plain(const int64_t *item, uint32_t count, int64_t value) {
    for (uint32_t i = 0; i < count; i++)
        if (item[i] != value) return false;
    return true;
}

static void set_window(draw *d, const window *w, bool with_kernel) {
    if (with_kernel) set_ints(d, "kernel_shape", w->kernel, w->dims);
    if (!is_plain(w->stride, w->dims, 1) || chance(d, 30))
        set_ints(d, "strides", w->stride, w->dims);
    if (!is_plain(w->dilation, w->dims, 1)) set_ints(d, "dilations", w->dilation, w->dims);
    if (is_plain(w->dilation, w->dims, 1) && chance(d, 20)) {
        const char *how = word(d, "VALID SAME_UPPER SAME_LOWER");
        set_text(d, "auto_pad", how);
        for (uint32_t i = 0; i < w->dims; i++)
            if (w->stride[i] > w->kernel[i] && strcmp(how, "VALID") != 0)
                peer_may_differ(d, "SAME with strides larger than the kernel gives a negative "
                                   "padding: it is none here, "
                                   "ONNX Runtime cuts off");
        return;
    }
    if (!is_plain(w->pad, 2 * w->dims, 0) || chance(d, 30))
        set_ints(d, "pads", w->pad, 2 * w->dims);
}

static kiln_shape image(int64_t batch, int64_t channels, uint32_t dims, const int64_t *extent) {
    kiln_shape shape = {2 + dims, {batch, channels}};
    memcpy(shape.dim + 2, extent, dims * sizeof *extent);
    return shape;
}

bool draw_conv(draw *d) {
    static const int64_t channels[] = {1, 2, 3, 5, 8, 16, 17, 33};
    int64_t extent[3], groups = chance(d, 70) ? 1 : between(d, 2, 3),
                       in = channels[between(d, 0, 5)], out = channels[between(d, 0, 7)];
    uint32_t dims = chance(d, 70) ? 2 : (uint32_t)between(d, 1, 3);
    window w = draw_window(d, dims, true, extent);
    kiln_dtype dtype = draw_dtype(d, d->types);
    if (chance(d, 10))
        groups = in, out = in; /* depthwise */
    else if (groups > 1)
        in = groups * between(d, 1, 3), out = groups * between(d, 1, 4);
    feed_of(d, dtype, image(between(d, 1, 2), in, dims, extent), d->rule->low, d->rule->high);
    feed_of(d, dtype, image(out, in / groups, dims, w.kernel), d->rule->low, d->rule->high);
    if (chance(d, 50)) feed_of(d, dtype, (kiln_shape){1, {out}}, d->rule->low, d->rule->high);
    if (groups > 1 || chance(d, 20)) set_int(d, "group", groups);
    set_window(d, &w, chance(d, 70));
    results(d, 1);
    return true;
}

bool draw_conv_transpose(draw *d) {
    int64_t extent[3], groups = chance(d, 70) ? 1 : 2, in = groups * between(d, 1, 4),
                       out = between(d, 1, 5);
    int64_t output_padding[3];
    uint32_t dims = chance(d, 70) ? 2 : (uint32_t)between(d, 1, 3);
    window w = draw_window(d, dims, true, extent);
    kiln_dtype dtype = draw_dtype(d, d->types);
    feed_of(d, dtype, image(between(d, 1, 2), in, dims, extent), 0, 0);
    feed_of(d, dtype, image(in, out, dims, w.kernel), 0, 0);
    if (chance(d, 50)) feed_of(d, dtype, (kiln_shape){1, {groups * out}}, 0, 0);
    if (groups > 1) set_int(d, "group", groups);
    for (uint32_t i = 0; i < dims; i++) output_padding[i] = between(d, 0, w.stride[i] - 1);
    if (!is_plain(output_padding, dims, 0)) set_ints(d, "output_padding", output_padding, dims);
    for (uint32_t i = 0; i < 2 * dims; i++)
        w.pad[i] = KILN_MIN(w.pad[i], (w.kernel[i % dims] - 1) / 2);
    set_ints(d, "kernel_shape", w.kernel, dims);
    set_ints(d, "strides", w.stride, dims);
    set_ints(d, "dilations", w.dilation, dims);
    if (chance(d, 70)) set_ints(d, "pads", w.pad, 2 * dims);
    results(d, 1);
    return true;
}

/* Whether every window of a pool has an element of the data: without one the result is not defined.
 */
static bool is_covered(const window *w, const int64_t *extent) {
    for (uint32_t i = 0; i < w->dims; i++) {
        if (w->dilation[i] > 1 && (w->pad[i] || w->pad[w->dims + i])) return false;
        if (extent[i] < w->kernel[i]) return false;
    }
    return true;
}

static bool draw_pool(draw *d, bool dilates, bool ceils) {
    int64_t extent[3];
    uint32_t dims = chance(d, 70) ? 2 : (uint32_t)between(d, 1, 3);
    window w = draw_window(d, dims, dilates, extent);
    if (!is_covered(&w, extent)) return false;
    feed_of(d, draw_dtype(d, d->types), image(between(d, 1, 2), between(d, 1, 7), dims, extent), 0,
            0);
    set_window(d, &w, true);
    if (ceils && chance(d, 30)) set_int(d, "ceil_mode", between(d, 0, 1));
    results(d, 1);
    return true;
}

bool draw_max_pool(draw *d) {
    if (!draw_pool(d, opset(d) >= 10, opset(d) >= 10)) return false;
    if (opset(d) >= 8 && chance(d, 30)) {
        results(d, 2);
        if (chance(d, 30)) {
            set_int(d, "storage_order", 1);
            peer_may_differ(
                d, "the specification does not say which of equal elements MaxPool names: with "
                   "storage_order 1 the lowest index here, the first by rows in ONNX Runtime");
        }
    }
    return true;
}

bool draw_average_pool(draw *d) {
    if (!draw_pool(d, opset(d) >= 19, opset(d) >= 10)) return false;
    if (opset(d) >= 7 && chance(d, 50)) set_int(d, "count_include_pad", between(d, 0, 1));
    return true;
}

bool draw_lp_pool(draw *d) {
    if (!draw_pool(d, opset(d) >= 18, opset(d) >= 18)) return false;
    if (chance(d, 60)) set_int(d, "p", between(d, 1, 3));
    return true;
}

bool draw_global_pool(draw *d) {
    feed_data(d, 3, 5);
    results(d, 1);
    return true;
}

bool draw_global_lp_pool(draw *d) {
    if (chance(d, 60)) set_int(d, "p", between(d, 1, 3));
    return draw_global_pool(d);
}

bool draw_lrn(draw *d) {
    feed_data(d, 3, 4);
    set_int(d, "size", 2 * between(d, 0, 2) + 1);
    if (chance(d, 50)) set_float(d, "alpha", real(d, 0.125, 1));
    if (chance(d, 50)) set_float(d, "beta", real(d, 0.25, 1));
    if (chance(d, 50)) set_float(d, "bias", real(d, 1, 2));
    results(d, 1);
    return true;
}

/* ---- products -------------------------------------------------------------------------------- */

bool draw_matmul(draw *d) {
    const fuzz_value *a = feed_data(d, 1, 4);
    kiln_shape left = a->truth.shape, right = left;
    int64_t columns = between(d, 1, 20);
    if (left.rank == 1 || chance(d, 20)) { /* by a vector or a matrix */
        bool vector = chance(d, 50);
        right = vector ? (kiln_shape){1, {left.dim[left.rank - 1]}}
                       : (kiln_shape){2, {left.dim[left.rank - 1], columns}};
    } else {
        right.dim[right.rank - 2] = left.dim[left.rank - 1];
        right.dim[right.rank - 1] = columns;
        for (uint32_t i = 0; i + 2 < right.rank; i++)
            if (chance(d, 30)) right.dim[i] = 1;
    }
    feed_of(d, a->truth.dtype, right, d->rule->low, d->rule->high);
    results(d, 1);
    return kiln_shape_count(&right) <= 4 * FUZZ_ELEMENTS_MAX;
}

bool draw_gemm(draw *d) {
    const fuzz_value *a =
        feed(d, &(wanted){d->types & (FLOATS | INDICES | T_(U32) | T_(U64)), 2, 2, 0, 0});
    kiln_dtype dtype = a->truth.dtype;
    bool turn_a = chance(d, 40), turn_b = chance(d, 40), is_float = kiln_dtype_is_float(dtype);
    int64_t m = a->truth.shape.dim[turn_a ? 1 : 0], k = a->truth.shape.dim[turn_a ? 0 : 1],
            n = between(d, 1, 33);
    feed_of(d, dtype, turn_b ? (kiln_shape){2, {n, k}} : (kiln_shape){2, {k, n}}, 0, 0);
    if (opset(d) < 11 || chance(d, 60)) {
        if (opset(d) >= 7)
            feed_broadcast(d, dtype, (kiln_shape){2, {m, n}}, false, 0, 0);
        else
            feed_of(d, dtype, (kiln_shape){2, {m, n}}, 0, 0);
    }
    if (turn_a) set_int(d, "transA", 1);
    if (turn_b) set_int(d, "transB", 1);
    if (is_float && chance(d, 40)) set_float(d, "alpha", real(d, 0.25, 2));
    if (is_float && chance(d, 40)) set_float(d, "beta", real(d, 0.25, 2));
    results(d, 1);
    return true;
}

/* Terms of one-letter labels; every label is given one extent. */
bool draw_einsum(draw *d) {
    const char *equation =
        word(d, "ij,jk->ik ij->ji ij->i ij-> bij,bjk->bik i,j->ij ii->i bij->bj ijk,jil->kl "
                "ij,ij->ij ...ij->...ji bhwc,hkc->bhwk i,i-> ij,j ab,bc,cd->ad");
    const int64_t extents[] = {2, 3, 5, 7};
    int64_t extent[128];
    kiln_dtype dtype = draw_dtype(d, d->types & (FLOATS | INDICES));
    for (size_t i = 0; i < KILN_ARRAY_COUNT(extent); i++) extent[i] = extents[between(d, 0, 3)];
    set_text(d, "equation", equation);
    kiln_shape shape = {0};
    for (const char *c = equation;; c++) {
        if (*c == ',' || *c == '-' || !*c) {
            feed_of(d, dtype, shape, 0, 0);
            shape = (kiln_shape){0};
            if (*c != ',') break;
        } else if (*c != '.' || c[1] != '.') { /* the last point of an ellipsis is one dimension */
            shape.dim[shape.rank++] = extent[(unsigned char)*c];
        }
    }
    results(d, 1);
    return true;
}

/* ---- quantised ------------------------------------------------------------------------------- */

static kiln_dtype draw_byte(draw *d) { return chance(d, 50) ? KILN_U8 : KILN_I8; }

/* Now and then a float of 8 bits, else `integer`. */
static kiln_dtype draw_quantised(draw *d, kiln_dtype integer) {
    return opset(d) >= 19 && chance(d, 25) ? draw_dtype(d, SMALL_FLOATS) : integer;
}

static void feed_zero_point(draw *d, kiln_dtype dtype, kiln_shape shape) {
    if (kiln_dtype_is_float(dtype)) { /* 0 */
        feed_fixed(d, dtype, shape, -1e-7, 1e-7);
        return;
    }
    bool is_zero = chance(d, 40) || dtype == KILN_I32;
    double low = dtype == KILN_U8 ? 100 : -10, high = dtype == KILN_U8 ? 140 : 10;
    feed_fixed(d, dtype, shape, is_zero ? -0.5 : low, is_zero ? 0.5 : high);
}

bool draw_conv_integer(draw *d) {
    int64_t extent[3], groups = chance(d, 80) ? 1 : 2, in = groups * between(d, 1, 5),
                       out = groups * between(d, 1, 9);
    window w = draw_window(d, 2, true, extent);
    kiln_dtype x = draw_byte(d), weight = draw_byte(d);
    feed_of(d, x, image(between(d, 1, 2), in, 2, extent), 0, 0);
    feed_of(d, weight, image(out, in / groups, 2, w.kernel), 0, 0);
    if (chance(d, 60)) feed_zero_point(d, x, (kiln_shape){0});
    if (d->node->input_count == 3 && chance(d, 50)) feed_zero_point(d, weight, (kiln_shape){0});
    if (groups > 1) set_int(d, "group", groups);
    set_window(d, &w, true);
    results(d, 1);
    return true;
}

bool draw_matmul_integer(draw *d) {
    int64_t m = between(d, 1, 17), k = between(d, 1, 33), n = between(d, 1, 17);
    kiln_dtype a = draw_byte(d), b = draw_byte(d);
    bool batched = chance(d, 30);
    feed_of(d, a, batched ? (kiln_shape){3, {2, m, k}} : (kiln_shape){2, {m, k}}, 0, 0);
    feed_of(d, b, (kiln_shape){2, {k, n}}, 0, 0);
    if (chance(d, 60)) feed_zero_point(d, a, (kiln_shape){0});
    if (d->node->input_count == 3 && chance(d, 50)) feed_zero_point(d, b, (kiln_shape){0});
    results(d, 1);
    return true;
}

/* A scale, and a zero point of `dtype` now and then; one, or one per index of an axis. */
static void feed_scales(draw *d, const fuzz_value *x, kiln_dtype scale, kiln_dtype dtype,
                        bool with_zero) {
    kiln_shape shape = {0};
    if (opset(d) >= 13 && x->truth.shape.rank > 0 && chance(d, 40)) {
        int64_t axis = draw_axis(d, x->truth.shape.rank);
        set_int(d, "axis", axis);
        shape = (kiln_shape){1, {x->truth.shape.dim[axis < 0 ? axis + x->truth.shape.rank : axis]}};
    } else if (x->truth.shape.rank < 2 && opset(d) >= 13) {
        set_int(d, "axis", 0);
    }
    feed_fixed(d, scale, shape, 0.25, 2);
    if (with_zero) feed_zero_point(d, dtype, shape);
}

bool draw_quantize(draw *d) {
    const fuzz_value *x =
        feed(d, &(wanted){T_(F32) | (opset(d) >= 19 ? T_(F16) : 0), 1, 4, -60, 60});
    bool with_zero = chance(d, 70);
    feed_scales(d, x, x->truth.dtype, draw_quantised(d, draw_byte(d)), with_zero);
    results(d, 1);
    return kiln_shape_count(&x->truth.shape) > 0;
}

bool draw_dynamic_quantize(draw *d) {
    const fuzz_value *x = feed(d, &(wanted){T_(F32), 1, 4, -60, 60});
    const int64_t count = kiln_shape_count(&x->truth.shape);
    results(d, 3);
    if (x->low == 0 && x->high == 0) peer_may_differ(d, "the scale of zeros only");
    return count > 0;
}

bool draw_dequantize(draw *d) {
    const uint32_t types = T_(I8) | T_(U8) | T_(I32) | (opset(d) >= 19 ? SMALL_FLOATS : 0);
    const fuzz_value *x = feed(d, &(wanted){types, 1, 4, 0, 0});
    bool is_wide = x->truth.dtype == KILN_I32;
    if (is_wide && (x->low < -1e5 || x->high > 1e5)) return false;
    feed_scales(d, x, KILN_F32, x->truth.dtype, !is_wide && chance(d, 60));
    results(d, 1);
    return kiln_shape_count(&x->truth.shape) > 0;
}

static void feed_quantised(draw *d, kiln_dtype dtype, kiln_shape shape, double scale_low,
                           double scale_high) {
    feed_of(d, dtype, shape, 0, 0);
    feed_fixed(d, KILN_F32, (kiln_shape){0}, scale_low, scale_high);
    feed_zero_point(d, dtype, (kiln_shape){0});
}

static void feed_result_scale(draw *d, kiln_dtype dtype) {
    feed_fixed(d, KILN_F32, (kiln_shape){0}, 0.5, 4);
    feed_zero_point(d, dtype, (kiln_shape){0});
}

bool draw_qlinear_conv(draw *d) {
    int64_t extent[3], in = between(d, 1, 5), out = between(d, 1, 9);
    window w = draw_window(d, 2, true, extent);
    kiln_dtype x = draw_byte(d), weight = draw_byte(d);
    feed_quantised(d, x, image(1, in, 2, extent), 0.01, 0.1);
    feed_quantised(d, weight, image(out, in, 2, w.kernel), 0.01, 0.1);
    feed_result_scale(d, x);
    if (chance(d, 50)) feed_fixed(d, KILN_I32, (kiln_shape){1, {out}}, -100, 100);
    set_window(d, &w, true);
    results(d, 1);
    return true;
}

bool draw_qlinear_matmul(draw *d) {
    int64_t m = between(d, 1, 9), k = between(d, 1, 17), n = between(d, 1, 9);
    kiln_dtype a = draw_byte(d), b = draw_byte(d);
    feed_quantised(d, a, (kiln_shape){2, {m, k}}, 0.01, 0.1);
    feed_quantised(d, b, (kiln_shape){2, {k, n}}, 0.01, 0.1);
    feed_result_scale(d, a);
    results(d, 1);
    return true;
}

/* ---- normalisation --------------------------------------------------------------------------- */

static kiln_shape channels_of(const fuzz_value *x) {
    return (kiln_shape){1, {x->truth.shape.dim[1]}};
}

static void set_epsilon(draw *d) {
    if (chance(d, 50)) set_float(d, "epsilon", chance(d, 50) ? 0.01 : 0.1);
}

bool draw_batch_norm(draw *d) {
    const fuzz_value *x = feed_data(d, 2, 5);
    static const double range[][2] = {{-2, 2}, {-2, 2}, {-1, 1}, {0.25, 2}};
    for (uint32_t i = 0; i < 4; i++)
        feed_of(d, x->truth.dtype, channels_of(x), range[i][0], range[i][1]);
    if (opset(d) < 7) set_int(d, "is_test", 1);
    if (chance(d, 20)) set_float(d, "momentum", 0.5);
    set_epsilon(d);
    results(d, 1);
    return true;
}

/* Whether all elements of some channel are equal. */
static bool has_flat_channel(const kiln_tensor *x) {
    int64_t channels = x->shape.dim[0] * x->shape.dim[1],
            each = channels ? kiln_shape_count(&x->shape) / channels : 0;
    for (int64_t c = 0; c < channels; c++) {
        int64_t same = 0;
        for (int64_t i = 0; i < each; i++)
            same += kiln_dtype_load_f64(x->dtype, x->data, (size_t)(c * each + i)) ==
                    kiln_dtype_load_f64(x->dtype, x->data, (size_t)(c * each));
        if (same == each) return true;
    }
    return false;
}

/* Normalised over so few or such equal elements that the variance may be 0. */
static void note_few(draw *d, const fuzz_value *x, uint32_t from) {
    int64_t count = 1;
    for (uint32_t i = from; i < x->truth.shape.rank; i++) count *= x->truth.shape.dim[i];
    if (count < 4 || has_flat_channel(&x->truth))
        peer_may_differ(d, "with a variance of 0, x * (scale / deviation) - mean * (scale / "
                           "deviation) is not exactly 0");
}

bool draw_instance_norm(draw *d) {
    const fuzz_value *x = feed_data(d, 3, 5);
    note_few(d, x, 2);
    feed_of(d, x->truth.dtype, channels_of(x), -2, 2);
    feed_of(d, x->truth.dtype, channels_of(x), -2, 2);
    set_epsilon(d);
    results(d, 1);
    return true;
}

bool draw_group_norm(draw *d) {
    int64_t groups = between(d, 1, 3), channels = groups * between(d, 1, 4);
    kiln_shape shape = {4, {between(d, 1, 2), channels, between(d, 1, 5), between(d, 1, 7)}};
    const fuzz_value *x = feed_of(d, draw_dtype(d, FLOATS), shape, 0, 0);
    kiln_shape each = {1, {opset(d) < 21 ? groups : channels}};
    feed_of(d, x->truth.dtype, each, -2, 2);
    feed_of(d, x->truth.dtype, each, -2, 2);
    set_int(d, "num_groups", groups);
    set_epsilon(d);
    if (x->truth.dtype == KILN_F64 && opset(d) >= 21)
        peer_may_differ(d,
                        "mean and variance are computed in f64 here, in f32 (stash_type 1) there");
    results(d, 1);
    return true;
}

static kiln_shape from_axis(draw *d, const fuzz_value *x) {
    uint32_t rank = x->truth.shape.rank;
    int64_t axis = draw_axis(d, rank), at = axis < 0 ? axis + rank : axis;
    kiln_shape shape = {.rank = rank - (uint32_t)at};
    memcpy(shape.dim, x->truth.shape.dim + at, shape.rank * sizeof *shape.dim);
    set_int(d, "axis", axis);
    return shape;
}

bool draw_layer_norm(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 4);
    kiln_shape shape = from_axis(d, x);
    feed_of(d, x->truth.dtype, shape, -2, 2);
    if (chance(d, 60)) feed_of(d, x->truth.dtype, shape, -2, 2);
    set_epsilon(d);
    results(d, chance(d, 25) ? 3 : 1);
    return true;
}

bool draw_rms_norm(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 4);
    feed_of(d, x->truth.dtype, from_axis(d, x), -2, 2);
    set_epsilon(d);
    results(d, 1);
    return true;
}

bool draw_mean_variance(draw *d) {
    const fuzz_value *x = feed_data(d, 4, 4);
    static const int64_t axes[] = {2, 3};
    note_few(d, x, 2);
    if (chance(d, 50)) set_ints(d, "axes", axes, 2);
    results(d, 1);
    return true;
}

/* ---- losses ---------------------------------------------------------------------------------- */

static bool draw_loss(draw *d, uint32_t result_count) {
    const fuzz_value *x = feed_data(d, 2, 4);
    kiln_shape shape = x->truth.shape;
    int64_t classes = shape.dim[1];
    memmove(shape.dim + 1, shape.dim + 2, (shape.rank - 2) * sizeof *shape.dim);
    shape.rank--;
    feed_of(d, draw_dtype(d, INDICES), shape, 0, (double)classes - 1);
    if (chance(d, 40)) feed_of(d, x->truth.dtype, (kiln_shape){1, {classes}}, 0.25, 2);
    if (chance(d, 60)) set_text(d, "reduction", word(d, "none sum mean"));
    if (classes > 2 && chance(d, 30)) set_int(d, "ignore_index", between(d, 0, classes - 1));
    results(d, result_count);
    return true;
}

bool draw_nll_loss(draw *d) { return draw_loss(d, 1); }
bool draw_softmax_loss(draw *d) { return draw_loss(d, chance(d, 40) ? 2 : 1); }

/* ---- sampling -------------------------------------------------------------------------------- */

static int64_t scaled(int64_t extent, float scale) {
    return (int64_t)((double)extent * (double)scale);
}

/* Whether size / extent is a float. */
static bool is_exact_scale(int64_t size, int64_t extent) {
    return (double)((float)size / (float)extent) * (double)extent == (double)size;
}

bool draw_resize(draw *d) {
    kiln_shape shape = {4, {1, between(d, 1, 3), between(d, 2, 7), between(d, 2, 7)}};
    static const float factor[] = {0.5f, 1, 1.5f, 2, 3};
    bool nearest = chance(d, 50);
    const fuzz_value *x =
        feed_of(d, draw_dtype(d, nearest ? d->types & ~TRUTHS : FLOATS), shape, 0, 0);
    float scale[4] = {1, 1, factor[between(d, 0, 4)], factor[between(d, 0, 4)]};
    int64_t size[4] = {1, shape.dim[1], between(d, 1, 9), between(d, 1, 9)};
    if (scaled(shape.dim[2], scale[2]) < 1 || scaled(shape.dim[3], scale[3]) < 1) return false;
    (void)x;
    results(d, 1);
    set_text(d, "mode", nearest ? "nearest" : opset(d) >= 11 && chance(d, 30) ? "cubic" : "linear");
    if (opset(d) < 11) {
        feed_floats(d, scale, 4);
        return true;
    }
    bool by_size = chance(d, 40);
    const char *position = word(d, "half_pixel asymmetric align_corners pytorch_half_pixel");
    set_text(d, "coordinate_transformation_mode", position);
    bool whole = fmodf((float)shape.dim[2] * scale[2], 1) == 0 &&
                 fmodf((float)shape.dim[3] * scale[3], 1) == 0;
    if (strcmp(position, "align_corners") == 0 && !by_size && !whole)
        peer_may_differ(d, "the resized length is scale * length in ONNX's tests "
                           "(test_resize_downsample_scales_*_align_corners), "
                           "rounded down in ONNX Runtime");
    if (nearest && by_size &&
        !(is_exact_scale(size[2], shape.dim[2]) && is_exact_scale(size[3], shape.dim[3])))
        peer_may_differ(d, "a position that is a whole number is one only where the scale, size / "
                           "length, was not rounded; ONNX Runtime rounds it to a float");
    if (nearest)
        set_text(d, "nearest_mode", word(d, "round_prefer_floor round_prefer_ceil floor ceil"));
    if (opset(d) < 13)
        feed_floats(d, NULL, 0); /* roi was required */
    else
        feed_nothing(d);
    if (!by_size)
        feed_floats(d, scale, 4);
    else if (opset(d) < 13)
        feed_floats(d, NULL, 0);
    else
        feed_nothing(d);
    if (by_size) feed_ints(d, size, 4);
    return true;
}

bool draw_upsample(draw *d) {
    kiln_shape shape = {4, {1, between(d, 1, 3), between(d, 1, 7), between(d, 1, 7)}};
    float scale[4] = {1, 1, (float)between(d, 1, 3), (float)between(d, 1, 3)};
    bool nearest = chance(d, 60);
    feed_of(d, draw_dtype(d, nearest ? d->types & ~TRUTHS : FLOATS), shape, 0, 0);
    set_text(d, "mode", nearest ? "nearest" : "linear");
    if (opset(d) < 9)
        d->node->attributes = with_attr_floats(d->node->attributes, "scales", scale, 4);
    else
        feed_floats(d, scale, 4);
    results(d, 1);
    return true;
}

bool draw_grid_sample(draw *d) {
    kiln_dtype dtype = draw_dtype(d, d->types);
    int64_t batch = between(d, 1, 2);
    kiln_shape shape = {4, {batch, between(d, 1, 3), between(d, 2, 7), between(d, 2, 7)}};
    feed_of(d, dtype, shape, 0, 0);
    feed_of(d, dtype, (kiln_shape){4, {batch, between(d, 1, 5), between(d, 1, 5), 2}}, -1.2, 1.2);
    const char *mode =
        opset(d) >= 20 ? word(d, "linear nearest cubic") : word(d, "bilinear nearest bicubic");
    set_text(d, "mode", mode);
    set_text(d, "padding_mode", word(d, "zeros border reflection"));
    if (chance(d, 50)) set_int(d, "align_corners", between(d, 0, 1));
    results(d, 1);
    return true;
}
