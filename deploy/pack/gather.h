/* Combines modules of one size each into one of several sizes. */
#ifndef KILN_DEPLOY_PACK_GATHER_H
#define KILN_DEPLOY_PACK_GATHER_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "deploy/format.h"

/* A module that was packed for one size. */
typedef struct kiln_gather_part {
    int64_t size;
    kiln_str bytes; /* as kiln_module_encode wrote them, aligned to KILN_MODULE_SECTION_ALIGNMENT */
} kiln_gather_part;

/* The input of kiln_module_encode_sizes from parts of ascending size; it refers to their bytes and
 * to `dim`. Metadata is that of the first, `tasks` and `tuned` are sums, and the times of runs
 * become those of buckets. `by_rows` is false: the caller sets it if each port has an axis
 * (kiln_module_find_axis). DATA_LOSS: a part is no module; INVALID_ARGUMENT: they do not belong
 * together. */
KILN_MUST_USE kiln_status kiln_module_gather(const kiln_gather_part *part, uint32_t count,
                                             kiln_str dim, kiln_arena *arena,
                                             kiln_module_sizes *out_sizes);

#endif
