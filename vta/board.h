/* A board with an accelerator of the VTA class: physically contiguous memory, registers, and runs
 * of programs with a time limit. For the runtime; boards differ only in kiln_vta_board_io.
 *
 * Registers are words of 32 bits (vta/rtl/vta.v). The machine's main memory is mapped at `memory`
 * in the host, from physical address `address` on; buffers begin at its pages. For one thread
 * only. */
#ifndef KILN_VTA_BOARD_H
#define KILN_VTA_BOARD_H

#include "base/arena.h"
#include "base/status.h"
#include "vta/program.h"

typedef enum kiln_vta_register {
    KILN_VTA_REGISTER_STATE,   /* write 1: start; read: bit 0 it runs, bit 1 it has finished */
    KILN_VTA_REGISTER_PROGRAM, /* physical address of the first instruction */
    KILN_VTA_REGISTER_COUNT,   /* instructions */
    KILN_VTA_REGISTER_CYCLES_LOW,
    KILN_VTA_REGISTER_CYCLES_HIGH,
    KILN_VTA_REGISTER_ENDED, /* the first of several, in kiln_vta_engine's order: instructions that
                              * the engine has ended since the start; each instruction of a chain
                              * counts */
    KILN_VTA_REGISTERS = KILN_VTA_REGISTER_ENDED + KILN_VTA_ENGINE_COUNT
} kiln_vta_register;

#define KILN_VTA_STATE_RUNS 1u
#define KILN_VTA_STATE_FINISHED 2u

/* All members are required. */
typedef struct kiln_vta_board_io {
    void *context;
    uint8_t *memory;
    uint64_t memory_bytes;
    uint64_t address; /* physical, a multiple of KILN_VTA_PAGE_BYTES; all below 4 GiB */
    uint32_t (*read)(void *context, kiln_vta_register number);
    void (*write)(void *context, kiln_vta_register number, uint32_t value);
    /* Make the host's writes to bytes [offset, offset + bytes) of memory visible to the device, and
     * the device's to the host. Multiples of pages. */
    void (*to_device)(void *context, uint64_t offset, uint64_t bytes);
    void (*to_host)(void *context, uint64_t offset, uint64_t bytes);
    uint64_t (*now_ns)(void *context);
    void (*pause)(void *context); /* waits for a moment between two reads of the state */
} kiln_vta_board_io;

typedef struct kiln_vta_board {
    const kiln_vta_board_io *io;
    uint64_t used_bytes; /* of memory, from its beginning */
} kiln_vta_board;

/* A program in the board's memory. */
typedef struct kiln_vta_loaded {
    const kiln_vta_program *program;
    uint64_t *place;       /* of each buffer: its physical address */
    uint64_t instructions; /* physical address */
} kiln_vta_loaded;

/* FAILED_PRECONDITION: addresses that are no pages or not below 4 GiB. */
KILN_MUST_USE kiln_status kiln_vta_board_init(kiln_vta_board *board, const kiln_vta_board_io *io);
/* Drops all allocations and loaded programs. */
void kiln_vta_board_reset(kiln_vta_board *board);
/* Allocates physically contiguous whole pages. RESOURCE_EXHAUSTED: not enough left. */
KILN_MUST_USE kiln_status kiln_vta_board_alloc(kiln_vta_board *board, uint64_t bytes,
                                               uint64_t *out_address);
/* The host's pointer for a physical address of an allocation. */
uint8_t *kiln_vta_board_at(const kiln_vta_board *board, uint64_t address);

/* Loads programs of one stream (vta/builder.h) into memory: micro-ops, constants and encoded
 * instructions. They share their buffers, except those of micro-ops. `out_loaded` has `count`
 * elements and points to `program`; places lie in `arena`. Errors of kiln_vta_board_alloc; its
 * allocations are then free again. */
KILN_MUST_USE kiln_status kiln_vta_board_load(kiln_vta_board *board,
                                              const kiln_vta_program *program, uint32_t count,
                                              kiln_arena *arena, kiln_vta_loaded *out_loaded);
/* Runs it once. `*out_cycles` is from the board's counter.
 *
 * FAILED_PRECONDITION  another program runs
 * UNAVAILABLE          the board is dead: registers do not keep what is written, or it does not
 *                      start, or its clock stopped
 * DEADLINE_EXCEEDED    it did not finish in `timeout_ns`; the note names the instruction that each
 *                      engine has ended last and the one where it stalls */
KILN_MUST_USE kiln_status kiln_vta_board_run(const kiln_vta_board *board,
                                             const kiln_vta_loaded *loaded, uint64_t timeout_ns,
                                             uint64_t *out_cycles);

#endif
