/* Values over LLVM's C API: types, constants, instructions, lanes, memory. */
#include "compiler-core/codegen/llvm_builder.h"

#include <string.h>

#include "base/check.h"
#include "compiler-core/lower/lower.h"

static kiln_llvm_builder *of(kiln_builder *b) { return (kiln_llvm_builder *)b; }
static LLVMValueRef in(kiln_ssa v) { return (LLVMValueRef)v; }
static kiln_ssa out(LLVMValueRef v) { return (kiln_ssa)v; }

/* ---- types ----------------------------------------------------------------------------------- */

/* Address spaces have the same numbers on all machines that have more than one. */
static const unsigned space_number[] = {[KILN_SPACE_HOST] = 0,
                                        [KILN_SPACE_GLOBAL] = 1,
                                        [KILN_SPACE_SHARED] = 3,
                                        [KILN_SPACE_LOCAL] = 5};

LLVMTypeRef kiln_llvm_pointer(const kiln_llvm_builder *b, kiln_ssa_space space) {
    return LLVMPointerTypeInContext(b->context, space_number[space]);
}

static LLVMTypeRef scalar_type(const kiln_llvm_builder *b, kiln_ssa_scalar scalar) {
    switch (scalar) {
    case KILN_SSA_BOOL:
    case KILN_SSA_I8:
    case KILN_SSA_I16:
    case KILN_SSA_I32:
    case KILN_SSA_I64: return LLVMIntTypeInContext(b->context, kiln_ssa_scalar_bits(scalar));
    case KILN_SSA_F16: return LLVMHalfTypeInContext(b->context);
    case KILN_SSA_F32: return LLVMFloatTypeInContext(b->context);
    case KILN_SSA_F64: return LLVMDoubleTypeInContext(b->context);
    case KILN_SSA_POINTER: break;
    }
    return kiln_llvm_pointer(b, KILN_SPACE_HOST);
}

LLVMTypeRef kiln_llvm_type(const kiln_llvm_builder *b, kiln_ssa_type type) {
    LLVMTypeRef scalar = type.scalar == KILN_SSA_POINTER ? kiln_llvm_pointer(b, type.space)
                                                         : scalar_type(b, type.scalar);
    return type.lanes ? LLVMVectorType(scalar, type.lanes) : scalar;
}

static bool is_vector(LLVMTypeRef type) { return LLVMGetTypeKind(type) == LLVMVectorTypeKind; }

static kiln_ssa_scalar integer_of(unsigned bits) {
    return bits == 1    ? KILN_SSA_BOOL
           : bits == 8  ? KILN_SSA_I8
           : bits == 16 ? KILN_SSA_I16
           : bits == 32 ? KILN_SSA_I32
                        : KILN_SSA_I64;
}

static kiln_ssa_space space_of(unsigned number) {
    kiln_ssa_space space = KILN_SPACE_HOST;
    while (space_number[space] != number) space++;
    return space;
}

static kiln_ssa_type type_of(kiln_builder *b, kiln_ssa v) {
    LLVMTypeRef type = LLVMTypeOf(in(v)),
                scalar = is_vector(type) ? LLVMGetElementType(type) : type;
    kiln_ssa_type found =
        kiln_type_vector(KILN_SSA_POINTER, is_vector(type) ? LLVMGetVectorSize(type) : 0);
    (void)b;
    LLVMTypeKind kind = LLVMGetTypeKind(scalar);
    if (kind == LLVMPointerTypeKind) found.space = space_of(LLVMGetPointerAddressSpace(scalar));
    if (kind == LLVMIntegerTypeKind) found.scalar = integer_of(LLVMGetIntTypeWidth(scalar));
    if (kind == LLVMHalfTypeKind) found.scalar = KILN_SSA_F16;
    if (kind == LLVMFloatTypeKind) found.scalar = KILN_SSA_F32;
    if (kind == LLVMDoubleTypeKind) found.scalar = KILN_SSA_F64;
    return found;
}

/* ---- constants ------------------------------------------------------------------------------- */

static LLVMValueRef splat_constant(LLVMValueRef scalar, uint32_t lanes) {
    LLVMValueRef lane[KILN_LOWER_LANES_MAX];
    if (!lanes) return scalar;
    KILN_CHECK(lanes <= KILN_LOWER_LANES_MAX);
    for (uint32_t i = 0; i < lanes; i++) lane[i] = scalar;
    return LLVMConstVector(lane, lanes);
}

static kiln_ssa integer(kiln_builder *b, kiln_ssa_type type, int64_t value) {
    LLVMTypeRef scalar = scalar_type(of(b), type.scalar);
    return out(splat_constant(LLVMConstInt(scalar, (unsigned long long)value, true), type.lanes));
}

static kiln_ssa real(kiln_builder *b, kiln_ssa_type type, double value) {
    return out(splat_constant(LLVMConstReal(scalar_type(of(b), type.scalar), value), type.lanes));
}

static kiln_ssa zero(kiln_builder *b, kiln_ssa_type type) {
    return out(LLVMConstNull(kiln_llvm_type(of(b), type)));
}

