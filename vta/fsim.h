/* The functional simulator: runs a program with its engines in any order that tokens allow, which a
 * seed chooses. The third reference, in addition to Kiln's two interpreters. It does not simulate
 * time. */
#ifndef KILN_VTA_FSIM_H
#define KILN_VTA_FSIM_H

#include <stdint.h>

#include "base/arena.h"
#include "vta/program.h"

typedef struct kiln_vta_counts {
    uint64_t instructions[KILN_VTA_OPCODE_COUNT];
    uint64_t no_ops; /* LOAD and STORE that move nothing */
    uint64_t multiply_adds;
    uint64_t bytes[KILN_VTA_MEMORY_COUNT]; /* moved between main memory and each memory */
} kiln_vta_counts;

/* `dram` holds the program's buffers as kiln_vta_program_place lays them out, micro-ops and
 * constants filled in (kiln_vta_program_fill). `seed` 0 runs each engine as far as it can before
 * the next; others interleave. False with the fault: DEADLOCK, TOKENS_LEFT, FINISH_EARLY, those of
 * vta/core.h. */
bool kiln_vta_fsim_run(const kiln_vta_program *program, uint8_t *dram, uint64_t dram_bytes,
                       uint64_t seed, kiln_vta_counts *out_counts, kiln_vta_fault *out_fault);

#endif
