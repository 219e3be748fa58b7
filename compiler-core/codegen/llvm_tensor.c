/* Tensor intrinsics: the loop that `tensorize` marked becomes one instruction over all lanes.
 *
 * Both operands are brought into one form, a word of four bytes per lane that holds the steps of
 * the lane's sum: read as a vector where the steps of neighbouring lanes lie behind one another, or
 * one word for all lanes. Where the bytes lie otherwise the loop is emitted as it stands. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/codegen/llvm_emit.h"

#define GROUP_BYTES                                                              \
    16 /* words for all lanes are loaded by so many bytes where they are aligned \
        */
#define WORD_BITS 32

/* One use of an intrinsic: result += sum of a * b. */
typedef struct use {
    const kiln_intrinsic *intrinsic;
    const kiln_stmt_info *loop;
    kiln_stmt store;
    kiln_expr before;                        /* load of the result */
    kiln_expr load[KILN_INTRINSIC_OPERANDS]; /* a, b */
} use;

/* ---- what the loop does ---------------------------------------------------------------------- */

static const kiln_program *meaning_of(kiln_llvm_emitter *e, const kiln_intrinsic *intrinsic) {
    const kiln_program **known = &e->meaning[intrinsic - kiln_intrinsics];
    if (!*known) *known = kiln_intrinsic_program(intrinsic, e->arena);
    return *known;
}

/* store = load of the same element + value of the intrinsic. */
static bool find_use(kiln_llvm_emitter *e, kiln_stmt stmt, use *out) {
    const kiln_program *p = e->p;
    const kiln_stmt_info *loop = &p->stmt.data[stmt];
    const kiln_intrinsic *intrinsic = kiln_intrinsic_of_loop(p, stmt);
    if (!intrinsic || e->lanes != intrinsic->lanes || e->mask || loop->extent != intrinsic->steps)
        return false;
    kiln_stmt store = loop->child.data[0];
    const kiln_stmt_info *s = &p->stmt.data[store];
    if (s->kind != KILN_STMT_STORE || kiln_expr_get(p, s->value)->op != KILN_EXPR_ADD) return false;
    *out = (use){.intrinsic = intrinsic, .loop = loop, .store = store};
    for (uint32_t i = 0; i < 2; i++) {
        kiln_expr before = kiln_expr_operand(p, s->value, i);
        const kiln_expr_node *node = kiln_expr_get(p, before);
        if (node->op != KILN_EXPR_LOAD || node->payload.id != s->buffer) continue;
        out->before = before;
        return kiln_intrinsic_matches(meaning_of(e, intrinsic), p,
                                      kiln_expr_operand(p, s->value, 1 - i), out->load);
    }
    return false;
}

