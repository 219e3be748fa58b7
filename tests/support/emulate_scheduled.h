/* Scheduled programs as CUDA C in the block emulator. */
#ifndef KILN_TESTS_SUPPORT_EMULATE_SCHEDULED_H
#define KILN_TESTS_SUPPORT_EMULATE_SCHEDULED_H

#include "base/target.h"
#include "base/tensor.h"
#include "compiler-core/ir/ir.h"
#include "compiler-core/lower/launch.h"
#include "tests/support/emulate_block.h"

/* Compiles CUDA C in a folder of its own and runs one launch of it. Errors of emulate_block.h. */
KILN_MUST_USE kiln_status emulate_text(const char *text, const emulate_block_launch *launch,
                                       kiln_arena *arena);

/* Runs CUDA C of one launch, whose entry is run_0, with these arguments. Errors of
 * emulate_block.h. */
KILN_MUST_USE kiln_status emulate_launch(kiln_str text, const kiln_launch *l,
                                         const kiln_tensor *args, uint32_t arg_count,
                                         kiln_arena *arena);

/* Lowers the program for the CUDA device, makes CUDA C of it and runs all of its
 * launches, those first that pack constants. `args`: in the order of
 * kiln_program_args, row-major. `*out_text`: what was run, in `arena`.
 *
 * ILLEGAL_SCHEDULE, RESOURCE_EXHAUSTED  lowering refuses it
 * UNIMPLEMENTED                         a launch takes more arguments than the emulator gives
 * others                                as of emulate_block.h */
KILN_MUST_USE kiln_status emulate_scheduled(const kiln_program *scheduled,
                                            const kiln_target *target, const kiln_tensor *args,
                                            uint32_t arg_count, kiln_arena *arena,
                                            const char **out_text);

#endif
