/* The reference of a computation, as another tensor expression: temps and reductions in f64, and
 * for each float output NAME a second output NAME.bound (f32): n*eps*sum|a*b|, the largest error of
 * a correct kernel in the outputs' dtype. Interpreted on small shapes and compiled serially on real
 * ones. */
#ifndef KILN_COMPILER_CORE_IR_REFERENCE_H
#define KILN_COMPILER_CORE_IR_REFERENCE_H

#include "compiler-core/ir/ir.h"

/* Magnitudes propagate through the expression: |x| for loads, products multiply, sums and
 * differences add, smooth functions by a bound of their slope; n is the number of roundings on the
 * longest path (reduction lengths add). Comparisons and selects take the larger side. Integer
 * outputs have no bound (exact). */
kiln_program *kiln_te_reference(const kiln_program *te, kiln_arena *arena);

/* The smallest n*eps among the float outputs, the factor of sum|a*b| in their bounds; 1 without
 * float outputs. */
double kiln_te_least_bound(const kiln_program *te);

#endif
