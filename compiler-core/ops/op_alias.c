/* The same elements in the same order under another shape: no kernel. */

#include "compiler-core/ops/rules.h"

/* 0 keeps the input's dimension (unless allowzero); one may be -1: it holds the remaining
 * elements. */
kiln_status kiln_rule_reshape(kiln_infer *infer) {
    const kiln_value_info *in = kiln_infer_input(infer, 0);
    uint32_t count = 0;
    const int64_t *wanted = kiln_node_ints(infer->node, "shape", &count);
    if (!wanted) return KILN_ERROR(INVALID_ARGUMENT, "attribute shape is missing");
    if (count > KILN_RANK_MAX)
        return KILN_ERROR(UNIMPLEMENTED,
                          "attribute shape has %u dimensions, at most %u are supported", count,
                          KILN_RANK_MAX);
    bool keep_zero = kiln_node_int(infer->node, "allowzero") != 0;
    kiln_shape *shape = &infer->shape[0];
    int64_t known = 1, total = kiln_shape_count(&in->shape);
    int unknown = -1;
    shape->rank = count;
    for (uint32_t d = 0; d < count; d++) {
        shape->dim[d] = wanted[d];
        if (wanted[d] == 0 && !keep_zero) {
            if (d >= in->shape.rank)
                return KILN_ERROR(INVALID_ARGUMENT,
                                  "attribute shape: dimension %u is 0, but the input has none", d);
            shape->dim[d] = in->shape.dim[d];
        }
        if (wanted[d] < -1 || (wanted[d] == -1 && unknown >= 0))
            return KILN_ERROR(INVALID_ARGUMENT, "attribute shape: dimension %u is out of range", d);
        if (wanted[d] == -1) unknown = (int)d;
        if (wanted[d] != -1 && __builtin_mul_overflow(known, shape->dim[d], &known))
            return KILN_ERROR(INVALID_ARGUMENT, "attribute shape: too many elements");
    }
    if (unknown >= 0) {
        if (known == 0 || total % known != 0)
            return KILN_ERROR(INVALID_ARGUMENT,
                              "attribute shape: %lld elements cannot be divided by %lld",
                              (long long)total, (long long)known);
        shape->dim[unknown] = total / known;
        known = total;
    }
    if (known != total)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute shape: %lld elements instead of %lld",
                          (long long)known, (long long)total);
    return KILN_OK;
}

/* The same bytes as elements of another type of their size. */
kiln_status kiln_rule_bit_cast(kiln_infer *infer) {
    const kiln_value_info *in = kiln_infer_input(infer, 0);
    kiln_status st = kiln_rule_cast(infer);
    if (st) return st;
    if (kiln_dtype_size(infer->dtype[0]) == kiln_dtype_size(in->dtype)) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT, "attribute to: %s and %s differ in size",
                      kiln_dtype_name(infer->dtype[0]), kiln_dtype_name(in->dtype));
}

/* To a matrix: dimensions before `axis`, and from it on. */
kiln_status kiln_rule_flatten(kiln_infer *infer) {
    const kiln_value_info *in = kiln_infer_input(infer, 0);
    int64_t axis = kiln_node_int(infer->node, "axis");
    if (axis < 0) axis += in->shape.rank;
    if (axis < 0 || axis > in->shape.rank)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute axis: out of range for rank %u",
                          in->shape.rank);
    infer->shape[0] = (kiln_shape){.rank = 2, .dim = {1, 1}};
    for (uint32_t d = 0; d < in->shape.rank; d++)
        infer->shape[0].dim[d >= (uint32_t)axis] *= in->shape.dim[d];
    return KILN_OK;
}

kiln_status kiln_rule_squeeze(kiln_infer *infer) {
    const kiln_value_info *in = kiln_infer_input(infer, 0);
    uint32_t ones = 0, mask = 0;
    for (uint32_t d = 0; d < in->shape.rank; d++)
        if (in->shape.dim[d] == 1) ones |= 1u << d;
    kiln_status st = kiln_axes_resolve(infer->node, "axes", in->shape.rank, ones, &mask);
    if (st) return st;
    if (mask & ~ones)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute axes names a dimension that is not 1");
    infer->shape[0].rank = 0;
    for (uint32_t d = 0; d < in->shape.rank; d++)
        if (!(mask >> d & 1u)) infer->shape[0].dim[infer->shape[0].rank++] = in->shape.dim[d];
    return KILN_OK;
}

kiln_status kiln_rule_unsqueeze(kiln_infer *infer) {
    const kiln_value_info *in = kiln_infer_input(infer, 0);
    uint32_t count = 0, mask = 0;
    kiln_node_ints(infer->node, "axes", &count);
    uint32_t rank = in->shape.rank + count;
    kiln_status st = kiln_infer_check_rank(rank);
    if (!st) st = kiln_axes_resolve(infer->node, "axes", rank, 0, &mask);
    uint32_t from = 0;
    for (uint32_t d = 0; !st && d < rank; d++)
        infer->shape[0].dim[d] = mask >> d & 1u ? 1 : in->shape.dim[from++];
    infer->shape[0].rank = rank;
    return st;
}
