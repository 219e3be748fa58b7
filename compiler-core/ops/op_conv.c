/* Convolutions of any number of spatial dimensions. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/ops/rules.h"

kiln_status kiln_conv_check_bias(const kiln_infer *infer, uint32_t input, int64_t channels) {
    const kiln_value_info *bias = kiln_infer_input(infer, input);
    if (bias && (bias->shape.rank != 1 || bias->shape.dim[0] != channels))
        return KILN_ERROR(INVALID_ARGUMENT, "the bias must be a vector of %lld elements",
                          (long long)channels);
    return KILN_OK;
}

/* data: [n][c_in][spatial..], weights: [c_out][c_in / group][kernel..] -> [n][c_out][spatial..] */
kiln_status kiln_rule_conv(kiln_infer *infer) {
    const kiln_value_info *data = kiln_infer_input(infer, 0);
    const kiln_value_info *weight = kiln_infer_input(infer, 1);
    int64_t group = kiln_node_int(infer->node, "group");
    if (data->shape.rank != weight->shape.rank)
        return KILN_ERROR(INVALID_ARGUMENT, "data and weights differ in rank");
    kiln_sliding_window window;
    kiln_status st =
        kiln_sliding_window_resolve(infer->node, &data->shape, &weight->shape, &window);
    if (st) return st;
    int64_t c_out = weight->shape.dim[0];
    if (group < 1 || c_out % group != 0 || data->shape.dim[1] % group != 0 ||
        weight->shape.dim[1] != data->shape.dim[1] / group)
        return KILN_ERROR(
            INVALID_ARGUMENT,
            "attribute group: %lld groups do not fit %lld input and %lld output channels",
            (long long)group, (long long)data->shape.dim[1], (long long)c_out);
    bool integer = infer->node->op == KILN_OP_CONV_INTEGER;
    if (integer) infer->dtype[0] = KILN_I32;
    infer->shape[0].dim[1] = c_out;
    memcpy(&infer->shape[0].dim[2], window.out, sizeof *window.out * window.rank);
    if (integer) {
        const kiln_value_info *zero = kiln_infer_input(infer, 3);
        return !zero || kiln_shape_count(&zero->shape) == 1 ? KILN_OK
                                                            : kiln_conv_check_bias(infer, 3, c_out);
    }
    if (weight->dtype != data->dtype)
        return KILN_ERROR(INVALID_ARGUMENT, "data and weights differ in type");
    return kiln_conv_check_bias(infer, 2, c_out);
}

/* The iterators of a convolution. With several groups of several channels each, the output channel
 * is group * channels_per_group + channel, and the group is an iterator of its own. */
typedef struct conv_axes {
    kiln_te_block block;
    kiln_expr out[KILN_RANK_MAX];    /* output index */
    kiln_expr data[KILN_RANK_MAX];   /* index into padded data */
    kiln_expr weight[KILN_RANK_MAX]; /* index into weights */
} conv_axes;

