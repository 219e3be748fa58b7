/* Sliding windows: what convolution and pooling share. */
#include <math.h>

#include "base/check.h"
#include "compiler-core/ops/rules.h"

#define WINDOW_VALUE_MAX \
    ((int64_t)1 << 31) /* of strides, dilations, pads and kernels: keeps sums in range */

/* One list attribute of `rank` (or 2*rank) items; false: not given, or all zero items missing. */
static kiln_status read_list(const kiln_node_info *node, const char *name, uint32_t expected,
                             int64_t least, const int64_t **out) {
    uint32_t count = 0;
    const int64_t *list = kiln_node_ints(node, name, &count);
    if (list && count == 0) list = NULL;
    if (list && count != expected)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute %s has %u items instead of %u", name, count,
                          expected);
    for (uint32_t i = 0; list && i < count; i++)
        if (list[i] < least || list[i] > WINDOW_VALUE_MAX)
            return KILN_ERROR(INVALID_ARGUMENT, "attribute %s: %lld is out of range", name,
                              (long long)list[i]);
    *out = list;
    return KILN_OK;
}

/* Pads of one dimension for auto_pad SAME_*: as many outputs as ceil(in / stride). */
static void pad_same(kiln_sliding_window *w, uint32_t d, bool upper) {
    int64_t out = (w->in[d] + w->stride[d] - 1) / w->stride[d];
    int64_t reach = (out - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] + 1;
    int64_t total = KILN_MAX(reach - w->in[d], 0);
    w->pad_low[d] = upper ? total / 2 : total - total / 2;
    w->pad_high[d] = total - w->pad_low[d];
}

static kiln_status resolve_dimension(const kiln_node_info *node, kiln_sliding_window *w,
                                     uint32_t d) {
    bool has_ceil = node->op == KILN_OP_MAX_POOL || node->op == KILN_OP_AVERAGE_POOL ||
                    node->op == KILN_OP_LP_POOL;
    kiln_str auto_pad = kiln_node_text(node, "auto_pad");
    if (kiln_str_is(auto_pad, "SAME_UPPER") || kiln_str_is(auto_pad, "SAME_LOWER")) {
        pad_same(w, d, kiln_str_is(auto_pad, "SAME_UPPER"));
    } else if (kiln_str_is(auto_pad, "VALID")) {
        w->pad_low[d] = w->pad_high[d] = 0;
    } else if (!kiln_str_is(auto_pad, "NOTSET") && auto_pad.size) {
        return KILN_ERROR(INVALID_ARGUMENT, "attribute auto_pad: \"%.*s\" is not known",
                          KILN_STR_ARG(auto_pad));
    }
    int64_t span = (w->kernel[d] - 1) * w->dilation[d] + 1;
    int64_t room = w->in[d] + w->pad_low[d] + w->pad_high[d] - span;
    if (room < 0)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "the window (%lld) is larger than dimension %u with its padding",
                          (long long)span, d + 2);
    bool ceil_mode = has_ceil && kiln_node_int(node, "ceil_mode") != 0;
    w->out[d] = (ceil_mode ? (room + w->stride[d] - 1) / w->stride[d] : room / w->stride[d]) + 1;
    /* A window must start inside the input or its low padding. */
    if (ceil_mode && (w->out[d] - 1) * w->stride[d] >= w->in[d] + w->pad_low[d]) w->out[d]--;
    int64_t reach = (w->out[d] - 1) * w->stride[d] + span;
    w->padded = w->padded || w->pad_low[d] > 0 || reach > w->in[d];
    return KILN_OK;
}

kiln_status kiln_sliding_window_resolve(const kiln_node_info *node, const kiln_shape *input,
                                        const kiln_shape *kernel, kiln_sliding_window *out_window) {
    if (input->rank < 3)
        return KILN_ERROR(INVALID_ARGUMENT, "input 0 has %u dimensions; at least 3 are needed",
                          input->rank);
    kiln_sliding_window w = {.rank = input->rank - 2};
    const int64_t *size = NULL, *stride = NULL, *dilation = NULL, *pad = NULL;
    kiln_status st = read_list(node, "kernel_shape", w.rank, 1, &size);
    if (!st) st = read_list(node, "strides", w.rank, 1, &stride);
    if (!st) st = read_list(node, "dilations", w.rank, 1, &dilation);
    if (!st) st = read_list(node, "pads", 2 * w.rank, 0, &pad);
    if (!st && !size && !kernel)
        st = KILN_ERROR(INVALID_ARGUMENT, "attribute kernel_shape is missing");
    for (uint32_t d = 0; !st && d < w.rank; d++) {
        w.in[d] = input->dim[d + 2];
        w.kernel[d] = kernel ? kernel->dim[d + 2] : size[d];
        w.stride[d] = stride ? stride[d] : 1;
        w.dilation[d] = dilation ? dilation[d] : 1;
        w.pad_low[d] = pad ? pad[d] : 0;
        w.pad_high[d] = pad ? pad[d + w.rank] : 0;
        if (size && w.kernel[d] != size[d])
            st = KILN_ERROR(INVALID_ARGUMENT, "attribute kernel_shape contradicts the weights");
        if (!st && w.kernel[d] < 1) st = KILN_ERROR(INVALID_ARGUMENT, "the kernel is empty");
        if (!st && node->op != KILN_OP_CONV_TRANSPOSE) st = resolve_dimension(node, &w, d);
    }
    if (!st) *out_window = w;
    return st;
}

kiln_buffer kiln_te_pad_window(kiln_te *te, const kiln_sliding_window *window, kiln_expr fill) {
    if (!window->padded) return 0;
    kiln_shape shape = *kiln_te_in_shape(te, 0);
    for (uint32_t d = 0; d < window->rank; d++)
        shape.dim[d + 2] = (window->out[d] - 1) * window->stride[d] +
                           (window->kernel[d] - 1) * window->dilation[d] + 1;

    kiln_te_block block = kiln_te_temp_begin(te, "pad", kiln_te_in_dtype(te, 0), &shape);
    kiln_expr index[KILN_RANK_MAX] = {block.i[0], block.i[1]};
    kiln_expr inside = kiln_expr_int(te->p, KILN_BOOL, 1);
    for (uint32_t d = 0; d < window->rank; d++) {
        index[d + 2] = kiln_index_affine(te, block.i[d + 2], 1, -window->pad_low[d]);
        int64_t last = shape.dim[d + 2] - 1 - window->pad_low[d];
        if (window->pad_low[d] > 0)
            inside = kiln_and(te, inside, kiln_less_equal(te, kiln_index(te, 0), index[d + 2]));
        if (last >= window->in[d])
            inside =
                kiln_and(te, inside, kiln_less(te, index[d + 2], kiln_index(te, window->in[d])));
    }
    kiln_te_put(te, &block, kiln_select(te, inside, kiln_te_load_raw(te, 0, index), fill));
    return block.to;
}

kiln_expr kiln_te_read_window(kiln_te *te, kiln_buffer padded, const kiln_expr *index) {
    return padded ? kiln_te_at(te, padded, index) : kiln_te_load(te, 0, index);
}
