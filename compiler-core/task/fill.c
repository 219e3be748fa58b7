/* Finds the inputs that must be positive: a walk from outputs to inputs along the operands that
 * must be. */
#include "compiler-core/task/fill.h"

typedef struct walk {
    kiln_program *p;
    bool *positive; /* [buffer count] this buffer's elements should be positive */
    uint8_t *seen;  /* [expr count] bit `wanted`: visited so */
} walk;

/* Whether an operand must be positive, for a result that is finite and, if `wanted`, positive. */
static bool must_be_positive(kiln_expr_op op, uint32_t operand, bool wanted) {
    switch ((int)op) {
    case KILN_EXPR_DIV:
    case KILN_EXPR_REM:
    case KILN_EXPR_FLOORMOD:
    case KILN_EXPR_FLOORDIV: return operand == 1 || wanted;
    case KILN_EXPR_SQRT:
    case KILN_EXPR_LOG:
    case KILN_EXPR_LOAD: return true; /* of a load: indices that are data */
    case KILN_EXPR_POW: return operand == 0;
    case KILN_EXPR_EXP: /* positive, or of any sign without harm, for any operand */
    case KILN_EXPR_ABS:
    case KILN_EXPR_SIGMOID:
    case KILN_EXPR_SUB:
    case KILN_EXPR_NEG: return false;
    case KILN_EXPR_SELECT: return wanted && operand > 0;
    default: return wanted;
    }
}

static void visit(walk *w, kiln_expr e, bool wanted) {
    const kiln_expr_node node = *kiln_expr_get(w->p, e);
    if (w->seen[e] >> wanted & 1) return;
    w->seen[e] |= (uint8_t)(1 << wanted);
    bool square =
        node.op == KILN_EXPR_MUL && kiln_expr_operand(w->p, e, 0) == kiln_expr_operand(w->p, e, 1);
    if (node.op == KILN_EXPR_LOAD && wanted) w->positive[node.payload.id] = true;
    for (uint32_t i = 0; i < node.operand_count; i++)
        visit(w, kiln_expr_operand(w->p, e, i),
              !square && must_be_positive((kiln_expr_op)node.op, i, wanted));
}

void kiln_task_choose_fill(kiln_program *te) {
    walk w = {.p = te,
              .positive = KILN_ARENA_ARRAY(te->arena, bool, te->buffer.count),
              .seen = KILN_ARENA_ARRAY(te->arena, uint8_t, te->expr.count)};
    for (kiln_block b = te->block.count; b-- > 1;) {
        const kiln_block_info *block = &te->block.data[b];
        visit(&w, block->value, w.positive[block->buffer]);
    }
    for (kiln_buffer b = 1; b < te->buffer.count; b++) {
        kiln_buffer_info *buffer = &te->buffer.data[b];
        bool given = buffer->role == KILN_ROLE_INPUT || buffer->role == KILN_ROLE_CONSTANT;
        buffer->fill = given && w.positive[b] ? KILN_FILL_POSITIVE : KILN_FILL_UNIFORM;
    }
}
