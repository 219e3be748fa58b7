#include "compiler-core/facts/facts.h"

#include "base/macros.h"
#include "compiler-core/facts/prepare.h"
#include "compiler-core/ir/device.h"

/* ---- loops and statements -------------------------------------------------------------------- */

typedef struct builder {
    kiln_facts *facts;
    const kiln_program *p;
    kiln_arena *arena;
    const kiln_form **of_var;           /* [var count] forms of the block's iterators */
    uint32_t iter_count_max;            /* of all blocks */
    kiln_form *iter_form;               /* [iter_count_max] of the current block */
    kiln_block *seen;                   /* [expr count] block that an expression was counted for */
    uint32_t *path;                     /* [loop count + 1] of the current statement */
    KILN_VEC(kiln_facts_access) access; /* likewise; memory is kept */
} builder;

static void count_tree(builder *b, kiln_stmt stmt) {
    const kiln_stmt_info *s = &b->p->stmt.data[stmt];
    b->facts->loop_count += s->kind == KILN_STMT_FOR;
    if (s->kind == KILN_STMT_BLOCK) {
        b->facts->statement_count++;
        b->iter_count_max = KILN_MAX(b->iter_count_max, b->p->block.data[s->block].iter_count);
    }
    for (uint32_t i = 0; i < s->child.count; i++) count_tree(b, s->child.data[i]);
}

/* ---- operations ------------------------------------------------------------------------------ */

static kiln_op_kind class_of(const kiln_expr_node *node) {
    kiln_dtype dtype = (kiln_dtype)node->dtype;
    if (node->op == KILN_EXPR_SELECT) return KILN_OPS_SELECTS;
    if (node->op == KILN_EXPR_CAST || node->op == KILN_EXPR_TF32) return KILN_OPS_CASTS;
    if (!kiln_dtype_is_float(dtype)) return KILN_OPS_INT_OPS;
    if (dtype == KILN_F64) return KILN_OPS_F64;
    if (kiln_dtype_size(dtype) < 4) return KILN_OPS_F16;
    switch ((kiln_expr_op)node->op) {
    case KILN_EXPR_MUL: return KILN_OPS_F32_MUL;
    case KILN_EXPR_DIV:
    case KILN_EXPR_REM:
    case KILN_EXPR_SQRT: return KILN_OPS_F32_DIV;
    case KILN_EXPR_ADD:
    case KILN_EXPR_SUB:
    case KILN_EXPR_MIN:
    case KILN_EXPR_MAX:
    case KILN_EXPR_NEG:
    case KILN_EXPR_ABS:
    case KILN_EXPR_FLOOR:
    case KILN_EXPR_CEIL:
    case KILN_EXPR_ROUND: return KILN_OPS_F32_ADD;
    default: return KILN_OPS_F32_CALL;
    }
}

static void add_access(builder *b, kiln_facts_statement *s, kiln_buffer buffer,
                       const kiln_expr *index, uint32_t rank, bool stores, bool conditional);

/* Counts the operations on values and the loads below e, each distinct expression once. */
static void walk_value(builder *b, kiln_facts_statement *s, kiln_expr e, bool conditional) {
    const kiln_program *p = b->p;
    const kiln_expr_node *node = kiln_expr_get(p, e);
    if (b->seen[e] == s->block) return;
    b->seen[e] = s->block;
    if (node->op == KILN_EXPR_LOAD) {
        const kiln_expr *index = &p->operand.data[node->first_operand];
        add_access(b, s, node->payload.id, index, node->operand_count, false, conditional);
        return;
    }
    if (node->operand_count == 0 || node->dtype == KILN_INDEX_DTYPE) return;
    kiln_expr first = kiln_expr_operand(p, e, 0);
    bool on_index = node->op != KILN_EXPR_CAST && node->op != KILN_EXPR_SELECT &&
                    kiln_expr_get(p, first)->dtype == KILN_INDEX_DTYPE;
    if (on_index) return; /* conditions on indices are counted with the loops */
    if (node->dtype != KILN_BOOL || node->op == KILN_EXPR_SELECT) s->ops[class_of(node)]++;
    for (uint32_t i = 0; i < node->operand_count; i++)
        walk_value(b, s, kiln_expr_operand(p, e, i),
                   conditional || (node->op == KILN_EXPR_SELECT && i > 0));
}

