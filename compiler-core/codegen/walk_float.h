/* Short names for arithmetic on floats, for the files that write functions as formulas:
 * walk_math.c, walk_library.c and walk_library_wide.c. Scalars and vectors alike.
 *
 * C does not define the order in which arguments are evaluated, but the order of instructions must
 * be deterministic: at most one argument of a call may append instructions. */
#ifndef KILN_COMPILER_CORE_CODEGEN_WALK_FLOAT_H
#define KILN_COMPILER_CORE_CODEGEN_WALK_FLOAT_H

#include "base/macros.h"
#include "compiler-core/codegen/walk.h"

/* The number in the type of `like`. */
static inline kiln_ssa k(kiln_walk *w, kiln_ssa like, double value) {
    return kiln_walk_real(w, like, value);
}
static inline kiln_ssa add(kiln_walk *w, kiln_ssa a, kiln_ssa b) {
    return kiln_walk_compute(w, KILN_BUILD_FADD, a, b);
}
static inline kiln_ssa sub(kiln_walk *w, kiln_ssa a, kiln_ssa b) {
    return kiln_walk_compute(w, KILN_BUILD_FSUB, a, b);
}
static inline kiln_ssa mul(kiln_walk *w, kiln_ssa a, kiln_ssa b) {
    return kiln_walk_compute(w, KILN_BUILD_FMUL, a, b);
}
static inline kiln_ssa quotient(kiln_walk *w, kiln_ssa a, kiln_ssa b) {
    return kiln_walk_compute(w, KILN_BUILD_FDIV, a, b);
}
static inline kiln_ssa root(kiln_walk *w, kiln_ssa a) {
    return kiln_walk_compute(w, KILN_BUILD_SQRT, a, NULL);
}
static inline kiln_ssa negated(kiln_walk *w, kiln_ssa a) {
    return kiln_walk_compute(w, KILN_BUILD_FNEG, a, NULL);
}
static inline kiln_ssa absolute(kiln_walk *w, kiln_ssa a) {
    return kiln_walk_compute(w, KILN_BUILD_FABS, a, NULL);
}
static inline kiln_ssa with_sign_of(kiln_walk *w, kiln_ssa magnitude, kiln_ssa sign) {
    return kiln_walk_compute(w, KILN_BUILD_COPYSIGN, magnitude, sign);
}
static inline kiln_ssa fma_of(kiln_walk *w, kiln_ssa a, kiln_ssa b, double c) {
    return kiln_walk_fma(w, a, b, k(w, a, c));
}
/* `yes` where the comparison of a and b holds. */
static inline kiln_ssa choose(kiln_walk *w, kiln_build_op comparison, kiln_ssa a, kiln_ssa b,
                              kiln_ssa yes, kiln_ssa no) {
    return kiln_walk_select(w, kiln_walk_compute(w, comparison, a, b), yes, no);
}
static inline kiln_ssa choose_at(kiln_walk *w, kiln_build_op comparison, kiln_ssa a, double b,
                                 kiln_ssa yes, kiln_ssa no) {
    return choose(w, comparison, a, k(w, a, b), yes, no);
}
/* x between the bounds; NaN stays. */
static inline kiln_ssa within(kiln_walk *w, kiln_ssa x, double low, double high) {
    x = choose_at(w, KILN_BUILD_OLT, x, low, k(w, x, low), x);
    return choose_at(w, KILN_BUILD_OGT, x, high, k(w, x, high), x);
}
/* An operation on integers, with a constant; the bits of an f64, and back. */
static inline kiln_ssa bits_op(kiln_walk *w, kiln_build_op what, kiln_ssa bits, int64_t constant) {
    return kiln_walk_compute(w, what, bits, kiln_walk_integer(w, bits, constant));
}
static inline kiln_ssa wide_bits(kiln_walk *w, kiln_ssa v) {
    return kiln_walk_convert(w, KILN_CONVERT_BITS, v, KILN_SSA_I64);
}
static inline kiln_ssa wide_float(kiln_walk *w, kiln_ssa bits) {
    return kiln_walk_convert(w, KILN_CONVERT_BITS, bits, KILN_SSA_F64);
}

/* coefficient[0] + x * (coefficient[1] + ...) */
kiln_ssa kiln_walk_horner(kiln_walk *w, kiln_ssa x, const double *coefficient, uint32_t count);
#define HORNER(w, x, table) kiln_walk_horner(w, x, table, KILN_ARRAY_COUNT(table))

/* x + x^3 (table[0] + x^2 (table[1] + ...)) */
static inline kiln_ssa odd_series(kiln_walk *w, kiln_ssa x, const double *table, uint32_t count) {
    kiln_ssa square = mul(w, x, x), tail = kiln_walk_horner(w, square, table, count);
    return kiln_walk_fma(w, mul(w, x, square), tail, x);
}
#define ODD_SERIES(w, x, table) odd_series(w, x, table, KILN_ARRAY_COUNT(table))

#endif
