/* Values of expressions: dispatch by operator, integer semantics of exprs.def, lane conditions,
 * selects. */
#include <math.h>

#include "base/check.h"
#include "compiler-core/codegen/walk.h"

/* ---- control --------------------------------------------------------------------------------- */

/* Builds one side; drops the values known only there. */
static kiln_ssa build_side(kiln_walk *w, kiln_walk_side side, void *context) {
    uint32_t mark = kiln_walk_table_mark(&w->loads), stamp = w->stamp;
    w->stamp = ++w->last_stamp;
    kiln_ssa v = side(w, context);
    w->stamp = stamp;
    kiln_walk_table_pop(&w->loads, mark);
    return v;
}

/* One side may be uniform and the other have lanes: the scalar is widened. */
static void widen_sides(kiln_walk *w, kiln_branch_handle branch, kiln_ssa value[2]) {
    bool vector[2] = {kiln_walk_is_vector(w, value[0]), kiln_walk_is_vector(w, value[1])};
    if (vector[0] == vector[1]) return;
    uint32_t narrow = vector[0] ? 1 : 0, mark = kiln_walk_table_mark(&w->loads);
    void *here = narrow == 0 ? w->b->ops->branch_enter_then(w->b, branch) : NULL;
    value[narrow] = kiln_walk_splat(w, value[narrow], w->lanes);
    if (narrow == 0) w->b->ops->leave(w->b, here);
    kiln_walk_table_pop(&w->loads, mark);
}

kiln_ssa kiln_walk_branch(kiln_walk *w, kiln_ssa condition, kiln_walk_side then_side,
                          kiln_walk_side else_side, void *context) {
    kiln_branch_handle branch = w->b->ops->branch_begin(w->b, condition, else_side != NULL);
    kiln_ssa value[2] = {build_side(w, then_side, context), NULL};
    if (else_side) {
        w->b->ops->branch_else(w->b, branch);
        value[1] = build_side(w, else_side, context);
        if (value[0]) widen_sides(w, branch, value);
    }
    w->b->ops->branch_end(w->b, branch);
    return value[0] && value[1] ? w->b->ops->branch_join(w->b, branch, value[0], value[1]) : NULL;
}

typedef struct safety {
    kiln_walk *w;
    bool is_safe;
} safety;

static void look_at_load(kiln_program *p, kiln_expr load, void *context) {
    safety *s = context;
    (void)p;
    s->is_safe = s->is_safe && kiln_walk_load_is_safe(s->w, load);
}

/* Whether evaluating `expr` reads no memory outside its buffers. */
static bool is_safe(kiln_walk *w, kiln_expr expr) {
    safety s = {w, true};
    kiln_expr_visit_loads(w->p, expr, 0, look_at_load, &s);
    return s.is_safe;
}

static kiln_ssa first_side(kiln_walk *w, void *context) {
    return kiln_walk_expr(w, ((kiln_expr *)context)[0]);
}
static kiln_ssa second_side(kiln_walk *w, void *context) {
    return kiln_walk_expr(w, ((kiln_expr *)context)[1]);
}

/* Evaluates one side of a select for the lanes in `lanes_mask` only. */
static kiln_ssa masked_side(kiln_walk *w, kiln_expr side, kiln_ssa lanes_mask) {
    if (is_safe(w, side)) return kiln_walk_expr(w, side);
    kiln_ssa outer = w->mask;
    uint32_t stamp = w->stamp;
    w->mask = outer ? kiln_walk_compute(w, KILN_BUILD_AND, outer, lanes_mask) : lanes_mask;
    w->stamp = ++w->last_stamp; /* values of masked loads are for this mask only */
    kiln_ssa v = kiln_walk_expr(w, side);
    w->stamp = stamp;
    w->mask = outer;
    return v;
}