static kiln_ssa ramp(kiln_builder *b, kiln_ssa_type type, int64_t first, int64_t step) {
    LLVMTypeRef scalar = scalar_type(of(b), type.scalar);
    LLVMValueRef lane[KILN_LOWER_LANES_MAX];
    KILN_CHECK(type.lanes <= KILN_LOWER_LANES_MAX);
    for (uint32_t i = 0; i < type.lanes; i++)
        lane[i] = LLVMConstInt(scalar, (unsigned long long)(first + step * (int64_t)i), true);
    return out(LLVMConstVector(lane, type.lanes));
}

static kiln_ssa poison(kiln_builder *b, kiln_ssa_type type) {
    return out(LLVMGetPoison(kiln_llvm_type(of(b), type)));
}

static bool is_constant(kiln_builder *b, kiln_ssa v) {
    (void)b;
    return LLVMIsConstant(in(v));
}

static bool known_integer(kiln_builder *b, kiln_ssa v, int64_t *out_value) {
    (void)b;
    if (!LLVMIsAConstantInt(in(v))) return false;
    *out_value = LLVMConstIntGetSExtValue(in(v));
    return true;
}

static bool known_mask(kiln_builder *b, kiln_ssa mask, bool wanted) {
    (void)b;
    if (!LLVMIsConstant(in(mask))) return false;
    return wanted ? in(mask) == LLVMConstAllOnes(LLVMTypeOf(in(mask))) : LLVMIsNull(in(mask));
}

/* ---- instructions ---------------------------------------------------------------------------- */

LLVMValueRef kiln_llvm_intrinsic(kiln_llvm_builder *b, const char *name, LLVMTypeRef *overload,
                                 uint32_t overload_count, LLVMValueRef *arg, uint32_t arg_count) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    KILN_CHECK(id != 0);
    LLVMValueRef callee = LLVMGetIntrinsicDeclaration(b->module, id, overload, overload_count);
    LLVMTypeRef type = LLVMIntrinsicGetType(b->context, id, overload, overload_count);
    return LLVMBuildCall2(b->builder, type, callee, arg, arg_count, "");
}

static const struct instruction_row {
    kiln_build_class what;
    int number; /* opcode or predicate */
    const char *name;
} instruction_table[] = {
#define ROW_INT(x) x, NULL
#define ROW_FLOAT(x) x, NULL
#define ROW_INT_COMPARE(x) x, NULL
#define ROW_FLOAT_COMPARE(x) x, NULL
#define ROW_NEGATE(x) x, NULL
#define ROW_CALL1(x) 0, x
#define ROW_CALL2(x) 0, x
#define X(name, class, llvm, c) {KILN_BUILDS_##class, ROW_##class(llvm)},
#include "compiler-core/codegen/instructions.def"
#undef X
};

static kiln_ssa compute(kiln_builder *base, kiln_build_op what, kiln_ssa first, kiln_ssa second) {
    kiln_llvm_builder *b = of(base);
    const struct instruction_row *row = &instruction_table[what];
    LLVMValueRef arg[] = {in(first), in(second)};
    LLVMTypeRef type = LLVMTypeOf(arg[0]);
    LLVMValueRef v = NULL;
    switch (row->what) {
    case KILN_BUILDS_INT:
    case KILN_BUILDS_FLOAT:
        v = LLVMBuildBinOp(b->builder, (LLVMOpcode)row->number, arg[0], arg[1], "");
        break;
    case KILN_BUILDS_INT_COMPARE:
        v = LLVMBuildICmp(b->builder, (LLVMIntPredicate)row->number, arg[0], arg[1], "");
        break;
    case KILN_BUILDS_FLOAT_COMPARE:
        v = LLVMBuildFCmp(b->builder, (LLVMRealPredicate)row->number, arg[0], arg[1], "");
        break;
    case KILN_BUILDS_NEGATE: v = LLVMBuildFNeg(b->builder, arg[0], ""); break;
    case KILN_BUILDS_CALL1: v = kiln_llvm_intrinsic(b, row->name, &type, 1, arg, 1); break;
    case KILN_BUILDS_CALL2: v = kiln_llvm_intrinsic(b, row->name, &type, 1, arg, 2); break;
    }
    return out(v);
}

static kiln_ssa choose(kiln_builder *b, kiln_ssa condition, kiln_ssa yes, kiln_ssa no) {
    return out(LLVMBuildSelect(of(b)->builder, in(condition), in(yes), in(no), ""));
}

static kiln_ssa splat(kiln_builder *base, kiln_ssa scalar, uint32_t lanes);
static kiln_ssa shuffle(kiln_builder *base, kiln_ssa a, kiln_ssa second, const int32_t *lane,
                        uint32_t count);

#define FMLAL_LANES 4

/* The f16 from which `v`, of FMLAL_LANES floats, is widened, in the lower half of a vector of
 * FMLAL's operands; NULL: it is something else. */
