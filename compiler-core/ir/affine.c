/* Intervals and linear forms. Coefficients wrap like the arithmetic they describe; an interval is
 * used only when nothing in it overflowed, because then the wrapped and the true value are
 * equal. */
#include "compiler-core/ir/affine.h"

#include <string.h>

#include "base/macros.h"
#include "compiler-core/ir/bounds.h"
#include "compiler-core/ir/scalar.h"

static const kiln_interval unknown = {INT64_MIN, INT64_MAX};

/* ---- linear forms ---------------------------------------------------------------- */

void kiln_affine_clear(kiln_affine *a) {
    a->constant = 0;
    a->term_count = 0;
}

static void remove_term(kiln_affine *a, uint32_t at) {
    a->term_count--;
    for (uint32_t i = at; i < a->term_count; i++) {
        a->term[i] = a->term[i + 1];
        a->coefficient[i] = a->coefficient[i + 1];
    }
}

bool kiln_affine_add_term(kiln_affine *a, kiln_expr term, int64_t coefficient) {
    uint32_t at = 0;
    while (at < a->term_count && a->term[at] < term) at++;
    if (at < a->term_count && a->term[at] == term) {
        a->coefficient[at] = kiln_wrap_add(a->coefficient[at], coefficient);
        if (a->coefficient[at] == 0) remove_term(a, at);
        return true;
    }
    if (coefficient == 0) return true;
    if (a->term_count == KILN_AFFINE_TERMS_MAX) return false;
    for (uint32_t i = a->term_count++; i > at; i--) {
        a->term[i] = a->term[i - 1];
        a->coefficient[i] = a->coefficient[i - 1];
    }
    a->term[at] = term;
    a->coefficient[at] = coefficient;
    return true;
}

bool kiln_affine_add_affine(kiln_affine *a, const kiln_affine *b, int64_t scale) {
    a->constant = kiln_wrap_add(a->constant, kiln_wrap_mul(b->constant, scale));
    for (uint32_t i = 0; i < b->term_count; i++)
        if (!kiln_affine_add_term(a, b->term[i], kiln_wrap_mul(b->coefficient[i], scale)))
            return false;
    return true;
}

/* Summands that are still to be taken apart, by ascending id and each once. */
typedef struct summands {
    uint32_t count;
    kiln_expr e[2 * KILN_AFFINE_TERMS_MAX];
    int64_t scale[2 * KILN_AFFINE_TERMS_MAX];
} summands;

static bool push_summand(summands *s, kiln_expr e, int64_t scale) {
    uint32_t at = s->count;
    while (at > 0 && s->e[at - 1] > e) at--;
    if (at > 0 && s->e[at - 1] == e) {
        s->scale[at - 1] = kiln_wrap_add(s->scale[at - 1], scale);
        return true;
    }
    if (s->count == KILN_ARRAY_COUNT(s->e)) return false;
    for (uint32_t i = s->count++; i > at; i--) {
        s->e[i] = s->e[i - 1];
        s->scale[i] = s->scale[i - 1];
    }
    s->e[at] = e;
    s->scale[at] = scale;
    return true;
}

/* Operands have smaller ids than what uses them, so when the largest id is taken apart, all its
 * uses have been: a subexpression that is shared many times is visited once. */