/* Joins several conditions with the same other value, so that threads take one branch. */
static kiln_ssa join_conditions(kiln_walk *w, kiln_ssa condition, kiln_expr side[2]) {
    while (w->target->gpu && !kiln_walk_is_vector(w, condition) &&
           kiln_expr_get(w->p, side[0])->op == KILN_EXPR_SELECT &&
           kiln_expr_operand(w->p, side[0], 2) == side[1] &&
           is_safe(w, kiln_expr_operand(w->p, side[0], 0))) {
        const kiln_ssa inner = kiln_walk_expr(w, kiln_expr_operand(w->p, side[0], 0));
        if (kiln_walk_is_vector(w, inner)) break;
        condition = kiln_walk_compute(w, KILN_BUILD_AND, condition, inner);
        side[0] = kiln_expr_operand(w->p, side[0], 1);
    }
    return condition;
}

static kiln_ssa build_select(kiln_walk *w, kiln_expr expr) {
    kiln_expr side[2] = {kiln_expr_operand(w->p, expr, 1), kiln_expr_operand(w->p, expr, 2)};
    kiln_ssa condition = kiln_walk_expr(w, kiln_expr_operand(w->p, expr, 0));
    int64_t known;
    if (w->b->ops->known_integer(w->b, condition, &known))
        return kiln_walk_expr(w, side[known ? 0 : 1]);

    condition = join_conditions(w, condition, side);
    kiln_ssa a, b;
    if (kiln_walk_is_vector(w, condition)) {
        a = masked_side(w, side[0], condition);
        b = masked_side(w, side[1], kiln_walk_not(w, condition));
        a = kiln_walk_splat(w, a, w->lanes);
        b = kiln_walk_splat(w, b, w->lanes);
    } else if (is_safe(w, side[0]) && is_safe(w, side[1])) {
        a = kiln_walk_expr(w, side[0]);
        b = kiln_walk_expr(w, side[1]);
        kiln_walk_match(w, &a, &b);
    } else {
        return kiln_walk_branch(w, condition, first_side, second_side, side);
    }
    return kiln_walk_select(w, condition, a, b);
}

/* ---- integers -------------------------------------------------------------------------------- */

static kiln_ssa op2(kiln_walk *w, kiln_build_op what, kiln_ssa a, kiln_ssa b) {
    return kiln_walk_compute(w, what, a, b);
}

static kiln_ssa select_zero(kiln_walk *w, kiln_ssa is_zero, kiln_ssa v) {
    return kiln_walk_select(w, is_zero, kiln_walk_integer(w, v, 0), v);
}

/* Quotient and remainder towards zero; x / 0 = x rem 0 = 0, and the lowest value / -1 wraps. */
static void divide(kiln_walk *w, bool is_signed, kiln_ssa a, kiln_ssa b, kiln_ssa *quotient,
                   kiln_ssa *remainder) {
    kiln_ssa one = kiln_walk_integer(w, b, 1), minus = kiln_walk_integer(w, b, -1);
    kiln_ssa is_zero = op2(w, KILN_BUILD_EQ, b, kiln_walk_integer(w, b, 0));
    kiln_ssa is_minus = op2(w, KILN_BUILD_EQ, b, minus);
    kiln_ssa odd = is_signed ? op2(w, KILN_BUILD_OR, is_zero, is_minus) : is_zero;
    kiln_ssa divisor = kiln_walk_select(w, odd, one, b);
    kiln_ssa q = op2(w, is_signed ? KILN_BUILD_SDIV : KILN_BUILD_UDIV, a, divisor);
    kiln_ssa r = op2(w, is_signed ? KILN_BUILD_SREM : KILN_BUILD_UREM, a, divisor);
    if (is_signed) q = kiln_walk_select(w, is_minus, kiln_walk_negated(w, a), q);
    *quotient = select_zero(w, is_zero, q);
    *remainder = r; /* both special divisors use x rem 1 = 0 */
}

/* Whether indices are computed in 32 bits, because registers have 32 bits. */
static bool fits_word(const kiln_walk *w, kiln_interval bounds) {
    return w->target->word_bytes < sizeof(int64_t) && bounds.low >= INT32_MIN &&
           bounds.high <= INT32_MAX;
}

