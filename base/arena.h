/* Bump allocation by lifetime: process, job, task, candidate, message, scratch. Reset the arena,
 * not the objects. Not thread-safe: one owner at a time. */
#ifndef KILN_BASE_ARENA_H
#define KILN_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

typedef struct kiln_arena_chunk kiln_arena_chunk;

typedef struct kiln_arena {
    kiln_arena_chunk *head; /* newest chunk */
    size_t chunk_bytes;     /* size of the next chunk */
    size_t used_bytes;      /* handed out since init or reset */
    size_t high_water_bytes;
} kiln_arena;

/* `chunk_bytes` 0 takes 64 KiB. Nothing is allocated until first use. */
void kiln_arena_init(kiln_arena *arena, size_t chunk_bytes);
/* Frees everything; accepts a zeroed arena. */
void kiln_arena_deinit(kiln_arena *arena);
/* Forgets every object but keeps the largest chunk. */
void kiln_arena_reset(kiln_arena *arena);

/* Zeroed memory aligned to 16 bytes; never NULL. */
void *kiln_arena_alloc(kiln_arena *arena, size_t size_bytes);
void *kiln_arena_alloc_aligned(kiln_arena *arena, size_t alignment, size_t size_bytes);
/* Copies `size_bytes` from `data`. */
void *kiln_arena_copy(kiln_arena *arena, const void *data, size_t size_bytes);
/* Grows the object `data` from `from_bytes` (NULL: none yet) to `to_bytes`, in place if it is the
 * newest object. New bytes are not zeroed. */
void *kiln_arena_grow(kiln_arena *arena, void *data, size_t from_bytes, size_t to_bytes);

#define KILN_ARENA_NEW(arena, type) ((type *)kiln_arena_alloc((arena), sizeof(type)))
#define KILN_ARENA_ARRAY(arena, type, count) \
    ((type *)kiln_arena_alloc((arena), sizeof(type) * (size_t)(count)))

#endif
