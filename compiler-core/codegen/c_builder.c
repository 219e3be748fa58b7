/* Values in C-family text: constants, instructions, lanes. Integers of all kinds are unsigned, so
 * that they wrap; operators with a sign cast. */
#include "compiler-core/codegen/c_builder.h"

#include <math.h>
#include <string.h>

#include "base/check.h"

static kiln_c_builder *of(kiln_builder *b) { return (kiln_c_builder *)b; }

static const char *const unsigned_name[] = {"u8", "u8", "u16", "u32", "u64"};
static const char *const signed_name[] = {"s8", "s8", "s16", "s32", "s64"};

static bool is_integer(kiln_ssa_scalar scalar) { return scalar <= KILN_SSA_I64; }
#define TEXT(b, ...) kiln_arena_printf((b)->arena, __VA_ARGS__)

/* ---- constants ------------------------------------------------------------------------------- */

static kiln_ssa_type type_of(kiln_builder *b, kiln_ssa v) {
    (void)b;
    return v->type;
}

/* The lower bits of a number, sign-extended; BOOL is 0 or 1. */
static int64_t wrapped(kiln_ssa_scalar scalar, uint64_t value) {
    uint32_t bits = kiln_ssa_scalar_bits(scalar);
    if (bits == 1) return value & 1;
    return bits == 64 ? (int64_t)value : (int64_t)(value << (64 - bits)) >> (64 - bits);
}

static kiln_ssa of_lanes(kiln_c_builder *b, kiln_ssa_type type, const int64_t *value) {
    uint32_t count = KILN_MAX(type.lanes, 1u);
    int64_t *lane = KILN_ARENA_ARRAY(b->arena, int64_t, count);
    kiln_ssa v = kiln_c_node(b, type, NULL);
    bool uniform = type.lanes != 0;
    for (uint32_t i = 0; i < count; i++) {
        lane[i] = wrapped(type.scalar, (uint64_t)value[i]);
        uniform = uniform && lane[i] == lane[0];
    }
    v->constant = true;
    v->lane = lane;
    if (uniform) v->uniform = of_lanes(b, kiln_type_scalar(type.scalar), lane);
    return v;
}

static kiln_ssa in_all_lanes(kiln_c_builder *b, kiln_ssa scalar, uint32_t lanes) {
    kiln_ssa v = kiln_c_node(b, kiln_type_vector(scalar->type.scalar, lanes), NULL);
    v->uniform = scalar;
    v->constant = scalar->constant;
    return v;
}

static kiln_ssa ramp(kiln_builder *b, kiln_ssa_type type, int64_t first, int64_t step) {
    int64_t value[KILN_C_LANES_MAX];
    uint32_t count = KILN_MAX(type.lanes, 1u);
    KILN_CHECK(count <= KILN_C_LANES_MAX);
    for (uint32_t i = 0; i < count; i++) value[i] = (int64_t)((uint64_t)first + (uint64_t)step * i);
    return of_lanes(of(b), type, value);
}

static kiln_ssa integer(kiln_builder *b, kiln_ssa_type type, int64_t value) {
    return ramp(b, type, value, 0);
}

static const char *real_text(kiln_c_builder *b, bool is_f32, double value) {
    if (isnan(value)) return is_f32 ? "NAN32" : "NAN64";
    if (isinf(value)) return TEXT(b, "%sINF%s", value < 0 ? "-" : "", is_f32 ? "32" : "64");
    const char *digits = is_f32 ? TEXT(b, "%.9g", (double)(float)value) : TEXT(b, "%.17g", value);
    return TEXT(b, "%s%s%s", digits, strpbrk(digits, ".e") ? "" : ".0", is_f32 ? "f" : "");
}

static kiln_ssa real(kiln_builder *base, kiln_ssa_type type, double value) {
    kiln_c_builder *b = of(base);
    bool is_f32 = type.scalar == KILN_SSA_F32;
    double rounded = is_f32 ? (double)(float)value : value;
    kiln_ssa v = kiln_c_node(b, kiln_type_scalar(type.scalar), real_text(b, is_f32, rounded));
    v->constant = true;
    return type.lanes ? in_all_lanes(b, v, type.lanes) : v;
}

