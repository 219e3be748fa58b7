/* The cycle simulator: data and time of a program in one run, event by event. Deterministic. The
 * machine, in cycles of its clock (vta/rtl is the same in Verilog):
 *
 * Memory. `chan` channels; fetch, load, compute and store use channel 3, 0, 1 and 2 modulo `chan`. A
 * channel moves bus/8 bytes a cycle, serves one request at a time, and takes them from its engines
 * in turn (round robin from the one behind the last served; fetch after store). A request is a burst
 * of at most KILN_VTA_BURST_BEATS beats, a row of an instruction in the fewest such bursts. It takes
 * its channel for `row` cycles and one for each beat. A beat that is read reaches its engine `lat`
 * cycles after the channel moved it; an engine asks for a burst in a cycle, as soon as fewer than
 * `req` of its bursts are on their way (asked for, last beat not yet taken).
 *
 * Fetch. Reads the program in bursts of KILN_VTA_FETCH_INSTRUCTIONS; hands over one instruction a
 * cycle, in order, and waits where the engine's queue of `cmd` instructions is full.
 *
 * An engine takes the next instruction in the cycle after it arrived or the one before it ended, waits
 * for its tokens (at most `tok` lie between two engines), runs, and gives its tokens, waiting for
 * places. Tokens can be taken in the cycle after. Running takes at least one cycle:
 *
 * LOAD    positions row by row, padding included: one cycle for a tile of zeros, one for each beat of
 *         a tile from memory (a beat that holds several tiles is one)
 * STORE   one cycle for each beat, when its channel moves it
 * GEMM    rounds * micro-ops cycles, and `pipe` until the last sum is written
 * ALU     rounds * micro-ops * ceil(elements of a tile / alu) * aii cycles, and
 *         KILN_VTA_ALU_PIPELINE until the last result is written; a chain as one instruction, and a
 *         cycle for each further operation of it
 * FINISH  one cycle */
#ifndef KILN_VTA_CSIM_H
#define KILN_VTA_CSIM_H

#include <stdint.h>

#include "vta/fsim.h"

#define KILN_VTA_BURST_BEATS 256u
#define KILN_VTA_FETCH_INSTRUCTIONS 16u
#define KILN_VTA_ALU_PIPELINE 4u

/* What an engine did in a cycle. */
typedef enum kiln_vta_activity {
    KILN_VTA_IDLE,         /* no instruction has come */
    KILN_VTA_WAIT_BEFORE,  /* for a token of the engine before it */
    KILN_VTA_WAIT_BEHIND,  /* for a token of the one behind */
    KILN_VTA_WAIT_PLACE,   /* for a place for its own token */
    KILN_VTA_WAIT_MEMORY,  /* for bytes, or for the channel */
    KILN_VTA_BUSY_MOVE,
    KILN_VTA_BUSY_GEMM,
    KILN_VTA_BUSY_RESET,
    KILN_VTA_BUSY_ALU,
    KILN_VTA_BUSY_DRAIN,   /* until the last result is written */
    KILN_VTA_ACTIVITY_COUNT
} kiln_vta_activity;

/* One instruction's stay in its engine, for traces. */
typedef struct kiln_vta_span {
    uint32_t instruction, engine;
    uint64_t taken, started, ended; /* cycles: taken from the queue, tokens there, tokens given */
} kiln_vta_span;

typedef struct kiln_vta_timing {
    uint64_t cycles; /* from the first fetch to FINISH */
    uint64_t activity[KILN_VTA_ENGINE_COUNT][KILN_VTA_ACTIVITY_COUNT];
    uint64_t channel_busy[4]; /* cycles that a channel moved or opened a row */
    kiln_vta_counts counts;
    uint32_t span_count; /* 0 unless asked for */
    kiln_vta_span *span; /* in the order of the program */
} kiln_vta_timing;

typedef struct kiln_vta_csim_options {
    bool timing_only; /* moves and computes nothing; dram may be NULL */
    bool spans;
} kiln_vta_csim_options;

const char *kiln_vta_activity_name(kiln_vta_activity activity);
/* As kiln_vta_fsim_run; spans lie in `arena`. */
bool kiln_vta_csim_run(const kiln_vta_program *program, uint8_t *dram, uint64_t dram_bytes,
                       const kiln_vta_csim_options *options, kiln_arena *arena,
                       kiln_vta_timing *out_timing, kiln_vta_fault *out_fault);
/* Multiply-adds of GEMM over what the machine could have done in those cycles: 0 to 1. */
double kiln_vta_utilisation(const kiln_vta_config *config, const kiln_vta_timing *timing);
/* Appends a trace that Chrome and Perfetto open; one row for each engine. */
void kiln_vta_trace_print(const kiln_vta_program *program, const kiln_vta_timing *timing,
                          kiln_strbuf *out);

#endif
