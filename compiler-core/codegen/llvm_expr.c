/* Values of expressions: dispatch by operator, integer semantics of exprs.def, lane conditions,
 * selects. */
#include "base/check.h"
#include "compiler-core/codegen/llvm_emit.h"

/* ---- control --------------------------------------------------------------------------------- */

/* Emits one side in its own block; what becomes known there is forgotten afterwards. */
static LLVMValueRef emit_side(kiln_llvm_emitter *e, kiln_llvm_side side, void *context,
                              LLVMBasicBlockRef block) {
    LLVMPositionBuilderAtEnd(e->builder, block);
    uint32_t mark = kiln_llvm_table_mark(&e->loads), stamp = e->stamp;
    e->stamp = ++e->last_stamp;
    LLVMValueRef v = side ? side(e, context) : NULL;
    e->stamp = stamp;
    kiln_llvm_table_pop(&e->loads, mark);
    return v;
}

LLVMValueRef kiln_llvm_branch(kiln_llvm_emitter *e, LLVMValueRef condition,
                              kiln_llvm_side then_side, kiln_llvm_side else_side, void *context) {
    LLVMBasicBlockRef then_block = LLVMAppendBasicBlockInContext(e->context, e->function, "");
    LLVMBasicBlockRef else_block =
        else_side ? LLVMAppendBasicBlockInContext(e->context, e->function, "") : NULL;
    LLVMBasicBlockRef join = LLVMAppendBasicBlockInContext(e->context, e->function, "");
    LLVMBuildCondBr(e->builder, condition, then_block, else_block ? else_block : join);

    LLVMValueRef value[2] = {emit_side(e, then_side, context, then_block), NULL};
    LLVMBasicBlockRef end[2] = {LLVMGetInsertBlock(e->builder), NULL};
    if (else_block) {
        LLVMBuildBr(e->builder, join);
        value[1] = emit_side(e, else_side, context, else_block);
        end[1] = LLVMGetInsertBlock(e->builder);
        /* One side may be uniform where the other has lanes: the narrower is widened before it
         * leaves. */
        if (value[0] && kiln_llvm_is_vector(value[0]) != kiln_llvm_is_vector(value[1])) {
            uint32_t narrow = kiln_llvm_is_vector(value[0]) ? 1 : 0,
                     mark = kiln_llvm_table_mark(&e->loads);
            if (narrow == 1)
                LLVMPositionBuilderAtEnd(e->builder, end[1]);
            else
                LLVMPositionBuilderBefore(e->builder, LLVMGetBasicBlockTerminator(end[0]));
            value[narrow] = kiln_llvm_splat(e, value[narrow], e->lanes);
            kiln_llvm_table_pop(&e->loads, mark);
            LLVMPositionBuilderAtEnd(e->builder, end[1]);
        }
    }
    LLVMBuildBr(e->builder, join);
    LLVMPositionBuilderAtEnd(e->builder, join);
    if (!else_block || !value[0]) return NULL;
    LLVMValueRef phi = LLVMBuildPhi(e->builder, LLVMTypeOf(value[0]), "");
    LLVMAddIncoming(phi, value, end, 2);
    return phi;
}

/* Whether evaluating `expr` could touch memory that is not the buffer's. */
static bool is_safe(kiln_llvm_emitter *e, kiln_expr expr) {
    const kiln_expr_node *node = kiln_expr_get(e->p, expr);
    if (node->op == KILN_EXPR_LOAD && !kiln_llvm_load_is_safe(e, expr)) return false;
    uint32_t count = kiln_expr_get(e->p, expr)->operand_count;
    for (uint32_t i = 0; i < count; i++)
        if (!is_safe(e, kiln_expr_operand(e->p, expr, i))) return false;
    return true;
}

static LLVMValueRef first_side(kiln_llvm_emitter *e, void *context) {
    return kiln_llvm_expr(e, ((kiln_expr *)context)[0]);
}
static LLVMValueRef second_side(kiln_llvm_emitter *e, void *context) {
    return kiln_llvm_expr(e, ((kiln_expr *)context)[1]);
}

