/* The real board of device_vta.c: an FPGA that is programmed as one of several machines, registers
 * and a buffer that the host maps. The environment names its files, each by a path without links:
 *
 *     KILN_VTA_REGISTERS     /dev/uio0; without it machines are simulated
 *     KILN_VTA_MEMORY        /dev/udmabuf0
 *     KILN_VTA_MEMORY_FACTS  folder of the buffer's files phys_addr and size
 *     KILN_VTA_FPGA          folder of the FPGA manager's files firmware and state
 *     KILN_VTA_FIRMWARE      folder where the kernel looks for firmware: NAME.vta, a configuration
 *                            (base/vta_config.h), and NAME.bin, its bitstream, for each machine
 *
 * Not run on hardware so far. */
#ifndef KILN_DEPLOY_BOARD_VTA_H
#define KILN_DEPLOY_BOARD_VTA_H

#include "deploy/runtime/device.h"
#include "vta/program.h"

/* Their sum is below the limit of a trial's phases, of 10 s each, so that the board is blamed, not
 * the candidate. */
#define KILN_BOARD_VTA_WAIT_NS UINT64_C(1000000000) /* for another process to close the board */
#define KILN_BOARD_VTA_REPROGRAM_NS UINT64_C(5000000000)
#define KILN_BOARD_VTA_RUN_NS UINT64_C(5000000000)

typedef struct kiln_board_vta kiln_board_vta;

/* Whether the environment names a board. */
bool kiln_board_vta_is_named(void);
/* The machines that the FPGA can become, by name; one is a device. NOT_FOUND: there is none;
 * INVALID_ARGUMENT: a NAME.vta has no configuration; errors of the files. */
KILN_MUST_USE kiln_status kiln_board_vta_list(kiln_arena *arena, kiln_device_facts **out_facts,
                                              uint32_t *out_count);
/* Maps the files; the FPGA does not change. A board can be open in one process at a time.
 * NOT_FOUND: the environment names no memory; UNAVAILABLE: another process has it; errors of
 * kiln_vta_mapped_open and kiln_vta_board_init. */
KILN_MUST_USE kiln_status kiln_board_vta_open(kiln_board_vta **out_board);
void kiln_board_vta_close(kiln_board_vta *board); /* accepts NULL */
/* Loads the bitstream of the machine, within KILN_BOARD_VTA_REPROGRAM_NS. UNAVAILABLE: there is
 * none, or the FPGA did not accept it; then the board is broken. */
KILN_MUST_USE kiln_status kiln_board_vta_become(kiln_board_vta *board, const kiln_target *target);

/* Copies a program into the board's memory, replacing the current one; the program must stay valid
 * until kiln_board_vta_unload. RESOURCE_EXHAUSTED: it is too large; UNAVAILABLE: the board is
 * broken. */
KILN_MUST_USE kiln_status kiln_board_vta_load(kiln_board_vta *board,
                                              const kiln_vta_program *program);
void kiln_board_vta_unload(kiln_board_vta *board);
/* Loads the program unless it is loaded, and runs it once within KILN_BOARD_VTA_RUN_NS. `data`: the
 * bytes of each buffer that is an argument, in order; they are sent, and overwritten with the
 * results. Errors of kiln_board_vta_load and kiln_vta_board_run: after the latter the board is
 * broken. */
KILN_MUST_USE kiln_status kiln_board_vta_run(kiln_board_vta *board, const kiln_vta_program *program,
                                             char *const *data, uint64_t *out_cycles);
/* Whether the FPGA or a run failed: nothing can be loaded or run until it is programmed again. */
bool kiln_board_vta_is_broken(const kiln_board_vta *board);

#endif
