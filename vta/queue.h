/* The instructions of each engine, in its order, and the tokens between engines. For fsim.c, csim.c
 * and check.c. */
#ifndef KILN_VTA_QUEUE_H
#define KILN_VTA_QUEUE_H

#include "base/arena.h"
#include "vta/fsim.h"

/* An instruction, or a chain, of an engine. */
typedef struct kiln_vta_step {
    uint32_t first, count; /* instructions [first, first + count) */
    bool pop[2], push[2];  /* of the engine before, of the one behind */
} kiln_vta_step;

enum { KILN_VTA_BEFORE, KILN_VTA_BEHIND };

typedef struct kiln_vta_queues {
    uint32_t count[KILN_VTA_ENGINE_COUNT];
    kiln_vta_step *step[KILN_VTA_ENGINE_COUNT];
    /* The neighbours of each engine; KILN_VTA_ENGINE_COUNT: there is none. */
    uint32_t neighbour[KILN_VTA_ENGINE_COUNT][2];
} kiln_vta_queues;

/* The queues of a legal program, in `arena`. */
kiln_vta_queues kiln_vta_queues_of(const kiln_vta_program *program, kiln_arena *arena);
/* Adds an instruction, without its multiply-adds. */
void kiln_vta_counts_add(kiln_vta_counts *counts, const kiln_vta_sizes *sizes,
                         const kiln_vta_instruction *in);
/* TOKENS_LEFT: `count` for an engine from its neighbour on `side`. */
bool kiln_vta_tokens_left(const kiln_vta_queues *queues, uint32_t engine, uint32_t side,
                          uint32_t count, kiln_vta_fault *out_fault);
/* DEADLOCK naming the engine and the instruction that waits. */
bool kiln_vta_deadlock(const kiln_vta_queues *queues, const uint32_t *done,
                       kiln_vta_fault *out_fault);

#endif
