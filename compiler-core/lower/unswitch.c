/* unswitch: a condition that does not change within a serial loop is asked once, before it: the
 * loop becomes two, one for each answer. Rows of a padded copy are then either copied or filled,
 * and the condition on the row costs nothing per vector. */
#include "base/check.h"
#include "compiler-core/lower/pass.h"

#define ITERATIONS_MIN 4 /* fewer are not worth two copies of the code */

typedef struct search {
    kiln_program *p;
    kiln_stmt loop;
    kiln_expr whole;     /* first condition with a part that does not change in the loop; or 0 */
    kiln_expr invariant; /* those parts of it, joined by and */
    kiln_expr rest;      /* the others; 0: none */
} search;

static kiln_expr both(kiln_program *p, kiln_expr a, kiln_expr b) {
    return a ? kiln_expr_binary(p, KILN_EXPR_AND, a, b) : b;
}

static bool has_load(const kiln_program *p, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    bool loads = node->op == KILN_EXPR_LOAD;
    for (uint32_t i = 0; i < node->operand_count && !loads; i++)
        loads = has_load(p, kiln_expr_operand(p, e, i));
    return loads;
}

/* Whether `e` uses the variable of a loop at or below `stmt`. */
static bool varies(const kiln_program *p, kiln_stmt stmt, kiln_expr e) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_FOR && kiln_expr_uses_var(p, e, s->var)) return true;
    for (uint32_t i = 0; i < s->child.count; i++)
        if (varies(p, s->child.data[i], e)) return true;
    return false;
}

static void sort_parts(search *s, kiln_expr e) {
    if (kiln_expr_get(s->p, e)->op == KILN_EXPR_AND) {
        sort_parts(s, kiln_expr_operand(s->p, e, 0));
        sort_parts(s, kiln_expr_operand(s->p, e, 1));
        return;
    }
    bool moves = !kiln_expr_is_const(s->p, e) && !has_load(s->p, e) && !varies(s->p, s->loop, e);
    kiln_expr *to = moves ? &s->invariant : &s->rest;
    *to = both(s->p, *to, e);
}

static void consider(search *s, kiln_expr condition) {
    if (s->whole) return;
    s->invariant = s->rest = 0;
    sort_parts(s, condition);
    if (s->invariant) s->whole = condition;
}

static kiln_expr consider_selects(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    if (kiln_expr_get(p, e)->op == KILN_EXPR_SELECT) consider(context, kiln_expr_operand(p, e, 0));
    return rebuilt;
}

static void find_condition(search *s, kiln_stmt stmt) {
    const kiln_stmt_info info = s->p->stmt.data[stmt];
    if (info.kind == KILN_STMT_IF) consider(s, info.condition);
    if (info.kind == KILN_STMT_STORE) kiln_expr_rewrite(s->p, info.value, consider_selects, s);
    for (uint32_t i = 0; i < info.child.count && !s->whole; i++)
        find_condition(s, info.child.data[i]);
}

/* ---- the two loops --------------------------------------------------------------------------- */

/* if answer: the loop, with its first condition decided. */
static kiln_stmt answered(kiln_program *p, kiln_stmt loop, bool holds) {
    search s = {.p = p, .loop = loop};
    find_condition(&s, loop);
    kiln_stmt version = kiln_stmt_create(p, KILN_STMT_IF);
    p->stmt.data[version].condition =
        holds ? s.invariant : kiln_expr_unary(p, KILN_EXPR_NOT, s.invariant);
    kiln_lower_replace(p, loop, s.whole,
                       holds && s.rest ? s.rest : kiln_expr_int(p, KILN_BOOL, holds));
    kiln_stmt_append(p, version, loop);
    return version;
}

static void unswitch_tree(kiln_program *p, kiln_stmt stmt, uint64_t *budget);

static void split_loop(kiln_program *p, kiln_stmt loop, uint64_t *budget) {
    kiln_stmt copy = kiln_lower_copy(p, loop, NULL, 0), seq = kiln_stmt_create(p, KILN_STMT_SEQ);
    kiln_stmt_replace(p, loop, seq);
    kiln_stmt_append(p, seq, answered(p, loop, true));
    kiln_stmt_append(p, seq, answered(p, copy, false));
    for (uint32_t i = 0; i < 2; i++) unswitch_tree(p, p->stmt.data[seq].child.data[i], budget);
}

static void unswitch_tree(kiln_program *p, kiln_stmt stmt, uint64_t *budget) {
    const kiln_stmt_info info = p->stmt.data[stmt];
    if (info.kind == KILN_STMT_FOR && info.loop_kind != KILN_LOOP_SERIAL &&
        info.loop_kind != KILN_LOOP_PARALLEL)
        return; /* lanes and copies of one instruction: conditions become masks */
    search s = {.p = p, .loop = stmt};
    uint64_t size = kiln_lower_size(p, stmt);
    if (info.kind == KILN_STMT_FOR && info.loop_kind == KILN_LOOP_SERIAL &&
        info.extent >= ITERATIONS_MIN && size <= *budget)
        find_condition(&s, stmt);
    if (s.whole) {
        *budget -= size;
        split_loop(p, stmt, budget);
        return;
    }
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
        unswitch_tree(p, p->stmt.data[stmt].child.data[i], budget);
}

static void unswitch_program(kiln_program *p) {
    uint64_t budget = KILN_LOWER_SIZE_MAX / 4;
    if (!p->root) return;
    unswitch_tree(p, p->root, &budget);
    kiln_lower_simplify_below(p, p->root, NULL);
}

kiln_status kiln_lower_unswitch(kiln_lowering *l) {
    unswitch_program(l->run);
    return KILN_OK;
}