/* Evaluates one side of a select for the lanes in `lanes_mask` only. */
static LLVMValueRef masked_side(kiln_llvm_emitter *e, kiln_expr side, LLVMValueRef lanes_mask) {
    if (is_safe(e, side)) return kiln_llvm_expr(e, side);
    LLVMValueRef outer = e->mask;
    uint32_t stamp = e->stamp;
    e->mask = outer ? LLVMBuildAnd(e->builder, outer, lanes_mask, "") : lanes_mask;
    e->stamp = ++e->last_stamp; /* values of masked loads are for this mask only */
    LLVMValueRef v = kiln_llvm_expr(e, side);
    e->stamp = stamp;
    e->mask = outer;
    return v;
}

static LLVMValueRef emit_select(kiln_llvm_emitter *e, kiln_expr expr) {
    kiln_expr side[2] = {kiln_expr_operand(e->p, expr, 1), kiln_expr_operand(e->p, expr, 2)};
    LLVMValueRef condition = kiln_llvm_expr(e, kiln_expr_operand(e->p, expr, 0));
    if (LLVMIsAConstantInt(condition))
        return kiln_llvm_expr(e, side[LLVMConstIntGetZExtValue(condition) ? 0 : 1]);

    LLVMValueRef a, b;
    if (kiln_llvm_is_vector(condition)) {
        a = masked_side(e, side[0], condition);
        b = masked_side(e, side[1], LLVMBuildNot(e->builder, condition, ""));
        a = kiln_llvm_splat(e, a, e->lanes);
        b = kiln_llvm_splat(e, b, e->lanes);
    } else if (is_safe(e, side[0]) && is_safe(e, side[1])) {
        a = kiln_llvm_expr(e, side[0]);
        b = kiln_llvm_expr(e, side[1]);
        kiln_llvm_match(e, &a, &b);
    } else {
        return kiln_llvm_branch(e, condition, first_side, second_side, side);
    }
    return LLVMBuildSelect(e->builder, condition, a, b, "");
}

/* ---- integers -------------------------------------------------------------------------------- */

static LLVMValueRef select_zero(kiln_llvm_emitter *e, LLVMValueRef is_zero, LLVMValueRef v) {
    return LLVMBuildSelect(e->builder, is_zero, LLVMConstNull(LLVMTypeOf(v)), v, "");
}

/* Quotient and remainder towards zero; x / 0 = x rem 0 = 0, and the lowest value / -1 wraps. */
static void divide(kiln_llvm_emitter *e, bool is_signed, LLVMValueRef a, LLVMValueRef b,
                   LLVMValueRef *quotient, LLVMValueRef *remainder) {
    LLVMBuilderRef builder = e->builder;
    LLVMTypeRef type = LLVMTypeOf(b);
    LLVMValueRef one = kiln_llvm_constant_int(type, 1), minus = kiln_llvm_constant_int(type, -1);
    LLVMValueRef is_zero = LLVMBuildICmp(builder, LLVMIntEQ, b, LLVMConstNull(type), "");
    LLVMValueRef is_minus = LLVMBuildICmp(builder, LLVMIntEQ, b, minus, "");
    LLVMValueRef odd = is_signed ? LLVMBuildOr(builder, is_zero, is_minus, "") : is_zero;
    LLVMValueRef divisor = LLVMBuildSelect(builder, odd, one, b, "");
    LLVMValueRef q =
        is_signed ? LLVMBuildSDiv(builder, a, divisor, "") : LLVMBuildUDiv(builder, a, divisor, "");
    LLVMValueRef r =
        is_signed ? LLVMBuildSRem(builder, a, divisor, "") : LLVMBuildURem(builder, a, divisor, "");
    if (is_signed) q = LLVMBuildSelect(builder, is_minus, LLVMBuildNeg(builder, a, ""), q, "");
    *quotient = select_zero(e, is_zero, q);
    *remainder = r; /* x rem 1 = 0 stands for both odd divisors */
}

/* Division of indices: the divisor is a positive constant, and the dividend is often known not to
 * be negative. */