bool kiln_affine_add(const kiln_program *p, kiln_affine *a, kiln_expr e, int64_t scale) {
    summands s;
    s.count = 0;
    (void)push_summand(&s, e, scale);
    while (s.count > 0) {
        e = s.e[--s.count];
        scale = s.scale[s.count];
        const kiln_expr_node *node = kiln_expr_get(p, e);
        bool fits = true;
        int64_t factor;
        switch ((kiln_expr_op)node->op) {
        case KILN_EXPR_INT:
            a->constant = kiln_wrap_add(a->constant, kiln_wrap_mul(node->payload.i, scale));
            break;
        case KILN_EXPR_ADD:
        case KILN_EXPR_SUB:
            fits = push_summand(&s, kiln_expr_operand(p, e, 0), scale) &&
                   push_summand(&s, kiln_expr_operand(p, e, 1),
                                node->op == KILN_EXPR_SUB ? kiln_wrap_sub(0, scale) : scale);
            break;
        case KILN_EXPR_NEG:
            fits = push_summand(&s, kiln_expr_operand(p, e, 0), kiln_wrap_sub(0, scale));
            break;
        case KILN_EXPR_MUL:
            if (kiln_expr_as_int(p, kiln_expr_operand(p, e, 1), &factor)) {
                fits = push_summand(&s, kiln_expr_operand(p, e, 0), kiln_wrap_mul(scale, factor));
                break;
            }
            fits = kiln_affine_add_term(a, e, scale);
            break;
        default: fits = kiln_affine_add_term(a, e, scale); break;
        }
        if (!fits) return false;
    }
    return true;
}

int64_t kiln_affine_coefficient(const kiln_program *p, const kiln_affine *affine, kiln_var var) {
    for (uint32_t i = 0; i < affine->term_count; i++) {
        const kiln_expr_node *node = kiln_expr_get(p, affine->term[i]);
        if (node->op == KILN_EXPR_VAR && node->payload.id == var) return affine->coefficient[i];
    }
    return 0;
}

static kiln_expr scaled(kiln_program *p, kiln_expr term, int64_t factor) {
    return kiln_expr_binary(p, KILN_EXPR_MUL, term, kiln_expr_index(p, factor));
}

/* Positive terms first, then what is subtracted, then the constant, so that text reads naturally.
 */
kiln_expr kiln_affine_to_expr(kiln_program *p, const kiln_affine *affine) {
    kiln_expr sum = 0;
    for (uint32_t i = 0; i < affine->term_count; i++) {
        if (affine->coefficient[i] < 0) continue;
        kiln_expr term = scaled(p, affine->term[i], affine->coefficient[i]);
        sum = sum ? kiln_expr_binary(p, KILN_EXPR_ADD, sum, term) : term;
    }
    kiln_expr constant = kiln_expr_index(p, affine->constant);
    bool constant_first = sum == 0;
    if (constant_first) sum = constant;
    for (uint32_t i = 0; i < affine->term_count; i++) {
        if (affine->coefficient[i] >= 0) continue;
        sum =
            kiln_expr_binary(p, KILN_EXPR_SUB, sum,
                             scaled(p, affine->term[i], kiln_wrap_sub(0, affine->coefficient[i])));
    }
    return constant_first ? sum : kiln_expr_binary(p, KILN_EXPR_ADD, sum, constant);
}

/* ---- interval arithmetic --------------------------------------------------------- */

bool kiln_interval_is_bounded(kiln_interval i) { return i.low != INT64_MIN && i.high != INT64_MAX; }

kiln_interval kiln_interval_add(kiln_interval a, kiln_interval b) {
    kiln_interval r;
    if (!kiln_interval_is_bounded(a) || !kiln_interval_is_bounded(b)) return unknown;
    if (__builtin_add_overflow(a.low, b.low, &r.low) ||
        __builtin_add_overflow(a.high, b.high, &r.high))
        return unknown;
    return r;
}

static kiln_interval interval_mul(kiln_interval a, kiln_interval b) {
    if (!kiln_interval_is_bounded(a) || !kiln_interval_is_bounded(b)) return unknown;
    const int64_t left[] = {a.low, a.low, a.high, a.high};
    const int64_t right[] = {b.low, b.high, b.low, b.high};
    kiln_interval r = {INT64_MAX, INT64_MIN};
    for (int i = 0; i < 4; i++) {
        int64_t product;
        if (__builtin_mul_overflow(left[i], right[i], &product)) return unknown;
        r.low = KILN_MIN(r.low, product);
        r.high = KILN_MAX(r.high, product);
    }
    return r;
}

