/* Indices that are data. Every index is clamped to its dimension (rules.h), so that no data can
 * make a kernel read outside its buffers. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/ops/rules.h"

static kiln_status start(kiln_infer *infer, const kiln_value_info **out_data,
                         const kiln_value_info **out_index) {
    *out_data = kiln_infer_input(infer, 0);
    *out_index = kiln_infer_input(infer, 1);

    kiln_dtype_kind kind = kiln_dtype_kind_of((*out_index)->dtype);
    return kind == KILN_KIND_INT || kind == KILN_KIND_UINT
               ? KILN_OK
               : KILN_ERROR(INVALID_ARGUMENT, "input 1 must hold integers");
}

/* Dimension `axis` of the data is replaced by the shape of the indices. */
kiln_status kiln_rule_gather(kiln_infer *infer) {
    const kiln_value_info *data, *index;
    uint32_t axis = 0;
    kiln_status st = start(infer, &data, &index);
    if (!st) st = kiln_infer_axis(infer, &axis);
    if (!st) st = kiln_infer_check_rank(data->shape.rank + index->shape.rank - 1);
    if (st) return st;
    kiln_shape *shape = &infer->shape[0];
    shape->rank = data->shape.rank + index->shape.rank - 1;
    if (data->shape.dim[axis] == 0)
        return KILN_ERROR(INVALID_ARGUMENT, "dimension %u is empty", axis);
    for (uint32_t d = 0; d < index->shape.rank; d++) shape->dim[axis + d] = index->shape.dim[d];
    for (uint32_t d = axis + 1; d < data->shape.rank; d++)
        shape->dim[d + index->shape.rank - 1] = data->shape.dim[d];
    return KILN_OK;
}

void kiln_te_gather(kiln_te *te) {
    const kiln_shape *data = kiln_te_in_shape(te, 0);
    uint32_t axis = kiln_te_axis(te), index_rank = kiln_te_in_shape(te, 1)->rank;
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < axis; d++) index[d] = block.i[d];
    for (uint32_t d = axis + 1; d < data->rank; d++) index[d] = block.i[d + index_rank - 1];
    index[axis] = kiln_index_from(te, kiln_te_load(te, 1, &block.i[axis]), data->dim[axis]);
    kiln_te_put(te, &block, kiln_te_load_raw(te, 0, index));
}

kiln_status kiln_rule_gather_elements(kiln_infer *infer) {
    const kiln_value_info *data, *index;
    uint32_t axis = 0;
    kiln_status st = start(infer, &data, &index);
    if (!st) st = kiln_infer_axis(infer, &axis);
    if (st) return st;
    if (index->shape.rank != data->shape.rank)
        return KILN_ERROR(INVALID_ARGUMENT, "inputs differ in rank");
    for (uint32_t d = 0; d < data->shape.rank; d++)
        if ((d != axis && index->shape.dim[d] > data->shape.dim[d]) || data->shape.dim[d] == 0)
            return KILN_ERROR(INVALID_ARGUMENT, "input 1 is larger than input 0 in dimension %u",
                              d);
    infer->shape[0] = index->shape;
    return KILN_OK;
}

void kiln_te_gather_elements(kiln_te *te) {
    uint32_t axis = kiln_te_axis(te);
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr at =
        kiln_index_from(te, kiln_te_load(te, 1, block.i), kiln_te_in_shape(te, 0)->dim[axis]);
    kiln_te_put(te, &block, kiln_te_load_moved(te, 0, &block, axis, at));
}

/* indices: [batch..][..][depth]: each row is an index into the dimensions after the batch. */
kiln_status kiln_rule_gather_nd(kiln_infer *infer) {
    const kiln_value_info *data, *index;
    kiln_status st = start(infer, &data, &index);
    if (st) return st;
    int64_t batch = kiln_node_int(infer->node, "batch_dims");
    if (index->shape.rank == 0 || batch < 0 || batch >= index->shape.rank ||
        batch > data->shape.rank)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute batch_dims does not fit the inputs");
    int64_t depth = index->shape.dim[index->shape.rank - 1];
    if (depth < 1 || depth > (int64_t)data->shape.rank - batch)
        return KILN_ERROR(INVALID_ARGUMENT, "indices of %lld dimensions do not fit the data",
                          (long long)depth);
    for (uint32_t d = 0; d < data->shape.rank; d++)
        if (data->shape.dim[d] == 0 || (d < batch && data->shape.dim[d] != index->shape.dim[d]))
            return KILN_ERROR(INVALID_ARGUMENT,
                              "dimension %u is empty or differs between the inputs", d);
    uint32_t rest = data->shape.rank - (uint32_t)(batch + depth);
    st = kiln_infer_check_rank(index->shape.rank - 1 + rest);
    if (st) return st;
    infer->shape[0] = index->shape;
    infer->shape[0].rank = index->shape.rank - 1 + rest;
    for (uint32_t d = 0; d < rest; d++)
        infer->shape[0].dim[index->shape.rank - 1 + d] =
            data->shape.dim[(uint32_t)(batch + depth) + d];
    return KILN_OK;
}