static LLVMValueRef index_divide(kiln_llvm_emitter *e, kiln_expr expr, LLVMValueRef a,
                                 int64_t divisor) {
    LLVMTypeRef type = LLVMTypeOf(a);
    bool quotient = kiln_expr_get(e->p, expr)->op == KILN_EXPR_FLOORDIV;
    if ((divisor & (divisor - 1)) == 0) {
        LLVMValueRef bits = kiln_llvm_constant_int(
            type, quotient ? __builtin_ctzll((uint64_t)divisor) : divisor - 1);
        return quotient ? LLVMBuildAShr(e->builder, a, bits, "")
                        : LLVMBuildAnd(e->builder, a, bits, "");
    }
    LLVMValueRef b = kiln_llvm_constant_int(type, divisor);
    if (kiln_expr_bounds(e->p, kiln_expr_operand(e->p, expr, 0), NULL).low >= 0)
        return quotient ? LLVMBuildUDiv(e->builder, a, b, "") : LLVMBuildURem(e->builder, a, b, "");
    LLVMValueRef r = LLVMBuildSRem(e->builder, a, b, "");
    LLVMValueRef negative = LLVMBuildICmp(e->builder, LLVMIntSLT, r, LLVMConstNull(type), "");
    if (!quotient)
        return LLVMBuildSelect(e->builder, negative, LLVMBuildAdd(e->builder, r, b, ""), r, "");
    LLVMValueRef q = LLVMBuildSDiv(e->builder, a, b, "");
    return LLVMBuildAdd(e->builder, q, LLVMBuildSExt(e->builder, negative, type, ""), "");
}

static LLVMValueRef integer_divide(kiln_llvm_emitter *e, kiln_expr expr, bool is_signed,
                                   LLVMValueRef a, LLVMValueRef b) {
    const kiln_expr_node *node = kiln_expr_get(e->p, expr);
    bool floors = node->op == KILN_EXPR_FLOORDIV || node->op == KILN_EXPR_FLOORMOD;
    int64_t divisor;
    if (floors && node->dtype == KILN_INDEX_DTYPE &&
        kiln_expr_as_int(e->p, kiln_expr_operand(e->p, expr, 1), &divisor) && divisor > 0)
        return index_divide(e, expr, a, divisor);

    LLVMValueRef q, r;
    divide(e, is_signed, a, b, &q, &r);
    if (floors && is_signed) {
        LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(a));
        LLVMValueRef differ =
            LLVMBuildICmp(e->builder, LLVMIntSLT, LLVMBuildXor(e->builder, a, b, ""), zero, "");
        LLVMValueRef inexact = LLVMBuildICmp(e->builder, LLVMIntNE, r, zero, "");
        LLVMValueRef adjust = LLVMBuildAnd(e->builder, differ, inexact, "");
        q = LLVMBuildAdd(e->builder, q, LLVMBuildSExt(e->builder, adjust, LLVMTypeOf(a), ""), "");
        r = LLVMBuildSelect(e->builder, adjust, LLVMBuildAdd(e->builder, r, b, ""), r, "");
    }
    return node->op == KILN_EXPR_DIV || node->op == KILN_EXPR_FLOORDIV ? q : r;
}

static LLVMValueRef integer_shift(kiln_llvm_emitter *e, kiln_expr_op op, bool is_signed,
                                  LLVMValueRef a, LLVMValueRef amount) {
    unsigned width = LLVMGetIntTypeWidth(kiln_llvm_scalar_type(LLVMTypeOf(a)));
    LLVMValueRef limit = kiln_llvm_constant_int(LLVMTypeOf(a), width);
    LLVMValueRef too_far = LLVMBuildICmp(e->builder, LLVMIntUGE, amount, limit, "");
    LLVMValueRef v = op == KILN_EXPR_SHL ? LLVMBuildShl(e->builder, a, amount, "")
                     : is_signed         ? LLVMBuildAShr(e->builder, a, amount, "")
                                         : LLVMBuildLShr(e->builder, a, amount, "");
    return select_zero(e, too_far, v);
}

/* Square and multiply over all bits of the exponent. A negative exponent gives 0 but for bases 1
 * and -1. */
