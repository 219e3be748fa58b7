/* Building blocks of affine.h's functions: intervals of integer expressions, and linear forms whose
 * terms are not simplified. Private to ir/. */
#ifndef KILN_COMPILER_CORE_IR_BOUNDS_H
#define KILN_COMPILER_CORE_IR_BOUNDS_H

#include "compiler-core/ir/affine.h"

#define KILN_BOUNDS_CACHE 64

/* One walk: fixed program contents and ranges. The cache is direct-mapped, so memory stays bounded.
 */
typedef struct kiln_bounds {
    const kiln_program *p;
    const kiln_interval *range; /* [var count] or NULL */
    kiln_expr cached[KILN_BOUNDS_CACHE];
    kiln_interval interval[KILN_BOUNDS_CACHE];
} kiln_bounds;

/* Starts a walk with an empty cache. */
void kiln_bounds_init(kiln_bounds *b, const kiln_program *p, const kiln_interval *range);
kiln_interval kiln_bounds_of(kiln_bounds *b, kiln_expr e); /* As kiln_expr_bounds. */
kiln_interval kiln_bounds_of_affine(kiln_bounds *b, const kiln_affine *a); /* The interval of the
                                                                            * sum. */

void kiln_affine_clear(kiln_affine *a); /* Sets the sum to 0. */
/* a += scale * e, splitting sums and constant factors but nothing else. False when terms run out.
 */
bool kiln_affine_add(const kiln_program *p, kiln_affine *a, kiln_expr e, int64_t scale);
/* a += coefficient * term, or scale * b. False when terms run out. */
bool kiln_affine_add_term(kiln_affine *a, kiln_expr term, int64_t coefficient);
bool kiln_affine_add_affine(kiln_affine *a, const kiln_affine *b, int64_t scale);

#endif
