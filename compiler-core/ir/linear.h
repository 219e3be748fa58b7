/* Division and remainder of linear forms, and the reverse, for indices of split and fused loops.
 * Terms must be simplified (simplify.c). Every rule requires bounded numbers (bounds.h), because it
 * would be wrong for arithmetic that wraps. Private to ir/. */
#ifndef KILN_COMPILER_CORE_IR_LINEAR_H
#define KILN_COMPILER_CORE_IR_LINEAR_H

#include "base/integer.h"
#include "compiler-core/ir/bounds.h"

typedef struct kiln_linear {
    kiln_program *p;
    kiln_bounds bounds;
} kiln_linear;

/* A sum written as factor*quotient + rest, where rest lies in [0, factor). */
typedef struct kiln_split {
    int64_t factor;
    kiln_affine quotient, rest;
} kiln_split;

/* Finds a factor above 1 that divides `modulus` (0: any factor) by which `a` splits, trying the
 * largest first. */
bool kiln_linear_split(kiln_linear *l, const kiln_affine *a, int64_t modulus, kiln_split *out);
/* divisor >= 1. */
kiln_expr kiln_linear_floordiv(kiln_linear *l, const kiln_affine *a, int64_t divisor);
kiln_expr kiln_linear_floormod(kiln_linear *l, const kiln_affine *a, int64_t divisor);
/* Joins quotients and remainders of one sum wherever that leaves fewer terms: (f/7)*7 + f%7 becomes
 * f. */
void kiln_linear_recombine(kiln_linear *l, kiln_affine *a);

#endif
