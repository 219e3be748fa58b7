/* One candidate from trace to artefact: the entry that builders, servers with LLVM, pack and tests use. */
#ifndef KILN_COMPILER_CORE_BUILD_H
#define KILN_COMPILER_CORE_BUILD_H

#include "base/manifest.h"
#include "base/status.h"
#include "base/target.h"
#include "compiler-core/sched/trace.h"

/* Replays, lowers and compiles. The task key in the manifest is `task_key`.
 * ILLEGAL_SCHEDULE, RESOURCE_EXHAUSTED: drawn again, no trial. Everything in `arena`. */
KILN_MUST_USE kiln_status kiln_build(const kiln_program *te, kiln_str task_key, const kiln_trace *trace, const kiln_target *target,
                                     kiln_arena *arena, kiln_artefact *out_artefact);
/* The serial reference (ir/reference.h): its outputs are the program's outputs, each followed by its bound
 * if it has one; unscheduled, identity layouts, no prepare. */
KILN_MUST_USE kiln_status kiln_build_reference(const kiln_program *te, kiln_str task_key, const kiln_target *target,
                                               kiln_arena *arena, kiln_artefact *out_artefact);

#endif
