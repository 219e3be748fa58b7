#include "compiler-core/ir/zeros.h"

#include "compiler-core/ir/affine.h"
#include "compiler-core/ir/interp.h"

/* Points of iterators that one condition uses together are tried one by one up to this number;
 * above it all points count as true. A window of 11 over 4096 outputs has 45,056. */
#define POINTS_TRIED_MAX 1000000.0

static kiln_expr both(kiln_program *p, kiln_expr a, kiln_expr b) {
    return a && b ? kiln_expr_binary(p, KILN_EXPR_AND, a, b) : a ? a : b;
}

/* Of one operand: the result is zero where the operand is. */
static bool keeps_zero(uint8_t op) { return op == KILN_EXPR_CAST || op == KILN_EXPR_TF32; }

kiln_expr kiln_zeros_unless(kiln_program *p, kiln_expr term) {
    const kiln_expr_node node = *kiln_expr_get(p, term);
    kiln_expr condition = 0;
    if (node.op == KILN_EXPR_SELECT &&
        kiln_expr_operand(p, term, 2) == kiln_expr_zero(p, (kiln_dtype)node.dtype))
        return both(p, kiln_expr_operand(p, term, 0),
                    kiln_zeros_unless(p, kiln_expr_operand(p, term, 1)));
    if (node.op != KILN_EXPR_MUL && !keeps_zero(node.op)) return 0;
    for (uint32_t i = 0; i < node.operand_count; i++)
        condition = both(p, condition, kiln_zeros_unless(p, kiln_expr_operand(p, term, i)));
    return condition;
}

/* ---- through copies -------------------------------------------------------------------------- */

/* The value of a block that writes through plain iterators at the place of a load; else the load.
 */
static kiln_expr value_at(kiln_program *p, kiln_expr load) {
    kiln_block block = kiln_program_producer(p, kiln_expr_get(p, load)->payload.id);
    if (!block || p->block.data[block].combiner != KILN_COMBINE_NONE) return load;
    const kiln_block_info b = p->block.data[block];
    kiln_expr *replacement = KILN_ARENA_ARRAY(p->arena, kiln_expr, p->var.count);
    uint32_t found = 0;
    for (uint32_t d = 0; d < b.index_count; d++)
        for (uint32_t i = 0; i < b.iter_count; i++) {
            if (b.index[d] != kiln_expr_var(p, b.iter[i].var)) continue;
            replacement[b.iter[i].var] = kiln_expr_operand(p, load, d);
            found++;
        }
    return found == b.iter_count ? kiln_expr_substitute(p, b.value, replacement) : load;
}

static kiln_expr read_copy(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    (void)e;
    (void)context;
    if (kiln_expr_get(p, rebuilt)->op != KILN_EXPR_LOAD) return rebuilt;
    kiln_expr value = value_at(p, rebuilt);
    return kiln_zeros_unless(p, value) ? value : rebuilt;
}

/* ---- what is added --------------------------------------------------------------------------- */

static bool is_inside(const kiln_program *p, kiln_expr load, const kiln_interval *range) {
    const kiln_expr_node *node = kiln_expr_get(p, load);
    for (uint32_t d = 0; d < node->operand_count; d++) {
        const kiln_interval at = kiln_expr_bounds(p, kiln_expr_operand(p, load, d), range);
        if (at.low < 0 || at.high >= p->buffer.data[node->payload.id].shape.dim[d]) return false;
    }
    return true;
}

static bool is_zero(kiln_program *p, kiln_expr e, const kiln_interval *range) {
    const kiln_expr_node node = *kiln_expr_get(p, e);
    if (e == kiln_expr_zero(p, (kiln_dtype)node.dtype)) return true;
    if (keeps_zero(node.op)) return is_zero(p, kiln_expr_operand(p, e, 0), range);
    if (node.op == KILN_EXPR_MUL)
        return is_zero(p, kiln_expr_operand(p, e, 0), range) &&
               is_zero(p, kiln_expr_operand(p, e, 1), range);
    if (node.op == KILN_EXPR_LOAD) {
        const kiln_expr value = is_inside(p, e, range) ? value_at(p, e) : e;
        return value != e && is_zero(p, value, range);
    }
    if (node.op != KILN_EXPR_SELECT) return false;
    const kiln_expr holds = kiln_expr_simplify(p, kiln_expr_operand(p, e, 0), range);
    return is_zero(p, kiln_expr_operand(p, e, 2), range) &&
           (holds == kiln_expr_zero(p, KILN_BOOL) || is_zero(p, kiln_expr_operand(p, e, 1), range));
}