static LLVMValueRef before_widening(kiln_llvm_builder *b, LLVMValueRef v) {
    int32_t lane[2 * FMLAL_LANES];
    LLVMValueRef scalar = LLVMIsAShuffleVectorInst(v) ? LLVMGetOperand(v, 0) : NULL;
    for (uint32_t i = 0; i < FMLAL_LANES && scalar; i++)
        if (LLVMGetMaskValue(v, i) != 0) scalar = NULL;
    scalar = scalar && LLVMIsAInsertElementInst(scalar) ? LLVMGetOperand(scalar, 1) : NULL;
    if (!LLVMIsAFPExtInst(scalar ? scalar : v)) return NULL;
    const LLVMValueRef from = LLVMGetOperand(scalar ? scalar : v, 0);
    const LLVMTypeRef type = LLVMTypeOf(from);
    const bool is_vector = LLVMGetTypeKind(type) == LLVMVectorTypeKind;
    if (LLVMGetTypeKind(is_vector ? LLVMGetElementType(type) : type) != LLVMHalfTypeKind)
        return NULL;
    if (scalar) return in(splat(&b->base, out(from), 2 * FMLAL_LANES));
    for (uint32_t i = 0; i < 2 * FMLAL_LANES; i++) lane[i] = i < FMLAL_LANES ? (int32_t)i : -1;
    return in(shuffle(&b->base, out(from), NULL, lane, 2 * FMLAL_LANES));
}

/* FMLAL: f16 by f16, added to floats without a rounding in between. NULL: it is something else. */
static kiln_ssa multiply_add_halves(kiln_llvm_builder *b, LLVMValueRef x, LLVMValueRef y,
                                    LLVMValueRef sum) {
    const LLVMTypeRef type = LLVMTypeOf(sum);
    if (b->target->arch != KILN_ARCH_AARCH64 || !kiln_target_has(b->target, KILN_STR("fp16fml")) ||
        LLVMGetTypeKind(type) != LLVMVectorTypeKind || LLVMGetVectorSize(type) != FMLAL_LANES)
        return NULL;
    const LLVMValueRef first = before_widening(b, x), second = first ? before_widening(b, y) : NULL;
    if (!second) return NULL;
    return out(kiln_llvm_intrinsic(b, "llvm.aarch64.neon.fmlal",
                                   (LLVMTypeRef[]){type, LLVMTypeOf(first)}, 2,
                                   (LLVMValueRef[]){sum, first, second}, 3));
}

static kiln_ssa multiply_add(kiln_builder *b, kiln_ssa x, kiln_ssa y, kiln_ssa z) {
    LLVMTypeRef type = LLVMTypeOf(in(x));
    const kiln_ssa halves = multiply_add_halves(of(b), in(x), in(y), in(z));
    if (halves) return halves;
    return out(kiln_llvm_intrinsic(of(b), "llvm.fmuladd", &type, 1,
                                   (LLVMValueRef[]){in(x), in(y), in(z)}, 3));
}

static kiln_ssa saturated(kiln_llvm_builder *b, const char *name, LLVMValueRef v,
                          LLVMTypeRef type) {
    return out(kiln_llvm_intrinsic(b, name, (LLVMTypeRef[]){type, LLVMTypeOf(v)}, 2, &v, 1));
}

static LLVMValueRef pick(kiln_llvm_builder *b, LLVMRealPredicate when, LLVMValueRef v,
                         LLVMValueRef bound) {
    LLVMValueRef is = LLVMBuildFCmp(b->builder, when, v, bound, "");
    return LLVMBuildSelect(b->builder, is, v, bound, "");
}

/* Converts a float to an integer of at most 16 bits, whose bounds are floats: clamps, then converts
 * through 32 bits. LLVM splits saturating conversions of vectors to such integers into lanes if the
 * target has no such vectors. A NaN gives 0. */
static kiln_ssa clamped(kiln_llvm_builder *b, LLVMValueRef v, kiln_ssa_type to, bool is_signed) {
    LLVMTypeRef from = LLVMTypeOf(v), type = kiln_llvm_type(b, to);
    double range = (double)(1u << kiln_ssa_scalar_bits(to.scalar)),
           low = is_signed ? -range / 2 : 0;
    LLVMTypeRef scalar = to.lanes ? LLVMGetElementType(from) : from;
    LLVMValueRef bound[] = {LLVMConstReal(scalar, low), LLVMConstReal(scalar, low + range - 1)};
    for (uint32_t i = 0; i < 2; i++) bound[i] = splat_constant(bound[i], to.lanes);
    if (is_signed) v = pick(b, LLVMRealORD, v, LLVMConstNull(from));
    v = pick(b, LLVMRealOGT, v, bound[0]); /* false for a NaN */
    v = pick(b, LLVMRealOLT, v, bound[1]);
    to.scalar = KILN_SSA_I32;
    v = LLVMBuildFPToSI(b->builder, v, kiln_llvm_type(b, to), "");
    return out(LLVMBuildTrunc(b->builder, v, type, ""));
}

static kiln_ssa to_integer(kiln_llvm_builder *b, LLVMValueRef v, kiln_ssa_type to, bool is_signed) {
    if (kiln_ssa_scalar_bits(to.scalar) <= 16) return clamped(b, v, to, is_signed);
    return saturated(b, is_signed ? "llvm.fptosi.sat" : "llvm.fptoui.sat", v,
                     kiln_llvm_type(b, to));
}

