/* The kernels in the machine's micro-op memory, while a program is written. A kernel is a numbered
 * run of micro-ops; it is put into the first gap that is long enough; without one the least
 * recently used kernels are evicted. For vta/emit.c. */
#ifndef KILN_VTA_UOP_CACHE_H
#define KILN_VTA_UOP_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

#define KILN_VTA_NO_PLACE UINT32_MAX

typedef struct kiln_vta_uop_cache {
    uint32_t begin, end; /* the range of micro-ops that it may use */
    uint32_t kernel_count;
    const uint32_t *uops; /* of each kernel; the caller's */
    uint32_t *place;      /* of each kernel its first micro-op, or KILN_VTA_NO_PLACE */
    uint64_t *used;       /* of each kernel: when, by `uses` */
    uint32_t resident_count;
    uint32_t *resident; /* kernels in memory, by place */
    uint64_t uses, hits, misses;
} kiln_vta_uop_cache;

/* Whether a kernel in memory may be overwritten now. */
typedef bool (*kiln_vta_may_leave)(const void *context, uint32_t kernel);

/* Empty. `uops` has kernel_count elements and outlives it. */
void kiln_vta_uop_cache_init(kiln_vta_uop_cache *cache, uint32_t begin, uint32_t end,
                             const uint32_t *uops, uint32_t kernel_count, kiln_arena *arena);
/* Notes a use of the kernel. True: it is at place[kernel]; `*out_load`: it is new and must be
 * loaded; `*out_evicted`: others were evicted. False: there is no room, because the others may not
 * be evicted. */
bool kiln_vta_uop_cache_use(kiln_vta_uop_cache *cache, uint32_t kernel,
                            kiln_vta_may_leave may_leave, const void *context, bool *out_load,
                            bool *out_evicted);

/* Puts a kernel that is not in memory directly behind `kernel`, which is, if that place is free. */
bool kiln_vta_uop_cache_follow(kiln_vta_uop_cache *cache, uint32_t kernel, uint32_t next);

#endif