bool kiln_zeros_added(kiln_program *p, kiln_block block, const kiln_interval *range) {
    return p->block.data[block].combiner == KILN_COMBINE_SUM &&
           is_zero(p, p->block.data[block].value, range);
}

/* ---- counting -------------------------------------------------------------------------------- */

#define PARTS_MAX 32

/* The conditions that hold together, and the iterators that each uses. */
typedef struct parts {
    uint32_t count;
    struct {
        kiln_expr condition;
        uint32_t iters;
    } part[PARTS_MAX];
} parts;

/* Parts that cannot be evaluated are left out: they count as true. */
static void add_part(kiln_program *p, const kiln_block_info *b, kiln_expr e, parts *out) {
    if (kiln_expr_get(p, e)->op == KILN_EXPR_AND) {
        add_part(p, b, kiln_expr_operand(p, e, 0), out);
        add_part(p, b, kiln_expr_operand(p, e, 1), out);
        return;
    }
    if (kiln_expr_get(p, e)->uses & KILN_USES_LOAD || out->count == PARTS_MAX) return;
    uint32_t iters = 0;
    for (uint32_t i = 0; i < b->iter_count; i++)
        iters |= (uint32_t)kiln_expr_uses_var(p, e, b->iter[i].var) << i;
    out->part[out->count].condition = e;
    out->part[out->count++].iters = iters;
}

/* All parts that share iterators with the first one, directly or through others, joined and taken
 * out of the list. */
static kiln_expr take_joined(kiln_program *p, parts *list, uint32_t *out_iters) {
    kiln_expr joined = 0;
    uint32_t iters = list->part[0].iters;
    for (uint32_t i = 0; i < list->count;) {
        if (joined && !(list->part[i].iters & iters)) {
            i++;
            continue;
        }
        joined = both(p, joined, list->part[i].condition);
        iters |= list->part[i].iters;
        list->part[i] = list->part[--list->count];
        i = 0;
    }
    *out_iters = iters;
    return joined;
}

/* Moves the iterators of the set to their next point; false after the last. */
static bool step(kiln_interp *in, const kiln_block_info *b, uint32_t iters) {
    kiln_interp_moved(in);
    for (uint32_t i = 0; i < b->iter_count; i++) {
        if (!(iters >> i & 1)) continue;
        if (++in->var[b->iter[i].var] < b->iter[i].extent) return true;
        in->var[b->iter[i].var] = 0;
    }
    return false;
}

/* Share of the iterators' points where the condition holds. */
static double share_of(const kiln_program *p, const kiln_block_info *b, kiln_expr condition,
                       uint32_t iters) {
    double points = 1, held = 0;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (iters >> i & 1) points *= (double)b->iter[i].extent;
    if (points < 1 || points > POINTS_TRIED_MAX) return 1;
    kiln_interp in;
    kiln_interp_init(&in, p, NULL, NULL);
    do held += kiln_interp_eval(&in, condition).i != 0;
    while (step(&in, b, iters));
    kiln_interp_deinit(&in);
    return held / points;
}

double kiln_zeros_share_left(kiln_program *p, kiln_block block) {
    const kiln_block_info b = p->block.data[block];
    double share = 1;
    if (b.combiner != KILN_COMBINE_SUM) return share;
    kiln_expr value = kiln_expr_rewrite(p, b.value, KILN_USES_LOAD, read_copy, NULL);
    kiln_expr condition = kiln_zeros_unless(p, value);
    if (!condition) return share;
    parts list = {.count = 0};
    add_part(p, &b, kiln_expr_simplify(p, condition, NULL), &list);
    while (list.count > 0) {
        uint32_t iters;
        kiln_expr joined = take_joined(p, &list, &iters);
        share *= share_of(p, &b, joined, iters);
    }
    return share;
}
