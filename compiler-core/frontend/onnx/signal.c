/* Spectra: windows and weights are constants, transforms are products with a constant matrix of
 * sines and cosines. A transform of n numbers takes n * n steps, in kernels that are tuned like any
 * product. Such a sum has n terms, a fast transform a depth of log n, and zeros of a spectrum are
 * differences of large terms: a DFT of f32 is computed in f64. Frames of an STFT are short, and
 * stay f32. */
#include <math.h>

#include "compiler-core/frontend/onnx/compose.h"
#include "compiler-core/graph/op.h"

#define SIZE_MAX_ITEMS ((int64_t)1 << 28) /* sizes whose products fit an int64_t */

static const double pi = 3.14159265358979323846;

/* A constant of `dtype`, if it is within the limit of memory for nodes' constants. */
static kiln_status make(kiln_importer *im, kiln_dtype dtype, const kiln_shape *shape,
                        kiln_tensor *out_tensor) {
    size_t size_bytes = 0;
    kiln_status st = kiln_shape_bytes(shape, dtype, &size_bytes);
    if (!st) st = kiln_import_take_memory(im, size_bytes);
    if (!st) *out_tensor = kiln_tensor_create(im->graph->arena, dtype, shape);
    return st;
}

static kiln_status demand_size(kiln_importer *im, uint32_t index, const char *name, int64_t least,
                               int64_t *out_size) {
    kiln_status st = kiln_import_demand_int(im, index, out_size);
    if (st) return kiln_status_note(st, "%s", name);
    return *out_size >= least && *out_size <= SIZE_MAX_ITEMS
               ? KILN_OK
               : KILN_ERROR(INVALID_ARGUMENT, "%s: %lld is out of range", name,
                            (long long)*out_size);
}

static kiln_status output_dtype(const kiln_importer *im, kiln_dtype *out_dtype) {
    const Onnx__AttributeProto *a = kiln_import_attribute(im, "output_datatype");
    *out_dtype = KILN_F32;
    return !a || kiln_onnx_dtype_find(a->i, out_dtype)
               ? KILN_OK
               : KILN_ERROR(UNIMPLEMENTED, "attribute output_datatype: %lld", (long long)a->i);
}

/* ---- windows --------------------------------------------------------------------------------- */

/* The sum of factor[k] * cos(2 pi k i / length) over k. */
static kiln_status import_window(kiln_importer *im, const double *factor, uint32_t count) {
    int64_t size = 0;
    kiln_dtype dtype;
    kiln_tensor window;
    kiln_status st = demand_size(im, 0, "size", 0, &size);
    if (!st) st = output_dtype(im, &dtype);
    if (!st) st = make(im, dtype, &(kiln_shape){1, {size}}, &window);
    if (st) return st;
    const int64_t length = kiln_import_int(im, "periodic", 1) ? size : size - 1;
    for (int64_t i = 0; i < size; i++) {
        double value = 0;
        for (uint32_t k = 0; k < count; k++)
            value += factor[k] * cos(2 * pi * k * (double)i / (double)KILN_MAX(length, 1));
        if (length == 0) value = 1; /* a single number is the middle */
        kiln_dtype_store_f64(dtype, window.data, (size_t)i, value);
    }
    kiln_import_define_constant(im, &window);
    return KILN_OK;
}

kiln_status kiln_import_hann_window(kiln_importer *im) {
    static const double factor[] = {0.5, -0.5};
    return import_window(im, factor, 2);
}
kiln_status kiln_import_hamming_window(kiln_importer *im) {
    static const double factor[] = {25.0 / 46, -21.0 / 46};
    return import_window(im, factor, 2);
}
kiln_status kiln_import_blackman_window(kiln_importer *im) {
    static const double factor[] = {0.42, -0.5, 0.08};
    return import_window(im, factor, 3);
}

/* ---- MelWeightMatrix ------------------------------------------------------------------------- */

static double mel_of(double hertz) { return 2595 * log10(1 + hertz / 700); }
static double hertz_of(double mel) { return 700 * (pow(10, mel / 2595) - 1); }

