/* The tensor maps of a launch on CUDA: what kernels get as parameters, made of an argument's
 * address and kept for it. Used by device_cuda.c. */
#ifndef KILN_DEPLOY_CUDA_MAPS_H
#define KILN_DEPLOY_CUDA_MAPS_H

#include "base/manifest.h"
#include "deploy/runtime/cuda.h"

/* Addresses for which a map is kept: a board measures with several sets of arguments in turn, and
 * steps of a module may share a kernel. */
#define KILN_CUDA_MAP_SLOTS 16u

/* One map of the launch, encoded for several addresses. */
typedef struct kiln_cuda_map {
    kiln_cu_map encoded[KILN_CUDA_MAP_SLOTS];
    kiln_cu_pointer address[KILN_CUDA_MAP_SLOTS]; /* of the argument; 0: none */
    uint32_t current;                             /* the slot of the last launch */
    uint32_t next;                                /* the one to be used for a new address */
} kiln_cuda_map;

/* Zeroed is empty. */
typedef struct kiln_cuda_maps {
    uint32_t count;
    const kiln_manifest_map *map; /* [count] the manifest's */
    kiln_cuda_map *made;          /* [count] */
} kiln_cuda_maps;

/* `launch` is of a decoded manifest and must outlive the maps. */
void kiln_cuda_maps_init(kiln_cuda_maps *maps, const kiln_manifest_launch *launch);
void kiln_cuda_maps_deinit(kiln_cuda_maps *maps);
/* Chooses the maps for these addresses, `argument`: [arg_count], and encodes those that are not
 * kept, in place of the oldest. Allocates nothing. Returns the driver's code; a map that failed is
 * not kept. */
int kiln_cuda_maps_encode(kiln_cuda_maps *maps, const kiln_cu *cu, const kiln_cu_pointer *argument);
/* The chosen map `index`, for the launch. */
static inline kiln_cu_map *kiln_cuda_maps_at(kiln_cuda_maps *maps, uint32_t index) {
    return &maps->made[index].encoded[maps->made[index].current];
}

#endif