static kiln_ssa zero(kiln_builder *b, kiln_ssa_type type) {
    return is_integer(type.scalar) || type.scalar == KILN_SSA_F16 ? integer(b, type, 0)
                                                                  : real(b, type, 0);
}

static kiln_ssa poison(kiln_builder *b, kiln_ssa_type type) {
    if (type.scalar != KILN_SSA_POINTER && !type.lanes) return zero(b, type);
    kiln_ssa v = kiln_c_node(of(b), type, NULL);
    v->element = KILN_ARENA_ARRAY(of(b)->arena, kiln_ssa, type.lanes);
    v->constant = true;
    return v;
}

static bool is_constant(kiln_builder *b, kiln_ssa v) {
    (void)b;
    return v->constant;
}

static bool known_integer(kiln_builder *b, kiln_ssa v, int64_t *out_value) {
    (void)b;
    if (!v->lane || v->type.lanes) return false;
    *out_value = v->lane[0];
    return true;
}

static bool known_mask(kiln_builder *b, kiln_ssa mask, bool wanted) {
    (void)b;
    if (!mask->lane) return false;
    for (uint32_t i = 0; i < mask->type.lanes; i++)
        if ((mask->lane[i] != 0) != wanted) return false;
    return true;
}

/* ---- instructions ---------------------------------------------------------------------------- */

static const struct instruction_row {
    kiln_build_class what;
    const char *spelling;
} instruction_table[] = {
#define X(name, class, llvm, c) {KILN_BUILDS_##class, c},
#include "compiler-core/codegen/instructions.def"
#undef X
};

kiln_build_class kiln_c_class(kiln_build_op what) { return instruction_table[what].what; }
const char *kiln_c_spelling(kiln_build_op what) { return instruction_table[what].spelling; }

/* The result of an instruction on known numbers; divisors are not 0, shift amounts are below the
 * width. */
static int64_t folded(kiln_build_op what, kiln_ssa_scalar scalar, int64_t a, int64_t b) {
    uint32_t bits = kiln_ssa_scalar_bits(scalar);
    uint64_t x = kiln_c_low_bits(a, bits), y = kiln_c_low_bits(b, bits);
    switch ((int)what) {
    case KILN_BUILD_ADD: return (int64_t)(x + y);
    case KILN_BUILD_SUB: return (int64_t)(x - y);
    case KILN_BUILD_MUL: return (int64_t)(x * y);
    case KILN_BUILD_SDIV: return b == 0 ? 0 : b == -1 ? (int64_t)(0 - x) : a / b;
    case KILN_BUILD_UDIV: return y == 0 ? 0 : (int64_t)(x / y);
    case KILN_BUILD_SREM: return b == 0 || b == -1 ? 0 : a % b;
    case KILN_BUILD_UREM: return y == 0 ? 0 : (int64_t)(x % y);
    case KILN_BUILD_AND: return (int64_t)(x & y);
    case KILN_BUILD_OR: return (int64_t)(x | y);
    case KILN_BUILD_XOR: return (int64_t)(x ^ y);
    case KILN_BUILD_SHL: return y < bits ? (int64_t)(x << y) : 0;
    case KILN_BUILD_LSHR: return y < bits ? (int64_t)(x >> y) : 0;
    case KILN_BUILD_ASHR: return y < bits ? a >> y : 0;
    case KILN_BUILD_EQ: return x == y;
    case KILN_BUILD_NE: return x != y;
    case KILN_BUILD_SLT: return a < b;
    case KILN_BUILD_SLE: return a <= b;
    case KILN_BUILD_ULT: return x < y;
    case KILN_BUILD_ULE: return x <= y;
    case KILN_BUILD_UGE: return x >= y;
    }
    KILN_CHECK(what == KILN_BUILD_COUNT);
    return 0;
}

