/* Private to codegen/: the value builder over LLVM's C API (llvm_builder.c, llvm_control.c), and
 * the modules that it fills (llvm_target.c). A kiln_ssa is an LLVMValueRef. */
#ifndef KILN_COMPILER_CORE_CODEGEN_LLVM_BUILDER_H
#define KILN_COMPILER_CORE_CODEGEN_LLVM_BUILDER_H

#include <llvm-c/Core.h>

#include "base/target.h"
#include "compiler-core/codegen/builder.h"

typedef struct kiln_llvm_builder {
    kiln_builder base;
    const kiln_target *target;
    kiln_arena *arena;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;

    /* The function being written, and while a parallel body is written, the one that calls it. */
    LLVMValueRef function, services;
    LLVMValueRef caller, caller_services, closure;
    LLVMBasicBlockRef caller_block;
} kiln_llvm_builder;

/* Functions are added to `module`, for `target`; both and `arena` must outlive the builder. */
void kiln_llvm_builder_init(kiln_llvm_builder *b, const kiln_target *target, LLVMContextRef context,
                            LLVMModuleRef module, kiln_arena *arena);
void kiln_llvm_builder_deinit(kiln_llvm_builder *b);

/* ---- llvm_builder.c -------------------------------------------------------------------------- */

LLVMTypeRef kiln_llvm_type(const kiln_llvm_builder *b, kiln_ssa_type type);
/* pointer + bytes. */
LLVMValueRef kiln_llvm_offset(kiln_llvm_builder *b, LLVMValueRef pointer, LLVMValueRef bytes);
/* Calls an intrinsic whose overloads are the types `overload`. */
LLVMValueRef kiln_llvm_intrinsic(kiln_llvm_builder *b, const char *name, LLVMTypeRef *overload,
                                 uint32_t overload_count, LLVMValueRef *arg, uint32_t arg_count);

/* ---- llvm_control.c: members of kiln_builder_ops --------------------------------------------- */

kiln_mark kiln_llvm_open_mark(kiln_builder *b);
void kiln_llvm_close_mark(kiln_builder *b, kiln_mark mark);
void *kiln_llvm_enter_mark(kiln_builder *b, kiln_mark mark);
void kiln_llvm_leave(kiln_builder *b, void *place);
kiln_loop_handle kiln_llvm_loop_begin(kiln_builder *b, kiln_ssa first, kiln_ssa *out_counter);
kiln_ssa kiln_llvm_loop_carry(kiln_builder *b, kiln_loop_handle loop, kiln_ssa before);
kiln_ssa kiln_llvm_loop_pointer(kiln_builder *b, kiln_loop_handle loop, kiln_ssa base,
                                int64_t step_bytes);
void kiln_llvm_loop_end(kiln_builder *b, kiln_loop_handle loop, kiln_ssa end, kiln_ssa *carried);
kiln_branch_handle kiln_llvm_branch_begin(kiln_builder *b, kiln_ssa condition, bool has_else);
void kiln_llvm_branch_else(kiln_builder *b, kiln_branch_handle branch);
void *kiln_llvm_branch_enter_then(kiln_builder *b, kiln_branch_handle branch);
void kiln_llvm_branch_end(kiln_builder *b, kiln_branch_handle branch);
kiln_ssa kiln_llvm_branch_join(kiln_builder *b, kiln_branch_handle branch, kiln_ssa yes,
                               kiln_ssa no);
void kiln_llvm_entry_begin(kiln_builder *b, const char *name, uint32_t arg_count,
                           const bool *touched, kiln_entry_values *out);
void kiln_llvm_entry_end(kiln_builder *b);
void kiln_llvm_parallel_begin(kiln_builder *b, const char *name, kiln_mark entry,
                              const kiln_ssa *captured, uint32_t captured_count,
                              kiln_body_values *out);
void kiln_llvm_parallel_end(kiln_builder *b, int64_t count);

/* ---- llvm_target.c --------------------------------------------------------------------------- */

/* The target's features as LLVM wants them. */
const char *kiln_llvm_features(const kiln_target *target, kiln_arena *arena);
/* The letter of a vector register in constraints of inline assembly; "" where none is known. */
const char *kiln_llvm_vector_constraint(kiln_arch arch);

#endif
