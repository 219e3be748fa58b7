/* A module in the contained child (rpc-server/inmate.h): linked before the sandbox shuts, packed
 * and run behind it, its outputs and times left in the memory that the parent gave
 * (deploy/run/parcel.h). One per process, which it ends with: nothing is ever freed. */
#ifndef KILN_RPC_SERVER_GUEST_H
#define KILN_RPC_SERVER_GUEST_H

#include "base/arena.h"
#include "rpc-server/talk.h"

typedef struct kiln_guest kiln_guest;

/* What the parent passed, mapped: the sizes are those of the order. */
typedef struct kiln_guest_bytes {
    const char *module, *inputs;
    char *outputs;
} kiln_guest_bytes;

/* Links the module for the cores of the order, sets its size, and sees that inputs and outputs
 * have as many bytes as the order says. No code of the module runs. FAILED_PRECONDITION: it is for
 * another machine, the note says what is missing; RESOURCE_EXHAUSTED: no memory; DATA_LOSS,
 * INVALID_ARGUMENT, OUT_OF_RANGE: damaged, or not what was announced. */
KILN_MUST_USE kiln_status kiln_guest_load(const kiln_inmate_order *order,
                                          const kiln_guest_bytes *bytes, kiln_arena *arena,
                                          kiln_guest **out_guest);
/* Behind the shut sandbox; no system call but those of its pool. False: a kernel says that it
 * failed. */
bool kiln_guest_pack(kiln_guest *guest);
/* Every sample once, then the times, where they were asked for. */
bool kiln_guest_run(kiln_guest *guest, double peak_flops);

#endif
