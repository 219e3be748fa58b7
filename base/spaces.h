/* The table of memory spaces (spaces.def), in which buffers of kernels and modules live. Used by
 * manifests, by the devices of deploy/runtime and by the plans of modules. */
#ifndef KILN_BASE_SPACES_H
#define KILN_BASE_SPACES_H

#include <stdint.h>

#include "base/str.h"

typedef enum kiln_memory_space {
#define X(id, number, name, seen, capacity, alignment, allocator, doc) KILN_MEMORY_##id = number,
#include "base/spaces.def"
#undef X
    KILN_MEMORY_SPACES_END /* one beyond the largest number */
} kiln_memory_space;

typedef enum kiln_memory_seen {
    KILN_SEEN_PROCESS,
    KILN_SEEN_WORKER,
    KILN_SEEN_DEVICE,
    KILN_SEEN_GROUP,
    KILN_SEEN_THREAD,
} kiln_memory_seen;

typedef enum kiln_memory_capacity {
    KILN_CAPACITY_MEMORY,
    KILN_CAPACITY_TARGET
} kiln_memory_capacity;

typedef enum kiln_memory_allocator {
    KILN_ALLOCATOR_OWNER,
    KILN_ALLOCATOR_SERVICES,
    KILN_ALLOCATOR_LAUNCH,
    KILN_ALLOCATOR_COMPILER,
} kiln_memory_allocator;

/* A row; the columns are explained in spaces.def. */
typedef struct kiln_memory_row {
    const char *name;
    kiln_memory_seen seen;
    kiln_memory_capacity capacity;
    uint32_t alignment;
    kiln_memory_allocator allocator;
    const char *doc;
} kiln_memory_row;

/* NULL for a number that no row has. */
const kiln_memory_row *kiln_memory_row_of(kiln_memory_space space);
/* The space of that name, or KILN_MEMORY_SPACES_END. */
kiln_memory_space kiln_memory_find(kiln_str name);

#endif
