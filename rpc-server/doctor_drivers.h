/* What `kiln-rpc-server --doctor` says of drivers for devices (deploy/runtime/devices.def). */
#ifndef KILN_RPC_SERVER_DOCTOR_DRIVERS_H
#define KILN_RPC_SERVER_DOCTOR_DRIVERS_H

#include <stdbool.h>

#include "base/str.h"
#include "deploy/runtime/device.h"

/* Loads the drivers of a kind, whose threads stay, and lists their devices by index and name, or
 * says what is missing. `files`: the beginnings of paths of device files, NULL-terminated; those
 * that this process may not open are named. False: something is there that does not work. */
bool kiln_doctor_drivers(kiln_device_kind kind, const char *const *files, kiln_arena *arena,
                         kiln_strbuf *out);

#endif
