/* The machines that fit on a chip, with their speed by a bound and by the cycle simulator. `kiln
 * vta search` simulates those with the best bounds. */
#ifndef KILN_VTA_SEARCH_SPACE_H
#define KILN_VTA_SEARCH_SPACE_H

#include "base/arena.h"
#include "base/vec.h"
#include "vta/search/cut.h"
#include "vta/search/layer.h"
#include "vta/search/resources.h"

/* Requirements of the search. */
typedef struct kiln_vta_wanted {
    const kiln_vta_device *device;
    uint32_t batch;        /* images that the model runs at once, at least 1 */
    uint32_t clock_mhz;    /* the most */
    uint32_t channels;     /* to memory, the most */
    uint32_t channel_bits; /* of each, the most */
    const kiln_vta_layer *layer;
    uint32_t layer_count; /* 1 to KILN_VTA_LAYERS_MAX */
    bool adds_bytes;      /* some layers add the bytes of another layer to their sums */
} kiln_vta_wanted;

typedef struct kiln_vta_machine {
    kiln_vta_config config;
    uint32_t lut_columns; /* of weights, multiplied in LUTs */
    kiln_vta_resources resources;
    double bound_ms; /* of all layers of a batch, at the configuration's clock */
    /* From the cycle simulator; 0 if not evaluated, or if it cannot run a layer. */
    double ms, gops, mj;
} kiln_vta_machine;

typedef KILN_VEC(kiln_vta_machine) kiln_vta_machines;

/* Appends every machine that fits; of machines that differ only in memories, those that are not
 * dominated in all sizes by another. The smallest bound first. Returns the number of configurations
 * considered. */
uint64_t kiln_vta_space_enumerate(const kiln_vta_wanted *wanted, kiln_vta_machines *machines);
/* The machine's bound on the layers, in milliseconds: the longest time of an engine or channel,
 * including reloads because memories are too small. */
double kiln_vta_machine_bound(const kiln_vta_wanted *wanted, const kiln_vta_config *config);
/* Fills ms, gops and mj of all layers, each with the best of `simulate_count` cuts: with two
 * virtual threads, or one where no cut for two fits. NOT_FOUND with the layer's name: no cut fits.
 */
KILN_MUST_USE kiln_status kiln_vta_machine_evaluate(const kiln_vta_wanted *wanted,
                                                    uint32_t simulate_count,
                                                    kiln_vta_machine *machine);

#endif
