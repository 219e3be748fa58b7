/* The tensor maps of a launch on CUDA: what kernels get as parameters, made of an argument's
 * address and kept until it has another one. Used by device_cuda.c. */
#ifndef KILN_DEPLOY_CUDA_MAPS_H
#define KILN_DEPLOY_CUDA_MAPS_H

#include "base/manifest.h"
#include "deploy/runtime/cuda.h"

/* Zeroed is empty. */
typedef struct kiln_cuda_maps {
    uint32_t count;
    const kiln_manifest_map *map; /* [count] the manifest's */
    kiln_cu_map *encoded;         /* [count] */
    kiln_cu_pointer *address;     /* [count] of the argument that it was encoded for; 0: none */
} kiln_cuda_maps;

/* `launch` is of a decoded manifest and must outlive the maps. */
void kiln_cuda_maps_init(kiln_cuda_maps *maps, const kiln_manifest_launch *launch);
void kiln_cuda_maps_deinit(kiln_cuda_maps *maps);
/* Encodes those maps whose argument has another address than the last time, `argument`:
 * [arg_count]. Allocates nothing. Returns the driver's code; after a failure the map is encoded
 * again by the next call. */
int kiln_cuda_maps_encode(kiln_cuda_maps *maps, const kiln_cu *cu, const kiln_cu_pointer *argument);

#endif
