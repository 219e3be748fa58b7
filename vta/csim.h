/* The cycle simulator: data and time of a program in one run, event by event. Deterministic. The
 * machine, in cycles of its clock (vta/rtl is the same in Verilog):
 *
 * Memory. `chan` channels; fetch, load, compute and store use channel 3, 0, 1 and 2 modulo `chan`.
 * A channel moves a beat of bus/8 bytes a cycle, serves one request at a time, and takes them from
 * its engines round robin, in the order load, compute, store, fetch, starting behind the last
 * served. A request is a burst of at most KILN_VTA_BURST_BEATS beats; a row of an instruction takes
 * the fewest such bursts that hold its bytes. Beats begin at multiples of their size. An engine
 * requests one burst per cycle, the first in the first cycle that it runs, and only while fewer
 * than `req` of its bursts are in flight: requested, and their last beat not taken in an earlier
 * cycle. A channel begins a request in a cycle after the one of the request, and is occupied by it
 * for `row` cycles (at least one for a write) and one for each beat. An engine can take a read beat
 * `lat` cycles after the channel moved it.
 *
 * Fetch. Reads the program in bursts of KILN_VTA_FETCH_INSTRUCTIONS from cycle 0 on; issues one
 * instruction a cycle, in order, once its last byte was taken, and waits while `cmd` instructions
 * are in the engine's queue. With `cmd` 0 there are no queues: fetch writes an instruction into the
 * engine's register, in as many cycles as 16 bytes have beats, starting after the last cycle of the
 * previous write, and only while that register is free: after the last cycle of the engine's
 * previous instruction, or after the cycle in which it latched a link of a chain (the first one's S
 * + 1).
 *
 * An engine takes an instruction in a cycle T after the one in which fetch issued it, and after the
 * last cycle of the previous instruction. It takes the tokens in cycle S, T or later, when all that
 * it waits for are available; a token can be taken in a cycle after the one in which it was given.
 * It runs in the cycles from S + 1 on, at least one. It gives its tokens in the last of them, or in
 * the first later cycle with places for all: at most `tok` lie between two engines, and a place is
 * free in a cycle after its token was taken. That cycle is the instruction's last.
 *
 * Instructions of a chain share all of that except T: the second is taken in cycle S + 2 or later,
 * each further one in a cycle after the previous one, and passes start in the cycle in which the
 * last is taken.
 *
 * Cycles of running:
 *
 *   LOAD    positions row by row, padding included: one for a tile of zeros, one for each beat of a
 *           tile from memory (a beat that holds several tiles is one)
 *   STORE   one for each beat, when its channel moves it
 *   GEMM    rounds * micro-ops, and `pipe` until the last sum is written
 *   ALU     rounds * micro-ops * ceil(elements of a tile / alu) * aii, KILN_VTA_ALU_PIPELINE until
 *           the last result is written, and one for each further operation of a chain
 *   FINISH  one; so do LOAD and STORE of nothing
 *
 * Two waits of vta/rtl depend on the accumulators used, and are not simulated: a pass of a chain
 * waits while one of the three passes before it computes an accumulator that it reads; and if the
 * ALU is an engine, it waits for GEMM in the same quarter of the accumulators, and a load waits
 * there for the ALU. */
#ifndef KILN_VTA_CSIM_H
#define KILN_VTA_CSIM_H

#include <stdint.h>

#include "vta/fsim.h"

#define KILN_VTA_BURST_BEATS 256u
#define KILN_VTA_FETCH_INSTRUCTIONS 16u
#define KILN_VTA_ALU_PIPELINE 4u

/* Activity of an engine in a cycle. */
typedef enum kiln_vta_activity {
    KILN_VTA_IDLE,        /* no instruction has come */
    KILN_VTA_WAIT_BEFORE, /* for a token of the engine before it */
    KILN_VTA_WAIT_BEHIND, /* for a token of the one behind */
    KILN_VTA_WAIT_PLACE,  /* for a place for its own token */
    KILN_VTA_WAIT_MEMORY, /* for bytes, or for the channel */
    KILN_VTA_BUSY_TAKE,   /* took an instruction and its tokens, or only waited and gave */
    KILN_VTA_BUSY_MOVE,
    KILN_VTA_BUSY_GEMM,
    KILN_VTA_BUSY_RESET,
    KILN_VTA_BUSY_ALU,
    KILN_VTA_BUSY_DRAIN, /* until the last result is written */
    KILN_VTA_ACTIVITY_COUNT
} kiln_vta_activity;

/* The time of one instruction in its engine, for traces. */
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
/* Multiply-adds of GEMM over the machine's maximum in those cycles: 0 to 1. */
double kiln_vta_utilisation(const kiln_vta_config *config, const kiln_vta_timing *timing);
/* Appends a trace that Chrome and Perfetto open; one row for each engine. */
void kiln_vta_trace_print(const kiln_vta_program *program, const kiln_vta_timing *timing,
                          kiln_strbuf *out);

#endif
