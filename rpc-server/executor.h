/* Executors run artefacts of one kind: a row of executors.def and a vtable in ex_<code>.c. They run
 * in the contained child, in one thread: open, load, fill; prepare, check and run in any number;
 * unload, close. The sandbox FULL is shut before `prepare`; after that nothing may be allocated,
 * opened or mapped. The sandbox DRIVER is shut after `open`; the child may load further programs,
 * one at a time. Trust no memory that the candidate can write. */
#ifndef KILN_RPC_SERVER_EXECUTOR_H
#define KILN_RPC_SERVER_EXECUTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/manifest.h"
#include "base/status.h"
#include "base/str.h"
#include "base/target.h"
#include "deploy/runtime/device.h"
#include "rpc-server/driver.h"
#include "rpc-server/reference_kernel.h"

#define KILN_EXECUTOR_CORES_MAX 64u

typedef enum kiln_lifetime { KILN_LIFETIME_TRIAL, KILN_LIFETIME_FAULT } kiln_lifetime;

typedef struct kiln_executor_setup {
    uint32_t core_count; /* at most what the trial's kernels use; the caller runs on core[0] */
    const uint32_t *core;
    const char *name; /* of the executor's row */
    uint32_t device;  /* number of the device */
} kiln_executor_setup;

/* Result of a call of the candidate. */
typedef enum kiln_ran {
    KILN_RAN_OK,
    KILN_RAN_ERROR, /* it returned an error */
    KILN_RAN_STRAY, /* it wrote outside of its arguments */
    KILN_RAN_STALE, /* it left an element of an output unwritten */
    KILN_RAN_LOST,  /* the device failed; not the candidate's fault */
} kiln_ran;

/* Describes a device. */
typedef struct kiln_executor_facts {
    const char *name, *driver;
    const char *management; /* NULL: nothing to report */
    kiln_target target;
    uint64_t memory_bytes;
} kiln_executor_facts;

/* All functions are required unless marked optional. `device` and `program` belong to the executor.
 */
typedef struct kiln_executor_vtable {
    /* Opens the device. UNAVAILABLE: there is none. */
    kiln_status (*open)(const kiln_executor_setup *setup, void **out_device);
    /* Links the artefact (`manifest` is its decoded head) and allocates every buffer, guard pages
     * around each. FAILED_PRECONDITION: code for another machine; RESOURCE_EXHAUSTED: no memory;
     * other errors are the artefact's fault. */
    kiln_status (*load)(void *device, kiln_str artefact, const kiln_manifest *manifest,
                        void **out_program);
    /* Makes inputs and constants from `seed` (kiln_input_seed per argument) and makes them
     * read-only. */
    void (*fill)(void *program, uint64_t seed);
    /* Packs constants. This is the first call of candidate code. */
    kiln_ran (*prepare)(void *program);
    /* Runs `runs` times back to back; *out_ns by the device's own clock. If that is cheap,
     * overwrites a random element of each output before, and checks that it was written again. */
    kiln_ran (*run)(void *program, uint32_t runs, uint64_t *out_ns);
    /* Fills outputs and scratch with `poison`, runs once (*out_ns: its time), and copies every
     * output in its physical layout to `out_outputs`, each at the next multiple of
     * KILN_KERNEL_ALIGNMENT. */
    kiln_ran (*check)(void *program, uint16_t poison, void *out_outputs, uint64_t *out_ns);
    void (*unload)(void *program); /* accepts NULL */
    void (*close)(void *device);   /* accepts NULL */
    /* Describes the device without opening it; strings in `arena`. NOT_FOUND: there is none.
     * Optional. */
    kiln_status (*describe)(const kiln_executor_setup *setup, kiln_arena *arena,
                            kiln_executor_facts *out_facts);
    /* Times reference kernels on the device: a round (rpc-server/reference_kernel_device.h; the
     * first one compiles them), and a single reading after that. False: this device cannot run
     * them. Both are optional, together. */
    bool (*round)(void *device, kiln_reference_kernel_round *out_round);
    kiln_reference_kernel_times (*reference)(void *device);
    /* The device's state now, from its vendor's management library. False: there is none. Optional.
     */
    bool (*read)(void *device, kiln_device_reading *out_reading);
    /* The device's message for the last call that failed. Optional. */
    const char *(*error)(const void *device);
} kiln_executor_vtable;

typedef struct kiln_executor {
    const char *name, *doc;
    kiln_lifetime lifetime;
    const kiln_driver *driver; /* NULL: the full sandbox */
    bool exact;
    const kiln_executor_vtable *vtable;
} kiln_executor;

/* The rows of executors.def; `index` below their count. */
uint32_t kiln_executor_count(void);
const kiln_executor *kiln_executor_at(uint32_t index);
/* NULL: there is none. */
const kiln_executor *kiln_executor_find(kiln_str name);
/* The executor for such payloads, by target_kinds.def; NULL: none. */
const kiln_executor *kiln_executor_for(kiln_payload_kind payload);
/* Whether a row of target_kinds.def names it. */
bool kiln_executor_is_of_kind(const kiln_executor *executor);

/* Bytes that `check` writes for this manifest: outputs in physical layout, each aligned. */
uint64_t kiln_executor_output_bytes(const kiln_manifest *manifest);
/* Bytes of one argument in physical layout. The shape must have been checked. */
uint64_t kiln_executor_arg_bytes(const kiln_manifest_arg *arg);

#endif
