/* Operators composed of a few others. */
#include <string.h>

#include "compiler-core/frontend/onnx/compose.h"
#include "compiler-core/graph/op.h"

/* ---- indexing -------------------------------------------------------------------------------- */

/* The operator takes its indices as a matrix: rows of one index tuple each. */
kiln_status kiln_import_scatter_nd(kiln_importer *im) {
    kiln_value operand[3];
    kiln_composer c = {.im = im};
    if (kiln_import_reads_poison(im)) return KILN_OK;
    for (uint32_t i = 0; i < 3; i++)
        if (!(operand[i] = kiln_import_input(im, i)))
            return KILN_ERROR(INVALID_ARGUMENT, "input %u is missing", i);
    const kiln_shape data = *kiln_compose_shape(&c, operand[0]),
                     index = *kiln_compose_shape(&c, operand[1]);
    if (index.rank < 1 || index.dim[index.rank - 1] > data.rank)
        return KILN_ERROR(INVALID_ARGUMENT, "indices of more dimensions than the data has");
    uint32_t depth = (uint32_t)index.dim[index.rank - 1];
    kiln_shape rows = {.rank = 2, .dim = {1, depth}};
    for (uint32_t d = 0; d + 1 < index.rank; d++) rows.dim[0] *= index.dim[d];
    kiln_shape updates = {.rank = 1 + data.rank - depth, .dim = {rows.dim[0]}};
    for (uint32_t d = depth; d < data.rank; d++) updates.dim[d - depth + 1] = data.dim[d];
    operand[1] = kiln_compose_reshape(&c, operand[1], &rows);
    operand[2] = kiln_compose_reshape(&c, operand[2], &updates);
    return c.st ? c.st : kiln_import_emit(im, im->row, operand, 3);
}

/* ---- joining --------------------------------------------------------------------------------- */

/* More operands than a kernel has arguments: neighbours are joined first. */
kiln_status kiln_import_concat(kiln_importer *im) {
    kiln_value operand[KILN_NODE_OPERANDS_MAX], part[KILN_COMPOSE_FAN];
    uint32_t count = (uint32_t)KILN_MIN(im->node->n_input, KILN_NODE_OPERANDS_MAX), parts = 0;
    bool all = count == im->node->n_input;
    kiln_composer c = {.im = im};
    for (uint32_t i = 0; i < count; i++) all &= (operand[i] = kiln_import_input(im, i)) != 0;
    if (!all || count <= KILN_COMPOSE_FAN) return kiln_import_node(im);
    int64_t rank = kiln_compose_shape(&c, operand[0])->rank, axis = kiln_import_int(im, "axis", 1);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return kiln_import_node(im); /* which reports the error */
    uint32_t each = (count + KILN_COMPOSE_FAN - 1) / KILN_COMPOSE_FAN;
    for (uint32_t i = 0; i < count; i += each)
        part[parts++] =
            kiln_compose_concat(&c, operand + i, KILN_MIN(each, count - i), (uint32_t)axis);
    return c.st ? c.st : kiln_import_emit(im, im->row, part, parts);
}

/* ---- normalisation --------------------------------------------------------------------------- */

/* Before opset 21 scale and bias were given by group, and since then by channel: [count] to the
 * shape that meets dimension 1 of the data. */
static kiln_value by_channel(kiln_composer *c, kiln_value value, uint32_t rank) {
    kiln_shape shape = {.rank = rank - 1, .dim = {kiln_compose_shape(c, value)->dim[0]}};
    for (uint32_t d = 1; d < shape.rank; d++) shape.dim[d] = 1;
    return kiln_compose_reshape(c, value, &shape);
}

