/* Quasi-affine simplification: sums as linear forms (linear.h does their division), comparisons
 * decided or reduced, conjunctions cleaned, minima and selections resolved. */
#include "base/check.h"
#include "compiler-core/ir/linear.h"
#include "compiler-core/ir/memo.h"

#define CONJUNCTS_MAX 64

typedef struct simplifier {
    kiln_program *p;
    kiln_expr_memo *memo;
    kiln_linear linear;
} simplifier;

static kiln_expr simplify(simplifier *s, kiln_expr e);

static kiln_expr_op op_of(const simplifier *s, kiln_expr e) {
    return (kiln_expr_op)s->p->expr.data[e].op;
}
static kiln_dtype dtype_of(const simplifier *s, kiln_expr e) {
    return (kiln_dtype)s->p->expr.data[e].dtype;
}

/* ---- sums and division ----------------------------------------------------------- */

#define VISITS_MAX 256 /* of a sum's parts, one by one: far more than sums without sharing have */
#define SEEN_SLOTS 128

/* The sum below an expression on its way into a linear form. */
typedef struct collection {
    kiln_affine *out;
    uint32_t visits;
    const kiln_affine *raw;     /* NULL, or the whole sum as a form over its unsimplified parts */
    kiln_expr seen[SEEN_SLOTS]; /* with `raw`: nodes that were visited, by id modulo the size */
    bool taken[KILN_AFFINE_TERMS_MAX]; /* with `raw`: its terms that are in `out` */
} collection;

/* Splits a sum into its parts and simplifies each part on its own, from left to right. False when
 * terms or visits run out. */
static bool collect(simplifier *s, collection *c, kiln_expr e, int64_t scale) {
    kiln_expr_op op = op_of(s, e);
    int64_t factor;
    if (c->raw && c->seen[e % SEEN_SLOTS] == e) return true;
    if (c->raw) c->seen[e % SEEN_SLOTS] = e;
    if (!c->raw && c->visits++ == VISITS_MAX) return false;
    if (op == KILN_EXPR_ADD || op == KILN_EXPR_SUB) {
        int64_t right = op == KILN_EXPR_SUB ? kiln_wrap_sub(0, scale) : scale;
        return collect(s, c, kiln_expr_operand(s->p, e, 0), scale) &&
               collect(s, c, kiln_expr_operand(s->p, e, 1), right);
    }
    if (op == KILN_EXPR_NEG)
        return collect(s, c, kiln_expr_operand(s->p, e, 0), kiln_wrap_sub(0, scale));
    if (op == KILN_EXPR_MUL && kiln_expr_as_int(s->p, kiln_expr_operand(s->p, e, 1), &factor))
        return collect(s, c, kiln_expr_operand(s->p, e, 0), kiln_wrap_mul(scale, factor));
    kiln_expr simplified = simplify(s, e);
    if (!c->raw) return kiln_affine_add(s->p, c->out, simplified, scale);
    for (uint32_t i = 0; i < c->raw->term_count; i++) {
        if (c->raw->term[i] != e || c->taken[i]) continue;
        c->taken[i] = true;
        return kiln_affine_add(s->p, c->out, simplified, c->raw->coefficient[i]);
    }
    return true; /* it cancels out, or is part of the constant */
}

/* A sum with parts that are shared again and again: its coefficients first, then each part once. */
static bool collect_shared(simplifier *s, kiln_affine *out, kiln_expr e) {
    kiln_affine raw;
    collection c = {.out = out, .raw = &raw};
    kiln_affine_clear(&raw);
    if (!kiln_affine_add(s->p, &raw, e, 1)) return false;
    kiln_affine_clear(out);
    out->constant = raw.constant;
    return collect(s, &c, e, 1);
}

/* The linear form of e with simplified terms. */
static bool affine_of(simplifier *s, kiln_expr e, kiln_affine *out) {
    collection c;
    c.out = out;
    c.raw = NULL;
    c.visits = 0;
    kiln_affine_clear(out);
    if (!collect(s, &c, e, 1) && (c.visits <= VISITS_MAX || !collect_shared(s, out, e)))
        return false;
    kiln_linear_recombine(&s->linear, out);
    return true;
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
    bool applies = kiln_expr_as_int(s->p, b, &divisor) && divisor > 0 &&
                   kiln_affine_add(s->p, &sum, a, 1) &&
                   (!truncates || kiln_bounds_of(&s->linear.bounds, a).low >= 0);
    if (!applies) return kiln_expr_binary(s->p, op, a, b);
    return quotient ? kiln_linear_floordiv(&s->linear, &sum, divisor)
                    : kiln_linear_floormod(&s->linear, &sum, divisor);
}

/* ---- comparisons ----------------------------------------------------------------- */

/* Both sides and their difference, when all are bounded: then the difference's sign is the
 * comparison. */