static const char *library_call(kiln_c_builder *b, kiln_ssa_scalar scalar, const char *name,
                                const char *x, const char *y) {
    return TEXT(b, "%s%s%s(%s%s%s)", b->dialect->library, name,
                scalar == KILN_SSA_F32 && b->dialect->has_suffix ? "f" : "", x, y ? ", " : "",
                y ? y : "");
}

/* The instruction on scalars that are spelled `x` and `y`. */
static const char *spell(kiln_c_builder *b, kiln_build_op what, kiln_ssa_scalar scalar,
                         const char *x, const char *y) {
    const struct instruction_row *row = &instruction_table[what];
    const char *c = row->spelling;
    switch (row->what) {
    case KILN_BUILDS_NEGATE: /* `--` would be another operator */
        return TEXT(b, *x == *c ? "%s(%s)" : "%s%s", c, x);
    case KILN_BUILDS_CALL1: return library_call(b, scalar, c, x, NULL);
    case KILN_BUILDS_CALL2: return library_call(b, scalar, c, x, y);
    case KILN_BUILDS_FLOAT:
        if (*c == 'f') return library_call(b, scalar, c, x, y);
        return TEXT(b, "%s %s %s", x, c, y);
    case KILN_BUILDS_FLOAT_COMPARE:
        if (*c == '!' && c[1] == '<') return TEXT(b, "!(%s < %s)", x, y);
        return TEXT(b, "%s %s %s", x, c, y);
    case KILN_BUILDS_INT_COMPARE:
        if (*c != 's') return TEXT(b, "%s %s %s", x, c, y);
        return TEXT(b, "(%s)%s %s (%s)%s", signed_name[scalar], x, c + 1, signed_name[scalar], y);
    case KILN_BUILDS_INT: break;
    }
    if (*c == 's') {
        const char *right = what == KILN_BUILD_ASHR ? "" : TEXT(b, "(%s)", signed_name[scalar]);
        return TEXT(b, "(%s)((%s)%s %s %s%s)", unsigned_name[scalar], signed_name[scalar], x, c + 1,
                    right, y);
    }
    if (kiln_ssa_scalar_bits(scalar) >= 32) return TEXT(b, "%s %s %s", x, c, y);
    return TEXT(b, "(%s)((u32)%s %s %s)", unsigned_name[scalar], x, c, y);
}

/* Whether the compiler's operator works on whole vectors. */
static bool spans_lanes(const kiln_c_builder *b, kiln_build_op what, kiln_ssa x, kiln_ssa y) {
    const struct instruction_row *row = &instruction_table[what];
    bool plain = row->what == KILN_BUILDS_INT || row->what == KILN_BUILDS_FLOAT ||
                 row->what == KILN_BUILDS_NEGATE;
    bool named = (x->text || x->uniform) && (!y || y->text || y->uniform);
    return plain && named && row->spelling[0] != 's' && row->spelling[0] != 'f' &&
           kiln_ssa_scalar_bits(x->type.scalar) >= 32 && kiln_c_is_native(b, x->type);
}

/* ---- lane by lane, where each has a name ---- */

static kiln_ssa extract(kiln_builder *base, kiln_ssa vector, uint32_t lane);

typedef kiln_ssa (*lane_function)(kiln_builder *b, uint32_t what, kiln_ssa_scalar to,
                                  const kiln_ssa *operand);

/* Applies `one` to each lane of the operands; scalars are used for all lanes. */
static kiln_ssa by_lanes(kiln_c_builder *b, kiln_ssa_type type, lane_function one, uint32_t what,
                         const kiln_ssa *operand, uint32_t count) {
    kiln_ssa v = kiln_c_node(b, type, NULL);
    v->element = KILN_ARENA_ARRAY(b->arena, kiln_ssa, type.lanes);
    for (uint32_t lane = 0; lane < type.lanes; lane++) {
        kiln_ssa scalar[3] = {NULL};
        for (uint32_t i = 0; i < count; i++)
            scalar[i] = operand[i]->type.lanes ? extract(&b->base, operand[i], lane) : operand[i];
        v->element[lane] = one(&b->base, what, type.scalar, scalar);
    }
    return kiln_c_joined(b, v);
}

