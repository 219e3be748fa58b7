/* Operators that move elements between an image and its channels, or the batch. */
#include "compiler-core/frontend/tflite/import.h"

/* DEPTH_TO_SPACE, SPACE_TO_DEPTH */
void kiln_tflite_blocks(kiln_tflite *t) {
    const kiln_attr attr =
        kiln_attr_int("blocksize", kiln_tflite_option(t, KILN_TFLITE_BLOCKS_SIZE, 0));
    const kiln_value x = kiln_tflite_data(t, 0, KILN_TFLITE_FIRST);
    kiln_tflite_define(t, 0, kiln_tflite_node(t, t->row->op, &x, 1, &attr, 1), KILN_TFLITE_FIRST);
}

/* A dilated convolution is stored as one without dilation between these two. Dimension 0 is the
 * batch, 1 to `count` are split into blocks. */
typedef struct block_plan {
    kiln_tflite_tensor *x;
    uint32_t count;
    const int64_t *block; /* extent of a block: [count] */
    const int64_t *edge;  /* paddings or crops: [count][2] */
    int64_t product;      /* elements of a block */
} block_plan;

static bool read_blocks(kiln_tflite *t, block_plan *p) {
    uint32_t edges;
    p->x = kiln_tflite_needed(t, 0);
    if (!p->x || !kiln_tflite_ints(t, 1, 2, &p->block, &p->count) ||
        !kiln_tflite_ints(t, 2, 4, &p->edge, &edges))
        return false;
    bool good = p->x->shape.rank > p->count && edges == 2 * p->count;
    p->product = 1;
    for (uint32_t i = 0; good && i < p->count; i++) {
        good = p->block[i] >= 1 && p->block[i] <= 1024 && p->edge[2 * i] >= 0 &&
               p->edge[2 * i + 1] >= 0;
        p->product *= p->block[i];
    }
    if (good && p->x->shape.rank + p->count <= KILN_RANK_MAX) return true;
    kiln_tflite_fail(t, KILN_ERROR(INVALID_ARGUMENT, "its blocks do not fit its input"));
    return false;
}

static kiln_value padded(kiln_tflite *t, const block_plan *p, kiln_value x) {
    const uint32_t rank = p->x->shape.rank;
    int64_t pads[2 * KILN_RANK_MAX] = {0};
    for (uint32_t i = 0; i < p->count; i++) {
        pads[1 + i] = p->edge[2 * i];
        pads[rank + 1 + i] = p->edge[2 * i + 1];
    }
    const kiln_value input[] = {x, t->keeps ? kiln_tflite_zero(t, p->x) : 0};
    const kiln_attr attr = kiln_attr_ints("pads", pads, 2 * rank);
    return kiln_tflite_node(t, KILN_OP_PAD, input, t->keeps ? 2 : 1, &attr, 1);
}

void kiln_tflite_space_to_batch(kiln_tflite *t) {
    block_plan p;
    if (!read_blocks(t, &p)) return;
    const kiln_value x = padded(t, &p, kiln_tflite_data(t, 0, KILN_TFLITE_LAST));
    if (t->st) return;
    const kiln_shape in = *kiln_tflite_shape(t, x);
    kiln_shape cut = {0}, out = {.rank = in.rank};
    int64_t order[KILN_RANK_MAX];
    uint32_t moved = 0;
    cut.dim[cut.rank++] = in.dim[0];
    out.dim[0] = in.dim[0] * p.product;
    for (uint32_t i = 0; i < p.count; i++) {
        out.dim[1 + i] = in.dim[1 + i] / p.block[i];
        cut.dim[cut.rank++] = out.dim[1 + i];
        order[moved++] = cut.rank; /* the places in a block come first, then the batch */
        cut.dim[cut.rank++] = p.block[i];
    }
    order[moved++] = 0;
    for (uint32_t i = 0; i < p.count; i++) order[moved++] = 1 + 2 * i;
    for (uint32_t d = 1 + p.count; d < in.rank; d++) {
        order[moved++] = cut.rank;
        out.dim[d] = cut.dim[cut.rank++] = in.dim[d];
    }
    kiln_value y = kiln_tflite_transposed(t, kiln_tflite_reshaped(t, x, &cut), order);
    kiln_tflite_define(t, 0, kiln_tflite_reshaped(t, y, &out), KILN_TFLITE_LAST);
}

static kiln_value cropped(kiln_tflite *t, const block_plan *p, kiln_value x) {
    int64_t axis[2], start[2], end[2];
    if (t->st) return 0;
    for (uint32_t i = 0; i < p->count; i++) {
        axis[i] = 1 + i;
        start[i] = p->edge[2 * i];
        end[i] = kiln_tflite_shape(t, x)->dim[1 + i] - p->edge[2 * i + 1];
    }
    const kiln_attr attr[] = {kiln_attr_ints("axes", axis, p->count),
                              kiln_attr_ints("starts", start, p->count),
                              kiln_attr_ints("ends", end, p->count)};
    return kiln_tflite_node(t, KILN_OP_SLICE, &x, 1, attr, 3);
}

void kiln_tflite_batch_to_space(kiln_tflite *t) {
    block_plan p;
    if (!read_blocks(t, &p)) return;
    const kiln_value x = kiln_tflite_data(t, 0, KILN_TFLITE_LAST);
    if (t->st) return;
    const kiln_shape in = *kiln_tflite_shape(t, x);
    kiln_shape cut = {0}, out = {.rank = in.rank};
    int64_t order[KILN_RANK_MAX];
    uint32_t moved = 0;
    for (uint32_t i = 0; i < p.count; i++) cut.dim[cut.rank++] = p.block[i];
    order[moved++] = cut.rank;
    out.dim[0] = cut.dim[cut.rank++] = in.dim[0] / p.product;
    for (uint32_t i = 0; i < p.count; i++) {
        order[moved++] = cut.rank;
        order[moved++] = i;
        cut.dim[cut.rank++] = in.dim[1 + i];
        out.dim[1 + i] = in.dim[1 + i] * p.block[i];
    }
    for (uint32_t d = 1 + p.count; d < in.rank; d++) {
        order[moved++] = cut.rank;
        out.dim[d] = cut.dim[cut.rank++] = in.dim[d];
    }
    kiln_value y = kiln_tflite_transposed(t, kiln_tflite_reshaped(t, x, &cut), order);
    y = cropped(t, &p, kiln_tflite_reshaped(t, y, &out));
    kiln_tflite_define(t, 0, y, KILN_TFLITE_LAST);
}
