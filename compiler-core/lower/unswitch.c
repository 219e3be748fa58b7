/* unswitch: a condition that does not change within a serial loop is tested once, before it: the
 * loop becomes two, one for each result. Rows of a padded copy are then either copied or filled,
 * and the condition on the row costs nothing per vector. */
#include "base/check.h"
#include "compiler-core/lower/pass.h"

#define ITERATIONS_MIN 4 /* fewer are not worth two copies of the code */
/* Copies of a loop for each of its conditions. A condition that follows from another's result needs
 * one; independent conditions would each double the copies: up to four do, any further ones stay in
 * the loop. */
#define COPIES_PER_CONDITION 4

typedef struct search {
    kiln_program *p;
    kiln_stmt loop;
    kiln_stmt tried;     /* a loop around it: conditions that do not change there either are left as
                          * they are;     or 0 */
    kiln_expr invariant; /* parts of one condition that do not change in the loop, joined by and; 0:
                            none found */
    uint64_t count;      /* conditions with such parts */
} search;

/* Whether `e` uses the variable of a loop at or below `stmt`. */
static bool varies(const kiln_program *p, kiln_stmt stmt, kiln_expr e) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_FOR && kiln_expr_uses_var(p, e, s->var)) return true;
    for (uint32_t i = 0; i < s->child.count; i++)
        if (varies(p, s->child.data[i], e)) return true;
    return false;
}

static kiln_expr invariant_parts(const search *s, kiln_expr e) {
    kiln_program *p = s->p;
    if (kiln_expr_get(p, e)->op == KILN_EXPR_AND) {
        kiln_expr a = invariant_parts(s, kiln_expr_operand(p, e, 0));
        kiln_expr b = invariant_parts(s, kiln_expr_operand(p, e, 1));
        return a && b ? kiln_expr_binary(p, KILN_EXPR_AND, a, b) : a ? a : b;
    }
    bool moves = !kiln_expr_is_const(p, e) && !kiln_lower_reads(p, e) && !varies(p, s->loop, e);
    return moves && (!s->tried || varies(p, s->tried, e)) ? e : 0;
}

/* Operands come before the expressions that use them, so the condition kept is that of an outer
 * select: its result removes the selects that it does not choose. */
static void consider_select(kiln_program *p, kiln_expr e, void *context) {
    search *s = context;
    kiln_expr invariant = invariant_parts(s, kiln_expr_operand(p, e, 0));
    if (!invariant) return;
    s->invariant = invariant;
    s->count++;
}

static void find_conditions(search *s, kiln_stmt stmt) {
    const kiln_stmt_info *info = &s->p->stmt.data[stmt];
    kiln_expr first = s->invariant;
    if (info->kind == KILN_STMT_IF) {
        s->invariant = invariant_parts(s, info->condition);
        s->count += s->invariant != 0;
    }
    if (info->kind == KILN_STMT_STORE)
        kiln_expr_visit_selects(s->p, info->value, consider_select, s);
    if (first) s->invariant = first;
    for (uint32_t i = 0; i < info->child.count; i++) find_conditions(s, info->child.data[i]);
}

/* ---- the two loops --------------------------------------------------------------------------- */

/* The condition's result in one of the two loops: whether all parts of `invariant` hold. */
typedef struct answer {
    kiln_expr invariant;
    bool holds;
} answer;

/* Whether `part` is `whole` or one of the conditions that it joins by and. */
static bool is_part(const kiln_program *p, kiln_expr whole, kiln_expr part) {
    if (whole == part) return true;
    return kiln_expr_get(p, whole)->op == KILN_EXPR_AND &&
           (is_part(p, kiln_expr_operand(p, whole, 0), part) ||
            is_part(p, kiln_expr_operand(p, whole, 1), part));
}

static bool has_all_parts(const kiln_program *p, kiln_expr whole, kiln_expr parts) {
    if (kiln_expr_get(p, parts)->op != KILN_EXPR_AND) return is_part(p, whole, parts);
    return has_all_parts(p, whole, kiln_expr_operand(p, parts, 0)) &&
           has_all_parts(p, whole, kiln_expr_operand(p, parts, 1));
}

