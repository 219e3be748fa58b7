/* The back end of targets of kind null: the launches of a lowered program (lower/launch.h) as byte
 * code (base/null_code.h), one function for each. A thread's indices are in its first registers;
 * loops of every kind inside of it run in order, one element at a time. Addresses are linear forms
 * of loop variables: the part of an outer loop is computed where that loop begins, and an access
 * adds the innermost variable's part. */
#include <string.h>

#include "base/check.h"
#include "base/integer.h"
#include "base/null_code.h"
#include "compiler-core/codegen/backend.h"
#include "compiler-core/ir/affine.h"

#define LEVELS_MAX KILN_NULL_DEPTH_MAX
#define NO_REGISTER 0u /* r0 is never a result */
#define NOT_IN_SCOPE UINT32_MAX
#define LOCAL_ALIGNMENT UINT64_C(16)

/* The part of an offset that depends on loops up to some level. */
typedef struct partial {
    kiln_expr offset;
    uint16_t reg;
} partial;

typedef struct level {
    kiln_var var; /* 0: the function; the grid's and the group's variables are of this level */
    KILN_VEC(partial) known;
} level;

typedef struct remembered {
    kiln_expr expr;
    uint16_t reg;
} remembered;

typedef struct emitter {
    kiln_program *p;
    kiln_arena *arena;
    kiln_null_function *f;
    KILN_VEC(kiln_null_instruction) code;
    KILN_VEC(kiln_null_instruction) constants; /* SETs, which go before the code */
    KILN_VEC(kiln_null_buffer) buffers;
    uint16_t *buffer_number; /* [buffer count] + 1; 0: none */
    uint16_t *var_register;  /* [var count] of those in scope */
    uint32_t *var_level;     /* [var count] or NOT_IN_SCOPE */
    kiln_affine **offset;    /* [expr count at the first use], by offset expression; NULL: not
                              * computed */
    uint32_t offset_count;
    level level[LEVELS_MAX];
    uint32_t level_count;
    uint32_t next_register;
    /* Values of this statement. Values computed under a condition are dropped behind it. */
    KILN_VEC(remembered) value;
    kiln_status status; /* the first error */
} emitter;

/* ---- registers and instructions -------------------------------------------------------------- */

static uint16_t new_register(emitter *e) {
    if (e->next_register < KILN_NULL_REGISTERS_MAX) {
        e->f->register_count = KILN_MAX(e->f->register_count, e->next_register + 1);
        return (uint16_t)e->next_register++;
    }
    if (!e->status)
        e->status = KILN_ERROR(RESOURCE_EXHAUSTED, "the program needs more than %u registers",
                               KILN_NULL_REGISTERS_MAX);
    return KILN_NULL_REGISTERS_MAX - 1;
}

static void put(emitter *e, kiln_null_op op, uint16_t a, uint16_t b, uint16_t c, uint16_t d,
                int64_t imm) {
    kiln_null_instruction in = {(uint16_t)op, a, b, c, d, imm};
    if (e->code.count < KILN_NULL_INSTRUCTIONS_MAX / 2)
        kiln_vec_push_in(e->arena, &e->code, in);
    else if (!e->status)
        e->status = KILN_ERROR(RESOURCE_EXHAUSTED, "the program takes more than %u instructions",
                               KILN_NULL_INSTRUCTIONS_MAX / 2);
}

/* A new register with the result. */
static uint16_t compute(emitter *e, kiln_null_op op, uint16_t b, uint16_t c) {
    uint16_t a = new_register(e);
    put(e, op, a, b, c, 0, 0);
    return a;
}

static uint16_t typed(emitter *e, kiln_null_op op, uint16_t b, kiln_dtype dtype) {
    uint16_t a = new_register(e);
    put(e, op, a, b, 0, 0, dtype);
    return a;
}

/* Constants are set once, at the start. Their registers are taken from the top, so that those of
 * statements can be reused. */