static kiln_ssa convert(kiln_builder *base, kiln_conversion how, kiln_ssa value, kiln_ssa_type to) {
    kiln_llvm_builder *b = of(base);
    LLVMTypeRef type = kiln_llvm_type(b, to);
    LLVMValueRef v = in(value);
    switch (how) {
    case KILN_CONVERT_BITS: return out(LLVMBuildBitCast(b->builder, v, type, ""));
    case KILN_CONVERT_SIGNED: return out(LLVMBuildIntCast2(b->builder, v, type, true, ""));
    case KILN_CONVERT_UNSIGNED: return out(LLVMBuildIntCast2(b->builder, v, type, false, ""));
    case KILN_CONVERT_FLOAT: return out(LLVMBuildFPCast(b->builder, v, type, ""));
    case KILN_CONVERT_SIGNED_TO_FLOAT: return out(LLVMBuildSIToFP(b->builder, v, type, ""));
    case KILN_CONVERT_UNSIGNED_TO_FLOAT: return out(LLVMBuildUIToFP(b->builder, v, type, ""));
    case KILN_CONVERT_FLOAT_TO_SIGNED: return to_integer(b, v, to, true);
    case KILN_CONVERT_FLOAT_TO_UNSIGNED: break;
    }
    return to_integer(b, v, to, false);
}

static kiln_ssa call(kiln_builder *base, const char *name, const kiln_ssa *arg, uint32_t count) {
    kiln_llvm_builder *b = of(base);
    LLVMTypeRef type = LLVMTypeOf(in(arg[0])), parameter[2] = {type, type};
    LLVMValueRef value[2] = {in(arg[0]), count > 1 ? in(arg[1]) : NULL};
    LLVMTypeRef function_type = LLVMFunctionType(type, parameter, count, false);
    const char *suffix = LLVMGetTypeKind(type) == LLVMFloatTypeKind ? "f" : "";
    char *symbol = kiln_arena_printf(b->arena, "%s%s", name, suffix);
    LLVMValueRef callee = LLVMGetNamedFunction(b->module, symbol);
    if (!callee) {
        callee = LLVMAddFunction(b->module, symbol, function_type);
        unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);
        LLVMAddAttributeAtIndex(callee, LLVMAttributeFunctionIndex,
                                LLVMCreateEnumAttribute(b->context, nounwind, 0));
    }
    return out(LLVMBuildCall2(b->builder, function_type, callee, value, count, ""));
}

/* ---- lanes ----------------------------------------------------------------------------------- */

static LLVMValueRef lane_number(const kiln_llvm_builder *b, uint32_t lane) {
    return LLVMConstInt(LLVMInt64TypeInContext(b->context), lane, true);
}

static kiln_ssa splat(kiln_builder *base, kiln_ssa scalar, uint32_t lanes) {
    kiln_llvm_builder *b = of(base);
    LLVMValueRef v = in(scalar);
    if (LLVMIsConstant(v)) return out(splat_constant(v, lanes));
    LLVMValueRef any = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(v), lanes));
    LLVMValueRef first = LLVMBuildInsertElement(b->builder, any, v, lane_number(b, 0), "");
    LLVMValueRef zeros = LLVMConstNull(LLVMVectorType(LLVMInt32TypeInContext(b->context), lanes));
    return out(LLVMBuildShuffleVector(b->builder, first, any, zeros, ""));
}

static kiln_ssa extract(kiln_builder *b, kiln_ssa vector, uint32_t lane) {
    return out(LLVMBuildExtractElement(of(b)->builder, in(vector), lane_number(of(b), lane), ""));
}

static kiln_ssa insert(kiln_builder *b, kiln_ssa vector, kiln_ssa scalar, uint32_t lane) {
    return out(LLVMBuildInsertElement(of(b)->builder, in(vector), in(scalar),
                                      lane_number(of(b), lane), ""));
}

static kiln_ssa shuffle(kiln_builder *base, kiln_ssa a, kiln_ssa second, const int32_t *lane,
                        uint32_t count) {
    kiln_llvm_builder *b = of(base);
    LLVMTypeRef i32 = LLVMInt32TypeInContext(b->context);
    LLVMValueRef number[2 * KILN_LOWER_LANES_MAX];
    KILN_CHECK(count <= 2 * KILN_LOWER_LANES_MAX);
    for (uint32_t i = 0; i < count; i++)
        number[i] = lane[i] < 0 ? LLVMGetPoison(i32) : LLVMConstInt(i32, (uint32_t)lane[i], false);
    return out(LLVMBuildShuffleVector(b->builder, in(a),
                                      second ? in(second) : LLVMGetPoison(LLVMTypeOf(in(a))),
                                      LLVMConstVector(number, count), ""));
}

static bool taken_from(kiln_builder *b, kiln_ssa v, kiln_ssa *out_vector, uint32_t *out_lane) {
    (void)b;
    if (!LLVMIsAExtractElementInst(in(v))) return false;
    LLVMValueRef lane = LLVMGetOperand(in(v), 1);
    if (!LLVMIsAConstantInt(lane)) return false;
    *out_vector = out(LLVMGetOperand(in(v), 0));
    *out_lane = (uint32_t)LLVMConstIntGetSExtValue(lane);
    return true;
}

static kiln_ssa any(kiln_builder *base, kiln_ssa mask) {
    kiln_llvm_builder *b = of(base);
    LLVMTypeRef bits = LLVMIntTypeInContext(b->context, LLVMGetVectorSize(LLVMTypeOf(in(mask))));
    LLVMValueRef v = LLVMBuildBitCast(b->builder, in(mask), bits, "");
    return out(LLVMBuildICmp(b->builder, LLVMIntNE, v, LLVMConstNull(bits), ""));
}

/* ---- memory ---------------------------------------------------------------------------------- */

