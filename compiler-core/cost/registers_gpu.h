/* Registers of a thread: what the assembler is expected to give each launch, counted before
 * anything is lowered. Calibrated against ptxas (decision 85). Private to cost/.
 *
 * There are two answers. `needed` is what the code as it stands holds at once. Where that is more
 * than a thread may have, the assembler spills, or reads values of a window again instead.
 * `expected` is what the assembler gives: it takes as many as leave the same number of groups on a
 * unit where it has loads to begin earlier, so registers come in steps of that number. */
#ifndef KILN_COMPILER_CORE_COST_REGISTERS_GPU_H
#define KILN_COMPILER_CORE_COST_REGISTERS_GPU_H

#include "base/gpu.h"
#include "compiler-core/facts/facts.h"

/* What the statements of one launch leave in registers, in words of 4 bytes. */
typedef struct kiln_gpu_held {
    double sums;      /* elements of the thread's own buffers */
    double operands;  /* read by one step of the tile */
    double staged;    /* fetched by one turn of a pipeline of two stages, carried past its work */
    double copies;    /* that a thread begins in one turn of a pipeline of more stages */
    double addresses; /* of fragments, beside the first of each operand: an XOR leaves no distance
                         to add */
    double live;      /* loaded and read again later, at the place of the code where most are */
    double straight;  /* loaded by the longest straight code */
    double moved;     /* of launches that share nothing: loaded by one turn */
    double odd;       /* accesses whose addresses are no sums of digits */
    bool by_threads;  /* instructions of warps multiply */
    bool by_groups;   /* of groups of warps */
    bool wide;        /* copies to shared memory take several elements at a time */
    bool shares;      /* threads sum up, or have buffers of their own or of their group */
} kiln_gpu_held;

/* Adds a statement, but for `sums`, `operands`, `staged` and `copies`. */
void kiln_gpu_held_add(const kiln_facts *facts, const kiln_facts_statement *s, kiln_gpu_held *held);
/* Words of an operand of an instruction of warps that one thread holds at once; of one that reads
 * shared memory by itself 0. `elements`: of one step, as the thread's loops touch them. */
double kiln_gpu_fragment_words(const kiln_intrinsic *intrinsic, bool rows, double elements,
                               uint32_t element_bytes);

/* Words of `elements` that one load of a fetch brings, until they are stored: no two loads share a
 * register, and one of a window keeps its address and condition. */
double kiln_gpu_carried_words(const kiln_facts_access *a, double elements);

typedef struct kiln_gpu_registers {
    double needed;   /* not cut to what a thread may have */
    double expected; /* at most that */
} kiln_gpu_registers;

/* `threads`: of a group. */
kiln_gpu_registers kiln_gpu_registers_of(const kiln_gpu_held *held, const kiln_gpu *gpu,
                                         double threads);

#endif
