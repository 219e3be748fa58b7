/* The registers of a thread that the assembler is expected to give each launch, counted before
 * lowering. Calibrated against ptxas (decision 85). Private to cost/.
 *
 * There are two results. `needed` is what the code holds at once. Where that exceeds a thread's
 * maximum, the assembler spills, or reads values of a window again. `expected` is what the
 * assembler gives: to begin loads earlier it uses as many registers as keep the same number of
 * groups on a unit, so registers come in steps of that number. */
#ifndef KILN_COMPILER_CORE_COST_REGISTERS_GPU_H
#define KILN_COMPILER_CORE_COST_REGISTERS_GPU_H

#include "base/gpu.h"
#include "compiler-core/facts/facts.h"

/* Registers that the statements of one launch use, in words of 4 bytes. */
typedef struct kiln_gpu_held {
    double sums;        /* elements of the thread's own buffers */
    double operands;    /* read by one step of the tile */
    double fetched;     /* by one turn without a pipeline, stored before its work */
    double staged;      /* fetched by one turn of a pipeline of two stages, carried past its work */
    double windows;     /* loads of these that are made under a condition */
    double places;      /* loads of these whose addresses are no sums of digits */
    double copies;      /* that a thread begins in one turn of a pipeline of more stages */
    double copy_places; /* loads of these whose addresses are no sums of digits */
    double addresses;   /* of fragments, beside the first of each operand: an XOR leaves no distance
                           to add */
    double live;        /* loaded and read again later; the maximum over the code */
    double straight;    /* loaded by the longest straight code */
    double moved;       /* of launches that share nothing: loaded by one turn */
    double odd;         /* accesses whose addresses are no sums of digits */
    bool by_threads;    /* instructions of warps multiply */
    bool by_groups;     /* of groups of warps */
    bool shares;        /* threads sum up, or have buffers of their own or of their group */
    uint32_t resident;  /* groups that a schedule asks a unit to hold; 0: no requirement */
} kiln_gpu_held;

/* Adds a statement to all members except `sums`, `operands`, the fetched ones and `resident`. */
void kiln_gpu_held_add(const kiln_facts *facts, const kiln_facts_statement *s, kiln_gpu_held *held);
/* Words of an operand of an instruction of warps that one thread holds at once; 0 for an
 * instruction that reads shared memory directly. `elements`: of one step, as the thread's loops
 * touch them. */
double kiln_gpu_fragment_words(const kiln_intrinsic *intrinsic, bool rows, double elements,
                               uint32_t element_bytes);

/* Adds what `turns` loads of a fetch bring in a turn of a pipeline of so many stages; 1: there is
 * none. `elements`: of each; `width`: of these that one instruction loads. */
void kiln_gpu_held_fetch(kiln_gpu_held *held, const kiln_facts_access *a, double turns,
                         double elements, double width, double stages);

typedef struct kiln_gpu_registers {
    double needed;   /* not limited to a thread's maximum */
    double expected; /* at most that */
} kiln_gpu_registers;

/* `threads`: of a group. */
kiln_gpu_registers kiln_gpu_registers_of(const kiln_gpu_held *held, const kiln_gpu *gpu,
                                         double threads);

#endif
