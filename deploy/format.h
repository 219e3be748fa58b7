/* The module file: its layout on disk, and the plan in it. Written by deploy/pack (module_write.c),
 * read by deploy/runtime (module_read.c), documented in docs/reference/module.md. All numbers are
 * little-endian.
 *
 *     header            64 bytes
 *     section table     48 bytes each, in the order of sections.def
 *     sections          aligned to 64 (constants: 4096), zero bytes between and none after
 *     signature block   112 bytes, of signed modules; not counted in the header's size
 *
 * Every byte is checked: the header's checksum covers header and table, each entry's covers its
 * section, and gaps must be zero. Checksums are XXH3-64 with seed 0; they find damage, not forgery.
 */
#ifndef KILN_DEPLOY_FORMAT_H
#define KILN_DEPLOY_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/str.h"
#include "base/tensor.h"

#define KILN_MODULE_MAGIC "KILNMOD\n" /* 8 bytes */
/* Modules are written in the oldest version that can express them, so that older programs can read
 * them. Version 1: one plan, that uses the processor alone and has neither loops nor events.
 * Version 2: buffers and steps have more fields. Version 3: several plans, one for each size of a
 * dimension.
 */
#define KILN_MODULE_VERSION 3u
#define KILN_MODULE_VERSION_PLAIN 1u
#define KILN_MODULE_VERSION_FULL 2u
#define KILN_MODULE_VERSION_SIZES 3u
#define KILN_MODULE_HEADER_BYTES 64u
#define KILN_MODULE_ENTRY_BYTES 48u
#define KILN_MODULE_SECTION_ALIGNMENT 64u
#define KILN_MODULE_CONSTANT_ALIGNMENT \
    4096u /* of the section; each constant in it is aligned to 64 */

/* Offsets in the header; bytes not named are zero. */
#define KILN_MODULE_AT_MAGIC 0u
#define KILN_MODULE_AT_VERSION 8u        /* u32 */
#define KILN_MODULE_AT_SECTION_COUNT 12u /* u32 */
#define KILN_MODULE_AT_FILE_BYTES 16u    /* u64 */
#define KILN_MODULE_AT_CHECKSUM 24u      /* u64, of header and table with this field zero */
/* Offsets in an entry of the section table. */
#define KILN_MODULE_ENTRY_AT_KIND 0u      /* u32 */
#define KILN_MODULE_ENTRY_AT_ALIGNMENT 4u /* u32 */
#define KILN_MODULE_ENTRY_AT_OFFSET 8u    /* u64 */
#define KILN_MODULE_ENTRY_AT_SIZE 16u     /* u64 */
#define KILN_MODULE_ENTRY_AT_CHECKSUM 24u /* u64; 16 zero bytes follow */

/* The block of a signed module. The signature covers KILN_MODULE_SIGNED_TEXT and the SHA-256 of all
 * bytes before the block. */
#define KILN_MODULE_SIGNED_BYTES 112u
#define KILN_MODULE_SIGNED_MAGIC "KILNSIG\n" /* 8 bytes */
#define KILN_MODULE_SIGNED_AT_PUBLIC 8u      /* 32 bytes: Ed25519 */
#define KILN_MODULE_SIGNED_AT_SIGNATURE 40u  /* 64 bytes */
#define KILN_MODULE_SIGNED_AT_CHECKSUM 104u  /* u64, of the 104 bytes before */
#define KILN_MODULE_SIGNED_TEXT "kiln module signature 1\n"

/* Fields of the arrays in the plan's section: of version 1, and of later ones. */
#define KILN_MODULE_PLAN_FIELDS_PLAIN 4u
#define KILN_MODULE_PLAN_FIELDS 5u
#define KILN_MODULE_BUFFER_FIELDS_PLAIN 4u
#define KILN_MODULE_BUFFER_FIELDS 7u
#define KILN_MODULE_STEP_FIELDS_PLAIN 7u
#define KILN_MODULE_STEP_FIELDS 14u

/* Of the arrays in the signature's section in version 3. */
#define KILN_MODULE_SIZES_FIELDS 3u
#define KILN_MODULE_SIZE_FIELDS 4u

/* Limits, checked by writer and reader. */
#define KILN_MODULE_METADATA_MAX 256u
#define KILN_MODULE_PORTS_MAX 256u /* inputs; outputs as well */
#define KILN_MODULE_KERNELS_MAX 4096u
#define KILN_MODULE_BUFFERS_MAX (1u << 19)
#define KILN_MODULE_STEPS_MAX (1u << 18)
#define KILN_MODULE_DEVICES_MAX 15u   /* in addition to the processor */
#define KILN_MODULE_LOOP_DEPTH_MAX 8u /* nested loops */
#define KILN_MODULE_BUCKETS_MAX 32u   /* sizes of a module */
#define KILN_MODULE_SIZE_MAX ((int64_t)1 << 31)
#define KILN_MODULE_TRIPS_MAX (UINT64_C(1) << 32)
#define KILN_MODULE_NAME_MAX 512u
#define KILN_MODULE_ARENA_BYTES_MAX ((uint64_t)1 << 40)

