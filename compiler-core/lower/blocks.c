/* blocks: each block becomes a store. Iterators are replaced by their bindings; a predicate becomes
 * an if, and so does the initial value of a reduction that was not decomposed. */
#include "compiler-core/lower/pass.h"

static kiln_stmt make_store(kiln_program *p, const kiln_block_info *b, const kiln_expr *index,
                            kiln_expr value) {
    kiln_stmt store = kiln_stmt_create(p, KILN_STMT_STORE);
    kiln_stmt_info *s = &p->stmt.data[store];
    s->buffer = b->buffer;
    s->index_count = b->index_count;
    for (uint32_t i = 0; i < b->index_count; i++) s->index[i] = index[i];
    s->value = value;
    return store;
}

static kiln_stmt make_if(kiln_program *p, kiln_expr condition, kiln_stmt child) {
    kiln_stmt stmt = kiln_stmt_create(p, KILN_STMT_IF);
    p->stmt.data[stmt].condition = condition;
    kiln_stmt_append(p, stmt, child);
    return stmt;
}

static kiln_expr both(kiln_program *p, kiln_expr a, kiln_expr b) {
    return a ? kiln_expr_binary(p, KILN_EXPR_AND, a, b) : b;
}

/* All reduce iterators are 0. */
static kiln_expr is_first(kiln_program *p, const kiln_block_info *b) {
    kiln_expr all = 0;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce)
            all =
                both(p, all,
                     kiln_expr_binary(p, KILN_EXPR_EQ, b->iter[i].binding, kiln_expr_index(p, 0)));
    return all ? all : kiln_expr_int(p, KILN_BOOL, 1);
}

static kiln_stmt lower_block(kiln_program *p, kiln_block block) {
    const kiln_block_info b = p->block.data[block];
    kiln_expr *replacement = KILN_ARENA_ARRAY(p->arena, kiln_expr, p->var.count);
    for (uint32_t i = 0; i < b.iter_count; i++) replacement[b.iter[i].var] = b.iter[i].binding;
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t i = 0; i < b.index_count; i++)
        index[i] = kiln_expr_substitute(p, b.index[i], replacement);
    kiln_expr value = kiln_expr_substitute(p, b.value, replacement);
    if (b.combiner != KILN_COMBINE_NONE)
        value = kiln_expr_combine(p, b.combiner, kiln_expr_load(p, b.buffer, index, b.index_count),
                                  value);

    kiln_stmt lowered = make_store(p, &b, index, value);
    if (b.init && b.combiner != KILN_COMBINE_NONE) {
        kiln_stmt init = make_store(p, &b, index, kiln_expr_substitute(p, b.init, replacement));
        kiln_stmt seq = kiln_stmt_create(p, KILN_STMT_SEQ);
        kiln_stmt_append(p, seq, make_if(p, is_first(p, &b), init));
        kiln_stmt_append(p, seq, lowered);
        lowered = seq;
    }
    return b.predicate ? make_if(p, b.predicate, lowered) : lowered;
}

static void lower_tree(kiln_program *p, kiln_stmt stmt) {
    if (p->stmt.data[stmt].kind == KILN_STMT_BLOCK) {
        kiln_block block = p->stmt.data[stmt].block;
        kiln_stmt_replace(p, stmt, lower_block(p, block));
        return;
    }
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
        lower_tree(p, p->stmt.data[stmt].child.data[i]);
}

static void lower_program(kiln_program *p) {
    lower_tree(p, p->root);
    for (kiln_block b = 1; b < p->block.count; b++) p->block.data[b].removed = true;
}

kiln_status kiln_lower_blocks(kiln_lowering *l) {
    lower_program(l->run);
    if (l->prepare) lower_program(l->prepare);
    return KILN_OK;
}
