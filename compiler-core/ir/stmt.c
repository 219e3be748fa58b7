/* The statement tree of loop programs. Statements taken out stay in the table, without a parent. */
#include "base/check.h"
#include "compiler-core/ir/ir.h"

static kiln_stmt_info *get(const kiln_program *p, kiln_stmt s) {
    KILN_CHECK(s > 0);
    KILN_CHECK(s < p->stmt.count);
    return &p->stmt.data[s];
}

kiln_stmt kiln_stmt_create(kiln_program *p, kiln_stmt_kind kind) {
    kiln_stmt_info info = {.kind = (uint8_t)kind};
    kiln_vec_push_in(p->arena, &p->stmt, info);
    return p->stmt.count - 1;
}

static uint32_t place_in(const kiln_stmt_info *parent, kiln_stmt child) {
    uint32_t at = 0;
    while (at < parent->child.count && parent->child.data[at] != child) at++;
    KILN_CHECK(at < parent->child.count);
    return at;
}

static void detach(kiln_program *p, kiln_stmt stmt) {
    kiln_stmt parent = get(p, stmt)->parent;
    if (p->root == stmt) p->root = 0;
    if (!parent) return;
    kiln_stmt_info *info = get(p, parent);
    for (uint32_t at = place_in(info, stmt) + 1; at < info->child.count; at++)
        info->child.data[at - 1] = info->child.data[at];
    info->child.count--;
    get(p, stmt)->parent = 0;
}

/* Puts detached `replacement` exactly where `old` is; `old` becomes detached. */
static void swap_in(kiln_program *p, kiln_stmt old, kiln_stmt replacement) {
    kiln_stmt parent = get(p, old)->parent;
    if (p->root == old) p->root = replacement;
    if (parent) {
        kiln_stmt_info *info = get(p, parent);
        info->child.data[place_in(info, old)] = replacement;
    }
    get(p, replacement)->parent = parent;
    get(p, old)->parent = 0;
}

void kiln_stmt_append(kiln_program *p, kiln_stmt parent, kiln_stmt child) {
    kiln_stmt_info *info = get(p, parent);
    KILN_CHECK(get(p, child)->parent == 0);
    KILN_CHECK(p->root != child);
    KILN_CHECK(info->kind == KILN_STMT_SEQ || info->kind == KILN_STMT_FOR ||
               info->kind == KILN_STMT_IF || info->kind == KILN_STMT_ALLOC);
    if (info->kind != KILN_STMT_SEQ && info->child.count == 1) {
        kiln_stmt first = info->child.data[0];
        if (get(p, first)->kind != KILN_STMT_SEQ)
            kiln_stmt_wrap(p, first, kiln_stmt_create(p, KILN_STMT_SEQ));
        kiln_stmt_append(p, get(p, parent)->child.data[0], child);
        return;
    }
    kiln_vec_push_in(p->arena, &info->child, child);
    get(p, child)->parent = parent;
}

void kiln_stmt_wrap(kiln_program *p, kiln_stmt inner, kiln_stmt outer) {
    KILN_CHECK(get(p, outer)->child.count == 0);
    KILN_CHECK(get(p, outer)->parent == 0);
    swap_in(p, inner, outer);
    kiln_stmt_append(p, outer, inner);
}

kiln_stmt kiln_stmt_for(kiln_program *p, kiln_var var, int64_t first, int64_t extent,
                        kiln_loop_kind kind, kiln_stmt body) {
    KILN_CHECK(extent >= 0);
    kiln_stmt loop = kiln_stmt_create(p, KILN_STMT_FOR);
    kiln_stmt_info *info = get(p, loop);
    info->loop_kind = (uint8_t)kind;
    info->var = var;
    info->first = first;
    info->extent = extent;
    kiln_var_set_range(p, var, first, first + (extent > 0 ? extent - 1 : 0));
    if (body) kiln_stmt_wrap(p, body, loop);
    return loop;
}

void kiln_stmt_replace(kiln_program *p, kiln_stmt old, kiln_stmt replacement) {
    if (old == replacement) return;
    KILN_CHECK(!kiln_stmt_is_inside(p, old, replacement));
    detach(p, replacement);
    swap_in(p, old, replacement);
}

void kiln_stmt_remove(kiln_program *p, kiln_stmt stmt) {
    kiln_stmt parent = get(p, stmt)->parent;
    detach(p, stmt);
    if (parent && get(p, parent)->child.count == 0) kiln_stmt_remove(p, parent);
    if (!p->root) p->root = kiln_stmt_create(p, KILN_STMT_SEQ);
}

bool kiln_stmt_is_inside(const kiln_program *p, kiln_stmt inner, kiln_stmt outer) {
    while (inner && inner != outer) inner = p->stmt.data[inner].parent;
    return inner == outer;
}

