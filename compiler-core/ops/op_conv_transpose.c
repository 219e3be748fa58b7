/* Transposed convolutions of any number of spatial dimensions. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/ops/rules.h"

/* Pads and output sizes: from output_shape, auto_pad or pads and output_padding. */
static kiln_status resolve_transpose(const kiln_node_info *node, const kiln_shape *data,
                                     const kiln_shape *weight, kiln_sliding_window *w) {
    kiln_status st = kiln_sliding_window_resolve(node, data, weight, w);
    if (st) return st;
    uint32_t extra_count = 0, shape_count = 0;
    const int64_t *extra = kiln_node_ints(node, "output_padding", &extra_count);
    const int64_t *shape = kiln_node_ints(node, "output_shape", &shape_count);
    kiln_str auto_pad = kiln_node_text(node, "auto_pad");
    bool upper = kiln_str_is(auto_pad, "SAME_UPPER"),
         same = upper || kiln_str_is(auto_pad, "SAME_LOWER");
    if ((extra && extra_count != w->rank) ||
        (shape && shape_count != w->rank && shape_count != w->rank + 2))
        return KILN_ERROR(
            INVALID_ARGUMENT,
            "attributes output_padding and output_shape need one item per spatial dimension");
    for (uint32_t d = 0; d < w->rank; d++) {
        int64_t more = extra ? extra[d] : 0;
        int64_t full =
            (w->in[d] - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] + 1 + more;
        w->out[d] = shape  ? shape[d + shape_count - w->rank]
                    : same ? w->in[d] * w->stride[d]
                           : full - w->pad_low[d] - w->pad_high[d];
        if (shape || same) {
            int64_t total = KILN_MAX(full - w->out[d], 0);
            w->pad_low[d] = upper ? total / 2 : total - total / 2;
            if (!same) w->pad_low[d] = total / 2;
        }
        if (w->out[d] < 1 || more < 0)
            return KILN_ERROR(INVALID_ARGUMENT, "the output would be empty in dimension %u", d + 2);
    }
    return KILN_OK;
}

/* weights: [c_in][c_out / group][kernel..] */
kiln_status kiln_rule_conv_transpose(kiln_infer *infer) {
    const kiln_value_info *data = kiln_infer_input(infer, 0);
    const kiln_value_info *weight = kiln_infer_input(infer, 1);
    int64_t group = kiln_node_int(infer->node, "group");
    if (data->shape.rank != weight->shape.rank)
        return KILN_ERROR(INVALID_ARGUMENT, "data and weights differ in rank");
    if (weight->dtype != data->dtype)
        return KILN_ERROR(INVALID_ARGUMENT, "data and weights differ in type");
    kiln_sliding_window window;
    kiln_status st = resolve_transpose(infer->node, &data->shape, &weight->shape, &window);
    if (st) return st;
    if (group < 1 || data->shape.dim[1] % group != 0 || weight->shape.dim[0] != data->shape.dim[1])
        return KILN_ERROR(INVALID_ARGUMENT,
                          "attribute group: %lld groups do not fit %lld input channels",
                          (long long)group, (long long)data->shape.dim[1]);

    infer->shape[0].dim[1] = weight->shape.dim[1] * group;
    memcpy(&infer->shape[0].dim[2], window.out, sizeof *window.out * window.rank);
    return kiln_conv_check_bias(infer, 2, infer->shape[0].dim[1]);
}

/* How one spatial dimension is computed. Output o uses input i and element k of the kernel if o +
 * pad = stride * i + dilation * k.
 *
 * PHASES  Outputs of equal (o + pad) mod stride use the same elements of the kernel, one of every
 *         stride, as in a dense convolution. The phase is a separate iterator, so that products
 *         with nothing are not computed.
 * ONE     The input is one element long, which meets k = o + pad.
 * ANY     All elements of the kernel are tried. */
typedef enum form { PHASES, ONE, ANY } form;

typedef struct dimension {
    form form;
    int64_t stride, dilation, pad, in, out;
    int64_t taps;      /* elements of the kernel that are tried for each output */
    int64_t phases;    /* iterations of the phase; 1: no iterator */
    int64_t low, size; /* zeros before the input, and its length with zeros */
} dimension;

