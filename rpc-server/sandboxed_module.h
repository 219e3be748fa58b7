/* A module in the contained child (rpc-server/sandboxed_child.h): linked before the sandbox shuts,
 * packed and run behind it, its outputs and times left in the memory that the parent gave
 * (deploy/run/parcel.h). One per process, which it ends with: nothing is ever freed. */
#ifndef KILN_RPC_SERVER_SANDBOXED_MODULE_H
#define KILN_RPC_SERVER_SANDBOXED_MODULE_H

#include "base/arena.h"
#include "rpc-server/child_protocol.h"

typedef struct kiln_sandboxed_module kiln_sandboxed_module;

/* What the parent passed, mapped: the sizes are those of the order. */
typedef struct kiln_sandboxed_module_bytes {
    const char *module, *inputs;
    char *outputs;
} kiln_sandboxed_module_bytes;

/* Links the module for the cores of the order, sets its size, and sees that inputs and outputs
 * have as many bytes as the order says. No code of the module runs. FAILED_PRECONDITION: it is for
 * another machine, the note says what is missing; RESOURCE_EXHAUSTED: no memory; DATA_LOSS,
 * INVALID_ARGUMENT, OUT_OF_RANGE: damaged, or not what was announced. */
KILN_MUST_USE kiln_status kiln_sandboxed_module_load(const kiln_child_order *order,
                                                     const kiln_sandboxed_module_bytes *bytes,
                                                     kiln_arena *arena,
                                                     kiln_sandboxed_module **out_guest);
/* Behind the shut sandbox; no system call but those of its pool. False: a kernel says that it
 * failed. */
bool kiln_sandboxed_module_pack(kiln_sandboxed_module *module);
/* Every sample once, then the times, where they were asked for. */
bool kiln_sandboxed_module_run(kiln_sandboxed_module *module, double peak_flops);

#endif
