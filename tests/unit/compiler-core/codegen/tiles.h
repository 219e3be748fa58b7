/* An emulator of AMX, for processors without it: instructions on tiles that the process meets are
 * computed by a handler of SIGILL, exactly as the Intel SDM (volume 2) says. An operand that the
 * SDM forbids (tiles of sizes that do not fit, no configuration) fails the test. x86-64 only. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_TILES_H
#define KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_TILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/manifest.h"
#include "base/tensor.h"
#include "compiler-core/ir/ir.h"

/* Instructions that were computed since the emulator began. */
typedef struct tile_counts {
    uint64_t configured, released, zeroed, loaded, stored, multiplied;
} tile_counts;

/* False: this processor is none of x86-64. Where it has AMX, its own instructions run, and nothing
 * is counted (run_in_tiles). */
bool emulate_tiles(void);
tile_counts tiles_emulated(void);
/* Runs an artefact whose target has AMX on this machine; an artefact_runner (support.h). */
kiln_status run_in_tiles(void *context, const kiln_artefact *artefact, const kiln_program *te,
                         const kiln_tensor *args, uint32_t workers);

#endif