static bool is_power_of_2(int64_t value) { return (value & (value - 1)) == 0; }

/* Division by a positive constant; the dividend is often known not to be negative. */
static kiln_ssa divide_by_constant(kiln_walk *w, bool quotient, kiln_ssa a, int64_t divisor,
                                   bool is_negative) {
    if (is_power_of_2(divisor)) {
        kiln_ssa bits =
            kiln_walk_integer(w, a, quotient ? __builtin_ctzll((uint64_t)divisor) : divisor - 1);
        return op2(w, quotient ? KILN_BUILD_ASHR : KILN_BUILD_AND, a, bits);
    }
    kiln_ssa b = kiln_walk_integer(w, a, divisor);
    if (!is_negative) return op2(w, quotient ? KILN_BUILD_UDIV : KILN_BUILD_UREM, a, b);
    kiln_ssa r = op2(w, KILN_BUILD_SREM, a, b);
    kiln_ssa negative = op2(w, KILN_BUILD_SLT, r, kiln_walk_integer(w, r, 0));
    if (!quotient) return kiln_walk_select(w, negative, op2(w, KILN_BUILD_ADD, r, b), r);
    kiln_ssa q = op2(w, KILN_BUILD_SDIV, a, b);
    return op2(w, KILN_BUILD_ADD, q,
               kiln_walk_convert(w, KILN_CONVERT_SIGNED, negative, kiln_walk_type(w, q).scalar));
}

/* Division of indices. Devices with groups of threads use ordinary shifts. */
static kiln_ssa index_divide(kiln_walk *w, kiln_expr expr, kiln_ssa a, int64_t divisor) {
    const bool quotient = kiln_expr_get(w->p, expr)->op == KILN_EXPR_FLOORDIV;
    const kiln_interval bounds = kiln_expr_bounds(w->p, kiln_expr_operand(w->p, expr, 0), NULL);
    const bool is_negative = bounds.low < 0;
    const bool is_short =
        fits_word(w, bounds) && divisor <= INT32_MAX &&
        (w->target->group_threads == 0 || !(is_negative || is_power_of_2(divisor)));
    if (!is_short) return divide_by_constant(w, quotient, a, divisor, is_negative);
    a = kiln_walk_convert(w, KILN_CONVERT_SIGNED, a, KILN_SSA_I32);
    a = divide_by_constant(w, quotient, a, divisor, is_negative);
    return kiln_walk_convert(w, is_negative ? KILN_CONVERT_SIGNED : KILN_CONVERT_UNSIGNED, a,
                             KILN_SSA_I64);
}

static kiln_ssa integer_divide(kiln_walk *w, kiln_expr expr, bool is_signed, kiln_ssa a,
                               kiln_ssa b) {
    const kiln_expr_node *node = kiln_expr_get(w->p, expr);
    bool floors = node->op == KILN_EXPR_FLOORDIV || node->op == KILN_EXPR_FLOORMOD;
    int64_t divisor;
    if (floors && node->dtype == KILN_INDEX_DTYPE &&
        kiln_expr_as_int(w->p, kiln_expr_operand(w->p, expr, 1), &divisor) && divisor > 0)
        return index_divide(w, expr, a, divisor);

    kiln_ssa q, r;
    divide(w, is_signed, a, b, &q, &r);
    if (floors && is_signed) {
        kiln_ssa zero = kiln_walk_integer(w, a, 0);
        kiln_ssa differ = op2(w, KILN_BUILD_SLT, op2(w, KILN_BUILD_XOR, a, b), zero);
        kiln_ssa inexact = op2(w, KILN_BUILD_NE, r, zero);
        kiln_ssa adjust = op2(w, KILN_BUILD_AND, differ, inexact);
        kiln_ssa_scalar scalar = kiln_walk_type(w, a).scalar;
        q = op2(w, KILN_BUILD_ADD, q, kiln_walk_convert(w, KILN_CONVERT_SIGNED, adjust, scalar));
        r = kiln_walk_select(w, adjust, op2(w, KILN_BUILD_ADD, r, b), r);
    }
    return node->op == KILN_EXPR_DIV || node->op == KILN_EXPR_FLOORDIV ? q : r;
}

