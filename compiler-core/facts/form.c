#include "compiler-core/facts/form.h"

#include <stdlib.h>

#include "base/macros.h"

#define COMBINATIONS_MAX 4096

static bool add_term(kiln_form *f, kiln_form_term term) {
    if (term.coefficient == 0 || term.extent < 2) return true;
    for (uint32_t i = 0; i < f->term_count; i++) {
        kiln_form_term *have = &f->term[i];
        if (have->var != term.var || have->divisor != term.divisor || have->extent != term.extent)
            continue;
        have->coefficient += term.coefficient;
        if (have->coefficient == 0) *have = f->term[--f->term_count];
        return true;
    }
    if (f->term_count == KILN_FORM_TERMS_MAX) return false;
    f->term[f->term_count++] = term;
    return true;
}

static void add_form(kiln_form *f, const kiln_form *other, int64_t scale) {
    f->constant += other->constant * scale;
    f->exact = f->exact && other->exact;
    f->data = f->data || other->data;
    for (uint32_t i = 0; i < other->term_count; i++) {
        kiln_form_term term = other->term[i];
        term.coefficient *= scale;
        if (!add_term(f, term)) f->exact = false;
    }
}

/* Terms beyond the count stay unwritten: a form is 400 bytes. */
static void set_constant(kiln_form *f, int64_t value) {
    f->constant = value;
    f->term_count = 0;
    f->exact = true;
    f->data = false;
}

void kiln_form_range(const kiln_form *form, int64_t *out_low, int64_t *out_high) {
    int64_t low = form->constant, high = form->constant;
    for (uint32_t i = 0; i < form->term_count; i++) {
        int64_t reach = form->term[i].coefficient * (form->term[i].extent - 1);
        if (reach < 0)
            low += reach;
        else
            high += reach;
    }
    *out_low = low;
    *out_high = high;
}

/* Cuts a digit in two where its multiples reach `divisor`: then the upper place is a multiple of
 * the divisor, and the lower one stays below it. */
static bool cut_digit(kiln_form *f, uint32_t at, int64_t divisor) {
    kiln_form_term *term = &f->term[at];
    if (term->coefficient <= 0 || divisor % term->coefficient != 0) return false;
    int64_t lower = divisor / term->coefficient;
    if (term->extent <= lower) return false;
    kiln_form_term upper = *term;
    upper.divisor = term->divisor * lower;
    upper.extent = (term->extent + lower - 1) / lower;
    upper.coefficient = divisor;
    bool whole = term->extent % lower == 0;
    term->extent = lower;
    return add_term(f, upper) && whole;
}

/* x = divisor * quotient + remainder, term by term; false when the remainder may leave
 * [0, divisor). */
static bool divide(const kiln_form *x, int64_t divisor, kiln_form *quotient, kiln_form *remainder) {
    kiln_form whole;
    bool exact = x->exact;
    set_constant(&whole, x->constant);
    for (uint32_t i = 0; i < x->term_count; i++) whole.term[whole.term_count++] = x->term[i];
    for (uint32_t i = 0; i < whole.term_count; i++)
        if (whole.term[i].coefficient % divisor != 0 && whole.term[i].coefficient < divisor &&
            whole.term[i].coefficient * (whole.term[i].extent - 1) >= divisor)
            exact = cut_digit(&whole, i, divisor) && exact;
    int64_t rest = ((whole.constant % divisor) + divisor) % divisor;
    set_constant(remainder, rest);
    set_constant(quotient, (whole.constant - rest) / divisor);
    for (uint32_t i = 0; i < whole.term_count; i++) {
        kiln_form_term term = whole.term[i];
        bool multiple = term.coefficient % divisor == 0;
        if (multiple) term.coefficient /= divisor;
        (void)add_term(multiple ? quotient : remainder, term);
    }
    int64_t low, high;
    kiln_form_range(remainder, &low, &high);
    quotient->exact = remainder->exact = exact;
    quotient->data = remainder->data = x->data;
    return low >= 0 && high < divisor;
}

/* For inexact results: the quotient's or remainder's range, with its variables. */
static void blur(const kiln_form *x, int64_t divisor, bool quotient, kiln_form *f) {
    set_constant(f, quotient ? x->constant / divisor : 0);
    f->exact = false;
    f->data = x->data;
    int64_t left = divisor;
    for (uint32_t i = 0; i < x->term_count; i++) {
        kiln_form_term term = x->term[i];
        int64_t reach = llabs(term.coefficient) * (term.extent - 1);
        if (quotient) {
            term.extent = reach / divisor + 1;
            term.coefficient = 1;
        } else {
            term.coefficient = llabs(term.coefficient) % divisor;
            if (term.coefficient == 0) continue;
            term.extent = KILN_MIN(term.extent, KILN_MAX(left / term.coefficient, 1));
            left -= term.coefficient * (term.extent - 1);
        }
        (void)add_term(f, term);
    }
}

static void add_var(const kiln_form_scope *scope, kiln_var var, int64_t scale, kiln_form *f) {
    if (scope->of_var && scope->of_var[var]) {
        add_form(f, scope->of_var[var], scale);
        return;
    }
    const kiln_var_info *info = &scope->p->var.data[var];
    f->constant += info->low * scale;
    if (!add_term(f, (kiln_form_term){var, 1, info->high - info->low + 1, scale})) f->exact = false;
}

static void add_expr(const kiln_form_scope *scope, kiln_expr e, int64_t scale, kiln_form *f);