static bool block_combines(const kiln_program *p, kiln_block block, kiln_var lane) {
    const kiln_block_info *b = &p->block.data[block];
    /* Sums of i64 are reordered like index sums, and store_combines would not find them. */
    if (b->combiner == KILN_COMBINE_NONE || b->init ||
        (b->predicate && kiln_expr_uses_var(p, b->predicate, lane)) ||
        p->buffer.data[b->buffer].dtype == KILN_I64)
        return false;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (!b->iter[i].reduce && kiln_expr_uses_var(p, b->iter[i].binding, lane)) return false;
    return true;
}

/* buffer[index] = buffer[index] op value, with one index for all lanes. */
static bool store_combines(const kiln_program *p, const kiln_stmt_info *s, kiln_var lane) {
    if (kiln_expr_get(p, s->value)->operand_count != 2) return false;
    const kiln_expr old = kiln_expr_operand(p, s->value, 0);
    const kiln_expr_node *load = kiln_expr_get(p, old);
    if (load->op != KILN_EXPR_LOAD || load->payload.id != s->buffer) return false;
    for (uint32_t d = 0; d < load->operand_count; d++)
        if (kiln_expr_operand(p, old, d) != s->index[d] || kiln_expr_uses_var(p, s->index[d], lane))
            return false;
    return true;
}

bool kiln_stmt_combines_lanes(const kiln_program *p, kiln_stmt loop) {
    const kiln_stmt_info *s = &p->stmt.data[loop], *body = s;
    if (s->kind != KILN_STMT_FOR || s->loop_kind != KILN_LOOP_VECTORIZE ||
        (s->extent & (s->extent - 1)) != 0)
        return false;
    do {
        if (body->child.count != 1) return false;
        body = &p->stmt.data[body->child.data[0]];
    } while (body->kind == KILN_STMT_SEQ ||
             (body->kind == KILN_STMT_IF && !kiln_expr_uses_var(p, body->condition, s->var)));
    return body->kind == KILN_STMT_BLOCK   ? block_combines(p, body->block, s->var)
           : body->kind == KILN_STMT_STORE ? store_combines(p, body, s->var)
                                           : false;
}

kiln_stmt kiln_program_find_loop(const kiln_program *p, kiln_str var_name) {
    for (uint32_t i = 1; i < p->stmt.count; i++) {
        const kiln_stmt_info *s = &p->stmt.data[i];
        if (s->kind == KILN_STMT_FOR && kiln_str_equal(p->var.data[s->var].name, var_name) &&
            kiln_stmt_is_inside(p, i, p->root))
            return i;
    }
    return 0;
}

kiln_stmt kiln_program_block_stmt(const kiln_program *p, kiln_block block) {
    for (uint32_t i = 1; i < p->stmt.count; i++) {
        const kiln_stmt_info *s = &p->stmt.data[i];
        if (s->kind == KILN_STMT_BLOCK && s->block == block && kiln_stmt_is_inside(p, i, p->root))
            return i;
    }
    return 0;
}

static kiln_stmt block_nest(kiln_program *p, kiln_block block) {
    kiln_stmt nest = kiln_stmt_create(p, KILN_STMT_BLOCK);
    get(p, nest)->block = block;
    /* From the innermost loop outwards; variables are made in order first, so that text reads
     * naturally. */
    kiln_var loop_var[KILN_BLOCK_ITERS_MAX];
    uint32_t count = p->block.data[block].iter_count;
    for (uint32_t i = 0; i < count; i++) {
        loop_var[i] = kiln_block_loop_var(p, block, i, p->block.data[block].iter[i].extent);
        p->block.data[block].iter[i].binding = kiln_expr_var(p, loop_var[i]);
    }
    for (uint32_t i = count; i-- > 0;)
        nest = kiln_stmt_for(p, loop_var[i], 0, p->block.data[block].iter[i].extent,
                             KILN_LOOP_SERIAL, nest);
    return nest;
}

/* An empty sum is its initial value; loops without iterations would never store it. */
static void settle_empty_reduction(kiln_program *p, kiln_block block) {
    kiln_block_info *b = &p->block.data[block];
    uint32_t kept = 0;
    bool is_empty = false;
    for (uint32_t i = 0; i < b->iter_count; i++)
        is_empty |= b->iter[i].reduce && b->iter[i].extent == 0;
    if (!is_empty || !b->init) return;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (!b->iter[i].reduce) b->iter[kept++] = b->iter[i];
    b->iter_count = kept;
    b->combiner = KILN_COMBINE_NONE;
    b->value = b->init;
    b->init = 0;
}

void kiln_program_make_loops(kiln_program *p) {
    KILN_CHECK(p->root == 0);
    p->root = kiln_stmt_create(p, KILN_STMT_SEQ);
    for (kiln_block b = 1; b < p->block.count; b++) {
        if (p->block.data[b].removed) continue;
        settle_empty_reduction(p, b);
        kiln_stmt_append(p, p->root, block_nest(p, b));
    }
}
