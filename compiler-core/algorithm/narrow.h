/* Sums of products that can do with narrower factors, private to algorithm/. */
#ifndef KILN_COMPILER_CORE_ALGORITHM_NARROW_H
#define KILN_COMPILER_CORE_ALGORITHM_NARROW_H

#include "compiler-core/ir/ir.h"

/* Weights that are read for more outputs than this stay in caches or registers: what they are
 * widened for each time costs more than reading them saved. */
#define KILN_NARROW_READS_MAX 32

/* Whether the block adds up products in f32 of a weight and of what is no weight; which factor is
 * the weight. */
bool kiln_narrow_finds(const kiln_program *p, kiln_block block, uint32_t *out_weight);
/* For how many of the block's outputs each element that `load` reads is read. */
double kiln_narrow_reads(const kiln_program *p, kiln_block block, kiln_expr load);
/* Factor `weight` of the block's products, which is constant or computed of constants, becomes
 * 16-bit multiples of a step for each of the elements that are not summed up (fixed.c). Returns how
 * many blocks it added in front of the block; 0: too few products, or not in order. */
uint32_t kiln_fix_weights(kiln_program *p, kiln_block block, uint32_t weight);

#endif
