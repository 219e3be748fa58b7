/* Layers with weights, pooling and resizing.
 *
 * Convolutions and products of quantised tensors sum integers, and scale the sums:
 *
 *     sum of (x - zero_x) * scale_x * (w - zero_w) * scale_w  =  scale_x * scale_w * (integer sum)
 *
 * A bias that was quantised with the scale of the sums is added to the sums. Other operators
 * compute with real values. */
#include <math.h>

#include "compiler-core/frontend/tflite/import.h"

/* ---- weights --------------------------------------------------------------------------------- */

/* Operands of a convolution or product. */
typedef struct layer {
    kiln_tflite_tensor *x, *w, *bias; /* bias: NULL: none */
    const int64_t *order;             /* order of the weights' dimensions for the operator */
    uint32_t channel_axis;            /* dimension of the file's weights that counts results */
    uint32_t rest;                    /* dimensions of the result behind its channels */
} layer;

/* Reads the operands; false if one is missing or the weights do not have `rank` dimensions. */
static bool read_layer(kiln_tflite *t, uint32_t x, uint32_t w, uint32_t bias, uint32_t rank,
                       layer *out) {
    out->x = kiln_tflite_needed(t, x);
    out->w = kiln_tflite_needed(t, w);
    out->bias = kiln_tflite_input(t, bias);
    if (!t->st && out->w->shape.rank != rank)
        kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "its weights have %u dimensions, not %u",
                                       out->w->shape.rank, rank));
    return !t->st;
}

static bool is_byte(kiln_dtype dtype) { return dtype == KILN_I8 || dtype == KILN_U8; }

/* Whether the sums of products are integers that one number, or one per channel, scales. */
static bool sums_integers(const kiln_tflite *t, const layer *l) {
    const kiln_tflite_tensor *y = kiln_tflite_output(t, 0), *x = l->x, *w = l->w;
    if (!x->quantised || !w->quantised || !y || !y->quantised) return false;
    if (!is_byte(x->dtype) || !is_byte(w->dtype) || x->scale.shape.rank) return false;
    return w->scale.shape.rank ? w->axis == l->channel_axis && w->zero_is_zero : true;
}

/* Weights in the operator's order, stored or real. */
static kiln_value weights(kiln_tflite *t, const layer *l, bool real) {
    kiln_value w = kiln_tflite_stored(t, l->w, KILN_TFLITE_LAST);
    if (l->order) w = kiln_tflite_transposed(t, w, l->order);
    if (t->st || !real || !l->w->quantised) return w;
    uint32_t axis = 0;
    while (l->order && l->order[axis] != (int64_t)l->w->axis) axis++;
    if (!l->order) axis = l->w->axis;
    const bool many = l->w->scale.shape.rank > 0;
    const kiln_attr attr = kiln_attr_int("axis", axis);
    const kiln_value input[] = {w, kiln_tflite_scale(t, l->w), kiln_tflite_zero(t, l->w)};
    return kiln_tflite_node(t, KILN_OP_DEQUANTIZE_LINEAR, input, 3, &attr, many);
}

/* Reshapes a vector over channels to broadcast to a result with `rest` dimensions behind them. */
static kiln_value along_channels(kiln_tflite *t, kiln_value vector, uint32_t rest) {
    if (t->st || kiln_tflite_shape(t, vector)->rank != 1) return vector;
    kiln_shape shape = {.rank = rest + 1, .dim = {kiln_tflite_shape(t, vector)->dim[0]}};
    for (uint32_t d = 1; d <= rest; d++) shape.dim[d] = 1;
    return kiln_tflite_reshaped(t, vector, &shape);
}

/* ---- sums of integers ------------------------------------------------------------------------ */

static kiln_tensor product_of_scales(const kiln_tflite *t, const layer *l) {
    const kiln_tensor product = kiln_tensor_create(t->graph->arena, KILN_F32, &l->w->scale.shape);
    const float *x = l->x->scale.data, *w = l->w->scale.data;
    for (int64_t i = 0; i < kiln_shape_count(&product.shape); i++)
        ((float *)product.data)[i] = (float)((double)x[0] * (double)w[i]);
    return product;
}

static bool bias_is_of_sums(const kiln_tflite_tensor *bias, const kiln_tensor *scale) {
    if (!bias || !bias->quantised || bias->dtype != KILN_I32 || !bias->zero_is_zero ||
        !kiln_shape_equal(&bias->scale.shape, &scale->shape))
        return false;
    const float *own = bias->scale.data, *sums = scale->data;
    for (int64_t i = 0; i < kiln_shape_count(&scale->shape); i++)
        if (fabs((double)own[i] - (double)sums[i]) > 1e-6 * (double)sums[i]) return false;
    return true;
}

