#include "deploy/runtime/cuda_maps.h"

#include "base/alloc.h"

void kiln_cuda_maps_init(kiln_cuda_maps *maps, const kiln_manifest_launch *launch) {
    *maps = (kiln_cuda_maps){.count = launch->map_count, .map = launch->map};
    if (maps->count == 0) return;
    maps->made = kiln_alloc_aligned(_Alignof(kiln_cuda_map), maps->count * sizeof *maps->made);
}

void kiln_cuda_maps_deinit(kiln_cuda_maps *maps) {
    kiln_free(maps->made);
    *maps = (kiln_cuda_maps){0};
}

/* Copies move bits, so only the size of the type counts. */
static int type_of(kiln_dtype dtype) {
    switch (kiln_dtype_size(dtype)) {
    case 1: return KILN_CU_MAP_UINT8;
    case 2: return KILN_CU_MAP_UINT16;
    case 4: return KILN_CU_MAP_UINT32;
    default: return KILN_CU_MAP_UINT64;
    }
}

/* The driver takes strides from the second dimension on. */
static int encode(const kiln_cu *cu, const kiln_manifest_map *map, kiln_cu_pointer address,
                  kiln_cu_map *out) {
    static const uint32_t every_element[KILN_MAP_RANK_MAX] = {1, 1, 1, 1, 1};
    return cu->TensorMapEncodeTiled(
        out, type_of(map->dtype), map->rank, (void *)(uintptr_t)(address + map->offset_bytes),
        map->size, map->stride_bytes + 1, map->box, every_element, KILN_CU_MAP_INTERLEAVE_NONE,
        map->is_permuted ? KILN_CU_MAP_SWIZZLE_128B : KILN_CU_MAP_SWIZZLE_NONE,
        KILN_CU_MAP_L2_PROMOTION_256B, KILN_CU_MAP_FILL_ZEROS);
}

/* The slot that has the map for an address, the last launch's first; KILN_CUDA_MAP_SLOTS: none. */
static uint32_t find(const kiln_cuda_map *made, kiln_cu_pointer address) {
    uint32_t slot = 0;
    if (address == 0) return KILN_CUDA_MAP_SLOTS;
    if (made->address[made->current] == address) return made->current;
    while (slot < KILN_CUDA_MAP_SLOTS && made->address[slot] != address) slot++;
    return slot;
}

static int make(kiln_cuda_map *made, const kiln_cu *cu, const kiln_manifest_map *map,
                kiln_cu_pointer address) {
    const uint32_t slot = made->next;
    made->address[slot] = 0;
    const int code = encode(cu, map, address, &made->encoded[slot]);
    if (code) return code;
    made->address[slot] = address;
    made->current = slot;
    made->next = (slot + 1) % KILN_CUDA_MAP_SLOTS;
    return KILN_CU_SUCCESS;
}

int kiln_cuda_maps_encode(kiln_cuda_maps *maps, const kiln_cu *cu,
                          const kiln_cu_pointer *argument) {
    int code = KILN_CU_SUCCESS;
    for (uint32_t i = 0; i < maps->count && !code; i++) {
        const kiln_cu_pointer address = argument[maps->map[i].arg];
        const uint32_t slot = find(&maps->made[i], address);
        if (slot < KILN_CUDA_MAP_SLOTS)
            maps->made[i].current = slot;
        else
            code = make(&maps->made[i], cu, &maps->map[i], address);
    }
    return code;
}
