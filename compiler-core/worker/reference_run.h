/* From the compiled reference of a task to its reference blob. Private to worker/. */
#ifndef KILN_COMPILER_CORE_WORKER_REFERENCE_RUN_H
#define KILN_COMPILER_CORE_WORKER_REFERENCE_RUN_H

#include "base/status.h"
#include "base/str.h"
#include "compiler-core/core.h"

/* Runs `artefact`, which kiln_build_reference made of `te` for this machine, on the data that
 * boards make of `seed`, and appends the blob (base/reference.h) to `bytes`.
 *
 * Candidates are compared with this kernel, and both are lowered by the same code. Therefore a
 * random part of each output, chosen by `seed`, is interpreted on the same data, to find errors of
 * lowering on real sizes. DATA_LOSS: an element differs from the interpreter's; the note names it.
 * RESOURCE_EXHAUSTED: more outputs or bytes than base/reference.h allows, before they are
 * allocated. INTERNAL: the kernel failed. */
KILN_MUST_USE kiln_status kiln_reference_run(const kiln_program *te, kiln_str artefact,
                                             uint64_t seed, kiln_arena *arena, kiln_strbuf *bytes);

#endif