void kiln_te_gather_nd(kiln_te *te) {
    const kiln_shape *data = kiln_te_in_shape(te, 0), *indices = kiln_te_in_shape(te, 1);
    uint32_t batch = (uint32_t)kiln_node_int(te->node, "batch_dims"),
             depth = (uint32_t)indices->dim[indices->rank - 1];
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr index[KILN_RANK_MAX] = {0}, row[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d + 1 < indices->rank; d++) row[d] = block.i[d];
    for (uint32_t d = 0; d < data->rank; d++) {
        if (d < batch) {
            index[d] = block.i[d];
        } else if (d < batch + depth) {
            row[indices->rank - 1] = kiln_index(te, d - batch);
            index[d] = kiln_index_from(te, kiln_te_load(te, 1, row), data->dim[d]);
        } else {
            index[d] = block.i[indices->rank - 1 + d - batch - depth];
        }
    }
    kiln_te_put(te, &block, kiln_te_load_raw(te, 0, index));
}

/* input 1: [off value, on value] */
kiln_status kiln_rule_one_hot(kiln_infer *infer) {
    const kiln_value_info *index = kiln_infer_input(infer, 0), *values = kiln_infer_input(infer, 1);
    uint32_t count = 0, axis = 0;
    const int64_t *depth = kiln_node_ints(infer->node, "depth", &count);
    if (count != 1 || depth[0] < 1)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute depth must be one positive number");
    if (values->shape.rank != 1 || values->shape.dim[0] != 2)
        return KILN_ERROR(INVALID_ARGUMENT, "input 1 must hold two values");
    kiln_status st = kiln_infer_check_rank(index->shape.rank + 1);
    if (!st)
        st = kiln_axis_resolve(kiln_node_int(infer->node, "axis"), index->shape.rank + 1, "axis",
                               &axis);
    if (st) return st;
    infer->dtype[0] = values->dtype;
    infer->shape[0].rank = index->shape.rank + 1;
    for (uint32_t d = 0; d < infer->shape[0].rank; d++)
        infer->shape[0].dim[d] = d == axis ? depth[0] : index->shape.dim[d < axis ? d : d - 1];
    return KILN_OK;
}

void kiln_te_one_hot(kiln_te *te) {
    uint32_t rank = kiln_te_in_shape(te, 0)->rank, count = 0, at = 0;
    int64_t axis = kiln_node_int(te->node, "axis"),
            depth = kiln_node_ints(te->node, "depth", &count)[0];
    if (axis < 0) axis += rank + 1;
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr index[KILN_RANK_MAX] = {0}, off = kiln_index(te, 0), on = kiln_index(te, 1);
    for (uint32_t d = 0; d <= rank; d++)
        if (d != (uint32_t)axis) index[at++] = block.i[d];
    kiln_expr hot = kiln_cast(te, KILN_INDEX_DTYPE, kiln_te_load(te, 0, index));
    hot = kiln_select(te, kiln_less(te, hot, off), kiln_index_affine(te, hot, 1, depth), hot);
    kiln_expr is_hot = kiln_equal(te, hot, block.i[axis]);
    kiln_te_put(
        te, &block,
        kiln_select(te, is_hot, kiln_te_load_raw(te, 1, &on), kiln_te_load_raw(te, 1, &off)));
}

/* The first length[b] elements along the time axis are reversed, the rest stay. */
kiln_status kiln_rule_reverse_sequence(kiln_infer *infer) {
    const kiln_value_info *data, *length;
    kiln_status st = start(infer, &data, &length);
    if (st) return st;
    int64_t batch = kiln_node_int(infer->node, "batch_axis"),
            time = kiln_node_int(infer->node, "time_axis");
    if (data->shape.rank < 2 || batch < 0 || batch > 1 || time < 0 || time > 1 || batch == time)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "attributes batch_axis and time_axis must be 0 and 1 in some order");
    if (length->shape.rank != 1 || length->shape.dim[0] != data->shape.dim[batch])
        return KILN_ERROR(INVALID_ARGUMENT, "input 1 must hold one length per sequence");
    return KILN_OK;
}

void kiln_te_reverse_sequence(kiln_te *te) {
    uint32_t batch = (uint32_t)kiln_node_int(te->node, "batch_axis"),
             time = (uint32_t)kiln_node_int(te->node, "time_axis");
    int64_t extent = kiln_te_in_shape(te, 0)->dim[time];
    kiln_te_block block = kiln_te_output_begin(te, "");
    kiln_expr length = kiln_cast(te, KILN_INDEX_DTYPE, kiln_te_load(te, 1, &block.i[batch]));
    kiln_expr mirrored = kiln_sub(te, kiln_index_affine(te, length, 1, -1), block.i[time]);
    kiln_expr source =
        kiln_select(te, kiln_less(te, block.i[time], length), mirrored, block.i[time]);
    kiln_te_put(te, &block,
                kiln_te_load_moved(te, 0, &block, time, kiln_index_clamp(te, source, extent)));
}
