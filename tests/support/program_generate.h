/* Random tensor programs for fuzzers: small, valid, varied (elementwise chains, broadcasts,
 * reductions, convolution- and matmul-like contractions, padding by select, transposes, several
 * blocks, odd extents). */
#ifndef KILN_TESTS_SUPPORT_PROGRAM_GENERATE_H
#define KILN_TESTS_SUPPORT_PROGRAM_GENERATE_H

#include "base/rand.h"
#include "compiler-core/ir/ir.h"

typedef struct kiln_generate_options {
    uint32_t blocks_max; /* 1..6 */
    int64_t points_max;  /* product of a block's extents */
    bool floats_only;
} kiln_generate_options;

/* A tensor expression that passes kiln_program_verify. Same generator state, same program. */
kiln_program *kiln_program_generate(kiln_rand *rand, const kiln_generate_options *options,
                                    kiln_arena *arena);

#endif
