/* Writes a module file from a plan (deploy/format.h). Used by pack, which makes the plan from a
 * graph and the best kernels, and by tests. */
#ifndef KILN_DEPLOY_MODULE_WRITE_H
#define KILN_DEPLOY_MODULE_WRITE_H

#include "base/status.h"
#include "base/str.h"
#include "deploy/format.h"

/* Appends the file to `out`; same plan, same bytes. Constants with equal bytes are stored once.
 * Errors are those of kiln_module_plan_check. */
KILN_MUST_USE kiln_status kiln_module_encode(const kiln_module_plan *plan, kiln_strbuf *out);
/* The same for a module of several sizes, whose equal kernels and constants are stored once.
 * Metadata is that of the first bucket. Errors are those of kiln_module_sizes_check. */
KILN_MUST_USE kiln_status kiln_module_encode_sizes(const kiln_module_sizes *sizes,
                                                   kiln_strbuf *out);

/* The file is the parts in order: constants are views of the plans' own bytes, which may be
 * gigabytes. */
typedef struct kiln_module_bytes {
    uint32_t part_count;
    kiln_str *part;
    size_t size;
} kiln_module_bytes;

/* The same file as kiln_module_encode_sizes makes. Lists, and bytes that are no constants, are in
 * `arena`. */
KILN_MUST_USE kiln_status kiln_module_encode_parts(const kiln_module_sizes *sizes,
                                                   kiln_arena *arena, kiln_module_bytes *out_bytes);

/* Encodes and writes the file atomically (errors of kiln_file_write). */
KILN_MUST_USE kiln_status kiln_module_write(const kiln_module_plan *plan, const char *path);

#endif