/* `op` is conv_integer or matmul_integer; `x` is its first operand as stored. */
static kiln_value scaled_sums(kiln_tflite *t, const layer *l, kiln_op op, kiln_value x,
                              const kiln_attr *attr, uint32_t attr_count) {
    const kiln_tensor scale = product_of_scales(t, l);
    const bool x_zero = !l->x->zero_is_zero, w_zero = !l->w->zero_is_zero;
    const kiln_value operand[] = {x, weights(t, l, false), x_zero ? kiln_tflite_zero(t, l->x) : 0,
                                  w_zero ? kiln_tflite_zero(t, l->w) : 0};
    const uint32_t count = w_zero ? 4 : x_zero ? 3 : 2;
    const bool whole = bias_is_of_sums(l->bias, &scale);
    kiln_value y = kiln_tflite_node(t, op, operand, count, attr, attr_count);
    if (whole)
        y = kiln_tflite_binary(
            t, KILN_OP_ADD, y,
            along_channels(t, kiln_tflite_stored(t, l->bias, KILN_TFLITE_LAST), l->rest));
    y = kiln_tflite_binary(t, KILN_OP_MUL, kiln_tflite_cast(t, y, KILN_F32),
                           along_channels(t, kiln_tflite_constant(t, &scale), l->rest));
    if (l->bias && !whole)
        y = kiln_tflite_binary(
            t, KILN_OP_ADD, y,
            along_channels(t, kiln_tflite_real(t, l->bias, KILN_TFLITE_LAST), l->rest));
    return y;
}

/* ---- convolutions ---------------------------------------------------------------------------- */

static int64_t windows_padding(const kiln_tflite *t) {
    return kiln_tflite_option(t, KILN_TFLITE_CONV_2D_PADDING, 0);
}

/* auto_pad and strides, whose fields are the same in all windows' options. */
static bool read_window(kiln_tflite *t, kiln_attr *pad, int64_t *stride) {
    const int64_t padding = windows_padding(t);
    stride[0] = kiln_tflite_option(t, KILN_TFLITE_CONV_2D_STRIDE_H, 0);
    stride[1] = kiln_tflite_option(t, KILN_TFLITE_CONV_2D_STRIDE_W, 0);
    *pad = kiln_tflite_word("auto_pad", padding ? "VALID" : "SAME_UPPER");
    if (padding != 0 && padding != 1)
        kiln_tflite_fail(t,
                         KILN_ERROR(INVALID_ARGUMENT, "padding number %lld", (long long)padding));
    return !t->st;
}

static void convolve(kiln_tflite *t, layer *l, int64_t group, const int64_t *dilation) {
    int64_t stride[2];
    kiln_attr attr[4];
    if (!read_window(t, &attr[0], stride)) return;
    attr[1] = kiln_attr_ints("strides", stride, 2);
    attr[2] = kiln_attr_ints("dilations", dilation, 2);
    attr[3] = kiln_attr_int("group", group);
    l->rest = 2;
    kiln_value y;
    if (sums_integers(t, l)) {
        y = scaled_sums(t, l, KILN_OP_CONV_INTEGER, kiln_tflite_stored(t, l->x, KILN_TFLITE_FIRST),
                        attr, 4);
    } else {
        const kiln_value operand[] = {kiln_tflite_real(t, l->x, KILN_TFLITE_FIRST),
                                      weights(t, l, true),
                                      l->bias ? kiln_tflite_real(t, l->bias, KILN_TFLITE_LAST) : 0};
        y = kiln_tflite_node(t, KILN_OP_CONV, operand, l->bias ? 3 : 2, attr, 4);
    }
    kiln_tflite_define(t, 0, y, KILN_TFLITE_FIRST);
}

/* Weights are [out, height, width, in / group]. */
void kiln_tflite_conv(kiln_tflite *t) {
    static const int64_t order[] = {0, 3, 1, 2};
    layer l = {.order = order, .channel_axis = 0};
    const int64_t dilation[] = {kiln_tflite_option(t, KILN_TFLITE_CONV_2D_DILATION_H, 1),
                                kiln_tflite_option(t, KILN_TFLITE_CONV_2D_DILATION_W, 1)};
    if (!read_layer(t, 0, 1, 2, 4, &l)) return;
    const int64_t in = l.w->shape.dim[3];
    if (l.x->shape.rank != 4 || in == 0 || l.x->shape.dim[3] % in)
        kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "its weights do not fit its input"));
    else
        convolve(t, &l, l.x->shape.dim[3] / in, dilation);
}

