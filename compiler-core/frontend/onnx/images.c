/* Operators on images that are composed of others: grids, crops, and the inverses of pooling and of
 * splitting into columns. */
#include "compiler-core/frontend/onnx/compose.h"
#include "compiler-core/graph/op.h"

static kiln_value add(kiln_composer *c, kiln_value a, kiln_value b) {
    return kiln_compose_binary(c, KILN_OP_ADD, a, b);
}
static kiln_value mul(kiln_composer *c, kiln_value a, kiln_value b) {
    return kiln_compose_binary(c, KILN_OP_MUL, a, b);
}

static kiln_value permuted(kiln_composer *c, kiln_value x, const int64_t *perm, uint32_t rank) {
    return kiln_compose_ints(c, KILN_OP_TRANSPOSE, x, "perm", perm, rank);
}

/* Input `index`: `least` to KILN_RANK_MAX extents that are known while importing. */
static kiln_status demand_extents(kiln_importer *im, uint32_t index, uint32_t least,
                                  kiln_shape *out_shape) {
    kiln_tensor tensor;
    kiln_status st = kiln_import_demand(im, index, &tensor);
    if (st) return st;
    const int64_t count = kiln_shape_count(&tensor.shape);
    if (tensor.dtype != KILN_I64 || tensor.shape.rank > 1 || count < least || count > KILN_RANK_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "input %u is no vector of %u to %u extents", index,
                          least, KILN_RANK_MAX);
    *out_shape = (kiln_shape){.rank = (uint32_t)count};
    for (uint32_t d = 0; d < out_shape->rank; d++) {
        out_shape->dim[d] = ((const int64_t *)tensor.data)[d];
        if (out_shape->dim[d] < 0 || out_shape->dim[d] > INT32_MAX)
            return KILN_ERROR(INVALID_ARGUMENT, "input %u: extent %lld", index,
                              (long long)out_shape->dim[d]);
    }
    return KILN_OK;
}

/* Attribute `name` of `count` numbers, each `least` or more; not given: all `otherwise`. */
static kiln_status read_list(const kiln_importer *im, const char *name, uint32_t count,
                             int64_t least, int64_t otherwise, int64_t *out_item) {
    const Onnx__AttributeProto *a = kiln_import_attribute(im, name);
    for (uint32_t i = 0; i < count; i++) out_item[i] = otherwise;
    if (!a) return KILN_OK;
    if (a->n_ints != count)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute %s has %zu numbers, not %u", name, a->n_ints,
                          count);
    for (uint32_t i = 0; i < count; i++) {
        out_item[i] = a->ints[i];
        if (out_item[i] < least || out_item[i] > INT32_MAX)
            return KILN_ERROR(INVALID_ARGUMENT, "attribute %s: %lld is out of range", name,
                              (long long)out_item[i]);
    }
    return KILN_OK;
}

static int64_t product(const int64_t *item, uint32_t count) {
    int64_t result = 1;
    for (uint32_t i = 0; i < count; i++)
        if (__builtin_mul_overflow(result, item[i], &result)) return INT64_MAX;
    return result;
}

/* ---- CenterCropPad --------------------------------------------------------------------------- */

/* Crops or pads one dimension to `wanted` elements, equally on both sides, an odd one at the end.
 */
static kiln_value fit(kiln_composer *c, kiln_value x, uint32_t axis, int64_t wanted) {
    if (c->st) return 0;
    const kiln_shape *shape = kiln_compose_shape(c, x);
    const int64_t own = shape->dim[axis], less = own - wanted, more = wanted - own;
    if (less > 0) return kiln_compose_slice(c, x, axis, less / 2, less / 2 + wanted);
    if (more == 0) return x;
    int64_t pads[2 * KILN_RANK_MAX] = {0};
    pads[axis] = more / 2;
    pads[shape->rank + axis] = more - more / 2;
    return kiln_compose_ints(c, KILN_OP_PAD, x, "pads", pads, 2 * shape->rank);
}

