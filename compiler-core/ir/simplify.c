/* Quasi-affine simplification: sums as linear forms, division and remainder split by what divides and what
 * stays small, comparisons decided or reduced, conjunctions cleaned. Every rule needs its numbers bounded
 * (bounds.h), so wrapping arithmetic is never mistaken for arithmetic on integers. */
#include "base/check.h"
#include "base/macros.h"
#include "compiler-core/ir/bounds.h"
#include "compiler-core/ir/memo.h"
#include "compiler-core/ir/scalar.h"

#define CONJUNCTS_MAX 64

typedef struct simplifier {
    kiln_program *p;
    kiln_expr_memo *memo;
    kiln_bounds bounds;
} simplifier;

static kiln_expr simplify(simplifier *s, kiln_expr e);

static kiln_expr_op op_of(const simplifier *s, kiln_expr e) { return (kiln_expr_op)s->p->expr.data[e].op; }
static kiln_dtype dtype_of(const simplifier *s, kiln_expr e) { return (kiln_dtype)s->p->expr.data[e].dtype; }

static kiln_expr binary_const(simplifier *s, kiln_expr_op op, kiln_expr a, int64_t c) {
    return kiln_expr_binary(s->p, op, a, kiln_expr_index(s->p, c));
}

static int64_t gcd(int64_t a, int64_t b) {
    a = a < 0 ? -a : a;
    b = b < 0 ? -b : b;
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Greatest common divisor of all coefficients; 0 without terms. */
static int64_t common_factor(const kiln_affine *a) {
    int64_t g = 0;
    for (uint32_t i = 0; i < a->term_count; i++) {
        if (a->coefficient[i] == INT64_MIN) return 1;
        g = gcd(g, a->coefficient[i]);
    }
    return g;
}

/* ---- sums --------------------------------------------------------------------------------------------- */

/* Splits a sum into its parts and simplifies each part on its own. False when terms run out. */
static bool collect(simplifier *s, kiln_affine *out, kiln_expr e, int64_t scale) {
    kiln_expr_op op = op_of(s, e);
    int64_t factor;
    if (op == KILN_EXPR_ADD || op == KILN_EXPR_SUB) {
        int64_t right = op == KILN_EXPR_SUB ? (int64_t)(0 - (uint64_t)scale) : scale;
        return collect(s, out, kiln_expr_operand(s->p, e, 0), scale) && collect(s, out, kiln_expr_operand(s->p, e, 1), right);
    }
    if (op == KILN_EXPR_NEG) return collect(s, out, kiln_expr_operand(s->p, e, 0), (int64_t)(0 - (uint64_t)scale));
    if (op == KILN_EXPR_MUL && kiln_expr_as_int(s->p, kiln_expr_operand(s->p, e, 1), &factor))
        return collect(s, out, kiln_expr_operand(s->p, e, 0), (int64_t)((uint64_t)scale * (uint64_t)factor));
    return kiln_affine_add(s->p, out, simplify(s, e), scale);
}

static kiln_expr floordiv_affine(simplifier *s, const kiln_affine *a, int64_t divisor);
static kiln_expr floormod_affine(simplifier *s, const kiln_affine *a, int64_t divisor);

/* For one term floormod(x, d) or floordiv(x, d): uses x = d*floordiv(x, d) + floormod(x, d) to write the sum
 * without it, and keeps that when terms cancel: (f/7)*7 + f%7 becomes f, f - (f/7)*7 becomes f%7. */
static bool cancel_term(simplifier *s, kiln_affine *a, uint32_t at) {
    kiln_expr term = a->term[at];
    kiln_expr_op op = op_of(s, term);
    int64_t divisor;
    int64_t scale = a->coefficient[at];
    if (op != KILN_EXPR_FLOORMOD && op != KILN_EXPR_FLOORDIV) return false;
    if (!kiln_expr_as_int(s->p, kiln_expr_operand(s->p, term, 1), &divisor) || divisor <= 0) return false;
    if (op == KILN_EXPR_FLOORDIV && scale % divisor != 0) return false;
    if (op == KILN_EXPR_FLOORDIV) scale /= divisor;

    kiln_affine x;
    kiln_affine_clear(&x);
    if (!kiln_affine_add(s->p, &x, kiln_expr_operand(s->p, term, 0), 1)) return false;
    if (!kiln_interval_is_bounded(kiln_bounds_of_affine(&s->bounds, &x))) return false;
    kiln_expr other = op == KILN_EXPR_FLOORMOD ? floordiv_affine(s, &x, divisor) : floormod_affine(s, &x, divisor);
    int64_t other_scale = (int64_t)(0 - (uint64_t)scale);
    if (op == KILN_EXPR_FLOORMOD) other_scale = (int64_t)((uint64_t)other_scale * (uint64_t)divisor);

    kiln_affine changed = *a;
    bool fits = kiln_affine_add_term(&changed, term, (int64_t)(0 - (uint64_t)a->coefficient[at])) &&
                kiln_affine_add_affine(&changed, &x, scale) && kiln_affine_add(s->p, &changed, other, other_scale);
    if (!fits || changed.term_count >= a->term_count) return false;
    *a = changed;
    return true;
}

static void recombine(simplifier *s, kiln_affine *a) {
    if (a->term_count < 2) return;
    for (uint32_t i = 0; i < a->term_count; i++)
        if (cancel_term(s, a, i)) i = UINT32_MAX; /* from the start again */
}

/* The linear form of e with simplified terms. */
static bool affine_of(simplifier *s, kiln_expr e, kiln_affine *out) {
    kiln_affine_clear(out);
    if (!collect(s, out, e, 1)) return false;
    recombine(s, out);
    return true;
}

/* ---- division and remainder ------------------------------------------------------------------------------ */

/* A sum written as factor*quotient + rest, where rest lies in [0, factor). */
typedef struct split {
    int64_t factor;
    kiln_affine quotient, rest;
} split;

/* Whether `a` splits by `factor`: terms with a multiple of it go to the quotient, the others must stay within
 * one period whatever their values. */
static bool split_by(simplifier *s, const kiln_affine *a, int64_t factor, split *out) {
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
    kiln_interval rest = kiln_bounds_of_affine(&s->bounds, &out->rest);
    if (!kiln_interval_is_bounded(rest)) return false;
    int64_t period = kiln_floordiv(rest.low, factor);
    if (period != kiln_floordiv(rest.high, factor)) return false;
    out->quotient.constant += period;
    out->rest.constant -= period * factor;
    return true;
}

/* Finds a factor above 1 that divides `modulus` (0: any factor) by which `a` splits, trying the largest first. */
static bool find_split(simplifier *s, const kiln_affine *a, int64_t modulus, split *out) {
    int64_t tried = INT64_MAX;
    for (;;) {
        int64_t factor = 1;
        for (uint32_t i = 0; i < a->term_count; i++) {
            if (a->coefficient[i] == INT64_MIN) continue;
            int64_t candidate = gcd(a->coefficient[i], modulus);
            if (candidate < tried) factor = KILN_MAX(factor, candidate);
        }
        if (factor <= 1) return false;
        if (split_by(s, a, factor, out)) return true;
        tried = factor;
    }
}

static kiln_expr add_exprs(simplifier *s, const kiln_affine *a, kiln_expr e, int64_t scale) {
    kiln_affine sum = *a;
    if (kiln_affine_add(s->p, &sum, e, scale)) {
        recombine(s, &sum);
        return kiln_affine_to_expr(s->p, &sum);
    }
    return kiln_expr_binary(s->p, KILN_EXPR_ADD, kiln_affine_to_expr(s->p, a), binary_const(s, KILN_EXPR_MUL, e, scale));
}

/* floordiv(floordiv(x, d) + k, divisor) is floordiv(x + k*d, d*divisor). */
static bool unnest_floordiv(simplifier *s, const kiln_affine *a, int64_t divisor, kiln_affine *out, int64_t *out_divisor) {
    int64_t inner;
    int64_t shift;
    if (a->term_count != 1 || a->coefficient[0] != 1 || op_of(s, a->term[0]) != KILN_EXPR_FLOORDIV) return false;
    if (!kiln_expr_as_int(s->p, kiln_expr_operand(s->p, a->term[0], 1), &inner) || inner <= 0) return false;
    if (__builtin_mul_overflow(inner, divisor, out_divisor) || __builtin_mul_overflow(inner, a->constant, &shift)) return false;
    kiln_affine_clear(out);
    if (!kiln_affine_add(s->p, out, kiln_expr_operand(s->p, a->term[0], 0), 1)) return false;
    out->constant = (int64_t)((uint64_t)out->constant + (uint64_t)shift);
    return kiln_interval_is_bounded(kiln_bounds_of_affine(&s->bounds, out));
}

static kiln_expr floordiv_affine(simplifier *s, const kiln_affine *a, int64_t divisor) {
    if (divisor == 1) return kiln_affine_to_expr(s->p, a);
    if (!kiln_interval_is_bounded(kiln_bounds_of_affine(&s->bounds, a)))
        return binary_const(s, KILN_EXPR_FLOORDIV, kiln_affine_to_expr(s->p, a), divisor);
    split whole;
    if (split_by(s, a, divisor, &whole)) return kiln_affine_to_expr(s->p, &whole.quotient);

    /* The multiples of the divisor leave; what remains is divided for itself. */
    kiln_expr quotient;
    kiln_affine inner;
    int64_t inner_divisor;
    split part;
    kiln_affine *rest = &whole.rest;
    if (unnest_floordiv(s, rest, divisor, &inner, &inner_divisor)) {
        quotient = floordiv_affine(s, &inner, inner_divisor);
    } else if (find_split(s, rest, divisor, &part)) {
        quotient = floordiv_affine(s, &part.quotient, divisor / part.factor);
    } else {
        quotient = binary_const(s, KILN_EXPR_FLOORDIV, kiln_affine_to_expr(s->p, rest), divisor);
    }
    return add_exprs(s, &whole.quotient, quotient, 1);
}

/* c*floormod(x, d) is c*x modulo `divisor` when c*d is a multiple of it. */
static bool unnest_floormod(simplifier *s, kiln_affine *a, int64_t divisor) {
    for (uint32_t i = 0; i < a->term_count; i++) {
        kiln_expr term = a->term[i];
        int64_t scale = a->coefficient[i];
        int64_t inner;
        int64_t period;
        if (op_of(s, term) != KILN_EXPR_FLOORMOD) continue;
        if (!kiln_expr_as_int(s->p, kiln_expr_operand(s->p, term, 1), &inner) || inner <= 0) continue;
        if (__builtin_mul_overflow(inner, scale, &period) || period % divisor != 0) continue;
        kiln_affine changed = *a;
        if (!kiln_affine_add_term(&changed, term, -scale)) continue;
        if (!kiln_affine_add(s->p, &changed, kiln_expr_operand(s->p, term, 0), scale)) continue;
        if (!kiln_interval_is_bounded(kiln_bounds_of_affine(&s->bounds, &changed))) continue;
        *a = changed;
        return true;
    }
    return false;
}

static kiln_expr floormod_affine(simplifier *s, const kiln_affine *given, int64_t divisor) {
    if (divisor == 1) return kiln_expr_index(s->p, 0);
    if (!kiln_interval_is_bounded(kiln_bounds_of_affine(&s->bounds, given)))
        return binary_const(s, KILN_EXPR_FLOORMOD, kiln_affine_to_expr(s->p, given), divisor);
    kiln_affine a = *given;
    while (unnest_floormod(s, &a, divisor)) {
    }
    split whole;
    split part;
    if (split_by(s, &a, divisor, &whole)) return kiln_affine_to_expr(s->p, &whole.rest);
    if (!find_split(s, &whole.rest, divisor, &part))
        return binary_const(s, KILN_EXPR_FLOORMOD, kiln_affine_to_expr(s->p, &whole.rest), divisor);
    kiln_expr remainder = floormod_affine(s, &part.quotient, divisor / part.factor);
    return add_exprs(s, &part.rest, remainder, part.factor);
}

/* Division that truncates equals division that floors where the dividend is not negative. */
static kiln_expr simplify_division(simplifier *s, kiln_expr e) {
    kiln_expr_op op = op_of(s, e);
    kiln_expr a = simplify(s, kiln_expr_operand(s->p, e, 0));
    kiln_expr b = simplify(s, kiln_expr_operand(s->p, e, 1));
    bool quotient = op == KILN_EXPR_FLOORDIV || op == KILN_EXPR_DIV;
    bool truncates = op == KILN_EXPR_DIV || op == KILN_EXPR_REM;
    int64_t divisor;
    kiln_affine sum;
    kiln_affine_clear(&sum);
    bool applies = kiln_expr_as_int(s->p, b, &divisor) && divisor > 0 && kiln_affine_add(s->p, &sum, a, 1) &&
                   (!truncates || kiln_bounds_of(&s->bounds, a).low >= 0);
    if (!applies) return kiln_expr_binary(s->p, op, a, b);
    return quotient ? floordiv_affine(s, &sum, divisor) : floormod_affine(s, &sum, divisor);
}

/* ---- comparisons ------------------------------------------------------------------------------------------- */

/* Both sides and their difference, when all are bounded: then the difference's sign is the comparison. */
static bool difference(simplifier *s, kiln_expr a, kiln_expr b, kiln_affine *out) {
    if (!kiln_interval_is_bounded(kiln_bounds_of(&s->bounds, a))) return false;
    if (!kiln_interval_is_bounded(kiln_bounds_of(&s->bounds, b))) return false;
    kiln_affine_clear(out);
    if (!kiln_affine_add(s->p, out, a, 1) || !kiln_affine_add(s->p, out, b, -1)) return false;
    recombine(s, out);
    return kiln_interval_is_bounded(kiln_bounds_of_affine(&s->bounds, out));
}

/* Writes difference `op` 0 with positive terms on the left and the constant on the right; where there is no
 * positive term, the constant stands on the left. */
static kiln_expr emit_comparison(simplifier *s, kiln_expr_op op, const kiln_affine *d) {
    kiln_affine positive;
    kiln_affine negative;
    kiln_affine_clear(&positive);
    kiln_affine_clear(&negative);
    for (uint32_t i = 0; i < d->term_count; i++) {
        bool is_positive = d->coefficient[i] > 0;
        kiln_affine_add_term(is_positive ? &positive : &negative, d->term[i],
                             is_positive ? d->coefficient[i] : -d->coefficient[i]);
    }
    kiln_expr_op out_op = op;
    if (positive.term_count == 0) {
        positive.constant = d->constant + (op == KILN_EXPR_LT);
        if (op == KILN_EXPR_LT) out_op = KILN_EXPR_LE; /* k < n is k + 1 <= n */
    } else {
        negative.constant = -d->constant;
    }
    return kiln_expr_binary(s->p, out_op, kiln_affine_to_expr(s->p, &positive), kiln_affine_to_expr(s->p, &negative));
}

/* d < 0. */
static kiln_expr emit_negative(simplifier *s, kiln_affine *d) {
    kiln_interval range = kiln_bounds_of_affine(&s->bounds, d);
    if (range.high < 0) return kiln_expr_int(s->p, KILN_BOOL, 1);
    if (range.low >= 0) return kiln_expr_int(s->p, KILN_BOOL, 0);
    split part;
    while (find_split(s, d, 0, &part)) *d = part.quotient; /* f*q + r < 0 is q < 0 */
    return emit_comparison(s, KILN_EXPR_LT, d);
}

/* d == 0 or d != 0. */
static kiln_expr emit_equality(simplifier *s, kiln_expr_op op, kiln_affine *d) {
    kiln_interval range = kiln_bounds_of_affine(&s->bounds, d);
    int64_t g = common_factor(d);
    bool never = range.low > 0 || range.high < 0 || (g > 1 && d->constant % g != 0);
    bool always = range.low == 0 && range.high == 0;
    if (never || always) return kiln_expr_int(s->p, KILN_BOOL, always == (op == KILN_EXPR_EQ));
    if (g > 1) {
        d->constant /= g;
        for (uint32_t i = 0; i < d->term_count; i++) d->coefficient[i] /= g;
    }
    return emit_comparison(s, op, d);
}

static kiln_expr simplify_comparison(simplifier *s, kiln_expr e) {
    kiln_expr_op op = op_of(s, e);
    kiln_expr a = simplify(s, kiln_expr_operand(s->p, e, 0));
    kiln_expr b = simplify(s, kiln_expr_operand(s->p, e, 1));
    kiln_affine d;
    if (dtype_of(s, a) != KILN_INDEX_DTYPE || !difference(s, a, b, &d)) return kiln_expr_binary(s->p, op, a, b);
    if (op == KILN_EXPR_EQ || op == KILN_EXPR_NE) return emit_equality(s, op, &d);
    d.constant -= op == KILN_EXPR_LE; /* a <= b is a - b - 1 < 0 */
    return emit_negative(s, &d);
}

/* ---- conditions --------------------------------------------------------------------------------------------- */

typedef struct conjunction {
    kiln_expr item[CONJUNCTS_MAX];
    uint32_t count;
    bool is_false, overflow;
} conjunction;

/* x < c, or c <= x, of the same x: the tighter one is enough. */
static bool merge_bound(simplifier *s, kiln_expr *kept, kiln_expr added) {
    kiln_expr_op op = op_of(s, added);
    if ((op != KILN_EXPR_LT && op != KILN_EXPR_LE) || op_of(s, *kept) != op) return false;
    uint32_t at = op == KILN_EXPR_LT; /* where the constant stands */
    int64_t old;
    int64_t new;
    if (kiln_expr_operand(s->p, *kept, 1 - at) != kiln_expr_operand(s->p, added, 1 - at)) return false;
    if (dtype_of(s, kiln_expr_operand(s->p, added, 0)) != KILN_INDEX_DTYPE) return false;
    if (!kiln_expr_as_int(s->p, kiln_expr_operand(s->p, *kept, at), &old)) return false;
    if (!kiln_expr_as_int(s->p, kiln_expr_operand(s->p, added, at), &new)) return false;
    if (op == KILN_EXPR_LT ? new < old : new > old) *kept = added;
    return true;
}

static void add_conjunct(simplifier *s, conjunction *c, kiln_expr e) {
    int64_t known;
    if (op_of(s, e) == KILN_EXPR_AND) {
        add_conjunct(s, c, kiln_expr_operand(s->p, e, 0));
        add_conjunct(s, c, kiln_expr_operand(s->p, e, 1));
        return;
    }
    if (kiln_expr_as_int(s->p, e, &known)) {
        c->is_false |= !known;
        return;
    }
    for (uint32_t i = 0; i < c->count; i++)
        if (c->item[i] == e || merge_bound(s, &c->item[i], e)) return;
    if (c->count == CONJUNCTS_MAX) {
        c->overflow = true;
        return;
    }
    c->item[c->count++] = e;
}

static kiln_expr simplify_and(simplifier *s, kiln_expr e) {
    kiln_expr a = simplify(s, kiln_expr_operand(s->p, e, 0));
    kiln_expr b = simplify(s, kiln_expr_operand(s->p, e, 1));
    conjunction c = {.count = 0};
    add_conjunct(s, &c, a);
    add_conjunct(s, &c, b);
    if (c.overflow) return kiln_expr_binary(s->p, KILN_EXPR_AND, a, b);
    kiln_expr all = kiln_expr_int(s->p, KILN_BOOL, !c.is_false);
    for (uint32_t i = 0; i < c.count; i++) all = kiln_expr_binary(s->p, KILN_EXPR_AND, all, c.item[i]);
    return all;
}

/* not(a < b) is b <= a, and so on; of integers only, because of NaN. */
static kiln_expr simplify_not(simplifier *s, kiln_expr e) {
    kiln_expr inner = simplify(s, kiln_expr_operand(s->p, e, 0));
    kiln_expr_op op = op_of(s, inner);
    bool turns = op == KILN_EXPR_LT || op == KILN_EXPR_LE || op == KILN_EXPR_EQ || op == KILN_EXPR_NE;
    if (!turns || dtype_of(s, kiln_expr_operand(s->p, inner, 0)) != KILN_INDEX_DTYPE)
        return kiln_expr_unary(s->p, KILN_EXPR_NOT, inner);
    kiln_expr a = kiln_expr_operand(s->p, inner, 0);
    kiln_expr b = kiln_expr_operand(s->p, inner, 1);
    if (op == KILN_EXPR_EQ) return kiln_expr_binary(s->p, KILN_EXPR_NE, a, b);
    if (op == KILN_EXPR_NE) return kiln_expr_binary(s->p, KILN_EXPR_EQ, a, b);
    return simplify(s, kiln_expr_binary(s->p, op == KILN_EXPR_LT ? KILN_EXPR_LE : KILN_EXPR_LT, b, a));
}

/* ---- everything ----------------------------------------------------------------------------------------------- */

static kiln_expr simplify_extremum(simplifier *s, kiln_expr e) {
    kiln_expr a = simplify(s, kiln_expr_operand(s->p, e, 0));
    kiln_expr b = simplify(s, kiln_expr_operand(s->p, e, 1));
    bool is_min = op_of(s, e) == KILN_EXPR_MIN;
    kiln_affine d;
    if (difference(s, a, b, &d)) {
        kiln_interval range = kiln_bounds_of_affine(&s->bounds, &d);
        if (range.high <= 0) return is_min ? a : b;
        if (range.low >= 0) return is_min ? b : a;
    }
    return kiln_expr_binary(s->p, is_min ? KILN_EXPR_MIN : KILN_EXPR_MAX, a, b);
}

static kiln_expr simplify_select(simplifier *s, kiln_expr e) {
    kiln_expr condition = simplify(s, kiln_expr_operand(s->p, e, 0));
    int64_t known;
    if (kiln_expr_as_int(s->p, condition, &known)) return simplify(s, kiln_expr_operand(s->p, e, known ? 1 : 2));
    return kiln_expr_select(s->p, condition, simplify(s, kiln_expr_operand(s->p, e, 1)),
                            simplify(s, kiln_expr_operand(s->p, e, 2)));
}

static kiln_expr simplify_operands(simplifier *s, kiln_expr e) {
    uint32_t count = s->p->expr.data[e].operand_count;
    kiln_expr operand[KILN_RANK_MAX];
    KILN_CHECK(count <= KILN_RANK_MAX);
    bool changed = false;
    for (uint32_t i = 0; i < count; i++) {
        kiln_expr old = kiln_expr_operand(s->p, e, i);
        operand[i] = simplify(s, old);
        changed |= operand[i] != old;
    }
    return changed ? kiln_expr_rebuild(s->p, e, operand, count) : e;
}

static kiln_expr simplify_sum(simplifier *s, kiln_expr e) {
    kiln_affine sum;
    return affine_of(s, e, &sum) ? kiln_affine_to_expr(s->p, &sum) : simplify_operands(s, e);
}

/* x*y where both vary: a term of its own, unless one side turns out constant. */
static kiln_expr simplify_product(simplifier *s, kiln_expr e) {
    kiln_expr a = simplify(s, kiln_expr_operand(s->p, e, 0));
    kiln_expr b = simplify(s, kiln_expr_operand(s->p, e, 1));
    kiln_expr product = kiln_expr_binary(s->p, KILN_EXPR_MUL, a, b);
    bool linear = op_of(s, product) == KILN_EXPR_MUL && kiln_expr_is_const(s->p, kiln_expr_operand(s->p, product, 1));
    return linear ? simplify_sum(s, product) : product;
}

static kiln_expr simplify_index_node(simplifier *s, kiln_expr e) {
    kiln_interval range;
    switch (op_of(s, e)) {
    case KILN_EXPR_VAR:
        range = kiln_bounds_of(&s->bounds, e);
        return range.low == range.high ? kiln_expr_index(s->p, range.low) : e;
    case KILN_EXPR_ADD:
    case KILN_EXPR_SUB:
    case KILN_EXPR_NEG: return simplify_sum(s, e);
    case KILN_EXPR_MUL:
        return kiln_expr_is_const(s->p, kiln_expr_operand(s->p, e, 1)) ? simplify_sum(s, e) : simplify_product(s, e);
    case KILN_EXPR_DIV:
    case KILN_EXPR_REM:
    case KILN_EXPR_FLOORDIV:
    case KILN_EXPR_FLOORMOD: return simplify_division(s, e);
    case KILN_EXPR_MIN:
    case KILN_EXPR_MAX: return simplify_extremum(s, e);
    case KILN_EXPR_SELECT: return simplify_select(s, e);
    default: return simplify_operands(s, e);
    }
}

static kiln_expr simplify_bool_node(simplifier *s, kiln_expr e) {
    switch (op_of(s, e)) {
    case KILN_EXPR_LT:
    case KILN_EXPR_LE:
    case KILN_EXPR_EQ:
    case KILN_EXPR_NE: return simplify_comparison(s, e);
    case KILN_EXPR_AND: return simplify_and(s, e);
    case KILN_EXPR_NOT: return simplify_not(s, e);
    case KILN_EXPR_SELECT: return simplify_select(s, e);
    default: return simplify_operands(s, e);
    }
}

static kiln_expr simplify(simplifier *s, kiln_expr e) {
    kiln_expr done = kiln_memo_find(s->memo, e);
    if (done) return done;
    if (dtype_of(s, e) == KILN_INDEX_DTYPE) {
        done = simplify_index_node(s, e);
    } else if (dtype_of(s, e) == KILN_BOOL) {
        done = simplify_bool_node(s, e);
    } else {
        done = op_of(s, e) == KILN_EXPR_SELECT ? simplify_select(s, e) : simplify_operands(s, e);
    }
    kiln_memo_put(s->p, s->memo, e, done);
    return done;
}

static void begin(simplifier *s, kiln_program *p, const kiln_interval *range) {
    s->p = p;
    s->memo = kiln_memo_begin(p);
    kiln_bounds_init(&s->bounds, p, range);
}

kiln_expr kiln_expr_simplify(kiln_program *p, kiln_expr e, const kiln_interval *range) {
    if (!e) return 0;
    simplifier s;
    begin(&s, p, range);
    kiln_expr done = simplify(&s, e);
    kiln_memo_end(p);
    return done;
}

bool kiln_affine_of(kiln_program *p, kiln_expr e, const kiln_interval *range, kiln_affine *out) {
    simplifier s;
    begin(&s, p, range);
    bool fits = affine_of(&s, e, out);
    kiln_memo_end(p);
    return fits;
}

bool kiln_expr_prove(kiln_program *p, kiln_expr condition, const kiln_interval *range) {
    int64_t known;
    return kiln_expr_as_int(p, kiln_expr_simplify(p, condition, range), &known) && known;
}

kiln_expr kiln_buffer_offset(kiln_program *p, kiln_buffer buffer, const kiln_expr *index, const kiln_interval *range) {
    const kiln_buffer_info *b = &p->buffer.data[buffer];
    kiln_shape physical = kiln_layout_physical(&b->layout, &b->shape);
    kiln_expr offset = kiln_expr_index(p, 0);
    for (uint32_t i = 0; i < physical.rank; i++) {
        kiln_layout_piece piece = {.dim = i, .divisor = 1};
        if (b->layout.piece_count) piece = b->layout.piece[i];
        kiln_expr at = index[piece.dim];
        if (piece.divisor > 1) at = kiln_expr_binary(p, KILN_EXPR_FLOORDIV, at, kiln_expr_index(p, piece.divisor));
        if (piece.modulus) at = kiln_expr_binary(p, KILN_EXPR_FLOORMOD, at, kiln_expr_index(p, piece.modulus));
        offset = kiln_expr_binary(p, KILN_EXPR_MUL, offset, kiln_expr_index(p, physical.dim[i]));
        offset = kiln_expr_binary(p, KILN_EXPR_ADD, offset, at);
    }
    return kiln_expr_simplify(p, offset, range);
}