/* Weights are [1, height, width, in * multiplier]. */
void kiln_tflite_depthwise(kiln_tflite *t) {
    static const int64_t order[] = {3, 0, 1, 2};
    layer l = {.order = order, .channel_axis = 3};
    const int64_t dilation[] = {kiln_tflite_option(t, KILN_TFLITE_DEPTHWISE_CONV_2D_DILATION_H, 1),
                                kiln_tflite_option(t, KILN_TFLITE_DEPTHWISE_CONV_2D_DILATION_W, 1)};
    if (!read_layer(t, 0, 1, 2, 4, &l)) return;
    if (l.x->shape.rank != 4 || l.w->shape.dim[0] != 1)
        kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "its weights do not fit its input"));
    else
        convolve(t, &l, l.x->shape.dim[3], dilation);
}

/* The padding and the room at the end of one dimension that give a result of `out`. */
static bool pad_transposed(kiln_tflite *t, int64_t in, int64_t out, int64_t kernel, int64_t stride,
                           int64_t *low, int64_t *high, int64_t *room) {
    if (in < 1 || in > INT32_MAX || out < 1 || kernel < 1 || kernel > INT32_MAX || stride < 1) {
        kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "its shapes do not fit each other"));
        return false;
    }
    const int64_t total = (in - 1) * stride + kernel - out;
    *low = windows_padding(t) == 0 && total > 0 ? total / 2 : 0;
    *high = total > *low ? total - *low : 0;
    *room = total < 0 ? -total : 0;
    return true;
}

/* Inputs: the shape of the result, weights as [out, height, width, in], data, bias. */
void kiln_tflite_transpose_conv(kiln_tflite *t) {
    static const int64_t order[] = {3, 0, 1, 2};
    layer l = {.order = order, .channel_axis = 0, .rest = 2};
    const int64_t *shape;
    uint32_t count;
    int64_t stride[2], pad[4], room[2];
    kiln_attr ignored;
    if (!read_layer(t, 2, 1, 3, 4, &l) || !kiln_tflite_ints(t, 0, 4, &shape, &count) ||
        !read_window(t, &ignored, stride))
        return;
    if (count != 4 || l.x->shape.rank != 4) {
        kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "its shapes do not have 4 dimensions"));
        return;
    }
    for (uint32_t d = 0; d < 2; d++)
        if (!pad_transposed(t, l.x->shape.dim[d + 1], shape[d + 1], l.w->shape.dim[d + 1],
                            stride[d], &pad[d], &pad[d + 2], &room[d]))
            return;
    const kiln_attr attr[] = {kiln_attr_ints("strides", stride, 2), kiln_attr_ints("pads", pad, 4),
                              kiln_attr_ints("output_padding", room, 2)};
    const kiln_value operand[] = {kiln_tflite_real(t, l.x, KILN_TFLITE_FIRST), weights(t, &l, true),
                                  l.bias ? kiln_tflite_real(t, l.bias, KILN_TFLITE_LAST) : 0};
    kiln_tflite_define(
        t, 0, kiln_tflite_node(t, KILN_OP_CONV_TRANSPOSE, operand, l.bias ? 3 : 2, attr, 3),
        KILN_TFLITE_FIRST);
}

/* ---- products -------------------------------------------------------------------------------- */

/* The data as rows of the length of the weights' rows. */
static kiln_value rows_of(kiln_tflite *t, const layer *l, kiln_value x) {
    const int64_t in = l->w->shape.dim[1], count = t->st ? 0 : kiln_shape_count(&l->x->shape);
    if (!t->st && (in == 0 || count % in))
        kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "its weights do not fit its input"));
    if (t->st) return 0;
    return kiln_tflite_reshaped(t, x, &(kiln_shape){2, {count / in, in}});
}

/* Weights are [out, in]. */
void kiln_tflite_fully_connected(kiln_tflite *t) {
    static const int64_t swap[] = {1, 0};
    layer l = {.channel_axis = 0, .rest = 0};
    if (!read_layer(t, 0, 1, 2, 2, &l)) return;
    if (kiln_tflite_option(t, KILN_TFLITE_FULLY_CONNECTED_FORMAT, 0)) {
        kiln_tflite_fail(t, KILN_ERROR(UNIMPLEMENTED, "weights that are shuffled"));
        return;
    }
    kiln_value y;
    if (sums_integers(t, &l)) {
        l.order = swap;
        y = scaled_sums(t, &l, KILN_OP_MATMUL_INTEGER,
                        rows_of(t, &l, kiln_tflite_stored(t, l.x, KILN_TFLITE_LAST)), NULL, 0);
    } else {
        const kiln_attr attr = kiln_attr_int("transB", 1);
        const kiln_value operand[] = {rows_of(t, &l, kiln_tflite_real(t, l.x, KILN_TFLITE_LAST)),
                                      weights(t, &l, true),
                                      l.bias ? kiln_tflite_real(t, l.bias, KILN_TFLITE_LAST) : 0};
        y = kiln_tflite_node(t, KILN_OP_GEMM, operand, l.bias ? 3 : 2, &attr, 1);
    }
    if (!t->st && kiln_tflite_option(t, KILN_TFLITE_FULLY_CONNECTED_KEEP_DIMS, 0) &&
        l.x->shape.rank) {
        kiln_shape shape = l.x->shape;
        shape.dim[shape.rank - 1] = l.w->shape.dim[0];
        y = kiln_tflite_reshaped(t, y, &shape);
    }
    kiln_tflite_define(t, 0, y, KILN_TFLITE_LAST);
}

