/* Finds the devices of an executor when a server starts. A contained child opens the driver and
 * describes them, because a process that has opened a driver can no longer start children safely.
 */
#ifndef KILN_RPC_SERVER_FIND_DEVICE_H
#define KILN_RPC_SERVER_FIND_DEVICE_H

#include "base/arena.h"
#include "rpc-server/executor.h"
#include "rpc-server/helper.h"

/* A device that a server offers. */
typedef struct kiln_found_device {
    uint32_t index; /* number among the executor's devices */
    kiln_target target;
    kiln_str target_text, name, driver;
    kiln_str management;   /* empty: nothing to report */
    uint64_t memory_bytes; /* 0: main memory of this machine */
} kiln_found_device;

/* Describes device `index` of an executor with a driver; strings in `arena`. NOT_FOUND: no such
 * device, or no driver; other errors of the driver; DEADLINE_EXCEEDED, UNAVAILABLE: the child does
 * not answer. */
KILN_MUST_USE kiln_status kiln_find_device(kiln_helper *helper, const kiln_executor *executor,
                                           uint32_t index, kiln_arena *arena,
                                           kiln_found_device *out_device);
/* Finds the device that a user named `wanted`: by its number, by its name or a unique part of it,
 * or by its target text ("vta:CONFIG"), which is simulated unless the environment names a board.
 * Asks device by device. NOT_FOUND, INVALID_ARGUMENT (no such target, or several devices have the
 * name): the text lists all devices. Errors of kiln_find_device. */
KILN_MUST_USE kiln_status kiln_find_device_named(kiln_helper *helper, const kiln_executor *executor,
                                                 kiln_str wanted, kiln_arena *arena,
                                                 kiln_found_device *out_device);

#endif
