/* Memory that a child keeps between the trials of one device: blocks of the device's memory,
 * because drivers allocate and free slowly, and inputs made by the host. No kernel sees another
 * trial's data in them: blocks are poisoned and are filled before their next use, and inputs are in
 * the host's memory. Candidates on a device in software could reach those, so there inputs are made
 * again for each trial.
 *
 * Used by rpc-server/ex_device.c. One thread. */
#ifndef KILN_RPC_SERVER_TRIAL_MEMORY_H
#define KILN_RPC_SERVER_TRIAL_MEMORY_H

#include <stdint.h>

#include "base/manifest.h"
#include "base/status.h"
#include "deploy/runtime/device.h"

/* Larger inputs are not kept, to save the board's memory. */
#define KILN_TRIAL_INPUT_BYTES_MAX ((size_t)256 << 20)

typedef struct kiln_trial_memory kiln_trial_memory;

/* `device` outlives it. Never NULL. Destroy accepts NULL; all blocks must have been given back. */
kiln_trial_memory *kiln_trial_memory_create(kiln_device *device);
void kiln_trial_memory_destroy(kiln_trial_memory *memory);

/* Takes a kept block of exactly that size, or allocates one; its contents are unspecified.
 * RESOURCE_EXHAUSTED: the device has no room even after kept blocks are freed. */
KILN_MUST_USE kiln_status kiln_trial_memory_take(kiln_trial_memory *memory, size_t bytes,
                                                 kiln_device_memory *out_block);
/* Gives a block back and empties `block`; accepts an empty one. It must contain no data of the
 * trial. */
void kiln_trial_memory_give(kiln_trial_memory *memory, kiln_device_memory *block);
/* Frees the blocks that the current trial did not take. */
void kiln_trial_memory_trim(kiln_trial_memory *memory);

/* An input made from `seed`, in its layout with poison as padding; `bytes` as of
 * kiln_kernel_arg_bytes, `index` of the argument. It may be from an earlier trial. */
const char *kiln_trial_memory_input(kiln_trial_memory *memory, uint32_t index,
                                    const kiln_manifest_arg *arg, uint64_t seed, size_t bytes);
/* Call it after copying the input, which is freed unless it may be kept. */
void kiln_trial_memory_end_input(kiln_trial_memory *memory, uint32_t index);

#endif