kiln_status kiln_import_center_crop_pad(kiln_importer *im) {
    kiln_composer c = {.im = im};
    const Onnx__AttributeProto *axes = kiln_import_attribute(im, "axes");
    kiln_value x = kiln_import_input(im, 0);
    kiln_shape wanted;
    if (!x) return KILN_ERROR(INVALID_ARGUMENT, "it has no input");
    const int64_t rank = kiln_compose_shape(&c, x)->rank;
    kiln_status st = demand_extents(im, 1, 0, &wanted);
    if (st) return st;
    if (axes ? axes->n_ints != wanted.rank : wanted.rank != rank)
        return KILN_ERROR(INVALID_ARGUMENT, "input 1 must have one extent for each axis");
    for (uint32_t i = 0; i < wanted.rank; i++) {
        int64_t axis = axes ? axes->ints[i] : i;
        if (axis < 0) axis += rank;
        if (axis < 0 || axis >= rank)
            return KILN_ERROR(INVALID_ARGUMENT, "attribute axes: %lld is out of range",
                              (long long)axes->ints[i]);
        x = fit(&c, x, (uint32_t)axis, wanted.dim[i]);
    }
    if (!c.st && x == kiln_import_input(im, 0)) x = kiln_compose_unary(&c, KILN_OP_IDENTITY, x);
    kiln_compose_define(&c, 0, x);
    return c.st;
}

/* ---- AffineGrid ------------------------------------------------------------------------------ */

/* Coordinates of each position of an image (the last dimension's first, then a 1):
 * [positions][r+1].
 */
static kiln_status make_positions(kiln_importer *im, const kiln_shape *image, kiln_dtype dtype,
                                  bool corners, kiln_tensor *out_tensor) {
    const uint32_t rank = image->rank;
    const kiln_shape shape = {2, {product(image->dim, rank), rank + 1}};
    size_t size_bytes = 0, at = 0;
    kiln_status st = kiln_shape_bytes(&shape, dtype, &size_bytes);
    if (!st) st = kiln_import_take_memory(im, size_bytes);
    if (st) return st;
    *out_tensor = kiln_tensor_create(im->graph->arena, dtype, &shape);
    for (int64_t position = 0; position < shape.dim[0]; position++) {
        int64_t rest = position;
        for (uint32_t d = rank; d-- > 0;) {
            const double extent = (double)image->dim[d], i = (double)(rest % image->dim[d]);
            double coordinate = (2 * i + 1) / extent - 1;
            if (corners) coordinate = extent > 1 ? 2 * i / (extent - 1) - 1 : -1;
            kiln_dtype_store_f64(dtype, out_tensor->data, at++, coordinate);
            rest /= image->dim[d];
        }
        kiln_dtype_store_f64(dtype, out_tensor->data, at++, 1);
    }
    return KILN_OK;
}

kiln_status kiln_import_affine_grid(kiln_importer *im) {
    static const int64_t flip[] = {0, 2, 1};
    kiln_composer c = {.im = im};
    const kiln_value theta = kiln_import_input(im, 0);
    kiln_shape size, image;
    kiln_tensor position;
    if (!theta) return KILN_ERROR(INVALID_ARGUMENT, "it has no matrices");
    kiln_status st = demand_extents(im, 1, 4, &size);
    if (st) return st;
    image = (kiln_shape){.rank = size.rank - 2};
    for (uint32_t d = 0; d < image.rank; d++) image.dim[d] = size.dim[d + 2];
    if (size.rank > 5 ||
        !kiln_shape_equal(kiln_compose_shape(&c, theta),
                          &(kiln_shape){3, {size.dim[0], image.rank, size.rank - 1}}))
        return KILN_ERROR(INVALID_ARGUMENT, "theta must be [n, r, r + 1] for images of r = 2 or 3 "
                                            "dimensions");
    st = make_positions(im, &image, kiln_compose_dtype(&c, theta),
                        kiln_import_int(im, "align_corners", 0) != 0, &position);
    if (st) return st;
    kiln_value grid = kiln_compose_binary(&c, KILN_OP_MATMUL, kiln_compose_constant(&c, &position),
                                          permuted(&c, theta, flip, 3));
    kiln_shape shape = {.rank = size.rank, .dim = {size.dim[0]}};
    for (uint32_t d = 0; d < image.rank; d++) shape.dim[d + 1] = image.dim[d];
    shape.dim[size.rank - 1] = image.rank;
    kiln_compose_define(&c, 0, kiln_compose_reshape(&c, grid, &shape));
    return c.st;
}

