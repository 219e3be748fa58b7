/* The statement tree as primitives see it. */
#include "compiler-core/sched/nest.h"

#include "base/check.h"
#include "compiler-core/ir/affine.h"

uint32_t kiln_nest_loops(const kiln_program *p, kiln_stmt stmt, kiln_stmt *out) {
    uint32_t count = 0;
    for (kiln_stmt s = p->stmt.data[stmt].parent; s; s = p->stmt.data[s].parent)
        if (p->stmt.data[s].kind == KILN_STMT_FOR && count < KILN_LOOPS_MAX) out[count++] = s;
    for (uint32_t i = 0; i < count / 2; i++) {
        kiln_stmt inner = out[i];
        out[i] = out[count - 1 - i];
        out[count - 1 - i] = inner;
    }
    return count;
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

static uint32_t position(const kiln_program *p, kiln_stmt parent, kiln_stmt child) {
    const kiln_stmt_info *info = &p->stmt.data[parent];
    uint32_t at = 0;
    while (at < info->child.count && info->child.data[at] != child) at++;
    return at;
}

bool kiln_nest_before(const kiln_program *p, kiln_stmt a, kiln_stmt b) {
    kiln_stmt common = kiln_nest_common(p, a, b);
    if (common == a || common == b) return false;
    return position(p, common, kiln_nest_child_towards(p, common, a)) <
           position(p, common, kiln_nest_child_towards(p, common, b));
}

kiln_stmt kiln_nest_only_child(const kiln_program *p, kiln_stmt stmt) {
    do {
        const kiln_stmt_info *info = &p->stmt.data[stmt];
        if (info->child.count != 1) return 0;
        stmt = info->child.data[0];
    } while (p->stmt.data[stmt].kind == KILN_STMT_SEQ);
    return stmt;
}

void kiln_nest_insert(kiln_program *p, kiln_stmt parent, kiln_stmt at, bool after, kiln_stmt stmt) {
    if (p->stmt.data[parent].kind != KILN_STMT_SEQ) {
        kiln_stmt seq = kiln_stmt_create(p, KILN_STMT_SEQ);
        kiln_stmt_wrap(p, at, seq);
        parent = seq;
    }
    uint32_t place = position(p, parent, at) + after;
    kiln_stmt_append(p, parent, stmt);
    kiln_stmt *child = p->stmt.data[parent].child.data;
    for (uint32_t i = p->stmt.data[parent].child.count - 1; i > place; i--) child[i] = child[i - 1];
    child[place] = stmt;
}

void kiln_nest_remove(kiln_program *p, kiln_stmt stmt) {
    kiln_stmt loop[KILN_LOOPS_MAX];
    uint32_t count = kiln_nest_loops(p, stmt, loop);
    kiln_stmt_remove(p, stmt);
    for (uint32_t i = 0; i < count; i++)
        if (!kiln_stmt_is_inside(p, loop[i], p->root))
            kiln_var_retire(p, p->stmt.data[loop[i]].var);
}

void kiln_nest_visit_blocks(kiln_program *p, kiln_stmt stmt, kiln_block_visitor visit,
                            void *context) {
    if (p->stmt.data[stmt].kind == KILN_STMT_BLOCK) visit(p, p->stmt.data[stmt].block, context);
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
        kiln_nest_visit_blocks(p, p->stmt.data[stmt].child.data[i], visit, context);
}

/* ---- rewriting ---- */

kiln_expr *kiln_nest_replacements(kiln_program *p) {
    return KILN_ARENA_ARRAY(p->arena, kiln_expr, p->var.count);
}

void kiln_nest_substitute(kiln_program *p, kiln_stmt stmt, const kiln_expr *replacement) {
    kiln_stmt_info *info = &p->stmt.data[stmt];
    if (info->kind == KILN_STMT_IF)
        info->condition =
            kiln_expr_simplify(p, kiln_expr_substitute(p, info->condition, replacement), NULL);
    if (info->kind == KILN_STMT_BLOCK) {
        kiln_block_info *b = &p->block.data[info->block];
        for (uint32_t i = 0; i < b->iter_count; i++) {
            kiln_expr bound = kiln_expr_substitute(p, b->iter[i].binding, replacement);
            if (bound != b->iter[i].binding)
                b->iter[i].binding = kiln_expr_simplify(p, bound, NULL);
        }
        kiln_expr predicate = b->predicate ? kiln_expr_substitute(p, b->predicate, replacement) : 0;
        if (predicate != b->predicate) b->predicate = kiln_expr_simplify(p, predicate, NULL);
    }
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
        kiln_nest_substitute(p, p->stmt.data[stmt].child.data[i], replacement);
}

void kiln_block_require(kiln_program *p, kiln_block block, kiln_expr condition) {
    int64_t known;
    if (kiln_expr_as_int(p, condition, &known) && known) return;
    kiln_block_info *b = &p->block.data[block];
    b->predicate =
        b->predicate ? kiln_expr_binary(p, KILN_EXPR_AND, b->predicate, condition) : condition;
}

/* ---- blocks ---- */

typedef struct load_list {
    kiln_expr *out;
    uint32_t count;
} load_list;

static void list_load(kiln_program *p, kiln_expr load, void *context) {
    (void)p;
    load_list *list = context;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->out[i] == load) return;
    if (list->count < KILN_LOADS_MAX) list->out[list->count++] = load;
}

