/* Walks over statement trees that several passes use. */
#include "base/check.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/lower/pass.h"

static kiln_stmt_info *get(const kiln_program *p, kiln_stmt s) { return &p->stmt.data[s]; }

/* ---- expressions ----------------------------------------------------------------------------- */

static void rewrite_own(kiln_program *p, kiln_stmt stmt, kiln_lower_rewriter rewrite,
                        void *context) {
    kiln_stmt_info *s = get(p, stmt);
    if (s->condition) s->condition = rewrite(p, s->condition, context);
    for (uint32_t i = 0; i < s->index_count; i++) s->index[i] = rewrite(p, s->index[i], context);
    if (s->value) s->value = rewrite(p, s->value, context);
}

void kiln_lower_rewrite(kiln_program *p, kiln_stmt stmt, kiln_lower_rewriter rewrite,
                        void *context) {
    rewrite_own(p, stmt, rewrite, context);
    for (uint32_t i = 0; i < get(p, stmt)->child.count; i++)
        kiln_lower_rewrite(p, get(p, stmt)->child.data[i], rewrite, context);
}

typedef struct replacing {
    kiln_expr from, to;
} replacing;

static kiln_expr replace_in(kiln_program *p, kiln_expr e, void *context) {
    const replacing *r = context;
    return kiln_expr_replace(p, e, r->from, r->to);
}

void kiln_lower_replace(kiln_program *p, kiln_stmt stmt, kiln_expr from, kiln_expr to) {
    replacing r = {from, to};
    kiln_lower_rewrite(p, stmt, replace_in, &r);
}

typedef struct load_visit {
    kiln_stmt stmt;
    kiln_lower_load_visitor visit;
    void *context;
} load_visit;

static void visit_one(kiln_program *p, kiln_expr load, void *context) {
    const load_visit *v = context;
    v->visit(p, v->stmt, load, v->context);
}

void kiln_lower_visit_loads(kiln_program *p, kiln_stmt stmt, kiln_buffer buffer,
                            kiln_lower_load_visitor visit, void *context) {
    load_visit v = {stmt, visit, context};
    const kiln_stmt_info *s = get(p, stmt); /* visitors make no statements */
    kiln_expr_visit_loads(p, s->condition, buffer, visit_one, &v);
    for (uint32_t i = 0; i < s->index_count; i++)
        kiln_expr_visit_loads(p, s->index[i], buffer, visit_one, &v);
    kiln_expr_visit_loads(p, s->value, buffer, visit_one, &v);
}

bool kiln_lower_reads(const kiln_program *p, kiln_expr e) {
    return kiln_expr_get(p, e)->uses & KILN_USES_LOAD;
}

kiln_stmt kiln_lower_loop_of(const kiln_program *p, kiln_stmt stmt, kiln_var var) {
    for (; stmt; stmt = get(p, stmt)->parent)
        if (get(p, stmt)->kind == KILN_STMT_FOR && get(p, stmt)->var == var) return stmt;
    return 0;
}

/* ---- simplification -------------------------------------------------------------------------- */

typedef struct simplification {
    const kiln_interval *range;
    kiln_expr *constant;    /* [var count] value of loops that run once, else 0 */
    uint64_t constant_vars; /* their kiln_uses_var */
} simplification;

static kiln_expr simplify_expr(kiln_program *p, kiln_expr e, void *context) {
    const simplification *s = context;
    if (s->constant_vars) e = kiln_expr_substitute_some(p, e, s->constant, s->constant_vars);
    return kiln_expr_simplify(p, e, s->range);
}

static void simplify_tree(kiln_program *p, kiln_stmt stmt, simplification *s);

static void simplify_children(kiln_program *p, kiln_stmt stmt, simplification *s) {
    /* Removing a child moves those behind it; a child may also be replaced in place. */
    for (uint32_t i = 0; i < get(p, stmt)->child.count;) {
        uint32_t before = get(p, stmt)->child.count;
        simplify_tree(p, get(p, stmt)->child.data[i], s);
        if (get(p, stmt)->child.count == before) i++;
    }
}

/* Removes a statement and leaves its child, if it still has one. */
static void dissolve(kiln_program *p, kiln_stmt stmt) {
    if (get(p, stmt)->child.count == 0)
        kiln_stmt_remove(p, stmt);
    else
        kiln_stmt_replace(p, stmt, get(p, stmt)->child.data[0]);
}

static void simplify_for(kiln_program *p, kiln_stmt stmt, simplification *s) {
    kiln_stmt_info *loop = get(p, stmt);
    bool once = loop->extent == 1;
    if (loop->extent == 0) {
        kiln_stmt_remove(p, stmt);
        return;
    }
    if (once) {
        s->constant[loop->var] = kiln_expr_index(p, loop->first);
        s->constant_vars |= kiln_uses_var(loop->var);
    }
    simplify_children(p, stmt, s);
    if (get(p, stmt)->parent == 0 && p->root != stmt) return; /* became empty */
    /* The only group of a launch stays: its statements are one launch, not several. */
    if (once && kiln_stmt_level(p, stmt) != KILN_LEVEL_GRID) dissolve(p, stmt);
}