/* A whole-vector operation by the dialect's text; NULL: it must be done lane by lane. */
static kiln_ssa at_once(kiln_c_builder *b, kiln_ssa_type type, const char *text,
                        const kiln_ssa *operand, uint32_t count) {
    return text ? kiln_c_define(b, type, false, text, operand, count) : NULL;
}

static const kiln_c_vectors *vectors_of(const kiln_c_builder *b, kiln_ssa_type type) {
    return kiln_c_is_native(b, type) ? b->dialect->vectors : NULL;
}

static kiln_ssa compute(kiln_builder *base, kiln_build_op what, kiln_ssa x, kiln_ssa y);

static kiln_ssa compute_lane(kiln_builder *b, uint32_t what, kiln_ssa_scalar to,
                             const kiln_ssa *operand) {
    (void)to;
    return compute(b, (kiln_build_op)what, operand[0], operand[1]);
}

static kiln_ssa compute_lanes(kiln_c_builder *b, kiln_build_op what, kiln_ssa_type type,
                              const kiln_ssa *operand, uint32_t count) {
    const kiln_c_vectors *all = vectors_of(b, type);
    const char *text = all ? all->compute(b, what, operand[0]->type, kiln_c_whole(b, operand[0]),
                                          count > 1 ? kiln_c_whole(b, operand[1]) : NULL)
                           : NULL;
    kiln_ssa v = at_once(b, type, text, operand, count);
    return v ? v : by_lanes(b, type, compute_lane, what, operand, count);
}

/* The text of a vector as operand of such an operator. */
static const char *beside(kiln_c_builder *b, kiln_ssa v) {
    return kiln_c_whole(b, v->uniform ? v->uniform : v);
}

static kiln_ssa compute(kiln_builder *base, kiln_build_op what, kiln_ssa x, kiln_ssa y) {
    kiln_c_builder *b = of(base);
    kiln_build_class class = instruction_table[what].what;
    bool compares = class == KILN_BUILDS_INT_COMPARE || class == KILN_BUILDS_FLOAT_COMPARE;
    uint32_t lanes = x->type.lanes;
    kiln_ssa_type type = kiln_type_vector(compares ? KILN_SSA_BOOL : x->type.scalar, lanes);
    kiln_ssa operand[] = {x, y};
    if (x->lane && y && y->lane) {
        int64_t value[KILN_C_LANES_MAX];
        for (uint32_t i = 0; i < KILN_MAX(lanes, 1u); i++)
            value[i] = folded(what, x->type.scalar, x->lane[i], y->lane[i]);
        return of_lanes(b, type, value);
    }
    if (x->uniform && (!y || y->uniform))
        return in_all_lanes(b, compute(base, what, x->uniform, y ? y->uniform : NULL), lanes);
    if (lanes && !b->dialect->lane_loops) return compute_lanes(b, what, type, operand, y ? 2 : 1);
    bool whole = lanes == 0 || spans_lanes(b, what, x, y);
    const char *left = whole ? beside(b, x) : kiln_c_each(b, x), *right = !y ? NULL
                                                                          : whole
                                                                              ? beside(b, y)
                                                                              : kiln_c_each(b, y);
    return kiln_c_define(b, type, !whole, spell(b, what, x->type.scalar, left, right), operand,
                         y ? 2 : 1);
}

static kiln_ssa choose(kiln_builder *base, kiln_ssa condition, kiln_ssa yes, kiln_ssa no);

static kiln_ssa choose_lane(kiln_builder *b, uint32_t what, kiln_ssa_scalar to,
                            const kiln_ssa *operand) {
    (void)what, (void)to;
    return choose(b, operand[0], operand[1], operand[2]);
}