/* ---- Col2Im ---------------------------------------------------------------------------------- */

/* Columns are added up by a transposed convolution whose filter `k` is 1 at place `k` of the block,
 * and 0 elsewhere. */
static kiln_value unit_filters(kiln_composer *c, kiln_dtype dtype, const kiln_shape *block) {
    const int64_t count = product(block->dim, block->rank);
    kiln_shape shape = {.rank = block->rank + 2, .dim = {count, 1}};
    size_t size_bytes = 0;
    for (uint32_t d = 0; d < block->rank; d++) shape.dim[d + 2] = block->dim[d];
    kiln_compose_fail(c, kiln_shape_bytes(&shape, dtype, &size_bytes));
    if (!c->st) kiln_compose_fail(c, kiln_import_take_memory(c->im, size_bytes));
    if (c->st) return 0;
    kiln_tensor filter = kiln_tensor_create(c->im->graph->arena, dtype, &shape);
    for (int64_t k = 0; k < count; k++)
        kiln_dtype_store_f64(dtype, filter.data, (size_t)(k * count + k), 1);
    return kiln_compose_constant(c, &filter);
}

typedef struct columns {
    kiln_shape image, block, count; /* count: of blocks along each dimension */
    int64_t stride[KILN_RANK_MAX], dilation[KILN_RANK_MAX], pads[2 * KILN_RANK_MAX];
    int64_t rest[KILN_RANK_MAX]; /* elements of the image beyond the last block */
} columns;

static kiln_status read_columns(kiln_importer *im, columns *k) {
    kiln_status st = demand_extents(im, 1, 1, &k->image);
    if (!st) st = demand_extents(im, 2, 1, &k->block);
    const uint32_t rank = k->image.rank;
    if (!st && (k->block.rank != rank || rank + 2 > KILN_RANK_MAX))
        st = KILN_ERROR(INVALID_ARGUMENT, "inputs 1 and 2 must have as many extents, at most %u",
                        KILN_RANK_MAX - 2);
    if (!st) st = read_list(im, "strides", rank, 1, 1, k->stride);
    if (!st) st = read_list(im, "dilations", rank, 1, 1, k->dilation);
    if (!st) st = read_list(im, "pads", 2 * rank, 0, 0, k->pads);
    k->count.rank = rank;
    for (uint32_t d = 0; !st && d < rank; d++) {
        const int64_t reach = k->image.dim[d] + k->pads[d] + k->pads[rank + d] -
                              k->dilation[d] * (k->block.dim[d] - 1) - 1;
        if (reach < 0 || k->block.dim[d] < 1)
            return KILN_ERROR(INVALID_ARGUMENT, "no block fits dimension %u of the image", d);
        k->count.dim[d] = reach / k->stride[d] + 1;
        k->rest[d] = reach % k->stride[d];
    }
    return st;
}

kiln_status kiln_import_col2im(kiln_importer *im) {
    kiln_composer c = {.im = im};
    columns k = {0};
    const kiln_value x = kiln_import_input(im, 0);
    if (!x) return KILN_ERROR(INVALID_ARGUMENT, "it has no input");
    kiln_status st = read_columns(im, &k);
    if (st) return st;
    const kiln_shape *shape = kiln_compose_shape(&c, x);
    const uint32_t rank = k.image.rank;
    const int64_t batch = shape->dim[0], places = product(k.block.dim, rank);
    if (shape->rank != 3 || places == INT64_MAX || shape->dim[1] % places != 0 ||
        shape->dim[2] != product(k.count.dim, rank))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "its input must be [n, channels * places of a block, blocks]");
    const int64_t channels = shape->dim[1] / places;
    kiln_shape split = {.rank = rank + 2, .dim = {batch * channels, places}},
               whole = {.rank = rank + 2, .dim = {batch, channels}};
    for (uint32_t d = 0; d < rank; d++) {
        split.dim[d + 2] = k.count.dim[d];
        whole.dim[d + 2] = k.image.dim[d];
    }
    const kiln_attr attr[] = {
        kiln_attr_ints("strides", k.stride, rank), kiln_attr_ints("dilations", k.dilation, rank),
        kiln_attr_ints("pads", k.pads, 2 * rank), kiln_attr_ints("output_padding", k.rest, rank)};
    const kiln_value operand[] = {kiln_compose_reshape(&c, x, &split),
                                  unit_filters(&c, kiln_compose_dtype(&c, x), &k.block)};
    kiln_value y = 0;
    kiln_compose_node(&c, KILN_OP_CONV_TRANSPOSE, operand, 2, attr, 4, &y, 1);
    kiln_compose_define(&c, 0, kiln_compose_reshape(&c, y, &whole));
    return c.st;
}

