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

const kiln_shape *kiln_te_out_shape(const kiln_te *te) {
    kiln_value any = te->node->output[0] ? te->node->output[0] : te->node->output[1];
    return &te->graph->value.data[any].shape;
}

uint32_t kiln_te_axis(const kiln_te *te) {
    int64_t axis = kiln_node_int(te->node, "axis");
    return (uint32_t)(axis < 0 ? axis + kiln_te_in_shape(te, 0)->rank : axis);
}

kiln_dtype kiln_te_compute_dtype(kiln_dtype dtype) { return kiln_dtype_computed(dtype); }

kiln_dtype kiln_te_wide(const kiln_te *te) {
    return kiln_te_compute_dtype(kiln_te_in_dtype(te, 0));
}

kiln_dtype kiln_te_out_wide(const kiln_te *te) {
    return kiln_te_compute_dtype(te->p->buffer.data[te->output[0]].dtype);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static kiln_str name_of(kiln_te *te, const char *suffix) {
    const char *op = kiln_op_get(te->node->op)->name;
    return kiln_str_from(*suffix ? kiln_arena_printf(te->p->arena, "%s.%s", op, suffix) : op);
}

/* Spatial iterators of tensors are i, j, k, ...: what they mean depends on the operator. */
static const char *const letter[2][KILN_RANK_MAX] = {
    {"i", "j", "k", "l", "m", "n", "o", "p"}, {"ri", "rj", "rk", "rl", "rm", "rn", "ro", "rp"}};

kiln_te_block kiln_te_block_begin(kiln_te *te, const char *suffix, const kiln_shape *shape) {
    kiln_te_block block = {.id = kiln_block_create(te->p, name_of(te, suffix))};
    for (uint32_t d = 0; d < shape->rank; d++)
        kiln_te_block_axis(te, &block, letter[0][d], shape->dim[d], false);
    return block;
}

kiln_te_block kiln_te_output_begin(kiln_te *te, const char *suffix) {
    kiln_te_block block = kiln_te_block_begin(te, suffix, kiln_te_out_shape(te));
    block.to = te->output[0];
    return block;
}

kiln_te_block kiln_te_temp_begin(kiln_te *te, const char *suffix, kiln_dtype dtype,
                                 const kiln_shape *shape) {
    kiln_buffer temp = kiln_te_temp(te, suffix, dtype, shape);
    kiln_te_block block = kiln_te_block_begin(te, suffix, shape);
    block.to = temp;
    return block;
}

kiln_te_block kiln_te_block_for(kiln_te *te, kiln_buffer to) {
    return (kiln_te_block){.id = kiln_block_create(te->p, name_of(te, "")), .to = to};
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

static uint32_t rank_of(const kiln_te *te, kiln_buffer buffer) {
    return te->p->buffer.data[buffer].shape.rank;
}

void kiln_te_store(kiln_te *te, const kiln_te_block *block, kiln_buffer buffer,
                   const kiln_expr *index, uint32_t rank, kiln_expr value) {
    kiln_expr stored = kiln_cast(te, te->p->buffer.data[buffer].dtype, value);
    kiln_block_set(te->p, block->id, buffer, index, rank, KILN_COMBINE_NONE, stored, 0);
}

void kiln_te_accumulate(kiln_te *te, const kiln_te_block *block, kiln_buffer buffer,
                        const kiln_expr *index, uint32_t rank, kiln_combiner combiner,
                        kiln_expr value) {
    kiln_block_set(te->p, block->id, buffer, index, rank, combiner, value, 0);
}

void kiln_te_put(kiln_te *te, const kiln_te_block *block, kiln_expr value) {
    kiln_te_store(te, block, block->to, block->i, rank_of(te, block->to), value);
}

void kiln_te_combine(kiln_te *te, const kiln_te_block *block, kiln_combiner combiner,
                     kiln_expr value) {
    kiln_te_accumulate(te, block, block->to, block->i, rank_of(te, block->to), combiner, value);
}

kiln_buffer kiln_te_sums(kiln_te *te, bool apart) {
    kiln_dtype wide = kiln_te_out_wide(te);
    return apart || wide != te->p->buffer.data[te->output[0]].dtype
               ? kiln_te_temp(te, "sum", wide, kiln_te_out_shape(te))
               : te->output[0];
}

void kiln_te_round(kiln_te *te, kiln_buffer sums) {
    if (sums == te->output[0]) return;
    kiln_te_block round = kiln_te_output_begin(te, "round");
    kiln_te_put(te, &round, kiln_te_at(te, sums, round.i));
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

kiln_expr kiln_te_load_moved(kiln_te *te, uint32_t input, const kiln_te_block *block, uint32_t axis,
                             kiln_expr at) {
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t d = 0; d < KILN_RANK_MAX; d++) index[d] = d == axis ? at : block->i[d];
    return kiln_te_load_raw(te, input, index);
}

kiln_expr kiln_te_load_scalar(kiln_te *te, uint32_t input, kiln_dtype dtype) {
    kiln_expr zero = kiln_index(te, 0), index[KILN_RANK_MAX];
    for (uint32_t d = 0; d < KILN_RANK_MAX; d++) index[d] = zero;
    return kiln_cast(te, dtype, kiln_te_load(te, input, index));
}

kiln_expr kiln_te_load(kiln_te *te, uint32_t input, const kiln_expr *index) {
    return kiln_cast(te, kiln_te_compute_dtype(kiln_te_in_dtype(te, input)),
                     kiln_te_load_raw(te, input, index));
}

/* Whether an iterator takes one value only: then it can replace index 0, and keeps the access
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
    return kiln_cast(te, dtype, kiln_expr_load(te->p, buffer, index, rank));
}

kiln_expr kiln_te_at(kiln_te *te, kiln_buffer buffer, const kiln_expr *index) {
    return kiln_te_read(te, buffer, index, rank_of(te, buffer));
}

kiln_expr kiln_te_const(kiln_te *te, kiln_expr like, double value) {
    return kiln_expr_const(te->p, (kiln_dtype)kiln_expr_get(te->p, like)->dtype, value);
}

/* ---- reductions ------------------------------------------------------------------------------ */

double kiln_shape_count_of(const kiln_shape *shape, uint32_t mask) {
    double count = 1;
    for (uint32_t d = 0; d < shape->rank; d++)
        if (mask >> d & 1u) count *= (double)shape->dim[d];
    return count;
}

/* The reduction as block `block`; reduced dimensions of its buffer are dropped without `keep`. */
static void reduce_by(kiln_te *te, kiln_te_block *block, const kiln_te_reduction *r, bool keep) {
    const kiln_shape *shape = r->shape ? r->shape : kiln_te_in_shape(te, 0);
    kiln_expr element[KILN_RANK_MAX] = {0}, index[KILN_RANK_MAX] = {0};
    uint32_t rank = 0;
    for (uint32_t reduce = 0; reduce < 2; reduce++)
        for (uint32_t d = 0; d < shape->rank; d++)
            if ((r->mask >> d & 1u) == reduce)
                element[d] =
                    kiln_te_block_axis(te, block, letter[reduce][d], shape->dim[d], reduce != 0);
    for (uint32_t d = 0; d < shape->rank; d++) {
        bool reduced = r->mask >> d & 1u;
        if (!reduced || keep) index[rank++] = reduced ? kiln_index(te, 0) : element[d];
    }
    kiln_expr value =
        r->operand ? r->operand(te, r->context, element) : kiln_te_load(te, 0, element);
    value = kiln_cast(te, te->p->buffer.data[block->to].dtype, value);
    if (r->mask) {
        kiln_te_accumulate(te, block, block->to, index, rank, r->combiner, value);
    } else { /* nothing to reduce: combining with the identity */
        kiln_te_store(te, block, block->to, index, rank, value);
    }
}

kiln_te_reduced kiln_te_reduce(kiln_te *te, const char *suffix, kiln_te_reduction r) {
    kiln_shape kept = r.shape ? *r.shape : *kiln_te_in_shape(te, 0);
    for (uint32_t d = 0; d < kept.rank; d++)
        if (r.mask >> d & 1u) kept.dim[d] = 1;
    kiln_te_block block = {
        .to = kiln_te_temp(te, suffix, r.dtype ? r.dtype : kiln_te_wide(te), &kept),
        .id = kiln_block_create(te->p, name_of(te, suffix))};
    reduce_by(te, &block, &r, true);
    return (kiln_te_reduced){block.to, r.mask};
}

void kiln_te_reduce_output(kiln_te *te, kiln_te_reduction r, bool keep) {
    kiln_te_block block = kiln_te_block_for(te, te->output[0]);
    reduce_by(te, &block, &r, keep);
}

kiln_expr kiln_te_reduced_at(kiln_te *te, const kiln_te_reduced *reduced, const kiln_expr *i) {
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t d = 0; d < KILN_RANK_MAX; d++)
        index[d] = reduced->mask >> d & 1u ? kiln_index(te, 0) : i[d];
    return kiln_te_at(te, reduced->buffer, index);
}

/* ---- index arithmetic ------------------------------------------------------------------------ */

kiln_expr kiln_index_affine(kiln_te *te, kiln_expr i, int64_t scale, int64_t offset) {
    return kiln_add(te, kiln_mul(te, i, kiln_index(te, scale)), kiln_index(te, offset));
}

kiln_expr kiln_index_floordiv(kiln_te *te, kiln_expr i, int64_t by) {
    return kiln_binary(te, KILN_EXPR_FLOORDIV, i, kiln_index(te, by));
}

kiln_expr kiln_index_floormod(kiln_te *te, kiln_expr i, int64_t by) {
    return kiln_binary(te, KILN_EXPR_FLOORMOD, i, kiln_index(te, by));
}

kiln_expr kiln_index_clamp(kiln_te *te, kiln_expr i, int64_t extent) {
    return kiln_max(te, kiln_min(te, i, kiln_index(te, extent - 1)), kiln_index(te, 0));
}

kiln_expr kiln_index_inside(kiln_te *te, kiln_expr i, int64_t low, int64_t high) {
    kiln_expr above = kiln_less_equal(te, kiln_index(te, low), i);
    return kiln_and(te, above, kiln_less(te, i, kiln_index(te, high)));
}

kiln_expr kiln_index_from(kiln_te *te, kiln_expr value, int64_t extent) {
    kiln_expr i = kiln_cast(te, KILN_INDEX_DTYPE, value), zero = kiln_index(te, 0);
    return kiln_index_clamp(
        te, kiln_select(te, kiln_less(te, i, zero), kiln_index_affine(te, i, 1, extent), i),
        extent);
}

kiln_expr kiln_te_sum_taps(kiln_te *te, const kiln_taps *t, uint32_t d, uint32_t rank,
                           kiln_expr *index) {
    if (d == rank) return kiln_te_load(te, 0, index);
    kiln_expr sum = 0;
    for (uint32_t k = 0; k < t[d].count; k++) {
        index[d] = t[d].index[k];
        kiln_expr value = kiln_te_sum_taps(te, t, d + 1, rank, index);
        kiln_dtype dtype = (kiln_dtype)kiln_expr_get(te->p, value)->dtype;
        if (t[d].weight[k]) value = kiln_mul(te, kiln_cast(te, dtype, t[d].weight[k]), value);
        sum = sum ? kiln_add(te, sum, value) : value;
    }
    return sum;
}

kiln_expr kiln_te_cubic_weight(kiln_te *te, double a, kiln_expr t, bool inner) {
    double c3 = inner ? a + 2 : a, c2 = inner ? -(a + 3) : -5 * a, c1 = inner ? 0 : 8 * a,
           c0 = inner ? 1 : -4 * a;
    kiln_expr value =
        kiln_add(te, kiln_mul(te, kiln_te_const(te, t, c3), t), kiln_te_const(te, t, c2));
    value = kiln_add(te, kiln_mul(te, value, t), kiln_te_const(te, t, c1));
    return kiln_add(te, kiln_mul(te, value, t), kiln_te_const(te, t, c0));
}
