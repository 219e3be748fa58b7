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
void kiln_llvm_builder_deinit(kiln_llvm_builder *b); /* Keeps what was added to the module. */

/* ---- llvm_builder.c -------------------------------------------------------------------------- */

/* LLVM's form of a type. */
LLVMTypeRef kiln_llvm_type(const kiln_llvm_builder *b, kiln_ssa_type type);
/* pointer + bytes. */
LLVMValueRef kiln_llvm_offset(kiln_llvm_builder *b, LLVMValueRef pointer, LLVMValueRef bytes);
/* Calls an intrinsic whose overloads are the types `overload`. */
LLVMValueRef kiln_llvm_intrinsic(kiln_llvm_builder *b, const char *name, LLVMTypeRef *overload,
                                 uint32_t overload_count, LLVMValueRef *arg, uint32_t arg_count);

/* ---- llvm_control.c: members of kiln_builder_ops --------------------------------------------- */

#define X(result, name, arguments) result kiln_llvm_##name arguments;
#include "compiler-core/codegen/builder_control.def"
#undef X

/* ---- llvm_target.c --------------------------------------------------------------------------- */

/* The target's features as LLVM wants them. */
const char *kiln_llvm_features(const kiln_target *target, kiln_arena *arena);
/* The letter of a vector register in constraints of inline assembly; "" where none is known. */
const char *kiln_llvm_vector_constraint(kiln_arch arch);

#endif
