/* Private to codegen/: the value builder over LLVM's C API (llvm_builder.c, llvm_control.c), and
 * the modules that it fills (llvm_target.c). A kiln_ssa is an LLVMValueRef. */
#ifndef KILN_COMPILER_CORE_CODEGEN_LLVM_BUILDER_H
#define KILN_COMPILER_CORE_CODEGEN_LLVM_BUILDER_H

#include <llvm-c/Core.h>

#include "base/target.h"
#include "compiler-core/codegen/builder.h"

/* Properties of machines that run launches (llvm_launch.c). */
typedef struct kiln_llvm_launches kiln_llvm_launches;

/* A code generator of LLVM for one compilation: a row of llvm_machines.def with triple, CPU and
 * features. */
typedef struct kiln_llvm_machine {
    const char *triple, *cpu, *features, *abi;
    const char *vector_constraint;      /* the letter in inline assembly; "": none is known */
    const kiln_llvm_launches *launches; /* NULL: it has none */
    bool is_text;                       /* payloads are assembly */
    bool has_library;                   /* code may call functions of C's */
} kiln_llvm_machine;

typedef struct kiln_llvm_builder {
    kiln_builder base;
    kiln_builder_ops ops; /* of this machine */
    const kiln_target *target;
    const kiln_llvm_machine *machine;
    kiln_arena *arena;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;

    /* The function being written, and while a parallel body is written, the one that calls it. */
    LLVMValueRef function, services;
    LLVMValueRef caller, caller_services, closure;
    LLVMBasicBlockRef caller_block;
} kiln_llvm_builder;

/* Functions are added to `module`, for `target` on `machine`; all of them and `arena` must outlive
 * the builder. */
void kiln_llvm_builder_init(kiln_llvm_builder *b, const kiln_target *target,
                            const kiln_llvm_machine *machine, LLVMContextRef context,
                            LLVMModuleRef module, kiln_arena *arena);
void kiln_llvm_builder_deinit(kiln_llvm_builder *b); /* Frees the builder; the module keeps the
                                                      * functions. */

/* ---- llvm_builder.c -------------------------------------------------------------------------- */

/* LLVM's form of a type. */
LLVMTypeRef kiln_llvm_type(const kiln_llvm_builder *b, kiln_ssa_type type);
LLVMTypeRef kiln_llvm_pointer(const kiln_llvm_builder *b, kiln_ssa_space space);
/* pointer + bytes. */
LLVMValueRef kiln_llvm_offset(kiln_llvm_builder *b, LLVMValueRef pointer, LLVMValueRef bytes);
/* Calls an intrinsic whose overloads are the types `overload`. */
LLVMValueRef kiln_llvm_intrinsic(kiln_llvm_builder *b, const char *name, LLVMTypeRef *overload,
                                 uint32_t overload_count, LLVMValueRef *arg, uint32_t arg_count);

/* ---- llvm_control.c: members of kiln_builder_ops --------------------------------------------- */

#define X(result, name, arguments) result kiln_llvm_##name arguments;
#include "compiler-core/codegen/builder_control.def"
#undef X

/* Starts a function with the attributes that every function has, and enters it. */
void kiln_llvm_begin_function(kiln_llvm_builder *b, const char *name, LLVMTypeRef type,
                              LLVMLinkage linkage);
void kiln_llvm_add_attribute(kiln_llvm_builder *b, LLVMValueRef function, LLVMAttributeIndex at,
                             const char *name, uint64_t value);
void kiln_llvm_add_text_attribute(kiln_llvm_builder *b, LLVMValueRef function, const char *name,
                                  const char *value);

/* ---- llvm_target.c, llvm_launch.c: column `spell` of llvm_machines.def -------------------------
 */

#define X(backend, kind, arch, name, abi, constraint, form, spell)                 \
    void kiln_llvm_spell_##spell(const kiln_target *target, const char *processor, \
                                 kiln_arena *arena, kiln_llvm_machine *out);
#include "compiler-core/codegen/llvm_machines.def"
#undef X

/* PTX whose kernels say how many groups their clusters have, from what LLVM writes. */
kiln_str kiln_llvm_name_clusters(kiln_str ptx, kiln_arena *arena);
/* Whether the machine has NVIDIA's instructions of warps. */
bool kiln_llvm_has_warps(const kiln_llvm_launches *machine);
/* Adds the members for these (llvm_warp.c). */
void kiln_llvm_add_warps(kiln_builder_ops *ops);

#endif
