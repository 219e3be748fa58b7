/* What a child that serves trial after trial on one device keeps between them: blocks of the
 * device's memory, because drivers take long to give and take them back, and inputs as the host
 * makes them. Kernels cannot reach either: blocks come poisoned and are filled before their next
 * use, inputs lie in the host's memory. A device in software shares that with its candidates, so
 * inputs are made anew there.
 *
 * Used by rpc-server/ex_device.c. One thread. */
#ifndef KILN_RPC_SERVER_TRIAL_MEMORY_H
#define KILN_RPC_SERVER_TRIAL_MEMORY_H

#include <stdint.h>

#include "base/manifest.h"
#include "base/status.h"
#include "deploy/runtime/device.h"

/* Inputs above this are not kept: the host's memory is the board's. */
#define KILN_TRIAL_INPUT_BYTES_MAX ((size_t)256 << 20)

typedef struct kiln_trial_memory kiln_trial_memory;

/* `device` outlives it. Never NULL; destroy accepts NULL, and expects that all blocks were given
 * back. */
kiln_trial_memory *kiln_trial_memory_create(kiln_device *device);
void kiln_trial_memory_destroy(kiln_trial_memory *memory);

/* A block of exactly so many bytes, of an earlier trial or of the device; what is in it is not
 * specified. RESOURCE_EXHAUSTED: there is no room, also without what earlier trials left. */
KILN_MUST_USE kiln_status kiln_trial_memory_take(kiln_trial_memory *memory, size_t bytes,
                                                 kiln_device_memory *out_block);
/* Empties `block`; accepts an empty one. Nothing of the trial may be in it. */
void kiln_trial_memory_give(kiln_trial_memory *memory, kiln_device_memory *block);
/* Releases the blocks that nobody has: a trial that has all it needs leaves no more than that. */
void kiln_trial_memory_trim(kiln_trial_memory *memory);

/* An input with `seed` in its layout, `bytes` as kiln_kernel_arg_bytes says; what the layout pads
 * with is poison. `index`: of the argument. It may be kept from an earlier trial. */
const char *kiln_trial_memory_input(kiln_trial_memory *memory, uint32_t index,
                                    const kiln_manifest_arg *arg, uint64_t seed, size_t bytes);
/* The input was copied: it is freed unless it may be kept. */
void kiln_trial_memory_end_input(kiln_trial_memory *memory, uint32_t index);

#endif
