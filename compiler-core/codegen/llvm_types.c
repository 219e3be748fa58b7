/* Types, small builders and tables of known values for the LLVM emitter. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/codegen/llvm_emit.h"

LLVMTypeRef kiln_llvm_int(kiln_llvm_emitter *e, unsigned bits) {
    return LLVMIntTypeInContext(e->context, bits);
}
LLVMTypeRef kiln_llvm_ptr(kiln_llvm_emitter *e) { return LLVMPointerTypeInContext(e->context, 0); }
LLVMValueRef kiln_llvm_i64(kiln_llvm_emitter *e, int64_t value) {
    return LLVMConstInt(kiln_llvm_int(e, 64), (unsigned long long)value, true);
}

LLVMTypeRef kiln_llvm_memory_type(kiln_llvm_emitter *e, kiln_dtype dtype) {
    if (dtype == KILN_F32) return LLVMFloatTypeInContext(e->context);
    if (dtype == KILN_F64) return LLVMDoubleTypeInContext(e->context);
    if (dtype == KILN_F16) return LLVMHalfTypeInContext(e->context);
    return kiln_llvm_int(e,
                         8 * (unsigned)kiln_dtype_size(dtype)); /* bf16 as bits, bool as a byte */
}

LLVMTypeRef kiln_llvm_compute_type(kiln_llvm_emitter *e, kiln_dtype dtype) {
    if (dtype == KILN_F16 || dtype == KILN_BF16) return LLVMFloatTypeInContext(e->context);
    if (dtype == KILN_BOOL) return kiln_llvm_int(e, 1);
    return kiln_llvm_memory_type(e, dtype);
}

bool kiln_llvm_is_vector(LLVMValueRef v) {
    return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind;
}

LLVMTypeRef kiln_llvm_scalar_type(LLVMTypeRef type) {
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

LLVMTypeRef kiln_llvm_type_like(LLVMTypeRef scalar, LLVMTypeRef like) {
    return LLVMGetTypeKind(like) == LLVMVectorTypeKind
               ? LLVMVectorType(scalar, LLVMGetVectorSize(like))
               : scalar;
}

static LLVMValueRef splat_constant(LLVMTypeRef type, LLVMValueRef scalar) {
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind) return scalar;
    unsigned lanes = LLVMGetVectorSize(type);
    LLVMValueRef lane[KILN_LOWER_LANES_MAX];
    KILN_CHECK(lanes <= KILN_LOWER_LANES_MAX);
    for (unsigned i = 0; i < lanes; i++) lane[i] = scalar;
    return LLVMConstVector(lane, lanes);
}

LLVMValueRef kiln_llvm_constant(LLVMTypeRef type, double value) {
    return splat_constant(type, LLVMConstReal(kiln_llvm_scalar_type(type), value));
}

LLVMValueRef kiln_llvm_constant_int(LLVMTypeRef type, int64_t value) {
    return splat_constant(
        type, LLVMConstInt(kiln_llvm_scalar_type(type), (unsigned long long)value, true));
}

/* One lane of a vector in all lanes; NULL for values of other origin. */
static LLVMValueRef splat_of_lane(kiln_llvm_emitter *e, LLVMValueRef v, uint32_t lanes) {
    if (e->target->factor_lanes == 1 || !LLVMIsAExtractElementInst(v)) return NULL;
    LLVMValueRef vector = LLVMGetOperand(v, 0), lane = LLVMGetOperand(v, 1);
    if (!LLVMIsAConstantInt(lane)) return NULL;
    LLVMTypeRef i32 = kiln_llvm_int(e, 32);
    LLVMValueRef mask =
        kiln_llvm_constant_int(LLVMVectorType(i32, lanes), LLVMConstIntGetSExtValue(lane));
    return LLVMBuildShuffleVector(e->builder, vector, LLVMGetPoison(LLVMTypeOf(vector)), mask, "");
}

