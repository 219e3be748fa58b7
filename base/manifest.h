/* The manifest of an artefact: all that a board or a module needs to load, feed, run and check a
 * kernel. Written by compiler-core, read by deploy/runtime, boards and the database. Binary form is
 * msgpack (base/mpack.h); the artefact blob is manifest + payloads, named by its SHA-256.
 *
 * One run of a kernel is a list of launches, one after the other. Most kernels have the plain form:
 * one payload, the entry kiln_run on one thread of the host that gets every argument, and before
 * it, once, kiln_prepare where something is packed. What a manifest has beyond the plain form is
 * written only where it is there, so plain artefacts keep their bytes and their names. */
#ifndef KILN_BASE_MANIFEST_H
#define KILN_BASE_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/layout.h"
#include "base/spaces.h"
#include "base/status.h"
#include "base/str.h"
#include "base/target.h"
#include "base/tensor.h"

/* Replace KILN_KERNEL_ABI_VERSION in manifests that are not plain, and in those with a launch that
 * has a cluster or maps, so that older readers refuse them. */
#define KILN_MANIFEST_ABI_LAUNCHES 2
#define KILN_MANIFEST_ABI_MAPS 3
#define KILN_MANIFEST_ARGS_MAX 64
#define KILN_MANIFEST_LAUNCHES_MAX 512
#define KILN_MANIFEST_PAYLOADS_MAX 16
#define KILN_MANIFEST_TABLE_BYTES_MAX ((size_t)1 << 20)
#define KILN_PAYLOAD_ALIGNMENT 16 /* of each payload in the blob */
#define KILN_ARTEFACT_BYTES_MAX ((size_t)64 << 20)

typedef enum kiln_role {
    KILN_ROLE_INPUT = 1, /* activation, given at each run */
    KILN_ROLE_CONSTANT =
        2, /* weight, given once; read by kiln_prepare and, when not packed, by kiln_run */
    KILN_ROLE_OUTPUT = 3,
    KILN_ROLE_PACKED =
        4, /* written by kiln_prepare, read by kiln_run; exists only inside the kernel's owner */
    KILN_ROLE_TEMP =
        5, /* between launches of one run; in a program: inside of it. Owned as above */
    KILN_ROLE_TABLE =
        6, /* constants that the kernel brings along, read by its launches; as above */
} kiln_role;

/* Names of the entries of the plain form. */
#define KILN_ENTRY_RUN "kiln_run"
#define KILN_ENTRY_PREPARE "kiln_prepare"

/* Rows of payloads.def. */
typedef enum kiln_payload_kind {
#define X(NAME, number, name, doc) KILN_PAYLOAD_##NAME = number,
#include "base/payloads.def"
#undef X
} kiln_payload_kind;

/* "elf" */
const char *kiln_payload_name(kiln_payload_kind payload);
/* The payload kind of artefacts for targets of this kind. */
kiln_payload_kind kiln_payload_of(kiln_target_kind kind);

typedef struct kiln_manifest_arg {
    kiln_str name;
    kiln_dtype dtype;
    kiln_role role;
    kiln_shape shape; /* logical */
    kiln_layout layout;
    kiln_fill fill;   /* how a board makes this input when it measures */
    kiln_range range; /* with KILN_FILL_RANGE: which integers it holds */
    bool read_by_run; /* false: only kiln_prepare needs it */
    kiln_str data;    /* of a table: its bytes in physical layout; empty otherwise */
} kiln_manifest_arg;

typedef struct kiln_manifest_payload {
    kiln_payload_kind kind;
    uint64_t size_bytes;
} kiln_manifest_payload;

#define KILN_MAP_RANK_MAX 5
#define KILN_MAP_BOX_MAX 256
#define KILN_LAUNCH_MAPS_MAX 8
#define KILN_LAUNCH_CLUSTER_MAX 8 /* what every device with clusters runs */
#define KILN_MAP_ROW_BYTES 128    /* of a box whose units are permuted */

/* An argument as a device's copy unit sees it, which copies boxes of it into shared memory: a
 * tensor map of CUDA (cuTensorMapEncodeTiled, driver API 12). Dimensions begin with the contiguous
 * one. Elements outside of `size` arrive as zeros. */
typedef struct kiln_manifest_map {
    uint32_t arg;                     /* index among the launch's arguments */
    uint64_t offset_bytes;            /* of element 0 in the argument; a multiple of 16 */
    uint32_t rank;                    /* 1 to KILN_MAP_RANK_MAX */
    kiln_dtype dtype;                 /* of 1, 2, 4 or 8 bytes */
    uint64_t size[KILN_MAP_RANK_MAX]; /* elements */
    uint64_t
        stride_bytes[KILN_MAP_RANK_MAX]; /* [0] an element's bytes, the others multiples of 16 */
    uint32_t box[KILN_MAP_RANK_MAX];     /* elements, at most KILN_MAP_BOX_MAX */
    /* Rows of a box have KILN_MAP_ROW_BYTES, and row r has its 16-byte unit u at u ^ r % 8. */
    bool is_permuted;
} kiln_manifest_map;

