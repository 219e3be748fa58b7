#include "vta/uop_cache.h"

#include <string.h>

void kiln_vta_uop_cache_init(kiln_vta_uop_cache *cache, uint32_t begin, uint32_t end,
                             const uint32_t *uops, uint32_t kernel_count, kiln_arena *arena) {
    *cache = (kiln_vta_uop_cache){.begin = begin,
                                  .end = end,
                                  .kernel_count = kernel_count,
                                  .uops = uops,
                                  .place = KILN_ARENA_ARRAY(arena, uint32_t, kernel_count),
                                  .used = KILN_ARENA_ARRAY(arena, uint64_t, kernel_count),
                                  .resident = KILN_ARENA_ARRAY(arena, uint32_t, kernel_count)};
    for (uint32_t i = 0; i < kernel_count; i++) cache->place[i] = KILN_VTA_NO_PLACE;
}

/* The first gap of `uops`, and the number of residents before it. */
static bool find_gap(const kiln_vta_uop_cache *cache, uint32_t uops, uint32_t *out_place,
                     uint32_t *out_at) {
    uint32_t from = cache->begin;
    for (uint32_t i = 0; i <= cache->resident_count; i++) {
        const uint32_t to =
            i < cache->resident_count ? cache->place[cache->resident[i]] : cache->end;
        if (to - from >= uops) {
            *out_place = from;
            *out_at = i;
            return true;
        }
        if (i < cache->resident_count) from = to + cache->uops[cache->resident[i]];
    }
    return false;
}

static bool evict_oldest(kiln_vta_uop_cache *cache, kiln_vta_may_leave may_leave,
                         const void *context) {
    uint32_t oldest = UINT32_MAX;
    for (uint32_t i = 0; i < cache->resident_count; i++)
        if (may_leave(context, cache->resident[i]) &&
            (oldest == UINT32_MAX ||
             cache->used[cache->resident[i]] < cache->used[cache->resident[oldest]]))
            oldest = i;
    if (oldest == UINT32_MAX) return false;
    cache->place[cache->resident[oldest]] = KILN_VTA_NO_PLACE;
    cache->resident_count--;
    memmove(&cache->resident[oldest], &cache->resident[oldest + 1],
            sizeof *cache->resident * (cache->resident_count - oldest));
    return true;
}

/* Puts the kernel at the place, behind `at` residents. */
static void put(kiln_vta_uop_cache *cache, uint32_t kernel, uint32_t place, uint32_t at) {
    memmove(&cache->resident[at + 1], &cache->resident[at],
            sizeof *cache->resident * (cache->resident_count - at));
    cache->resident[at] = kernel;
    cache->resident_count++;
    cache->place[kernel] = place;
}

bool kiln_vta_uop_cache_use(kiln_vta_uop_cache *cache, uint32_t kernel,
                            kiln_vta_may_leave may_leave, const void *context, bool *out_load,
                            bool *out_evicted) {
    *out_load = cache->place[kernel] == KILN_VTA_NO_PLACE;
    *out_evicted = false;
    if (*out_load) {
        uint32_t place, at;
        while (!find_gap(cache, cache->uops[kernel], &place, &at)) {
            if (!evict_oldest(cache, may_leave, context)) return false;
            *out_evicted = true;
        }
        put(cache, kernel, place, at);
        cache->misses++;
    } else {
        cache->hits++;
    }
    cache->used[kernel] = ++cache->uses;
    return true;
}

bool kiln_vta_uop_cache_follow(kiln_vta_uop_cache *cache, uint32_t kernel, uint32_t next) {
    const uint32_t place = cache->place[kernel] + cache->uops[kernel];
    uint32_t at = 0;
    while (cache->resident[at] != kernel) at++;
    at++;
    const uint32_t end =
        at < cache->resident_count ? cache->place[cache->resident[at]] : cache->end;
    if (end - place < cache->uops[next]) return false;
    put(cache, next, place, at);
    cache->used[next] = ++cache->uses;
    return true;
}