/* The quotient or the remainder of an expression. */
static void add_part(const kiln_form_scope *scope, kiln_expr e, int64_t divisor, bool quotient,
                     int64_t scale, kiln_form *f) {
    kiln_form x, by[2];
    kiln_form_of(scope, e, &x);
    if (!divide(&x, divisor, &by[0], &by[1])) blur(&x, divisor, quotient, &by[!quotient]);
    add_form(f, &by[!quotient], scale);
}

/* Clamping: the range of the varying operand. */
static void add_clamped(const kiln_form_scope *scope, kiln_expr e, int64_t scale, kiln_form *f) {
    kiln_form a, b;
    kiln_form_of(scope, kiln_expr_operand(scope->p, e, 0), &a);
    kiln_form_of(scope, kiln_expr_operand(scope->p, e, 1), &b);
    add_form(f, a.term_count >= b.term_count ? &a : &b, scale);
    f->exact = false;
    f->data = f->data || a.data || b.data;
}

/* Adds multiples of the expression. */
static void add_expr(const kiln_form_scope *scope, kiln_expr e, int64_t scale, kiln_form *f) {
    const kiln_program *p = scope->p;
    const kiln_expr_node *node = kiln_expr_get(p, e);
    int64_t factor;
    switch ((kiln_expr_op)node->op) {
    case KILN_EXPR_INT: f->constant += node->payload.i * scale; return;
    case KILN_EXPR_VAR: add_var(scope, node->payload.id, scale, f); return;
    case KILN_EXPR_CAST:
        if (kiln_dtype_is_float((kiln_dtype)kiln_expr_get(p, kiln_expr_operand(p, e, 0))->dtype))
            break;
        add_expr(scope, kiln_expr_operand(p, e, 0), scale, f);
        return;
    case KILN_EXPR_ADD:
    case KILN_EXPR_SUB:
        add_expr(scope, kiln_expr_operand(p, e, 0), scale, f);
        add_expr(scope, kiln_expr_operand(p, e, 1), node->op == KILN_EXPR_ADD ? scale : -scale, f);
        return;
    case KILN_EXPR_MUL:
        if (!kiln_expr_as_int(p, kiln_expr_operand(p, e, 1), &factor)) break;
        add_expr(scope, kiln_expr_operand(p, e, 0), scale * factor, f);
        return;
    case KILN_EXPR_FLOORDIV:
    case KILN_EXPR_FLOORMOD:
        if (!kiln_expr_as_int(p, kiln_expr_operand(p, e, 1), &factor) || factor <= 0) break;
        add_part(scope, kiln_expr_operand(p, e, 0), factor, node->op == KILN_EXPR_FLOORDIV, scale,
                 f);
        return;
    case KILN_EXPR_MIN:
    case KILN_EXPR_MAX: add_clamped(scope, e, scale, f); return;
    default: break;
    }
    f->exact = false;
    f->data = true;
}

void kiln_form_of(const kiln_form_scope *scope, kiln_expr e, kiln_form *out) {
    set_constant(out, 0);
    add_expr(scope, e, 1, out);
}

/* ---- counting -------------------------------------------------------------------------------- */

void kiln_spread_add(kiln_spread *spread, const kiln_form_term *term) {
    if (spread->count == KILN_ARRAY_COUNT(spread->step)) {
        spread->any = true;
        return;
    }
    int64_t stride = llabs(term->coefficient);
    uint32_t at = spread->count++;
    for (; at > 0 && spread->step[at - 1].stride > stride; at--)
        spread->step[at] = spread->step[at - 1];
    spread->step[at].stride = stride;
    spread->step[at].extent = term->extent;
}

void kiln_spread_measure(const kiln_spread *spread, int64_t *out_values, int64_t *out_span) {
    int64_t values = 1, reach = 0;
    for (uint32_t i = 0; i < spread->count; i++) {
        int64_t stride = spread->step[i].stride, extent = spread->step[i].extent;
        bool dense = values == reach + 1;
        int64_t after = reach + stride * (extent - 1);
        if (dense && stride <= reach + 1)
            values = after + 1;
        else if (stride > reach)
            values *= extent;
        else
            values = KILN_MIN(values * extent, after + 1);
        reach = after;
    }
    *out_values = values;
    *out_span = reach + 1;
}

double kiln_form_share_within(const kiln_form *form, int64_t limit) {
    int64_t low, high, combinations = 1, values, span;
    kiln_form_range(form, &low, &high);
    if (form->data || (low >= 0 && high < limit)) return 1;
    kiln_spread spread;
    spread.count = 0;
    for (uint32_t i = 0; i < form->term_count; i++) {
        combinations *= form->term[i].extent;
        kiln_spread_add(&spread, &form->term[i]);
    }
    kiln_spread_measure(&spread, &values, &span);
    int64_t inside = KILN_MIN(high, limit - 1) - KILN_MAX(low, 0) + 1;
    bool one_each = values == span && values == combinations;
    if (one_each || combinations > COMBINATIONS_MAX)
        return KILN_MAX((double)inside / (double)(high - low + 1), 0);
    int64_t digit[KILN_FORM_TERMS_MAX] = {0}, value = form->constant, within = 0;
    for (int64_t n = 0; n < combinations; n++) {
        within += value >= 0 && value < limit;
        for (uint32_t i = 0; i < form->term_count; i++) {
            value += form->term[i].coefficient;
            if (++digit[i] < form->term[i].extent) break;
            value -= digit[i] * form->term[i].coefficient;
            digit[i] = 0;
        }
    }
    return (double)within / (double)combinations;
}