LLVMValueRef kiln_llvm_offset(kiln_llvm_builder *b, LLVMValueRef pointer, LLVMValueRef bytes) {
    return LLVMBuildGEP2(b->builder, LLVMInt8TypeInContext(b->context), pointer, &bytes, 1, "");
}

static kiln_ssa offset(kiln_builder *b, kiln_ssa pointer, kiln_ssa bytes) {
    return out(kiln_llvm_offset(of(b), in(pointer), in(bytes)));
}

static LLVMValueRef i32_constant(const kiln_llvm_builder *b, uint64_t value) {
    return LLVMConstInt(LLVMInt32TypeInContext(b->context), value, false);
}

static kiln_ssa load(kiln_builder *base, kiln_ssa_type type, kiln_ssa pointer, uint32_t align,
                     kiln_ssa mask) {
    kiln_llvm_builder *b = of(base);
    LLVMTypeRef t = kiln_llvm_type(b, type);
    if (mask) {
        LLVMValueRef arg[4] = {in(pointer), i32_constant(b, align), in(mask), LLVMConstNull(t)};
        LLVMTypeRef overload[2] = {t, LLVMTypeOf(in(pointer))};
        return out(kiln_llvm_intrinsic(b, "llvm.masked.load", overload, 2, arg, 4));
    }
    LLVMValueRef v = LLVMBuildLoad2(b->builder, t, in(pointer), "");
    LLVMSetAlignment(v, align);
    return out(v);
}

static void store(kiln_builder *base, kiln_ssa v, kiln_ssa pointer, uint32_t align, kiln_ssa mask) {
    kiln_llvm_builder *b = of(base);
    if (mask) {
        LLVMValueRef arg[4] = {in(v), in(pointer), i32_constant(b, align), in(mask)};
        LLVMTypeRef overload[2] = {LLVMTypeOf(in(v)), LLVMTypeOf(in(pointer))};
        kiln_llvm_intrinsic(b, "llvm.masked.store", overload, 2, arg, 4);
        return;
    }
    LLVMSetAlignment(LLVMBuildStore(b->builder, in(v), in(pointer)), align);
}

static LLVMValueRef align_of(const kiln_llvm_builder *b, kiln_ssa_scalar scalar) {
    return i32_constant(b, kiln_ssa_scalar_bits(scalar) / 8);
}

static kiln_ssa gather(kiln_builder *base, kiln_ssa_type type, kiln_ssa pointers, kiln_ssa mask) {
    kiln_llvm_builder *b = of(base);
    LLVMTypeRef t = kiln_llvm_type(b, type);
    LLVMValueRef arg[4] = {in(pointers), align_of(b, type.scalar), in(mask), LLVMConstNull(t)};
    LLVMTypeRef overload[2] = {t, LLVMTypeOf(arg[0])};
    return out(kiln_llvm_intrinsic(b, "llvm.masked.gather", overload, 2, arg, 4));
}

static void scatter(kiln_builder *base, kiln_ssa v, kiln_ssa pointers, kiln_ssa mask) {
    kiln_llvm_builder *b = of(base);
    LLVMValueRef arg[4] = {in(v), in(pointers), align_of(b, type_of(base, v).scalar), in(mask)};
    LLVMTypeRef overload[2] = {LLVMTypeOf(arg[0]), LLVMTypeOf(arg[1])};
    kiln_llvm_intrinsic(b, "llvm.masked.scatter", overload, 2, arg, 4);
}

static void prefetch(kiln_builder *base, kiln_ssa pointer) {
    enum { READ = 0, TO_SECOND_CACHE = 2, DATA = 1 };
    kiln_llvm_builder *b = of(base);
    LLVMTypeRef type = LLVMTypeOf(in(pointer));
    LLVMValueRef arg[] = {in(pointer), i32_constant(b, READ), i32_constant(b, TO_SECOND_CACHE),
                          i32_constant(b, DATA)};
    kiln_llvm_intrinsic(b, "llvm.prefetch", &type, 1, arg, 4);
}

/* ---- instructions of one processor ----------------------------------------------------------- */

#define CURRENT_ROUNDING 4 /* of the machine, not of the instruction */

static LLVMValueRef lanes_of(kiln_llvm_builder *b, LLVMValueRef v, LLVMValueRef second,
                             uint32_t from, uint32_t have, uint32_t count) {
    int32_t lane[KILN_LOWER_LANES_MAX];
    for (uint32_t i = 0; i < count; i++) lane[i] = i < have ? (int32_t)(from + i) : -1;
    return in(shuffle(&b->base, out(v), out(second), lane, count));
}

