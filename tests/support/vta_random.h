/* Random programs for accelerators of the VTA class that are right by construction: work items in
 * turn on one to three parts of each memory, with the tokens that let their loads, sums and stores
 * overlap. What they compute means nothing. */
#ifndef KILN_TESTS_SUPPORT_VTA_RANDOM_H
#define KILN_TESTS_SUPPORT_VTA_RANDOM_H

#include "base/arena.h"
#include "vta/program.h"

/* A machine of random shape, memories, timing and features. */
kiln_vta_config vta_random_config(uint64_t seed);
/* The same seed, the same program. It passes kiln_vta_check. */
kiln_vta_program vta_random_program(const kiln_vta_config *config, uint64_t seed,
                                    kiln_arena *arena);
/* Main memory as kiln_vta_program_place lays it out: arguments random, scratch 0xee. */
uint8_t *vta_random_dram(const kiln_vta_program *program, uint64_t seed, kiln_arena *arena,
                         uint64_t *out_bytes);

#endif
