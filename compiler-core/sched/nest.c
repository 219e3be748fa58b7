/* Edits of the statement tree. */
#include "compiler-core/sched/nest.h"

#include "base/check.h"
#include "compiler-core/ir/affine.h"

void kiln_nest_insert(kiln_program *p, kiln_stmt parent, kiln_stmt at, bool after, kiln_stmt stmt) {
    if (p->stmt.data[parent].kind != KILN_STMT_SEQ) {
        kiln_stmt seq = kiln_stmt_create(p, KILN_STMT_SEQ);
        kiln_stmt_wrap(p, at, seq);
        parent = seq;
    }
    uint32_t place = kiln_nest_position(p, parent, at) + after;
    kiln_stmt_append(p, parent, stmt);
    kiln_stmt *child = p->stmt.data[parent].child.data;
    for (uint32_t i = p->stmt.data[parent].child.count - 1; i > place; i--) child[i] = child[i - 1];
    child[place] = stmt;
}

void kiln_nest_remove(kiln_program *p, kiln_stmt stmt) {
    kiln_loops around = kiln_nest_loops(p, stmt);
    kiln_stmt_remove(p, stmt);
    for (uint32_t i = 0; i < around.count; i++)
        if (!kiln_stmt_is_inside(p, around.loop[i], p->root))
            kiln_var_retire(p, p->stmt.data[around.loop[i]].var);
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

kiln_stmt kiln_block_make_nest(kiln_program *p, kiln_block block, const int64_t *extent,
                               const kiln_expr *base) {
    kiln_var var[KILN_BLOCK_ITERS_MAX];
    uint32_t count = p->block.data[block].iter_count;
    for (uint32_t i = 0; i < count; i++) {
        kiln_iter *iter = &p->block.data[block].iter[i];
        var[i] = kiln_block_loop_var(p, block, i, extent[i]);
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

kiln_status kiln_block_check_whole(kiln_program *p, kiln_block block) {
    const kiln_block_info *b = &p->block.data[block];
    const kiln_stmt stmt = kiln_program_block_stmt(p, block),
                    child = kiln_nest_child_towards(p, p->root, stmt);
    if (b->init_of || (kiln_block_is_reduction(p, block) && !b->init))
        return ILLEGAL("the reduction of %.*s has been decomposed", BLOCK_NAME(p, block));
    if (b->predicate)
        return ILLEGAL("%.*s does not run in all iterations of its loops", BLOCK_NAME(p, block));
    for (kiln_block other = 1; other < p->block.count; other++)
        if (other != block && !p->block.data[other].removed &&
            kiln_stmt_is_inside(p, kiln_program_block_stmt(p, other), child))
            return ILLEGAL("%.*s shares loops with other blocks", BLOCK_NAME(p, block));
    for (uint32_t k = 0; k < b->iter_count; k++)
        if (b->iter[k].extent > 1 && !kiln_block_own_loop(p, block, k))
            return ILLEGAL("%.*s no longer has a separate loop",
                           KILN_STR_ARG(kiln_iter_name(p, &b->iter[k])));
    return NULL;
}

void kiln_block_renew_nest(kiln_program *p, kiln_block block) {
    int64_t extent[KILN_BLOCK_ITERS_MAX];
    const kiln_stmt old = kiln_program_block_stmt(p, block);
    const uint32_t place = kiln_nest_position(p, p->root, kiln_nest_child_towards(p, p->root, old));
    for (uint32_t k = 0; k < p->block.data[block].iter_count; k++)
        extent[k] = p->block.data[block].iter[k].extent;
    kiln_nest_remove(p, old); /* frees their names */
    const kiln_stmt nest = kiln_block_make_nest(p, block, extent, NULL);
    if (place == p->stmt.data[p->root].child.count)
        kiln_stmt_append(p, p->root, nest);
    else
        kiln_nest_insert(p, p->root, p->stmt.data[p->root].child.data[place], false, nest);
}
