#include "base/arena.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/macros.h"

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif

#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#define RED_ZONE_BYTES 16 /* between objects, so that overruns inside a chunk are seen */
#else
#define ASAN_POISON_MEMORY_REGION(memory, size) ((void)(memory), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(memory, size) ((void)(memory), (void)(size))
#define RED_ZONE_BYTES 0
#endif

#define DEFAULT_CHUNK_BYTES ((size_t)64 << 10)
#define LARGEST_CHUNK_BYTES ((size_t)8 << 20) /* chunks double up to here */
#define OBJECT_ALIGNMENT 16

struct kiln_arena_chunk {
    kiln_arena_chunk *older;
    size_t size, used; /* of data */
    /* As the allocator aligns, which on 32 bits is less than objects get: see padding_of. */
    _Alignas(max_align_t) unsigned char data[];
};

void kiln_arena_init(kiln_arena *arena, size_t chunk_bytes) {
    *arena = (kiln_arena){.chunk_bytes = chunk_bytes ? chunk_bytes : DEFAULT_CHUNK_BYTES};
}

static void chunk_free(kiln_arena_chunk *chunk) {
    ASAN_UNPOISON_MEMORY_REGION(chunk->data, chunk->size);
    kiln_free(chunk);
}

void kiln_arena_deinit(kiln_arena *arena) {
    while (arena->head) {
        kiln_arena_chunk *chunk = arena->head;
        arena->head = chunk->older;
        chunk_free(chunk);
    }
    *arena = (kiln_arena){.chunk_bytes = arena->chunk_bytes};
}

void kiln_arena_reset(kiln_arena *arena) {
    kiln_arena_chunk *largest = arena->head;
    for (kiln_arena_chunk *c = arena->head; c; c = c->older)
        if (c->size > largest->size) largest = c;
    for (kiln_arena_chunk *c = arena->head, *older = NULL; c; c = older) {
        older = c->older;
        if (c != largest) chunk_free(c);
    }
    if (largest) {
        largest->older = NULL;
        largest->used = 0;
        ASAN_POISON_MEMORY_REGION(largest->data, largest->size);
    }
    arena->head = largest;
    arena->used_bytes = 0;
}

static kiln_arena_chunk *add_chunk(kiln_arena *arena, size_t at_least) {
    size_t next = arena->chunk_bytes ? arena->chunk_bytes : DEFAULT_CHUNK_BYTES;
    size_t size = KILN_MAX(next, at_least);
    kiln_arena_chunk *chunk = kiln_realloc(NULL, sizeof *chunk + size);
    *chunk = (kiln_arena_chunk){.older = arena->head, .size = size};
    ASAN_POISON_MEMORY_REGION(chunk->data, size);
    arena->head = chunk;
    arena->chunk_bytes = next < LARGEST_CHUNK_BYTES ? next * 2 : next;
    return chunk;
}

/* Bytes to skip so that the next object of `chunk` is aligned. */
static size_t padding_of(const kiln_arena_chunk *chunk, size_t alignment) {
    uintptr_t at = (uintptr_t)(chunk->data + chunk->used);
    return (size_t)(-at & (alignment - 1));
}

static void count_use(kiln_arena *arena, size_t size_bytes) {
    arena->head->used += size_bytes;
    arena->used_bytes += size_bytes;
    arena->high_water_bytes = KILN_MAX(arena->high_water_bytes, arena->used_bytes);
}

static void *reserve(kiln_arena *arena, size_t alignment, size_t size_bytes) {
    KILN_CHECK(alignment > 0 && (alignment & (alignment - 1)) == 0);
    KILN_CHECK(size_bytes <= SIZE_MAX / 4 && alignment <= SIZE_MAX / 4);
    if (alignment < OBJECT_ALIGNMENT) alignment = OBJECT_ALIGNMENT;
    size_t wanted = size_bytes + RED_ZONE_BYTES;

    kiln_arena_chunk *chunk = arena->head;
    if (!chunk || chunk->size - chunk->used < padding_of(chunk, alignment) + wanted)
        chunk = add_chunk(arena, wanted + alignment);
    size_t padding = padding_of(chunk, alignment);
    unsigned char *object = chunk->data + chunk->used + padding;
    count_use(arena, padding + wanted);
    ASAN_UNPOISON_MEMORY_REGION(object, size_bytes);
    return object;
}

void *kiln_arena_alloc_aligned(kiln_arena *arena, size_t alignment, size_t size_bytes) {
    return memset(reserve(arena, alignment, size_bytes), 0, size_bytes);
}

void *kiln_arena_alloc(kiln_arena *arena, size_t size_bytes) {
    return kiln_arena_alloc_aligned(arena, OBJECT_ALIGNMENT, size_bytes);
}

void *kiln_arena_copy(kiln_arena *arena, const void *data, size_t size_bytes) {
    void *copy = reserve(arena, OBJECT_ALIGNMENT, size_bytes);
    if (size_bytes) memcpy(copy, data, size_bytes);
    return copy;
}

void *kiln_arena_grow(kiln_arena *arena, void *data, size_t from_bytes, size_t to_bytes) {
    KILN_CHECK(from_bytes <= to_bytes);
    kiln_arena_chunk *chunk = arena->head;
    unsigned char *end = data ? (unsigned char *)data + from_bytes + RED_ZONE_BYTES : NULL;
    size_t added = to_bytes - from_bytes;
    if (end && end == chunk->data + chunk->used && added <= chunk->size - chunk->used) {
        count_use(arena, added);
        ASAN_UNPOISON_MEMORY_REGION(data, to_bytes);
        return data;
    }
    void *grown = reserve(arena, OBJECT_ALIGNMENT, to_bytes);
    if (from_bytes) memcpy(grown, data, from_bytes);
    return grown;
}
