/* What a task takes at best, before it is scheduled: enough to tell algorithms of one task apart.
 * Private to rules/. */
#ifndef KILN_COMPILER_CORE_RULES_EXPECTED_H
#define KILN_COMPILER_CORE_RULES_EXPECTED_H

#include "base/target.h"
#include "compiler-core/ir/intrinsic.h"

/* Cycles of one run of `te`, a task or an alternative of it: its reductions at the peak, or as fast
 * as their constants arrive, and its transforms. Whatever algorithms have in common is left out. On
 * a GPU each of these is a launch, and all that it reads and writes lies in the device's memory. */
double kiln_expected_cycles(kiln_program *te, const kiln_target *target);
/* Multiplications and additions of the reductions that run each time. */
double kiln_expected_work(kiln_program *te);
/* Steps of the longest of them. */
double kiln_expected_steps(kiln_program *te);
/* Whether the constants of such a reduction come from beyond the second cache. */
bool kiln_expected_streams(kiln_program *te, const kiln_target *target);

/* Products that one instruction makes where sums count ones (algorithm/bits.c) in `alternative` of
 * `te`; 0: none does. */
double kiln_expected_bit_products(kiln_program *te, kiln_program *alternative,
                                  const kiln_target *target);

/* The type of the two halves that the block sums up products of in f32, or F32 where both factors
 * are rounded to tf32; NONE: neither. */
kiln_dtype kiln_rounded_multiplied(const kiln_program *p, kiln_block block);
/* The instruction of the target that sums up several such products of bf16; NULL: none. */
const kiln_intrinsic *kiln_expected_halves(const kiln_target *target);
/* Whether an instruction takes such factors as they are: for f16 FMLAL, one product a lane. */
bool kiln_expected_multiplies(const kiln_target *target, kiln_dtype factors);
/* Whether the block sums up products of two integers of 16 bits in 32. */
bool kiln_multiplies_wide(const kiln_program *p, kiln_block block);
/* The instruction for that, of a target on which none takes words of four bytes: those of whole
 * vectors of bytes leave sums to it that have other numbers of steps. NULL: none. */
const kiln_intrinsic *kiln_expected_wide(const kiln_target *target);

#endif