/* A triangle over the bins from `from` to `to` with its peak of 1 at `peak`. */
static void draw_triangle(kiln_tensor *weight, int64_t band, int64_t from, int64_t peak,
                          int64_t to) {
    const int64_t bins = weight->shape.dim[0], bands = weight->shape.dim[1];
    for (int64_t bin = KILN_MAX(from, 0); bin < to && bin < bins; bin++) {
        const double value = bin < peak ? (double)(bin - from) / (double)(peak - from)
                                        : (double)(to - bin) / (double)KILN_MAX(to - peak, 1);
        kiln_dtype_store_f64(weight->dtype, weight->data, (size_t)(bin * bands + band), value);
    }
    if (peak >= 0 && peak < bins)
        kiln_dtype_store_f64(weight->dtype, weight->data, (size_t)(peak * bands + band), 1);
}

kiln_status kiln_import_mel_weights(kiln_importer *im) {
    int64_t bands = 0, length = 0, rate = 0;
    double edge[2];
    kiln_dtype dtype;
    kiln_tensor weight;
    kiln_status st = demand_size(im, 0, "num_mel_bins", 1, &bands);
    if (!st) st = demand_size(im, 1, "dft_length", 1, &length);
    if (!st) st = demand_size(im, 2, "sample_rate", 1, &rate);
    for (uint32_t i = 0; !st && i < 2; i++) st = kiln_import_demand_float(im, 3 + i, &edge[i]);
    if (!st && !(edge[0] >= 0 && edge[1] >= edge[0] && edge[1] <= (double)SIZE_MAX_ITEMS))
        st = KILN_ERROR(INVALID_ARGUMENT, "its edges must be frequencies, the lower one first");
    if (!st) st = output_dtype(im, &dtype);
    if (!st) st = make(im, dtype, &(kiln_shape){2, {length / 2 + 1, bands}}, &weight);
    if (st) return st;
    const double low = mel_of(edge[0]), step = (mel_of(edge[1]) - low) / (double)(bands + 2);
    int64_t bin[3] = {0};
    for (int64_t i = 0; i < bands + 2; i++) {
        const double hertz = hertz_of(low + step * (double)i);
        bin[0] = bin[1];
        bin[1] = bin[2];
        bin[2] = (int64_t)floor((double)(length + 1) * hertz / (double)rate);
        if (i >= 2) draw_triangle(&weight, i - 2, bin[0], bin[1], bin[2]);
    }
    kiln_import_define_constant(im, &weight);
    return KILN_OK;
}

/* ---- transforms ------------------------------------------------------------------------------ */

/* A transform of numbers with `parts` parts (1: real, 2: complex) to numbers with `to_parts`. */
typedef struct transform {
    int64_t length; /* n in exp(2 pi i / n) */
    int64_t from, to;
    uint32_t parts, to_parts;
    bool inverse, half; /* half: the other half of the spectrum is its mirror image */
} transform;

/* The factor of part `p` of number `i` in part `q` of result `k`. */
static double factor_of(const transform *t, int64_t i, uint32_t p, int64_t k, uint32_t q) {
    const double angle = 2 * pi * (double)(i * k % t->length) / (double)t->length;
    const double sine = t->inverse ? sin(angle) : -sin(angle);
    double value = p == q ? cos(angle) : p < q ? sine : -sine;
    if (t->inverse) value /= (double)t->length;
    const bool mirrored = t->inverse && t->half && i > 0 && 2 * i != t->length;
    return mirrored ? 2 * value : value;
}

/* Moves the axis before the parts, and back. */
static kiln_value swap(kiln_composer *c, kiln_value x, uint32_t axis, uint32_t rank) {
    int64_t perm[KILN_RANK_MAX];
    if (axis + 2 == rank) return x;
    for (uint32_t d = 0; d < rank; d++) perm[d] = d;
    perm[axis] = rank - 2;
    perm[rank - 2] = axis;
    return kiln_compose_ints(c, KILN_OP_TRANSPOSE, x, "perm", perm, rank);
}

