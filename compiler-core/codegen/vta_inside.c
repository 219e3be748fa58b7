#include "compiler-core/codegen/vta_inside.h"

#include "base/integer.h"
#include "compiler-core/ir/device.h"

kiln_vta_inside kiln_vta_everywhere(const kiln_vta_matching *m, uint32_t tile_loops) {
    kiln_vta_inside all = {.tile_loops = tile_loops};
    for (uint32_t i = 0; i < m->loop_count; i++) all.high[i] = kiln_vta_loop_extent(m, i) - 1;
    return all;
}

/* ---- conditions ------------------------------------------------------------------------------ */

/* Removes a loop of the tile from sum >= 0: if the condition holds at all, it holds at the loop's
 * first round.
 */
static bool take_part(kiln_vta_matching *m, kiln_vta_linear *sum, kiln_vta_inside *at) {
    for (uint32_t i = 0; i < m->loop_count; i++) {
        if (sum->factor[i] == 0 || !(at->tile_loops >> i & 1)) continue;
        if (sum->factor[i] != -1 || at->part_count == KILN_VTA_PARTS_MAX)
            return kiln_vta_refuse(m, "a part of a tile is padding");
        sum->factor[i] = 0;
        at->part[at->part_count++] = (kiln_vta_part){i, *sum};
        return true;
    }
    return true;
}

/* sum >= 0. */
static bool bound(kiln_vta_matching *m, kiln_vta_linear *sum, kiln_vta_inside *at) {
    uint32_t loop = KILN_VTA_CHAIN_LOOPS_MAX;
    if (!take_part(m, sum, at)) return false;
    for (uint32_t i = 0; i < m->loop_count; i++) {
        if (sum->factor[i] == 0) continue;
        if (loop != KILN_VTA_CHAIN_LOOPS_MAX)
            return kiln_vta_refuse(m, "a condition of a padding is over two loops");
        loop = i;
    }
    if (loop == KILN_VTA_CHAIN_LOOPS_MAX) {
        at->is_empty |= sum->constant < 0;
        return true;
    }
    const int64_t factor = sum->factor[loop];
    if (factor > 0)
        at->low[loop] = KILN_MAX(at->low[loop], -kiln_floordiv(sum->constant, factor));
    else
        at->high[loop] = KILN_MIN(at->high[loop], kiln_floordiv(sum->constant, -factor));
    at->is_empty |= at->low[loop] > at->high[loop];
    return true;
}

static bool bound_difference(kiln_vta_matching *m, kiln_expr larger, kiln_expr smaller,
                             int64_t least, kiln_vta_inside *at) {
    kiln_affine difference;
    kiln_vta_linear sum;
    const kiln_expr e = kiln_expr_binary(m->p, KILN_EXPR_SUB, larger, smaller);
    if (!kiln_affine_of(m->p, e, NULL, &difference))
        return kiln_vta_refuse(m, "a condition of a padding has too many terms");
    difference.constant -= least;
    return kiln_vta_find_linear(m, &difference, &sum) && bound(m, &sum, at);
}

bool kiln_vta_narrow(kiln_vta_matching *m, kiln_expr condition, kiln_vta_inside *at) {
    const kiln_expr_node node = *kiln_vta_node(m, condition);
    const kiln_expr a = node.operand_count == 2 ? kiln_vta_operand(m, condition, 0) : 0,
                    b = node.operand_count == 2 ? kiln_vta_operand(m, condition, 1) : 0;
    switch (node.op) {
    case KILN_EXPR_AND: return kiln_vta_narrow(m, a, at) && kiln_vta_narrow(m, b, at);
    case KILN_EXPR_LT: return bound_difference(m, b, a, 1, at);
    case KILN_EXPR_LE: return bound_difference(m, b, a, 0, at);
    case KILN_EXPR_EQ: return bound_difference(m, b, a, 0, at) && bound_difference(m, a, b, 0, at);
    default: return kiln_vta_refuse(m, "a condition of a padding is no comparison of indices");
    }
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Whether the part ends at the end of the dimension: index + more - round of the part's loop is its
 * last index in every round. */
static bool ends_with(kiln_vta_matching *m, const kiln_vta_part *part, kiln_expr index,
                      int64_t extent) {
    kiln_affine affine;
    kiln_vta_linear at;
    if (!kiln_affine_of(m->p, index, NULL, &affine) || !kiln_vta_find_linear(m, &affine, &at) ||
        at.constant + part->more.constant != extent - 1)
        return false;
    for (uint32_t i = 0; i < m->loop_count; i++)
        if (at.factor[i] + part->more.factor[i] != (i == part->loop)) return false;
    return true;
}

/* Whether the layout has blocks of so many elements along the dimension, the last of them padded.
 */
static bool has_blocks(const kiln_layout *layout, uint32_t dim, int64_t elements) {
    bool found = false;
    for (uint32_t j = 0; j < layout->piece_count; j++)
        found |= layout->piece[j].dim == dim && layout->piece[j].divisor == 1 &&
                 layout->piece[j].modulus == elements;
    return found;
}

bool kiln_vta_parts_are_all(kiln_vta_matching *m, const kiln_vta_inside *at, kiln_buffer buffer,
                            const kiln_expr *index) {
    const kiln_buffer_info *b = &m->p->buffer.data[buffer];
    const kiln_shape shape = b->shape;
    const kiln_layout layout = b->layout;
    for (uint32_t i = 0; i < at->part_count; i++) {
        const kiln_vta_part *part = &at->part[i];
        bool found = false;
        for (uint32_t d = 0; d < shape.rank && !found; d++)
            found = has_blocks(&layout, d, kiln_vta_loop_extent(m, part->loop)) &&
                    ends_with(m, part, index[d], shape.dim[d]);
        if (!found) return kiln_vta_refuse(m, "a part of a tile is not copied");
    }
    return true;
}

bool kiln_vta_stores_tiles(kiln_vta_matching *m, uint32_t tile_loops) {
    const kiln_stmt_info *s = &m->p->stmt.data[m->store];
    if (m->guard_count == 0) return true;
    kiln_vta_inside at = kiln_vta_everywhere(m, tile_loops);
    for (uint32_t i = 0; i < m->guard_count; i++)
        if (!kiln_vta_narrow(m, m->guard[i], &at)) return false;
    bool all = !at.is_empty;
    for (uint32_t i = 0; i < m->loop_count; i++)
        all &= at.low[i] == 0 && at.high[i] == kiln_vta_loop_extent(m, i) - 1;
    if (!all) return kiln_vta_refuse(m, "a condition leaves out whole tiles");
    return kiln_scopes[m->p->buffer.data[s->buffer].scope].seen_by == KILN_SEEN_BY_CORE ||
           kiln_vta_parts_are_all(m, &at, s->buffer, s->index);
}