/* A sum of products is one multiply-add a point; any other reduction one combination. */
static void count_combination(builder *b, kiln_facts_statement *s, const kiln_block_info *info) {
    const kiln_program *p = b->p;
    const kiln_expr_node *value = kiln_expr_get(p, info->value);
    kiln_dtype dtype = b->p->buffer.data[info->buffer].dtype;
    bool product = info->combiner == KILN_COMBINE_SUM && value->op == KILN_EXPR_MUL;
    kiln_expr_node combination = {.op = KILN_EXPR_ADD, .dtype = (uint8_t)dtype};
    if (!product) {
        s->ops[class_of(&combination)]++;
        return;
    }
    const kiln_expr_node factor = {.op = KILN_EXPR_MUL, .dtype = (uint8_t)value->dtype};
    s->ops[class_of(&factor)]--;
    if (kiln_dtype_is_float(dtype)) {
        kiln_op_kind class = class_of(&combination);
        s->ops[class == KILN_OPS_F32_ADD ? KILN_OPS_F32_MAC : class] +=
            class == KILN_OPS_F32_ADD ? 1 : 2;
        return;
    }
    const kiln_expr_node *left = kiln_expr_get(p, kiln_expr_operand(p, info->value, 0));
    kiln_dtype from = (kiln_dtype)left->dtype;
    if (left->op == KILN_EXPR_CAST)
        from = (kiln_dtype)kiln_expr_get(p, p->operand.data[left->first_operand])->dtype;
    s->ops[kiln_dtype_size(from) == 1 ? KILN_OPS_I8_MAC : KILN_OPS_INT_MAC]++;
}

/* ---- accesses -------------------------------------------------------------------------------- */

/* Indices with their terms, which are contiguous in memory. */
static kiln_facts_index *make_indices(builder *b, const kiln_expr *index, uint32_t rank) {
    const kiln_form_scope scope = {b->p, b->of_var};
    kiln_form form[KILN_RANK_MAX];
    uint32_t count = 0;
    for (uint32_t d = 0; d < rank; d++) {
        kiln_form_of(&scope, index[d], &form[d]);
        count += form[d].term_count;
    }
    kiln_facts_index *made = KILN_ARENA_ARRAY(b->arena, kiln_facts_index, rank);
    kiln_form_term *term = KILN_ARENA_ARRAY(b->arena, kiln_form_term, count);
    for (uint32_t d = 0; d < rank; d++) {
        const kiln_form *f = &form[d];
        made[d] = (kiln_facts_index){f->constant, f->term_count, f->exact, f->data, term};
        for (uint32_t i = 0; i < f->term_count; i++) *term++ = f->term[i];
    }
    return made;
}

static void add_access(builder *b, kiln_facts_statement *s, kiln_buffer buffer,
                       const kiln_expr *index, uint32_t rank, bool stores, bool conditional) {
    const kiln_buffer_info *info = &b->p->buffer.data[buffer];
    kiln_facts_access a = {.buffer = buffer,
                           .loads = !stores,
                           .stores = stores,
                           .conditional = conditional,
                           .in_memory =
                               info->scope != KILN_SCOPE_REGISTER && info->scope != KILN_SCOPE_TILE,
                           .element_bytes = (uint32_t)kiln_dtype_size(info->dtype),
                           .rank = rank,
                           .index = make_indices(b, index, rank)};
    kiln_vec_push_in(b->arena, &b->access, a);
    s->access_count++;
}

static bool form_uses(const kiln_form *form, kiln_var var) {
    for (uint32_t i = 0; i < form->term_count; i++)
        if (form->term[i].var == var) return true;
    return false;
}

static void bind_iterators(builder *b, kiln_facts_statement *s, const kiln_block_info *info) {
    kiln_form_scope loops = {b->p, NULL};
    double share = 1;
    s->domain = 1;
    for (uint32_t i = 0; i < info->iter_count; i++) {
        const kiln_iter *iter = &info->iter[i];
        kiln_form *form = &b->iter_form[i];
        kiln_form_of(&loops, iter->binding, form);
        b->of_var[iter->var] = form;
        s->domain *= (double)iter->extent;
        if (info->predicate) share *= kiln_form_share_within(form, iter->extent);
        for (uint32_t k = 0; k < s->depth && iter->reduce; k++)
            s->reduces[k] |= form_uses(form, b->facts->loop[s->path[k]].var);
    }
    s->iterations = 1;
    for (uint32_t k = 0; k < s->depth; k++)
        s->iterations *= (double)b->facts->loop[s->path[k]].extent;
    s->points = s->iterations * share;
}

/* The intrinsic of the innermost loop, or of the outermost one of a piece of several threads. */
static const kiln_intrinsic *find_intrinsic(const kiln_facts *facts,
                                            const kiln_facts_statement *s) {
    for (uint32_t own = 1; own <= 3 && own < s->depth; own++) {
        const kiln_stmt loop = facts->loop[s->path[s->depth - own]].stmt;
        const kiln_intrinsic *found = kiln_intrinsic_of_loop(facts->p, loop);
        if (found && (own == 1 || kiln_intrinsic_of_threads(found))) return found;
    }
    return NULL;
}

