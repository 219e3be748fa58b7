/* What stands behind a row of backends.def. */
#ifndef KILN_COMPILER_CORE_CODEGEN_BACKEND_H
#define KILN_COMPILER_CORE_CODEGEN_BACKEND_H

#include "compiler-core/codegen/codegen.h"

typedef struct kiln_codegen_output {
    kiln_str bytes; /* in the arena that was given */
    uint64_t scratch_bytes, worker_bytes;
} kiln_codegen_output;

typedef kiln_status (*kiln_backend_emit)(const kiln_lowered *lowered, const kiln_target *target,
                                         const kiln_codegen_options *options, kiln_arena *arena,
                                         kiln_codegen_output *out_output);

/* UNIMPLEMENTED of all: the program holds what kiln_walk_entry_add refuses. */

/* LLVM's C API. UNIMPLEMENTED: LLVM does not know the CPU. INTERNAL: LLVM refuses the module, with
 * its message. */
KILN_MUST_USE kiln_status kiln_llvm_emit(const kiln_lowered *lowered, const kiln_target *target,
                                         const kiln_codegen_options *options, kiln_arena *arena,
                                         kiln_codegen_output *out_output);
/* C text (codegen.h). UNIMPLEMENTED: another form than KILN_EMIT_OBJECT is asked for. */
KILN_MUST_USE kiln_status kiln_c_emit(const kiln_lowered *lowered, const kiln_target *target,
                                      const kiln_codegen_options *options, kiln_arena *arena,
                                      kiln_codegen_output *out_output);

/* Byte code of the null device. RESOURCE_EXHAUSTED: more registers, temps or loops than it has. */
KILN_MUST_USE kiln_status kiln_null_emit(const kiln_lowered *lowered, const kiln_target *target,
                                         const kiln_codegen_options *options, kiln_arena *arena,
                                         kiln_codegen_output *out_output);

#endif