static kiln_ssa choose_lanes(kiln_c_builder *b, const kiln_ssa *operand) {
    const kiln_ssa_type type = operand[1]->type;
    const kiln_c_vectors *all = vectors_of(b, type);
    const bool each = operand[0]->type.lanes != 0;
    const char *text = all && each
                           ? all->choose(b, type, kiln_c_whole(b, operand[0]),
                                         kiln_c_whole(b, operand[1]), kiln_c_whole(b, operand[2]))
                           : NULL;
    kiln_ssa v = at_once(b, type, text, operand, 3);
    return v ? v : by_lanes(b, type, choose_lane, 0, operand, 3);
}

static kiln_ssa choose(kiln_builder *base, kiln_ssa condition, kiln_ssa yes, kiln_ssa no) {
    kiln_c_builder *b = of(base);
    kiln_ssa operand[] = {condition, yes, no};
    uint32_t lanes = yes->type.lanes;
    if (condition->uniform) return choose(base, condition->uniform, yes, no);
    if (condition->lane && !condition->type.lanes) return condition->lane[0] ? yes : no;
    if (condition->type.lanes && condition->lane && yes->lane && no->lane) {
        int64_t value[KILN_C_LANES_MAX];
        for (uint32_t i = 0; i < lanes; i++)
            value[i] = condition->lane[i] ? yes->lane[i] : no->lane[i];
        return of_lanes(b, yes->type, value);
    }
    if (lanes && !b->dialect->lane_loops) return choose_lanes(b, operand);
    bool each = condition->type.lanes != 0;
    const char *expression = each ? TEXT(b, "%s ? %s : %s", kiln_c_each(b, condition),
                                         kiln_c_each(b, yes), kiln_c_each(b, no))
                                  : TEXT(b, "%s ? %s : %s", kiln_c_whole(b, condition),
                                         kiln_c_whole(b, yes), kiln_c_whole(b, no));
    return kiln_c_define(b, yes->type, each, expression, operand, 3);
}

static kiln_ssa multiply_add(kiln_builder *base, kiln_ssa x, kiln_ssa y, kiln_ssa z);

static kiln_ssa multiply_add_lane(kiln_builder *b, uint32_t what, kiln_ssa_scalar to,
                                  const kiln_ssa *operand) {
    (void)what, (void)to;
    return multiply_add(b, operand[0], operand[1], operand[2]);
}

/* Calls the dialect's function. */
static kiln_ssa call_multiply_add(kiln_c_builder *b, const kiln_ssa *operand) {
    const kiln_ssa_type type = operand[0]->type;
    if (!kiln_c_is_named(b, type)) return by_lanes(b, type, multiply_add_lane, 0, operand, 3);
    const char *name = TEXT(b, b->dialect->multiply_add, kiln_ssa_scalar_bits(type.scalar));
    return kiln_c_define(b, type, false,
                         TEXT(b, "%s(%s, %s, %s)", name, kiln_c_whole(b, operand[0]),
                              kiln_c_whole(b, operand[1]), kiln_c_whole(b, operand[2])),
                         operand, 3);
}

static kiln_ssa multiply_add(kiln_builder *base, kiln_ssa x, kiln_ssa y, kiln_ssa z) {
    kiln_c_builder *b = of(base);
    kiln_ssa operand[] = {x, y, z};
    if (b->dialect->multiply_add) return call_multiply_add(b, operand);
    bool scalar = !x->type.lanes, uniform = x->uniform && y->uniform;
    bool whole = scalar || (!uniform && spans_lanes(b, KILN_BUILD_FMUL, x, y) &&
                            spans_lanes(b, KILN_BUILD_FADD, x, z));
    const char *expression =
        whole ? TEXT(b, "%s * %s + %s", beside(b, x), beside(b, y), beside(b, z))
              : TEXT(b, "%s * %s + %s", kiln_c_each(b, x), kiln_c_each(b, y), kiln_c_each(b, z));
    return kiln_c_define(b, x->type, !whole, expression, operand, 3);
}

