/* Helpers for writing operators as blocks. */
#include "base/check.h"
#include "compiler-core/ops/rules.h"

const kiln_shape *kiln_te_in_shape(const kiln_te *te, uint32_t input) {
    const kiln_value_info *info = kiln_node_input(te->graph, te->node, input);
    KILN_CHECK(info != NULL);
    return &info->shape;
}

kiln_dtype kiln_te_in_dtype(const kiln_te *te, uint32_t input) {
    const kiln_value_info *info = kiln_node_input(te->graph, te->node, input);
    KILN_CHECK(info != NULL);
    return info->dtype;
}

bool kiln_te_has(const kiln_te *te, uint32_t input) {
    return kiln_node_input(te->graph, te->node, input) != NULL;
}

kiln_dtype kiln_te_compute_dtype(kiln_dtype dtype) {
    return dtype == KILN_F16 || dtype == KILN_BF16 ? KILN_F32 : dtype;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static kiln_str name_of(kiln_te *te, const char *suffix) {
    const char *op = kiln_op_get(te->node->op)->name;
    return kiln_str_from(*suffix ? kiln_arena_printf(te->p->arena, "%s.%s", op, suffix) : op);
}

/* Spatial iterators of tensors are i, j, k, ...: what they mean depends on the operator. */
kiln_te_block kiln_te_block_begin(kiln_te *te, const char *suffix, const kiln_shape *shape) {
    static const char *const letter[KILN_RANK_MAX] = {"i", "j", "k", "l", "m", "n", "o", "p"};
    kiln_te_block block = {.id = kiln_block_create(te->p, name_of(te, suffix))};
    for (uint32_t d = 0; d < shape->rank; d++)
        kiln_te_block_axis(te, &block, letter[d], shape->dim[d], false);
    return block;
}

kiln_expr kiln_te_block_axis(kiln_te *te, kiln_te_block *block, const char *name, int64_t extent,
                             bool reduce) {
    KILN_CHECK(block->rank < KILN_BLOCK_ITERS_MAX);
    kiln_expr axis = kiln_block_add_iter(te->p, block->id, name, extent, reduce);
    return block->i[block->rank++] = axis;
}

kiln_buffer kiln_te_temp(kiln_te *te, const char *suffix, kiln_dtype dtype,
                         const kiln_shape *shape) {
    return kiln_buffer_create(te->p, name_of(te, suffix), dtype, KILN_ROLE_TEMP, shape);
}

void kiln_te_store(kiln_te *te, const kiln_te_block *block, kiln_buffer buffer,
                   const kiln_expr *index, uint32_t rank, kiln_expr value) {
    kiln_expr stored = kiln_expr_cast(te->p, te->p->buffer.data[buffer].dtype, value);
    kiln_block_set(te->p, block->id, buffer, index, rank, KILN_COMBINE_NONE, stored, 0);
}

void kiln_te_accumulate(kiln_te *te, const kiln_te_block *block, kiln_buffer buffer,
                        const kiln_expr *index, uint32_t rank, kiln_combiner combiner,
                        kiln_expr value) {
    kiln_block_set(te->p, block->id, buffer, index, rank, combiner, value, 0);
}

/* ---- loads ----------------------------------------------------------------------------------- */

kiln_expr kiln_te_load_raw(kiln_te *te, uint32_t input, const kiln_expr *index) {
    kiln_value value = te->node->input[input];
    const kiln_value_info *info = &te->graph->value.data[value];
    if (!kiln_value_is_literal(te->graph, value))
        return kiln_expr_load(te->p, te->input[input], index, info->shape.rank);
    if (kiln_dtype_is_float(info->dtype))
        return kiln_expr_float(te->p, info->dtype, kiln_dtype_load_f64(info->dtype, info->data, 0));
    return kiln_expr_int(te->p, info->dtype, kiln_dtype_load_i64(info->dtype, info->data, 0));
}

kiln_expr kiln_te_load(kiln_te *te, uint32_t input, const kiln_expr *index) {
    return kiln_expr_cast(te->p, kiln_te_compute_dtype(kiln_te_in_dtype(te, input)),
                          kiln_te_load_raw(te, input, index));
}

/* Whether an iterator takes one value only: then it is as good an index as 0, and keeps the access
 * plain. */
static bool is_single(const kiln_te *te, kiln_expr i) {
    const kiln_expr_node *node = kiln_expr_get(te->p, i);
    return node->op == KILN_EXPR_VAR && te->p->var.data[node->payload.id].high == 0;
}

kiln_expr kiln_te_load_broadcast(kiln_te *te, uint32_t input, const kiln_expr *i, uint32_t rank) {
    const kiln_shape *shape = kiln_te_in_shape(te, input);
    kiln_expr index[KILN_RANK_MAX] = {0};
    KILN_CHECK(shape->rank <= rank);
    for (uint32_t d = 0; d < shape->rank; d++) {
        kiln_expr at = i[rank - shape->rank + d];
        index[d] = shape->dim[d] == 1 && !is_single(te, at) ? kiln_index(te, 0) : at;
    }
    return kiln_te_load(te, input, index);
}

kiln_expr kiln_te_read(kiln_te *te, kiln_buffer buffer, const kiln_expr *index, uint32_t rank) {
    kiln_dtype dtype = kiln_te_compute_dtype(te->p->buffer.data[buffer].dtype);
    return kiln_expr_cast(te->p, dtype, kiln_expr_load(te->p, buffer, index, rank));
}

kiln_expr kiln_te_const(kiln_te *te, kiln_expr like, double value) {
    return kiln_expr_const(te->p, (kiln_dtype)kiln_expr_get(te->p, like)->dtype, value);
}

/* ---- reductions ------------------------------------------------------------------------------ */

kiln_buffer kiln_te_reduce(kiln_te *te, const char *suffix, const kiln_shape *shape, uint32_t mask,
                           kiln_dtype dtype, kiln_combiner combiner, kiln_te_operand operand,
                           const void *context) {
    static const char *const letter[2][KILN_RANK_MAX] = {
        {"i", "j", "k", "l", "m", "n", "o", "p"}, {"ri", "rj", "rk", "rl", "rm", "rn", "ro", "rp"}};
    kiln_shape kept = *shape;
    for (uint32_t d = 0; d < shape->rank; d++)
        if (mask >> d & 1u) kept.dim[d] = 1;
    kiln_buffer buffer = kiln_te_temp(te, suffix, dtype, &kept);
    kiln_te_block block = {.id = kiln_block_create(te->p, name_of(te, suffix))};
    kiln_expr element[KILN_RANK_MAX] = {0}, index[KILN_RANK_MAX] = {0};
    for (uint32_t reduce = 0; reduce < 2; reduce++) {
        for (uint32_t d = 0; d < shape->rank; d++) {
            if ((mask >> d & 1u) != reduce) continue;
            element[d] =
                kiln_te_block_axis(te, &block, letter[reduce][d], shape->dim[d], reduce != 0);
            index[d] = reduce ? kiln_index(te, 0) : element[d];
        }
    }
    kiln_expr value = kiln_expr_cast(te->p, dtype, operand(te, context, element));
    if (mask) {
        kiln_te_accumulate(te, &block, buffer, index, shape->rank, combiner, value);
    } else { /* nothing to reduce: combining with the identity */
        kiln_te_store(te, &block, buffer, index, shape->rank, value);
    }
    return buffer;
}

kiln_expr kiln_te_read_reduced(kiln_te *te, kiln_buffer buffer, uint32_t mask, const kiln_expr *i,
                               uint32_t rank) {
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < rank; d++) index[d] = mask >> d & 1u ? kiln_index(te, 0) : i[d];
    return kiln_te_read(te, buffer, index, rank);
}

