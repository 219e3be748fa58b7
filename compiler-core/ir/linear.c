#include "compiler-core/ir/linear.h"

#include "base/macros.h"
#include "compiler-core/ir/scalar.h"

static kiln_expr_op op_of(const kiln_linear *l, kiln_expr e) {
    return (kiln_expr_op)l->p->expr.data[e].op;
}

static kiln_expr binary_const(kiln_linear *l, kiln_expr_op op, kiln_expr a, int64_t c) {
    return kiln_expr_binary(l->p, op, a, kiln_expr_index(l->p, c));
}

/* ---- splitting ------------------------------------------------------------------- */

/* Whether `a` splits by `factor`: terms with a multiple of it go to the quotient, the others must
 * stay within one period whatever their values. */
static bool split_by(kiln_linear *l, const kiln_affine *a, int64_t factor, kiln_split *out) {
    out->factor = factor;
    kiln_affine_clear(&out->quotient);
    kiln_affine_clear(&out->rest);
    out->rest.constant = kiln_floormod(a->constant, factor);
    out->quotient.constant = kiln_floordiv(a->constant, factor);
    for (uint32_t i = 0; i < a->term_count; i++) {
        bool divides = a->coefficient[i] % factor == 0;
        kiln_affine_add_term(divides ? &out->quotient : &out->rest, a->term[i],
                             divides ? a->coefficient[i] / factor : a->coefficient[i]);
    }
    kiln_interval rest = kiln_bounds_of_affine(&l->bounds, &out->rest);
    if (!kiln_interval_is_bounded(rest)) return false;
    int64_t period = kiln_floordiv(rest.low, factor);
    if (period != kiln_floordiv(rest.high, factor)) return false;
    out->quotient.constant += period;
    out->rest.constant -= period * factor;
    return true;
}

bool kiln_linear_split(kiln_linear *l, const kiln_affine *a, int64_t modulus, kiln_split *out) {
    int64_t tried = INT64_MAX;
    for (;;) {
        int64_t factor = 1;
        for (uint32_t i = 0; i < a->term_count; i++) {
            if (a->coefficient[i] == INT64_MIN) continue;
            int64_t candidate = kiln_gcd(a->coefficient[i], modulus);
            if (candidate < tried) factor = KILN_MAX(factor, candidate);
        }
        if (factor <= 1) return false;
        if (split_by(l, a, factor, out)) return true;
        tried = factor;
    }
}

/* ---- division and remainder ------------------------------------------------------ */

static kiln_expr add_exprs(kiln_linear *l, const kiln_affine *a, kiln_expr e, int64_t scale) {
    kiln_affine sum = *a;
    if (kiln_affine_add(l->p, &sum, e, scale)) {
        kiln_linear_recombine(l, &sum);
        return kiln_affine_to_expr(l->p, &sum);
    }
    return kiln_expr_binary(l->p, KILN_EXPR_ADD, kiln_affine_to_expr(l->p, a),
                            binary_const(l, KILN_EXPR_MUL, e, scale));
}

/* floordiv(floordiv(x, d) + k, divisor) is floordiv(x + k*d, d*divisor). */
static bool unnest_floordiv(kiln_linear *l, const kiln_affine *a, int64_t divisor, kiln_affine *out,
                            int64_t *out_divisor) {
    int64_t inner;
    int64_t shift;
    if (a->term_count != 1 || a->coefficient[0] != 1 || op_of(l, a->term[0]) != KILN_EXPR_FLOORDIV)
        return false;
    if (!kiln_expr_as_int(l->p, kiln_expr_operand(l->p, a->term[0], 1), &inner) || inner <= 0)
        return false;
    if (__builtin_mul_overflow(inner, divisor, out_divisor) ||
        __builtin_mul_overflow(inner, a->constant, &shift))
        return false;
    kiln_affine_clear(out);
    if (!kiln_affine_add(l->p, out, kiln_expr_operand(l->p, a->term[0], 0), 1)) return false;
    out->constant = kiln_wrap_add(out->constant, shift);
    return kiln_interval_is_bounded(kiln_bounds_of_affine(&l->bounds, out));
}

kiln_expr kiln_linear_floordiv(kiln_linear *l, const kiln_affine *a, int64_t divisor) {
    if (divisor == 1) return kiln_affine_to_expr(l->p, a);
    if (!kiln_interval_is_bounded(kiln_bounds_of_affine(&l->bounds, a)))
        return binary_const(l, KILN_EXPR_FLOORDIV, kiln_affine_to_expr(l->p, a), divisor);
    kiln_split whole;
    if (split_by(l, a, divisor, &whole)) return kiln_affine_to_expr(l->p, &whole.quotient);

    /* The multiples of the divisor are taken out; the remaining terms are divided separately. */
    kiln_expr quotient;
    kiln_affine inner;
    int64_t inner_divisor;
    kiln_split part;
    kiln_affine *rest = &whole.rest;
    if (unnest_floordiv(l, rest, divisor, &inner, &inner_divisor)) {
        quotient = kiln_linear_floordiv(l, &inner, inner_divisor);
    } else if (kiln_linear_split(l, rest, divisor, &part)) {
        quotient = kiln_linear_floordiv(l, &part.quotient, divisor / part.factor);
    } else {
        quotient = binary_const(l, KILN_EXPR_FLOORDIV, kiln_affine_to_expr(l->p, rest), divisor);
    }
    return add_exprs(l, &whole.quotient, quotient, 1);
}

