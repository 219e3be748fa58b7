/* Control over LLVM's C API: marks, loops, branches, functions of the kernel ABI. */
#include <stddef.h>
#include <string.h>

#include "base/kernel_abi.h"
#include "compiler-core/codegen/llvm_builder.h"

static kiln_llvm_builder *of(kiln_builder *b) { return (kiln_llvm_builder *)b; }
static LLVMValueRef in(kiln_ssa v) { return (LLVMValueRef)v; }
static kiln_ssa out(LLVMValueRef v) { return (kiln_ssa)v; }

static LLVMTypeRef i64_type(const kiln_llvm_builder *b) {
    return LLVMInt64TypeInContext(b->context);
}
static LLVMTypeRef i32_type(const kiln_llvm_builder *b) {
    return LLVMInt32TypeInContext(b->context);
}
static LLVMTypeRef pointer_type(const kiln_llvm_builder *b) {
    return LLVMPointerTypeInContext(b->context, 0);
}
static LLVMValueRef i64(const kiln_llvm_builder *b, int64_t value) {
    return LLVMConstInt(i64_type(b), (unsigned long long)value, true);
}

static LLVMBasicBlockRef append_block(kiln_llvm_builder *b) {
    return LLVMAppendBasicBlockInContext(b->context, b->function, "");
}

/* ---- marks: placeholders that are erased ----------------------------------------------------- */

kiln_mark kiln_llvm_open_mark(kiln_builder *b) {
    return (kiln_mark)LLVMBuildFreeze(of(b)->builder, i64(of(b), 0), "");
}

void kiln_llvm_close_mark(kiln_builder *b, kiln_mark mark) {
    (void)b;
    LLVMInstructionEraseFromParent((LLVMValueRef)mark);
}

void *kiln_llvm_enter_mark(kiln_builder *b, kiln_mark mark) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(of(b)->builder);
    LLVMPositionBuilderBefore(of(b)->builder, (LLVMValueRef)mark);
    return here;
}

void kiln_llvm_leave(kiln_builder *b, void *place) {
    LLVMPositionBuilderAtEnd(of(b)->builder, place);
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* A pointer that a loop advances. */
typedef struct stepping {
    LLVMValueRef phi;
    int64_t step_bytes;
} stepping;

struct kiln_open_loop {
    LLVMBasicBlockRef preheader, block;
    LLVMValueRef counter, first;
    KILN_VEC(LLVMValueRef) carried;
    /* Addresses that advance with the counter are separate pointers, stepped at the end of the
     * loop: LLVM's strength reduction would do the same, but takes longer than all other passes.
     */
    KILN_VEC(stepping) pointer;
};

kiln_loop_handle kiln_llvm_loop_begin(kiln_builder *base, kiln_ssa first, kiln_ssa *out_counter) {
    kiln_llvm_builder *b = of(base);
    struct kiln_open_loop *loop = KILN_ARENA_NEW(b->arena, struct kiln_open_loop);
    loop->preheader = LLVMGetInsertBlock(b->builder);
    loop->block = append_block(b);
    loop->first = in(first);
    LLVMBuildBr(b->builder, loop->block);
    LLVMPositionBuilderAtEnd(b->builder, loop->block);
    loop->counter = LLVMBuildPhi(b->builder, i64_type(b), "");
    LLVMAddIncoming(loop->counter, &loop->first, &loop->preheader, 1);
    *out_counter = out(loop->counter);
    return loop;
}

kiln_ssa kiln_llvm_loop_carry(kiln_builder *base, kiln_loop_handle loop, kiln_ssa before) {
    kiln_llvm_builder *b = of(base);
    LLVMValueRef value = in(before), phi = LLVMBuildPhi(b->builder, LLVMTypeOf(value), "");
    LLVMAddIncoming(phi, &value, &loop->preheader, 1);
    kiln_vec_push_in(b->arena, &loop->carried, phi);
    return out(phi);
}

kiln_ssa kiln_llvm_loop_pointer(kiln_builder *base, kiln_loop_handle loop, kiln_ssa start,
                                int64_t step_bytes) {
    kiln_llvm_builder *b = of(base);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b->builder);
    LLVMPositionBuilderBefore(b->builder, LLVMGetBasicBlockTerminator(loop->preheader));
    LLVMValueRef offset = LLVMBuildMul(b->builder, loop->first, i64(b, step_bytes), "");
    LLVMValueRef before = in(start);
    if (!LLVMIsNull(offset)) before = kiln_llvm_offset(b, before, offset);
    LLVMPositionBuilder(b->builder, loop->block, LLVMGetFirstInstruction(loop->block));
    LLVMValueRef phi = LLVMBuildPhi(b->builder, LLVMTypeOf(before), "");
    LLVMAddIncoming(phi, &before, &loop->preheader, 1);
    kiln_vec_push_in(b->arena, &loop->pointer, ((stepping){phi, step_bytes}));
    LLVMPositionBuilderAtEnd(b->builder, here);
    return out(phi);
}