/* An instruction with one lane is emitted once per lane. */
static kiln_ssa intrinsic_by_lane(kiln_llvm_builder *b, const kiln_intrinsic *row, kiln_ssa sum,
                                  kiln_ssa a, kiln_ssa second) {
    LLVMTypeRef i32 = LLVMInt32TypeInContext(b->context), vector = i32, *overload = NULL;
    LLVMValueRef result = in(sum), no = i32_constant(b, 0);
    const uint32_t words = kiln_intrinsic_words(row);
    if (words > 1) {
        vector = LLVMVectorType(LLVMIntTypeInContext(b->context, row->operand_bits), row->steps);
        overload = &vector;
    }
    for (uint32_t lane = 0; lane < row->lanes; lane++) {
        LLVMValueRef index = i32_constant(b, lane), x[2],
                     before = LLVMBuildExtractElement(b->builder, result, index, "");
        for (uint32_t i = 0; i < 2; i++) {
            LLVMValueRef all = in(i ? second : a);
            x[i] = lanes_of(b, all, NULL, lane * words, words, words);
            x[i] = LLVMBuildBitCast(b->builder, x[i], vector, "");
        }
        /* llvm.arm.mve.vmldava(unsigned, subtract, exchange, sum, a, b), llvm.arm.smlad(a, b, sum)
         */
        LLVMValueRef whole[] = {
            i32_constant(b, row->operand[0] == KILN_U8), no, no, before, x[0], x[1]};
        LLVMValueRef word[] = {x[0], x[1], before};
        LLVMValueRef after = kiln_llvm_intrinsic(b, row->instruction, overload, overload ? 1 : 0,
                                                 overload ? whole : word, overload ? 6 : 3);
        result = LLVMBuildInsertElement(b->builder, result, after, index, "");
    }
    return out(result);
}

static kiln_ssa intrinsic(kiln_builder *base, const kiln_intrinsic *row, kiln_ssa sum, kiln_ssa a,
                          kiln_ssa second) {
    kiln_llvm_builder *b = of(base);
    if (row->arch == KILN_ARCH_THUMB) return intrinsic_by_lane(b, row, sum, a, second);
    const bool halves = row->operand[0] == KILN_BF16;
    LLVMTypeRef result = LLVMVectorType(halves ? LLVMFloatTypeInContext(b->context)
                                               : LLVMInt32TypeInContext(b->context),
                                        row->lanes);
    LLVMTypeRef type = LLVMVectorType(halves ? LLVMBFloatTypeInContext(b->context)
                                             : LLVMIntTypeInContext(b->context, row->operand_bits),
                                      row->lanes * (32 / row->operand_bits));
    LLVMValueRef arg[3];
    uint32_t count = 0;
    if (sum) arg[count++] = in(sum);
    arg[count++] = LLVMBuildBitCast(b->builder, in(a), type, "");
    arg[count++] = LLVMBuildBitCast(b->builder, in(second), type, "");
    bool overloaded = LLVMIntrinsicIsOverloaded(
        LLVMLookupIntrinsicID(row->instruction, strlen(row->instruction)));
    return out(kiln_llvm_intrinsic(b, row->instruction, (LLVMTypeRef[]){result, type},
                                   overloaded ? 2 : 0, arg, count));
}

#define LINE_BYTES 64

static void tile(kiln_builder *base, const char *instruction, const uint32_t *number,
                 uint32_t count, kiln_ssa pointer, kiln_ssa stride) {
    kiln_llvm_builder *b = of(base);
    LLVMValueRef arg[5];
    uint32_t args = 0;
    for (; args < count; args++)
        arg[args] = LLVMConstInt(LLVMInt8TypeInContext(b->context), number[args], false);
    if (pointer) arg[args++] = in(pointer);
    if (stride) arg[args++] = in(stride);
    kiln_llvm_intrinsic(b, instruction, NULL, 0, arg, args);
}

static kiln_ssa constant_bytes(kiln_builder *base, const uint8_t *bytes, uint32_t count) {
    kiln_llvm_builder *b = of(base);
    LLVMValueRef value = LLVMConstStringInContext2(b->context, (const char *)bytes, count, true);
    LLVMValueRef global = LLVMAddGlobal(b->module, LLVMTypeOf(value), "");
    LLVMSetInitializer(global, value);
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    LLVMSetAlignment(global, LINE_BYTES);
    return out(global);
}

/* Emits an instruction for whole vectors of its number of lanes. */
typedef LLVMValueRef (*of_vectors)(kiln_llvm_builder *b, LLVMValueRef v, LLVMValueRef second,
                                   uint32_t lanes);

/* Any number of lanes, by the instructions of `least`, ..., 8 and 16 lanes. `second` may be
 * NULL. */
static LLVMValueRef by_vectors(kiln_llvm_builder *b, of_vectors function, LLVMValueRef v,
                               LLVMValueRef second, uint32_t lanes, uint32_t least) {
    if (lanes >= least && (lanes == 4 || lanes == 8 || lanes == 16))
        return function(b, v, second, lanes);
    if (lanes > 16) {
        LLVMValueRef side[2];
        for (uint32_t i = 0; i < 2; i++)
            side[i] = by_vectors(
                b, function, lanes_of(b, v, NULL, i * lanes / 2, lanes / 2, lanes / 2),
                second ? lanes_of(b, second, NULL, i * lanes / 2, lanes / 2, lanes / 2) : NULL,
                lanes / 2, least);
        return lanes_of(b, side[0], side[1], 0, lanes, lanes);
    }
    uint32_t wide = KILN_MAX(lanes < 4 ? 4 : lanes < 8 ? 8 : 16, least);
    LLVMValueRef whole =
        by_vectors(b, function, lanes_of(b, v, NULL, 0, lanes, wide),
                   second ? lanes_of(b, second, NULL, 0, lanes, wide) : NULL, wide, least);
    return lanes_of(b, whole, NULL, 0, lanes, lanes);
}