/* c*floormod(x, d) is c*x modulo `divisor` when c*d is a multiple of it. */
static bool unnest_floormod(kiln_linear *l, kiln_affine *a, int64_t divisor) {
    for (uint32_t i = 0; i < a->term_count; i++) {
        kiln_expr term = a->term[i];
        int64_t scale = a->coefficient[i];
        int64_t inner;
        int64_t period;
        if (op_of(l, term) != KILN_EXPR_FLOORMOD) continue;
        if (!kiln_expr_as_int(l->p, kiln_expr_operand(l->p, term, 1), &inner) || inner <= 0)
            continue;
        if (__builtin_mul_overflow(inner, scale, &period) || period % divisor != 0) continue;
        kiln_affine changed = *a;
        if (!kiln_affine_add_term(&changed, term, kiln_wrap_sub(0, scale))) continue;
        if (!kiln_affine_add(l->p, &changed, kiln_expr_operand(l->p, term, 0), scale)) continue;
        if (!kiln_interval_is_bounded(kiln_bounds_of_affine(&l->bounds, &changed))) continue;
        *a = changed;
        return true;
    }
    return false;
}

kiln_expr kiln_linear_floormod(kiln_linear *l, const kiln_affine *given, int64_t divisor) {
    if (divisor == 1) return kiln_expr_index(l->p, 0);
    if (!kiln_interval_is_bounded(kiln_bounds_of_affine(&l->bounds, given)))
        return binary_const(l, KILN_EXPR_FLOORMOD, kiln_affine_to_expr(l->p, given), divisor);
    kiln_affine a = *given;
    while (unnest_floormod(l, &a, divisor)) {}
    kiln_split whole;
    kiln_split part;
    if (split_by(l, &a, divisor, &whole)) return kiln_affine_to_expr(l->p, &whole.rest);
    if (!kiln_linear_split(l, &whole.rest, divisor, &part))
        return binary_const(l, KILN_EXPR_FLOORMOD, kiln_affine_to_expr(l->p, &whole.rest), divisor);
    kiln_expr remainder = kiln_linear_floormod(l, &part.quotient, divisor / part.factor);
    return add_exprs(l, &part.rest, remainder, part.factor);
}

/* ---- putting together again ------------------------------------------------------ */

/* For one term floormod(x, d) or floordiv(x, d): uses x = d*floordiv(x, d) + floormod(x, d) to
 * write the sum without it, and keeps that when terms cancel: (f/7)*7 + f%7 becomes f, f - (f/7)*7
 * becomes f%7. */
static bool cancel_term(kiln_linear *l, kiln_affine *a, uint32_t at) {
    kiln_expr term = a->term[at];
    kiln_expr_op op = op_of(l, term);
    int64_t divisor;
    int64_t scale = a->coefficient[at];
    if (op != KILN_EXPR_FLOORMOD && op != KILN_EXPR_FLOORDIV) return false;
    if (!kiln_expr_as_int(l->p, kiln_expr_operand(l->p, term, 1), &divisor) || divisor <= 0)
        return false;
    if (op == KILN_EXPR_FLOORDIV && scale % divisor != 0) return false;
    if (op == KILN_EXPR_FLOORDIV) scale /= divisor;

    kiln_affine x;
    kiln_affine_clear(&x);
    if (!kiln_affine_add(l->p, &x, kiln_expr_operand(l->p, term, 0), 1)) return false;
    if (!kiln_interval_is_bounded(kiln_bounds_of_affine(&l->bounds, &x))) return false;
    kiln_expr other = op == KILN_EXPR_FLOORMOD ? kiln_linear_floordiv(l, &x, divisor)
                                               : kiln_linear_floormod(l, &x, divisor);
    int64_t other_scale = kiln_wrap_sub(0, scale);
    if (op == KILN_EXPR_FLOORMOD) other_scale = kiln_wrap_mul(other_scale, divisor);

    kiln_affine changed = *a;
    bool fits = kiln_affine_add_term(&changed, term, kiln_wrap_sub(0, a->coefficient[at])) &&
                kiln_affine_add_affine(&changed, &x, scale) &&
                kiln_affine_add(l->p, &changed, other, other_scale);
    if (!fits || changed.term_count >= a->term_count) return false;
    *a = changed;
    return true;
}

void kiln_linear_recombine(kiln_linear *l, kiln_affine *a) {
    if (a->term_count < 2) return;
    for (uint32_t i = 0; i < a->term_count; i++)
        if (cancel_term(l, a, i)) i = UINT32_MAX; /* from the start again */
}
