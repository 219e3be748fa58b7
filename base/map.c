#include "base/map.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"

#define FIRST_SLOTS 16
#define NO_ENTRY UINT32_MAX

/* Entries lie in insertion order; slots are an open-addressed index into them. A removed entry
 * stays as a dead one, so that probe chains through its slot hold, until the next rebuild drops it.
 */

void kiln_map_init(kiln_map *map) { *map = (kiln_map){0}; }

void kiln_map_reset(kiln_map *map) {
    for (uint32_t i = 0; i < map->entry_count; i++)
        kiln_free((void *)(uintptr_t)map->entry[i].key.data);
    if (map->slot) memset(map->slot, 0, map->slot_count * sizeof *map->slot);
    map->entry_count = map->live_count = 0;
}

void kiln_map_deinit(kiln_map *map) {
    kiln_map_reset(map);
    kiln_free(map->entry);
    kiln_free(map->slot);
    *map = (kiln_map){0};
}

static uint32_t find_entry(const kiln_map *map, kiln_str key, uint64_t hash) {
    if (map->slot_count == 0) return NO_ENTRY;
    uint32_t mask = map->slot_count - 1;
    for (uint32_t at = (uint32_t)hash & mask; map->slot[at]; at = (at + 1) & mask) {
        const kiln_map_entry *entry = &map->entry[map->slot[at] - 1];
        if (entry->live && entry->hash == hash && kiln_str_equal(entry->key, key))
            return map->slot[at] - 1;
    }
    return NO_ENTRY;
}

static void index_entry(kiln_map *map, uint32_t index) {
    uint32_t mask = map->slot_count - 1;
    uint32_t at = (uint32_t)map->entry[index].hash & mask;
    while (map->slot[at]) at = (at + 1) & mask;
    map->slot[at] = index + 1;
}

/* Drops dead entries and indexes the rest anew, with room for one more at a load of at most one
 * half. */
static void rebuild(kiln_map *map) {
    uint32_t live = 0;
    for (uint32_t i = 0; i < map->entry_count; i++) {
        if (map->entry[i].live)
            map->entry[live++] = map->entry[i];
        else
            kiln_free((void *)(uintptr_t)map->entry[i].key.data);
    }
    KILN_CHECK(live == map->live_count && live < UINT32_MAX / 8);
    map->entry_count = live;
    uint32_t slots = FIRST_SLOTS;
    while (slots / 4 <= live) slots *= 2;
    map->slot_count = slots;
    map->entry_capacity = slots / 2;
    map->slot = kiln_realloc(map->slot, slots * sizeof *map->slot);
    map->entry = kiln_realloc(map->entry, map->entry_capacity * sizeof *map->entry);
    memset(map->slot, 0, slots * sizeof *map->slot);
    for (uint32_t i = 0; i < live; i++) index_entry(map, i);
}

bool kiln_map_put(kiln_map *map, kiln_str key, uint64_t value) {
    uint64_t hash = kiln_hash64(key.data, key.size, 0);
    uint32_t found = find_entry(map, key, hash);
    if (found != NO_ENTRY) {
        map->entry[found].value = value;
        return false;
    }
    if (map->entry_count == map->entry_capacity) rebuild(map);
    char *copy = kiln_alloc(key.size + 1);
    if (key.size) memcpy(copy, key.data, key.size);
    map->entry[map->entry_count] = (kiln_map_entry){{copy, key.size}, value, hash, true};
    index_entry(map, map->entry_count++);
    map->live_count++;
    return true;
}

bool kiln_map_find(const kiln_map *map, kiln_str key, uint64_t *out_value) {
    uint32_t found = find_entry(map, key, kiln_hash64(key.data, key.size, 0));
    if (found == NO_ENTRY) return false;
    *out_value = map->entry[found].value;
    return true;
}

bool kiln_map_remove(kiln_map *map, kiln_str key) {
    uint32_t found = find_entry(map, key, kiln_hash64(key.data, key.size, 0));
    if (found == NO_ENTRY) return false;
    map->entry[found].live = false;
    map->live_count--;
    return true;
}

uint32_t kiln_map_count(const kiln_map *map) { return map->live_count; }

bool kiln_map_next(const kiln_map *map, uint32_t *cursor, kiln_str *out_key, uint64_t *out_value) {
    while (*cursor < map->entry_count) {
        const kiln_map_entry *entry = &map->entry[(*cursor)++];
        if (!entry->live) continue;
        *out_key = entry->key;
        *out_value = entry->value;
        return true;
    }
    return false;
}