static void simplify_if(kiln_program *p, kiln_stmt stmt, simplification *s) {
    int64_t holds;
    bool decided = kiln_expr_as_int(p, get(p, stmt)->condition, &holds);
    if (decided && !holds) {
        kiln_stmt_remove(p, stmt);
        return;
    }
    simplify_children(p, stmt, s);
    if (get(p, stmt)->parent == 0 && p->root != stmt) return;
    if (decided) dissolve(p, stmt);
}

static void simplify_tree(kiln_program *p, kiln_stmt stmt, simplification *s) {
    rewrite_own(p, stmt, simplify_expr, s);
    if (get(p, stmt)->kind == KILN_STMT_FOR) {
        simplify_for(p, stmt, s);
    } else if (get(p, stmt)->kind == KILN_STMT_IF) {
        simplify_if(p, stmt, s);
    } else {
        simplify_children(p, stmt, s);
        bool placed = get(p, stmt)->parent != 0 || p->root == stmt;
        if (placed && get(p, stmt)->kind == KILN_STMT_SEQ && get(p, stmt)->child.count == 1)
            dissolve(p, stmt);
    }
}

void kiln_lower_simplify_below(kiln_program *p, kiln_stmt stmt, const kiln_interval *range) {
    simplification s = {.range = range,
                        .constant = KILN_ARENA_ARRAY(p->arena, kiln_expr, p->var.count)};
    simplify_tree(p, stmt, &s);
}

kiln_status kiln_lower_simplify(kiln_lowering *l) {
    kiln_lower_simplify_below(l->run, l->run->root, NULL);
    if (l->prepare) kiln_lower_simplify_below(l->prepare, l->prepare->root, NULL);
    return KILN_OK;
}

/* ---- copies ---------------------------------------------------------------------------------- */

typedef struct copying {
    kiln_expr *replacement; /* [var count at the start] */
    uint64_t replaced;      /* kiln_uses_var of the variables that have one */
} copying;

static kiln_expr substitute(kiln_program *p, kiln_expr e, void *context) {
    const copying *c = context;
    return c->replaced ? kiln_expr_substitute_some(p, e, c->replacement, c->replaced) : e;
}

/* Copies of copies do not get a second suffix. */
static kiln_str base_name(kiln_str name) {
    return kiln_str_slice(name, 0, kiln_str_find_char(name, '\''));
}

/* All new variables are made before any expression is rewritten, since substitution takes one table
 * for all. */
static void rename_loops(kiln_program *p, kiln_stmt stmt, kiln_var *renamed) {
    if (get(p, stmt)->kind == KILN_STMT_FOR) {
        kiln_var old = get(p, stmt)->var;
        kiln_var_info info = p->var.data[old];
        if (!renamed[old])
            renamed[old] = kiln_var_create(p, base_name(info.name), info.low, info.high);
    }
    for (uint32_t i = 0; i < get(p, stmt)->child.count; i++)
        rename_loops(p, get(p, stmt)->child.data[i], renamed);
}

static kiln_stmt copy_tree(kiln_program *p, kiln_stmt stmt, copying *c, const kiln_var *renamed) {
    kiln_stmt copy = kiln_stmt_create(p, get(p, stmt)->kind);
    kiln_stmt_info info = *get(p, stmt);
    uint32_t child_count = info.child.count;
    info.parent = 0;
    info.child.data = NULL;
    info.child.count = info.child.capacity = 0;
    if (info.kind == KILN_STMT_FOR) info.var = renamed[info.var];
    *get(p, copy) = info;
    rewrite_own(p, copy, substitute, c);
    for (uint32_t i = 0; i < child_count; i++) {
        kiln_stmt child = copy_tree(p, get(p, stmt)->child.data[i], c, renamed);
        kiln_vec_push_in(p->arena, &get(p, copy)->child, child);
        get(p, child)->parent = copy;
    }
    return copy;
}

kiln_stmt kiln_lower_copy(kiln_program *p, kiln_stmt stmt, const kiln_var *var, kiln_expr with) {
    uint32_t old_count = p->var.count;
    kiln_var *renamed = KILN_ARENA_ARRAY(p->arena, kiln_var, old_count);
    rename_loops(p, stmt, renamed);
    copying c = {.replacement = KILN_ARENA_ARRAY(p->arena, kiln_expr, p->var.count)};
    for (kiln_var v = 1; v < old_count; v++) {
        if (!renamed[v]) continue;
        c.replacement[v] = kiln_expr_var(p, renamed[v]);
        c.replaced |= kiln_uses_var(v);
    }
    if (var) {
        c.replacement[*var] = with;
        c.replaced |= kiln_uses_var(*var);
    }
    return copy_tree(p, stmt, &c, renamed);
}

