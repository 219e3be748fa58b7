#include "compiler-core/algorithm/sums.h"

#include <string.h>

#include "base/check.h"
#include "base/macros.h"

#define BLOCKS_ADDED_MAX 8

void kiln_blocks_put_around(kiln_program *p, kiln_block block, uint32_t count, uint32_t after) {
    kiln_block_info added[BLOCKS_ADDED_MAX], *all = p->block.data, its = all[block];
    const uint32_t first = p->block.count - count, before = count - after;
    KILN_CHECK(count <= BLOCKS_ADDED_MAX);
    memcpy(added, &all[first], count * sizeof *all);
    memmove(&all[block + count + 1], &all[block + 1], (first - block - 1) * sizeof *all);
    memcpy(&all[block], added, before * sizeof *all);
    all[block + before] = its;
    memcpy(&all[block + before + 1], &added[before], after * sizeof *all);
}

const kiln_buffer_info *kiln_loaded(const kiln_program *p, kiln_expr load) {
    return &p->buffer.data[kiln_expr_get(p, load)->payload.id];
}

/* The load that `e` casts to i32; 0: it is something else. */
static kiln_expr load_below(const kiln_program *p, kiln_expr e) {
    if (kiln_expr_get(p, e)->op != KILN_EXPR_CAST) return 0;
    kiln_expr load = kiln_expr_operand(p, e, 0);
    return kiln_expr_get(p, load)->op == KILN_EXPR_LOAD ? load : 0;
}

/* Whether dimension `d` of the weights is summed up as a whole: by a separate reduce iterator, or
 * because it has one element. */
static bool is_summed(const kiln_program *p, const kiln_sum *s, uint32_t d) {
    const kiln_block_info *b = &p->block.data[s->block];
    kiln_expr index = kiln_expr_operand(p, s->weights, d);
    const int64_t extent = kiln_loaded(p, s->weights)->shape.dim[d];
    if (kiln_expr_is_const(p, index)) return extent == 1;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (kiln_expr_get(p, index)->op == KILN_EXPR_VAR &&
            kiln_expr_get(p, index)->payload.id == b->iter[i].var)
            return b->iter[i].reduce && b->iter[i].extent == extent;
    return false;
}

static bool find_dims(const kiln_program *p, kiln_sum *s) {
    const kiln_block_info *b = &p->block.data[s->block];
    for (uint32_t d = 0; d < kiln_loaded(p, s->weights)->shape.rank; d++) {
        s->dim_of[d] = -1;
        for (uint32_t k = 0; k < b->index_count; k++)
            if (b->index[k] == kiln_expr_operand(p, s->weights, d)) s->dim_of[d] = (int)k;
        if (s->dim_of[d] < 0 && !is_summed(p, s, d)) return false;
    }
    return true;
}

/* Whether each reduce iterator is an index of the weights, so that each product has a weight of its
 * own. */
static bool sums_weights_once(const kiln_program *p, const kiln_sum *s) {
    const kiln_block_info *b = &p->block.data[s->block];
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce && b->iter[i].extent > 1 &&
            !kiln_expr_uses_var(p, s->weights, b->iter[i].var))
            return false;
    return true;
}

bool kiln_sum_find(const kiln_program *p, kiln_block block, uint32_t data, kiln_sum *out) {
    const kiln_block_info *b = &p->block.data[block];
    const kiln_expr_node *value = kiln_expr_get(p, b->value);
    if (b->combiner != KILN_COMBINE_SUM || b->removed || value->op != KILN_EXPR_MUL ||
        value->dtype != KILN_I32)
        return false;
    *out = (kiln_sum){.block = block,
                      .data = load_below(p, kiln_expr_operand(p, b->value, data)),
                      .weights = load_below(p, kiln_expr_operand(p, b->value, 1 - data))};
    return out->data && out->weights && kiln_loaded(p, out->data)->role != KILN_ROLE_CONSTANT &&
           kiln_loaded(p, out->weights)->role == KILN_ROLE_CONSTANT && find_dims(p, out) &&
           sums_weights_once(p, out);
}

kiln_block kiln_sum_begin(kiln_program *p, const kiln_sum *s, const char *suffix, kiln_dtype dtype,
                          const kiln_shape *shape, kiln_buffer *out_to) {
    kiln_str sum = p->block.data[s->block].name;
    kiln_str name = kiln_str_printf(p->arena, "%.*s.%s", KILN_STR_ARG(sum), suffix);
    *out_to = kiln_buffer_create(p, name, dtype, KILN_ROLE_TEMP, shape);
    return kiln_block_create(p, name);
}

kiln_expr kiln_sum_add_iter(kiln_program *p, kiln_block block, uint32_t d, int64_t extent,
                            bool reduce) {
    return kiln_block_add_iter(p, block, kiln_arena_printf(p->arena, "%s%u", reduce ? "r" : "d", d),
                               extent, reduce);
}

kiln_buffer kiln_sum_weights(kiln_program *p, const kiln_sum *s) {
    kiln_shape shape = kiln_loaded(p, s->weights)->shape, sums = shape;
    for (uint32_t d = 0; d < shape.rank; d++)
        if (s->dim_of[d] < 0) sums.dim[d] = 1;
    kiln_buffer to;
    kiln_block block = kiln_sum_begin(p, s, "shift", KILN_I32, &sums, &to);
    kiln_expr index[KILN_RANK_MAX] = {0}, at[KILN_RANK_MAX] = {0};
    for (uint32_t reduce = 0; reduce < 2; reduce++)
        for (uint32_t d = 0; d < shape.rank; d++)
            if ((s->dim_of[d] < 0) == (reduce != 0))
                at[d] = kiln_sum_add_iter(p, block, d, shape.dim[d], reduce != 0);
    for (uint32_t d = 0; d < shape.rank; d++)
        index[d] = s->dim_of[d] < 0 ? kiln_expr_index(p, 0) : at[d];
    kiln_buffer weights = kiln_expr_get(p, s->weights)->payload.id;
    kiln_expr w = kiln_expr_cast(p, KILN_I32, kiln_expr_load(p, weights, at, shape.rank));
    kiln_block_set(p, block, to, index, shape.rank, KILN_COMBINE_SUM, w, 0);
    return to;
}

void kiln_sum_add_offset(kiln_program *p, const kiln_sum *s, kiln_buffer offset) {
    const kiln_buffer result = p->block.data[s->block].buffer;
    const kiln_shape shape = p->buffer.data[result].shape;
    kiln_buffer sums;
    kiln_block block = kiln_sum_begin(p, s, "sums", KILN_I32, &shape, &sums);
    kiln_expr index[KILN_RANK_MAX] = {0}, at[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape.rank; d++)
        index[d] = kiln_sum_add_iter(p, block, d, shape.dim[d], false);
    const uint32_t rank = kiln_loaded(p, s->weights)->shape.rank;
    for (uint32_t d = 0; d < rank; d++)
        at[d] = s->dim_of[d] < 0 ? kiln_expr_index(p, 0) : index[s->dim_of[d]];
    kiln_expr sum = kiln_expr_load(p, sums, index, shape.rank);
    kiln_expr more = kiln_expr_load(p, offset, at, rank);
    kiln_block_set(p, block, result, index, shape.rank, KILN_COMBINE_NONE,
                   kiln_expr_binary(p, KILN_EXPR_ADD, sum, more), 0);
    p->block.data[s->block].buffer = sums;
}