/* As unsigned numbers, negative amounts exceed the width. */
static kiln_ssa integer_shift(kiln_walk *w, kiln_expr_op op, bool is_signed, kiln_ssa a,
                              kiln_ssa amount) {
    uint32_t width = kiln_ssa_scalar_bits(kiln_walk_type(w, a).scalar);
    kiln_ssa too_far = op2(w, KILN_BUILD_UGE, amount, kiln_walk_integer(w, a, width));
    kiln_build_op what = op == KILN_EXPR_SHL ? KILN_BUILD_SHL
                         : is_signed         ? KILN_BUILD_ASHR
                                             : KILN_BUILD_LSHR;
    return select_zero(w, too_far, op2(w, what, a, amount));
}

/* Square and multiply over all bits of the exponent. A negative exponent gives 0, except for bases
 * 1 and -1. */
static kiln_ssa integer_pow(kiln_walk *w, bool is_signed, kiln_ssa base, kiln_ssa exponent) {
    kiln_ssa one = kiln_walk_integer(w, base, 1), minus = kiln_walk_integer(w, base, -1),
             zero = kiln_walk_integer(w, base, 0);
    kiln_ssa odd = op2(w, KILN_BUILD_NE, op2(w, KILN_BUILD_AND, exponent, one), zero);
    kiln_ssa is_negative = op2(w, KILN_BUILD_SLT, exponent, zero);
    kiln_ssa is_one = op2(w, KILN_BUILD_EQ, base, one);
    kiln_ssa is_minus = op2(w, KILN_BUILD_EQ, base, minus);

    kiln_ssa result = one, square = base, bits = exponent;
    for (uint32_t i = 0; i < kiln_ssa_scalar_bits(kiln_walk_type(w, base).scalar); i++) {
        kiln_ssa set = op2(w, KILN_BUILD_NE, op2(w, KILN_BUILD_AND, bits, one), zero);
        result = kiln_walk_select(w, set, op2(w, KILN_BUILD_MUL, result, square), result);
        square = op2(w, KILN_BUILD_MUL, square, square);
        bits = op2(w, KILN_BUILD_LSHR, bits, one);
    }
    if (!is_signed) return result;
    kiln_ssa unit = kiln_walk_select(w, odd, minus, one);
    kiln_ssa inverse = kiln_walk_select(w, is_minus, unit, zero);
    inverse = kiln_walk_select(w, is_one, one, inverse);
    return kiln_walk_select(w, is_negative, inverse, result);
}

/* Adds neighbouring bits, neighbouring pairs, and so on up to bytes, which a product sums up in the
 * highest byte. */
static kiln_ssa count_ones(kiln_walk *w, kiln_ssa v) {
    if (w->b->ops->count_ones) return w->b->ops->count_ones(w->b, v);
    const uint32_t width = kiln_ssa_scalar_bits(kiln_walk_type(w, v).scalar);
    static const uint64_t mask[] = {UINT64_C(0x5555555555555555), UINT64_C(0x3333333333333333),
                                    UINT64_C(0x0f0f0f0f0f0f0f0f)};
    for (uint32_t i = 0; i < 3; i++) {
        kiln_ssa part = kiln_walk_integer(w, v, (int64_t)mask[i]);
        kiln_ssa other = op2(w, KILN_BUILD_LSHR, v, kiln_walk_integer(w, v, 1 << i));
        v = op2(w, KILN_BUILD_ADD, op2(w, KILN_BUILD_AND, v, part),
                op2(w, KILN_BUILD_AND, other, part));
    }
    v = op2(w, KILN_BUILD_MUL, v, kiln_walk_integer(w, v, 0x0101010101010101));
    return op2(w, KILN_BUILD_LSHR, v, kiln_walk_integer(w, v, width - 8));
}

