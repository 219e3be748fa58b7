/* Which kernels lie in the machine's micro-op memory, while a program is written. A kernel is a run
 * of micro-ops with a number; it is put into the first gap that is long enough, and where there is
 * none the one that was used longest ago leaves, and so on. For vta/emit.c. */
#ifndef KILN_VTA_UOP_CACHE_H
#define KILN_VTA_UOP_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

#define KILN_VTA_NO_PLACE UINT32_MAX

typedef struct kiln_vta_uop_cache {
    uint32_t begin, end; /* the micro-ops of the machine that it may use */
    uint32_t kernel_count;
    const uint32_t *uops; /* of each kernel; the caller's */
    uint32_t *place;      /* of each kernel its first micro-op, or KILN_VTA_NO_PLACE */
    uint64_t *used;       /* of each kernel: when, by `uses` */
    uint32_t resident_count;
    uint32_t *resident; /* kernels that are there, by place */
    uint64_t uses, hits, misses;
} kiln_vta_uop_cache;

/* Whether a kernel that is there may be overwritten now. */
typedef bool (*kiln_vta_may_leave)(const void *context, uint32_t kernel);

/* Empty. `uops` has kernel_count elements and outlives it. */
void kiln_vta_uop_cache_init(kiln_vta_uop_cache *cache, uint32_t begin, uint32_t end,
                             const uint32_t *uops, uint32_t kernel_count, kiln_arena *arena);
/* Notes a use of the kernel. True: it is there at place[kernel]; `*out_load` says that it has just
 * come and must be loaded, `*out_evicted` that others left for it. False: there is no room among
 * those that may not leave. */
bool kiln_vta_uop_cache_use(kiln_vta_uop_cache *cache, uint32_t kernel,
                            kiln_vta_may_leave may_leave, const void *context, bool *out_load,
                            bool *out_evicted);

/* Puts a kernel that is not there directly behind `kernel`, which is, if that place is free. */
bool kiln_vta_uop_cache_follow(kiln_vta_uop_cache *cache, uint32_t kernel, uint32_t next);

#endif