static bool difference(simplifier *s, kiln_expr a, kiln_expr b, kiln_affine *out) {
    if (!kiln_interval_is_bounded(kiln_bounds_of(&s->linear.bounds, a))) return false;
    if (!kiln_interval_is_bounded(kiln_bounds_of(&s->linear.bounds, b))) return false;
    kiln_affine_clear(out);
    if (!kiln_affine_add(s->p, out, a, 1) || !kiln_affine_add(s->p, out, b, -1)) return false;
    kiln_linear_recombine(&s->linear, out);
    return kiln_interval_is_bounded(kiln_bounds_of_affine(&s->linear.bounds, out));
}

/* Writes difference `op` 0 with positive terms on the left and the constant on the right; where
 * there is no positive term, the constant stands on the left. */
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
    return kiln_expr_binary(s->p, out_op, kiln_affine_to_expr(s->p, &positive),
                            kiln_affine_to_expr(s->p, &negative));
}

/* d < 0. */
static kiln_expr emit_negative(simplifier *s, kiln_affine *d) {
    kiln_interval range = kiln_bounds_of_affine(&s->linear.bounds, d);
    if (range.high < 0) return kiln_expr_int(s->p, KILN_BOOL, 1);
    if (range.low >= 0) return kiln_expr_int(s->p, KILN_BOOL, 0);
    kiln_split part;
    while (kiln_linear_split(&s->linear, d, 0, &part))
        *d = part.quotient; /* f*q + r < 0 is q < 0 */
    return emit_comparison(s, KILN_EXPR_LT, d);
}

/* Greatest common divisor of all coefficients; 0 without terms. */
static int64_t common_factor(const kiln_affine *a) {
    int64_t g = 0;
    for (uint32_t i = 0; i < a->term_count; i++) {
        if (a->coefficient[i] == INT64_MIN) return 1;
        g = kiln_gcd(g, a->coefficient[i]);
    }
    return g;
}

/* d == 0 or d != 0. */
static kiln_expr emit_equality(simplifier *s, kiln_expr_op op, kiln_affine *d) {
    kiln_interval range = kiln_bounds_of_affine(&s->linear.bounds, d);
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
    if (dtype_of(s, a) != KILN_INDEX_DTYPE || !difference(s, a, b, &d))
        return kiln_expr_binary(s->p, op, a, b);
    if (op == KILN_EXPR_EQ || op == KILN_EXPR_NE) return emit_equality(s, op, &d);
    d.constant -= op == KILN_EXPR_LE; /* a <= b is a - b - 1 < 0 */
    return emit_negative(s, &d);
}

/* ---- conditions ------------------------------------------------------------------ */

typedef struct conjunction {
    kiln_expr item[CONJUNCTS_MAX];
    uint32_t count;
    bool is_false, overflow;
} conjunction;

/* x < c, or c <= x, of the same x: the tighter one is enough. */
static bool merge_bound(simplifier *s, kiln_expr *kept, kiln_expr added) {
    kiln_expr_op op = op_of(s, added);
    if ((op != KILN_EXPR_LT && op != KILN_EXPR_LE) || op_of(s, *kept) != op) return false;
    uint32_t at = op == KILN_EXPR_LT; /* the constant's operand */
    int64_t old;
    int64_t new;
    if (kiln_expr_operand(s->p, *kept, 1 - at) != kiln_expr_operand(s->p, added, 1 - at))
        return false;
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
    for (uint32_t i = 0; i < c.count; i++)
        all = kiln_expr_binary(s->p, KILN_EXPR_AND, all, c.item[i]);
    return all;
}

/* not(a < b) is b <= a, and so on; of integers only, because of NaN. */
static kiln_expr simplify_not(simplifier *s, kiln_expr e) {
    kiln_expr inner = simplify(s, kiln_expr_operand(s->p, e, 0));
    kiln_expr_op op = op_of(s, inner);
    bool turns =
        op == KILN_EXPR_LT || op == KILN_EXPR_LE || op == KILN_EXPR_EQ || op == KILN_EXPR_NE;
    if (!turns || dtype_of(s, kiln_expr_operand(s->p, inner, 0)) != KILN_INDEX_DTYPE)
        return kiln_expr_unary(s->p, KILN_EXPR_NOT, inner);
    kiln_expr a = kiln_expr_operand(s->p, inner, 0);
    kiln_expr b = kiln_expr_operand(s->p, inner, 1);
    if (op == KILN_EXPR_EQ) return kiln_expr_binary(s->p, KILN_EXPR_NE, a, b);
    if (op == KILN_EXPR_NE) return kiln_expr_binary(s->p, KILN_EXPR_EQ, a, b);
    return simplify(s,
                    kiln_expr_binary(s->p, op == KILN_EXPR_LT ? KILN_EXPR_LE : KILN_EXPR_LT, b, a));
}

/* ---- everything ------------------------------------------------------------------ */