/* [from][parts][to][to_parts] as a matrix. */
static kiln_status make_matrix(kiln_importer *im, const transform *t, kiln_dtype dtype,
                               kiln_tensor *out_matrix) {
    const kiln_shape shape = {2, {t->from * t->parts, t->to * t->to_parts}};
    kiln_status st = make(im, dtype, &shape, out_matrix);
    if (st) return kiln_status_note(st, "a transform of %lld numbers", (long long)t->from);
    size_t at = 0;
    for (int64_t i = 0; i < t->from; i++)
        for (uint32_t p = 0; p < t->parts; p++)
            for (int64_t k = 0; k < t->to; k++)
                for (uint32_t q = 0; q < t->to_parts; q++)
                    kiln_dtype_store_f64(dtype, out_matrix->data, at++, factor_of(t, i, p, k, q));
    return KILN_OK;
}

static kiln_status plan(kiln_importer *im, const kiln_shape *shape, uint32_t axis, transform *t) {
    const bool given = kiln_import_input(im, 1) != 0;
    t->inverse = kiln_import_int(im, "inverse", 0) != 0;
    t->half = kiln_import_int(im, "onesided", 0) != 0;
    t->parts = (uint32_t)shape->dim[shape->rank - 1];
    t->to_parts = t->inverse && t->half ? 1 : 2;
    t->length = t->inverse && t->half ? 2 * (shape->dim[axis] - 1) : shape->dim[axis];
    kiln_status st = given ? demand_size(im, 1, "dft_length", 1, &t->length) : KILN_OK;
    if (st) return st;
    if (t->length < 1 || t->length > SIZE_MAX_ITEMS)
        return KILN_ERROR(INVALID_ARGUMENT, "a transform of %lld numbers", (long long)t->length);
    if (t->half && t->parts != (t->inverse ? 2 : 1))
        return KILN_ERROR(INVALID_ARGUMENT, "attribute onesided: its input must be %s",
                          t->inverse ? "complex" : "real");
    const int64_t distinct = t->length / 2 + 1;
    t->from = KILN_MIN(shape->dim[axis], t->inverse && t->half ? distinct : t->length);
    t->to = t->half && !t->inverse ? distinct : t->length;
    return KILN_OK;
}

/* Before opset 20 the axis was an attribute. */
static kiln_status find_axis(kiln_importer *im, uint32_t rank, uint32_t *out_axis) {
    int64_t axis = im->opset < 20 ? kiln_import_int(im, "axis", 1) : -2;
    kiln_status st = im->opset >= 20 && kiln_import_input(im, 2)
                         ? kiln_status_note(kiln_import_demand_int(im, 2, &axis), "axis")
                         : KILN_OK;
    if (st) return st;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis + 1 >= rank)
        return KILN_ERROR(INVALID_ARGUMENT, "axis is out of range, or that of complex parts");
    *out_axis = (uint32_t)axis;
    return KILN_OK;
}

kiln_status kiln_import_dft(kiln_importer *im) {
    kiln_composer c = {.im = im};
    transform t;
    uint32_t axis = 0;
    kiln_tensor matrix;
    kiln_value x = kiln_import_input(im, 0);
    if (!x) return KILN_ERROR(INVALID_ARGUMENT, "it has no input");
    kiln_shape shape = *kiln_compose_shape(&c, x);
    const uint32_t rank = shape.rank;
    const kiln_dtype dtype = kiln_compose_dtype(&c, x), wide = dtype == KILN_F32 ? KILN_F64 : dtype;
    if (rank < 2 || shape.dim[rank - 1] < 1 || shape.dim[rank - 1] > 2 ||
        !kiln_dtype_is_float(dtype))
        return KILN_ERROR(INVALID_ARGUMENT, "its input's last dimension must hold 1 or 2 parts");
    kiln_status st = find_axis(im, rank, &axis);
    if (!st) st = plan(im, &shape, axis, &t);
    if (!st) st = make_matrix(im, &t, wide, &matrix);
    if (st) return st;
    if (t.from < shape.dim[axis]) x = kiln_compose_slice(&c, x, axis, 0, t.from);
    x = swap(&c, x, axis, rank);
    shape.dim[axis] = shape.dim[rank - 2];
    kiln_shape rows = {2, {1, t.from * t.parts}}; /* the other dimensions, and the transformed
                                                   * one */
    for (uint32_t d = 0; d + 2 < rank; d++) rows.dim[0] *= shape.dim[d];
    x = kiln_compose_cast(&c, kiln_compose_reshape(&c, x, &rows), wide);
    x = kiln_compose_binary(&c, KILN_OP_MATMUL, x, kiln_compose_constant(&c, &matrix));
    x = kiln_compose_cast(&c, x, dtype);
    shape.dim[rank - 2] = t.to;
    shape.dim[rank - 1] = t.to_parts;
    kiln_compose_define(&c, 0, swap(&c, kiln_compose_reshape(&c, x, &shape), axis, rank));
    return c.st;
}