static LLVMValueRef integer_pow(kiln_llvm_emitter *e, bool is_signed, LLVMValueRef base,
                                LLVMValueRef exponent) {
    LLVMBuilderRef builder = e->builder;
    LLVMTypeRef type = LLVMTypeOf(base);
    LLVMValueRef one = kiln_llvm_constant_int(type, 1), minus = kiln_llvm_constant_int(type, -1),
                 zero = LLVMConstNull(type);
    LLVMValueRef odd =
        LLVMBuildICmp(builder, LLVMIntNE, LLVMBuildAnd(builder, exponent, one, ""), zero, "");
    LLVMValueRef is_negative = LLVMBuildICmp(builder, LLVMIntSLT, exponent, zero, "");
    LLVMValueRef is_one = LLVMBuildICmp(builder, LLVMIntEQ, base, one, "");
    LLVMValueRef is_minus = LLVMBuildICmp(builder, LLVMIntEQ, base, minus, "");

    LLVMValueRef result = one, square = base, bits = exponent;
    for (unsigned i = 0; i < LLVMGetIntTypeWidth(kiln_llvm_scalar_type(type)); i++) {
        LLVMValueRef set =
            LLVMBuildICmp(builder, LLVMIntNE, LLVMBuildAnd(builder, bits, one, ""), zero, "");
        result =
            LLVMBuildSelect(builder, set, LLVMBuildMul(builder, result, square, ""), result, "");
        square = LLVMBuildMul(builder, square, square, "");
        bits = LLVMBuildLShr(builder, bits, one, "");
    }
    if (!is_signed) return result;
    LLVMValueRef unit = LLVMBuildSelect(builder, odd, minus, one, "");
    LLVMValueRef inverse = LLVMBuildSelect(builder, is_minus, unit, zero, "");
    inverse = LLVMBuildSelect(builder, is_one, one, inverse, "");
    return LLVMBuildSelect(builder, is_negative, inverse, result, "");
}

static LLVMValueRef integer_operator(kiln_llvm_emitter *e, kiln_expr expr, bool is_signed,
                                     LLVMValueRef *v) {
    LLVMBuilderRef builder = e->builder;
    kiln_expr_op op = kiln_expr_get(e->p, expr)->op;
    LLVMValueRef less;
    switch (op) {
    case KILN_EXPR_ADD: return LLVMBuildAdd(builder, v[0], v[1], "");
    case KILN_EXPR_SUB: return LLVMBuildSub(builder, v[0], v[1], "");
    case KILN_EXPR_MUL: return LLVMBuildMul(builder, v[0], v[1], "");
    case KILN_EXPR_DIV:
    case KILN_EXPR_REM:
    case KILN_EXPR_FLOORDIV:
    case KILN_EXPR_FLOORMOD: return integer_divide(e, expr, is_signed, v[0], v[1]);
    case KILN_EXPR_MIN:
    case KILN_EXPR_MAX:
        less = LLVMBuildICmp(builder, is_signed ? LLVMIntSLT : LLVMIntULT, v[0], v[1], "");
        return op == KILN_EXPR_MIN ? LLVMBuildSelect(builder, less, v[0], v[1], "")
                                   : LLVMBuildSelect(builder, less, v[1], v[0], "");
    case KILN_EXPR_POW: return integer_pow(e, is_signed, v[0], v[1]);
    case KILN_EXPR_AND: return LLVMBuildAnd(builder, v[0], v[1], "");
    case KILN_EXPR_OR: return LLVMBuildOr(builder, v[0], v[1], "");
    case KILN_EXPR_XOR: return LLVMBuildXor(builder, v[0], v[1], "");
    case KILN_EXPR_SHL:
    case KILN_EXPR_SHR: return integer_shift(e, op, is_signed, v[0], v[1]);
    case KILN_EXPR_NOT: return LLVMBuildNot(builder, v[0], "");
    case KILN_EXPR_NEG: return LLVMBuildNeg(builder, v[0], "");
    case KILN_EXPR_ABS:
        if (!is_signed) return v[0];
        less = LLVMBuildICmp(builder, LLVMIntSLT, v[0], LLVMConstNull(LLVMTypeOf(v[0])), "");
        return LLVMBuildSelect(builder, less, LLVMBuildNeg(builder, v[0], ""), v[0], "");
    case KILN_EXPR_FLOOR:
    case KILN_EXPR_CEIL:
    case KILN_EXPR_ROUND: return v[0];
    default: break;
    }
    KILN_CHECK(op == KILN_EXPR_OP_COUNT); /* no such integer operator */
    return NULL;
}

