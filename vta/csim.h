/* The cycle simulator: data and time of a program in one run, event by event. Deterministic. The
 * machine, in cycles of its clock (vta/rtl is the same in Verilog):
 *
 * Memory. `chan` channels; fetch, load, compute and store use channel 3, 0, 1 and 2 modulo `chan`.
 * A channel moves a beat of bus/8 bytes a cycle, serves one request at a time, and takes them from
 * its engines in turn: round robin in the order load, compute, store, fetch, from the one behind
 * the last served. A request is a burst of at most KILN_VTA_BURST_BEATS beats; a row of an
 * instruction takes the fewest such bursts that hold its bytes. Beats begin at multiples of their
 * size. An engine asks for its next burst in a cycle, the first in the first cycle that it runs,
 * and only while fewer than `req` of its bursts are on their way: asked for, and their last beat
 * not taken in an earlier cycle. A channel begins a request in a cycle after the one in which it
 * was asked for, and is taken by it for `row` cycles (at least one where it is written) and one for
 * each beat. A beat that is read can be taken by its engine `lat` cycles after the channel moved
 * it.
 *
 * Fetch. Reads the program in bursts of KILN_VTA_FETCH_INSTRUCTIONS from cycle 0 on; hands over one
 * instruction a cycle, in order, once its last byte was taken, and waits while `cmd` instructions
 * that the engine has not taken stand in its queue.
 * With `cmd` 0 there are no queues: fetch writes an instruction where its engine works from, in as
 * many cycles as 16 bytes have beats, from the cycle on behind the last one of the instruction
 * before, and only where that engine has none: after the last cycle of its instruction before, or
 * after the one in which it took what it keeps of a link of a chain (the first one's S + 1).
 *
 * An engine takes an instruction in a cycle T after the one in which fetch handed it over, and
 * after the last cycle of the instruction before. It takes the tokens in cycle S, T or later, when
 * all are there that it waits for; a token can be taken in a cycle after the one in which it was
 * given. It runs in the cycles from S + 1 on, at least one. It gives its tokens in the last of
 * them, or later in the first in which there are places for all: at most `tok` lie between two
 * engines, and a place is free in a cycle after its token was taken. That cycle is the
 * instruction's last.
 *
 * Instructions of a chain share all of that but T: the second is taken in cycle S + 2 or later,
 * each further one in a cycle after the one before it, and passes run from the cycle on in which
 * the last is taken.
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
 * Two waits of vta/rtl depend on which accumulators are used, and are not simulated: a pass of a
 * chain waits while one of the three passes before it makes an accumulator that it reads; and where
 * the ALU is an engine, it waits in a quarter of the accumulators that GEMM works in, and a load
 * for the ALU there. */
#ifndef KILN_VTA_CSIM_H
#define KILN_VTA_CSIM_H

#include <stdint.h>

#include "vta/fsim.h"

#define KILN_VTA_BURST_BEATS 256u
#define KILN_VTA_FETCH_INSTRUCTIONS 16u
#define KILN_VTA_ALU_PIPELINE 4u

/* What an engine did in a cycle. */
typedef enum kiln_vta_activity {
    KILN_VTA_IDLE,        /* no instruction has come */
    KILN_VTA_WAIT_BEFORE, /* for a token of the engine before it */
    KILN_VTA_WAIT_BEHIND, /* for a token of the one behind */
    KILN_VTA_WAIT_PLACE,  /* for a place for its own token */
    KILN_VTA_WAIT_MEMORY, /* for bytes, or for the channel */
    KILN_VTA_BUSY_TAKE,   /* took an instruction and its tokens, or did nothing but wait and give */
    KILN_VTA_BUSY_MOVE,
    KILN_VTA_BUSY_GEMM,
    KILN_VTA_BUSY_RESET,
    KILN_VTA_BUSY_ALU,
    KILN_VTA_BUSY_DRAIN, /* until the last result is written */
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