static kiln_ssa integer_operator(kiln_walk *w, kiln_expr expr, bool is_signed, const kiln_ssa *v) {
    kiln_expr_op op = kiln_expr_get(w->p, expr)->op;
    kiln_ssa less;
    switch (op) {
    case KILN_EXPR_ADD: return op2(w, KILN_BUILD_ADD, v[0], v[1]);
    case KILN_EXPR_SUB: return op2(w, KILN_BUILD_SUB, v[0], v[1]);
    case KILN_EXPR_MUL: return op2(w, KILN_BUILD_MUL, v[0], v[1]);
    case KILN_EXPR_DIV:
    case KILN_EXPR_REM:
    case KILN_EXPR_FLOORDIV:
    case KILN_EXPR_FLOORMOD: return integer_divide(w, expr, is_signed, v[0], v[1]);
    case KILN_EXPR_MIN:
    case KILN_EXPR_MAX:
        less = op2(w, is_signed ? KILN_BUILD_SLT : KILN_BUILD_ULT, v[0], v[1]);
        return op == KILN_EXPR_MIN ? kiln_walk_select(w, less, v[0], v[1])
                                   : kiln_walk_select(w, less, v[1], v[0]);
    case KILN_EXPR_POW: return integer_pow(w, is_signed, v[0], v[1]);
    case KILN_EXPR_AND: return op2(w, KILN_BUILD_AND, v[0], v[1]);
    case KILN_EXPR_OR: return op2(w, KILN_BUILD_OR, v[0], v[1]);
    case KILN_EXPR_XOR: return op2(w, KILN_BUILD_XOR, v[0], v[1]);
    case KILN_EXPR_SHL:
    case KILN_EXPR_SHR: return integer_shift(w, op, is_signed, v[0], v[1]);
    case KILN_EXPR_NOT: return kiln_walk_not(w, v[0]);
    case KILN_EXPR_NEG: return kiln_walk_negated(w, v[0]);
    case KILN_EXPR_ABS:
        if (!is_signed) return v[0];
        less = op2(w, KILN_BUILD_SLT, v[0], kiln_walk_integer(w, v[0], 0));
        return kiln_walk_select(w, less, kiln_walk_negated(w, v[0]), v[0]);
    case KILN_EXPR_FLOOR:
    case KILN_EXPR_CEIL:
    case KILN_EXPR_ROUND: return v[0];
    case KILN_EXPR_POPCOUNT: return count_ones(w, v[0]);
    default: break;
    }
    KILN_CHECK(op == KILN_EXPR_OP_COUNT); /* no such integer operator */
    return NULL;
}

/* ---- comparisons ----------------------------------------------------------------------------- */

static kiln_ssa build_compare(kiln_walk *w, kiln_expr_op op, kiln_dtype dtype, kiln_ssa a,
                              kiln_ssa b) {
    static const kiln_build_op table[][4] = {
        {KILN_BUILD_OLT, KILN_BUILD_OLE, KILN_BUILD_OEQ, KILN_BUILD_UNE},
        {KILN_BUILD_SLT, KILN_BUILD_SLE, KILN_BUILD_EQ, KILN_BUILD_NE},
        {KILN_BUILD_ULT, KILN_BUILD_ULE, KILN_BUILD_EQ, KILN_BUILD_NE}};
    _Static_assert(KILN_EXPR_LE == KILN_EXPR_LT + 1 && KILN_EXPR_EQ == KILN_EXPR_LT + 2 &&
                       KILN_EXPR_NE == KILN_EXPR_LT + 3,
                   "the table above is in the order of exprs.def");
    uint32_t row = kiln_dtype_is_float(dtype)                   ? 0
                   : kiln_dtype_kind_of(dtype) == KILN_KIND_INT ? 1
                                                                : 2;
    return op2(w, table[row][op - KILN_EXPR_LT], a, b);
}

/* Comparisons of indices that differ between lanes decide masks: done in 32 bits where the
 * difference fits, as (uniform part) + stride * lane against 0. NULL: not of that form. */