kiln_interval kiln_interval_scale(kiln_interval a, int64_t factor) {
    kiln_interval r;
    if (!kiln_interval_is_bounded(a)) return unknown;
    if (__builtin_mul_overflow(factor < 0 ? a.high : a.low, factor, &r.low)) return unknown;
    if (__builtin_mul_overflow(factor < 0 ? a.low : a.high, factor, &r.high)) return unknown;
    return r;
}

static kiln_interval interval_union(kiln_interval a, kiln_interval b) {
    return (kiln_interval){KILN_MIN(a.low, b.low), KILN_MAX(a.high, b.high)};
}

/* Truncating or flooring division by a positive divisor is monotone in the dividend. */
static kiln_interval interval_divide(kiln_interval a, kiln_interval divisor, bool floors) {
    if (!kiln_interval_is_bounded(a) || !kiln_interval_is_bounded(divisor) || divisor.low <= 0)
        return unknown;
    const int64_t dividend[] = {a.low, a.low, a.high, a.high};
    const int64_t by[] = {divisor.low, divisor.high, divisor.low, divisor.high};
    kiln_interval r = {INT64_MAX, INT64_MIN};
    for (int i = 0; i < 4; i++) {
        int64_t q = floors ? kiln_floordiv(dividend[i], by[i]) : dividend[i] / by[i];
        r.low = KILN_MIN(r.low, q);
        r.high = KILN_MAX(r.high, q);
    }
    return r;
}

static kiln_interval interval_floormod(kiln_interval a, kiln_interval divisor) {
    if (divisor.low <= 0 || divisor.high == INT64_MAX) return unknown;
    bool one_period = divisor.low == divisor.high && kiln_interval_is_bounded(a) &&
                      kiln_floordiv(a.low, divisor.low) == kiln_floordiv(a.high, divisor.low);
    if (one_period)
        return (kiln_interval){kiln_floormod(a.low, divisor.low),
                               kiln_floormod(a.high, divisor.low)};
    if (a.low >= 0 && a.high < divisor.low) return a;
    return (kiln_interval){0, divisor.high - 1};
}

static kiln_interval interval_rem(kiln_interval a, kiln_interval divisor) {
    if (divisor.low <= 0 || divisor.high == INT64_MAX) return unknown;
    if (a.low >= 0) return interval_floormod(a, divisor);
    return (kiln_interval){1 - divisor.high, a.high <= 0 ? 0 : divisor.high - 1};
}

static kiln_interval interval_abs(kiln_interval a) {
    if (a.low == INT64_MIN) return unknown;
    if (a.low >= 0) return a;
    if (a.high <= 0) return (kiln_interval){-a.high, -a.low};
    return (kiln_interval){0, KILN_MAX(-a.low, a.high)};
}

/* Bits above the highest of both stay 0. */
static kiln_interval interval_xor(kiln_interval a, kiln_interval b) {
    if (a.low < 0 || b.low < 0) return unknown;
    int64_t bits = a.high | b.high;
    for (uint32_t shift = 1; shift < 64; shift *= 2) bits |= bits >> shift;
    return (kiln_interval){0, bits};
}

/* [0,0], [1,1] or [0,1]. */
static kiln_interval truth(bool never, bool always) { return (kiln_interval){always, !never}; }

static kiln_interval interval_compare(kiln_expr_op op, kiln_interval a, kiln_interval b) {
    switch (op) {
    case KILN_EXPR_LT: return truth(a.low >= b.high, a.high < b.low);
    case KILN_EXPR_LE: return truth(a.low > b.high, a.high <= b.low);
    case KILN_EXPR_EQ:
        return truth(a.low > b.high || a.high < b.low,
                     a.low == a.high && b.low == b.high && a.low == b.low);
    default:
        return truth(a.low == a.high && b.low == b.high && a.low == b.low,
                     a.low > b.high || a.high < b.low);
    }
}