/* Replaces each part by true where they hold; where they do not all hold, replaces a condition that
 * contains all parts by false. */
static kiln_expr decide(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const answer *a = context;
    if (kiln_expr_get(p, e)->dtype != KILN_BOOL) return rebuilt;
    bool decided = a->holds ? is_part(p, a->invariant, e) : has_all_parts(p, e, a->invariant);
    return decided ? kiln_expr_int(p, KILN_BOOL, a->holds) : rebuilt;
}

static kiln_expr decide_in(kiln_program *p, kiln_expr e, void *context) {
    return kiln_expr_rewrite(p, e, KILN_USES_BOOL, decide, context);
}

/* if answer: the loop, simplified with that answer. */
static kiln_stmt answered(kiln_program *p, kiln_stmt loop, kiln_expr invariant, bool holds) {
    answer a = {invariant, holds};
    kiln_stmt version = kiln_stmt_create(p, KILN_STMT_IF);
    p->stmt.data[version].condition =
        holds ? invariant : kiln_expr_unary(p, KILN_EXPR_NOT, invariant);
    kiln_lower_rewrite(p, loop, decide_in, &a);
    kiln_stmt_append(p, version, loop);
    return version;
}

typedef struct budget {
    uint64_t stores; /* that copies may add to the program */
    uint64_t copies; /* that may be made of the current loop */
    kiln_stmt tried; /* as in search */
} budget;

static void unswitch_tree(kiln_program *p, kiln_stmt stmt, budget *b);

static void unswitch_children(kiln_program *p, kiln_stmt stmt, budget *b) {
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
        unswitch_tree(p, p->stmt.data[stmt].child.data[i], b);
}

/* Splits the loop as often as the budget allows, then the loops in its copies. */
static void unswitch_loop(kiln_program *p, kiln_stmt loop, budget *b) {
    search s = {.p = p, .loop = loop, .tried = b->tried};
    uint64_t size = kiln_lower_size(p, loop);
    bool fits = p->stmt.data[loop].extent >= ITERATIONS_MIN && size <= b->stores;
    if (fits && b->copies > 0) find_conditions(&s, loop);
    if (!s.invariant) {
        budget inside = {.stores = b->stores, .tried = fits ? loop : b->tried};
        unswitch_children(p, loop, &inside);
        b->stores = inside.stores;
        return;
    }
    b->copies--;
    b->stores -= size;
    kiln_stmt copy = kiln_lower_copy(p, loop, NULL, 0), seq = kiln_stmt_create(p, KILN_STMT_SEQ);
    kiln_stmt_replace(p, loop, seq);
    kiln_stmt_append(p, seq, answered(p, loop, s.invariant, true));
    kiln_stmt_append(p, seq, answered(p, copy, s.invariant, false));
    unswitch_loop(p, loop, b);
    unswitch_loop(p, copy, b);
}

static void unswitch_tree(kiln_program *p, kiln_stmt stmt, budget *b) {
    const kiln_stmt_info info = p->stmt.data[stmt];
    if (info.kind != KILN_STMT_FOR || info.loop_kind == KILN_LOOP_PARALLEL) {
        unswitch_children(p, stmt, b);
        return;
    }
    if (info.loop_kind != KILN_LOOP_SERIAL)
        return; /* lanes and copies of one instruction: conditions become masks */
    search s = {.p = p, .loop = stmt, .tried = b->tried};
    find_conditions(&s, stmt);
    b->copies = s.count * COPIES_PER_CONDITION;
    unswitch_loop(p, stmt, b);
}

static void unswitch_program(kiln_program *p) {
    budget b = {.stores = KILN_LOWER_SIZE_MAX / 4};
    if (!p->root) return;
    unswitch_tree(p, p->root, &b);
    kiln_lower_simplify_below(p, p->root, NULL);
}

kiln_status kiln_lower_unswitch(kiln_lowering *l) {
    unswitch_program(l->run);
    return KILN_OK;
}
