/* What of a sum is zero whatever the data is: products with the zeros of a padding. No library
 * multiplies them; lowering leaves them out where a schedule lets it (lower/skip.c), and the
 * operations of a task are counted without them. */
#ifndef KILN_COMPILER_CORE_IR_ZEROS_H
#define KILN_COMPILER_CORE_IR_ZEROS_H

#include "compiler-core/ir/affine.h"

/* Where `term` is zero unless this condition holds; 0: nowhere that is known. The condition joins
 * by and what selects in the term ask. */
kiln_expr kiln_zeros_unless(kiln_program *p, kiln_expr term);
/* Share of the block's domain without the points where it adds a zero, also such as it reads from
 * a copy with a padding. What depends on data counts. Makes expressions in `p`. */
double kiln_zeros_share_left(kiln_program *p, kiln_block block);
/* Whether all that the block, a sum, adds where variables lie in `range` is zero, also where other
 * data is infinite: products of zeros alone, read from copies with paddings and from inside of
 * them. `range`: [var count]. */
bool kiln_zeros_added(kiln_program *p, kiln_block block, const kiln_interval *range);

#endif