#define SIZE_ENDLESS UINT32_MAX /* beyond every limit; sums of it do not overflow */

uint64_t kiln_lower_size(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = get(p, stmt);
    uint64_t size = s->kind == KILN_STMT_STORE;
    for (uint32_t i = 0; i < s->child.count; i++) size += kiln_lower_size(p, s->child.data[i]);
    /* A vectorized loop within a vectorized one is unrolled; counting it as such needs no context
     * here. */
    bool copies = s->kind == KILN_STMT_FOR && s->loop_kind == KILN_LOOP_UNROLL &&
                  !kiln_intrinsic_of_loop(p, stmt);
    if (copies && __builtin_mul_overflow(size, (uint64_t)s->extent, &size)) return SIZE_ENDLESS;
    return KILN_MIN(size, SIZE_ENDLESS);
}

/* ---- places ---------------------------------------------------------------------------------- */

void kiln_lower_put_before(kiln_program *p, kiln_stmt stmt, kiln_stmt added) {
    kiln_stmt seq = p->stmt.data[stmt].parent;
    if (!seq || p->stmt.data[seq].kind != KILN_STMT_SEQ) {
        seq = kiln_stmt_create(p, KILN_STMT_SEQ);
        kiln_stmt_wrap(p, stmt, seq);
    }
    const uint32_t at = kiln_nest_position(p, seq, stmt);
    kiln_stmt_append(p, seq, added);
    kiln_stmt *child = p->stmt.data[seq].child.data;
    for (uint32_t i = p->stmt.data[seq].child.count - 1; i > at; i--) child[i] = child[i - 1];
    child[at] = added;
}

/* ---- temps with a dimension more ------------------------------------------------------------- */

typedef struct expansion {
    kiln_buffer from, to;
    kiln_expr at;
} expansion;

static void expand_index(const expansion *x, kiln_expr *index, uint32_t count) {
    for (uint32_t d = count; d > 0; d--) index[d] = index[d - 1];
    index[0] = x->at;
}

static kiln_expr expand_load(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const expansion *x = context;
    const kiln_expr_node *node = kiln_expr_get(p, e);
    if (node->op != KILN_EXPR_LOAD || node->payload.id != x->from) return rebuilt;
    kiln_expr index[KILN_RANK_MAX + 1];
    uint32_t count = kiln_load_index(p, rebuilt, index);
    expand_index(x, index, count);
    return kiln_expr_load(p, x->to, index, count + 1);
}

static kiln_expr expand_loads(kiln_program *p, kiln_expr e, void *context) {
    const expansion *x = context;
    return kiln_expr_rewrite(p, e, kiln_uses_load(x->from), expand_load, context);
}

static void expand_stores(kiln_program *p, kiln_stmt stmt, const expansion *x) {
    kiln_stmt_info *info = &p->stmt.data[stmt];
    if (info->kind == KILN_STMT_STORE && info->buffer == x->from) {
        info->buffer = x->to;
        expand_index(x, info->index, info->index_count++);
    }
    for (uint32_t i = 0; i < info->child.count; i++) expand_stores(p, info->child.data[i], x);
}

kiln_buffer kiln_lower_expand(kiln_program *p, kiln_stmt tree, kiln_buffer buffer, int64_t extent,
                              kiln_expr at) {
    const kiln_buffer_info from = p->buffer.data[buffer];
    kiln_shape shape = {.rank = from.shape.rank + 1, .dim = {extent}};
    kiln_layout layout = {.piece_count = from.layout.piece_count};
    if (shape.rank > KILN_RANK_MAX || layout.piece_count == KILN_RANK_MAX) return 0;
    for (uint32_t d = 1; d < shape.rank; d++) shape.dim[d] = from.shape.dim[d - 1];
    if (layout.piece_count) layout.piece[0] = (kiln_layout_piece){.divisor = 1};
    layout.piece_count += layout.piece_count > 0;
    for (uint32_t i = 1; i < layout.piece_count; i++) {
        layout.piece[i] = from.layout.piece[i - 1];
        layout.piece[i].dim++;
        layout.piece[i].xor_dim++; /* not used without an XOR */
    }
    expansion x = {buffer, kiln_buffer_create(p, from.name, from.dtype, KILN_ROLE_TEMP, &shape),
                   at};
    p->buffer.data[x.to].scope = from.scope;
    p->buffer.data[x.to].layout = layout;
    expand_stores(p, tree, &x);
    kiln_lower_rewrite(p, tree, expand_loads, &x);
    return x.to;
}