/* ---- comparisons ----------------------------------------------------------------------------- */

static LLVMValueRef emit_compare(kiln_llvm_emitter *e, kiln_expr_op op, kiln_dtype dtype,
                                 LLVMValueRef a, LLVMValueRef b) {
    static const LLVMRealPredicate real[] = {LLVMRealOLT, LLVMRealOLE, LLVMRealOEQ, LLVMRealUNE};
    static const LLVMIntPredicate with_sign[] = {LLVMIntSLT, LLVMIntSLE, LLVMIntEQ, LLVMIntNE};
    static const LLVMIntPredicate without[] = {LLVMIntULT, LLVMIntULE, LLVMIntEQ, LLVMIntNE};
    _Static_assert(KILN_EXPR_LE == KILN_EXPR_LT + 1 && KILN_EXPR_EQ == KILN_EXPR_LT + 2 &&
                       KILN_EXPR_NE == KILN_EXPR_LT + 3,
                   "the tables above are in the order of exprs.def");
    uint32_t row = op - KILN_EXPR_LT;
    if (kiln_dtype_is_float(dtype)) return LLVMBuildFCmp(e->builder, real[row], a, b, "");
    bool is_signed = kiln_dtype_kind_of(dtype) == KILN_KIND_INT;
    return LLVMBuildICmp(e->builder, is_signed ? with_sign[row] : without[row], a, b, "");
}

/* Comparisons of indices that differ between lanes decide masks: done in 32 bits where the
 * difference fits, as (uniform part) + stride * lane against 0. NULL: not of that form. */
static LLVMValueRef lane_compare(kiln_llvm_emitter *e, kiln_expr expr) {
    kiln_expr a = kiln_expr_operand(e->p, expr, 0), b = kiln_expr_operand(e->p, expr, 1);
    if (e->lanes == 0 || kiln_expr_get(e->p, a)->dtype != KILN_INDEX_DTYPE ||
        !kiln_expr_uses_var(e->p, expr, e->lane_var))
        return NULL;
    kiln_expr_op op = kiln_expr_get(e->p, expr)->op;
    kiln_expr difference = kiln_expr_binary(e->p, KILN_EXPR_SUB, a, b);
    kiln_interval bounds = kiln_expr_bounds(e->p, difference, NULL);
    kiln_affine affine;
    if (bounds.low < INT32_MIN || bounds.high > INT32_MAX ||
        !kiln_affine_of(e->p, difference, NULL, &affine))
        return NULL;
    LLVMValueRef base;
    int64_t constant, stride;
    if (!kiln_llvm_linear(e, &affine, &base, &constant, &stride) || stride == 0) return NULL;

    LLVMTypeRef i32 = kiln_llvm_int(e, 32);
    LLVMValueRef v = kiln_llvm_ramp(i32, e->lanes, constant, stride);
    if (base)
        v = LLVMBuildAdd(e->builder,
                         kiln_llvm_splat(e, LLVMBuildTrunc(e->builder, base, i32, ""), e->lanes), v,
                         "");
    return emit_compare(e, op, KILN_I32, v, LLVMConstNull(LLVMTypeOf(v)));
}

/* ---- dispatch -------------------------------------------------------------------------------- */