LLVMValueRef kiln_llvm_splat(kiln_llvm_emitter *e, LLVMValueRef v, uint32_t lanes) {
    if (kiln_llvm_is_vector(v)) return v;
    LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(v), lanes);
    if (LLVMIsConstant(v)) return splat_constant(type, v);

    uint64_t key[4] = {UINT64_MAX, (uint64_t)(uintptr_t)v, lanes, 0};
    LLVMValueRef known = kiln_llvm_table_find(&e->loads, key);
    if (known) return known;
    known = splat_of_lane(e, v, lanes);
    if (known) {
        kiln_llvm_table_put(e, &e->loads, key, known);
        return known;
    }
    LLVMValueRef first =
        LLVMBuildInsertElement(e->builder, LLVMGetPoison(type), v, kiln_llvm_i64(e, 0), "");
    LLVMValueRef zeros = LLVMConstNull(LLVMVectorType(kiln_llvm_int(e, 32), lanes));
    known = LLVMBuildShuffleVector(e->builder, first, LLVMGetPoison(type), zeros, "");
    kiln_llvm_table_put(e, &e->loads, key, known);
    return known;
}

void kiln_llvm_match(kiln_llvm_emitter *e, LLVMValueRef *a, LLVMValueRef *b) {
    if (kiln_llvm_is_vector(*a) == kiln_llvm_is_vector(*b)) return;
    LLVMValueRef *scalar = kiln_llvm_is_vector(*a) ? b : a;
    LLVMValueRef *vector = scalar == a ? b : a;
    *scalar = kiln_llvm_splat(e, *scalar, LLVMGetVectorSize(LLVMTypeOf(*vector)));
}

LLVMValueRef kiln_llvm_extract(kiln_llvm_emitter *e, LLVMValueRef v, uint32_t lane) {
    return kiln_llvm_is_vector(v)
               ? LLVMBuildExtractElement(e->builder, v, kiln_llvm_i64(e, lane), "")
               : v;
}

LLVMValueRef kiln_llvm_insert(kiln_llvm_emitter *e, LLVMValueRef v, LLVMValueRef scalar,
                              uint32_t lane) {
    return LLVMBuildInsertElement(e->builder, v, scalar, kiln_llvm_i64(e, lane), "");
}

LLVMValueRef kiln_llvm_ramp(LLVMTypeRef element, uint32_t lanes, int64_t first, int64_t step) {
    LLVMValueRef lane[KILN_LOWER_LANES_MAX];
    KILN_CHECK(lanes <= KILN_LOWER_LANES_MAX);
    for (uint32_t i = 0; i < lanes; i++)
        lane[i] = LLVMConstInt(element, (unsigned long long)(first + step * (int64_t)i), true);
    return LLVMConstVector(lane, lanes);
}

LLVMValueRef kiln_llvm_intrinsic(kiln_llvm_emitter *e, const char *name, LLVMTypeRef *overload,
                                 uint32_t overload_count, LLVMValueRef *arg, uint32_t arg_count) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    KILN_CHECK(id != 0);
    LLVMValueRef callee = LLVMGetIntrinsicDeclaration(e->module, id, overload, overload_count);
    LLVMTypeRef type = LLVMIntrinsicGetType(e->context, id, overload, overload_count);
    return LLVMBuildCall2(e->builder, type, callee, arg, arg_count, "");
}

LLVMValueRef kiln_llvm_unary_intrinsic(kiln_llvm_emitter *e, const char *name, LLVMValueRef a) {
    LLVMTypeRef type = LLVMTypeOf(a);
    return kiln_llvm_intrinsic(e, name, &type, 1, &a, 1);
}

LLVMValueRef kiln_llvm_fma(kiln_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    LLVMTypeRef type = LLVMTypeOf(a);
    return kiln_llvm_intrinsic(e, "llvm.fmuladd", &type, 1, (LLVMValueRef[]){a, b, c}, 3);
}

static LLVMValueRef libm_scalar(kiln_llvm_emitter *e, const char *name, LLVMValueRef *arg,
                                uint32_t arg_count) {
    LLVMTypeRef type = LLVMTypeOf(arg[0]);
    LLVMTypeRef parameter[2] = {type, type};
    LLVMTypeRef function_type = LLVMFunctionType(type, parameter, arg_count, false);
    const char *suffix = LLVMGetTypeKind(type) == LLVMFloatTypeKind ? "f" : "";
    char *symbol = kiln_arena_printf(e->arena, "%s%s", name, suffix);
    LLVMValueRef callee = LLVMGetNamedFunction(e->module, symbol);
    if (!callee) {
        callee = LLVMAddFunction(e->module, symbol, function_type);
        unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);
        LLVMAddAttributeAtIndex(callee, LLVMAttributeFunctionIndex,
                                LLVMCreateEnumAttribute(e->context, nounwind, 0));
    }
    return LLVMBuildCall2(e->builder, function_type, callee, arg, arg_count, "");
}

