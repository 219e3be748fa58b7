/* What an artefact says about itself: everything that a board or a module needs to load, feed, run
 * and check a kernel. Written by compiler-core, read by deploy/runtime, boards and the database.
 * Binary form is msgpack (base/mpack.h); the artefact blob is manifest + payload, named by its
 * SHA-256. */
#ifndef KILN_BASE_MANIFEST_H
#define KILN_BASE_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/layout.h"
#include "base/status.h"
#include "base/str.h"
#include "base/target.h"
#include "base/tensor.h"

#define KILN_MANIFEST_ARGS_MAX 64
#define KILN_ARTEFACT_BYTES_MAX ((size_t)64 << 20)

typedef enum kiln_role {
    KILN_ROLE_INPUT = 1, /* activation, given at each run */
    KILN_ROLE_CONSTANT =
        2, /* weight, given once; read by kiln_prepare and, when not packed, by kiln_run */
    KILN_ROLE_OUTPUT = 3,
    KILN_ROLE_PACKED =
        4, /* written by kiln_prepare, read by kiln_run; exists only inside the kernel's owner */
    KILN_ROLE_TEMP = 5, /* never in a manifest: buffers inside a program */
} kiln_role;

typedef enum kiln_payload_kind {
    KILN_PAYLOAD_ELF = 1, /* relocatable object, docs/reference/object.md */
    KILN_PAYLOAD_PTX = 2,
    KILN_PAYLOAD_OPENCL = 3,
    KILN_PAYLOAD_VTA = 4,
} kiln_payload_kind;

/* "elf" */
const char *kiln_payload_name(kiln_payload_kind payload);
/* What artefacts of targets of this kind hold. */
kiln_payload_kind kiln_payload_of(kiln_target_kind kind);

typedef struct kiln_manifest_arg {
    kiln_str name;
    kiln_dtype dtype;
    kiln_role role;
    kiln_shape shape; /* logical */
    kiln_layout layout;
    kiln_fill fill;   /* how a board makes this input when it measures */
    bool read_by_run; /* false: only kiln_prepare needs it */
} kiln_manifest_arg;

typedef struct kiln_manifest {
    uint32_t abi_version; /* KILN_KERNEL_ABI_VERSION */
    kiln_payload_kind payload_kind;
    kiln_str target; /* canonical target text */
    kiln_str codegen_version;
    kiln_str task_key;
    kiln_str algorithm; /* "direct", ... */
    bool has_prepare;
    uint32_t threads_max;
    uint64_t scratch_bytes, scratch_worker_bytes;
    double flops;       /* 2*MAC + other floating operations of one run */
    uint32_t arg_count; /* in kernel_abi.h's order: inputs, constants, outputs, packed */
    kiln_manifest_arg *arg;
} kiln_manifest;

typedef struct kiln_artefact {
    kiln_manifest manifest;
    kiln_str payload;
} kiln_artefact;

/* Appends manifest + payload to `out`; same artefact, same bytes. */
void kiln_artefact_encode(const kiln_artefact *artefact, kiln_strbuf *out);
/* DATA_LOSS: truncated, out-of-range or contradictory fields (the note names the field). Views
 * point into `bytes`; arrays go to `arena`. */
KILN_MUST_USE kiln_status kiln_artefact_decode(kiln_str bytes, kiln_arena *arena,
                                               kiln_artefact *out_artefact);
/* For people: one line per field. */
void kiln_manifest_print(const kiln_manifest *manifest, kiln_strbuf *out);

#endif