/* ---- STFT ------------------------------------------------------------------------------------ */

/* A convolution: its filters are the rows of the transform times the window. */
static void compose_stft(kiln_composer *c, const transform *t, kiln_value x, kiln_value window,
                         const kiln_tensor *matrix, int64_t step) {
    static const int64_t to_filters[] = {2, 1, 0}, channels_first[] = {0, 2, 1};
    const kiln_shape *shape = kiln_compose_shape(c, x);
    const int64_t batch = shape->dim[0], frames = (shape->dim[1] - t->length) / step + 1;
    const kiln_shape parts = {3, {t->length, t->parts, t->to * t->to_parts}};
    kiln_value filter = kiln_compose_reshape(c, kiln_compose_constant(c, matrix), &parts);
    filter = kiln_compose_ints(c, KILN_OP_TRANSPOSE, filter, "perm", to_filters, 3);
    if (window) filter = kiln_compose_binary(c, KILN_OP_MUL, filter, window);
    const kiln_value operand[] = {
        kiln_compose_ints(c, KILN_OP_TRANSPOSE, x, "perm", channels_first, 3), filter};
    const kiln_attr attr = kiln_attr_ints("strides", &step, 1);
    kiln_value y = 0;
    kiln_compose_node(c, KILN_OP_CONV, operand, 2, &attr, 1, &y, 1);
    y = kiln_compose_ints(c, KILN_OP_TRANSPOSE, y, "perm", channels_first, 3);
    kiln_compose_define(
        c, 0, kiln_compose_reshape(c, y, &(kiln_shape){4, {batch, frames, t->to, t->to_parts}}));
}

static kiln_status measure_frames(kiln_importer *im, const kiln_composer *c, kiln_value x,
                                  kiln_value window, int64_t *out_length, int64_t *out_step) {
    const kiln_shape *shape = kiln_compose_shape(c, x);
    *out_length = shape->dim[1];
    kiln_status st = demand_size(im, 1, "frame_step", 1, out_step);
    if (window) {
        const kiln_shape *own = kiln_compose_shape(c, window);
        if (own->rank != 1) return KILN_ERROR(INVALID_ARGUMENT, "window must be a vector");
        *out_length = own->dim[0];
    }
    if (!st && kiln_import_input(im, 3)) st = demand_size(im, 3, "frame_length", 1, out_length);
    if (st) return st;
    if (*out_length < 1 || *out_length > shape->dim[1] ||
        (window && kiln_compose_shape(c, window)->dim[0] != *out_length))
        return KILN_ERROR(INVALID_ARGUMENT, "frames of %lld do not fit the signal or the window",
                          (long long)*out_length);
    return KILN_OK;
}

kiln_status kiln_import_stft(kiln_importer *im) {
    kiln_composer c = {.im = im};
    kiln_tensor matrix;
    int64_t step = 0;
    const kiln_value x = kiln_import_input(im, 0), window = kiln_import_input(im, 2);
    if (!x) return KILN_ERROR(INVALID_ARGUMENT, "it has no signal");
    const kiln_shape *shape = kiln_compose_shape(&c, x);
    if (shape->rank != 3 || shape->dim[2] < 1 || shape->dim[2] > 2)
        return KILN_ERROR(INVALID_ARGUMENT, "its signal must be [batch, length, 1 or 2 parts]");
    transform t = {.parts = (uint32_t)shape->dim[2],
                   .to_parts = 2,
                   .half = kiln_import_int(im, "onesided", 1) != 0};
    if (t.half && t.parts != 1)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute onesided: its signal must be real");
    kiln_status st = measure_frames(im, &c, x, window, &t.length, &step);
    t.from = t.length;
    t.to = t.half ? t.length / 2 + 1 : t.length;
    if (!st) st = make_matrix(im, &t, kiln_compose_dtype(&c, x), &matrix);
    if (st) return st;
    compose_stft(&c, &t, x, window, &matrix, step);
    return c.st;
}