static kiln_interval dtype_interval(kiln_dtype dtype) {
    kiln_dtype_kind kind = kiln_dtype_kind_of(dtype);
    if (kind == KILN_KIND_BOOL) return (kiln_interval){0, 1};
    if (kind == KILN_KIND_FLOAT || kiln_dtype_size(dtype) == 8) return unknown;
    int64_t values = INT64_C(1) << (8 * kiln_dtype_size(dtype));
    return kind == KILN_KIND_UINT ? (kiln_interval){0, values - 1}
                                  : (kiln_interval){-values / 2, values / 2 - 1};
}

/* ---- bounds of expressions ------------------------------------------------------- */

void kiln_bounds_init(kiln_bounds *b, const kiln_program *p, const kiln_interval *range) {
    b->p = p;
    b->range = range;
    memset(b->cached, 0, sizeof b->cached);
}

kiln_interval kiln_bounds_of_affine(kiln_bounds *b, const kiln_affine *a) {
    kiln_interval sum = {a->constant, a->constant};
    for (uint32_t i = 0; i < a->term_count; i++)
        sum = kiln_interval_add(
            sum, kiln_interval_scale(kiln_bounds_of(b, a->term[i]), a->coefficient[i]));
    return sum;
}

static kiln_interval bounds_of_cast(kiln_bounds *b, kiln_expr e) {
    kiln_dtype to = (kiln_dtype)kiln_expr_get(b->p, e)->dtype;
    kiln_expr from = kiln_expr_operand(b->p, e, 0);
    kiln_dtype from_dtype = (kiln_dtype)kiln_expr_get(b->p, from)->dtype;
    if (to != KILN_INDEX_DTYPE || from_dtype == KILN_U64 || kiln_dtype_is_float(from_dtype))
        return dtype_interval(to);
    return kiln_bounds_of(b, from);
}

/* i64 arithmetic and bool. Sums are taken as linear forms, so that x - x is 0 and bounds of
 * independent variables are exact. */
static kiln_interval bounds_of_node(kiln_bounds *b, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(b->p, e);
    kiln_dtype dtype = (kiln_dtype)node->dtype;
    kiln_interval v[3] = {unknown, unknown, unknown};
    kiln_affine sum;

    if (node->op == KILN_EXPR_INT && dtype != KILN_U64)
        return (kiln_interval){node->payload.i, node->payload.i};
    if (node->op == KILN_EXPR_CAST) return bounds_of_cast(b, e);
    if (node->op == KILN_EXPR_LOAD && b->p->buffer.data[node->payload.id].range.step) {
        const kiln_range *held = &b->p->buffer.data[node->payload.id].range;
        return (kiln_interval){held->low, held->high};
    }
    if (node->op == KILN_EXPR_LOAD || (dtype != KILN_INDEX_DTYPE && dtype != KILN_BOOL))
        return dtype_interval(dtype);
    if (node->op == KILN_EXPR_ADD || node->op == KILN_EXPR_SUB || node->op == KILN_EXPR_NEG ||
        (node->op == KILN_EXPR_MUL && kiln_expr_is_const(b->p, kiln_expr_operand(b->p, e, 1)))) {
        kiln_affine_clear(&sum);
        return kiln_affine_add(b->p, &sum, e, 1) ? kiln_bounds_of_affine(b, &sum) : unknown;
    }
    for (uint32_t i = 0; i < node->operand_count && i < 3; i++) {
        kiln_expr operand = kiln_expr_operand(b->p, e, i);
        if (kiln_expr_get(b->p, operand)->dtype != KILN_U64) v[i] = kiln_bounds_of(b, operand);
    }
    switch ((kiln_expr_op)node->op) {
    case KILN_EXPR_VAR:
        if (b->range) return b->range[node->payload.id];
        return (kiln_interval){b->p->var.data[node->payload.id].low,
                               b->p->var.data[node->payload.id].high};
    case KILN_EXPR_MUL: return interval_mul(v[0], v[1]);
    case KILN_EXPR_DIV: return interval_divide(v[0], v[1], false);
    case KILN_EXPR_FLOORDIV: return interval_divide(v[0], v[1], true);
    case KILN_EXPR_FLOORMOD: return interval_floormod(v[0], v[1]);
    case KILN_EXPR_REM: return interval_rem(v[0], v[1]);
    case KILN_EXPR_MIN:
        return (kiln_interval){KILN_MIN(v[0].low, v[1].low), KILN_MIN(v[0].high, v[1].high)};
    case KILN_EXPR_MAX:
        return (kiln_interval){KILN_MAX(v[0].low, v[1].low), KILN_MAX(v[0].high, v[1].high)};
    case KILN_EXPR_ABS: return interval_abs(v[0]);
    case KILN_EXPR_SELECT:
        return v[0].low == v[0].high ? v[v[0].low ? 1 : 2] : interval_union(v[1], v[2]);
    case KILN_EXPR_LT:
    case KILN_EXPR_LE:
    case KILN_EXPR_EQ:
    case KILN_EXPR_NE: return interval_compare((kiln_expr_op)node->op, v[0], v[1]);
    case KILN_EXPR_AND:
        if (dtype == KILN_BOOL)
            return (kiln_interval){v[0].low && v[1].low, v[0].high && v[1].high};
        return unknown;
    case KILN_EXPR_OR:
        if (dtype == KILN_BOOL)
            return (kiln_interval){v[0].low || v[1].low, v[0].high || v[1].high};
        return unknown;
    case KILN_EXPR_XOR:
        return dtype == KILN_BOOL ? (kiln_interval){0, 1} : interval_xor(v[0], v[1]);
    case KILN_EXPR_NOT:
        return dtype == KILN_BOOL ? (kiln_interval){!v[0].high, !v[0].low} : unknown;
    default: return dtype_interval(dtype);
    }
}

