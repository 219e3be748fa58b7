/* A board that is made of memory: it runs what is started at once, in the order of the program, or
 * is broken in a way that the test chooses. The host and the device see different bytes until they
 * are told, as with caches that nothing keeps in step. Time is the test's. */
#ifndef KILN_TESTS_SUPPORT_VTA_BOARD_FAKE_H
#define KILN_TESTS_SUPPORT_VTA_BOARD_FAKE_H

#include "base/arena.h"
#include "vta/board.h"

typedef enum vta_fake_fault {
    VTA_FAKE_WHOLE,
    VTA_FAKE_DEAD,          /* every register reads as ones */
    VTA_FAKE_KEEPS_NOTHING, /* writes are lost */
    VTA_FAKE_IS_BUSY,
    VTA_FAKE_DOES_NOT_START,
    VTA_FAKE_STANDS, /* runs, and its clock does not */
    VTA_FAKE_HANGS   /* runs for ever behind instruction `hangs_behind` */
} vta_fake_fault;

typedef struct vta_board_fake {
    kiln_vta_board_io io;
    kiln_vta_config config;
    uint8_t *device; /* all that lies below the end of its memory, from address 0 on */
    uint32_t registers[KILN_VTA_REGISTERS];
    vta_fake_fault fault;
    uint32_t hangs_behind;
    uint64_t now_ns;
    kiln_arena *arena;
} vta_board_fake;

/* `fake` stays where it is; memories lie in `arena`. */
void vta_board_fake_init(vta_board_fake *fake, const kiln_vta_config *config, uint64_t address,
                         uint64_t memory_bytes, kiln_arena *arena);
/* Runs the program that registers name over `dram`, main memory from address 0 on, up to `most`
 * instructions; the registers are then those behind it. */
void vta_board_fake_run(const kiln_vta_config *config, volatile uint32_t *registers, uint8_t *dram,
                        uint64_t dram_bytes, uint32_t most, kiln_arena *arena);

#endif
