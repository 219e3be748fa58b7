/* Hash map from byte strings to 64-bit values, iterated in insertion order (so that output is
 * deterministic). Keys are copied. Heap-owned. Removal keeps the order of the rest. */
#ifndef KILN_BASE_MAP_H
#define KILN_BASE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

typedef struct kiln_map_entry {
    kiln_str key;   /* owned by the map */
    uint64_t value; /* an index, a number, or a pointer cast through uintptr_t */
    uint64_t hash;
    bool live;
} kiln_map_entry;

typedef struct kiln_map {
    kiln_map_entry *entry; /* [entry_count], dead ones included until the next growth */
    uint32_t *slot;        /* [slot_count], index into entry + 1, 0 = free */
    uint32_t entry_count, entry_capacity, slot_count, live_count;
} kiln_map;

/* An empty map, which allocates at its first entry. deinit frees it, reset keeps its memory. */
void kiln_map_init(kiln_map *map);
void kiln_map_deinit(kiln_map *map); /* accepts a zeroed map */
void kiln_map_reset(kiln_map *map);
/* Sets or replaces. Returns true when the key is new. */
bool kiln_map_put(kiln_map *map, kiln_str key, uint64_t value);
bool kiln_map_find(const kiln_map *map, kiln_str key, uint64_t *out_value);
bool kiln_map_remove(kiln_map *map, kiln_str key);
uint32_t kiln_map_count(const kiln_map *map);
/* Iterates: start with *cursor = 0; false at the end. */
bool kiln_map_next(const kiln_map *map, uint32_t *cursor, kiln_str *out_key, uint64_t *out_value);

#endif
