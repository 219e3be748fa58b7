#include "compiler-core/facts/decode.h"

#include "compiler-core/ir/affine.h"

static bool knows(const kiln_decoding *d, kiln_expr e) {
    for (uint32_t i = 0; i < d->count; i++)
        if (d->known[i].e == e && d->known[i].slack == 0) return true;
    return false;
}

bool kiln_decoding_learn(kiln_decoding *d, kiln_expr e, uint64_t slack) {
    if (knows(d, e) || d->count == KILN_KNOWN_MAX) return false;
    d->known[d->count].e = e;
    d->known[d->count++].slack = slack;
    return true;
}

static bool learn(kiln_decoding *d, kiln_expr e) { return kiln_decoding_learn(d, e, 0); }

/* Cannot overflow: |INT64_MIN| has an unsigned form. */
static uint64_t magnitude(int64_t a) { return a < 0 ? 0 - (uint64_t)a : (uint64_t)a; }

/* A sum of known value determines its unknown varying terms if their strides are so far apart that
 * the value has only one decomposition (mixed radix). */
static bool decode_sum(kiln_program *p, kiln_decoding *d, kiln_expr e, uint64_t slack) {
    kiln_affine sum;
    if (!kiln_affine_of(p, e, NULL, &sum)) return false;
    uint32_t order[KILN_AFFINE_TERMS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < sum.term_count; i++) {
        if (knows(d, sum.term[i]) || !d->moves(p, sum.term[i], d->context)) continue;
        uint32_t at = count++;
        while (at > 0 &&
               magnitude(sum.coefficient[order[at - 1]]) > magnitude(sum.coefficient[i])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    uint64_t reach = slack, more;
    for (uint32_t i = 0; i < count; i++) {
        kiln_interval range = kiln_expr_bounds(p, sum.term[order[i]], NULL);
        uint64_t stride = magnitude(sum.coefficient[order[i]]);
        if (!kiln_interval_is_bounded(range)) return false;
        if (range.high > range.low && stride <= reach) return false;
        if (__builtin_mul_overflow(stride, (uint64_t)range.high - (uint64_t)range.low, &more) ||
            __builtin_add_overflow(reach, more, &reach) || reach > INT64_MAX)
            return false; /* the sum may wrap: two decompositions of one value */
    }
    bool learnt = false;
    for (uint32_t i = 0; i < count; i++) learnt |= learn(d, sum.term[order[i]]);
    return learnt;
}

/* floordiv(x, a) when `digit` is floormod(floordiv(x, a), b) and a*b is `product`; 0: it is not. */
static kiln_expr digit_above(kiln_program *p, kiln_expr digit, kiln_expr x, int64_t product) {
    if (kiln_expr_get(p, digit)->op != KILN_EXPR_FLOORMOD) return 0;
    kiln_expr quotient = kiln_expr_operand(p, digit, 0);
    if (kiln_expr_get(p, quotient)->op != KILN_EXPR_FLOORDIV) return 0;
    int64_t a, b, whole;
    bool fits = kiln_expr_operand(p, quotient, 0) == x &&
                kiln_expr_as_int(p, kiln_expr_operand(p, quotient, 1), &a) &&
                kiln_expr_as_int(p, kiln_expr_operand(p, digit, 1), &b) && b > 0 &&
                !__builtin_mul_overflow(a, b, &whole) && whole == product;
    return fits ? quotient : 0;
}

/* floordiv(x, a*b) and floormod(floordiv(x, a), b) together determine floordiv(x, a). */
static bool join_digits(kiln_program *p, kiln_decoding *d, kiln_expr x, int64_t product) {
    bool learnt = false;
    for (uint32_t i = 0; i < d->count; i++) {
        kiln_expr quotient = digit_above(p, d->known[i].e, x, product);
        learnt |= quotient && learn(d, quotient);
    }
    return learnt;
}

/* floordiv(x, c) and floormod(x, c) together determine x. */
static bool join_division(kiln_program *p, kiln_decoding *d, kiln_expr e) {
    if (kiln_expr_get(p, e)->op != KILN_EXPR_FLOORDIV) return false;
    kiln_expr x = kiln_expr_operand(p, e, 0), c = kiln_expr_operand(p, e, 1);
    int64_t divisor;
    if (kiln_expr_as_int(p, c, &divisor) && join_digits(p, d, x, divisor)) return true;
    kiln_expr rest = kiln_expr_simplify(p, kiln_expr_binary(p, KILN_EXPR_FLOORMOD, x, c), NULL);
    if (kiln_expr_is_const(p, rest)) return learn(d, x);
    if (knows(d, rest)) return learn(d, x);
    kiln_affine sum; /* a remainder that the simplifier split may be known by its terms */
    if (!kiln_affine_of(p, rest, NULL, &sum)) return false;
    for (uint32_t i = 0; i < sum.term_count; i++)
        if (!knows(d, sum.term[i])) return false;
    return learn(d, x);
}

/* A sum with a term floordiv(t, g) of coefficient 1 is itself a quotient: of g times all other
 * terms plus t. Multiplies `*a` by g; returns the dividend. */
static kiln_expr undivided(kiln_program *p, kiln_expr x, int64_t *a) {
    kiln_affine sum;
    if (!kiln_affine_of(p, x, NULL, &sum)) return x;
    for (uint32_t i = 0; i < sum.term_count; i++) {
        const kiln_expr term = sum.term[i];
        int64_t g, whole;
        if (kiln_expr_get(p, term)->op != KILN_EXPR_FLOORDIV || sum.coefficient[i] != 1 ||
            !kiln_expr_as_int(p, kiln_expr_operand(p, term, 1), &g) || g <= 0 ||
            __builtin_mul_overflow(*a, g, &whole))
            continue;
        const kiln_expr divided = kiln_expr_operand(p, term, 0);
        kiln_expr rest = kiln_expr_binary(p, KILN_EXPR_SUB, x, term);
        rest = kiln_expr_binary(p, KILN_EXPR_MUL, rest, kiln_expr_index(p, g));
        rest = kiln_expr_simplify(p, kiln_expr_binary(p, KILN_EXPR_ADD, rest, divided), NULL);
        if (!kiln_interval_is_bounded(kiln_expr_bounds(p, rest, NULL))) continue;
        *a = whole;
        return rest;
    }
    return x;
}

static bool knows_value(kiln_program *p, const kiln_decoding *d, kiln_expr e) {
    kiln_affine sum;
    if (kiln_expr_is_const(p, e) || knows(d, e)) return true;
    if (!kiln_affine_of(p, e, NULL, &sum)) return false;
    for (uint32_t i = 0; i < sum.term_count; i++)
        if (!knows(d, sum.term[i])) return false;
    return true;
}

/* floormod(q, b) and floordiv(q, b), in any form of the simplifier, determine q. */
static bool join_digit(kiln_program *p, kiln_decoding *d, kiln_expr e) {
    int64_t a = 1, b, whole;
    if (kiln_expr_get(p, e)->op != KILN_EXPR_FLOORMOD ||
        !kiln_expr_as_int(p, kiln_expr_operand(p, e, 1), &b) || b <= 0)
        return false;
    const kiln_expr q = kiln_expr_operand(p, e, 0);
    kiln_expr x = q;
    if (kiln_expr_get(p, q)->op == KILN_EXPR_FLOORDIV &&
        kiln_expr_as_int(p, kiln_expr_operand(p, q, 1), &a))
        x = kiln_expr_operand(p, q, 0);
    if (a <= 0 || knows(d, q)) return false;
    const kiln_expr y = undivided(p, x, &a);
    if (__builtin_mul_overflow(a, b, &whole)) return false;
    const kiln_expr above = kiln_expr_binary(p, KILN_EXPR_FLOORDIV, y, kiln_expr_index(p, whole));
    if (!knows(d, above) && !knows_value(p, d, kiln_expr_simplify(p, above, NULL))) return false;
    const kiln_expr same = kiln_expr_binary(p, KILN_EXPR_FLOORDIV, y, kiln_expr_index(p, a));
    bool learnt = learn(d, q);
    learnt |= learn(d, same);
    learnt |= learn(d, kiln_expr_simplify(p, same, NULL));
    return learnt;
}

bool kiln_decoding_determines(kiln_program *p, kiln_decoding *d, kiln_expr wanted) {
    for (bool learnt = true; learnt && !knows(d, wanted);) {
        learnt = false;
        for (uint32_t i = 0; i < d->count; i++) {
            uint64_t slack = d->known[i].slack;
            learnt |= decode_sum(p, d, d->known[i].e, slack) ||
                      (slack == 0 &&
                       (join_division(p, d, d->known[i].e) || join_digit(p, d, d->known[i].e)));
        }
    }
    return knows(d, wanted);
}
