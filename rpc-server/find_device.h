/* What the devices of an executor are, as a server asks at its start: a contained child opens the
 * driver and tells, because a process that opened one could start no children any more. */
#ifndef KILN_RPC_SERVER_FIND_DEVICE_H
#define KILN_RPC_SERVER_FIND_DEVICE_H

#include "base/arena.h"
#include "rpc-server/executor.h"
#include "rpc-server/helper.h"

/* A device that a server offers. */
typedef struct kiln_found_device {
    uint32_t index; /* among those of the executor */
    kiln_target target;
    kiln_str target_text, name, driver;
    kiln_str management;   /* empty: nothing to say */
    uint64_t memory_bytes; /* 0: main memory of this machine */
} kiln_found_device;

/* Device `index` of an executor that has a driver; strings in `arena`. NOT_FOUND: there is none of
 * that number, or no driver; other errors of the driver; DEADLINE_EXCEEDED, UNAVAILABLE: the child
 * does not answer. */
KILN_MUST_USE kiln_status kiln_find_device(kiln_helper *helper, const kiln_executor *executor,
                                           uint32_t index, kiln_arena *arena,
                                           kiln_found_device *out_device);
/* The device that people name `wanted`: by its number, by its name or a part of it that no other
 * device has, or by its target text ("vta:CONFIG"): simulated, or where the environment names a
 * board, the device that is that machine. Asks device by device.
 * INVALID_ARGUMENT: no such text. NOT_FOUND, INVALID_ARGUMENT (several have it) list them all;
 * errors of kiln_find_device. */
KILN_MUST_USE kiln_status kiln_find_device_named(kiln_helper *helper, const kiln_executor *executor,
                                                 kiln_str wanted, kiln_arena *arena,
                                                 kiln_found_device *out_device);

#endif
