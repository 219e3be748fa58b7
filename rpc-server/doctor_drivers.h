/* The part of `kiln-rpc-server --doctor` about drivers of devices (deploy/runtime/devices.def). */
#ifndef KILN_RPC_SERVER_DOCTOR_DRIVERS_H
#define KILN_RPC_SERVER_DOCTOR_DRIVERS_H

#include <stdbool.h>

#include "base/str.h"
#include "rpc-server/helper.h"

/* Prints the devices of the executor `name` by index and name, as contained children find them, or
 * what is missing, and the device files that this process may not open. `name`: of a row with a
 * driver. False: a driver is there but does not work. */
bool kiln_doctor_drivers(kiln_helper *helper, const char *name, kiln_arena *arena,
                         kiln_strbuf *out);

#endif
