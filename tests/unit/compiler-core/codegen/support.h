/* Running what was compiled, and asking whether it computed what the expression says. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_SUPPORT_H
#define KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_SUPPORT_H

#include "base/manifest.h"
#include "compiler-core/lower/lower.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/ir/support.h"

/* An artefact made from a scheduled program with that optimisation, without going through a trace.
 */
kiln_status compile_scheduled(const kiln_program *scheduled, const kiln_target *target,
                              uint32_t optimise, kiln_arena *arena, kiln_artefact *out_artefact);
/* The same through a back end of backends.def; NULL: the target's first. */
kiln_status compile_scheduled_as(const kiln_program *scheduled, const kiln_target *target,
                                 const char *backend, uint32_t optimise, kiln_arena *arena,
                                 kiln_artefact *out_artefact);
/* Loads the artefact between guard pages, binds `args` (the order of kiln_program_args of `te`,
 * row-major), prepares and runs it twice with `workers` threads; outputs are written to `args`. */
kiln_status run_artefact(const kiln_artefact *artefact, const kiln_program *te,
                         const kiln_tensor *args, uint32_t workers);

/* Text of a device's program that is good, and what was lowered for it. `backend`: of backends.def,
 * "cuda" for CUDA C; NULL: the target's first. */
kiln_str device_text(const kiln_program *scheduled, const char *target_text, const char *backend,
                     kiln_arena *arena, kiln_lowered *out_lowered);

/* The argument of `te` with that name. */
const kiln_tensor *tensor_named(const kiln_program *te, const kiln_tensor *args, kiln_str name);

/* How an artefact is run, as run_artefact does it here. */
typedef kiln_status (*artefact_runner)(void *context, const kiln_artefact *artefact,
                                       const kiln_program *te, const kiln_tensor *args,
                                       uint32_t workers);

/* Compiles `scheduled` and compares what it computes on drawn data with the interpreter of `te`. An
 * illegal schedule is returned, everything else fails the test. */
kiln_status expect_compiled_equals(const kiln_program *te, const kiln_program *scheduled,
                                   const kiln_target *target, uint32_t optimise, uint64_t seed);
/* The same through a back end, as above, with another way to run it. */
kiln_status expect_runs_equal(const kiln_program *te, const kiln_program *scheduled,
                              const kiln_target *target, const char *backend, uint32_t optimise,
                              uint64_t seed, artefact_runner run, void *context);

#endif
