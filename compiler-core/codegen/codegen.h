/* Lowered programs to bytes. Backends are rows of backends.def; the CPU backend emits LLVM IR
 * through the C API: already unrolled and vectorised SSA, which goes to instruction selection as
 * it is. Same lowered program, target and codegen version give the same bytes. */
#ifndef KILN_COMPILER_CORE_CODEGEN_CODEGEN_H
#define KILN_COMPILER_CORE_CODEGEN_CODEGEN_H

#include "base/manifest.h"
#include "base/status.h"
#include "base/target.h"
#include "compiler-core/lower/lower.h"

/* Bump when any target's bytes change; golden hashes fail otherwise. */
#define KILN_CODEGEN_VERSION 5
/* "1-llvm19.1.7" */
const char *kiln_codegen_version(void);

typedef enum kiln_emit { KILN_EMIT_OBJECT, KILN_EMIT_ASM, KILN_EMIT_LLVM } kiln_emit;

typedef struct kiln_codegen_options {
    kiln_emit emit;
    uint32_t optimise; /* 2: as usual; 0: LLVM optimises nothing (differential tests) */
} kiln_codegen_options;

/* `out_bytes` in `arena`; `*out_scratch` and `*out_worker_scratch`: bytes the kernel expects in
 * kiln_kernel_services.scratch. UNIMPLEMENTED: no backend for the target. */
KILN_MUST_USE kiln_status kiln_codegen(const kiln_lowered *lowered, const kiln_target *target,
                                       const kiln_codegen_options *options, kiln_arena *arena,
                                       kiln_str *out_bytes, uint64_t *out_scratch,
                                       uint64_t *out_worker_scratch);

#endif
