/* Artefacts for accelerators of the VTA class, run by a simulator beside the interpreter of tensor
 * expressions. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_VTA_BOARD_H
#define KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_VTA_BOARD_H

#include "base/target.h"
#include "compiler-core/ir/ir.h"

/* Builds the scheduled program and runs it on drawn data, in three orders of its engines: the
 * outputs are those of the expression. ILLEGAL_SCHEDULE of the build is returned. */
kiln_status vta_builds_equal(const kiln_program *te, const kiln_program *scheduled,
                             const kiln_target *target, uint64_t seed, kiln_arena *arena);

#endif