/* `rank_left`: dimensions that the sums may still have, for phases. */
static dimension plan(const kiln_sliding_window *w, uint32_t d, uint32_t *rank_left) {
    dimension p = {ANY,      w->stride[d], w->dilation[d], w->pad_low[d],
                   w->in[d], w->out[d],    w->kernel[d],   1,
                   0,        w->in[d]};
    if (p.dilation == 1 && p.in == 1 && p.pad + p.out <= p.taps) {
        p.form = ONE;
    } else if (p.dilation == 1 && p.taps % p.stride == 0 && p.out % p.stride == 0 &&
               (p.stride == 1 || *rank_left > 0)) {
        *rank_left -= p.stride > 1;
        p.form = PHASES;
        p.phases = p.stride;
        p.taps /= p.stride;
        p.low = KILN_MAX(p.taps - 1 - p.pad / p.stride, 0);
        p.size = KILN_MAX(p.low + p.in, p.low + (p.out + p.pad + p.stride - 1) / p.stride);
    }
    return p;
}

/* The input with zeros around it, as kiln_te_pad_window makes it. */
static kiln_buffer pad_input(kiln_te *te, const dimension *dim, uint32_t rank) {
    kiln_sliding_window w = {.rank = rank};
    for (uint32_t d = 0; d < rank; d++) {
        w.in[d] = dim[d].in;
        w.out[d] = dim[d].size;
        w.kernel[d] = w.stride[d] = w.dilation[d] = 1;
        w.pad_low[d] = dim[d].low;
        w.padded |= dim[d].size > dim[d].in;
    }
    return kiln_te_pad_window(te, &w, kiln_expr_zero(te->p, kiln_te_in_dtype(te, 0)));
}

/* The element of the (padded) input and of the kernel that `tap` is for output `o` of `phase`;
 * `*valid` gets the condition under which their product counts. */
static void meet(kiln_te *te, const dimension *d, kiln_expr o, kiln_expr phase, kiln_expr tap,
                 kiln_expr *out_data, kiln_expr *out_kernel, kiln_expr *valid) {
    if (d->form == ONE) {
        *out_data = kiln_index(te, 0);
        *out_kernel = kiln_index_affine(te, o, 1, d->pad);
        return;
    }
    if (d->form == PHASES) { /* taps in the order of the input, the reverse of the kernel's */
        int64_t whole = d->pad / d->stride;
        kiln_expr rest = kiln_index_affine(te, phase, 1, d->pad % d->stride);
        kiln_expr first = kiln_add(te, o, kiln_index_floordiv(te, rest, d->stride));
        *out_data =
            kiln_index_affine(te, kiln_add(te, first, tap), 1, whole + d->low + 1 - d->taps);
        *out_kernel = kiln_add(te, kiln_index_floormod(te, rest, d->stride),
                               kiln_index_affine(te, tap, -d->stride, d->stride * (d->taps - 1)));
        return;
    }
    kiln_expr reach = kiln_sub(te, kiln_index_affine(te, o, 1, d->pad),
                               kiln_mul(te, tap, kiln_index(te, d->dilation)));
    *out_data = kiln_index_floordiv(te, reach, d->stride);
    *out_kernel = tap;
    kiln_expr hit = kiln_equal(te, kiln_index_floormod(te, reach, d->stride), kiln_index(te, 0));
    hit = kiln_and(te, hit, kiln_index_inside(te, *out_data, 0, d->in));
    *valid = *valid ? kiln_and(te, *valid, hit) : hit;
}