static const char *spell_conversion(kiln_c_builder *b, kiln_conversion how, kiln_ssa_scalar from,
                                    kiln_ssa_scalar to, const char *x) {
    const char *type = kiln_c_type(b, kiln_type_scalar(to)),
               *from_type = kiln_c_type(b, kiln_type_scalar(from));
    switch (how) {
    case KILN_CONVERT_BITS:
        return is_integer(to) ? TEXT(b, "bits_of_%s(%s)", from_type, x)
                              : TEXT(b, "%s_of_bits(%s)", type, x);
    case KILN_CONVERT_SIGNED:
        if (from == KILN_SSA_BOOL) return TEXT(b, "(%s)((%s)0 - %s)", type, type, x);
        return TEXT(b, "(%s)(%s)%s", type, signed_name[from], x);
    case KILN_CONVERT_UNSIGNED: return TEXT(b, "(%s)%s", type, x);
    case KILN_CONVERT_FLOAT:
        if (from == KILN_SSA_F16) return TEXT(b, "(%s)f32_of_half(%s)", type, x);
        if (to == KILN_SSA_F16) return TEXT(b, "half_of_f32((f32)%s)", x);
        return TEXT(b, "(%s)%s", type, x);
    case KILN_CONVERT_SIGNED_TO_FLOAT: return TEXT(b, "(%s)(%s)%s", type, signed_name[from], x);
    case KILN_CONVERT_UNSIGNED_TO_FLOAT: return TEXT(b, "(%s)%s", type, x);
    case KILN_CONVERT_FLOAT_TO_SIGNED:
        return TEXT(b, "(%s)%s_of_%s(%s)", type, signed_name[to], from_type, x);
    case KILN_CONVERT_FLOAT_TO_UNSIGNED: break;
    }
    return TEXT(b, "%s_of_%s(%s)", type, from_type, x);
}

static kiln_ssa convert(kiln_builder *base, kiln_conversion how, kiln_ssa v, kiln_ssa_type to);

static kiln_ssa convert_lane(kiln_builder *b, uint32_t how, kiln_ssa_scalar to,
                             const kiln_ssa *operand) {
    return convert(b, (kiln_conversion)how, operand[0], kiln_type_scalar(to));
}

static kiln_ssa convert_lanes(kiln_c_builder *b, kiln_conversion how, kiln_ssa v,
                              kiln_ssa_type to) {
    const kiln_c_vectors *all = vectors_of(b, to);
    const char *text = all ? all->convert(b, how, v->type, to.scalar, kiln_c_whole(b, v)) : NULL;
    kiln_ssa converted = at_once(b, to, text, &v, 1);
    return converted ? converted : by_lanes(b, to, convert_lane, how, &v, 1);
}

/* Consecutive elements as the words of tensor intrinsics; one word is a scalar. */
static kiln_ssa to_words(kiln_c_builder *b, kiln_ssa v, kiln_ssa_type to) {
    const kiln_ssa_type word = kiln_type_scalar(to.scalar);
    const uint32_t bits = kiln_ssa_scalar_bits(v->type.scalar);
    const char *text = "";
    if (to.lanes > 1)
        return kiln_c_define(b, to, false,
                             TEXT(b, "(%s)(%s)", kiln_c_type(b, to), kiln_c_whole(b, v)), &v, 1);
    for (uint32_t i = 0; i < v->type.lanes; i++)
        text = TEXT(b, "%s%s(%s)%s << %u", text, i ? " | " : "", kiln_c_type(b, word),
                    kiln_c_lane(b, v, i), i * bits);
    return in_all_lanes(b, kiln_c_define(b, word, false, text, &v, 1), 1);
}

