/* A machine of vta/rtl, verilated, with main memory as vta/csim.h describes it. Compiled into a
 * library per configuration (tests/vta/rtl.py), which tests/vta/rtl_bench.c opens. */
#ifndef KILN_TESTS_VTA_RTL_MODEL_H
#define KILN_TESTS_VTA_RTL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "vta/board.h"

typedef struct rtl_run {
    uint8_t *dram; /* read and written */
    uint64_t dram_bytes;
    uint32_t latency, row_cycles; /* at least 2 together */
    uint32_t program_address, instruction_count;
    uint64_t cycles_most;
    /* Out: */
    /* What the machine counted: cycles, and instructions that ended in each engine. */
    uint64_t cycles;
    uint32_t ended[KILN_VTA_ENGINE_COUNT];
    const char *fault;
} rtl_run;

/* Runs a program on a machine that was reset. False with `fault`: it did not finish within
 * cycles_most, or asked for bytes that there are not. */
typedef bool rtl_run_fn(rtl_run *run);

#endif
