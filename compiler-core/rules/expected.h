/* The least time of a task before it is scheduled, precise enough to compare algorithms of one
 * task. Private to rules/. */
#ifndef KILN_COMPILER_CORE_RULES_EXPECTED_H
#define KILN_COMPILER_CORE_RULES_EXPECTED_H

#include "base/target.h"
#include "compiler-core/ir/intrinsic.h"

/* Cycles of one run of `te`, a task or an alternative of it: its reductions at the peak, or at the
 * rate at which their constants are read, and its transforms. The work common to all algorithms is
 * left out. On a GPU each of these is a launch whose operands and results lie in the device's
 * memory. */
double kiln_expected_cycles(kiln_program *te, const kiln_target *target);
/* Multiplications and additions of the reductions that run each time. */
double kiln_expected_work(kiln_program *te);
/* Steps of the longest of them. */
double kiln_expected_steps(kiln_program *te);
/* Whether the constants of such a reduction come from beyond the second cache. */
bool kiln_expected_streams(kiln_program *te, const kiln_target *target);

/* Products per instruction of sums that count ones (algorithm/bits.c) in `alternative` of `te`; 0:
 * there are no such sums. */
double kiln_expected_bit_products(kiln_program *te, kiln_program *alternative,
                                  const kiln_target *target);

/* The type of the factors, if the block sums up products of two halves in f32; F32 if both factors
 * are rounded to tf32; NONE: neither. */
kiln_dtype kiln_rounded_multiplied(const kiln_program *p, kiln_block block);
/* The instruction of the target that sums up several such products of bf16; NULL: none. */
const kiln_intrinsic *kiln_expected_halves(const kiln_target *target);
/* Whether an instruction takes such factors without a conversion: for f16 FMLAL, one product a
 * lane. */
bool kiln_expected_multiplies(const kiln_target *target, kiln_dtype factors);
/* Whether the block sums up products of two 16-bit integers in 32 bits. */
bool kiln_multiplies_wide(const kiln_program *p, kiln_block block);
/* The instruction for that, on a target without instructions on words of four bytes. It also serves
 * sums of bytes whose number of steps does not suit instructions on whole vectors. NULL: none. */
const kiln_intrinsic *kiln_expected_wide(const kiln_target *target);

#endif
