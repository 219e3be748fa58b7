/* The part of `kiln-rpc-server --doctor` about drivers of devices (deploy/runtime/devices.def). */
#ifndef KILN_RPC_SERVER_DOCTOR_DRIVERS_H
#define KILN_RPC_SERVER_DOCTOR_DRIVERS_H

#include <stdbool.h>

#include "base/str.h"
#include "rpc-server/helper.h"

/* Prints the executor's devices by index and name, as contained children find them, or what is
 * missing. `files`: prefixes of paths of device files, NULL-terminated; files that this process may
 * not open are listed. False: a driver is there but does not work. */
bool kiln_doctor_drivers(kiln_helper *helper, const char *executor, const char *const *files,
                         kiln_arena *arena, kiln_strbuf *out);

#endif