/* Sums [n][c_out][phases..][outputs of a phase..]: dimensions of one phase have none. */
static kiln_buffer make_sums(kiln_te *te, const dimension *dim, uint32_t rank) {
    static const char *const names[3][6] = {{"ph", "pw", "pd", "p3", "p4", "p5"},
                                            {"oh", "ow", "od", "o3", "o4", "o5"},
                                            {"kh", "kw", "kd", "k3", "k4", "k5"}};
    const kiln_shape *weight = kiln_te_in_shape(te, 1);
    const kiln_shape *out = kiln_te_out_shape(te);
    int64_t groups = kiln_node_int(te->node, "group"), each = weight->dim[0] / groups;
    kiln_buffer padded = pad_input(te, dim, rank);
    kiln_te_block block = kiln_te_block_for(te, 0);
    kiln_expr index[KILN_RANK_MAX], data[KILN_RANK_MAX], kernel[KILN_RANK_MAX], phase[6], valid = 0;
    kiln_shape shape = {.rank = 2, .dim = {out->dim[0], out->dim[1]}};

    index[0] = data[0] = kiln_te_block_axis(te, &block, "n", shape.dim[0], false);
    kiln_expr group = kiln_index(te, 0);
    if (groups > 1) group = kiln_te_block_axis(te, &block, "g", groups, false);
    kernel[1] = kiln_te_block_axis(te, &block, "oc", weight->dim[1], false);
    index[1] = kiln_add(te, kiln_mul(te, group, kiln_index(te, weight->dim[1])), kernel[1]);
    for (uint32_t d = 0; d < rank; d++) {
        phase[d] = kiln_index(te, 0);
        if (dim[d].phases == 1) continue;
        phase[d] = kiln_te_block_axis(te, &block, names[0][d], dim[d].phases, false);
        index[shape.rank] = phase[d];
        shape.dim[shape.rank++] = dim[d].phases;
    }
    for (uint32_t d = 0; d < rank; d++) {
        int64_t outputs = dim[d].out / dim[d].phases;
        index[shape.rank] = kiln_te_block_axis(te, &block, names[1][d], outputs, false);
        shape.dim[shape.rank++] = outputs;
    }
    kiln_expr channel = kiln_te_block_axis(te, &block, "ic", each, true);
    kernel[0] = data[1] = kiln_add(te, kiln_mul(te, group, kiln_index(te, each)), channel);
    for (uint32_t d = 0; d < rank; d++) {
        kiln_expr tap = kiln_index(te, 0), o = index[shape.rank - rank + d];
        if (dim[d].form != ONE)
            tap = kiln_te_block_axis(te, &block, names[2][d], dim[d].taps, true);
        meet(te, &dim[d], o, phase[d], tap, &data[d + 2], &kernel[d + 2], &valid);
    }
    block.to = kiln_te_temp(te, "sum", kiln_te_out_wide(te), &shape);
    kiln_expr value =
        kiln_mul(te, kiln_te_read_window(te, padded, data), kiln_te_load(te, 1, kernel));
    if (valid) value = kiln_select(te, valid, value, kiln_te_const(te, value, 0));
    kiln_te_accumulate(te, &block, block.to, index, shape.rank, KILN_COMBINE_SUM, value);
    return block.to;
}

/* data: [n][c_in][spatial..], weights: [c_in][c_out / group][kernel..]. The sums are kept phase by
 * phase; a second block interleaves the phases, rounds, and adds the bias. */
void kiln_te_conv_transpose(kiln_te *te) {
    kiln_sliding_window w;
    KILN_CHECK(!resolve_transpose(te->node, kiln_te_in_shape(te, 0), kiln_te_in_shape(te, 1), &w));
    uint32_t rank = w.rank, rank_left = KILN_RANK_MAX - 2 - rank;
    dimension dim[KILN_RANK_MAX];
    for (uint32_t d = 0; d < rank; d++) dim[d] = plan(&w, d, &rank_left);
    kiln_buffer sum = make_sums(te, dim, rank);

    kiln_te_block block = kiln_te_output_begin(te, "join");
    kiln_expr index[KILN_RANK_MAX] = {block.i[0], block.i[1]};
    uint32_t count = 2;
    for (uint32_t d = 0; d < rank; d++)
        if (dim[d].phases > 1)
            index[count++] = kiln_index_floormod(te, block.i[d + 2], dim[d].phases);
    for (uint32_t d = 0; d < rank; d++)
        index[count++] = dim[d].phases > 1 ? kiln_index_floordiv(te, block.i[d + 2], dim[d].phases)
                                           : block.i[d + 2];
    kiln_expr value = kiln_te_at(te, sum, index);
    if (kiln_te_has(te, 2)) value = kiln_add(te, value, kiln_te_load(te, 2, &block.i[1]));
    kiln_te_put(te, &block, value);
}