static kiln_ssa lane_compare(kiln_walk *w, kiln_expr expr) {
    kiln_expr a = kiln_expr_operand(w->p, expr, 0), b = kiln_expr_operand(w->p, expr, 1);
    if (w->lanes == 0 || kiln_expr_get(w->p, a)->dtype != KILN_INDEX_DTYPE ||
        !kiln_expr_uses_var(w->p, expr, w->lane_var))
        return NULL;
    kiln_expr_op op = kiln_expr_get(w->p, expr)->op;
    kiln_expr difference = kiln_expr_binary(w->p, KILN_EXPR_SUB, a, b);
    kiln_interval bounds = kiln_expr_bounds(w->p, difference, NULL);
    kiln_affine affine;
    if (bounds.low < INT32_MIN || bounds.high > INT32_MAX ||
        !kiln_affine_of(w->p, difference, NULL, &affine))
        return NULL;
    kiln_ssa base;
    int64_t constant, stride;
    if (!kiln_walk_linear(w, &affine, &base, &constant, &stride) || stride == 0) return NULL;

    kiln_ssa_type type = kiln_type_vector(KILN_SSA_I32, w->lanes);
    kiln_ssa v = w->b->ops->ramp(w->b, type, constant, stride);
    if (base) {
        base = kiln_walk_convert(w, KILN_CONVERT_SIGNED, base, KILN_SSA_I32);
        v = op2(w, KILN_BUILD_ADD, kiln_walk_splat(w, base, w->lanes), v);
    }
    return build_compare(w, op, KILN_I32, v, kiln_walk_integer(w, v, 0));
}

/* Narrows the operands of a comparison to 32 bits, so that each fits a register of a 32-bit
 * core. */
static void shorten_indices(kiln_walk *w, kiln_expr expr, kiln_ssa *v) {
    if (w->target->group_threads > 0) return;
    for (uint32_t i = 0; i < 2; i++)
        if (!fits_word(w, kiln_expr_bounds(w->p, kiln_expr_operand(w->p, expr, i), NULL))) return;
    for (uint32_t i = 0; i < 2; i++)
        v[i] = kiln_walk_convert(w, KILN_CONVERT_SIGNED, v[i], KILN_SSA_I32);
}

/* ---- quantisation ---------------------------------------------------------------------------- */

/* The other operand of `e`, an operator of two, if one is constant; 0: neither is constant. */
static kiln_expr beside_constant(const kiln_walk *w, kiln_expr e, kiln_expr_op op,
                                 kiln_expr *out_constant) {
    if (kiln_expr_get(w->p, e)->op != op) return 0;
    for (uint32_t i = 0; i < 2; i++) {
        *out_constant = kiln_expr_operand(w->p, e, i);
        if (kiln_expr_is_const(w->p, *out_constant)) return kiln_expr_operand(w->p, e, 1 - i);
    }
    return 0;
}

static kiln_expr below(const kiln_walk *w, kiln_expr e, kiln_expr_op op, kiln_dtype dtype) {
    const kiln_expr_node *node = kiln_expr_get(w->p, e);
    return node->op == op && node->dtype == dtype ? kiln_expr_operand(w->p, e, 0) : 0;
}

#define BOUND_MAX 0x1p30 /* of a float that becomes an i32 */

/* Whether bytes are made from vectors of i32 by saturating instructions, which clamp negative
 * numbers and the result of a NaN. AVX-512's instruction truncates. */
static bool packs_saturate(const kiln_walk *w, kiln_dtype dtype, double low, double high) {
    return kiln_dtype_size(dtype) == 1 && low == 0 && high <= UINT8_MAX && w->lanes > 1 &&
           w->target->arch == KILN_ARCH_X86_64 && w->target->vector_bytes < 64;
}

/* An i32 as a byte, in a form for which LLVM selects such instructions. */
static kiln_ssa packed(kiln_walk *w, kiln_ssa v) {
    kiln_ssa bound = kiln_walk_integer(w, v, 0);
    v = kiln_walk_select(w, op2(w, KILN_BUILD_SLT, bound, v), v, bound);
    bound = kiln_walk_integer(w, v, UINT8_MAX);
    v = kiln_walk_select(w, op2(w, KILN_BUILD_SLT, v, bound), v, bound);
    return kiln_walk_convert(w, KILN_CONVERT_SIGNED, v, KILN_SSA_I8);
}