static uint16_t constant(emitter *e, int64_t bits) {
    for (uint32_t i = 0; i < e->constants.count; i++)
        if (e->constants.data[i].imm == bits) return e->constants.data[i].a;
    kiln_null_instruction set = {.op = KILN_NULL_SET, .imm = bits};
    set.a = (uint16_t)(KILN_NULL_REGISTERS_MAX - 1 - e->constants.count);
    if (set.a < KILN_NULL_REGISTERS_MAX / 2 && !e->status)
        e->status = KILN_ERROR(RESOURCE_EXHAUSTED, "the program has too many constants");
    if (!e->status) kiln_vec_push_in(e->arena, &e->constants, set);
    return set.a;
}

static uint16_t float_constant(emitter *e, double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return constant(e, bits);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static uint16_t value_of(emitter *e, kiln_expr expr);

static const kiln_affine *affine_of(emitter *e, kiln_expr offset) {
    if (offset >= e->offset_count) {
        uint32_t count = KILN_MAX(e->p->expr.count, offset + 1) * 2;
        kiln_affine **grown = KILN_ARENA_ARRAY(e->arena, kiln_affine *, count);
        if (e->offset_count > 0) memcpy(grown, e->offset, e->offset_count * sizeof *grown);
        e->offset = grown;
        e->offset_count = count;
    }
    if (!e->offset[offset]) {
        kiln_affine *affine = KILN_ARENA_NEW(e->arena, kiln_affine);
        if (!kiln_affine_of(e->p, offset, NULL, affine))
            *affine = (kiln_affine){.term_count = 1, .term = {offset}, .coefficient = {1}};
        e->offset[offset] = affine;
    }
    return e->offset[offset];
}

/* The loop variable that a term is; 0: it is something else. */
static kiln_var var_of(const emitter *e, kiln_expr term) {
    const kiln_expr_node *node = kiln_expr_get(e->p, term);
    return node->op == KILN_EXPR_VAR ? node->payload.id : 0;
}

static uint16_t find_partial(const emitter *e, uint32_t depth, kiln_expr offset) {
    const level *l = &e->level[depth];
    for (uint32_t i = 0; i < l->known.count; i++)
        if (l->known.data[i].offset == offset) return l->known.data[i].reg;
    return NO_REGISTER;
}

static uint16_t scaled_sum(emitter *e, uint16_t base, uint16_t factor, int64_t coefficient) {
    uint16_t a = new_register(e);
    put(e, KILN_NULL_ADDRESS, a, base, factor, 0, coefficient);
    return a;
}

/* The constant and the variables of loops up to `level`; kept by the outermost possible level. */
static uint16_t partial_sum(emitter *e, kiln_expr offset, uint32_t up_to) {
    const kiln_affine *affine = affine_of(e, offset);
    uint16_t sum = NO_REGISTER;
    uint32_t from = up_to + 1;
    while (from > 0 && sum == NO_REGISTER) sum = find_partial(e, --from, offset);
    if (sum == NO_REGISTER)
        sum = constant(e, affine->constant);
    else
        from++;
    for (; from <= up_to; from++)
        for (uint32_t i = 0; i < affine->term_count; i++) {
            kiln_var var = var_of(e, affine->term[i]);
            if (var && e->var_level[var] == from)
                sum = scaled_sum(e, sum, e->var_register[var], affine->coefficient[i]);
        }
    return sum;
}

typedef struct address {
    uint16_t base, factor;
    int64_t coefficient;
} address;

static address address_of(emitter *e, kiln_expr offset) {
    const kiln_affine *affine = affine_of(e, offset);
    uint32_t innermost = e->level_count - 1;
    address a = {.base = partial_sum(e, offset, innermost > 0 ? innermost - 1 : 0)};
    a.factor = a.base;
    for (uint32_t i = 0; i < affine->term_count; i++) {
        kiln_var var = var_of(e, affine->term[i]);
        bool last = var && innermost > 0 && e->var_level[var] == innermost;
        if (var && !last) continue; /* in the base */
        uint16_t factor = var ? e->var_register[var] : value_of(e, affine->term[i]);
        if (a.coefficient != 0) a.base = scaled_sum(e, a.base, a.factor, a.coefficient);
        a.factor = factor;
        a.coefficient = affine->coefficient[i];
    }
    return a;
}

static kiln_expr offset_of_load(emitter *e, kiln_expr load) {
    const kiln_expr_node *node = kiln_expr_get(e->p, load);
    kiln_expr index[KILN_RANK_MAX];
    const uint32_t buffer = node->payload.id, count = node->operand_count;
    for (uint32_t i = 0; i < count; i++) index[i] = kiln_expr_operand(e->p, load, i);
    return kiln_buffer_offset(e->p, buffer, index);
}

static void remember_partial(emitter *e, kiln_expr offset) {
    uint32_t innermost = e->level_count - 1;
    if (find_partial(e, innermost, offset) != NO_REGISTER) return;
    partial known = {offset, partial_sum(e, offset, innermost)};
    kiln_vec_push_in(e->arena, &e->level[innermost].known, known);
}

static void prepare_load(kiln_program *p, kiln_expr load, void *context) {
    (void)p;
    emitter *e = context;
    remember_partial(e, offset_of_load(e, load));
}

/* Computes the outer loops' parts of offsets before the loops inside `stmt` that use them. */
static void prepare_inner(emitter *e, kiln_stmt stmt, bool is_inside) {
    const kiln_stmt_info *s = &e->p->stmt.data[stmt];
    if (is_inside && s->kind == KILN_STMT_STORE) {
        remember_partial(e, kiln_buffer_offset(e->p, s->buffer, s->index));
        kiln_expr_visit_loads(e->p, s->value, 0, prepare_load, e);
    }
    if (is_inside && s->kind == KILN_STMT_IF)
        kiln_expr_visit_loads(e->p, s->condition, 0, prepare_load, e);
    for (uint32_t i = 0; i < s->child.count; i++)
        prepare_inner(e, s->child.data[i], is_inside || s->kind == KILN_STMT_FOR);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The instruction of an operator on operands of a class; END: no single instruction. */
typedef struct operator_row {
    uint8_t integer, is_unsigned, real; /* kiln_null_op; is_unsigned: of 64 bits */
} operator_row;

static const operator_row operator_table[KILN_EXPR_OP_COUNT] = {
#define SAME(OP, INTEGER, REAL) \
    [KILN_EXPR_##OP] = {KILN_NULL_##INTEGER, KILN_NULL_##INTEGER, KILN_NULL_##REAL}
#define APART(OP, INTEGER, UNSIGNED, REAL) \
    [KILN_EXPR_##OP] = {KILN_NULL_##INTEGER, KILN_NULL_##UNSIGNED, KILN_NULL_##REAL}
    SAME(ADD, ADD, ADD_FLOAT),
    SAME(SUB, SUB, SUB_FLOAT),
    SAME(MUL, MUL, MUL_FLOAT),
    APART(DIV, DIV, DIV_UNSIGNED, DIV_FLOAT),
    APART(REM, REM, REM_UNSIGNED, REM_FLOAT),
    APART(FLOORDIV, FLOORDIV, DIV_UNSIGNED, END),
    APART(FLOORMOD, FLOORMOD, REM_UNSIGNED, FLOORMOD_FLOAT),
    APART(MIN, MIN, MIN_UNSIGNED, MIN_FLOAT),
    APART(MAX, MAX, MAX_UNSIGNED, MAX_FLOAT),
    SAME(POW, POW, POW_FLOAT),
    APART(LT, LESS, LESS_UNSIGNED, LESS_FLOAT),
    APART(LE, LESS_EQUAL, LESS_EQUAL_UNSIGNED, LESS_EQUAL_FLOAT),
    SAME(EQ, EQUAL, EQUAL_FLOAT),
    SAME(NE, NOT_EQUAL, NOT_EQUAL_FLOAT),
    SAME(AND, AND, END),
    SAME(OR, OR, END),
    SAME(XOR, XOR, END),
    SAME(NOT, INVERT, END),
    SAME(NEG, END, NEGATE_FLOAT),
    SAME(ABS, ABS, ABS_FLOAT),
    SAME(FLOOR, END, FLOOR),
    SAME(CEIL, END, CEIL),
    SAME(ROUND, END, NEAREST),
    SAME(SQRT, END, SQRT),
    SAME(EXP, END, EXP),
    SAME(LOG, END, LOG),
    SAME(TANH, END, TANH),
    SAME(ERF, END, ERF),
    SAME(SIGMOID, END, SIGMOID),
    SAME(SIN, END, SIN),
    SAME(COS, END, COS),
    SAME(TAN, END, TAN),
    SAME(ASIN, END, ASIN),
    SAME(ACOS, END, ACOS),
    SAME(ATAN, END, ATAN),
    SAME(SINH, END, SINH),
    SAME(COSH, END, COSH),
    SAME(ASINH, END, ASINH),
    SAME(ACOSH, END, ACOSH),
    SAME(ATANH, END, ATANH),
    SAME(TF32, END, TF32),
    SAME(ISNAN, END, ISNAN),
    SAME(ISINF, END, ISINF),
#undef SAME
#undef APART
};

static bool is_comparison(kiln_expr_op op) {
    return op == KILN_EXPR_LT || op == KILN_EXPR_LE || op == KILN_EXPR_EQ || op == KILN_EXPR_NE;
}

/* Integers narrower than a register are wrapped after each operator. */
static uint16_t wrap(emitter *e, kiln_dtype dtype, uint16_t reg) {
    bool whole = kiln_dtype_size(dtype) == 8;
    return whole ? reg : typed(e, KILN_NULL_WRAP, reg, dtype);
}

static uint16_t load(emitter *e, kiln_expr expr) {
    const kiln_buffer buffer = kiln_expr_get(e->p, expr)->payload.id;
    address from = address_of(e, offset_of_load(e, expr));
    uint16_t a = new_register(e);
    put(e, KILN_NULL_LOAD, a, from.base, from.factor, (uint16_t)(e->buffer_number[buffer] - 1),
        from.coefficient);
    return a;
}

static uint16_t cast(emitter *e, kiln_dtype from, kiln_dtype to, uint16_t reg) {
    bool from_float = kiln_dtype_is_float(from), to_float = kiln_dtype_is_float(to);
    if (from_float && to_float) return to == KILN_F64 ? reg : typed(e, KILN_NULL_ROUND, reg, to);
    if (from_float) return typed(e, KILN_NULL_TO_INTEGER, reg, to);
    if (to_float) {
        bool is_unsigned = from == KILN_U64;
        reg = compute(e, is_unsigned ? KILN_NULL_TO_FLOAT_UNSIGNED : KILN_NULL_TO_FLOAT, reg, 0);
        return to == KILN_F64 ? reg : typed(e, KILN_NULL_ROUND, reg, to);
    }
    if (to == KILN_BOOL) return compute(e, KILN_NULL_NOT_EQUAL, reg, constant(e, 0));
    return wrap(e, to, reg);
}

/* Adds the bits of `reg` shifted by `by` to those of `reg`, both under a mask. */
static uint16_t add_neighbours(emitter *e, uint16_t reg, int64_t by, uint64_t mask) {
    const uint16_t part = constant(e, (int64_t)mask), moved = new_register(e);
    put(e, KILN_NULL_SHIFT_RIGHT_UNSIGNED, moved, reg, constant(e, by), 0, 64);
    return compute(e, KILN_NULL_ADD, compute(e, KILN_NULL_AND, reg, part),
                   compute(e, KILN_NULL_AND, moved, part));
}

static uint16_t count_ones(emitter *e, kiln_dtype dtype, uint16_t reg) {
    const size_t size = kiln_dtype_size(dtype);
    if (size < 8) reg = compute(e, KILN_NULL_AND, reg, constant(e, ((int64_t)1 << 8 * size) - 1));
    static const uint64_t mask[] = {UINT64_C(0x5555555555555555), UINT64_C(0x3333333333333333),
                                    UINT64_C(0x0f0f0f0f0f0f0f0f), UINT64_C(0x00ff00ff00ff00ff),
                                    UINT64_C(0x0000ffff0000ffff), UINT64_C(0x00000000ffffffff)};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(mask); i++)
        reg = add_neighbours(e, reg, (int64_t)1 << i, mask[i]);
    return reg;
}

/* Integer operators without an instruction. */
static uint16_t integer_special(emitter *e, kiln_expr_op op, kiln_dtype dtype,
                                const uint16_t *operand) {
    uint16_t a;
    switch (op) {
    case KILN_EXPR_SHL:
    case KILN_EXPR_SHR:
        a = new_register(e);
        put(e,
            op == KILN_EXPR_SHL ? KILN_NULL_SHIFT_LEFT
            : dtype == KILN_U64 ? KILN_NULL_SHIFT_RIGHT_UNSIGNED
                                : KILN_NULL_SHIFT_RIGHT,
            a, operand[0], operand[1], 0, 8 * (int64_t)kiln_dtype_size(dtype));
        return a;
    case KILN_EXPR_NEG: return compute(e, KILN_NULL_SUB, constant(e, 0), operand[0]);
    case KILN_EXPR_POPCOUNT: return count_ones(e, dtype, operand[0]);
    case KILN_EXPR_ISNAN:
    case KILN_EXPR_ISINF: return constant(e, 0);
    default: return operand[0]; /* FLOOR, CEIL, ROUND of an integer */
    }
}

static uint16_t apply(emitter *e, kiln_expr_op op, kiln_dtype from, const uint16_t *operand,
                      uint32_t count) {
    const operator_row *row = &operator_table[op];
    const uint16_t second = count > 1 ? operand[1] : operand[0];
    if (kiln_dtype_is_float(from)) return compute(e, (kiln_null_op)row->real, operand[0], second);
    bool is_unsigned = kiln_dtype_kind_of(from) == KILN_KIND_UINT;
    kiln_null_op chosen = (kiln_null_op)(from == KILN_U64 ? row->is_unsigned : row->integer);
    if (op == KILN_EXPR_NOT && from == KILN_BOOL) chosen = KILN_NULL_NOT;
    if (op == KILN_EXPR_ABS && is_unsigned) return operand[0];
    uint16_t reg = chosen == KILN_NULL_END ? integer_special(e, op, from, operand)
                                           : compute(e, chosen, operand[0], second);
    return is_comparison(op) ? reg : wrap(e, from, reg);
}

static void note_load(kiln_program *p, kiln_expr load, void *context) {
    (void)p, (void)load;
    *(bool *)context = true;
}

/* Whether evaluating the expression may fail where its value is not needed. */
static bool has_load(emitter *e, kiln_expr expr) {
    bool found = false;
    kiln_expr_visit_loads(e->p, expr, 0, note_load, &found);
    return found;
}

/* `side` in `reg`, only where `op` (IF or IF_NOT) lets the condition pass. */
static void compute_side(emitter *e, kiln_null_op op, uint16_t condition, kiln_expr side,
                         uint16_t reg) {
    uint32_t mark = e->value.count;
    put(e, op, condition, 0, 0, 0, 0);
    uint16_t value = value_of(e, side);
    put(e, KILN_NULL_SELECT, reg, value, value, value, 0);
    put(e, KILN_NULL_IF_END, 0, 0, 0, 0, 0);
    e->value.count = mark;
}

static uint16_t select_value(emitter *e, kiln_expr expr) {
    kiln_expr yes = kiln_expr_operand(e->p, expr, 1), no = kiln_expr_operand(e->p, expr, 2);
    uint16_t condition = value_of(e, kiln_expr_operand(e->p, expr, 0));
    uint16_t reg;
    if (has_load(e, yes) || has_load(e, no)) {
        reg = new_register(e);
        compute_side(e, KILN_NULL_IF, condition, yes, reg);
        compute_side(e, KILN_NULL_IF_NOT, condition, no, reg);
        return reg;
    }
    uint16_t a = value_of(e, yes), b = value_of(e, no);
    reg = new_register(e);
    put(e, KILN_NULL_SELECT, reg, a, b, condition, 0);
    return reg;
}

static bool is_product(const emitter *e, kiln_expr expr) {
    const kiln_expr_node *node = kiln_expr_get(e->p, expr);
    return node->op == KILN_EXPR_MUL && kiln_dtype_is_float((kiln_dtype)node->dtype);
}

static uint16_t multiply_add(emitter *e, kiln_expr product, kiln_expr addend) {
    uint16_t b = value_of(e, kiln_expr_operand(e->p, product, 0));
    uint16_t c = value_of(e, kiln_expr_operand(e->p, product, 1));
    uint16_t d = value_of(e, addend), a = new_register(e);
    put(e, KILN_NULL_MULTIPLY_ADD, a, b, c, d, 0);
    return a;
}

static uint16_t operator_value(emitter *e, kiln_expr expr) {
    const kiln_expr_node node = *kiln_expr_get(e->p, expr);
    kiln_expr first = kiln_expr_operand(e->p, expr, 0);
    uint16_t operand[2] = {0};
    if (node.op == KILN_EXPR_ADD) {
        kiln_expr second = kiln_expr_operand(e->p, expr, 1);
        if (is_product(e, second)) return multiply_add(e, second, first);
        if (is_product(e, first)) return multiply_add(e, first, second);
    }
    const kiln_dtype from = (kiln_dtype)kiln_expr_get(e->p, first)->dtype;
    for (uint32_t i = 0; i < node.operand_count; i++)
        operand[i] = value_of(e, kiln_expr_operand(e->p, expr, i));
    if (node.op == KILN_EXPR_CAST) return cast(e, from, (kiln_dtype)node.dtype, operand[0]);
    return apply(e, (kiln_expr_op)node.op, from, operand, node.operand_count);
}

static uint16_t value_of(emitter *e, kiln_expr expr) {
    const kiln_expr_node node = *kiln_expr_get(e->p, expr);
    if (node.op == KILN_EXPR_INT) return constant(e, node.payload.i);
    if (node.op == KILN_EXPR_FLOAT) return float_constant(e, node.payload.f);
    if (node.op == KILN_EXPR_VAR) return e->var_register[node.payload.id];
    for (uint32_t i = e->value.count; i-- > 0;)
        if (e->value.data[i].expr == expr) return e->value.data[i].reg;
    remembered value = {expr, 0};
    value.reg = node.op == KILN_EXPR_LOAD     ? load(e, expr)
                : node.op == KILN_EXPR_SELECT ? select_value(e, expr)
                                              : operator_value(e, expr);
    kiln_vec_push_in(e->arena, &e->value, value);
    return value.reg;
}

/* ---- statements ------------------------------------------------------------------------------ */

static void emit(emitter *e, kiln_stmt stmt);

static void forget_values(emitter *e, uint32_t register_mark) {
    e->value.count = 0;
    e->next_register = register_mark;
}

static void emit_store(emitter *e, const kiln_stmt_info *s) {
    uint32_t mark = e->next_register;
    uint16_t value = value_of(e, s->value);
    address to = address_of(e, kiln_buffer_offset(e->p, s->buffer, s->index));
    put(e, KILN_NULL_STORE, value, to.base, to.factor, (uint16_t)(e->buffer_number[s->buffer] - 1),
        to.coefficient);
    forget_values(e, mark);
}

static void emit_if(emitter *e, kiln_stmt stmt) {
    uint32_t mark = e->next_register;
    uint16_t condition = value_of(e, e->p->stmt.data[stmt].condition);
    e->value.count = 0; /* the condition's register stays */
    put(e, KILN_NULL_IF, condition, 0, 0, 0, 0);
    emit(e, e->p->stmt.data[stmt].child.data[0]);
    put(e, KILN_NULL_IF_END, 0, 0, 0, 0, 0);
    e->next_register = mark;
}

static void emit_for(emitter *e, kiln_stmt stmt) {
    const kiln_stmt_info *s = &e->p->stmt.data[stmt];
    const kiln_var var = s->var;
    const int64_t first = s->first, extent = s->extent;
    const kiln_stmt body = s->child.data[0];
    uint32_t mark = e->next_register;
    if (extent == 0 || e->status) return;
    if (e->level_count == LEVELS_MAX) {
        e->status =
            KILN_ERROR(RESOURCE_EXHAUSTED, "more than %u loops within each other", LEVELS_MAX - 1);
        return;
    }
    uint16_t counter = new_register(e);
    e->var_register[var] = counter;
    e->var_level[var] = e->level_count;
    e->level[e->level_count++] = (level){.var = var};
    put(e, KILN_NULL_LOOP, counter, 0, 0, 0, first);
    prepare_inner(e, body, false);
    emit(e, body);
    put(e, KILN_NULL_LOOP_END, counter, 0, 0, 0, first + extent);
    e->level_count--;
    e->var_level[var] = NOT_IN_SCOPE;
    e->next_register = mark;
}

static void add_buffer(emitter *e, kiln_buffer buffer, kiln_null_place place, uint32_t argument,
                       uint64_t offset) {
    const kiln_buffer_info *info = &e->p->buffer.data[buffer];
    kiln_shape physical = kiln_layout_physical(&info->layout, &info->shape);
    kiln_null_buffer added = {.place = (uint8_t)place,
                              .dtype = (uint8_t)info->dtype,
                              .argument = (uint16_t)argument,
                              .offset = offset,
                              .count = (uint64_t)kiln_shape_count(&physical)};
    if (e->buffers.count == KILN_NULL_BUFFERS_MAX) {
        if (!e->status) e->status = KILN_ERROR(RESOURCE_EXHAUSTED, "too many temps");
        return;
    }
    kiln_vec_push_in(e->arena, &e->buffers, added);
    e->buffer_number[buffer] = (uint16_t)e->buffers.count;
}

/* Registers cannot be indexed, so a register buffer lies in the thread's memory. */
static void add_register_buffer(emitter *e, kiln_buffer buffer) {
    const kiln_buffer_info *info = &e->p->buffer.data[buffer];
    if (e->buffer_number[buffer] || info->scope != KILN_SCOPE_REGISTER) return;
    add_buffer(e, buffer, KILN_NULL_LOCAL, 0, e->f->local_bytes);
    const kiln_null_buffer *added = &e->buffers.data[e->buffers.count - 1];
    e->f->local_bytes = KILN_ALIGN_UP(
        e->f->local_bytes + added->count * kiln_dtype_size(info->dtype), LOCAL_ALIGNMENT);
}

static void emit(emitter *e, kiln_stmt stmt) {
    const kiln_stmt_info s = e->p->stmt.data[stmt];
    if (e->status) return;
    switch ((kiln_stmt_kind)s.kind) {
    case KILN_STMT_SEQ:
        for (uint32_t i = 0; i < s.child.count; i++) emit(e, s.child.data[i]);
        return;
    case KILN_STMT_FOR: emit_for(e, stmt); return;
    case KILN_STMT_IF: emit_if(e, stmt); return;
    case KILN_STMT_ALLOC:
        add_register_buffer(e, s.buffer);
        emit(e, s.child.data[0]);
        return;
    case KILN_STMT_STORE: emit_store(e, &s); return;
    case KILN_STMT_BARRIER: put(e, KILN_NULL_BARRIER, 0, 0, 0, 0, 0); return;
    default: e->status = KILN_ERROR(UNIMPLEMENTED, "the null device has no such statement");
    }
}

/* ---- functions ------------------------------------------------------------------------------- */

static void add_temps(emitter *e, const kiln_launch_temp *temp, uint32_t count,
                      kiln_null_place place, uint32_t argument) {
    for (uint32_t i = 0; i < count; i++)
        add_buffer(e, temp[i].buffer, place, argument, temp[i].offset);
}

static void add_memory(emitter *e, const kiln_launches *launches, const kiln_launch *launch) {
    for (uint32_t i = 0; i < launch->arg_count; i++)
        add_buffer(e, launch->arg[i], KILN_NULL_ARGUMENT, i, 0);
    if (launch->uses_scratch)
        add_temps(e, launches->temp, launches->temp_count, KILN_NULL_ARGUMENT, launch->arg_count);
    add_temps(e, launch->shared, launch->shared_count, KILN_NULL_SHARED, 0);
    add_temps(e, launch->local, launch->local_count, KILN_NULL_LOCAL, 0);
    e->f->shared_bytes = launch->shared_bytes;
    e->f->local_bytes = KILN_ALIGN_UP(launch->local_bytes, LOCAL_ALIGNMENT);
}

/* While code is made constants are at the top of the registers; this moves them down behind the
 * others. */
static uint16_t moved(const emitter *e, uint16_t reg) {
    uint32_t first = KILN_NULL_REGISTERS_MAX - e->constants.count;
    return reg < first ? reg : (uint16_t)(e->f->register_count + (reg - first));
}

static void finish(emitter *e) {
    kiln_null_function *f = e->f;
    uint32_t count = e->constants.count + e->code.count;
    f->instruction = KILN_ARENA_ARRAY(e->arena, kiln_null_instruction, count);
    for (uint32_t i = 0; i < count; i++) {
        kiln_null_instruction in =
            i < e->constants.count ? e->constants.data[i] : e->code.data[i - e->constants.count];
        bool names_buffer = in.op == KILN_NULL_LOAD || in.op == KILN_NULL_STORE;
        in.a = moved(e, in.a);
        in.b = moved(e, in.b);
        in.c = moved(e, in.c);
        if (!names_buffer) in.d = moved(e, in.d);
        f->instruction[i] = in;
    }
    f->instruction_count = count;
    f->register_count += e->constants.count;
    f->buffer = e->buffers.data;
    f->buffer_count = e->buffers.count;
    if (f->register_count > KILN_NULL_REGISTERS_MAX && !e->status)
        e->status = KILN_ERROR(RESOURCE_EXHAUSTED, "the program needs more than %u registers",
                               KILN_NULL_REGISTERS_MAX);
}

/* Sets the register of a variable of the grid or the group; 0: none along this axis. */
static void set_place(emitter *e, kiln_var var, uint16_t reg) {
    if (!var) return;
    e->var_register[var] = reg;
    e->var_level[var] = 0;
}

static kiln_status add_function(kiln_program *p, const kiln_launches *launches,
                                const kiln_launch *launch, kiln_arena *arena,
                                kiln_null_function *f) {
    *f = (kiln_null_function){.name = launch->entry, .register_count = KILN_NULL_FIRST_FREE};
    emitter e = {.p = p,
                 .arena = arena,
                 .f = f,
                 .buffer_number = KILN_ARENA_ARRAY(arena, uint16_t, p->buffer.count),
                 .var_register = KILN_ARENA_ARRAY(arena, uint16_t, p->var.count),
                 .var_level = KILN_ARENA_ARRAY(arena, uint32_t, p->var.count),
                 .level_count = 1,
                 .next_register = KILN_NULL_FIRST_FREE};
    for (uint32_t i = 0; i < p->var.count; i++) e.var_level[i] = NOT_IN_SCOPE;
    add_memory(&e, launches, launch);
    for (uint16_t d = 0; d < KILN_LAUNCH_DIMS; d++) {
        set_place(&e, launch->grid_var[d], d);
        set_place(&e, launch->group_var[d], (uint16_t)(KILN_LAUNCH_DIMS + d));
    }
    prepare_inner(&e, launch->body, false);
    emit(&e, launch->body);
    put(&e, KILN_NULL_END, 0, 0, 0, 0, 0);
    finish(&e);
    if (f->local_bytes > KILN_NULL_TEMP_BYTES_MAX && !e.status)
        e.status = KILN_ERROR(RESOURCE_EXHAUSTED, "temps of a thread take %llu bytes",
                              (unsigned long long)f->local_bytes);
    return kiln_status_note(e.status, "%.*s", KILN_STR_ARG(f->name));
}

static kiln_status add_launches(kiln_program *p, const kiln_launches *launches, kiln_arena *arena,
                                kiln_null_code *code) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < launches->count; i++)
        st = add_function(p, launches, &launches->launch[i], arena,
                          &code->function[code->function_count++]);
    return st;
}

kiln_status kiln_null_emit(const kiln_lowered *lowered, const kiln_target *target,
                           const kiln_codegen_options *options, kiln_arena *arena,
                           kiln_codegen_output *out_output) {
    (void)target;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 256 << 10);
    kiln_null_code code = {.function = KILN_ARENA_ARRAY(&scratch, kiln_null_function,
                                                        lowered->prepare_launches.count +
                                                            lowered->run_launches.count)};
    kiln_status st = add_launches(lowered->prepare, &lowered->prepare_launches, &scratch, &code);
    if (!st) st = add_launches(lowered->run, &lowered->run_launches, &scratch, &code);
    if (!st) {
        kiln_strbuf bytes = {0};
        if (options->emit == KILN_EMIT_OBJECT)
            kiln_null_code_encode(&code, &bytes);
        else
            kiln_null_code_print(&code, &bytes);
        *out_output = (kiln_codegen_output){
            .bytes = {kiln_str_dup(arena, kiln_strbuf_view(&bytes)), bytes.size}};
        kiln_strbuf_deinit(&bytes);
    }
    kiln_arena_deinit(&scratch);
    return st;
}
