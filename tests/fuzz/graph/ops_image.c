/* Operators on images that are composed of others. */
#include "tests/fuzz/graph/rules.h"

bool draw_affine_grid(draw *d) {
    const uint32_t rank = (uint32_t)between(d, 2, 3);
    int64_t size[5] = {between(d, 1, 2), between(d, 1, 3)};
    for (uint32_t i = 0; i < rank; i++) size[i + 2] = between(d, 1, 6);
    feed_of(d, draw_dtype(d, T_(F32) | T_(F64)), (kiln_shape){3, {size[0], rank, rank + 1}}, -2, 2);
    feed_ints(d, size, rank + 2);
    const bool corners = chance(d, 50);
    for (uint32_t i = 0; i < rank && corners; i++)
        if (size[i + 2] == 1) peer_may_differ(d, "the corner of one position is 1 there, -1 here");
    set_int(d, "align_corners", corners);
    results(d, 1);
    return true;
}

bool draw_center_crop_pad(draw *d) {
    const kiln_shape shape = feed(d, &(wanted){ANY & ~TRUTHS, 1, 4, 0, 0})->truth.shape;
    int64_t size[KILN_RANK_MAX], axis[KILN_RANK_MAX];
    uint32_t count = 0;
    const bool some = chance(d, 50);
    for (uint32_t i = 0; i < shape.rank; i++) {
        if (some && chance(d, 50)) continue;
        axis[count] = chance(d, 30) ? (int64_t)i - shape.rank : (int64_t)i;
        size[count++] = between(d, 1, 9);
    }
    if (count == 0) return false;
    feed_ints(d, size, count);
    if (some) set_ints(d, "axes", axis, count);
    results(d, 1);
    return true;
}

/* Blocks or windows on an image: how many there are along each dimension. */
typedef struct blocks {
    int64_t image[3], block[3], stride[3], dilation[3], pads[6], count[3];
} blocks;

static blocks draw_blocks(draw *d, uint32_t rank) {
    blocks b;
    for (uint32_t i = 0; i < rank; i++) {
        b.block[i] = between(d, 1, 3);
        b.stride[i] = between(d, 1, 3);
        b.dilation[i] = between(d, 1, 2);
        b.pads[i] = between(d, 0, 1);
        b.pads[rank + i] = between(d, 0, 1);
        b.image[i] = between(d, 5, 8);
        const int64_t reach =
            b.image[i] + b.pads[i] + b.pads[rank + i] - b.dilation[i] * (b.block[i] - 1) - 1;
        b.count[i] = reach / b.stride[i] + 1;
    }
    return b;
}

static void set_blocks(draw *d, const blocks *b, uint32_t rank) {
    set_ints(d, "strides", b->stride, rank);
    set_ints(d, "dilations", b->dilation, rank);
    set_ints(d, "pads", b->pads, 2 * rank);
}

bool draw_col2im(draw *d) {
    const uint32_t rank = (uint32_t)between(d, 1, 2);
    const blocks b = draw_blocks(d, rank);
    int64_t places = 1, count = 1;
    for (uint32_t i = 0; i < rank; i++) places *= b.block[i], count *= b.count[i];
    feed_of(d, draw_dtype(d, T_(F32) | T_(F64)),
            (kiln_shape){3, {between(d, 1, 2), between(d, 1, 2) * places, count}}, -2, 2);
    feed_ints(d, b.image, rank);
    feed_ints(d, b.block, rank);
    set_blocks(d, &b, rank);
    results(d, 1);
    if (rank == 1) peer_may_differ(d, "images of one dimension");
    return true;
}

bool draw_max_unpool(draw *d) {
    const int64_t kernel[] = {2, 2};
    const kiln_shape shape = {4, {1, between(d, 1, 2), between(d, 1, 4), between(d, 1, 4)}};
    feed_of(d, KILN_F32, shape, 0, 0);
    /* Each element has one of the four places of its window. */
    kiln_tensor index = kiln_tensor_create(d->g->arena, KILN_I64, &shape);
    const int64_t rows = shape.dim[2], columns = shape.dim[3];
    for (int64_t i = 0; i < kiln_shape_count(&shape); i++) {
        const int64_t row = i / columns % rows * 2 + between(d, 0, 1),
                      column = i % columns * 2 + between(d, 0, 1);
        ((int64_t *)index.data)[i] = (i / columns / rows * rows * 2 + row) * columns * 2 + column;
    }
    feed_same(d, &d->g->value[fuzz_graph_fix(d->g, &index)]);
    set_ints(d, "kernel_shape", kernel, 2);
    set_ints(d, "strides", kernel, 2);
    results(d, 1);
    return true;
}

bool draw_deform_conv(draw *d) {
    const blocks b = draw_blocks(d, 2);
    const int64_t batch = between(d, 1, 2), groups = between(d, 1, 2),
                  channels = groups * between(d, 1, 2), filters = groups * between(d, 1, 2),
                  offset_groups = chance(d, 50) ? groups : 1,
                  places = offset_groups * b.block[0] * b.block[1];
    const kiln_dtype dtype = KILN_F32;
    feed_of(d, dtype, (kiln_shape){4, {batch, channels, b.image[0], b.image[1]}}, -2, 2);
    feed_of(d, dtype, (kiln_shape){4, {filters, channels / groups, b.block[0], b.block[1]}}, -2, 2);
    feed_of(d, dtype, (kiln_shape){4, {batch, places * 2, b.count[0], b.count[1]}}, -2, 2);
    if (chance(d, 50))
        feed_of(d, dtype, (kiln_shape){1, {filters}}, -2, 2);
    else
        feed_nothing(d);
    if (chance(d, 50))
        feed_of(d, dtype, (kiln_shape){4, {batch, places, b.count[0], b.count[1]}}, 0, 1);
    set_blocks(d, &b, 2);
    set_int(d, "group", groups);
    set_int(d, "offset_group", offset_groups);
    results(d, 1);
    return true;
}

bool draw_roi_align(draw *d) {
    const kiln_dtype dtype = draw_dtype(d, T_(F32) | T_(F64));
    const int64_t count = between(d, 1, 3), batch = between(d, 1, 2);
    feed_of(d, dtype,
            (kiln_shape){4, {batch, between(d, 1, 3), between(d, 2, 7), between(d, 2, 7)}}, -2, 2);
    feed_of(d, dtype, (kiln_shape){2, {count, 4}}, -3, 9);
    feed_of(d, KILN_I64, (kiln_shape){1, {count}}, 0, (double)(batch - 1));
    set_text(d, "mode", word(d, "avg avg max"));
    set_int(d, "output_height", between(d, 1, 3));
    set_int(d, "output_width", between(d, 1, 3));
    set_int(d, "sampling_ratio", between(d, 1, 3));
    if (chance(d, 50)) set_float(d, "spatial_scale", 0.5);
    if (opset(d) >= 16)
        set_text(d, "coordinate_transformation_mode", word(d, "half_pixel output_half_pixel"));
    results(d, 1);
    return true;
}
