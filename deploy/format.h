/* The module file: its layout on disk, and the plan that it carries. Written by deploy/pack
 * (module_write.c), read by deploy/runtime (module_read.c); docs/reference/module.md is the same for
 * people. All numbers are little-endian.
 *
 *     header            64 bytes
 *     section table     48 bytes each, in the order of sections.def
 *     sections          aligned to 64 (constants: 4096), zero bytes between and none after
 *
 * Every byte counts: the header's checksum covers header and table, each entry's covers its section,
 * and gaps must be zero. Checksums are XXH3-64 with seed 0; they find damage, not forgery. */
#ifndef KILN_DEPLOY_FORMAT_H
#define KILN_DEPLOY_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/str.h"
#include "base/tensor.h"

#define KILN_MODULE_MAGIC "KILNMOD\n" /* 8 bytes */
#define KILN_MODULE_VERSION 1u
#define KILN_MODULE_HEADER_BYTES 64u
#define KILN_MODULE_ENTRY_BYTES 48u
#define KILN_MODULE_SECTION_ALIGNMENT 64u
#define KILN_MODULE_CONSTANT_ALIGNMENT 4096u /* of the section; each constant in it is aligned to 64 */

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

/* Limits, checked by writer and reader. */
#define KILN_MODULE_METADATA_MAX 256u
#define KILN_MODULE_PORTS_MAX 256u /* inputs; outputs as well */
#define KILN_MODULE_KERNELS_MAX 4096u
#define KILN_MODULE_BUFFERS_MAX 16384u
#define KILN_MODULE_STEPS_MAX 16384u
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

/* Where a buffer's bytes are. Numbers are on disk. */
typedef enum kiln_module_storage {
    KILN_STORAGE_ARENA = 1,    /* `offset` in the activation arena */
    KILN_STORAGE_CONSTANT = 2, /* `data`, in the constants section of a file */
    KILN_STORAGE_INPUT = 3,    /* the caller's memory for input `source` */
    KILN_STORAGE_OUTPUT = 4,   /* the caller's memory for output `source` */
    KILN_STORAGE_ALIAS = 5,    /* bytes of buffer `source` from `offset` on; that one is no alias */
} kiln_module_storage;

typedef struct kiln_plan_buffer {
    kiln_module_storage storage;
    uint64_t size_bytes; /* physical, padding elements included */
    uint64_t offset;     /* in the arena or of an alias: a multiple of 64; constants: the file decides */
    uint32_t source;
    const void *data; /* constants: the bytes; NULL otherwise */
} kiln_plan_buffer;

/* What a step does. Numbers are on disk. */
typedef enum kiln_plan_action {
    KILN_ACTION_KERNEL = 1, /* calls kernel `kernel`; arg: one buffer per argument that is not packed */
    KILN_ACTION_ALIAS = 2,  /* nothing: its arguments are bytes of one buffer. Kept for people and timing */
    KILN_ACTION_COPY = 3,   /* copies bytes; arg: source, result of the same size */
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
    kiln_plan_pair *metadata; /* [metadata_count] distinct keys; "model", "target", "codegen" by custom */
    kiln_plan_port *input, *output;
    kiln_str *kernel; /* [kernel_count] encoded artefacts */
    kiln_plan_buffer *buffer;
    kiln_plan_step *step;
    uint64_t arena_bytes;
    uint32_t threads; /* that the kernels were compiled for, >= 1 */
} kiln_module_plan;

/* The buffer whose bytes `buffer` names: itself, or what it is an alias of; and where in it they begin. */
uint32_t kiln_module_plan_root(const kiln_module_plan *plan, uint32_t buffer);
uint64_t kiln_module_plan_offset(const kiln_module_plan *plan, uint32_t buffer);

/* Checks a plan by the rules that writer and reader share. Indices and counts are in range; sizes agree
 * (ports, copies); arena buffers lie inside the arena and aliases inside their source; each byte of a buffer
 * is written once, before it is read, and is in the arena or an output; every output is written; no two arena
 * buffers share bytes while both are alive (from the first write into one to its last use, of aliases too),
 * but that a kernel may write a result exactly where an input stands that nobody needs after it. Arguments fit the kernels in number, role, size and
 * (ports) row-major layout: for this the manifests are decoded from the artefacts.
 * INVALID_ARGUMENT names the step or buffer; errors of kiln_artefact_decode. Cost: steps times the
 * buffers that are alive at once. */
KILN_MUST_USE kiln_status kiln_module_plan_check(const kiln_module_plan *plan);

#endif