/* Groups of channels are normalised like the channels of instance normalisation. */
kiln_status kiln_import_group_norm(kiln_importer *im) {
    kiln_composer c = {.im = im};
    kiln_value x = kiln_import_input(im, 0), scale = kiln_import_input(im, 1),
               bias = kiln_import_input(im, 2), y = 0;
    int64_t groups = kiln_import_int(im, "num_groups", 0);
    if (!x || !scale || !bias) return KILN_ERROR(INVALID_ARGUMENT, "it needs three inputs");
    const kiln_shape shape = *kiln_compose_shape(&c, x);
    if (shape.rank < 2 || groups < 1 || shape.dim[1] % groups != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute num_groups does not divide the channels");
    if (kiln_compose_shape(&c, scale)->rank != 1 || kiln_compose_shape(&c, bias)->rank != 1)
        return KILN_ERROR(INVALID_ARGUMENT, "scale and bias must be vectors");
    bool grouped = im->opset < 21;
    int64_t size = shape.dim[1] / groups;
    for (uint32_t d = 2; d < shape.rank; d++) size *= shape.dim[d];
    kiln_dtype dtype = kiln_compose_dtype(&c, x);
    kiln_shape each = {.rank = 1, .dim = {groups}};
    kiln_value operand[] = {
        kiln_compose_reshape(&c, x, &(kiln_shape){3, {shape.dim[0], groups, size}}),
        grouped ? scale : kiln_compose_filled(&c, dtype, &each, 1),
        grouped ? bias : kiln_compose_filled(&c, dtype, &each, 0)};
    kiln_attr epsilon = kiln_attr_float("epsilon", kiln_import_float(im, "epsilon", 1e-5));
    kiln_compose_node(&c, KILN_OP_INSTANCE_NORM, operand, 3, &epsilon, 1, &y, 1);
    y = kiln_compose_reshape(&c, y, &shape);
    if (!grouped && !c.st) {
        y = kiln_compose_binary(&c, KILN_OP_MUL, y, by_channel(&c, scale, shape.rank));
        y = kiln_compose_binary(&c, KILN_OP_ADD, y, by_channel(&c, bias, shape.rank));
    }
    kiln_compose_define(&c, 0, y);
    return c.st;
}

/* The mean over all dimensions except the channels. */
static kiln_value mean_of(kiln_composer *c, kiln_value x, uint32_t rank, bool keep) {
    int64_t axes[KILN_RANK_MAX] = {0};
    for (uint32_t d = 2; d < rank; d++) axes[d - 1] = d;
    const kiln_attr attr[] = {kiln_attr_ints("axes", axes, rank - 1),
                              kiln_attr_int("keepdims", keep)};
    kiln_value mean = 0;
    kiln_compose_node(c, KILN_OP_REDUCE_MEAN, &x, 1, attr, 2, &mean, 1);
    return mean;
}

/* momentum * before + (1 - momentum) * now */
static kiln_value moved(kiln_composer *c, kiln_value before, kiln_value now, double momentum) {
    if (c->st) return 0;
    const kiln_dtype dtype = kiln_compose_dtype(c, before);
    now = kiln_compose_cast(c, now, dtype);
    return kiln_compose_binary(
        c, KILN_OP_ADD,
        kiln_compose_binary(c, KILN_OP_MUL, before, kiln_compose_scalar(c, dtype, momentum)),
        kiln_compose_binary(c, KILN_OP_MUL, now, kiln_compose_scalar(c, dtype, 1 - momentum)));
}

/* In training mode mean and variance are those of the batch, and the running ones are updated.
 */
kiln_status kiln_import_batch_norm(kiln_importer *im) {
    kiln_composer c = {.im = im};
    kiln_value operand[5], y = 0;
    if (kiln_import_reads_poison(im) || !kiln_import_int(im, "training_mode", 0))
        return kiln_import_node(im);
    for (uint32_t i = 0; i < 5; i++)
        if (!(operand[i] = kiln_import_input(im, i)))
            return KILN_ERROR(INVALID_ARGUMENT, "input %u is missing", i);
    const uint32_t rank = kiln_compose_shape(&c, operand[0])->rank;
    if (rank < 2) return KILN_ERROR(INVALID_ARGUMENT, "its input has no channels");
    const double momentum = kiln_import_float(im, "momentum", 0.9);
    const kiln_dtype dtype = kiln_compose_dtype(&c, operand[0]),
                     kept = kiln_compose_dtype(&c, operand[3]);
    const kiln_value x = kiln_compose_cast(&c, operand[0], dtype == KILN_F64 ? KILN_F64 : KILN_F32);
    const kiln_value from_mean =
        kiln_compose_binary(&c, KILN_OP_SUB, x, mean_of(&c, x, rank, true));
    const kiln_value mean = mean_of(&c, x, rank, false),
                     variance =
                         mean_of(&c, kiln_compose_binary(&c, KILN_OP_MUL, from_mean, from_mean),
                                 rank, false);
    kiln_compose_define(&c, 1, moved(&c, operand[3], mean, momentum));
    kiln_compose_define(&c, 2, moved(&c, operand[4], variance, momentum));
    operand[3] = kiln_compose_cast(&c, mean, kept);
    operand[4] = kiln_compose_cast(&c, variance, kept);
    const kiln_attr epsilon = kiln_attr_float("epsilon", kiln_import_float(im, "epsilon", 1e-5));
    kiln_compose_node(&c, KILN_OP_BATCH_NORM, operand, 5, &epsilon, 1, &y, 1);
    kiln_compose_define(&c, 0, y);
    return c.st;
}

/* ---- ai.onnx.ml ------------------------------------------------------------------------------ */

/* 1 above the threshold, 0 elsewhere. */
kiln_status kiln_import_binarizer(kiln_importer *im) {
    kiln_composer c = {.im = im};
    const kiln_value x = kiln_import_input(im, 0);
    if (!x) return KILN_ERROR(INVALID_ARGUMENT, "it has no input");
    const kiln_dtype dtype = kiln_compose_dtype(&c, x);
    const double threshold = kiln_import_float(im, "threshold", 0);
    const kiln_value above =
        kiln_compose_binary(&c, KILN_OP_GREATER, x, kiln_compose_scalar(&c, dtype, threshold));
    kiln_compose_define(&c, 0, kiln_compose_cast(&c, above, dtype));
    return c.st;
}

/* Columns of the last dimension; a vector is one row. */
kiln_status kiln_import_feature_extractor(kiln_importer *im) {
    kiln_composer c = {.im = im};
    kiln_value x = kiln_import_input(im, 0), index = kiln_import_input(im, 1), y = 0;
    if (!x || !index) return KILN_ERROR(INVALID_ARGUMENT, "it needs data and indices");
    const kiln_shape shape = *kiln_compose_shape(&c, x);
    if (shape.rank == 0) return KILN_ERROR(INVALID_ARGUMENT, "its data is a scalar");
    if (shape.rank == 1) x = kiln_compose_reshape(&c, x, &(kiln_shape){2, {1, shape.dim[0]}});
    const int64_t count = kiln_shape_count(kiln_compose_shape(&c, index));
    const kiln_value operand[] = {x, kiln_compose_reshape(&c, index, &(kiln_shape){1, {count}})};
    const kiln_attr attr = kiln_attr_int("axis", -1);
    kiln_compose_node(&c, KILN_OP_GATHER, operand, 2, &attr, 1, &y, 1);
    kiln_compose_define(&c, 0, y);
    return c.st;
}
