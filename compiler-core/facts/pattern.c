/* Access patterns of blocks. */
#include "compiler-core/facts/pattern.h"

#include <string.h>

#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/ir/affine.h"

static void add_index(kiln_program *p, const kiln_block_info *b, kiln_expr index, uint32_t d,
                      kiln_block_access *out) {
    kiln_affine sum;
    bool affine = kiln_affine_of(p, index, NULL, &sum);
    bool any_spatial = false, any_reduce = false;
    for (uint32_t i = 0; i < b->iter_count; i++) {
        if (!kiln_expr_uses_var(p, index, b->iter[i].var)) continue;
        out->iters |= 1u << i;
        any_spatial |= !b->iter[i].reduce;
        any_reduce |= b->iter[i].reduce;
        int64_t step = affine ? kiln_affine_coefficient(p, &sum, b->iter[i].var) : 0;
        if (b->iter[i].reduce) out->step[d] = step < 0 ? -step : step;
        bool steps_by_one = affine && kiln_affine_coefficient(p, &sum, b->iter[i].var) == 1 &&
                            sum.constant % b->iter[i].extent == 0;
        for (uint32_t t = 0; steps_by_one && t < sum.term_count; t++) {
            const kiln_expr_node *node = kiln_expr_get(p, sum.term[t]);
            bool self = node->op == KILN_EXPR_VAR && node->payload.id == b->iter[i].var;
            steps_by_one = self || (sum.coefficient[t] % b->iter[i].extent == 0 &&
                                    !kiln_expr_uses_var(p, sum.term[t], b->iter[i].var));
        }
        if (steps_by_one) out->dim_of[i] = (int8_t)d;
    }
    if (any_spatial && any_reduce) out->window |= 1u << d;
}

static kiln_block_access access_of(kiln_program *p, const kiln_block_info *b, kiln_buffer buffer,
                                   const kiln_expr *index, uint32_t rank) {
    kiln_block_access access = {.buffer = buffer};
    memset(access.dim_of, -1, sizeof access.dim_of);
    for (uint32_t d = 0; d < rank; d++) add_index(p, b, index[d], d, &access);
    return access;
}

/* Roundings to tf32 are casts, too. */
static kiln_expr without_casts(const kiln_program *p, kiln_expr e) {
    while (kiln_expr_get(p, e)->op == KILN_EXPR_CAST || kiln_expr_get(p, e)->op == KILN_EXPR_TF32)
        e = kiln_expr_operand(p, e, 0);
    return e;
}

static bool are_loads(const kiln_program *p, kiln_expr value, kiln_expr *out_left,
                      kiln_expr *out_right) {
    *out_left = without_casts(p, kiln_expr_operand(p, value, 0));
    *out_right = without_casts(p, kiln_expr_operand(p, value, 1));
    return kiln_expr_get(p, *out_left)->op == KILN_EXPR_LOAD &&
           kiln_expr_get(p, *out_right)->op == KILN_EXPR_LOAD;
}

/* A popcount of the and, or of the xor, of two words: sums of products of bits. */
static bool counts_ones(const kiln_program *p, kiln_expr value, kiln_expr *out_left,
                        kiln_expr *out_right) {
    value = without_casts(p, value);
    if (kiln_expr_get(p, value)->op != KILN_EXPR_POPCOUNT) return false;
    value = kiln_expr_operand(p, value, 0);
    const uint8_t op = kiln_expr_get(p, value)->op;
    return (op == KILN_EXPR_AND || op == KILN_EXPR_XOR) && are_loads(p, value, out_left, out_right);
}

static bool is_product_of_loads(const kiln_program *p, kiln_expr value, kiln_expr *out_left,
                                kiln_expr *out_right, bool *out_counts) {
    value = without_casts(p, value);
    *out_counts = false;
    if (kiln_expr_get(p, value)->op == KILN_EXPR_MUL && are_loads(p, value, out_left, out_right))
        return true;
    *out_counts = true;
    if (kiln_expr_get(p, value)->op != KILN_EXPR_MUL)
        return counts_ones(p, value, out_left, out_right);
    for (uint32_t i = 0; i < 2; i++) /* the other one is the weight of the bits */
        if (counts_ones(p, kiln_expr_operand(p, value, i), out_left, out_right)) return true;
    return false;
}

bool kiln_block_packs_bits(const kiln_program *p, kiln_block block) {
    const kiln_block_info *b = &p->block.data[block];
    if (b->removed || b->combiner != KILN_COMBINE_SUM ||
        kiln_expr_get(p, b->value)->op != KILN_EXPR_SELECT)
        return false;
    const kiln_expr bit = kiln_expr_operand(p, b->value, 1),
                    none = kiln_expr_operand(p, b->value, 2);
    int64_t value;
    return kiln_expr_get(p, bit)->op == KILN_EXPR_SHL &&
           kiln_expr_as_int(p, kiln_expr_operand(p, bit, 0), &value) && value == 1 &&
           kiln_expr_as_int(p, none, &value) && value == 0;
}

static bool has_own_iter(const kiln_pattern *pattern, uint32_t of, uint32_t other) {
    return (pattern->spatial & pattern->from[of].iters & ~pattern->from[other].iters) != 0;
}

bool kiln_pattern_of(kiln_program *p, kiln_block block, kiln_pattern *out) {
    const kiln_block_info b = p->block.data[block];
    *out = (kiln_pattern){.block = block};
    kiln_loads loads = kiln_block_loads(p, block);
    kiln_expr factor[2] = {0};
    if (b.removed) return false;
    out->multiplies = b.combiner == KILN_COMBINE_SUM && loads.count == 2 &&
                      is_product_of_loads(p, b.value, &factor[0], &factor[1], &out->counts_ones);
    out->counts_ones &= out->multiplies;
    const kiln_expr *load = out->multiplies ? factor : loads.load;
    out->to = access_of(p, &b, b.buffer, b.index, b.index_count);
    out->from_count = loads.count;
    out->from = KILN_ARENA_ARRAY(p->arena, kiln_block_access, loads.count);
    for (uint32_t i = 0; i < loads.count; i++) {
        kiln_expr index[KILN_RANK_MAX];
        uint32_t rank = kiln_load_index(p, load[i], index);
        out->from[i] = access_of(p, &b, kiln_load_buffer(p, load[i]), index, rank);
    }
    for (uint32_t i = 0; i < b.iter_count; i++) {
        if (b.iter[i].extent <= 1) continue;
        if (b.iter[i].reduce)
            out->reduce |= 1u << i;
        else
            out->spatial |= 1u << i;
    }
    out->contracts = out->multiplies || (b.combiner != KILN_COMBINE_NONE && loads.count == 2 &&
                                         has_own_iter(out, 0, 1) && has_own_iter(out, 1, 0));
    return true;
}

double kiln_pattern_work(const kiln_program *p, kiln_block block) {
    const kiln_block_info *b = &p->block.data[block];
    double points = 1;
    for (uint32_t i = 0; i < b->iter_count; i++) points *= (double)b->iter[i].extent;
    return points;
}
