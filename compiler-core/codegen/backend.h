/* The type of the functions in backends.def. */
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

/* UNIMPLEMENTED: kiln_walk_lowered refuses the program (back ends that use walk.h); LLVM does not
 * know the CPU; C text was asked for another form than KILN_EMIT_OBJECT. INTERNAL: LLVM refuses the
 * module, with its message. RESOURCE_EXHAUSTED: the program needs more registers, temps or loops
 * than byte code has. */
#define X(name, backend, kind, arch, function)                                                 \
    KILN_MUST_USE kiln_status function(const kiln_lowered *lowered, const kiln_target *target, \
                                       const kiln_codegen_options *options, kiln_arena *arena, \
                                       kiln_codegen_output *out_output);
#include "compiler-core/codegen/backends.def"
#undef X

#endif