/* ---- MaxUnpool ------------------------------------------------------------------------------- */

/* The shape of the pooling's input, as far as its attributes define it. */
static kiln_status pooled_from(const kiln_importer *im, const kiln_shape *pooled,
                               kiln_shape *out_shape) {
    const uint32_t rank = pooled->rank - 2;
    int64_t kernel[KILN_RANK_MAX], stride[KILN_RANK_MAX], pads[2 * KILN_RANK_MAX];
    kiln_status st = read_list(im, "kernel_shape", rank, 1, 0, kernel);
    if (!st) st = read_list(im, "strides", rank, 1, 1, stride);
    if (!st) st = read_list(im, "pads", 2 * rank, 0, 0, pads);
    *out_shape = *pooled;
    for (uint32_t d = 0; !st && d < rank; d++) {
        int64_t *extent = &out_shape->dim[d + 2];
        *extent = (*extent - 1) * stride[d] + kernel[d] - pads[d] - pads[rank + d];
        if (kernel[d] == 0 || *extent < 1)
            st = KILN_ERROR(INVALID_ARGUMENT, "kernel_shape and pads do not fit dimension %u",
                            d + 2);
    }
    return st;
}

/* Moves elements to their places before the pooling; its indices are into the whole tensor. */
kiln_status kiln_import_max_unpool(kiln_importer *im) {
    kiln_composer c = {.im = im};
    const kiln_value x = kiln_import_input(im, 0), index = kiln_import_input(im, 1);
    kiln_shape from, wanted;
    if (!x || !index) return KILN_ERROR(INVALID_ARGUMENT, "it needs elements and their indices");
    const kiln_shape pooled = *kiln_compose_shape(&c, x);
    if (pooled.rank < 3 || !kiln_shape_equal(&pooled, kiln_compose_shape(&c, index)))
        return KILN_ERROR(INVALID_ARGUMENT, "inputs 0 and 1 must be images of one shape");
    size_t size_bytes = 0;
    kiln_status st = pooled_from(im, &pooled, &from);
    if (!st) st = kiln_shape_bytes(&from, kiln_compose_dtype(&c, x), &size_bytes);
    wanted = from;
    if (!st && kiln_import_input(im, 2)) st = demand_extents(im, 2, pooled.rank, &wanted);
    if (st) return st;
    if (wanted.rank != from.rank)
        return KILN_ERROR(INVALID_ARGUMENT, "output_shape has %u extents", wanted.rank);
    const kiln_shape flat = {1, {kiln_shape_count(&from)}}, each = {1, {kiln_shape_count(&pooled)}};
    const kiln_value operand[] = {kiln_compose_filled(&c, kiln_compose_dtype(&c, x), &flat, 0),
                                  kiln_compose_reshape(&c, index, &each),
                                  kiln_compose_reshape(&c, x, &each)};
    kiln_value y = 0;
    kiln_compose_node(&c, KILN_OP_SCATTER_ELEMENTS, operand, 3, NULL, 0, &y, 1);
    y = kiln_compose_reshape(&c, y, &from);
    int64_t pads[2 * KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < from.rank; d++) {
        if (wanted.dim[d] < from.dim[d])
            return KILN_ERROR(INVALID_ARGUMENT,
                              "output_shape: dimension %u is smaller than the "
                              "pooled dimension",
                              d);
        pads[from.rank + d] = wanted.dim[d] - from.dim[d];
    }
    if (!kiln_shape_equal(&from, &wanted))
        y = kiln_compose_ints(&c, KILN_OP_PAD, y, "pads", pads, 2 * from.rank);
    kiln_compose_define(&c, 0, y);
    return c.st;
}

/* ---- DeformConv ------------------------------------------------------------------------------ */

