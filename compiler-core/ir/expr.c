/* Expressions: hash-consing, constant folding, exact local identities, and generic walks. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "compiler-core/ir/ir.h"
#include "compiler-core/ir/memo.h"
#include "compiler-core/ir/scalar.h"
#include "compiler-core/ir/text.h"

#define OPERANDS_FOLD_MAX 2

const kiln_expr_op_info kiln_expr_op_table[KILN_EXPR_OP_COUNT] = {
#define X(name, text, operands, class) [KILN_EXPR_##name] = {text, operands, KILN_CLASS_##class},
#include "compiler-core/ir/exprs.def"
#undef X
};

/* ---- hash-consing ---------------------------------------------------------------- */

static uint32_t node_hash(const kiln_expr_node *node, const kiln_expr *operand) {
    uint64_t hash = (uint64_t)node->op << 8 | node->dtype;
    hash = (hash ^ (uint64_t)node->payload.i) * UINT64_C(0x9E3779B97F4A7C15);
    for (uint32_t i = 0; i < node->operand_count; i++)
        hash = (hash ^ hash >> 29 ^ operand[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(hash >> 32);
}

static bool node_equal(const kiln_program *p, const kiln_expr_node *a, const kiln_expr_node *b,
                       const kiln_expr *operand) {
    return a->op == b->op && a->dtype == b->dtype && a->operand_count == b->operand_count &&
           a->payload.i == b->payload.i &&
           (a->operand_count == 0 || memcmp(p->operand.data + a->first_operand, operand,
                                            a->operand_count * sizeof *operand) == 0);
}

static void slots_grow(kiln_program *p) {
    uint32_t count = p->expr_slot.count ? p->expr_slot.count * 4 : 256;
    p->expr_slot.data = KILN_ARENA_ARRAY(p->arena, uint32_t, count);
    p->expr_slot.count = p->expr_slot.capacity = count;
    for (uint32_t e = 1; e < p->expr.count; e++) {
        const kiln_expr_node *node = &p->expr.data[e];
        uint32_t at = node_hash(node, p->operand.data + node->first_operand) & (count - 1);
        while (p->expr_slot.data[at]) at = (at + 1) & (count - 1);
        p->expr_slot.data[at] = e;
    }
}

static uint64_t own_uses(const kiln_expr_node *node) {
    uint64_t uses = node->dtype == KILN_BOOL ? KILN_USES_BOOL : 0;
    if (node->op == KILN_EXPR_VAR) return uses | kiln_uses_var(node->payload.id);
    if (node->op == KILN_EXPR_LOAD) return uses | kiln_uses_load(node->payload.id);
    return node->op == KILN_EXPR_SELECT ? uses | KILN_USES_SELECT : uses;
}

/* The id of the node with these parts: an old one if there is one. */
static kiln_expr intern(kiln_program *p, kiln_expr_op op, kiln_dtype dtype, int64_t payload_bits,
                        const kiln_expr *operand, uint32_t operand_count) {
    kiln_expr_node node = {
        .op = (uint8_t)op, .dtype = (uint8_t)dtype, .operand_count = (uint16_t)operand_count};
    node.payload.i = payload_bits;
    if ((p->expr.count + 1) * 2 > p->expr_slot.count) slots_grow(p);

    uint32_t mask = p->expr_slot.count - 1;
    uint32_t at = node_hash(&node, operand) & mask;
    for (; p->expr_slot.data[at]; at = (at + 1) & mask) {
        kiln_expr found = p->expr_slot.data[at];
        if (node_equal(p, &p->expr.data[found], &node, operand)) return found;
    }
    node.first_operand = p->operand.count;
    node.uses = own_uses(&node);
    for (uint32_t i = 0; i < operand_count; i++) {
        kiln_vec_push_in(p->arena, &p->operand, operand[i]);
        node.uses |= p->expr.data[operand[i]].uses;
    }
    kiln_expr e = p->expr.count;
    kiln_vec_push_in(p->arena, &p->expr, node);
    p->expr_slot.data[at] = e;
    return e;
}

/* ---- constants and leaves -------------------------------------------------------- */

static kiln_dtype dtype_of(const kiln_program *p, kiln_expr e) {
    return (kiln_dtype)p->expr.data[e].dtype;
}

static kiln_expr make_const(kiln_program *p, kiln_dtype dtype, kiln_scalar value) {
    value = kiln_scalar_round(dtype, value);
    if (dtype == KILN_INDEX_DTYPE || !kiln_dtype_is_float(dtype))
        return intern(p, KILN_EXPR_INT, dtype, value.i, NULL, 0);
    if (isnan(value.f)) value.f = NAN; /* one NaN: payloads would make equal constants differ */
    return intern(p, KILN_EXPR_FLOAT, dtype, value.i, NULL, 0);
}

kiln_expr kiln_expr_int(kiln_program *p, kiln_dtype dtype, int64_t value) {
    KILN_CHECK(!kiln_dtype_is_float(dtype));
    return make_const(p, dtype, (kiln_scalar){.i = value});
}

kiln_expr kiln_expr_index(kiln_program *p, int64_t value) {
    return make_const(p, KILN_INDEX_DTYPE, (kiln_scalar){.i = value});
}

kiln_expr kiln_expr_float(kiln_program *p, kiln_dtype dtype, double value) {
    KILN_CHECK(kiln_dtype_is_float(dtype));
    return make_const(p, dtype, (kiln_scalar){.f = value});
}

kiln_expr kiln_expr_const(kiln_program *p, kiln_dtype dtype, double value) {
    if (kiln_dtype_is_float(dtype)) return kiln_expr_float(p, dtype, value);
    const kiln_scalar source = {.f = value};
    return make_const(p, dtype, kiln_scalar_apply(KILN_EXPR_CAST, KILN_F64, dtype, &source));
}

kiln_expr kiln_expr_zero(kiln_program *p, kiln_dtype dtype) { return kiln_expr_const(p, dtype, 0); }

kiln_expr kiln_expr_var(kiln_program *p, kiln_var var) {
    KILN_CHECK(var > 0 && var < p->var.count);
    return intern(p, KILN_EXPR_VAR, KILN_INDEX_DTYPE, var, NULL, 0);
}

kiln_expr kiln_expr_load(kiln_program *p, kiln_buffer buffer, const kiln_expr *index,
                         uint32_t index_count) {
    KILN_CHECK(buffer > 0 && buffer < p->buffer.count);
    KILN_CHECK(index_count == p->buffer.data[buffer].shape.rank);
    for (uint32_t i = 0; i < index_count; i++)
        KILN_CHECK(dtype_of(p, index[i]) == KILN_INDEX_DTYPE);
    return intern(p, KILN_EXPR_LOAD, p->buffer.data[buffer].dtype, buffer, index, index_count);
}

bool kiln_expr_is_const(const kiln_program *p, kiln_expr e) {
    return p->expr.data[e].op == KILN_EXPR_INT || p->expr.data[e].op == KILN_EXPR_FLOAT;
}

bool kiln_expr_as_int(const kiln_program *p, kiln_expr e, int64_t *out_value) {
    if (p->expr.data[e].op != KILN_EXPR_INT) return false;
    *out_value = p->expr.data[e].payload.i;
    return true;
}

static kiln_scalar const_value(const kiln_program *p, kiln_expr e) {
    return (kiln_scalar){.i = p->expr.data[e].payload.i};
}

/* ---- types ----------------------------------------------------------------------- */

static bool takes_floats_only(kiln_expr_op op) {
    return (op >= KILN_EXPR_SQRT && op <= KILN_EXPR_ATANH) || op == KILN_EXPR_TF32;
}
static bool takes_bits_only(kiln_expr_op op) { return op >= KILN_EXPR_AND && op <= KILN_EXPR_NOT; }
static bool gives_bool(kiln_expr_op op) {
    return kiln_expr_op_table[op].class == KILN_CLASS_COMPARE || op == KILN_EXPR_ISNAN ||
           op == KILN_EXPR_ISINF;
}

/* Operators that bool may enter besides the bitwise ones. */
static bool takes_bool(kiln_expr_op op) {
    return gives_bool(op) || op == KILN_EXPR_MIN || op == KILN_EXPR_MAX || op == KILN_EXPR_CAST;
}

const char *kiln_expr_type_error(const kiln_program *p, kiln_expr_op op, const kiln_expr *operand,
                                 uint32_t operand_count) {
    if (kiln_expr_op_table[op].class == KILN_CLASS_LEAF ||
        kiln_expr_op_table[op].class == KILN_CLASS_LOAD)
        return NULL;
    if (operand_count != (uint32_t)kiln_expr_op_table[op].operand_count)
        return "wrong number of operands";
    if (op == KILN_EXPR_SELECT) {
        if (dtype_of(p, operand[0]) != KILN_BOOL) return "the condition of select is not bool";
        operand++;
        operand_count--;
    }
    kiln_dtype dtype = dtype_of(p, operand[0]);
    if (operand_count == 2 && dtype_of(p, operand[1]) != dtype) return "operands differ in dtype";
    if (op == KILN_EXPR_SELECT) return NULL;
    if (dtype == KILN_INDEX_DTYPE && !takes_floats_only(op)) return NULL;
    if (takes_floats_only(op) && !kiln_dtype_is_float(dtype)) return "operator needs floats";
    if (takes_bits_only(op) && kiln_dtype_is_float(dtype)) return "operator needs integers or bool";
    if ((op == KILN_EXPR_SHL || op == KILN_EXPR_SHR) && dtype == KILN_BOOL)
        return "operator needs integers";
    if ((op == KILN_EXPR_FLOORDIV || op == KILN_EXPR_POPCOUNT) && kiln_dtype_is_float(dtype))
        return "operator needs integers";
    if (op == KILN_EXPR_TF32 && dtype != KILN_F32) return "operator needs f32";
    if (dtype == KILN_BOOL && !takes_bits_only(op) && !takes_bool(op))
        return "operator needs numbers";
    return NULL;
}

/* ---- operators ------------------------------------------------------------------- */

/* x op constant, where the result is x, the constant, or zero. All hold bit for bit. */
enum { GIVES_NOTHING, GIVES_LEFT, GIVES_RIGHT, GIVES_ZERO };
#define IDENTITIES_MAX 2 /* of one operator */
static const struct identity {
    bool for_floats;
    int8_t value; /* -1: all bits set (true for bool) */
    uint8_t gives;
} identity_table[KILN_EXPR_OP_COUNT][IDENTITIES_MAX] = {
    [KILN_EXPR_ADD] = {{false, 0, GIVES_LEFT}},
    [KILN_EXPR_SUB] = {{true, 0, GIVES_LEFT}},
    [KILN_EXPR_MUL] = {{true, 1, GIVES_LEFT}, {false, 0, GIVES_RIGHT}},
    [KILN_EXPR_DIV] = {{true, 1, GIVES_LEFT}},
    [KILN_EXPR_FLOORDIV] = {{false, 1, GIVES_LEFT}},
    [KILN_EXPR_REM] = {{false, 1, GIVES_ZERO}},
    [KILN_EXPR_FLOORMOD] = {{false, 1, GIVES_ZERO}},
    [KILN_EXPR_POW] = {{true, 1, GIVES_LEFT}},
    [KILN_EXPR_SHL] = {{false, 0, GIVES_LEFT}},
    [KILN_EXPR_SHR] = {{false, 0, GIVES_LEFT}},
    [KILN_EXPR_AND] = {{false, 0, GIVES_RIGHT}, {false, -1, GIVES_LEFT}},
    [KILN_EXPR_OR] = {{false, 0, GIVES_LEFT}, {false, -1, GIVES_RIGHT}},
    [KILN_EXPR_XOR] = {{false, 0, GIVES_LEFT}},
};

static bool const_is(const kiln_program *p, kiln_expr e, int64_t value) {
    kiln_dtype dtype = dtype_of(p, e);
    kiln_scalar v = const_value(p, e);
    if (kiln_dtype_is_float(dtype)) return v.f == (double)value && !signbit(v.f);
    return v.i == kiln_scalar_round(dtype, (kiln_scalar){.i = value}).i;
}

static kiln_expr fold_identity(kiln_program *p, kiln_expr_op op, kiln_expr a, kiln_expr b) {
    bool is_float = kiln_dtype_is_float(dtype_of(p, a));
    if (is_float && op == KILN_EXPR_ADD) {
        kiln_scalar v = const_value(p, b);
        return v.f == 0 && signbit(v.f) ? a : 0; /* x + 0 turns -0 into +0; x + -0 is exact */
    }
    for (size_t i = 0; i < IDENTITIES_MAX; i++) {
        const struct identity *row = &identity_table[op][i];
        if (!row->gives || (is_float && !row->for_floats) || !const_is(p, b, row->value)) continue;
        if (row->gives == GIVES_LEFT) return a;
        return row->gives == GIVES_RIGHT ? b : kiln_expr_zero(p, dtype_of(p, a));
    }
    return 0;
}

static kiln_expr fold_same_operand(kiln_program *p, kiln_expr_op op, kiln_expr a) {
    bool exact = !kiln_dtype_is_float(dtype_of(p, a)); /* NaN breaks x == x and x - x */
    switch (op) {
    case KILN_EXPR_MIN:
    case KILN_EXPR_MAX:
    case KILN_EXPR_AND:
    case KILN_EXPR_OR: return a;
    case KILN_EXPR_SUB:
    case KILN_EXPR_XOR: return exact ? kiln_expr_zero(p, dtype_of(p, a)) : 0;
    case KILN_EXPR_LE:
    case KILN_EXPR_EQ: return exact ? kiln_expr_int(p, KILN_BOOL, 1) : 0;
    case KILN_EXPR_LT: return kiln_expr_int(p, KILN_BOOL, 0);
    case KILN_EXPR_NE: return exact ? kiln_expr_int(p, KILN_BOOL, 0) : 0;
    default: return 0;
    }
}

/* (x + c1) + c2 and (x * c1) * c2 of integers. */
static kiln_expr fold_nested(kiln_program *p, kiln_expr_op op, kiln_expr a, kiln_expr b) {
    if (p->expr.data[a].op != op || (op != KILN_EXPR_ADD && op != KILN_EXPR_MUL)) return 0;
    if (kiln_dtype_is_float(dtype_of(p, a))) return 0;
    kiln_expr inner = kiln_expr_operand(p, a, 1);
    if (!kiln_expr_is_const(p, inner)) return 0;
    return kiln_expr_binary(p, op, kiln_expr_operand(p, a, 0), kiln_expr_binary(p, op, inner, b));
}

static bool commutes(kiln_expr_op op) {
    return op == KILN_EXPR_ADD || op == KILN_EXPR_MUL || op == KILN_EXPR_AND ||
           op == KILN_EXPR_OR || op == KILN_EXPR_XOR || op == KILN_EXPR_EQ || op == KILN_EXPR_NE;
}

static kiln_expr fold_consts(kiln_program *p, kiln_expr_op op, kiln_dtype to,
                             const kiln_expr *operand, uint32_t count) {
    kiln_scalar value[OPERANDS_FOLD_MAX];
    for (uint32_t i = 0; i < count; i++) value[i] = const_value(p, operand[i]);
    return make_const(p, to, kiln_scalar_apply(op, dtype_of(p, operand[0]), to, value));
}

kiln_expr kiln_expr_binary(kiln_program *p, kiln_expr_op op, kiln_expr a, kiln_expr b) {
    kiln_expr operand[] = {a, b};
    KILN_CHECK(kiln_expr_type_error(p, op, operand, 2) == NULL);
    kiln_dtype dtype = gives_bool(op) ? KILN_BOOL : dtype_of(p, a);
    if (kiln_expr_is_const(p, a) && kiln_expr_is_const(p, b))
        return fold_consts(p, op, dtype, operand, 2);
    if (kiln_expr_is_const(p, a) && commutes(op)) return kiln_expr_binary(p, op, b, a);

    kiln_expr folded = a == b ? fold_same_operand(p, op, a) : 0;
    if (!folded && kiln_expr_is_const(p, b)) {
        folded = fold_identity(p, op, a, b);
        if (!folded) folded = fold_nested(p, op, a, b);
        if (!folded && op == KILN_EXPR_SUB && !kiln_dtype_is_float(dtype))
            folded = kiln_expr_binary(p, KILN_EXPR_ADD, a, kiln_expr_unary(p, KILN_EXPR_NEG, b));
    }
    if (!folded && op == KILN_EXPR_SUB && !kiln_dtype_is_float(dtype) && kiln_expr_is_const(p, a) &&
        const_is(p, a, 0))
        folded = kiln_expr_unary(p, KILN_EXPR_NEG, b);
    return folded ? folded : intern(p, op, dtype, 0, operand, 2);
}

kiln_expr kiln_expr_unary(kiln_program *p, kiln_expr_op op, kiln_expr a) {
    KILN_CHECK(kiln_expr_type_error(p, op, &a, 1) == NULL);
    kiln_dtype dtype = gives_bool(op) ? KILN_BOOL : dtype_of(p, a);
    if (kiln_expr_is_const(p, a)) return fold_consts(p, op, dtype, &a, 1);
    if ((op == KILN_EXPR_NEG || op == KILN_EXPR_NOT) && p->expr.data[a].op == op)
        return kiln_expr_operand(p, a, 0);
    bool is_float = kiln_dtype_is_float(dtype_of(p, a));
    if (!is_float && gives_bool(op)) return kiln_expr_int(p, KILN_BOOL, 0);
    if (!is_float && op >= KILN_EXPR_FLOOR && op <= KILN_EXPR_ROUND) return a;
    return intern(p, op, dtype, 0, &a, 1);
}

kiln_expr kiln_expr_select(kiln_program *p, kiln_expr condition, kiln_expr a, kiln_expr b) {
    kiln_expr operand[] = {condition, a, b};
    KILN_CHECK(kiln_expr_type_error(p, KILN_EXPR_SELECT, operand, 3) == NULL);
    int64_t known;
    if (kiln_expr_as_int(p, condition, &known)) return known ? a : b;
    if (a == b) return a;
    return intern(p, KILN_EXPR_SELECT, dtype_of(p, a), 0, operand, 3);
}

kiln_expr kiln_expr_cast(kiln_program *p, kiln_dtype dtype, kiln_expr a) {
    if (dtype == dtype_of(p, a)) return a;
    if (kiln_expr_is_const(p, a)) return fold_consts(p, KILN_EXPR_CAST, dtype, &a, 1);
    return intern(p, KILN_EXPR_CAST, dtype, 0, &a, 1);
}

kiln_expr kiln_expr_make(kiln_program *p, const kiln_expr_node *like, const kiln_expr *operand,
                         uint32_t operand_count) {
    kiln_expr_op op = (kiln_expr_op)like->op;
    switch (kiln_expr_op_table[op].class) {
    case KILN_CLASS_LEAF: return intern(p, op, (kiln_dtype)like->dtype, like->payload.i, NULL, 0);
    case KILN_CLASS_LOAD: return kiln_expr_load(p, like->payload.id, operand, operand_count);
    case KILN_CLASS_CAST: return kiln_expr_cast(p, (kiln_dtype)like->dtype, operand[0]);
    default: break;
    }
    KILN_CHECK(operand_count == (uint32_t)kiln_expr_op_table[op].operand_count);
    if (operand_count == 1) return kiln_expr_unary(p, op, operand[0]);
    if (operand_count == 2) return kiln_expr_binary(p, op, operand[0], operand[1]);
    return kiln_expr_select(p, operand[0], operand[1], operand[2]);
}

kiln_expr kiln_expr_rebuild(kiln_program *p, kiln_expr like, const kiln_expr *operand,
                            uint32_t operand_count) {
    kiln_expr_node node = p->expr.data[like]; /* a copy: making expressions moves the table */
    return kiln_expr_make(p, &node, operand, operand_count);
}

kiln_expr kiln_expr_identity(kiln_program *p, kiln_combiner combiner, kiln_dtype dtype) {
    KILN_CHECK(combiner != KILN_COMBINE_NONE);
    if (combiner == KILN_COMBINE_SUM) return kiln_expr_const(p, dtype, 0);
    if (combiner == KILN_COMBINE_PROD) return kiln_expr_const(p, dtype, 1);
    /* Casts saturate, so an infinity becomes the lowest or highest value of an integer dtype. */
    if (dtype == KILN_BOOL) return kiln_expr_int(p, dtype, combiner == KILN_COMBINE_MIN);
    return kiln_expr_const(p, dtype, combiner == KILN_COMBINE_MAX ? -INFINITY : INFINITY);
}

const kiln_expr_op kiln_combiner_op[KILN_COMBINE_COUNT] = {
    [KILN_COMBINE_SUM] = KILN_EXPR_ADD,
    [KILN_COMBINE_PROD] = KILN_EXPR_MUL,
    [KILN_COMBINE_MAX] = KILN_EXPR_MAX,
    [KILN_COMBINE_MIN] = KILN_EXPR_MIN,
};

kiln_expr kiln_expr_combine(kiln_program *p, kiln_combiner combiner, kiln_expr a, kiln_expr b) {
    if (combiner == KILN_COMBINE_NONE) return b;
    return kiln_expr_binary(p, kiln_combiner_op[combiner], a, b);
}

/* ---- walks ----------------------------------------------------------------------- */

kiln_expr_memo *kiln_memo_begin(kiln_program *p) {
    KILN_CHECK(p->memo_depth < KILN_MEMO_DEPTH_MAX);
    kiln_expr_memo *memo = &p->memo[p->memo_depth++];
    memo->epoch++;
    return memo;
}

void kiln_memo_end(kiln_program *p) { p->memo_depth--; }

kiln_expr kiln_memo_find(const kiln_expr_memo *memo, kiln_expr e) {
    if (e >= memo->entry.count || memo->entry.data[e].epoch != memo->epoch) return 0;
    return memo->entry.data[e].value;
}

void kiln_memo_put(kiln_program *p, kiln_expr_memo *memo, kiln_expr e, kiln_expr value) {
    if (e >= memo->entry.count) {
        uint32_t old = memo->entry.count;
        if (memo->entry.capacity < p->expr.count)
            memo->entry.data =
                kiln_vec_grow_in(p->arena, memo->entry.data, sizeof *memo->entry.data,
                                 &memo->entry.capacity, p->expr.count);
        memo->entry.count = memo->entry.capacity;
        memset(memo->entry.data + old, 0, (memo->entry.count - old) * sizeof *memo->entry.data);
    }
    memo->entry.data[e].epoch = memo->epoch;
    memo->entry.data[e].value = value;
}

typedef struct rewriting {
    kiln_program *p;
    kiln_expr_memo *memo;
    uint64_t uses;
    kiln_expr_rewriter rewrite;
    void *context;
} rewriting;

static kiln_expr rewrite_node(const rewriting *r, kiln_expr e) {
    if (r->uses && !(r->p->expr.data[e].uses & r->uses)) return e;
    kiln_expr done = kiln_memo_find(r->memo, e);
    if (done) return done;
    uint32_t count = r->p->expr.data[e].operand_count;
    kiln_expr operand[KILN_RANK_MAX];
    KILN_CHECK(count <= KILN_RANK_MAX);
    bool changed = false;
    for (uint32_t i = 0; i < count; i++) {
        kiln_expr old = kiln_expr_operand(r->p, e, i);
        operand[i] = rewrite_node(r, old);
        changed |= operand[i] != old;
    }
    done =
        r->rewrite(r->p, e, changed ? kiln_expr_rebuild(r->p, e, operand, count) : e, r->context);
    kiln_memo_put(r->p, r->memo, e, done);
    return done;
}

kiln_expr kiln_expr_rewrite(kiln_program *p, kiln_expr e, uint64_t uses, kiln_expr_rewriter rewrite,
                            void *context) {
    if (!e) return 0;
    rewriting r = {p, kiln_memo_begin(p), uses, rewrite, context};
    kiln_expr done = rewrite_node(&r, e);
    kiln_memo_end(p);
    return done;
}

typedef struct replaced_node {
    kiln_expr from, to;
} replaced_node;

static kiln_expr replace_node(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const replaced_node *r = context;
    (void)p;
    return e == r->from ? r->to : rebuilt;
}

kiln_expr kiln_expr_replace(kiln_program *p, kiln_expr e, kiln_expr from, kiln_expr to) {
    replaced_node r = {from, to};
    return kiln_expr_rewrite(p, e, p->expr.data[from].uses, replace_node, &r);
}

static kiln_expr replace_var(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const kiln_expr *replacement = context;
    const kiln_expr_node *node = &p->expr.data[e];
    if (node->op != KILN_EXPR_VAR || !replacement[node->payload.id]) return rebuilt;
    return replacement[node->payload.id];
}

kiln_expr kiln_expr_substitute_some(kiln_program *p, kiln_expr e, const kiln_expr *replacement,
                                    uint64_t vars) {
    return kiln_expr_rewrite(p, e, vars, replace_var, (void *)(uintptr_t)replacement);
}

kiln_expr kiln_expr_substitute(kiln_program *p, kiln_expr e, const kiln_expr *replacement) {
    return kiln_expr_substitute_some(p, e, replacement, KILN_USES_VAR);
}

/* The target of a walk: nodes of `op`, with the payload `buffer` unless that is 0. */
typedef struct visiting {
    kiln_program *p;
    kiln_expr_memo *memo;
    kiln_expr_op op;
    kiln_buffer buffer;
    uint64_t uses; /* a bit that such nodes have */
    kiln_expr_visitor visit;
    void *context;
} visiting;

static void visit_node(const visiting *v, kiln_expr e) {
    const kiln_expr_node node = v->p->expr.data[e];
    if (!(node.uses & v->uses) || kiln_memo_find(v->memo, e)) return;
    for (uint32_t i = 0; i < node.operand_count; i++) visit_node(v, kiln_expr_operand(v->p, e, i));
    if (node.op == v->op && (!v->buffer || node.payload.id == v->buffer))
        v->visit(v->p, e, v->context);
    kiln_memo_put(v->p, v->memo, e, e);
}

static void visit_below(visiting v, kiln_expr e) {
    if (!e || !(v.p->expr.data[e].uses & v.uses)) return;
    v.memo = kiln_memo_begin(v.p);
    visit_node(&v, e);
    kiln_memo_end(v.p);
}

void kiln_expr_visit_loads(kiln_program *p, kiln_expr e, kiln_buffer buffer,
                           kiln_expr_visitor visit, void *context) {
    visit_below((visiting){.p = p,
                           .op = KILN_EXPR_LOAD,
                           .buffer = buffer,
                           .uses = buffer ? kiln_uses_load(buffer) : KILN_USES_LOAD,
                           .visit = visit,
                           .context = context},
                e);
}

void kiln_expr_visit_selects(kiln_program *p, kiln_expr e, kiln_expr_visitor visit, void *context) {
    visit_below((visiting){.p = p,
                           .op = KILN_EXPR_SELECT,
                           .uses = KILN_USES_SELECT,
                           .visit = visit,
                           .context = context},
                e);
}

/* Nodes known not to use the variable, by id modulo the size: keeps shared subexpressions cheap
 * without memory that grows with the program. */
#define CLEAN_SLOTS 32

static bool uses_var(const kiln_program *p, kiln_expr e, kiln_var var, kiln_expr *clean) {
    const kiln_expr_node *node = &p->expr.data[e];
    if (node->op == KILN_EXPR_VAR) return node->payload.id == var;
    if (!(node->uses & kiln_uses_var(var)) || clean[e % CLEAN_SLOTS] == e) return false;
    for (uint32_t i = 0; i < node->operand_count; i++)
        if (uses_var(p, kiln_expr_operand(p, e, i), var, clean)) return true;
    clean[e % CLEAN_SLOTS] = e;
    return false;
}

bool kiln_expr_uses_var(const kiln_program *p, kiln_expr e, kiln_var var) {
    kiln_expr clean[CLEAN_SLOTS] = {0};
    return e && uses_var(p, e, var, clean);
}