/* The end of quantize_linear: a float that is clamped to constant bounds, rounded, and cast to few
 * bits, with a zero point added. Within bounds one instruction rounds and converts. NULL: it is
 * something else. */
static kiln_ssa build_quantised(kiln_walk *w, kiln_expr expr) {
    const kiln_dtype dtype = (kiln_dtype)kiln_expr_get(w->p, expr)->dtype;
    kiln_expr zero = 0, low, high, whole = kiln_expr_operand(w->p, expr, 0);
    if (!w->b->ops->rounded || kiln_dtype_is_float(dtype) || kiln_dtype_size(dtype) > 2)
        return NULL;
    kiln_expr sum = beside_constant(w, whole, KILN_EXPR_ADD, &zero);
    kiln_expr round = below(w, sum ? sum : whole, KILN_EXPR_CAST, KILN_I32);
    kiln_expr cut = round ? below(w, round, KILN_EXPR_ROUND, KILN_F32) : 0;
    kiln_expr above = cut ? beside_constant(w, cut, KILN_EXPR_MIN, &high) : 0;
    kiln_expr value = above ? beside_constant(w, above, KILN_EXPR_MAX, &low) : 0;
    if (!value || kiln_expr_get(w->p, low)->payload.f < -BOUND_MAX ||
        kiln_expr_get(w->p, high)->payload.f > BOUND_MAX)
        return NULL;
    const bool packs = packs_saturate(w, dtype, kiln_expr_get(w->p, low)->payload.f,
                                      kiln_expr_get(w->p, high)->payload.f);
    /* With a NaN operand the instruction returns the second one, so that a NaN is kept. */
    kiln_ssa v = kiln_walk_expr(w, value);
    kiln_ssa bound = kiln_walk_real(w, v, kiln_expr_get(w->p, low)->payload.f);
    if (!packs) v = kiln_walk_select(w, op2(w, KILN_BUILD_OGT, bound, v), bound, v);
    bound = kiln_walk_real(w, v, kiln_expr_get(w->p, high)->payload.f);
    v = kiln_walk_select(w, op2(w, KILN_BUILD_OLT, bound, v), bound, v);
    kiln_ssa rounded = w->b->ops->rounded(w->b, v);
    v = rounded ? rounded
                : kiln_walk_convert(w, KILN_CONVERT_FLOAT_TO_SIGNED,
                                    kiln_walk_math(w, KILN_EXPR_ROUND, &v), KILN_SSA_I32);
    if (packs) v = packed(w, v);
    if (sum)
        v = op2(w, KILN_BUILD_ADD, v,
                kiln_walk_integer(w, v, kiln_expr_get(w->p, zero)->payload.i));
    return kiln_walk_convert(w, KILN_CONVERT_SIGNED, v, kiln_scalar_computed(dtype));
}

/* ---- dispatch -------------------------------------------------------------------------------- */

kiln_ssa kiln_walk_apply(kiln_walk *w, kiln_expr expr, kiln_ssa *v) {
    const kiln_expr_node *node = kiln_expr_get(w->p, expr);
    kiln_expr_op op = node->op;
    kiln_dtype from = kiln_expr_get(w->p, kiln_expr_operand(w->p, expr, 0))->dtype;
    bool is_float = kiln_dtype_is_float(from);
    if (node->operand_count == 2) kiln_walk_match(w, &v[0], &v[1]);
    if (op == KILN_EXPR_CAST) return kiln_walk_cast(w, from, node->dtype, v[0]);
    if (op == KILN_EXPR_LT || op == KILN_EXPR_LE || op == KILN_EXPR_EQ || op == KILN_EXPR_NE) {
        if (from == KILN_INDEX_DTYPE) shorten_indices(w, expr, v);
        return build_compare(w, op, from, v[0], v[1]);
    }
    if (is_float) return kiln_walk_math(w, op, v);
    if (op == KILN_EXPR_ISNAN || op == KILN_EXPR_ISINF)
        return w->b->ops->zero(w->b, kiln_type_like(w, v[0], KILN_SSA_BOOL));
    return integer_operator(w, expr, kiln_dtype_kind_of(from) == KILN_KIND_INT, v);
}