/* Elements are taken from the image by a grid of positions, one for each element of the filter and
 * of the result; the rest is a convolution with one tap and all of them as channels. */
typedef struct deform {
    kiln_composer *c;
    kiln_value x, weight, offset, bias, mask;
    kiln_shape data, kernel, out; /* of these: the spatial dimensions */
    int64_t batch, channels, filters, groups, offset_groups, places, results;
    int64_t stride[KILN_RANK_MAX], dilation[KILN_RANK_MAX], pads[2 * KILN_RANK_MAX];
} deform;

static kiln_status read_deform(kiln_importer *im, deform *f) {
    kiln_value *operand[] = {&f->x, &f->weight, &f->offset, &f->bias, &f->mask};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(operand); i++) *operand[i] = kiln_import_input(im, i);
    if (!f->x || !f->weight || !f->offset)
        return KILN_ERROR(INVALID_ARGUMENT, "it needs an input, weights and offsets");
    const kiln_shape x = *kiln_compose_shape(f->c, f->x), w = *kiln_compose_shape(f->c, f->weight);
    if (x.rank < 3 || x.rank != w.rank || x.rank + 2 > KILN_RANK_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "its input and weights must have 3 to %u dimensions",
                          KILN_RANK_MAX - 2);
    const uint32_t rank = f->data.rank = f->kernel.rank = f->out.rank = x.rank - 2;
    f->batch = x.dim[0];
    f->channels = x.dim[1];
    f->filters = w.dim[0];
    f->groups = kiln_import_int(im, "group", 1);
    f->offset_groups = kiln_import_int(im, "offset_group", 1);
    kiln_status st = read_list(im, "strides", rank, 1, 1, f->stride);
    if (!st) st = read_list(im, "dilations", rank, 1, 1, f->dilation);
    if (!st) st = read_list(im, "pads", 2 * rank, 0, 0, f->pads);
    for (uint32_t d = 0; !st && d < rank; d++) {
        f->data.dim[d] = x.dim[d + 2];
        f->kernel.dim[d] = w.dim[d + 2];
        const int64_t reach =
            x.dim[d + 2] + f->pads[d] + f->pads[rank + d] - f->dilation[d] * (w.dim[d + 2] - 1) - 1;
        if (reach < 0 || w.dim[d + 2] < 1 || x.dim[d + 2] < 1)
            return KILN_ERROR(INVALID_ARGUMENT, "the filter does not fit dimension %u", d + 2);
        f->out.dim[d] = reach / f->stride[d] + 1;
    }
    if (st) return st;
    f->places = product(f->kernel.dim, rank);
    f->results = product(f->out.dim, rank);
    return f->groups > 0 && f->offset_groups > 0 && f->channels % f->groups == 0 &&
                   f->channels % f->offset_groups == 0 && w.dim[1] == f->channels / f->groups
               ? KILN_OK
               : KILN_ERROR(INVALID_ARGUMENT, "its groups do not fit the channels");
}

/* Offsets and masks: [batch][groups * places * each][results..]. */
static kiln_status check_plane(const deform *f, kiln_value plane, int64_t each, const char *what) {
    kiln_shape shape = {.rank = f->out.rank + 2,
                        .dim = {f->batch, f->offset_groups * f->places * each}};
    for (uint32_t d = 0; d < f->out.rank; d++) shape.dim[d + 2] = f->out.dim[d];
    return kiln_shape_equal(kiln_compose_shape(f->c, plane), &shape)
               ? KILN_OK
               : KILN_ERROR(INVALID_ARGUMENT, "%s does not have one number for each place", what);
}

/* The positions of places without offsets, and the factors from positions to coordinates:
 * [places][r] and [places][r][results], from -1 to 1 as the grid needs them. */
