/* What runs artefacts of one kind: a row of executors.def and a vtable in ex_<code>.c. Executors
 * run inside the contained child, in one thread: open, load, fill; prepare, check and run in any
 * number; unload, close. With the sandbox FULL it shuts before `prepare`, from where on nothing may
 * be allocated, opened or mapped; with DRIVER it shuts behind `open`, and the child may load the
 * next program when the last one is unloaded. Nothing that the candidate can reach may be trusted.
 */
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
    uint32_t core_count; /* as many as the trial's kernels can use; the caller runs on core[0] */
    const uint32_t *core;
    const char *name; /* of the executor's row */
    uint32_t device;  /* which one of its kind */
} kiln_executor_setup;

/* How a call of the candidate went. */
typedef enum kiln_ran {
    KILN_RAN_OK,
    KILN_RAN_ERROR, /* it says that it failed */
    KILN_RAN_STRAY, /* it wrote beside an argument */
    KILN_RAN_STALE, /* it did not write an output that it has to write */
    KILN_RAN_LOST,  /* the device broke, by no doing of the candidate */
} kiln_ran;

/* What a device is. */
typedef struct kiln_executor_facts {
    const char *name, *driver;
    const char *management; /* NULL: nothing to say */
    kiln_target target;
    uint64_t memory_bytes;
} kiln_executor_facts;

/* All required but those said to be optional. `device` and `program` are the executor's own. */
typedef struct kiln_executor_vtable {
    /* Brings the device up. UNAVAILABLE: it is not there. */
    kiln_status (*open)(const kiln_executor_setup *setup, void **out_device);
    /* Links the artefact (`manifest` is its decoded head) and allocates every buffer, guard pages
     * around each. FAILED_PRECONDITION: code for another machine; RESOURCE_EXHAUSTED: no memory;
     * else the artefact's fault. */
    kiln_status (*load)(void *device, kiln_str artefact, const kiln_manifest *manifest,
                        void **out_program);
    /* Makes inputs and constants from `seed` (kiln_input_seed per argument) and makes them
     * read-only. */
    void (*fill)(void *program, uint64_t seed);
    /* Packs constants: the first candidate code that runs. */
    kiln_ran (*prepare)(void *program);
    /* Runs `runs` times back to back; *out_ns by the device's own clock. Where it costs nothing,
     * spoils an element of each output before, at random, and looks whether it was written again.
     */
    kiln_ran (*run)(void *program, uint32_t runs, uint64_t *out_ns);
    /* Fills outputs and scratch with `poison`, runs once (*out_ns: time of it), and copies every
     * output in its physical layout to `out_outputs`, each at the next multiple of
     * KILN_KERNEL_ALIGNMENT. */
    kiln_ran (*check)(void *program, uint16_t poison, void *out_outputs, uint64_t *out_ns);
    void (*unload)(void *program); /* accepts NULL */
    void (*close)(void *device);   /* accepts NULL */
    /* What the device is, without opening it; in `arena`. NOT_FOUND: there is none. Optional. */
    kiln_status (*describe)(const kiln_executor_setup *setup, kiln_arena *arena,
                            kiln_executor_facts *out_facts);
    /* The reference work on the device: a round (rpc-server/reference_kernel_device.h), which
     * compiles it when it is the first, and a reading behind that. False: it cannot be had of this
     * device. Both are optional, together. */
    bool (*round)(void *device, kiln_reference_kernel_round *out_round);
    kiln_reference_kernel_times (*reference)(void *device);
    /* The state of the device now, by the management library of its vendor; optional. False:
     * nothing tells. */
    bool (*read)(void *device, kiln_device_reading *out_reading);
    /* What the device says about the last call that went wrong; optional. */
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
/* NULL when there is none. */
const kiln_executor *kiln_executor_find(kiln_str name);
/* The one that runs such payloads, by target_kinds.def; NULL. */
const kiln_executor *kiln_executor_for(kiln_payload_kind payload);
/* Whether a kind of targets names it. */
bool kiln_executor_is_of_kind(const kiln_executor *executor);

/* Bytes that `check` writes for this manifest: outputs in physical layout, each aligned. */
uint64_t kiln_executor_output_bytes(const kiln_manifest *manifest);
/* Bytes of one argument in physical layout. The shape must have been checked. */
uint64_t kiln_executor_arg_bytes(const kiln_manifest_arg *arg);

#endif
