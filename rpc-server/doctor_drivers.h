/* What `kiln-rpc-server --doctor` says of drivers for devices (deploy/runtime/devices.def). */
#ifndef KILN_RPC_SERVER_DOCTOR_DRIVERS_H
#define KILN_RPC_SERVER_DOCTOR_DRIVERS_H

#include <stdbool.h>

#include "base/str.h"
#include "rpc-server/helper.h"

/* Lists the devices of the executor by index and name, as contained children of this server find
 * them, or says what is missing. `files`: the beginnings of paths of device files, NULL-terminated;
 * those that this process may not open are named. False: something is there that does not work. */
bool kiln_doctor_drivers(kiln_helper *helper, const char *executor, const char *const *files,
                         kiln_arena *arena, kiln_strbuf *out);

#endif
