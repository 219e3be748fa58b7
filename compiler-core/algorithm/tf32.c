/* Sums of products of f32 whose factors are rounded to tf32, an f32 with 10 bits of mantissa, and
 * that are added up in f32 as before: for tensor cores. Rounded values are not stored: the
 * instruction's operands are rounded in registers, so no block or padding is added.
 *
 * A factor has a relative error of at most 2^-11, a sum an error of twice that times sum|a*b|. */
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/algorithm/steps.h"

static bool is_plain_load(const kiln_program *p, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    return node->op == KILN_EXPR_LOAD && node->dtype == KILN_F32;
}

/* Products of two values, along steps of both. Not of a value with itself, as in variances. */
static bool multiplies(const kiln_program *p, kiln_block block) {
    const kiln_block_info *b = &p->block.data[block];
    if (b->removed || b->combiner != KILN_COMBINE_SUM ||
        kiln_expr_get(p, b->value)->op != KILN_EXPR_MUL)
        return false;
    const kiln_expr x = kiln_expr_operand(p, b->value, 0), y = kiln_expr_operand(p, b->value, 1);
    return x != y && is_plain_load(p, x) && is_plain_load(p, y) &&
           kiln_steps_find(p, block, x, y, 1).extent > 0;
}

kiln_program *kiln_tf32_products(const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = kiln_program_copy(te, arena);
    bool found = false;
    for (kiln_block block = 1; block < p->block.count; block++) {
        if (!multiplies(p, block)) continue;
        kiln_expr factor[2];
        for (uint32_t i = 0; i < 2; i++)
            factor[i] = kiln_expr_unary(p, KILN_EXPR_TF32,
                                        kiln_expr_operand(p, p->block.data[block].value, i));
        const kiln_expr value = kiln_expr_binary(p, KILN_EXPR_MUL, factor[0], factor[1]);
        p->block.data[block].value = value;
        found = true;
    }
    return found ? p : NULL;
}