LLVMValueRef kiln_llvm_operator(kiln_llvm_emitter *e, kiln_expr expr, LLVMValueRef *v) {
    const kiln_expr_node *node = kiln_expr_get(e->p, expr);
    kiln_expr_op op = node->op;
    kiln_dtype from = kiln_expr_get(e->p, kiln_expr_operand(e->p, expr, 0))->dtype;
    bool is_float = kiln_dtype_is_float(from);
    if (node->operand_count == 2) kiln_llvm_match(e, &v[0], &v[1]);
    if (op == KILN_EXPR_CAST) return kiln_llvm_cast(e, from, node->dtype, v[0]);
    if (op == KILN_EXPR_LT || op == KILN_EXPR_LE || op == KILN_EXPR_EQ || op == KILN_EXPR_NE)
        return emit_compare(e, op, from, v[0], v[1]);
    if (is_float) return kiln_llvm_math(e, op, v);
    if (op == KILN_EXPR_ISNAN || op == KILN_EXPR_ISINF)
        return kiln_llvm_constant_int(kiln_llvm_type_like(kiln_llvm_int(e, 1), LLVMTypeOf(v[0])),
                                      0);
    return integer_operator(e, expr, kiln_dtype_kind_of(from) == KILN_KIND_INT, v);
}

static LLVMValueRef emit_var(kiln_llvm_emitter *e, kiln_var var) {
    const kiln_llvm_slot *slot = &e->slot[var];
    KILN_CHECK(slot->binding != KILN_LLVM_UNBOUND);
    if (slot->binding == KILN_LLVM_SERIAL) return slot->value;
    if (slot->binding == KILN_LLVM_LANES)
        return kiln_llvm_ramp(kiln_llvm_int(e, 64), e->lanes, slot->constant, 1);
    return kiln_llvm_i64(e, slot->constant);
}

/* and, or: the second operand is not needed when the first is a constant that decides. */
static LLVMValueRef emit_bool(kiln_llvm_emitter *e, kiln_expr expr) {
    bool is_and = kiln_expr_get(e->p, expr)->op == KILN_EXPR_AND;
    LLVMValueRef v[2] = {kiln_llvm_expr(e, kiln_expr_operand(e->p, expr, 0)), NULL};
    if (LLVMIsAConstantInt(v[0]) && (LLVMConstIntGetZExtValue(v[0]) != 0) != is_and) return v[0];
    v[1] = kiln_llvm_expr(e, kiln_expr_operand(e->p, expr, 1));
    return kiln_llvm_operator(e, expr, v);
}

static LLVMValueRef evaluate(kiln_llvm_emitter *e, kiln_expr expr) {
    const kiln_expr_node *node = kiln_expr_get(e->p, expr);
    LLVMTypeRef type = kiln_llvm_compute_type(e, node->dtype);
    LLVMValueRef operand[2];
    switch ((kiln_expr_op)node->op) {
    case KILN_EXPR_INT: return LLVMConstInt(type, (unsigned long long)node->payload.i, true);
    case KILN_EXPR_FLOAT: return LLVMConstReal(type, node->payload.f);
    case KILN_EXPR_VAR: return emit_var(e, node->payload.id);
    case KILN_EXPR_LOAD: return kiln_llvm_load(e, expr);
    case KILN_EXPR_SELECT: return emit_select(e, expr);
    case KILN_EXPR_AND:
    case KILN_EXPR_OR:
        if (node->dtype == KILN_BOOL) return emit_bool(e, expr);
        break;
    case KILN_EXPR_LT:
    case KILN_EXPR_LE:
    case KILN_EXPR_EQ:
    case KILN_EXPR_NE:
        operand[0] = lane_compare(e, expr);
        if (operand[0]) return operand[0];
        break;
    default: break;
    }
    uint32_t count = kiln_expr_get(e->p, expr)->operand_count;
    KILN_CHECK(count <= 2);
    for (uint32_t i = 0; i < count; i++)
        operand[i] = kiln_llvm_expr(e, kiln_expr_operand(e->p, expr, i));
    return kiln_llvm_operator(e, expr, operand);
}

LLVMValueRef kiln_llvm_expr(kiln_llvm_emitter *e, kiln_expr expr) {
    while (e->memo.count <= expr) {
        kiln_vec_push_in(e->arena, &e->memo, NULL);
        kiln_vec_push_in(e->arena, &e->memo_stamp, 0);
    }
    if (e->memo_stamp.data[expr] == e->stamp) return e->memo.data[expr];
    LLVMValueRef v = evaluate(e, expr);
    if (e->memo.count <= expr) return v;
    e->memo.data[expr] = v;
    e->memo_stamp.data[expr] = e->stamp;
    return v;
}