static void step_pointers(kiln_llvm_builder *b, kiln_loop_handle loop, LLVMBasicBlockRef latch) {
    for (uint32_t i = 0; i < loop->pointer.count; i++) {
        LLVMValueRef phi = loop->pointer.data[i].phi;
        LLVMValueRef next = kiln_llvm_offset(b, phi, i64(b, loop->pointer.data[i].step_bytes));
        LLVMAddIncoming(phi, &next, &latch, 1);
    }
}

/* For targets where 64-bit integers are pairs of registers: if the bounds are known and small the
 * counter has 32 bits, and its users extend it. */
static void shorten_counter(kiln_llvm_builder *b, kiln_loop_handle loop, LLVMValueRef end) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b->builder);
    LLVMValueRef first = loop->first, counter = loop->counter;
    if (!LLVMIsAConstantInt(first) || !LLVMIsAConstantInt(end) ||
        LLVMConstIntGetSExtValue(first) < INT32_MIN || LLVMConstIntGetSExtValue(end) > INT32_MAX)
        return;
    LLVMPositionBuilderBefore(b->builder, counter);
    loop->counter = LLVMBuildPhi(b->builder, i32_type(b), "");
    first = LLVMConstInt(i32_type(b), (uint64_t)LLVMConstIntGetSExtValue(first), true);
    LLVMAddIncoming(loop->counter, &first, &loop->preheader, 1);
    if (LLVMGetFirstUse(counter)) {
        LLVMValueRef after = counter;
        while (LLVMIsAPHINode(after)) after = LLVMGetNextInstruction(after);
        LLVMPositionBuilderBefore(b->builder, after);
        LLVMReplaceAllUsesWith(counter, LLVMBuildSExt(b->builder, loop->counter, i64_type(b), ""));
    }
    LLVMInstructionEraseFromParent(counter);
    LLVMPositionBuilderAtEnd(b->builder, here);
}

void kiln_llvm_loop_end(kiln_builder *base, kiln_loop_handle loop, kiln_ssa end,
                        kiln_ssa *carried) {
    kiln_llvm_builder *b = of(base);
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(b->builder);
    step_pointers(b, loop, latch);
    if (b->target->word_bytes < sizeof(int64_t)) shorten_counter(b, loop, in(end));
    LLVMValueRef one = LLVMConstInt(LLVMTypeOf(loop->counter), 1, false);
    LLVMValueRef next = LLVMBuildNSWAdd(b->builder, loop->counter, one, "");
    end = out(LLVMBuildTruncOrBitCast(b->builder, in(end), LLVMTypeOf(next), ""));
    LLVMValueRef again = LLVMBuildICmp(b->builder, LLVMIntNE, next, in(end), "");
    LLVMBasicBlockRef exit = append_block(b);
    LLVMBuildCondBr(b->builder, again, loop->block, exit);
    LLVMAddIncoming(loop->counter, &next, &latch, 1);
    for (uint32_t i = 0; i < loop->carried.count; i++) {
        LLVMValueRef value = in(carried[i]); /* unchanged behind the loop */
        LLVMAddIncoming(loop->carried.data[i], &value, &latch, 1);
    }
    LLVMPositionBuilderAtEnd(b->builder, exit);
}

/* ---- branches -------------------------------------------------------------------------------- */

struct kiln_open_branch {
    LLVMBasicBlockRef otherwise, join; /* otherwise NULL: no else side */
    LLVMBasicBlockRef from, then_end;  /* predecessors of the join for `no` and `yes` */
};

kiln_branch_handle kiln_llvm_branch_begin(kiln_builder *base, kiln_ssa condition, bool has_else) {
    kiln_llvm_builder *b = of(base);
    struct kiln_open_branch *branch = KILN_ARENA_NEW(b->arena, struct kiln_open_branch);
    LLVMBasicBlockRef then_block = append_block(b);
    branch->otherwise = has_else ? append_block(b) : NULL;
    branch->join = append_block(b);
    branch->from = LLVMGetInsertBlock(b->builder);
    LLVMBuildCondBr(b->builder, in(condition), then_block,
                    has_else ? branch->otherwise : branch->join);
    LLVMPositionBuilderAtEnd(b->builder, then_block);
    return branch;
}

static void end_then(kiln_llvm_builder *b, kiln_branch_handle branch) {
    branch->then_end = LLVMGetInsertBlock(b->builder);
    LLVMBuildBr(b->builder, branch->join);
}

