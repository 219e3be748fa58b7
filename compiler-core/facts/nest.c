#include "compiler-core/facts/nest.h"

kiln_loops kiln_nest_loops(const kiln_program *p, kiln_stmt stmt) {
    kiln_loops found = {0};
    for (kiln_stmt s = p->stmt.data[stmt].parent; s; s = p->stmt.data[s].parent)
        found.count += p->stmt.data[s].kind == KILN_STMT_FOR;
    found.loop = KILN_ARENA_ARRAY(p->arena, kiln_stmt, found.count);
    uint32_t at = found.count;
    for (kiln_stmt s = p->stmt.data[stmt].parent; s; s = p->stmt.data[s].parent)
        if (p->stmt.data[s].kind == KILN_STMT_FOR) found.loop[--at] = s;
    return found;
}

kiln_loops kiln_block_loops(const kiln_program *p, kiln_block block) {
    return kiln_nest_loops(p, kiln_program_block_stmt(p, block));
}

kiln_stmt kiln_block_own_loop(const kiln_program *p, kiln_block block, uint32_t iter) {
    const kiln_iter *it = &p->block.data[block].iter[iter];
    kiln_loops around = kiln_block_loops(p, block);
    for (uint32_t l = 0; l < around.count; l++) {
        const kiln_expr_node *binding = kiln_expr_get(p, it->binding);
        if (binding->op == KILN_EXPR_VAR && binding->payload.id == p->stmt.data[around.loop[l]].var)
            return p->stmt.data[around.loop[l]].extent == it->extent ? around.loop[l] : 0;
    }
    return 0;
}

static uint32_t depth_of(const kiln_program *p, kiln_stmt stmt) {
    uint32_t depth = 0;
    for (; stmt; stmt = p->stmt.data[stmt].parent) depth++;
    return depth;
}

kiln_stmt kiln_nest_common(const kiln_program *p, kiln_stmt a, kiln_stmt b) {
    uint32_t depth_a = depth_of(p, a), depth_b = depth_of(p, b);
    for (; depth_a > depth_b; depth_a--) a = p->stmt.data[a].parent;
    for (; depth_b > depth_a; depth_b--) b = p->stmt.data[b].parent;
    while (a != b) {
        a = p->stmt.data[a].parent;
        b = p->stmt.data[b].parent;
    }
    return a;
}

kiln_stmt kiln_nest_child_towards(const kiln_program *p, kiln_stmt ancestor, kiln_stmt stmt) {
    while (stmt && p->stmt.data[stmt].parent != ancestor) stmt = p->stmt.data[stmt].parent;
    return stmt;
}

uint32_t kiln_nest_position(const kiln_program *p, kiln_stmt parent, kiln_stmt child) {
    const kiln_stmt_info *info = &p->stmt.data[parent];
    uint32_t at = 0;
    while (at < info->child.count && info->child.data[at] != child) at++;
    return at;
}

bool kiln_nest_before(const kiln_program *p, kiln_stmt a, kiln_stmt b) {
    kiln_stmt common = kiln_nest_common(p, a, b);
    if (common == a || common == b) return false;
    return kiln_nest_position(p, common, kiln_nest_child_towards(p, common, a)) <
           kiln_nest_position(p, common, kiln_nest_child_towards(p, common, b));
}

kiln_stmt kiln_nest_only_child(const kiln_program *p, kiln_stmt stmt) {
    do {
        const kiln_stmt_info *info = &p->stmt.data[stmt];
        if (info->child.count != 1) return 0;
        stmt = info->child.data[0];
    } while (p->stmt.data[stmt].kind == KILN_STMT_SEQ);
    return stmt;
}

void kiln_nest_visit_blocks(kiln_program *p, kiln_stmt stmt, kiln_block_visitor visit,
                            void *context) {
    if (p->stmt.data[stmt].kind == KILN_STMT_BLOCK) visit(p, p->stmt.data[stmt].block, context);
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
        kiln_nest_visit_blocks(p, p->stmt.data[stmt].child.data[i], visit, context);
}

uint32_t kiln_nest_block_count(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    uint32_t count = s->kind == KILN_STMT_BLOCK;
    for (uint32_t i = 0; i < s->child.count; i++)
        count += kiln_nest_block_count(p, s->child.data[i]);
    return count;
}

kiln_stmt kiln_home_add(const kiln_program *p, kiln_stmt home, kiln_stmt access) {
    return home ? kiln_nest_common(p, home, access) : access;
}

kiln_stmt kiln_home_outside_vectors(const kiln_program *p, kiln_stmt home) {
    for (kiln_stmt at = home; at; at = p->stmt.data[at].parent)
        if (p->stmt.data[at].kind == KILN_STMT_FOR &&
            p->stmt.data[at].loop_kind == KILN_LOOP_VECTORIZE)
            home = at;
    return home;
}

int kiln_block_iter_of(const kiln_program *p, kiln_block block, kiln_expr var_expr) {
    const kiln_expr_node *node = kiln_expr_get(p, var_expr);
    if (node->op != KILN_EXPR_VAR) return -1;
    const kiln_block_info *b = &p->block.data[block];
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].var == node->payload.id) return (int)i;
    return -1;
}

int kiln_block_find_iter(const kiln_program *p, kiln_block block, kiln_str name) {
    const kiln_block_info *b = &p->block.data[block];
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (kiln_str_equal(kiln_iter_name(p, &b->iter[i]), name)) return (int)i;
    return -1;
}

kiln_reach kiln_block_reach(const kiln_program *p, kiln_block block, kiln_var var) {
    kiln_reach found = {false, false};
    const kiln_block_info *b = &p->block.data[block];
    for (uint32_t i = 0; i < b->iter_count; i++) {
        if (!kiln_expr_uses_var(p, b->iter[i].binding, var)) continue;
        if (b->iter[i].reduce)
            found.reduce = true;
        else
            found.spatial = true;
    }
    return found;
}