typedef enum kiln_module_section {
#define X(name, number, text) KILN_MODULE_##name = number,
#include "deploy/sections.def"
#undef X
} kiln_module_section;
enum {
#define X(name, number, text) KILN_MODULE_INDEX_##name,
#include "deploy/sections.def"
#undef X
    KILN_MODULE_SECTION_COUNT
};

/* Where a buffer's bytes are. The numbers are on disk. */
typedef enum kiln_module_storage {
    KILN_STORAGE_ARENA = 1,    /* `offset` in the activation arena */
    KILN_STORAGE_CONSTANT = 2, /* `data`, in the constants section of a file */
    KILN_STORAGE_INPUT = 3,    /* the caller's memory for input `source` */
    KILN_STORAGE_OUTPUT = 4,   /* the caller's memory for output `source` */
    KILN_STORAGE_ALIAS = 5,    /* bytes of buffer `source` from `offset` on; `source` is no alias */
} kiln_module_storage;

#define KILN_PLAN_NONE UINT32_MAX /* no buffer, no step */

/* A further device of a module. Device 0 is always the processor; device k is entry k - 1 of the
 * plan's list. */
typedef struct kiln_plan_device {
    uint32_t kind;  /* a number of deploy/runtime/devices.def */
    uint32_t index; /* which one of that kind */
    uint64_t arena_bytes;
} kiln_plan_device;

typedef struct kiln_plan_buffer {
    kiln_module_storage storage;
    uint64_t size_bytes; /* physical, padding elements included */
    uint64_t offset;     /* in the arena or of an alias: a multiple of the alignment of the device's
                            memory, or     any with a stride; constants: the file decides */
    uint32_t source;
    const void *data; /* constants: the bytes; NULL otherwise */
    uint32_t
        device; /* the device whose memory holds it; that of the source for aliases, 0 for ports */
    /* Of an alias in a loop: it moves by `stride` bytes with each iteration of the loop at step
     * `loop`. With a stride of 0 `loop` is 0 too. */
    int64_t stride;
    uint32_t loop;
} kiln_plan_buffer;

/* The kinds of steps. The numbers are on disk. */
typedef enum kiln_plan_action {
    KILN_ACTION_KERNEL =
        1, /* calls kernel `kernel`; arg: one buffer per argument that is not packed */
    KILN_ACTION_ALIAS =
        2, /* nothing: its arguments share the bytes of one buffer. For display and timing */
    KILN_ACTION_COPY =
        3, /* copies bytes; arg: source, result of the same size; maybe to or from a device */
    KILN_ACTION_EVENT = 4, /* the processor waits until `device` has done step `after` */
    KILN_ACTION_LOOP = 5,  /* repeats the `body_count` steps behind it */
    KILN_ACTION_CARRY = 6, /* copies bytes over a value from before the loop that contains the step:
                            * the next iteration reads it there, or the steps behind the loop */
} kiln_plan_action;

typedef struct kiln_plan_step {
    kiln_plan_action action;
    kiln_str name; /* of the node or group */
    kiln_str op;   /* "conv2d+relu", "reshape" */
    kiln_str task; /* task key; empty when it is no kernel */
    uint32_t kernel;
    uint32_t arg_count;
    uint32_t output_count; /* the last output_count arguments are written, the others read */
    const uint32_t *arg;   /* [arg_count] buffers */
    uint32_t device; /* the device in whose queue it is: the kernel's, the copying one, or the one
                      * waited for */
    uint32_t after;  /* events: an earlier step */
    /* Of loops, which have no arguments. The body runs at most `trip_max` times, at most `count`
     * (i64) times, and only while `condition` (bool), read before each iteration, is true. Before
     * each iteration its number, from 0 on, is stored to `index` (i64). KILN_PLAN_NONE: there is no
     * such buffer. All are elements in the processor's memory; `count` and `condition` are written
     * before the loop, the latter may be carried. */
    uint32_t body_count;
    uint64_t trip_max; /* >= 1; the run fails if `count` asks for more iterations */
    uint32_t count, condition, index;
} kiln_plan_step;

typedef struct kiln_plan_port {
    kiln_str name;
    kiln_dtype dtype;
    kiln_shape shape; /* row-major */
    uint32_t buffer;  /* of storage INPUT or OUTPUT, with `source` = the port's index */
} kiln_plan_port;

typedef struct kiln_plan_pair {
    kiln_str key, value;
} kiln_plan_pair;