kiln_interval kiln_bounds_of(kiln_bounds *b, kiln_expr e) {
    uint32_t slot = e % KILN_BOUNDS_CACHE;
    if (b->cached[slot] == e) return b->interval[slot];
    kiln_interval found = bounds_of_node(b, e);
    b->cached[slot] = e;
    b->interval[slot] = found;
    return found;
}

kiln_interval kiln_expr_bounds(const kiln_program *p, kiln_expr e, const kiln_interval *range) {
    kiln_bounds b;
    kiln_bounds_init(&b, p, range);
    return kiln_bounds_of(&b, e);
}

/* ---- values ---------------------------------------------------------------------------------- */

#define VALUE_OPERANDS 2

static bool value_of_var(kiln_var var, const kiln_var_values *at, int64_t *out_value) {
    for (uint32_t i = 0; i < at->count; i++) {
        if (at->var[i] != var) continue;
        *out_value = at->value[i];
        return true;
    }
    return false;
}

bool kiln_expr_value(const kiln_program *p, kiln_expr e, const kiln_var_values *at,
                     int64_t *out_value) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    kiln_scalar operand[VALUE_OPERANDS];
    kiln_dtype from = (kiln_dtype)node->dtype;
    if (node->op == KILN_EXPR_VAR) return value_of_var(node->payload.id, at, out_value);
    if (kiln_expr_as_int(p, e, out_value)) return true;
    if (node->op == KILN_EXPR_LOAD || node->operand_count == 0 ||
        node->operand_count > VALUE_OPERANDS)
        return false;
    for (uint32_t i = 0; i < node->operand_count; i++) {
        const kiln_expr part = kiln_expr_operand(p, e, i);
        from = (kiln_dtype)kiln_expr_get(p, part)->dtype;
        if (kiln_dtype_is_float(from) || !kiln_expr_value(p, part, at, &operand[i].i)) return false;
    }
    if (kiln_dtype_is_float((kiln_dtype)node->dtype)) return false;
    *out_value =
        kiln_scalar_apply((kiln_expr_op)node->op, from, (kiln_dtype)node->dtype, operand).i;
    return true;
}
