/* Finds the terms of a sum that are zero for any data: products with the zeros of a padding.
 * Lowering skips them where a schedule allows it (lower/skip.c), and the operations of a task are
 * counted without them, as no library multiplies them. */
#ifndef KILN_COMPILER_CORE_IR_ZEROS_H
#define KILN_COMPILER_CORE_IR_ZEROS_H

#include "compiler-core/ir/affine.h"

/* `term` is zero unless this condition holds, the conjunction of conditions of selects in the term;
 * 0: no such condition is known. */
kiln_expr kiln_zeros_unless(kiln_program *p, kiln_expr term);
/* Share of the block's domain without the points where it adds a zero, including zeros read from a
 * copy with a padding. Points that depend on data count. Makes expressions in `p`. */
double kiln_zeros_share_left(kiln_program *p, kiln_block block);
/* Whether the block, a sum, adds only zeros while variables lie in `range`, even if other data is
 * infinite: products of zeros alone, from copies with paddings or inside of them. `range`: [var
 * count]. */
bool kiln_zeros_added(kiln_program *p, kiln_block block, const kiln_interval *range);

#endif
