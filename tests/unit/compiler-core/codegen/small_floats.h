/* Casts to and from floats of at most 8 bits, at every number where a rounding changes: what a back
 * end computes equals base/small_float.h bit by bit. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_SMALL_FLOATS_H
#define KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_SMALL_FLOATS_H

#include "base/small_float.h"
#include "tests/unit/compiler-core/codegen/support.h"

/* What a program does with its input. */
typedef enum small_kind {
    SMALL_TO,    /* f32 to the type: each number, both neighbours of each border, and many others */
    SMALL_WIDE,  /* the same from f64, with borders that f32 does not have */
    SMALL_FROM,  /* every code to f32 */
    SMALL_MOVED, /* every code to itself */
    SMALL_KINDS
} small_kind;

/* The types; ends with KILN_DTYPE_NONE. */
extern const kiln_dtype small_dtypes[];

/* "block t(i:N): y[i] = ..."; N is a multiple of 64. */
kiln_program *small_program(kiln_arena *arena, kiln_dtype dtype, small_kind kind);
/* The input of such a program and its result, filled in; the output's memory is zero. */
void small_args(kiln_program *te, kiln_dtype dtype, small_kind kind, kiln_tensor args[2],
                kiln_tensor *out_expected);
/* The output is what was expected: every bit, except those of NaN, unless `nan_as_well`. */
void expect_small(const kiln_tensor args[2], const kiln_tensor *expected, bool nan_as_well,
                  const char *where);
/* All types and kinds, compiled by a back end and run so, with this schedule. Codes that are moved
 * keep the bits of NaN. */
#define SMALL_SCALARS ""
#define SMALL_VECTORS "split(t.i, -1, 16)\nvectorize(t.i.1)\n"
void expect_small_compiled(kiln_arena *arena, const kiln_target *target, const char *backend,
                           const char *schedule, artefact_runner run, void *context);

#endif
