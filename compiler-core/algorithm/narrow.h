/* Sums of products whose factors can be narrower. Private to algorithm/. */
#ifndef KILN_COMPILER_CORE_ALGORITHM_NARROW_H
#define KILN_COMPILER_CORE_ALGORITHM_NARROW_H

#include "compiler-core/ir/ir.h"

/* Weights that are read for more outputs than this stay in caches or registers: widening them each
 * time costs more than reading narrower ones saves. */
#define KILN_NARROW_READS_MAX 32

/* Whether the block adds up products in f32 of a weight and a factor that is no weight, and which
 * factor is the weight. */
bool kiln_narrow_finds(const kiln_program *p, kiln_block block, uint32_t *out_weight);
/* For how many of the block's outputs each element that `load` reads is read. */
double kiln_narrow_reads(const kiln_program *p, kiln_block block, kiln_expr load);
/* Turns factor `weight` of the block's products, a constant or computed from constants, into 16-bit
 * multiples of a step, one step for each element that is not summed up (fixed.c). Returns how many
 * blocks it added in front of the block; 0: too few products, or not in order. */
uint32_t kiln_fix_weights(kiln_program *p, kiln_block block, uint32_t weight);

#endif