LLVMValueRef kiln_llvm_libm(kiln_llvm_emitter *e, const char *name, LLVMValueRef *arg,
                            uint32_t arg_count) {
    if (!kiln_llvm_is_vector(arg[0])) return libm_scalar(e, name, arg, arg_count);
    LLVMTypeRef type = LLVMTypeOf(arg[0]);
    LLVMValueRef result = LLVMGetPoison(type);
    for (uint32_t lane = 0; lane < LLVMGetVectorSize(type); lane++) {
        LLVMValueRef scalar[2];
        for (uint32_t i = 0; i < arg_count; i++) scalar[i] = kiln_llvm_extract(e, arg[i], lane);
        result = kiln_llvm_insert(e, result, libm_scalar(e, name, scalar, arg_count), lane);
    }
    return result;
}

/* ---- known values ---------------------------------------------------------------------------- */

static uint32_t key_bucket(const uint64_t key[4]) {
    uint64_t hash = 0;
    for (int i = 0; i < 4; i++) hash = (hash ^ hash >> 31 ^ key[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(hash >> 40) % KILN_LLVM_BUCKETS;
}

LLVMValueRef kiln_llvm_table_find(const kiln_llvm_table *t, const uint64_t key[4]) {
    for (uint32_t i = t->bucket[key_bucket(key)]; i; i = t->entry.data[i].next)
        if (memcmp(t->entry.data[i].key, key, sizeof t->entry.data[i].key) == 0)
            return t->entry.data[i].value;
    return NULL;
}

void kiln_llvm_table_put(kiln_llvm_emitter *e, kiln_llvm_table *t, const uint64_t key[4],
                         LLVMValueRef value) {
    if (t->entry.count == 0) kiln_vec_push_in(e->arena, &t->entry, (kiln_llvm_entry){0});
    uint32_t *bucket = &t->bucket[key_bucket(key)];
    kiln_llvm_entry entry = {.value = value, .next = *bucket};
    memcpy(entry.key, key, sizeof entry.key);
    *bucket = t->entry.count;
    kiln_vec_push_in(e->arena, &t->entry, entry);
}

uint32_t kiln_llvm_table_mark(const kiln_llvm_table *t) { return KILN_MAX(t->entry.count, 1); }

void kiln_llvm_table_pop(kiln_llvm_table *t, uint32_t mark) {
    while (t->entry.count > mark) {
        const kiln_llvm_entry *last = &t->entry.data[--t->entry.count];
        t->bucket[key_bucket(last->key)] = last->next;
    }
}

/* ---- conversions ----------------------------------------------------------------------------- */

static LLVMValueRef bf16_from_bits(kiln_llvm_emitter *e, LLVMValueRef bits) {
    LLVMTypeRef i32 = kiln_llvm_type_like(kiln_llvm_int(e, 32), LLVMTypeOf(bits));
    LLVMValueRef wide = LLVMBuildZExt(e->builder, bits, i32, "");
    wide = LLVMBuildShl(e->builder, wide, kiln_llvm_constant_int(i32, 16), "");
    return LLVMBuildBitCast(e->builder, wide,
                            kiln_llvm_type_like(LLVMFloatTypeInContext(e->context), i32), "");
}

/* Round to nearest, ties to even; a NaN keeps its upper bits and becomes quiet. */
static LLVMValueRef bf16_to_bits(kiln_llvm_emitter *e, LLVMValueRef v) {
    LLVMTypeRef i32 = kiln_llvm_type_like(kiln_llvm_int(e, 32), LLVMTypeOf(v));
    LLVMTypeRef i16 = kiln_llvm_type_like(kiln_llvm_int(e, 16), LLVMTypeOf(v));
    LLVMValueRef bits = LLVMBuildBitCast(e->builder, v, i32, "");
    LLVMValueRef high = LLVMBuildLShr(e->builder, bits, kiln_llvm_constant_int(i32, 16), "");
    LLVMValueRef odd = LLVMBuildAnd(e->builder, high, kiln_llvm_constant_int(i32, 1), "");
    LLVMValueRef rounded = LLVMBuildAdd(e->builder, bits, kiln_llvm_constant_int(i32, 0x7fff), "");
    rounded = LLVMBuildAdd(e->builder, rounded, odd, "");
    rounded = LLVMBuildLShr(e->builder, rounded, kiln_llvm_constant_int(i32, 16), "");
    LLVMValueRef quiet = LLVMBuildOr(e->builder, high, kiln_llvm_constant_int(i32, 0x40), "");
    LLVMValueRef is_nan = LLVMBuildFCmp(e->builder, LLVMRealUNO, v, v, "");
    return LLVMBuildTrunc(e->builder, LLVMBuildSelect(e->builder, is_nan, quiet, rounded, ""), i16,
                          "");
}

LLVMValueRef kiln_llvm_from_memory(kiln_llvm_emitter *e, kiln_dtype dtype, LLVMValueRef v) {
    if (dtype == KILN_BF16) return bf16_from_bits(e, v);
    LLVMTypeRef type = kiln_llvm_type_like(kiln_llvm_compute_type(e, dtype), LLVMTypeOf(v));
    if (dtype == KILN_F16) return LLVMBuildFPExt(e->builder, v, type, "");
    if (dtype == KILN_BOOL)
        return LLVMBuildICmp(e->builder, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
    return v;
}

LLVMValueRef kiln_llvm_to_memory(kiln_llvm_emitter *e, kiln_dtype dtype, LLVMValueRef v) {
    if (dtype == KILN_BF16) return bf16_to_bits(e, v);
    LLVMTypeRef type = kiln_llvm_type_like(kiln_llvm_memory_type(e, dtype), LLVMTypeOf(v));
    if (dtype == KILN_F16) return LLVMBuildFPTrunc(e->builder, v, type, "");
    if (dtype == KILN_BOOL) return LLVMBuildZExt(e->builder, v, type, "");
    return v;
}

static LLVMValueRef cast_to_float(kiln_llvm_emitter *e, kiln_dtype from, kiln_dtype to,
                                  LLVMValueRef v) {
    LLVMTypeRef type = kiln_llvm_type_like(kiln_llvm_compute_type(e, to), LLVMTypeOf(v));
    kiln_dtype_kind kind = kiln_dtype_kind_of(from);
    if (kind == KILN_KIND_INT)
        v = LLVMBuildSIToFP(e->builder, v, type, "");
    else if (kind != KILN_KIND_FLOAT)
        v = LLVMBuildUIToFP(e->builder, v, type, "");
    else
        v = LLVMBuildFPCast(e->builder, v, type, "");
    if (to != KILN_F16 && to != KILN_BF16) return v;
    return kiln_llvm_from_memory(e, to, kiln_llvm_to_memory(e, to, v)); /* a cast rounds */
}

LLVMValueRef kiln_llvm_cast(kiln_llvm_emitter *e, kiln_dtype from, kiln_dtype to, LLVMValueRef v) {
    if (from == to) return v;
    if (kiln_dtype_is_float(to)) return cast_to_float(e, from, to, v);
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(v));
    if (to == KILN_BOOL) {
        return kiln_dtype_is_float(from) ? LLVMBuildFCmp(e->builder, LLVMRealUNE, v, zero, "")
                                         : LLVMBuildICmp(e->builder, LLVMIntNE, v, zero, "");
    }
    LLVMTypeRef type = kiln_llvm_type_like(kiln_llvm_compute_type(e, to), LLVMTypeOf(v));
    if (kiln_dtype_is_float(from)) {
        const char *name =
            kiln_dtype_kind_of(to) == KILN_KIND_INT ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
        return kiln_llvm_intrinsic(e, name, (LLVMTypeRef[]){type, LLVMTypeOf(v)}, 2, &v, 1);
    }
    return LLVMBuildIntCast2(e->builder, v, type, kiln_dtype_kind_of(from) == KILN_KIND_INT, "");
}
