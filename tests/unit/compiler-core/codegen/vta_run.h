/* Texts of lowered programs for accelerators of the VTA class, run by both simulators beside the
 * loop interpreter. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_VTA_RUN_H
#define KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_VTA_RUN_H

#include "compiler-core/lower/lower.h"
#include "vta/program.h"

/* A machine that is small enough for tests: 1x4x4. The feature set follows. */
#define VTA_SMALL "vta:b1i4o4,i8w8a32,uop12,inp11,wgt13,acc13,bus64,clk100,alu4,pipe4,"

/* What lowering leaves of a text, which has no blocks but may have virtual threads. */
kiln_lowered vta_lower_text(const char *text, const kiln_target *target, kiln_arena *arena);
/* ILLEGAL_SCHEDULE of the back end is returned. */
kiln_status vta_compile_text(const char *text, const char *machine, kiln_arena *arena,
                             kiln_vta_program *out_program);
/* Runs the program on drawn data under `orders` orders of fsim and once by csim; all must be what
 * the loop interpreter says of the text. Returns the cycles. */
uint64_t vta_expect_equal(const char *text, const char *machine, uint64_t seed, uint32_t orders,
                          kiln_arena *arena);
/* The text of the back end's steps: "compute waits for load". */
const char *vta_tokens_of(const char *text, const char *machine, kiln_arena *arena);

#endif
