/* Running artefacts on the null device, as support.h does on this machine. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_NULL_BOARD_H
#define KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_NULL_BOARD_H

#include "tests/unit/compiler-core/codegen/support.h"

/* What a run cost by the device's clock is added to the uint64_t that `context` points to; NULL:
 * nobody asks. */
kiln_status run_on_null(void *context, const kiln_artefact *artefact, const kiln_program *te,
                        const kiln_tensor *args, uint32_t workers);

/* The same from a scheduled program on, on a device whose groups may be as large as any: a
 * schedule_fuzz_device. */
kiln_status build_and_run_on_null(const kiln_program *te, const kiln_program *scheduled,
                                  const kiln_tensor *args);

#endif
