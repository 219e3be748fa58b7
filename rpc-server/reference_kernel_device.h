/* Reference kernels on a device (see rpc-server/reference_kernel.h): both parts are kernels of the
 * device (rpc-server/reference_kernel_texts.def), timed by its own events, because times on the
 * waiting core do not tell the device's speed. The arithmetic part runs multiply-adds on every
 * unit, so its best time gives the peak in f32; further kernels measure the peaks of other operand
 * types.
 *
 *     arithmetic  about a hundred microseconds on a GPU
 *     memory      a pass over a buffer that is twice as large as the last cache
 *
 * One thread. Loading compiles the texts; nothing else allocates. */
#ifndef KILN_RPC_SERVER_REFERENCE_KERNEL_DEVICE_H
#define KILN_RPC_SERVER_REFERENCE_KERNEL_DEVICE_H

#include "base/status.h"
#include "deploy/runtime/device.h"
#include "rpc-server/reference_kernel.h"

/* Size of the buffer if the device's last cache is unknown. */
#define KILN_REFERENCE_KERNEL_DEVICE_BYTES ((size_t)32 << 20)
#define KILN_REFERENCE_KERNEL_DEVICE_BYTES_MAX ((size_t)256 << 20)

typedef struct kiln_device_reference kiln_device_reference;

/* `device` outlives it. UNIMPLEMENTED: there are no kernels for it (a fixed-function device, null);
 * errors of kiln_kernel_load; RESOURCE_EXHAUSTED: no memory on the device. */
KILN_MUST_USE kiln_status kiln_device_reference_create(kiln_device *device,
                                                       kiln_device_reference **out_reference);
void kiln_device_reference_destroy(kiln_device_reference *reference); /* accepts NULL */

/* Runs both parts once. Zeros if the device fails. */
kiln_reference_kernel_times kiln_device_reference_take(kiln_device_reference *reference);
/* Works until the clock is steady, then takes a reading in each state and measures the peaks. Takes
 * some milliseconds, up to a second if the clock has to rise. */
kiln_reference_kernel_round kiln_device_reference_measure(kiln_device_reference *reference);

#endif
