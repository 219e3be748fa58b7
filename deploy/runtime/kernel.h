/* Runs kernels: an artefact loaded on a device (kiln_kernel), and calls of it with their own
 * arguments and packed buffers (kiln_call). One kernel may have many calls; a module has one call
 * per step. Example on the processor:
 *
 *     kiln_kernel_load(bytes, NULL, &kernel);
 *     kiln_call_create(kernel, KILN_GUARD_NONE, &call);
 *     for each input, constant, output: kiln_call_bind(call, i, data, size);
 *     kiln_call_prepare(call, &services);
 *     kiln_call_run(call, &services);      as often as wanted; never allocates
 *
 * On a device with its own memory, arguments are places in that memory (kiln_call_bind_place), and
 * a run has only entered the device's queue when the call returns. */
#ifndef KILN_DEPLOY_KERNEL_H
#define KILN_DEPLOY_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/kernel_abi.h"
#include "base/manifest.h"
#include "base/status.h"
#include "base/str.h"
#include "base/target.h"
#include "deploy/runtime/device.h"
#include "deploy/runtime/pages.h"
#include "deploy/runtime/services.h"

typedef struct kiln_kernel kiln_kernel;
typedef struct kiln_call kiln_call;

/* All checks of loading, without mapping and for any machine: the manifest decodes, its target is
 * known, the payloads pass the check of their device's row (CPU code: they link, and have the
 * entries in the manifest). Builders call this on their results. Errors: those of
 * kiln_artefact_decode, kiln_target_parse and the row's check; UNIMPLEMENTED when no device runs
 * such payloads, the ABI version is not ours, or the device has no clusters and tensor maps. */
KILN_MUST_USE kiln_status kiln_kernel_check(kiln_str artefact_bytes);

/* Loads an artefact for calling; `artefact_bytes` is not needed afterwards. `device` outlives the
 * kernel; NULL: this machine's processor. Errors as above, and FAILED_PRECONDITION  the code is for
 * another machine (the message names the missing feature), or for another kind of device */
KILN_MUST_USE kiln_status kiln_kernel_load(kiln_str artefact_bytes, kiln_device *device,
                                           kiln_kernel **out_kernel);
/* Accepts NULL. All its calls must be destroyed before. */
void kiln_kernel_unload(kiln_kernel *kernel);

/* Bytes of an argument in memory, in its physical layout, padding included; OUT_OF_RANGE when too
 * large. */
KILN_MUST_USE kiln_status kiln_manifest_arg_bytes(const kiln_manifest_arg *arg, size_t *out_bytes);

/* Valid until unload. */
const kiln_manifest *kiln_kernel_manifest(const kiln_kernel *kernel);
kiln_device *kiln_kernel_device(const kiln_kernel *kernel);
size_t kiln_kernel_arg_bytes(const kiln_kernel *kernel, uint32_t arg);
/* The address of its code in this process, for profilers; NULL and 0 when it is elsewhere. */
const void *kiln_kernel_code(const kiln_kernel *kernel, size_t *out_bytes);

/* Bytes of all packed arguments, or all temps, one after the other, each aligned for the device's
 * memory. */
size_t kiln_kernel_packed_bytes(const kiln_kernel *kernel);
size_t kiln_kernel_temp_bytes(const kiln_kernel *kernel);

/* A call owns its packed buffers and temps, laid out with `guard`; inputs, constants and outputs
 * are the caller's memory. */
KILN_MUST_USE kiln_status kiln_call_create(const kiln_kernel *kernel, kiln_guard guard,
                                           kiln_call **out_call);
/* The caller's memory on the kernel's device for arguments that a call would own. */
typedef struct kiln_call_memory {
    const kiln_device_memory
        *packed;            /* kiln_kernel_packed_bytes from the offset on; NULL when that is 0 */
    uint64_t packed_offset; /* a multiple of the alignment of the device's memory */
    const kiln_device_memory
        *temps;            /* kiln_kernel_temp_bytes from the offset on; NULL when that is 0 */
    uint64_t temps_offset; /* aligned likewise */
} kiln_call_memory;
/* The same over the caller's memory. Calls of one kernel with the same constants may share packed
 * buffers, and then one of them must be prepared for all; calls that do not run at the same time
 * may share temps. INVALID_ARGUMENT: too little memory, or an offset that is not aligned. */
KILN_MUST_USE kiln_status kiln_call_create_over(const kiln_kernel *kernel,
                                                const kiln_call_memory *memory,
                                                kiln_call **out_call);
void kiln_call_destroy(kiln_call *call); /* accepts NULL */

/* Binds memory of the process to an input, constant or output (physical layout), for devices that
 * work in it. Constants that run() does not read (manifest: read_by_run) may be released or
 * re-bound after prepare(). INVALID_ARGUMENT: no such argument, one that the call owns, a pointer
 * that is not aligned to KILN_KERNEL_ALIGNMENT, or a size other than kiln_kernel_arg_bytes; or the
 * device has its own memory. */
KILN_MUST_USE kiln_status kiln_call_bind(kiln_call *call, uint32_t arg, void *data,
                                         size_t size_bytes);
/* The same for a place in the device's memory, from kiln_device_place_at. */
KILN_MUST_USE kiln_status kiln_call_bind_place(kiln_call *call, uint32_t arg,
                                               kiln_device_place place, size_t size_bytes);
/* The same without checks, for arguments that were checked once and change at each run. */
void kiln_call_rebind(kiln_call *call, uint32_t arg, kiln_device_place place);

/* Fills the packed buffers from the constants, and returns when that is done; does nothing for a
 * kernel without packed buffers. FAILED_PRECONDITION: a constant is not bound. INTERNAL: the kernel
 * failed. */
KILN_MUST_USE kiln_status kiln_call_prepare(kiln_call *call, const kiln_services *services);
/* Launches one run: KILN_KERNEL_OK or the kernel's status. All arguments must be bound and the call
 * prepared, and `services` must allow at most the manifest's threads_max (NULL: the device needs
 * none of the host). No allocation, no system call. */
int32_t kiln_call_run(const kiln_call *call, const kiln_services *services);

/* Memory of a packed argument or a temp that the call owns (tests and boards look for stray
 * writes); else NULL. */
const kiln_device_memory *kiln_call_memory_of(const kiln_call *call, uint32_t arg);

#endif
