/* skip: a sum is left as it is if its term is a product with a zero of a padding. The term of
 *
 *     acc[i] = acc[i] + select(inside, x[..], 0)*w[..]
 *
 * is added only `if inside`. Each part of the condition is tested as far outside as it does not
 * change and the loop has no other statements: one test for a whole row of taps. A part that only
 * unrolled loops change becomes constant in partition or the emitter and disappears.
 *
 * Products of zeros with infinities are not computed either: the sum is then that without
 * padding. */
#include "compiler-core/ir/zeros.h"
#include "compiler-core/lower/pass.h"

/* The term that is added to the stored element; 0: the store does something else. */
static kiln_expr term_of(const kiln_program *p, const kiln_stmt_info *store) {
    if (kiln_expr_get(p, store->value)->op != KILN_EXPR_ADD) return 0;
    for (uint32_t i = 0; i < 2; i++) {
        kiln_expr old = kiln_expr_operand(p, store->value, i);
        const kiln_expr_node *node = kiln_expr_get(p, old);
        bool same = node->op == KILN_EXPR_LOAD && node->payload.id == store->buffer;
        for (uint32_t d = 0; same && d < store->index_count; d++)
            same = kiln_expr_operand(p, old, d) == store->index[d];
        if (same) return kiln_expr_operand(p, store->value, 1 - i);
    }
    return 0;
}

/* Conditions on lanes need a mask at best, and conditions on data cannot be tested: such parts stay
 * in the value. */
static bool is_uniform(const kiln_program *p, kiln_stmt store, kiln_expr part) {
    if (kiln_lower_reads(p, part)) return false;
    for (kiln_stmt at = p->stmt.data[store].parent; at; at = p->stmt.data[at].parent) {
        const kiln_stmt_info *s = &p->stmt.data[at];
        if (s->kind == KILN_STMT_FOR && s->loop_kind == KILN_LOOP_VECTORIZE &&
            kiln_expr_uses_var(p, part, s->var))
            return false;
    }
    return true;
}

/* The largest statement around the store that does nothing else and in which `part` does not
 * change. */
static kiln_stmt outermost(const kiln_program *p, kiln_stmt store, kiln_expr part) {
    kiln_stmt at = store;
    for (;; at = p->stmt.data[at].parent) {
        kiln_stmt parent = p->stmt.data[at].parent;
        const kiln_stmt_info *s = &p->stmt.data[parent];
        bool loop = parent && s->kind == KILN_STMT_FOR && s->loop_kind != KILN_LOOP_PARALLEL &&
                    !kiln_expr_uses_var(p, part, s->var);
        if (!loop && !(parent && s->kind == KILN_STMT_IF)) return at;
    }
}

static void guard(kiln_program *p, kiln_stmt store, kiln_expr part) {
    kiln_stmt inner = outermost(p, store, part);
    kiln_stmt_info *s = &p->stmt.data[inner];
    if (s->kind == KILN_STMT_IF) {
        s->condition = kiln_expr_binary(p, KILN_EXPR_AND, s->condition, part);
        return;
    }
    kiln_stmt outer = kiln_stmt_create(p, KILN_STMT_IF);
    p->stmt.data[outer].condition = part;
    kiln_stmt_wrap(p, inner, outer);
}

static kiln_expr hold(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    return e == *(kiln_expr *)context ? kiln_expr_int(p, KILN_BOOL, 1) : rebuilt;
}

/* Guards the store with the parts of the condition that can be tested, and simplifies its value
 * with them. */
static void ask(kiln_program *p, kiln_stmt store, kiln_expr condition) {
    if (kiln_expr_get(p, condition)->op == KILN_EXPR_AND) {
        ask(p, store, kiln_expr_operand(p, condition, 0));
        ask(p, store, kiln_expr_operand(p, condition, 1));
    } else if (is_uniform(p, store, condition)) {
        kiln_stmt_info *s = &p->stmt.data[store];
        s->value = kiln_expr_rewrite(p, s->value, KILN_USES_BOOL, hold, &condition);
        guard(p, store, condition);
    }
}

static void skip_store(kiln_program *p, kiln_stmt store) {
    const kiln_stmt_info s = p->stmt.data[store];
    kiln_expr term = term_of(p, &s);
    kiln_expr condition = term ? kiln_zeros_unless(p, term) : 0;
    if (condition) ask(p, store, condition);
}

static void skip_tree(kiln_program *p, kiln_stmt stmt) {
    if (p->stmt.data[stmt].kind == KILN_STMT_STORE) skip_store(p, stmt);
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
        skip_tree(p, p->stmt.data[stmt].child.data[i]);
}

kiln_status kiln_lower_skip(kiln_lowering *l) {
    skip_tree(l->run, l->run->root);
    return KILN_OK;
}
