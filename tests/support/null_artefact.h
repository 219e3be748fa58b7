/* Artefacts of the null device with code that a test writes: y[16] of x[16], on one thread. */
#ifndef KILN_TESTS_SUPPORT_NULL_ARTEFACT_H
#define KILN_TESTS_SUPPORT_NULL_ARTEFACT_H

#include "base/arena.h"
#include "base/null_code.h"

#define NULL_ARTEFACT_ELEMENTS 16

typedef struct null_artefact {
    const char *target;
    kiln_dtype dtype;
    uint64_t count; /* elements of x and y that the code names */
    uint64_t shared_bytes;
    uint32_t instruction_count;
    kiln_null_instruction *instruction; /* x is buffer 0, y buffer 1; registers up to r9 */
} null_artefact;

/* Its bytes, in `arena`. */
kiln_str null_artefact_encode(const null_artefact *a, kiln_arena *arena);

#endif
