#include "compiler-core/facts/prepare.h"

typedef struct reading {
    const kiln_program *p;
    const bool *constant;
    kiln_block block;
    kiln_block *seen; /* [expr count] block for which an expression was looked at */
} reading;

/* Whether every load at or below `e` is of a constant buffer. */
static bool loads_constants(const reading *r, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(r->p, e);
    if (r->seen[e] == r->block) return true;
    r->seen[e] = r->block;
    if (node->op == KILN_EXPR_LOAD && !r->constant[node->payload.id]) return false;
    for (uint32_t i = 0; i < node->operand_count; i++)
        if (!loads_constants(r, kiln_expr_operand(r->p, e, i))) return false;
    return true;
}

static bool block_is_constant(reading *r, kiln_block block) {
    const kiln_block_info *b = &r->p->block.data[block];
    bool only = r->constant[b->buffer];
    r->block = block;
    only = only && loads_constants(r, b->value);
    only = only && (!b->init || loads_constants(r, b->init));
    only = only && (!b->predicate || loads_constants(r, b->predicate));
    for (uint32_t i = 0; i < b->iter_count && only; i++)
        only = loads_constants(r, b->iter[i].binding);
    return only;
}

static bool nest_is_constant(reading *r, kiln_stmt stmt) {
    const kiln_stmt_info *s = &r->p->stmt.data[stmt];
    if (s->kind == KILN_STMT_BLOCK) return block_is_constant(r, s->block);
    for (uint32_t i = 0; i < s->child.count; i++)
        if (!nest_is_constant(r, s->child.data[i])) return false;
    return true;
}

static void unmark_written(const kiln_program *p, kiln_stmt stmt, bool *constant) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_BLOCK) constant[p->block.data[s->block].buffer] = false;
    for (uint32_t i = 0; i < s->child.count; i++) unmark_written(p, s->child.data[i], constant);
}

/* Starts with all nests and removes some until the condition holds. */
static void find_prepared(const kiln_program *p, kiln_nests *n, kiln_arena *arena) {
    for (bool changed = true; changed;) {
        reading r = {.p = p, .constant = n->constant};
        r.seen = KILN_ARENA_ARRAY(arena, kiln_block, p->expr.count);
        changed = false;
        for (uint32_t i = 0; i < n->count; i++) {
            if (!n->prepare[i] || nest_is_constant(&r, n->nest[i])) continue;
            n->prepare[i] = false;
            unmark_written(p, n->nest[i], n->constant);
            changed = true;
        }
    }
}

kiln_nests kiln_nests_of(const kiln_program *p, kiln_arena *arena) {
    const kiln_stmt_info *root = &p->stmt.data[p->root];
    bool is_list = root->kind == KILN_STMT_SEQ;
    kiln_nests n = {.count = is_list ? root->child.count : 1};
    n.nest = is_list ? kiln_arena_copy(arena, root->child.data, n.count * sizeof *n.nest)
                     : kiln_arena_copy(arena, &p->root, sizeof *n.nest);
    n.prepare = KILN_ARENA_ARRAY(arena, bool, n.count);
    n.constant = KILN_ARENA_ARRAY(arena, bool, p->buffer.count);
    for (uint32_t i = 0; i < n.count; i++) n.prepare[i] = true;
    for (kiln_buffer b = 1; b < p->buffer.count; b++) {
        const kiln_buffer_info *info = &p->buffer.data[b];
        n.constant[b] = info->role == KILN_ROLE_CONSTANT ||
                        (info->role == KILN_ROLE_TEMP && info->scope == KILN_SCOPE_GLOBAL);
    }
    find_prepared(p, &n, arena);
    return n;
}