static LLVMValueRef scaled(kiln_llvm_builder *b, LLVMValueRef v, LLVMValueRef exponent,
                           uint32_t lanes) {
    const char *name = lanes == 16  ? "llvm.x86.avx512.mask.scalef.ps.512"
                       : lanes == 8 ? "llvm.x86.avx512.mask.scalef.ps.256"
                                    : "llvm.x86.avx512.mask.scalef.ps.128";
    LLVMTypeRef mask = LLVMIntTypeInContext(b->context, lanes == 16 ? 16 : 8);
    LLVMValueRef arg[] = {v, exponent, LLVMConstNull(LLVMTypeOf(v)), LLVMConstAllOnes(mask),
                          i32_constant(b, CURRENT_ROUNDING)};
    return kiln_llvm_intrinsic(b, name, NULL, 0, arg, lanes == 16 ? 5 : 4);
}

static kiln_ssa scale(kiln_builder *base, kiln_ssa v, kiln_ssa exponent) {
    kiln_llvm_builder *b = of(base);
    uint32_t lanes = type_of(base, v).lanes;
    if (!kiln_target_has(b->target, KILN_STR("avx512vl"))) return NULL;
    if (lanes) return out(by_vectors(b, scaled, in(v), in(exponent), lanes, 4));
    return extract(base, out(scaled(b, in(splat(base, v, 4)), in(splat(base, exponent, 4)), 4)), 0);
}

/* VCVTNEPS2BF16 of 8 or 16 floats. */
static LLVMValueRef shortened(kiln_llvm_builder *b, LLVMValueRef v, LLVMValueRef second,
                              uint32_t lanes) {
    (void)second;
    const char *name = lanes == 16 ? "llvm.x86.avx512bf16.cvtneps2bf16.512"
                                   : "llvm.x86.avx512bf16.cvtneps2bf16.256";
    LLVMTypeRef type = LLVMVectorType(LLVMInt16TypeInContext(b->context), lanes);
    return LLVMBuildBitCast(b->builder, kiln_llvm_intrinsic(b, name, NULL, 0, &v, 1), type, "");
}

static kiln_ssa to_bf16(kiln_builder *base, kiln_ssa v) {
    kiln_llvm_builder *b = of(base);
    const uint32_t lanes = type_of(base, v).lanes;
    if (b->machine->launches ||
        (b->target->arch == KILN_ARCH_AARCH64 && kiln_target_has(b->target, KILN_STR("bf16")))) {
        LLVMTypeRef half = LLVMBFloatTypeInContext(b->context);
        if (lanes) half = LLVMVectorType(half, lanes);
        LLVMValueRef halves = LLVMBuildFPTrunc(b->builder, in(v), half, "");
        return out(LLVMBuildBitCast(b->builder, halves,
                                    kiln_llvm_type(b, kiln_type_vector(KILN_SSA_I16, lanes)), ""));
    }
    if (!lanes || !kiln_target_has(b->target, KILN_STR("avx512bf16")) ||
        !kiln_target_has(b->target, KILN_STR("avx512vl")))
        return NULL;
    return out(by_vectors(b, shortened, in(v), NULL, lanes, 8));
}

/* LLVM does not define the rounding of a NaN; the processor gives 0x80000000. */
static kiln_ssa rounded(kiln_builder *base, kiln_ssa value) {
    kiln_llvm_builder *b = of(base);
    const kiln_ssa_type to = kiln_type_vector(KILN_SSA_I32, type_of(base, value).lanes);
    if (b->target->arch != KILN_ARCH_X86_64) return NULL;
    return saturated(b, "llvm.lrint", in(value), kiln_llvm_type(b, to));
}

static LLVMValueRef ones(kiln_llvm_builder *b, LLVMValueRef v) {
    LLVMTypeRef type = LLVMTypeOf(v);
    return kiln_llvm_intrinsic(b, "llvm.ctpop", &type, 1, &v, 1);
}

static kiln_ssa count_ones(kiln_builder *b, kiln_ssa v) { return out(ones(of(b), in(v))); }

static LLVMValueRef bytes_of(kiln_llvm_builder *b, int64_t value, uint32_t count) {
    LLVMTypeRef type = LLVMInt8TypeInContext(b->context);
    return splat_constant(LLVMConstInt(type, (uint64_t)value, true), count);
}

/* Ones counted per byte are summed up and multiplied by an instruction for products of bytes, four
 * to a lane: no shuffles, and no shift for the factor. */
static const struct weigher {
    const char *needs[2]; /* features; NULL: no other */
    uint32_t lanes;
    const char *instruction;
} weigher_table[] = {
    {{"avx512bitalg", "avx512vnni"}, 16, "llvm.x86.avx512.vpdpbusd.512"},
    {{"avxvnni", NULL}, 8, "llvm.x86.avx512.vpdpbusd.256"},
    {{"dotprod", NULL}, 4, "llvm.aarch64.neon.sdot"},
};

static const struct weigher *find_weigher(const kiln_target *target, uint32_t lanes) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(weigher_table); i++) {
        const struct weigher *row = &weigher_table[i];
        bool has = row->lanes == lanes;
        for (uint32_t k = 0; k < KILN_ARRAY_COUNT(row->needs); k++)
            has = has && (!row->needs[k] || kiln_target_has(target, kiln_str_from(row->needs[k])));
        if (has) return row;
    }
    return NULL;
}

