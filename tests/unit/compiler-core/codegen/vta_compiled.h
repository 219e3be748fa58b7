/* Programs of the compiler for accelerators of the VTA class: random small layers, random machines,
 * schedules drawn out of the space that the rules make. Each compiled program passes the checkers
 * (the back end asks them), and the functional simulator computes under 16 orders what the
 * interpreter says of the expression. The ordinary test runs a few layers; `./dev fuzz vta-compiled
 * SECONDS` as many as there is time for. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_VTA_COMPILED_H
#define KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_VTA_COMPILED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define VTA_COMPILED_ORDERS 16u
#define VTA_COMPILED_THREADS_MAX 4u

typedef struct vta_compiled_counts {
    uint64_t layers, unscheduled; /* of these: without a schedule on their machine */
    uint64_t programs, refused;   /* compiled; that the machine cannot run */
    uint64_t threads[VTA_COMPILED_THREADS_MAX + 1]; /* programs, by virtual threads of a loop */
    uint64_t instructions;                          /* of programs */
    uint64_t flags;     /* of tokens that were taken away, each of which was noticed */
    uint64_t redundant; /* pairs of tokens, of the same programs, that the checkers do not miss */
} vta_compiled_counts;

/* One layer on a machine, both drawn from `seed`, with `draws` schedules. `takes_flags`: of the
 * first program each flag of a token is taken away, and each pair of tokens. False where something
 * is wrong: `out_report` then says what, of which layer and schedule. */
bool vta_compiled_layer(uint64_t seed, uint32_t draws, bool takes_flags,
                        vta_compiled_counts *counts, kiln_strbuf *out_report);

#endif