/* A whole module, in memory. Each input and output port has exactly one buffer of its storage. */
typedef struct kiln_module_plan {
    uint32_t metadata_count, input_count, output_count, kernel_count, buffer_count, step_count;
    kiln_plan_pair
        *metadata; /* [metadata_count] distinct keys; usually "model", "target", "codegen" */
    kiln_plan_port *input, *output;
    kiln_str *kernel; /* [kernel_count] encoded artefacts */
    kiln_plan_buffer *buffer;
    kiln_plan_step *step;
    uint64_t arena_bytes;  /* of the processor */
    uint32_t threads;      /* that the kernels were compiled for, >= 1 */
    uint32_t device_count; /* in addition to the processor */
    kiln_plan_device *device;
} kiln_module_plan;

/* A module for one size of its dimension. */
typedef struct kiln_module_bucket {
    int64_t size;       /* 1 to KILN_MODULE_SIZE_MAX; 0 in modules of one size */
    uint64_t median_ns; /* of a run: the sum of its kernels' records; 0: not all were measured */
    kiln_module_plan plan;
} kiln_module_bucket;

/* The contents of a file: a plan, or one for each of several sizes of a dimension. The plans have
 * the same metadata and the same ports with other shapes, and share kernels and constants in the
 * file. */
typedef struct kiln_module_sizes {
    kiln_str dim;          /* the name of the dimension in the model; empty: there is one plan */
    bool by_rows;          /* rows of the dimension are independent: runs may be padded and split */
    uint32_t bucket_count; /* 1 to KILN_MODULE_BUCKETS_MAX */
    kiln_module_bucket *bucket; /* by ascending size */
} kiln_module_sizes;

/* The axis along which a port has the dimension: its extent is `factor` times the size. */
typedef struct kiln_module_axis {
    uint32_t axis; /* KILN_MODULE_NO_AXIS: the port's shape is the same in all sizes */
    int64_t factor;
} kiln_module_axis;
#define KILN_MODULE_NO_AXIS UINT32_MAX
/* False: the shapes of the port differ in another way. */
bool kiln_module_find_axis(const kiln_module_sizes *sizes, bool is_output, uint32_t port,
                           kiln_module_axis *out_axis);

/* Checks each plan by kiln_module_plan_check, and that the plans of a module agree. With `by_rows`
 * each port must have one axis or none. */
KILN_MUST_USE kiln_status kiln_module_sizes_check(const kiln_module_sizes *sizes);

/* Whether version 1 of the format can express the plan. */
bool kiln_module_plan_is_plain(const kiln_module_plan *plan);

/* The buffer that holds the bytes of `buffer`: itself, or the source of an alias; and the offset in
 * it. */
uint32_t kiln_module_plan_root(const kiln_module_plan *plan, uint32_t buffer);
uint64_t kiln_module_plan_offset(const kiln_module_plan *plan, uint32_t buffer);
/* [buffer_count] in `arena`: for an output whose rows are stacked by a loop that may end early, the
 * step of that loop, which decides its number of rows; KILN_PLAN_NONE for other buffers. */
uint32_t *kiln_module_plan_find_grown(const kiln_module_plan *plan, kiln_arena *arena);

/* Checks a plan by the rules that writer and reader share. Indices and counts are in range; sizes
 * agree (ports, copies); arena buffers lie inside the arena and aliases inside their source; each
 * byte of a buffer is written once, before it is read, and is in the arena or an output; every
 * output is written; no two arena buffers share bytes while both are alive (from the first write
 * into one to its last use, of aliases too), except that a kernel may write a result to the place
 * of an input that is not read after it. Arguments fit the kernels in number, role, size, device
 * and (ports) row-major layout: for this the manifests are decoded from the artefacts.
 *
 * Loops: bodies nest. A value that a body writes may be read only in the same iteration, after the
 * write; behind a loop of constant length (neither count nor condition) the last iteration's values
 * may be read too. A value from before a loop that is used in it stays unchanged until its end. A
 * strided alias moves within its source; an iteration may read the row that it wrote, by the same
 * buffer; adjacent strided results of a loop of constant length form a whole when it ends. The
 * strided result of any outermost loop may be an output: it has as many rows as there were
 * iterations.
 *
 * Devices: kernels and their arguments are on one device, copies go between the processor and one
 * device, and the processor reads bytes that a device's queue copied only behind an event for that
 * copy or for a later step of that queue.
 *
 * INVALID_ARGUMENT names the step or buffer; errors of kiln_artefact_decode. Cost: n log n in
 * steps, arguments and buffers, and for each use of a buffer the parts that are written of it. */
KILN_MUST_USE kiln_status kiln_module_plan_check(const kiln_module_plan *plan);

#endif
