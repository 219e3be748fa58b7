/* A module in the contained child (rpc-server/sandboxed_child.h): linked before the sandbox is
 * shut, packed and run after that. Its outputs and times go into memory of the parent
 * (deploy/run/parcel.h). There is one per process, which ends with it, so nothing is freed. */
#ifndef KILN_RPC_SERVER_SANDBOXED_MODULE_H
#define KILN_RPC_SERVER_SANDBOXED_MODULE_H

#include "base/arena.h"
#include "rpc-server/child_protocol.h"

typedef struct kiln_sandboxed_module kiln_sandboxed_module;

/* Mappings of what the parent passed; their sizes are in the order. */
typedef struct kiln_sandboxed_module_bytes {
    const char *module, *inputs;
    char *outputs;
} kiln_sandboxed_module_bytes;

/* Links the module for the cores of the order, sets its size, and checks the bytes of inputs and
 * outputs against the order. Runs no code of the module. FAILED_PRECONDITION: it is for another
 * machine; the note says what is missing; RESOURCE_EXHAUSTED: no memory; DATA_LOSS,
 * INVALID_ARGUMENT, OUT_OF_RANGE: damaged, or other sizes than announced. */
KILN_MUST_USE kiln_status kiln_sandboxed_module_load(const kiln_child_order *order,
                                                     const kiln_sandboxed_module_bytes *bytes,
                                                     kiln_arena *arena,
                                                     kiln_sandboxed_module **out_guest);
/* Packs the weights, in the shut sandbox: makes no system calls but its pool's. False: a kernel
 * failed. */
bool kiln_sandboxed_module_pack(kiln_sandboxed_module *module);
/* Runs every sample once, then times the module if the order asks for that. */
bool kiln_sandboxed_module_run(kiln_sandboxed_module *module, double peak_flops);

#endif
