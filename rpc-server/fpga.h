/* Loading bitstreams into the FPGA of a board under Linux: what makes a real device another machine
 * (kiln_device_reprogram) once there is one. Through the files of an FPGA manager as the kernels of
 * Zynq boards have them: the name of a file in the firmware folder is written to `firmware`, which
 * returns when the FPGA is loaded, and `state` says how that went. Not run on hardware so far. */
#ifndef KILN_RPC_SERVER_FPGA_H
#define KILN_RPC_SERVER_FPGA_H

#include "base/hash.h"
#include "base/status.h"
#include "base/str.h"

typedef struct kiln_fpga {
    const char *manager;  /* /sys/class/fpga_manager/fpga0 */
    const char *firmware; /* /lib/firmware */
    bool is_loaded;       /* by this process; what the FPGA held before is not known */
    kiln_digest loaded;   /* then, SHA-256 of the bitstream */
    uint32_t load_count;
} kiln_fpga;

/* Loads the bitstream, a blob, unless it is the one that was loaded last. Its file in the firmware
 * folder is called by its hash and stays for the next time.
 *
 * DEADLINE_EXCEEDED  it does not operate after `timeout_ns`; the note says its state
 * UNAVAILABLE        its state is an error
 * Errors of the files. After an error it is not known what the FPGA holds. */
KILN_MUST_USE kiln_status kiln_fpga_load(kiln_fpga *fpga, kiln_str bitstream, uint64_t timeout_ns);

#endif
