/* Artefacts for accelerators of the VTA class, run by the functional simulator beside the
 * interpreter of tensor expressions. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_VTA_BOARD_H
#define KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_VTA_BOARD_H

#include "base/manifest.h"
#include "base/target.h"
#include "compiler-core/ir/ir.h"
#include "vta/program.h"

/* An expression with drawn data, and what the interpreter makes of them. */
typedef struct vta_judge {
    const kiln_program *te;
    kiln_tensor *arg; /* in the order of kiln_program_args */
} vta_judge;

/* The expression has integers only. Everything in `arena`. */
KILN_MUST_USE kiln_status vta_judge_create(const kiln_program *te, uint64_t seed, kiln_arena *arena,
                                           vta_judge *out_judge);
/* Runs the program that the artefact holds under the first `orders` orders of the simulator. NULL:
 * its outputs are those of the expression in each; else what is wrong, in `arena`. */
const char *vta_judge_program(const vta_judge *judge, const kiln_manifest *manifest,
                              const kiln_vta_program *program, uint32_t orders, kiln_arena *arena);

/* Builds the scheduled program and runs it on drawn data, in three orders of its engines: the
 * outputs are those of the expression. ILLEGAL_SCHEDULE of the build is returned. */
kiln_status vta_builds_equal(const kiln_program *te, const kiln_program *scheduled,
                             const kiln_target *target, uint64_t seed, kiln_arena *arena);

#endif