void kiln_llvm_branch_else(kiln_builder *b, kiln_branch_handle branch) {
    end_then(of(b), branch);
    LLVMPositionBuilderAtEnd(of(b)->builder, branch->otherwise);
}

void *kiln_llvm_branch_enter_then(kiln_builder *b, kiln_branch_handle branch) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(of(b)->builder);
    LLVMPositionBuilderBefore(of(b)->builder, LLVMGetBasicBlockTerminator(branch->then_end));
    return here;
}

void kiln_llvm_branch_end(kiln_builder *base, kiln_branch_handle branch) {
    kiln_llvm_builder *b = of(base);
    if (branch->otherwise) {
        branch->from = LLVMGetInsertBlock(b->builder);
        LLVMBuildBr(b->builder, branch->join);
    } else {
        end_then(b, branch);
    }
    LLVMPositionBuilderAtEnd(b->builder, branch->join);
}

kiln_ssa kiln_llvm_branch_join(kiln_builder *b, kiln_branch_handle branch, kiln_ssa yes,
                               kiln_ssa no) {
    LLVMValueRef phi = LLVMBuildPhi(of(b)->builder, LLVMTypeOf(in(yes)), "");
    LLVMValueRef value[3] = {in(no), in(yes), in(no)};
    LLVMBasicBlockRef block[3] = {branch->from, branch->then_end, branch->from};
    uint32_t first = branch->otherwise ? 1 : 0; /* in the order of the blocks */
    LLVMAddIncoming(phi, &value[first], &block[first], 2);
    return out(phi);
}

/* ---- functions ------------------------------------------------------------------------------- */

void kiln_llvm_add_attribute(kiln_llvm_builder *b, LLVMValueRef function, LLVMAttributeIndex at,
                             const char *name, uint64_t value) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(function, at, LLVMCreateEnumAttribute(b->context, kind, value));
}

