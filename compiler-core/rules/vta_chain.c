/* The block that follows sums on an accelerator: operations of the ALU on accumulators, and a store
 * of bytes at the end. */
#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/rules/vta.h"

#define IMMEDIATE_MAX INT16_MAX /* a constant operand of an instruction has 16 bits, signed */

typedef struct chain {
    kiln_vta_tiling *t;
    const char *reason;
} chain;

/* Whether operand `e` of an operation can be in the instruction itself. */
static bool is_immediate(const kiln_program *p, kiln_expr e) {
    int64_t value;
    return kiln_expr_as_int(p, e, &value) && value >= -IMMEDIATE_MAX - 1 && value <= IMMEDIATE_MAX;
}

static void look_at_type(chain *c, kiln_dtype dtype) {
    const kiln_vta_config *m = c->t->machine;
    if (dtype == KILN_I8 && !kiln_vta_config_has(m, KILN_VTA_BYTES) && m->block_in != m->block_out)
        c->reason = "the machine loads no bytes into accumulators, and makes no products with a "
                    "unit matrix";
    else if (dtype != KILN_I8 && dtype != KILN_I32)
        c->reason = "an addend of the sums is neither bytes nor words";
}

static void look_at(chain *c, kiln_expr e) {
    kiln_program *p = c->t->s->program;
    const kiln_expr_node node = *kiln_expr_get(p, e);
    const bool has_mul = kiln_vta_config_has(c->t->machine, KILN_VTA_MUL);
    if (c->reason) return;
    switch ((int)node.op) {
    case KILN_EXPR_LOAD: look_at_type(c, (kiln_dtype)node.dtype); return;
    case KILN_EXPR_CAST: {
        const kiln_expr from = kiln_expr_operand(p, e, 0);
        if (node.dtype == KILN_I32 && kiln_expr_get(p, from)->op == KILN_EXPR_LOAD)
            look_at_type(c, (kiln_dtype)kiln_expr_get(p, from)->dtype);
        else
            c->reason = "it changes types between operations";
        return;
    }
    case KILN_EXPR_ADD:
    case KILN_EXPR_MIN:
    case KILN_EXPR_MAX:
    case KILN_EXPR_MUL:
        if (node.op == KILN_EXPR_MUL && !has_mul) break;
        c->t->operations++;
        for (uint32_t i = 0; i < 2 && !c->reason; i++)
            if (!is_immediate(p, kiln_expr_operand(p, e, i)))
                look_at(c, kiln_expr_operand(p, e, i));
        return;
    case KILN_EXPR_SHR:
    case KILN_EXPR_SHL:
        if (!is_immediate(p, kiln_expr_operand(p, e, 1))) break;
        c->t->operations++;
        look_at(c, kiln_expr_operand(p, e, 0));
        return;
    default: break;
    }
    c->reason = "the ALU lacks an operation that follows the sums";
}

/* The range that minima and maxima give a value; other values may have wrapped. */
static kiln_interval range_of(const kiln_program *p, kiln_expr e) {
    const kiln_expr_op op = (kiln_expr_op)kiln_expr_get(p, e)->op;
    if (op != KILN_EXPR_MIN && op != KILN_EXPR_MAX) return kiln_expr_bounds(p, e, NULL);
    const kiln_interval a = range_of(p, kiln_expr_operand(p, e, 0)),
                        b = range_of(p, kiln_expr_operand(p, e, 1));
    if (op == KILN_EXPR_MIN)
        return (kiln_interval){KILN_MIN(a.low, b.low), KILN_MIN(a.high, b.high)};
    return (kiln_interval){KILN_MAX(a.low, b.low), KILN_MAX(a.high, b.high)};
}

bool kiln_vta_is_bias(const kiln_vta_tiling *t, const kiln_pattern *follower, uint32_t from) {
    const int dim = t->pattern.to.dim_of[t->iter[KILN_VTA_AXIS_OUT]];
    uint32_t along = 0;
    for (uint32_t a = 0; a < follower->from_count; a++)
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
            if (follower->from[a].buffer == t->pattern.to.buffer &&
                follower->from[a].dim_of[i] == dim)
                along |= 1u << i;
    return t->s->program->buffer.data[follower->from[from].buffer].dtype == KILN_I32 &&
           !(follower->from[from].iters & follower->spatial & ~along);
}

/* Finds the operands of the ALU besides the sums. */
static const char *count_addends(kiln_vta_tiling *t) {
    kiln_pattern f;
    t->has_bias = false;
    t->addends = t->products = 0;
    if (!kiln_pattern_of(t->s->program, t->follower, &f)) return "nothing follows the sums";
    if (f.from_count > 1 + KILN_VTA_ADDENDS_MAX) return "too much is added to its sums";
    for (uint32_t a = 0; a < f.from_count; a++) {
        for (uint32_t other = 0; other < a; other++)
            if (f.from[other].buffer == f.from[a].buffer)
                return "the reader of its sums reads a buffer at several places";
        if (f.from[a].buffer == t->pattern.to.buffer) continue;
        const bool bias = kiln_vta_is_bias(t, &f, a);
        if (bias && t->machine->batch > 1)
            return "the machine's tiles have rows, and a bias is in one of them only";
        const kiln_dtype dtype = t->s->program->buffer.data[f.from[a].buffer].dtype;
        t->has_bias |= bias;
        t->addends += !bias;
        t->products += kiln_vta_by_product(t, dtype);
    }
    if (t->products && kiln_vta_extent(t, t->iter[KILN_VTA_AXIS_OUT]) % t->machine->block_out != 0)
        return "the machine loads no bytes into accumulators, and those that are added are no "
               "whole tiles";
    return NULL;
}

const char *kiln_vta_look_at_follower(kiln_vta_tiling *t) {
    kiln_program *p = t->s->program;
    const kiln_block_info b = p->block.data[t->follower];
    const kiln_expr_node node = *kiln_expr_get(p, b.value);
    if (b.combiner != KILN_COMBINE_NONE || p->buffer.data[b.buffer].dtype != KILN_I8 ||
        node.op != KILN_EXPR_CAST)
        return "its results are not turned into bytes, and the machine stores nothing else";
    const kiln_expr words = kiln_expr_operand(p, b.value, 0);
    const kiln_interval range = range_of(p, words);
    if (kiln_expr_get(p, words)->dtype != KILN_I32)
        return "its results become bytes from another type than i32";
    if (range.low < INT8_MIN || range.high > INT8_MAX)
        return "its results are not kept within bytes by a minimum and a maximum";
    chain c = {.t = t};
    t->operations = 0;
    look_at(&c, words);
    return c.reason ? c.reason : count_addends(t);
}