uint32_t kiln_block_loads(kiln_program *p, kiln_block block, kiln_expr *out) {
    load_list list = {out, 0};
    kiln_expr_visit_loads(p, p->block.data[block].value, list_load, &list);
    if (p->block.data[block].init)
        kiln_expr_visit_loads(p, p->block.data[block].init, list_load, &list);
    return list.count;
}

bool kiln_block_reads(kiln_program *p, kiln_block block, kiln_buffer buffer) {
    kiln_expr load[KILN_LOADS_MAX];
    uint32_t count = kiln_block_loads(p, block, load);
    for (uint32_t i = 0; i < count; i++)
        if (kiln_expr_get(p, load[i])->payload.id == buffer) return true;
    return false;
}

uint32_t kiln_buffer_readers(kiln_program *p, kiln_buffer buffer, kiln_block *out) {
    uint32_t count = 0;
    for (kiln_block b = 1; b < p->block.count; b++)
        if (!p->block.data[b].removed && kiln_block_reads(p, b, buffer)) out[count++] = b;
    return count;
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

kiln_stmt kiln_block_own_loop(const kiln_program *p, kiln_block block, uint32_t iter) {
    const kiln_iter *it = &p->block.data[block].iter[iter];
    kiln_stmt loop[KILN_LOOPS_MAX];
    uint32_t count = kiln_nest_loops(p, kiln_program_block_stmt(p, block), loop);
    for (uint32_t l = 0; l < count; l++) {
        const kiln_expr_node *binding = kiln_expr_get(p, it->binding);
        if (binding->op == KILN_EXPR_VAR && binding->payload.id == p->stmt.data[loop[l]].var)
            return p->stmt.data[loop[l]].extent == it->extent ? loop[l] : 0;
    }
    return 0;
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

kiln_stmt kiln_block_make_nest(kiln_program *p, kiln_block block, const int64_t *extent,
                               const kiln_expr *base) {
    kiln_var var[KILN_BLOCK_ITERS_MAX];
    uint32_t count = p->block.data[block].iter_count;
    for (uint32_t i = 0; i < count; i++) {
        kiln_iter *iter = &p->block.data[block].iter[i];
        kiln_str short_name = kiln_iter_name(p, iter);
        char *name = kiln_arena_printf(p->arena, "%.*s.%.*s", BLOCK_NAME(p, block),
                                       KILN_STR_ARG(short_name));
        var[i] = kiln_var_create(p, kiln_str_from(name), 0, extent[i] - 1);
        kiln_expr loop = extent[i] == 1 ? kiln_expr_index(p, 0) : kiln_expr_var(p, var[i]);
        iter->binding = base && base[i] ? kiln_expr_binary(p, KILN_EXPR_ADD, base[i], loop) : loop;
    }
    kiln_stmt nest = kiln_stmt_create(p, KILN_STMT_BLOCK);
    p->stmt.data[nest].block = block;
    for (int reduce = 1; reduce >= 0;
         reduce--) /* from the inside out: reduce loops are innermost */
        for (uint32_t i = count; i-- > 0;)
            if (p->block.data[block].iter[i].reduce == reduce)
                nest = kiln_stmt_for(p, var[i], 0, extent[i], KILN_LOOP_SERIAL, nest);
    return nest;
}
