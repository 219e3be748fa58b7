/* Convolutions by which machines are compared, in channels, so that they are the same for machines
 * of every shape. */
#ifndef KILN_VTA_SEARCH_LAYER_H
#define KILN_VTA_SEARCH_LAYER_H

#include "vta/search/conv.h"

typedef struct kiln_vta_layer {
    const char *name;
    uint32_t height, width, in, out;  /* of the image, and channels */
    uint32_t kernel, stride, padding; /* of both dimensions */
    uint32_t count;                   /* occurrences in the model: its weight in totals */
} kiln_vta_layer;

#define KILN_VTA_LAYERS_MAX 64u

/* C2 to C12 of ResNet-18, each once, or as often as the network has them (C3 never). Returns how
 * many; at most KILN_VTA_LAYERS_MAX. */
uint32_t kiln_vta_layers_resnet(bool as_network, kiln_vta_layer *out_layer);
/* Multiply-adds for one image. */
uint64_t kiln_vta_layer_multiply_adds(const kiln_vta_layer *layer);
/* The layer in tiles of the machine, for as many images as its batch; partial tiles are padded. */
kiln_vta_conv kiln_vta_layer_tiled(const kiln_vta_layer *layer, const kiln_vta_config *config);
/* Multiply-adds a cycle. */
double kiln_vta_peak(const kiln_vta_config *config);

#endif