static kiln_ssa convert(kiln_builder *base, kiln_conversion how, kiln_ssa v, kiln_ssa_type to) {
    kiln_c_builder *b = of(base);
    if (v->type.lanes != to.lanes) return to_words(b, v, to);
    bool integers = how == KILN_CONVERT_SIGNED || how == KILN_CONVERT_UNSIGNED;
    if (v->type.scalar == to.scalar) return v;
    if (v->lane && integers) {
        int64_t value[KILN_C_LANES_MAX];
        uint32_t bits = kiln_ssa_scalar_bits(v->type.scalar);
        for (uint32_t i = 0; i < KILN_MAX(to.lanes, 1u); i++)
            value[i] = how == KILN_CONVERT_UNSIGNED ? (int64_t)kiln_c_low_bits(v->lane[i], bits)
                       : bits == 1                  ? -v->lane[i]
                                                    : v->lane[i];
        return of_lanes(b, to, value);
    }
    if (v->uniform)
        return in_all_lanes(b, convert(base, how, v->uniform, kiln_type_scalar(to.scalar)),
                            to.lanes);
    if (to.lanes && !b->dialect->lane_loops) return convert_lanes(b, how, v, to);
    const char *x = to.lanes ? kiln_c_each(b, v) : kiln_c_whole(b, v);
    return kiln_c_define(b, to, to.lanes != 0,
                         spell_conversion(b, how, v->type.scalar, to.scalar, x), &v, 1);
}