static kiln_expr simplify_extremum(simplifier *s, kiln_expr e) {
    kiln_expr a = simplify(s, kiln_expr_operand(s->p, e, 0));
    kiln_expr b = simplify(s, kiln_expr_operand(s->p, e, 1));
    bool is_min = op_of(s, e) == KILN_EXPR_MIN;
    kiln_affine d;
    if (difference(s, a, b, &d)) {
        kiln_interval range = kiln_bounds_of_affine(&s->linear.bounds, &d);
        if (range.high <= 0) return is_min ? a : b;
        if (range.low >= 0) return is_min ? b : a;
    }
    return kiln_expr_binary(s->p, is_min ? KILN_EXPR_MIN : KILN_EXPR_MAX, a, b);
}

static kiln_expr simplify_select(simplifier *s, kiln_expr e) {
    kiln_expr condition = simplify(s, kiln_expr_operand(s->p, e, 0));
    int64_t known;
    if (kiln_expr_as_int(s->p, condition, &known))
        return simplify(s, kiln_expr_operand(s->p, e, known ? 1 : 2));
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
    bool linear = op_of(s, product) == KILN_EXPR_MUL &&
                  kiln_expr_is_const(s->p, kiln_expr_operand(s->p, product, 1));
    return linear ? simplify_sum(s, product) : product;
}

static kiln_expr simplify_index_node(simplifier *s, kiln_expr e) {
    kiln_interval range;
    switch (op_of(s, e)) {
    case KILN_EXPR_VAR:
        range = kiln_bounds_of(&s->linear.bounds, e);
        return range.low == range.high ? kiln_expr_index(s->p, range.low) : e;
    case KILN_EXPR_ADD:
    case KILN_EXPR_SUB:
    case KILN_EXPR_NEG: return simplify_sum(s, e);
    case KILN_EXPR_MUL:
        return kiln_expr_is_const(s->p, kiln_expr_operand(s->p, e, 1)) ? simplify_sum(s, e)
                                                                       : simplify_product(s, e);
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

/* With the variables' own ranges, results stay valid after this walk. */
static void begin(simplifier *s, kiln_program *p, const kiln_interval *range) {
    s->p = s->linear.p = p;
    s->memo = range ? kiln_memo_begin(p) : &p->simplified;
    kiln_bounds_init(&s->linear.bounds, p, range);
}

kiln_expr kiln_expr_simplify(kiln_program *p, kiln_expr e, const kiln_interval *range) {
    if (!e) return 0;
    kiln_expr known = range ? 0 : kiln_memo_find(&p->simplified, e);
    if (known) return known;
    simplifier s;
    begin(&s, p, range);
    kiln_expr done = simplify(&s, e);
    if (range) kiln_memo_end(p);
    return done;
}

bool kiln_affine_of(kiln_program *p, kiln_expr e, const kiln_interval *range, kiln_affine *out) {
    simplifier s;
    begin(&s, p, range);
    bool fits = affine_of(&s, e, out);
    if (range) kiln_memo_end(p);
    return fits;
}

bool kiln_expr_prove(kiln_program *p, kiln_expr condition) {
    int64_t known;
    return kiln_expr_as_int(p, kiln_expr_simplify(p, condition, NULL), &known) && known;
}

kiln_expr kiln_buffer_offset(kiln_program *p, kiln_buffer buffer, const kiln_expr *index) {
    const kiln_buffer_info *b = &p->buffer.data[buffer];
    kiln_shape physical = kiln_layout_physical(&b->layout, &b->shape);
    kiln_expr offset = kiln_expr_index(p, 0);
    for (uint32_t i = 0; i < physical.rank; i++) {
        kiln_layout_piece piece = {.dim = i, .divisor = 1};
        if (b->layout.piece_count) piece = b->layout.piece[i];
        kiln_expr at = index[piece.dim];
        if (piece.divisor > 1)
            at = kiln_expr_binary(p, KILN_EXPR_FLOORDIV, at, kiln_expr_index(p, piece.divisor));
        if (piece.modulus)
            at = kiln_expr_binary(p, KILN_EXPR_FLOORMOD, at, kiln_expr_index(p, piece.modulus));
        if (piece.xor_modulus) {
            kiln_expr by = kiln_expr_binary(p, KILN_EXPR_FLOORDIV, index[piece.xor_dim],
                                            kiln_expr_index(p, piece.xor_divisor));
            by = kiln_expr_binary(p, KILN_EXPR_FLOORMOD, by, kiln_expr_index(p, piece.xor_modulus));
            at = kiln_expr_binary(p, KILN_EXPR_XOR, at, by);
        }
        offset = kiln_expr_binary(p, KILN_EXPR_MUL, offset, kiln_expr_index(p, physical.dim[i]));
        offset = kiln_expr_binary(p, KILN_EXPR_ADD, offset, at);
    }
    return kiln_expr_simplify(p, offset, NULL);
}
