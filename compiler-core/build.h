/* One candidate from trace to artefact: the entry that builders, servers with LLVM, pack and tests
 * use. */
#ifndef KILN_COMPILER_CORE_BUILD_H
#define KILN_COMPILER_CORE_BUILD_H

#include "base/manifest.h"
#include "base/status.h"
#include "base/target.h"
#include "compiler-core/codegen/codegen.h"
#include "compiler-core/sched/trace.h"

/* Scratch memory that one kernel may ask for, shared by all workers and for each of them. */
#define KILN_BUILD_SCRATCH_MAX ((uint64_t)1 << 30)

/* Replays, lowers and compiles. The task key in the manifest is `task_key`.
 * ILLEGAL_SCHEDULE, RESOURCE_EXHAUSTED: drawn again, no trial. Everything in `arena`. */
KILN_MUST_USE kiln_status kiln_build(const kiln_program *te, kiln_str task_key,
                                     const kiln_trace *trace, const kiln_target *target,
                                     kiln_arena *arena, kiln_artefact *out_artefact);
/* The same; `context` is reused from one candidate to the next. */
KILN_MUST_USE kiln_status kiln_build_keeping(kiln_codegen_context *context, const kiln_program *te,
                                             kiln_str task_key, const kiln_trace *trace,
                                             const kiln_target *target, kiln_arena *arena,
                                             kiln_artefact *out_artefact);
/* The same as C text, for the target's vectors and caches. */
KILN_MUST_USE kiln_status kiln_build_c(const kiln_program *te, kiln_str task_key,
                                       const kiln_trace *trace, const kiln_target *target,
                                       kiln_arena *arena, kiln_artefact *out_artefact);
/* The same, but starts from a scheduled loop program; `te` is its task. For tests and benches. */
KILN_MUST_USE kiln_status kiln_build_scheduled(const kiln_program *te, kiln_str task_key,
                                               const kiln_program *scheduled,
                                               const kiln_target *target, kiln_arena *arena,
                                               kiln_artefact *out_artefact);
/* The serial reference (ir/reference.h): its outputs are the program's outputs, each followed by
 * its bound if it has one; identity layouts, one thread, no prepare. Its only optimisation is to
 * compute neighbouring outputs in the lanes of a vector; each sum is in the expression's order.
 */
KILN_MUST_USE kiln_status kiln_build_reference(const kiln_program *te, kiln_str task_key,
                                               const kiln_target *target, kiln_arena *arena,
                                               kiln_artefact *out_artefact);

#endif
