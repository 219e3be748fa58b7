/* A board's memory and registers under Linux: a buffer of the driver u-dma-buf, and registers that
 * can be mapped (UIO). Not run on hardware so far. */
#ifndef KILN_VTA_MAPPED_H
#define KILN_VTA_MAPPED_H

#include "vta/board.h"

typedef struct kiln_vta_mapped_files {
    const char *memory;    /* /dev/udmabuf0 */
    const char *folder;    /* /sys/class/u-dma-buf/udmabuf0, with its files phys_addr and size */
    const char *registers; /* /dev/uio0 */
} kiln_vta_mapped_files;

typedef struct kiln_vta_mapped {
    kiln_vta_board_io io; /* its context is this struct, which must not be moved */
    volatile uint32_t *registers;
} kiln_vta_mapped;

/* Files are opened with O_SYNC, so that the host does not cache memory that the device reads. Each
 * error names the file: those of kiln_file_read_system and of opening and mapping; DATA_LOSS: not a
 * number where one is expected. */
KILN_MUST_USE kiln_status kiln_vta_mapped_open(const kiln_vta_mapped_files *files,
                                               kiln_vta_mapped *out_mapped);
/* Accepts a zeroed one. */
void kiln_vta_mapped_close(kiln_vta_mapped *mapped);

#endif