static kiln_ssa call(kiln_builder *base, const char *name, const kiln_ssa *arg, uint32_t count) {
    kiln_c_builder *b = of(base);
    return kiln_c_define(b, arg[0]->type, false,
                         library_call(b, arg[0]->type.scalar, name, kiln_c_whole(b, arg[0]),
                                      count > 1 ? kiln_c_whole(b, arg[1]) : NULL),
                         arg, count);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

static kiln_ssa splat(kiln_builder *b, kiln_ssa scalar, uint32_t lanes) {
    if (scalar->lane)
        return integer(b, kiln_type_vector(scalar->type.scalar, lanes), scalar->lane[0]);
    return in_all_lanes(of(b), scalar, lanes);
}

static kiln_ssa extract(kiln_builder *base, kiln_ssa vector, uint32_t lane) {
    kiln_c_builder *b = of(base);
    kiln_ssa_type type = kiln_type_scalar(vector->type.scalar);
    if (vector->lane) return of_lanes(b, type, &vector->lane[lane]);
    if (vector->uniform) return vector->uniform;
    if (vector->element) return vector->element[lane] ? vector->element[lane] : poison(base, type);
    kiln_ssa v = kiln_c_node(b, type, kiln_c_lane(b, vector, lane));
    v->base = vector;
    return v;
}

/* A vector that is composed lane by lane gets its name with the last lane. */
static kiln_ssa insert(kiln_builder *base, kiln_ssa vector, kiln_ssa scalar, uint32_t lane) {
    kiln_c_builder *b = of(base);
    uint32_t lanes = vector->type.lanes;
    kiln_ssa v = kiln_c_node(b, vector->type, NULL), operand[] = {vector, scalar};
    if (scalar->as_lane) scalar->loaded->text = scalar->as_lane;
    if (vector->element || !kiln_c_is_named(b, vector->type)) {
        v->element = KILN_ARENA_ARRAY(b->arena, kiln_ssa, lanes);
        for (uint32_t i = 0; i < lanes; i++)
            v->element[i] = vector->element ? vector->element[i] : extract(base, vector, i);
        v->element[lane] = scalar;
        bool whole = lane + 1 == lanes && vector->type.scalar != KILN_SSA_POINTER;
        return whole ? kiln_c_joined(b, v) : v;
    }
    kiln_ssa named = kiln_c_node(b, vector->type, kiln_c_name(b));
    return kiln_c_define_as(b, vector->type, named->text,
                            TEXT(b, "%s %s = %s; %s = %s;", kiln_c_type(b, vector->type),
                                 named->text, kiln_c_whole(b, vector), kiln_c_lane(b, named, lane),
                                 kiln_c_whole(b, scalar)),
                            operand, 2);
}

static kiln_ssa shuffle(kiln_builder *base, kiln_ssa a, kiln_ssa second, const int32_t *lane,
                        uint32_t count) {
    kiln_c_builder *b = of(base);
    uint32_t have = a->type.lanes;
    kiln_ssa v = kiln_c_node(b, kiln_type_vector(a->type.scalar, count), NULL);
    bool same = count == have, known = a->lane && (!second || second->lane);
    int64_t value[KILN_C_LANES_MAX];
    KILN_CHECK(count <= KILN_C_LANES_MAX);
    for (uint32_t i = 0; i < count; i++) same = same && lane[i] == (int32_t)i;
    if (same) return a;
    if (a->uniform && !second) return splat(base, a->uniform, count);
    v->element = KILN_ARENA_ARRAY(b->arena, kiln_ssa, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t from = lane[i] < 0 ? 0 : (uint32_t)lane[i] % have;
        kiln_ssa source = lane[i] >= (int32_t)have ? second : a;
        v->element[i] = lane[i] < 0 ? NULL : extract(base, source, from);
        value[i] = known ? source->lane[from] : 0;
    }
    return known ? of_lanes(b, v->type, value) : kiln_c_joined(b, v);
}

/* C compilers find instructions that take a lane themselves. */
static bool taken_from(kiln_builder *b, kiln_ssa v, kiln_ssa *out_vector, uint32_t *out_lane) {
    (void)b, (void)v, (void)out_vector, (void)out_lane;
    return false;
}

static kiln_ssa any_lane(kiln_c_builder *b, kiln_ssa mask) {
    const kiln_c_vectors *all = vectors_of(b, mask->type);
    if (all)
        return kiln_c_define(b, kiln_type_scalar(KILN_SSA_BOOL), false,
                             all->any(b, mask->type, kiln_c_whole(b, mask)), &mask, 1);
    kiln_ssa found = extract(&b->base, mask, 0);
    for (uint32_t i = 1; i < mask->type.lanes; i++)
        found = compute(&b->base, KILN_BUILD_OR, found, extract(&b->base, mask, i));
    return found;
}

static kiln_ssa any(kiln_builder *base, kiln_ssa mask) {
    kiln_c_builder *b = of(base);
    kiln_ssa_type type = kiln_type_scalar(KILN_SSA_BOOL);
    if (mask->uniform) return mask->uniform;
    if (mask->lane) {
        int64_t found = 0;
        for (uint32_t i = 0; i < mask->type.lanes; i++) found |= mask->lane[i];
        return of_lanes(b, type, &found);
    }
    if (!b->dialect->lane_loops) return any_lane(b, mask);
    const char *name = kiln_c_name(b);
    return kiln_c_define_as(b, type, name,
                            TEXT(b, "u8 %s = 0; EACH(%u) %s |= %s;", name, mask->type.lanes, name,
                                 kiln_c_each(b, mask)),
                            &mask, 1);
}

static const kiln_builder_ops c_ops = {
#define X(result, name, arguments) .name = name,
#include "compiler-core/codegen/builder_values.def"
#undef X
#define X(result, name, arguments) .name = kiln_c_##name,
#include "compiler-core/codegen/builder_control.def"
#include "compiler-core/codegen/builder_memory.def"
#undef X
};

void kiln_c_builder_init(kiln_c_builder *b, const kiln_c_dialect *dialect, kiln_arena *arena) {
    *b = (kiln_c_builder){.base = {&b->ops}, .ops = c_ops, .dialect = dialect, .arena = arena};
    b->ops.intrinsic = dialect->intrinsic;
    b->ops.warp_product = dialect->warp_product;
    b->ops.load_matrices = dialect->load_matrices;
    b->ops.copy = dialect->copy;
    b->ops.copy_commit = dialect->copy_commit;
    b->ops.copy_wait = dialect->copy_wait;
    b->ops.exchange = dialect->exchange;
    b->ops.group_begin = dialect->group_begin;
    b->ops.group_product = dialect->group_product;
    b->ops.group_wait = dialect->group_wait;
    b->ops.group_fence = dialect->group_fence;
    b->ops.token_place = dialect->token_place;
    b->ops.token_push = dialect->token_push;
    b->ops.token_pop = dialect->token_pop;
    b->ops.unit_registers = dialect->unit_registers;
    b->ops.token_expect = dialect->token_expect;
    b->ops.bulk_copy = dialect->bulk_copy;
    b->ops.cluster_sync = dialect->cluster_sync;
    b->ops.token_push_all = dialect->token_push_all;
    b->ops.box_copy = dialect->box_copy;
}