static void find_tile(const kiln_facts *facts, kiln_facts_statement *s) {
    kiln_facts_tile *t = &s->tile;
    const bool pieces = s->intrinsic && (kiln_intrinsic_in_tiles(s->intrinsic) ||
                                         kiln_intrinsic_of_threads(s->intrinsic));
    const uint32_t own = pieces ? 3 : 0; /* loops */
    t->lanes = t->spatial = t->reduce = 1;
    for (t->level = s->depth; t->level > 1; t->level--) {
        const kiln_facts_loop *loop = &facts->loop[s->path[t->level - 1]];
        double extent = (double)loop->extent;
        if (loop->kind == KILN_LOOP_VECTORIZE)
            t->lanes *= extent;
        else if (loop->kind != KILN_LOOP_UNROLL && loop->extent > 1 && t->level + own <= s->depth)
            break;
        else if (s->reduces[t->level - 1])
            t->reduce *= extent;
        else
            t->spatial *= extent;
    }
}

static void add_statement(builder *b, kiln_stmt stmt, uint32_t depth, uint32_t nest) {
    kiln_block block = b->p->stmt.data[stmt].block;
    const kiln_block_info *info = &b->p->block.data[block];
    kiln_facts_statement *s = &b->facts->statement[b->facts->statement_count++];
    s->block = block;
    s->stmt = stmt;
    s->nest = nest;
    s->reduction = info->combiner != KILN_COMBINE_NONE;
    s->initial = info->init_of != 0;
    s->depth = depth;
    s->path = kiln_arena_copy(b->arena, b->path, depth * sizeof *s->path);
    s->reduces = KILN_ARENA_ARRAY(b->arena, bool, depth);
    bind_iterators(b, s, info);
    b->access.count = 0;
    add_access(b, s, info->buffer, info->index, info->index_count, true, false);
    b->access.data[0].loads = s->reduction;
    walk_value(b, s, info->value, false);
    s->access = kiln_arena_copy(b->arena, b->access.data, s->access_count * sizeof *s->access);
    if (s->reduction) count_combination(b, s, info);
    s->intrinsic = find_intrinsic(b->facts, s);
    if (s->intrinsic) s->ops[KILN_OPS_CASTS] = 0; /* done by the instruction */
    find_tile(b->facts, s);
}

static void add_tree(builder *b, kiln_stmt stmt, uint32_t depth, uint32_t nest) {
    const kiln_stmt_info *s = &b->p->stmt.data[stmt];
    if (s->kind == KILN_STMT_FOR) {
        uint32_t parent = b->path[depth - 1];
        uint32_t at = b->facts->loop_count++;
        kiln_facts_loop *loop = &b->facts->loop[at];
        loop->stmt = stmt;
        loop->var = s->var;
        loop->parent = parent;
        loop->depth = depth;
        loop->extent = s->extent;
        loop->kind = s->loop_kind;
        loop->level = (uint8_t)kiln_stmt_level(b->p, stmt);
        b->path[depth++] = at;
    }
    if (s->kind == KILN_STMT_BLOCK) add_statement(b, stmt, depth, nest);
    bool at_root = stmt == b->p->root && s->kind == KILN_STMT_SEQ;
    for (uint32_t i = 0; i < s->child.count; i++)
        add_tree(b, s->child.data[i], depth, at_root ? i : nest);
}

kiln_facts *kiln_facts_create(const kiln_program *scheduled, uint32_t line_bytes,
                              kiln_arena *arena) {
    kiln_facts *facts = KILN_ARENA_NEW(arena, kiln_facts);
    builder b = {.facts = facts, .p = scheduled, .arena = arena};
    facts->p = scheduled;
    facts->line_bytes = line_bytes;
    count_tree(&b, scheduled->root);
    facts->loop = KILN_ARENA_ARRAY(arena, kiln_facts_loop, facts->loop_count + 1);
    facts->statement = KILN_ARENA_ARRAY(arena, kiln_facts_statement, facts->statement_count);
    b.of_var = KILN_ARENA_ARRAY(arena, const kiln_form *, scheduled->var.count);
    b.iter_form = KILN_ARENA_ARRAY(arena, kiln_form, b.iter_count_max);
    b.seen = KILN_ARENA_ARRAY(arena, kiln_block, scheduled->expr.count);
    b.path = KILN_ARENA_ARRAY(arena, uint32_t, facts->loop_count + 1);
    facts->loop[0].extent = 1;
    facts->loop_count = 1;
    facts->statement_count = 0;
    add_tree(&b, scheduled->root, 1, 0);
    kiln_nests nests = kiln_nests_of(scheduled, arena);
    for (uint32_t i = 0; i < facts->statement_count; i++)
        facts->statement[i].prepare = nests.prepare[facts->statement[i].nest];
    kiln_facts_measure(facts, arena);
    return facts;
}