static kiln_value adjoint(kiln_tflite *t, kiln_value a, bool turned) {
    if (t->st || !turned) return a;
    const uint32_t rank = kiln_tflite_shape(t, a)->rank;
    int64_t order[KILN_RANK_MAX];
    for (uint32_t d = 0; d < rank; d++) order[d] = d;
    if (rank >= 2) {
        order[rank - 1] = rank - 2;
        order[rank - 2] = rank - 1;
    }
    return kiln_tflite_transposed(t, a, order);
}

void kiln_tflite_batch_matmul(kiln_tflite *t) {
    const kiln_value x = adjoint(t, kiln_tflite_data(t, 0, KILN_TFLITE_LAST),
                                 kiln_tflite_option(t, KILN_TFLITE_BATCH_MATMUL_ADJOINT_X, 0)),
                     y = adjoint(t, kiln_tflite_data(t, 1, KILN_TFLITE_LAST),
                                 kiln_tflite_option(t, KILN_TFLITE_BATCH_MATMUL_ADJOINT_Y, 0));
    kiln_tflite_define(t, 0, kiln_tflite_binary(t, KILN_OP_MATMUL, x, y), KILN_TFLITE_LAST);
}

/* ---- pooling and resizing -------------------------------------------------------------------- */

void kiln_tflite_pool(kiln_tflite *t) {
    const int64_t kernel[] = {kiln_tflite_option(t, KILN_TFLITE_POOL_2D_FILTER_H, 0),
                              kiln_tflite_option(t, KILN_TFLITE_POOL_2D_FILTER_W, 0)};
    int64_t stride[2];
    kiln_attr attr[3];
    if (!read_window(t, &attr[0], stride)) return;
    attr[1] = kiln_attr_ints("strides", stride, 2);
    attr[2] = kiln_attr_ints("kernel_shape", kernel, 2);
    const kiln_value x = kiln_tflite_data(t, 0, KILN_TFLITE_FIRST);
    kiln_tflite_define(t, 0, kiln_tflite_node(t, t->row->op, &x, 1, attr, 3), KILN_TFLITE_FIRST);
}

/* Input 1 is the new height and width. */
static void resize(kiln_tflite *t, const char *mode, const char *coordinates, const char *nearest) {
    static const int64_t axes[] = {2, 3};
    const int64_t *size;
    uint32_t count;
    if (!kiln_tflite_ints(t, 1, 2, &size, &count)) return;
    t->keeps = mode[0] == 'n' && kiln_tflite_same_numbers(t);
    const kiln_value x = kiln_tflite_data(t, 0, KILN_TFLITE_FIRST);
    const kiln_attr attr[] = {kiln_attr_ints("axes", axes, 2), kiln_attr_ints("sizes", size, count),
                              kiln_tflite_word("mode", mode),
                              kiln_tflite_word("coordinate_transformation_mode", coordinates),
                              kiln_tflite_word("nearest_mode", nearest)};
    kiln_tflite_define(t, 0, kiln_tflite_node(t, KILN_OP_RESIZE, &x, 1, attr, 5),
                       KILN_TFLITE_FIRST);
}

void kiln_tflite_resize_bilinear(kiln_tflite *t) {
    const bool corners = kiln_tflite_option(t, KILN_TFLITE_RESIZE_BILINEAR_ALIGN_CORNERS, 0),
               half = kiln_tflite_option(t, KILN_TFLITE_RESIZE_BILINEAR_HALF_PIXEL, 0);
    resize(t, "linear", corners ? "align_corners" : half ? "half_pixel" : "asymmetric", "floor");
}

void kiln_tflite_resize_nearest(kiln_tflite *t) {
    const bool corners = kiln_tflite_option(t, KILN_TFLITE_RESIZE_NEAREST_ALIGN_CORNERS, 0),
               half = kiln_tflite_option(t, KILN_TFLITE_RESIZE_NEAREST_HALF_PIXEL, 0);
    resize(t, "nearest",
           corners ? "align_corners"
           : half  ? "tf_half_pixel_for_nn"
                   : "asymmetric",
           corners ? "round_prefer_ceil" : "floor");
}