/* Without such an instruction AVX2 sums up pairs of multiplied bytes, and pairs of those. */
static LLVMValueRef weighed_pairs(kiln_llvm_builder *b, LLVMValueRef counts, int64_t factor) {
    LLVMTypeRef i16 = LLVMInt16TypeInContext(b->context);
    LLVMValueRef arg[] = {counts, bytes_of(b, factor, 32)};
    arg[0] = kiln_llvm_intrinsic(b, "llvm.x86.avx2.pmadd.ub.sw", NULL, 0, arg, 2);
    arg[1] = splat_constant(LLVMConstInt(i16, 1, false), 16);
    return kiln_llvm_intrinsic(b, "llvm.x86.avx2.pmadd.wd", NULL, 0, arg, 2);
}

static kiln_ssa add_ones(kiln_builder *base, kiln_ssa sum, kiln_ssa v, int64_t factor) {
    kiln_llvm_builder *b = of(base);
    const uint32_t lanes = type_of(base, v).lanes;
    if (lanes == 16 && (factor == 1 || factor == -1) &&
        kiln_target_has(b->target, KILN_STR("avx512vpopcntdq"))) {
        LLVMValueRef counts = ones(b, in(v));
        return out(factor > 0 ? LLVMBuildAdd(b->builder, in(sum), counts, "")
                              : LLVMBuildSub(b->builder, in(sum), counts, ""));
    }
    const struct weigher *row = find_weigher(b->target, lanes);
    const bool pairs = !row && lanes == 8 && kiln_target_has(b->target, KILN_STR("avx2"));
    if (!row && !pairs) return NULL;
    LLVMTypeRef bytes = LLVMVectorType(LLVMInt8TypeInContext(b->context), 4 * lanes);
    LLVMValueRef counts = ones(b, LLVMBuildBitCast(b->builder, in(v), bytes, ""));
    if (pairs) return out(LLVMBuildAdd(b->builder, in(sum), weighed_pairs(b, counts, factor), ""));
    const bool overloaded = b->target->arch == KILN_ARCH_AARCH64;
    LLVMTypeRef type = LLVMTypeOf(in(sum));
    LLVMValueRef arg[] = {in(sum), counts, bytes_of(b, factor, 4 * lanes)};
    if (!overloaded)
        for (uint32_t i = 1; i < 3; i++) arg[i] = LLVMBuildBitCast(b->builder, arg[i], type, "");
    return out(kiln_llvm_intrinsic(b, row->instruction, (LLVMTypeRef[]){type, bytes},
                                   overloaded ? 2 : 0, arg, 3));
}

static kiln_ssa bits_of_lanes(kiln_builder *base, kiln_ssa mask) {
    kiln_llvm_builder *b = of(base);
    LLVMTypeRef type = LLVMIntTypeInContext(b->context, LLVMGetVectorSize(LLVMTypeOf(in(mask))));
    return out(LLVMBuildBitCast(b->builder, in(mask), type, ""));
}

/* LLVM would shorten chains of additions, which needs registers that the accumulators occupy. */
static kiln_ssa opaque(kiln_builder *base, kiln_ssa v) {
    kiln_llvm_builder *b = of(base);
    const char *place = b->machine->vector_constraint;
    if (!*place) return v;
    char *constraint = kiln_arena_printf(b->arena, "=%s,0", place), nothing[] = "";
    LLVMValueRef value = in(v);
    LLVMTypeRef vector = LLVMTypeOf(value), type = LLVMFunctionType(vector, &vector, 1, false);
    LLVMValueRef barrier = LLVMGetInlineAsm(type, nothing, 0, constraint, strlen(constraint), false,
                                            false, LLVMInlineAsmDialectATT, false);
    return out(LLVMBuildCall2(b->builder, type, barrier, &value, 1, ""));
}

static const kiln_builder_ops llvm_ops = {
#define X(result, name, arguments) .name = name,
#include "compiler-core/codegen/builder_memory.def"
#include "compiler-core/codegen/builder_values.def"
#undef X
#define X(result, name, arguments) .name = kiln_llvm_##name,
#include "compiler-core/codegen/builder_control.def"
#undef X
    .intrinsic = intrinsic,
    .scale = scale,
    .to_bf16 = to_bf16,
    .opaque = opaque,
    .rounded = rounded,
    .count_ones = count_ones,
    .add_ones = add_ones,
    .bits_of_lanes = bits_of_lanes,
    .tile = tile,
    .constant_bytes = constant_bytes,
};

void kiln_llvm_builder_init(kiln_llvm_builder *b, const kiln_target *target,
                            const kiln_llvm_machine *machine, LLVMContextRef context,
                            LLVMModuleRef module, kiln_arena *arena) {
    *b = (kiln_llvm_builder){.ops = llvm_ops,
                             .target = target,
                             .machine = machine,
                             .arena = arena,
                             .context = context,
                             .module = module,
                             .builder = LLVMCreateBuilderInContext(context)};
    b->base.ops = &b->ops;
    if (!machine->has_library) b->ops.call = NULL;
    if (machine->launches && kiln_llvm_has_warps(machine->launches)) kiln_llvm_add_warps(&b->ops);
}

void kiln_llvm_builder_deinit(kiln_llvm_builder *b) {
    if (b->builder) LLVMDisposeBuilder(b->builder);
}