static kiln_ssa build_var(kiln_walk *w, kiln_var var) {
    const kiln_walk_slot *slot = &w->slot[var];
    KILN_CHECK(slot->binding != KILN_WALK_UNBOUND);
    if (slot->binding == KILN_WALK_SERIAL) return slot->value;
    if (slot->binding == KILN_WALK_LANES)
        return w->b->ops->ramp(w->b, kiln_type_vector(KILN_SSA_I64, w->lanes), slot->constant, 1);
    return kiln_walk_i64(w, slot->constant);
}

/* and, or: the second operand is not needed when the first is a constant that determines the
 * result. */
static kiln_ssa build_bool(kiln_walk *w, kiln_expr expr) {
    bool is_and = kiln_expr_get(w->p, expr)->op == KILN_EXPR_AND;
    kiln_ssa v[2] = {kiln_walk_expr(w, kiln_expr_operand(w->p, expr, 0)), NULL};
    int64_t known;
    if (w->b->ops->known_integer(w->b, v[0], &known) && (known != 0) != is_and) return v[0];
    v[1] = kiln_walk_expr(w, kiln_expr_operand(w->p, expr, 1));
    return kiln_walk_apply(w, expr, v);
}

static kiln_ssa evaluate(kiln_walk *w, kiln_expr expr) {
    const kiln_expr_node *node = kiln_expr_get(w->p, expr);
    kiln_ssa_type type = kiln_type_scalar(kiln_walk_scalar(w, (kiln_dtype)node->dtype));
    kiln_ssa operand[2];
    switch ((kiln_expr_op)node->op) {
    case KILN_EXPR_INT: return w->b->ops->integer(w->b, type, node->payload.i);
    case KILN_EXPR_FLOAT:
        return node->payload.f == 0 && !signbit(node->payload.f)
                   ? w->b->ops->zero(w->b, type)
                   : w->b->ops->real(w->b, type, node->payload.f);
    case KILN_EXPR_VAR: return build_var(w, node->payload.id);
    case KILN_EXPR_LOAD: return kiln_walk_load(w, expr);
    case KILN_EXPR_SELECT: return build_select(w, expr);
    case KILN_EXPR_AND:
    case KILN_EXPR_OR:
        if (node->dtype == KILN_BOOL) return build_bool(w, expr);
        break;
    case KILN_EXPR_LT:
    case KILN_EXPR_LE:
    case KILN_EXPR_EQ:
    case KILN_EXPR_NE:
        operand[0] = lane_compare(w, expr);
        if (operand[0]) return operand[0];
        break;
    case KILN_EXPR_CAST:
        operand[0] = build_quantised(w, expr);
        if (operand[0]) return operand[0];
        break;
    default: break;
    }
    uint32_t count = kiln_expr_get(w->p, expr)->operand_count;
    KILN_CHECK(count <= 2);
    for (uint32_t i = 0; i < count; i++)
        operand[i] = kiln_walk_expr(w, kiln_expr_operand(w->p, expr, i));
    return kiln_walk_apply(w, expr, operand);
}

kiln_ssa kiln_walk_expr(kiln_walk *w, kiln_expr expr) {
    while (w->memo.count <= expr) {
        kiln_vec_push_in(w->arena, &w->memo, NULL);
        kiln_vec_push_in(w->arena, &w->memo_stamp, 0);
    }
    if (w->memo_stamp.data[expr] == w->stamp) return w->memo.data[expr];
    kiln_ssa v = evaluate(w, expr);
    if (w->memo.count <= expr) return v;
    w->memo.data[expr] = v;
    w->memo_stamp.data[expr] = w->stamp;
    return v;
}