/* Where the steps of an operand lie, if they lie behind one another. */
static bool find_bytes(kiln_llvm_emitter *e, const use *u, kiln_expr load, kiln_llvm_address *out) {
    kiln_buffer buffer = kiln_expr_get(e->p, load)->payload.id;
    const kiln_affine *offset = kiln_llvm_load_offset(e, load);
    if (e->p->buffer.data[buffer].scope == KILN_SCOPE_REGISTER) return false;
    for (uint32_t step = u->intrinsic->steps; step-- > 0;) {
        kiln_llvm_bind(e, u->loop->var, u->loop->first + step);
        kiln_llvm_address at = kiln_llvm_address_of(e, buffer, offset);
        bool first = step + 1 == u->intrinsic->steps;
        if (!at.linear || (at.lane_stride != 0 && at.lane_stride != u->intrinsic->steps) ||
            (!first && (at.pointer != out->pointer || at.lane_stride != out->lane_stride ||
                        at.constant + 1 != out->constant)))
            return false;
        *out = at;
    }
    return true;
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Bytes from memory, remembered until the buffer is written. */
static LLVMValueRef load_bytes(kiln_llvm_emitter *e, kiln_buffer buffer,
                               const kiln_llvm_address *at, int64_t first, uint32_t count,
                               uint32_t align) {
    uint64_t key[4] = {(uint64_t)buffer << 32 | e->epoch[buffer], (uint64_t)(uintptr_t)at->pointer,
                       (uint64_t)first, UINT64_MAX - count};
    LLVMValueRef v = kiln_llvm_table_find(&e->loads, key);
    if (v) return v;
    LLVMTypeRef type = LLVMVectorType(kiln_llvm_int(e, 8), count);
    LLVMValueRef pointer = kiln_llvm_pointer(e, at, KILN_I8, first - at->constant);
    v = LLVMBuildLoad2(e->builder, type, pointer, "");
    LLVMSetAlignment(v, align);
    kiln_llvm_table_put(e, &e->loads, key, v);
    return v;
}

/* Bytes as words, each with the elements that the instruction takes. */
static LLVMValueRef as_words(kiln_llvm_emitter *e, const use *u, uint32_t operand,
                             LLVMValueRef bytes) {
    const kiln_intrinsic *in = u->intrinsic;
    uint32_t count = LLVMGetVectorSize(LLVMTypeOf(bytes));
    if (operand == 0 && in->bias)
        bytes = LLVMBuildXor(e->builder, bytes,
                             kiln_llvm_constant_int(LLVMTypeOf(bytes), (int8_t)in->bias), "");
    if (in->operand_bits == 16) {
        LLVMTypeRef wide = LLVMVectorType(kiln_llvm_int(e, 16), count);
        bytes = in->operand[operand] == KILN_I8 ? LLVMBuildSExt(e->builder, bytes, wide, "")
                                                : LLVMBuildZExt(e->builder, bytes, wide, "");
    }
    LLVMTypeRef words = LLVMVectorType(kiln_llvm_int(e, WORD_BITS), count / in->steps);
    return LLVMBuildBitCast(e->builder, bytes, words, "");
}

/* One word for all lanes. Words that lie together are loaded together: what unrolled steps need
 * next is there already, and some processors multiply by an element of a register. The group is
 * aligned as a whole, so that it lies in one page with the word that is asked for. */
static LLVMValueRef word_for_all(kiln_llvm_emitter *e, const use *u, uint32_t operand,
                                 const kiln_llvm_address *at) {
    kiln_buffer buffer = kiln_expr_get(e->p, u->load[operand])->payload.id;
    uint32_t steps = u->intrinsic->steps, lane = 0;
    int64_t rest = (at->constant % GROUP_BYTES + GROUP_BYTES) % GROUP_BYTES;
    bool wanted = e->target->factor_lanes > 1 || u->intrinsic->operand_bits == 16;
    LLVMValueRef words;
    if (wanted && at->pointer_align >= GROUP_BYTES && rest % steps == 0) {
        lane = (uint32_t)rest / steps;
        words = as_words(e, u, operand,
                         load_bytes(e, buffer, at, at->constant - rest, GROUP_BYTES, GROUP_BYTES));
    } else {
        words = as_words(e, u, operand, load_bytes(e, buffer, at, at->constant, steps, at->align));
    }
    LLVMValueRef mask = kiln_llvm_ramp(kiln_llvm_int(e, 32), u->intrinsic->lanes, lane, 0);
    return LLVMBuildShuffleVector(e->builder, words, LLVMGetPoison(LLVMTypeOf(words)), mask, "");
}

static LLVMValueRef operand_words(kiln_llvm_emitter *e, const use *u, uint32_t operand,
                                  const kiln_llvm_address *at) {
    kiln_buffer buffer = kiln_expr_get(e->p, u->load[operand])->payload.id;
    if (at->lane_stride == 0) return word_for_all(e, u, operand, at);
    uint32_t count = u->intrinsic->lanes * u->intrinsic->steps;
    return as_words(e, u, operand, load_bytes(e, buffer, at, at->constant, count, at->align));
}

/* ---- the instruction ------------------------------------------------------------------------- */

/* sum + a * b; `sum` NULL for an instruction that does not accumulate. */
static LLVMValueRef call(kiln_llvm_emitter *e, const kiln_intrinsic *in, LLVMValueRef sum,
                         LLVMValueRef a, LLVMValueRef b) {
    LLVMTypeRef result = LLVMVectorType(kiln_llvm_int(e, WORD_BITS), in->lanes);
    LLVMTypeRef type = LLVMVectorType(kiln_llvm_int(e, in->operand_bits),
                                      in->lanes * (WORD_BITS / in->operand_bits));
    LLVMValueRef arg[3];
    uint32_t count = 0;
    if (sum) arg[count++] = sum;
    arg[count++] = LLVMBuildBitCast(e->builder, a, type, "");
    arg[count++] = LLVMBuildBitCast(e->builder, b, type, "");
    bool overloaded =
        LLVMIntrinsicIsOverloaded(LLVMLookupIntrinsicID(in->instruction, strlen(in->instruction)));
    return kiln_llvm_intrinsic(e, in->instruction, (LLVMTypeRef[]){result, type},
                               overloaded ? 2 : 0, arg, count);
}

/* What the bias of `a` adds: the same for all results that use these bytes of `b`, so instruction
 * selection keeps one. */
static LLVMValueRef bias_sum(kiln_llvm_emitter *e, const kiln_intrinsic *in, LLVMValueRef b) {
    LLVMTypeRef words = LLVMTypeOf(b);
    LLVMValueRef bias = kiln_llvm_constant_int(words, (int64_t)(in->bias * 0x01010101u));
    return call(e, in, LLVMConstNull(words), bias, b);
}

/* The value, of which LLVM knows nothing any more: it would shorten chains of additions at the cost
 * of registers, of which accumulators leave none. No instruction. */
static LLVMValueRef opaque(kiln_llvm_emitter *e, LLVMValueRef v) {
    char constraint[] = "=v,0", nothing[] = ""; /* the call takes no constants */
    LLVMTypeRef vector = LLVMTypeOf(v), type = LLVMFunctionType(vector, &vector, 1, false);
    LLVMValueRef barrier = LLVMGetInlineAsm(type, nothing, 0, constraint, sizeof constraint - 1,
                                            false, false, LLVMInlineAsmDialectATT, false);
    return LLVMBuildCall2(e->builder, type, barrier, &v, 1, "");
}

/* sum + a * b. */
static LLVMValueRef accumulate(kiln_llvm_emitter *e, const kiln_intrinsic *in, LLVMValueRef sum,
                               LLVMValueRef a, LLVMValueRef b) {
    if (in->bias) sum = opaque(e, LLVMBuildSub(e->builder, sum, bias_sum(e, in, b), ""));
    if (in->accumulates) return call(e, in, sum, a, b);
    return opaque(e, LLVMBuildAdd(e->builder, sum, call(e, in, NULL, a, b), ""));
}

/* Where operands may change places the one word for all lanes comes second: some instructions take
 * it out of a register there. */
static bool wants_swap(const kiln_intrinsic *in, const kiln_llvm_address *at) {
    return in->operand[0] == in->operand[1] && !in->bias && at[0].lane_stride == 0;
}

bool kiln_llvm_tensor(kiln_llvm_emitter *e, kiln_stmt stmt) {
    use u;
    kiln_llvm_address at[KILN_INTRINSIC_OPERANDS] = {{0}};
    if (e->lanes == 0 || !find_use(e, stmt, &u)) return false;
    bool found = find_bytes(e, &u, u.load[0], &at[0]) && find_bytes(e, &u, u.load[1], &at[1]);
    if (found) {
        e->stamp = ++e->last_stamp;
        const kiln_intrinsic *in = u.intrinsic;
        bool swap = wants_swap(in, at);
        LLVMValueRef operand[] = {operand_words(e, &u, 0, &at[0]), operand_words(e, &u, 1, &at[1])},
                     sum = kiln_llvm_expr(e, u.before);
        sum = accumulate(e, in, sum, operand[swap], operand[!swap]);
        kiln_llvm_store(e, u.store, sum);
    }
    kiln_llvm_unbind(e, u.loop->var);
    return found;
}