typedef enum kiln_launch_phase {
    KILN_LAUNCH_PREPARE = 1, /* once, untimed: fills packed arguments */
    KILN_LAUNCH_RUN = 2,
} kiln_launch_phase;

typedef struct kiln_manifest_launch {
    kiln_launch_phase phase;
    kiln_str entry;    /* the function, by its name in the payload */
    uint32_t payload;  /* the index of the payload */
    uint32_t grid[3];  /* groups along each axis, x first; 1, 1, 1 on a CPU */
    uint32_t group[3]; /* threads of a group along each axis */
    /* Bytes that it needs in addition to its arguments, per space (per group or thread if the space
     * belongs to one). CPU code uses scratch_bytes below instead. */
    uint64_t scratch_bytes[KILN_MEMORY_SPACES_END];
    uint32_t arg_count;
    const uint32_t
        *arg; /* [arg_count] indices of the manifest's arguments, as the entry takes them */
    /* Groups along x that run at the same time and can copy into each other's shared memory, at
     * most KILN_LAUNCH_CLUSTER_MAX; 0 is 1. grid[0] is a multiple of it. */
    uint32_t cluster;
    uint32_t map_count;           /* the entry takes maps behind arguments and scratch */
    const kiln_manifest_map *map; /* [map_count] */
} kiln_manifest_launch;

typedef struct kiln_manifest {
    uint32_t abi_version; /* KILN_KERNEL_ABI_VERSION, KILN_MANIFEST_ABI_LAUNCHES or _MAPS */
    kiln_payload_kind payload_kind; /* of the first payload */
    kiln_str target;                /* canonical target text */
    kiln_str codegen_version;
    kiln_str task_key;
    kiln_str algorithm; /* "direct", ... */
    bool has_prepare;
    uint32_t threads_max;
    uint64_t scratch_bytes,
        scratch_worker_bytes; /* of host memory, for the launch that needs most */
    double flops;             /* 2*MAC + other floating operations of one run, in the direct form */
    uint32_t
        arg_count; /* in kernel_abi.h's order: inputs, constants, outputs, packed, temps, tables */
    kiln_manifest_arg *arg;

    /* Beyond the plain form. When encoding, zeros and NULL mean the plain form; decoding fills all
     * fields. */
    double executed_flops; /* operations that one run executes; plain: `flops` */
    double
        error_factor; /* outputs may differ by this many times the task's error bound; plain: 1 */
    uint32_t payload_count;
    const kiln_manifest_payload *payload; /* [payload_count]; plain: one of payload_kind */
    uint32_t launch_count;
    const kiln_manifest_launch *launch; /* [launch_count] those of PREPARE first */
} kiln_manifest;

typedef struct kiln_artefact {
    kiln_manifest manifest;
    kiln_str payload; /* all payloads, each followed by zeros up to KILN_PAYLOAD_ALIGNMENT, the last
                         one not */
} kiln_artefact;

/* Whether arguments of the role are memory of the kernel's owner instead of the caller's. */
static inline bool kiln_role_is_owned(kiln_role role) { return role >= KILN_ROLE_PACKED; }

/* The bytes of one payload of a decoded artefact. `index` must be below payload_count. */
kiln_str kiln_artefact_payload(const kiln_artefact *artefact, uint32_t index);
/* Fills `data` with the elements of an input or a constant in logical order, as its `fill` says. */
void kiln_manifest_arg_fill(const kiln_manifest_arg *arg, uint64_t seed, void *data);
/* Whether the manifest has the plain form, as all manifests of the first version. */
bool kiln_manifest_is_plain(const kiln_manifest *manifest);
/* Whether groups of the launch run in clusters, or copy boxes by tensor maps: not every device can.
 */
static inline bool kiln_launch_has_cluster_or_maps(const kiln_manifest_launch *launch) {
    return launch->cluster > 1 || launch->map_count > 0;
}
/* For what runs neither: `who` is its name in the error, as "a device cpu". UNIMPLEMENTED: a launch
 * of the decoded manifest has a cluster or maps. */
KILN_MUST_USE kiln_status kiln_manifest_refuse_cluster_or_maps(const kiln_manifest *manifest,
                                                               const char *who);

/* Appends manifest + payloads to `out`; same artefact, same bytes. */
void kiln_artefact_encode(const kiln_artefact *artefact, kiln_strbuf *out);
/* DATA_LOSS: truncated, out-of-range or contradictory fields (the note names the field). Views
 * point into `bytes`; arrays go to `arena`. */
KILN_MUST_USE kiln_status kiln_artefact_decode(kiln_str bytes, kiln_arena *arena,
                                               kiln_artefact *out_artefact);
/* Prints one line per field. */
void kiln_manifest_print(const kiln_manifest *manifest, kiln_strbuf *out);

#endif
