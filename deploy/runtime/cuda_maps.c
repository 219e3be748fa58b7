#include "deploy/runtime/cuda_maps.h"

#include "base/alloc.h"

void kiln_cuda_maps_init(kiln_cuda_maps *maps, const kiln_manifest_launch *launch) {
    *maps = (kiln_cuda_maps){.count = launch->map_count, .map = launch->map};
    if (maps->count == 0) return;
    maps->encoded = kiln_alloc_aligned(_Alignof(kiln_cu_map), maps->count * sizeof *maps->encoded);
    maps->address = kiln_alloc(maps->count * sizeof *maps->address);
}

void kiln_cuda_maps_deinit(kiln_cuda_maps *maps) {
    kiln_free(maps->encoded);
    kiln_free(maps->address);
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

int kiln_cuda_maps_encode(kiln_cuda_maps *maps, const kiln_cu *cu,
                          const kiln_cu_pointer *argument) {
    for (uint32_t i = 0; i < maps->count; i++) {
        const kiln_cu_pointer address = argument[maps->map[i].arg];
        if (address != 0 && address == maps->address[i]) continue;
        maps->address[i] = 0;
        const int code = encode(cu, &maps->map[i], address, &maps->encoded[i]);
        if (code) return code;
        maps->address[i] = address;
    }
    return KILN_CU_SUCCESS;
}
