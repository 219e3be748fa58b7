/* Loading bitstreams into the FPGA of a board under Linux, through the files of an FPGA manager in
 * the kernels of Zynq boards: the name of a file in the kernel's firmware folder is written to
 * `firmware`, which returns when the FPGA is loaded, and `state` holds the result. For the runtime.
 * Not run on hardware so far. */
#ifndef KILN_VTA_FPGA_H
#define KILN_VTA_FPGA_H

#include <stdint.h>

#include "base/status.h"

/* `manager`: /sys/class/fpga_manager/fpga0; `bitstream`: the name of a file in the firmware folder.
 *
 * DEADLINE_EXCEEDED  it does not operate after `timeout_ns`; the note says its state. The kernel's
 *                    work on `firmware` is not interrupted
 * UNAVAILABLE        its state is an error
 * Errors of the files. After an error the contents of the FPGA are unknown. */
KILN_MUST_USE kiln_status kiln_vta_fpga_load(const char *manager, const char *bitstream,
                                             uint64_t timeout_ns);

#endif