static conv_axes make_axes(kiln_te *te, kiln_buffer sums, const kiln_sliding_window *w) {
    static const char *const spatial[6] = {"oh", "ow", "od", "o3", "o4", "o5"};
    static const char *const kernel[6] = {"kh", "kw", "kd", "k3", "k4", "k5"};
    const kiln_shape *weight = kiln_te_in_shape(te, 1);
    int64_t groups = kiln_node_int(te->node, "group"), each = weight->dim[0] / groups;
    conv_axes a = {.block = kiln_te_block_for(te, sums)};

    a.out[0] = a.data[0] =
        kiln_te_block_axis(te, &a.block, "n", kiln_te_in_shape(te, 0)->dim[0], false);
    kiln_expr group = kiln_index(te, 0);
    if (groups > 1) group = kiln_te_block_axis(te, &a.block, "g", groups, false);
    a.out[1] = group;
    if (groups == 1 || each > 1) {
        kiln_expr channel = kiln_te_block_axis(te, &a.block, "oc", each, false);
        a.out[1] = kiln_add(te, kiln_mul(te, group, kiln_index(te, each)), channel);
    }
    a.weight[0] = a.out[1];
    for (uint32_t d = 0; d < w->rank; d++)
        a.out[d + 2] = kiln_te_block_axis(te, &a.block, spatial[d], w->out[d], false);
    a.data[1] = group; /* one input channel per group needs no iterator */
    a.weight[1] = kiln_index(te, 0);
    if (weight->dim[1] != 1) {
        a.weight[1] = kiln_te_block_axis(te, &a.block, "ic", weight->dim[1], true);
        a.data[1] = kiln_add(te, kiln_mul(te, group, kiln_index(te, weight->dim[1])), a.weight[1]);
    }
    for (uint32_t d = 0; d < w->rank; d++) {
        a.weight[d + 2] = kiln_te_block_axis(te, &a.block, kernel[d], w->kernel[d], true);
        a.data[d + 2] = kiln_add(te, kiln_mul(te, a.out[d + 2], kiln_index(te, w->stride[d])),
                                 kiln_mul(te, a.weight[d + 2], kiln_index(te, w->dilation[d])));
    }
    return a;
}

/* An element of an integer operand as i32 with its zero point (a scalar, or one per output channel)
 * taken off. */
static kiln_expr integer_operand(kiln_te *te, kiln_expr element, uint32_t zero_input,
                                 kiln_expr channel) {
    kiln_expr value = kiln_cast(te, KILN_I32, element);
    if (!kiln_te_has(te, zero_input)) return value;
    bool vector = kiln_shape_count(kiln_te_in_shape(te, zero_input)) != 1;
    return kiln_sub(te, value,
                    vector ? kiln_cast(te, KILN_I32, kiln_te_load(te, zero_input, &channel))
                           : kiln_te_load_scalar(te, zero_input, KILN_I32));
}

/* output = sum + bias by channel. */
static void add_bias(kiln_te *te, kiln_buffer sum) {
    kiln_te_block block = kiln_te_output_begin(te, "bias");
    kiln_te_put(te, &block,
                kiln_add(te, kiln_te_at(te, sum, block.i), kiln_te_load(te, 2, &block.i[1])));
}

void kiln_te_conv(kiln_te *te) {
    kiln_sliding_window window;
    KILN_CHECK(!kiln_sliding_window_resolve(te->node, kiln_te_in_shape(te, 0),
                                            kiln_te_in_shape(te, 1), &window));
    kiln_dtype wide = kiln_te_out_wide(te), in = kiln_te_in_dtype(te, 0);
    bool integer = te->node->op == KILN_OP_CONV_INTEGER, has_bias = !integer && kiln_te_has(te, 2);
    /* the element that means zero */
    kiln_expr fill =
        integer && kiln_te_has(te, 2) ? kiln_te_load_scalar(te, 2, in) : kiln_expr_zero(te->p, in);
    static const int channel[KILN_RANK_MAX] = {1, -1, -1, -1, -1, -1, -1, -1};
    kiln_te_bytes bytes = integer ? kiln_te_bytes_begin(te, channel) : (kiln_te_bytes){0};
    kiln_buffer padded = kiln_te_pad_window(te, &window, fill);
    kiln_buffer sum = kiln_te_sums(te, has_bias || bytes.zero);

    conv_axes a = make_axes(te, sum, &window);
    kiln_expr x = kiln_te_read_window(te, padded, a.data), y = kiln_te_load(te, 1, a.weight);
    if (integer && !bytes.applies) {
        x = integer_operand(te, x, 2, 0);
        y = integer_operand(te, y, 3, a.out[1]);
    }
    x = kiln_cast(te, wide, x);
    y = kiln_cast(te, wide, y);
    kiln_te_accumulate(te, &a.block, sum, a.out, window.rank + 2, KILN_COMBINE_SUM,
                       kiln_mul(te, x, y));
    if (bytes.zero)
        kiln_te_bytes_finish(te, &bytes, sum);
    else if (has_bias)
        add_bias(te, sum);
    else
        kiln_te_round(te, sum);
}