kiln_expr kiln_te_operand_input(kiln_te *te, const void *context, const kiln_expr *i) {
    (void)context;
    return kiln_te_load(te, 0, i);
}

/* ---- index arithmetic ------------------------------------------------------------------------ */

kiln_expr kiln_index_affine(kiln_te *te, kiln_expr i, int64_t scale, int64_t offset) {
    return kiln_add(te, kiln_mul(te, i, kiln_index(te, scale)), kiln_index(te, offset));
}

kiln_expr kiln_index_inside(kiln_te *te, kiln_expr i, int64_t low, int64_t high) {
    kiln_expr above = kiln_expr_binary(te->p, KILN_EXPR_LE, kiln_index(te, low), i);
    return kiln_and(te, above, kiln_less(te, i, kiln_index(te, high)));
}

kiln_expr kiln_index_from(kiln_te *te, kiln_expr value, int64_t extent) {
    kiln_expr i = kiln_expr_cast(te->p, KILN_INDEX_DTYPE, value), zero = kiln_index(te, 0);
    kiln_expr from_start =
        kiln_select(te, kiln_less(te, i, zero), kiln_index_affine(te, i, 1, extent), i);
    return kiln_max(te, kiln_min(te, from_start, kiln_index(te, extent - 1)), zero);
}

kiln_expr kiln_te_sum_taps(kiln_te *te, const kiln_taps *t, uint32_t d, uint32_t rank,
                           kiln_expr *index) {
    if (d == rank) return kiln_te_load(te, 0, index);
    kiln_expr sum = 0;
    for (uint32_t k = 0; k < t[d].count; k++) {
        index[d] = t[d].index[k];
        kiln_expr value = kiln_te_sum_taps(te, t, d + 1, rank, index);
        kiln_dtype dtype = (kiln_dtype)kiln_expr_get(te->p, value)->dtype;
        if (t[d].weight[k])
            value = kiln_mul(te, kiln_expr_cast(te->p, dtype, t[d].weight[k]), value);
        sum = sum ? kiln_add(te, sum, value) : value;
    }
    return sum;
}
