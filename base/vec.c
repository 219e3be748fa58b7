#include "base/vec.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/macros.h"

#define FIRST_CAPACITY 8

static uint32_t next_capacity(uint32_t capacity, uint32_t at_least) {
    KILN_CHECK(at_least > capacity);
    uint32_t doubled = capacity > UINT32_MAX / 2 ? UINT32_MAX : capacity * 2;
    return KILN_MAX(KILN_MAX(doubled, at_least), FIRST_CAPACITY);
}

void *kiln_vec_grow(void *data, size_t item_bytes, uint32_t *capacity, uint32_t at_least) {
    *capacity = next_capacity(*capacity, at_least);
    return kiln_realloc(data, item_bytes * *capacity);
}

void *kiln_vec_grow_in(kiln_arena *arena, void *data, size_t item_bytes, uint32_t *capacity,
                       uint32_t at_least) {
    uint32_t before = *capacity;
    *capacity = next_capacity(before, at_least);
    return kiln_arena_grow(arena, data, item_bytes * before, item_bytes * *capacity);
}