void kiln_llvm_add_text_attribute(kiln_llvm_builder *b, LLVMValueRef function, const char *name,
                                  const char *value) {
    LLVMAttributeRef attribute = LLVMCreateStringAttribute(b->context, name, (unsigned)strlen(name),
                                                           value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(function, LLVMAttributeFunctionIndex, attribute);
}

void kiln_llvm_begin_function(kiln_llvm_builder *b, const char *name, LLVMTypeRef type,
                              LLVMLinkage linkage) {
    LLVMValueRef function = LLVMAddFunction(b->module, name, type);
    LLVMSetLinkage(function, linkage);
    kiln_llvm_add_attribute(b, function, LLVMAttributeFunctionIndex, "nounwind", 0);
    kiln_llvm_add_text_attribute(b, function, "target-cpu", b->machine->cpu);
    const char *features = b->machine->features;
    if (*features) kiln_llvm_add_text_attribute(b, function, "target-features", features);
    if (!b->machine->launches)
        kiln_llvm_add_text_attribute(
            b, function, "prefer-vector-width",
            kiln_arena_printf(b->arena, "%u", b->target->vector_bytes * 8));
    b->function = function;
    LLVMPositionBuilderAtEnd(b->builder, append_block(b));
}

void kiln_llvm_entry_end(kiln_builder *b) {
    LLVMBuildRet(of(b)->builder, LLVMConstInt(i32_type(of(b)), KILN_KERNEL_OK, false));
}

/* Offsets of members of the ABI's structures on the target, whose pointers may be shorter than the
 * host's.
 */
enum { SERVICE_HOST, SERVICE_PARALLEL_FOR, SERVICE_SCRATCH };

static uint64_t service_offset(const kiln_llvm_builder *b, uint32_t pointer) {
    return 8 + (uint64_t)pointer * b->target->pointer_bytes;
}
_Static_assert(offsetof(kiln_kernel_services, parallel_for) ==
                       8 + SERVICE_PARALLEL_FOR * sizeof(void *) &&
                   offsetof(kiln_kernel_services, scratch) ==
                       8 + SERVICE_SCRATCH * sizeof(void *) &&
                   offsetof(kiln_kernel_tensor, data) == 0,
               "as service_offset and kiln_llvm_entry_begin have it");

static LLVMValueRef load_at(kiln_llvm_builder *b, LLVMTypeRef type, LLVMValueRef base,
                            uint64_t byte_offset) {
    LLVMValueRef at = kiln_llvm_offset(b, base, i64(b, (int64_t)byte_offset));
    return LLVMBuildLoad2(b->builder, type, at, "");
}

static LLVMValueRef load_pointer(kiln_llvm_builder *b, LLVMValueRef base, uint64_t byte_offset) {
    return load_at(b, pointer_type(b), base, byte_offset);
}

/* int32 name(args, services): finds the data of each argument in its descriptor. */
void kiln_llvm_entry_begin(kiln_builder *base, const char *name, uint32_t arg_count,
                           const bool *touched, kiln_entry_values *out_values) {
    kiln_llvm_builder *b = of(base);
    LLVMTypeRef ptr = pointer_type(b);
    kiln_llvm_begin_function(b, name,
                             LLVMFunctionType(i32_type(b), (LLVMTypeRef[]){ptr, ptr}, 2, false),
                             LLVMExternalLinkage);
    b->services = LLVMGetParam(b->function, 1);
    out_values->scratch = out(load_pointer(b, b->services, service_offset(b, SERVICE_SCRATCH)));
    out_values->data = KILN_ARENA_ARRAY(b->arena, kiln_ssa, arg_count + 1);
    for (uint32_t i = 0; i < arg_count; i++) {
        if (!touched[i]) continue;
        LLVMValueRef tensor =
            load_pointer(b, LLVMGetParam(b->function, 0), (uint64_t)i * b->target->pointer_bytes);
        out_values->data[i] = out(load_pointer(b, tensor, 0));
    }
}

/* The function that calls parallel_for passes 8-byte words on its stack to the body: the services,
 * then the captured values. int32 body(words, begin, end, worker). */
void kiln_llvm_parallel_begin(kiln_builder *base, const char *name, kiln_mark entry,
                              const kiln_ssa *captured, uint32_t captured_count,
                              kiln_body_values *out_values) {
    kiln_llvm_builder *b = of(base);
    LLVMTypeRef ptr = pointer_type(b), i64t = i64_type(b), i32 = i32_type(b);
    void *here = kiln_llvm_enter_mark(base, entry);
    LLVMValueRef words = LLVMBuildAlloca(b->builder, LLVMArrayType2(i64t, captured_count + 1), "");
    LLVMSetAlignment(words, 8);
    kiln_llvm_leave(base, here);
    for (uint32_t i = 0; i <= captured_count; i++)
        LLVMBuildStore(b->builder, i ? in(captured[i - 1]) : b->services,
                       kiln_llvm_offset(b, words, i64(b, 8 * (int64_t)i)));

    b->caller = b->function;
    b->caller_services = b->services;
    b->caller_block = here;
    b->closure = words;
    kiln_llvm_begin_function(b, name,
                             LLVMFunctionType(i32, (LLVMTypeRef[]){ptr, i64t, i64t, i32}, 4, false),
                             LLVMInternalLinkage);
    LLVMValueRef context = LLVMGetParam(b->function, 0);
    b->services = load_pointer(b, context, 0);
    out_values->captured = KILN_ARENA_ARRAY(b->arena, kiln_ssa, captured_count + 1);
    for (uint32_t i = 0; i < captured_count; i++)
        out_values->captured[i] =
            out(load_at(b, LLVMTypeOf(in(captured[i])), context, 8 * ((uint64_t)i + 1)));
    out_values->begin = out(LLVMGetParam(b->function, 1));
    out_values->end = out(LLVMGetParam(b->function, 2));
    out_values->worker = out(LLVMGetParam(b->function, 3));
}

void kiln_llvm_parallel_end(kiln_builder *base, int64_t count) {
    kiln_llvm_builder *b = of(base);
    kiln_llvm_entry_end(base);
    LLVMValueRef body = b->function;
    b->function = b->caller;
    b->services = b->caller_services;
    LLVMPositionBuilderAtEnd(b->builder, b->caller_block);

    LLVMTypeRef i32 = i32_type(b), ptr = pointer_type(b);
    LLVMTypeRef type = LLVMFunctionType(i32, (LLVMTypeRef[]){ptr, i64_type(b), ptr, ptr}, 4, false);
    LLVMValueRef host = load_pointer(b, b->services, service_offset(b, SERVICE_HOST));
    LLVMValueRef parallel_for =
        load_pointer(b, b->services, service_offset(b, SERVICE_PARALLEL_FOR));
    LLVMValueRef status =
        LLVMBuildCall2(b->builder, type, parallel_for,
                       (LLVMValueRef[]){host, i64(b, count), body, b->closure}, 4, "");
    LLVMBasicBlockRef failed = append_block(b), next = append_block(b);
    LLVMBuildCondBr(b->builder,
                    LLVMBuildICmp(b->builder, LLVMIntNE, status, LLVMConstNull(i32), ""), failed,
                    next);
    LLVMPositionBuilderAtEnd(b->builder, failed);
    LLVMBuildRet(b->builder, status);
    LLVMPositionBuilderAtEnd(b->builder, next);
}
