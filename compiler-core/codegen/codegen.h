/* Lowered programs to bytes. Backends are rows of backends.def: `llvm` makes objects through LLVM's
 * C API, from already unrolled and vectorised SSA, which goes to instruction selection as it is;
 * `c` makes C text. Both are value builders (builder.h) behind one walk over the program (walk.h).
 * Same lowered program, target, options and codegen version give the same bytes. */
#ifndef KILN_COMPILER_CORE_CODEGEN_CODEGEN_H
#define KILN_COMPILER_CORE_CODEGEN_CODEGEN_H

#include "base/manifest.h"
#include "base/status.h"
#include "base/target.h"
#include "compiler-core/lower/lower.h"

/* Bump when any target's bytes change; golden hashes fail otherwise. */
#define KILN_CODEGEN_VERSION 20
/* "1-llvm19.1.7" */
const char *kiln_codegen_version(void);

/* The state kept from one compilation to the next: LLVM's machine for the last target, which takes
 * half a millisecond to make. For one thread at a time. From its first compilation until it is
 * destroyed, LLVM's process-wide switches are set by Kiln. */
typedef struct kiln_codegen_context kiln_codegen_context;
kiln_codegen_context *kiln_codegen_context_create(void);
void kiln_codegen_context_destroy(kiln_codegen_context *context); /* NULL is fine. */

typedef enum kiln_emit { KILN_EMIT_OBJECT, KILN_EMIT_ASM, KILN_EMIT_LLVM } kiln_emit;

typedef struct kiln_codegen_options {
    kiln_emit emit;
    uint32_t optimise;     /* 2: as usual; 0: LLVM optimises nothing (differential tests) */
    const char *backend;   /* of backends.def; NULL: the first that fits the target */
    const char *processor; /* LLVM's processor name, for back ends without a target (amdgpu:
                            * "gfx90a") */
    /* No function of C's library is called, as on targets that have none: tests the
     * replacements. */
    bool own_functions;
    kiln_codegen_context *context; /* NULL: one for this compilation */
} kiln_codegen_options;

/* Text of the backend `c` is one translation unit for gcc and clang, with the entries of
 * base/kernel_abi.h. The part before this line is common to all artefacts; omit it when it is
 * already present. Behind it each entry is a function `kiln_run_with(services, scratch, a0, a3,
 * ...)` over the data of the arguments that it touches, with their numbers, and unless KILN_STATIC
 * is defined the entry itself. */
extern const char kiln_c_text_split[];

/* Whether the back end of that name (of backends.def) makes code for the target. */
bool kiln_codegen_makes(const char *backend, const kiln_target *target);
/* `out_bytes` in `arena`; `*out_scratch` and `*out_worker_scratch`: bytes the kernel expects in
 * kiln_kernel_services.scratch. UNIMPLEMENTED: no backend for the target. */
KILN_MUST_USE kiln_status kiln_codegen(const kiln_lowered *lowered, const kiln_target *target,
                                       const kiln_codegen_options *options, kiln_arena *arena,
                                       kiln_str *out_bytes, uint64_t *out_scratch,
                                       uint64_t *out_worker_scratch);

#endif