static kiln_value grid_of(deform *f) {
    kiln_composer *c = f->c;
    const uint32_t rank = f->data.rank;
    const kiln_shape split = {5, {f->batch * f->offset_groups, f->places, rank, f->results, 1}},
                     still = {4, {1, f->places, rank, f->results}};
    size_t size_bytes = 0;
    kiln_value axis[KILN_RANK_MAX];
    kiln_compose_fail(c, kiln_shape_bytes(&still, KILN_F32, &size_bytes));
    if (!c->st) kiln_compose_fail(c, kiln_import_take_memory(c->im, size_bytes));
    if (c->st) return 0;
    kiln_tensor base = kiln_tensor_create(c->im->graph->arena, KILN_F32, &still);
    float *at = base.data;
    for (int64_t place = 0; place < f->places; place++)
        for (uint32_t d = 0; d < rank; d++) {
            const int64_t inner = product(f->kernel.dim + d + 1, rank - d - 1),
                          step = product(f->out.dim + d + 1, rank - d - 1);
            const int64_t tap = place / inner % f->kernel.dim[d] * f->dilation[d] - f->pads[d];
            for (int64_t o = 0; o < f->results; o++)
                *at++ = (float)(o / step % f->out.dim[d] * f->stride[d] + tap);
        }
    kiln_value offset =
        kiln_compose_reshape(c, kiln_compose_cast(c, f->offset, KILN_F32),
                             &(kiln_shape){4, {split.dim[0], f->places, rank, f->results}});
    kiln_value position =
        kiln_compose_reshape(c, add(c, offset, kiln_compose_constant(c, &base)), &split);
    for (uint32_t d = 0; d < rank; d++) {
        const double extent = (double)f->data.dim[d];
        kiln_value one = kiln_compose_slice(c, position, 2, d, d + 1);
        one = mul(c, one, kiln_compose_scalar(c, KILN_F32, 2 / extent));
        axis[rank - 1 - d] = add(c, one, kiln_compose_scalar(c, KILN_F32, 1 / extent - 1));
    }
    kiln_shape shape = {.rank = rank + 2,
                        .dim = {split.dim[0], f->places * f->results}}; /* others: 1 */
    for (uint32_t d = 1; d < rank; d++) shape.dim[d + 1] = 1;
    shape.dim[rank + 1] = rank;
    return kiln_compose_reshape(c, kiln_compose_concat(c, axis, rank, 4), &shape);
}

/* [batch][channels * places][results..] */
static kiln_value taken(deform *f) {
    kiln_composer *c = f->c;
    const uint32_t rank = f->data.rank;
    kiln_shape image = {.rank = rank + 2,
                        .dim = {f->batch * f->offset_groups, f->channels / f->offset_groups}};
    for (uint32_t d = 0; d < rank; d++) image.dim[d + 2] = f->data.dim[d];
    const kiln_value operand[] = {kiln_compose_reshape(c, f->x, &image), grid_of(f)};
    kiln_value y = 0;
    kiln_compose_node(c, KILN_OP_GRID_SAMPLE, operand, 2, NULL, 0, &y, 1);
    if (f->mask) {
        const kiln_shape by_channel = {3, {image.dim[0], image.dim[1], f->places * f->results}},
                         shared = {3, {image.dim[0], 1, f->places * f->results}};
        y = mul(c, kiln_compose_reshape(c, y, &by_channel),
                kiln_compose_reshape(c, f->mask, &shared));
    }
    kiln_shape flat = {.rank = rank + 2, .dim = {f->batch, f->channels * f->places}};
    for (uint32_t d = 0; d < rank; d++) flat.dim[d + 2] = f->out.dim[d];
    return kiln_compose_reshape(c, y, &flat);
}

kiln_status kiln_import_deform_conv(kiln_importer *im) {
    kiln_composer c = {.im = im};
    deform f = {.c = &c};
    kiln_status st = read_deform(im, &f);
    if (!st) st = check_plane(&f, f.offset, f.data.rank, "its offset");
    if (!st && f.mask) st = check_plane(&f, f.mask, 1, "its mask");
    if (st) return st;
    kiln_shape weight = {.rank = f.data.rank + 2,
                         .dim = {f.filters, f.channels / f.groups * f.places}};
    for (uint32_t d = 0; d < f.data.rank; d++) weight.dim[d + 2] = 1;
    const kiln_attr attr = kiln_attr_int("group", f.groups);
    const kiln_value operand[] = {taken(&f), kiln_compose_reshape(&c, f.weight, &weight), f.bias};
    kiln_value y = 0;
    kiln_compose_node(&c, KILN_OP_CONV, operand, f.bias ? 3 : 2, &attr, 1, &y, 1);
    kiln_compose_define(&c, 0, y);
    return c.st;
}
