/* The machines that a chip has room for, and how fast each is by a bound and by the cycle
 * simulator. Kiln's command `kiln vta search` goes from the one to the other. */
#ifndef KILN_VTA_SEARCH_SPACE_H
#define KILN_VTA_SEARCH_SPACE_H

#include "base/arena.h"
#include "base/vec.h"
#include "vta/search/cut.h"
#include "vta/search/layer.h"
#include "vta/search/resources.h"

/* What machines are searched for. */
typedef struct kiln_vta_wanted {
    const kiln_vta_device *device;
    uint32_t batch;        /* images that the model runs at once, at least 1 */
    uint32_t clock_mhz;    /* the most */
    uint32_t channels;     /* to memory, the most */
    uint32_t channel_bits; /* of each, the most */
    const kiln_vta_layer *layer;
    uint32_t layer_count; /* 1 to KILN_VTA_LAYERS_MAX */
    bool adds_bytes;      /* some add the bytes of another layer to their sums */
} kiln_vta_wanted;

typedef struct kiln_vta_machine {
    kiln_vta_config config;
    uint32_t lut_columns; /* of weights, multiplied in LUTs */
    kiln_vta_resources resources;
    double bound_ms; /* of all layers of a batch, at the configuration's clock */
    /* By the cycle simulator; 0 where it has not been evaluated, or cannot run a layer. */
    double ms, gops, mj;
} kiln_vta_machine;

typedef KILN_VEC(kiln_vta_machine) kiln_vta_machines;

/* Appends every machine that fits, of those that differ only in their memories the ones that no
 * other is at least as large as in all; the smallest bound first. Returns how many configurations
 * were looked at. */
uint64_t kiln_vta_space_enumerate(const kiln_vta_wanted *wanted, kiln_vta_machines *machines);
/* The machine's bound on the layers, in milliseconds: the longest of what engines and channels do,
 * with the loads that come again because memories end. */
double kiln_vta_machine_bound(const kiln_vta_wanted *wanted, const kiln_vta_config *config);
/* Fills ms, gops and mj of all layers, each with the best of `simulate_count` cuts: with two
 * virtual threads, or one where no cut for two fits. NOT_FOUND with the layer's name: no cut fits.
 */
KILN_MUST_USE kiln_status kiln_vta_machine_evaluate(const kiln_vta_wanted *wanted,
                                                    uint32_t simulate_count,
                                                    kiln_vta_machine *machine);

#endif
