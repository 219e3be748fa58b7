/* What everybody who runs kernels uses: an artefact loaded and ready (kiln_kernel), and calls of it
 * with their own arguments and packed buffers (kiln_call). One kernel may have many calls; a module
 * has one call per step. In use:
 *
 *     kiln_kernel_load(bytes, NULL, &kernel);
 *     kiln_call_create(kernel, KILN_GUARD_NONE, &call);
 *     for each input, constant, output: kiln_call_bind(call, i, data, size);
 *     kiln_call_prepare(call, &services);
 *     kiln_call_run(call, &services);      as often as wanted; never allocates */
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
#include "deploy/runtime/load.h"
#include "deploy/runtime/region.h"
#include "deploy/runtime/services.h"

/* Names of the entries in an object. */
#define KILN_ENTRY_RUN "kiln_run"
#define KILN_ENTRY_PREPARE "kiln_prepare"

typedef struct kiln_kernel kiln_kernel;
typedef struct kiln_call kiln_call;

/* All that loading checks, without mapping and for any machine: the manifest decodes, its target is
 * known, the payload links and has the entries that the manifest promises. Builders call this on
 * what they made. Errors: those of kiln_artefact_decode, kiln_target_parse and kiln_object_check;
 * UNIMPLEMENTED when the payload is not CPU code or the ABI version is not ours. */
KILN_MUST_USE kiln_status kiln_kernel_check(kiln_str artefact_bytes);

/* Loads an artefact for calling in this process; `artefact_bytes` is not needed afterwards.
 * `device` is what this machine is, or NULL to find out. Errors as above, and FAILED_PRECONDITION
 * the code is for another machine; the message names the missing feature */
KILN_MUST_USE kiln_status kiln_kernel_load(kiln_str artefact_bytes, const kiln_target *device,
                                           kiln_kernel **out_kernel);
/* Accepts NULL. All its calls must be gone. */
void kiln_kernel_unload(kiln_kernel *kernel);

/* Bytes of an argument in memory, in its physical layout, padding included; OUT_OF_RANGE when too
 * large. */
KILN_MUST_USE kiln_status kiln_manifest_arg_bytes(const kiln_manifest_arg *arg, size_t *out_bytes);

/* Valid until unload. */
const kiln_manifest *kiln_kernel_manifest(const kiln_kernel *kernel);
const kiln_object *kiln_kernel_object(const kiln_kernel *kernel);
size_t kiln_kernel_arg_bytes(const kiln_kernel *kernel, uint32_t arg);

/* All packed arguments one after the other, each aligned to KILN_KERNEL_ALIGNMENT. */
size_t kiln_kernel_packed_bytes(const kiln_kernel *kernel);

/* A call owns its packed buffers, laid out with `guard`; every other argument is the caller's
 * memory. */
KILN_MUST_USE kiln_status kiln_call_create(const kiln_kernel *kernel, kiln_guard guard,
                                           kiln_call **out_call);
/* The same over the caller's memory of kiln_kernel_packed_bytes, aligned to KILN_KERNEL_ALIGNMENT:
 * calls of one kernel with the same constants may share it, and then one of them is prepared for
 * all. */
KILN_MUST_USE kiln_status kiln_call_create_over(const kiln_kernel *kernel, void *packed,
                                                kiln_call **out_call);
void kiln_call_destroy(kiln_call *call); /* accepts NULL */

/* Binds memory to an input, constant or output (physical layout). Constants that run() does not
 * read (manifest: read_by_run) may be released or re-bound after prepare(). INVALID_ARGUMENT: no
 * such argument, a packed one, a pointer that is not aligned to KILN_KERNEL_ALIGNMENT, or a size
 * other than kiln_kernel_arg_bytes. */
KILN_MUST_USE kiln_status kiln_call_bind(kiln_call *call, uint32_t arg, void *data,
                                         size_t size_bytes);
/* The same without checks, for what was checked once and changes at each run. */
void kiln_call_rebind(kiln_call *call, uint32_t arg, void *data);

/* Fills the packed buffers from the constants; does nothing for a kernel that has none to fill.
 * FAILED_PRECONDITION: a constant is not bound. INTERNAL: the kernel says that it failed. */
KILN_MUST_USE kiln_status kiln_call_prepare(kiln_call *call, const kiln_services *services);
/* Runs once: KILN_KERNEL_OK or the kernel's own status. Everything must be bound and prepared, and
 * `services` must allow at most the manifest's threads_max. No allocation, no system call of its
 * own. */
int32_t kiln_call_run(const kiln_call *call, const kiln_services *services);

/* Packed buffer of an argument with that role that the call owns (tests and boards look for stray
 * writes); else NULL. */
const kiln_region *kiln_call_packed(const kiln_call *call, uint32_t arg);

#endif
