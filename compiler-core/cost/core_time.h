/* Estimated time of a kernel on an accelerator core of the VTA class, from counts of what its
 * engines do: the longest time of an engine or the memory port where they overlap, or the sum where
 * buffers have no second place. Costs of the machine are those of vta/csim.h. Used by the rules, to
 * order tiles, and by features_vta.c. */
#ifndef KILN_COMPILER_CORE_COST_CORE_TIME_H
#define KILN_COMPILER_CORE_COST_CORE_TIME_H

#include "base/vta_config.h"

/* Copies between main memory and one of the core's, of all of a run: blocks, the instructions that
 * they are, and rows, which lie together in main memory. */
typedef struct kiln_core_copies {
    double blocks, calls, rows, bytes;
} kiln_core_copies;

/* How one block is copied: an instruction moves rows at equal distances. Initialise with
 * KILN_CORE_BLOCK; add dimensions of main memory from the innermost outwards. */
typedef struct kiln_core_block {
    double elements, rows, calls;
    bool extends_row, is_plane, extends_plane;
} kiln_core_block;
#define KILN_CORE_BLOCK \
    (kiln_core_block) { 1, 1, 1, true, false, false }
/* `count` elements along a dimension of `all`. With zero padding around them, `all` is INFINITY. */
void kiln_core_block_add(kiln_core_block *block, double count, double all);

/* The work of one run. Calls are about as many as instructions. */
typedef struct kiln_core_work {
    kiln_core_copies inp, wgt, acc, out;
    double gemm_tiles, gemm_calls; /* products of tiles */
    double gemm_uops;              /* micro-ops of a call: all but its two longest loops */
    double reset_tiles, reset_calls;
    double alu_tiles;                  /* that operations go through, */
    double alu_calls;                  /* of all of them at once, */
    double alu_operations;             /* with so many for each tile */
    double threads;                    /* virtual ones, side by side */
    double load_places, result_places; /* the fewest that blocks of an operand, or results, have */
} kiln_core_work;

/* Terms of the time, in cycles. */
typedef enum kiln_core_term {
    KILN_CORE_GEMM, /* products and resets, with drains of the pipeline */
    KILN_CORE_ALU,
    KILN_CORE_PORT,  /* the memory port: loads, stores, instructions */
    KILN_CORE_WAITS, /* latencies and copies that overlap with nothing */
    KILN_CORE_ENDS,  /* before the first product, and behind the last */
    KILN_CORE_TERMS
} kiln_core_term;

typedef struct kiln_core_time {
    double term[KILN_CORE_TERMS];
    double cycles;
    kiln_core_term bound; /* the largest term */
} kiln_core_time;

/* The time of the work on the machine. Pure. */
kiln_core_time kiln_core_time_of(const kiln_vta_config *machine, const kiln_core_work *work);
/* Micro-ops of a call whose loops have these extents. */
double kiln_core_uops(const double *extent, uint32_t count);
/* "gemm", ... */
const char *kiln_core_term_name(kiln_core_term term);

#endif
