/* Resources of a machine on an FPGA of Xilinx' 7 series, without synthesis. Block RAM and DSP
 * blocks are counted as Yosys maps them; LUTs and flip-flops are a fit to machines that it has
 * synthesised (synthesised.def, which tests compare with). The clock is a guess, because Debian has
 * no place and route for these chips. */
#ifndef KILN_VTA_SEARCH_RESOURCES_H
#define KILN_VTA_SEARCH_RESOURCES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vta_config.h"

#define KILN_VTA_RESOURCE_AMOUNTS_MAX 16u

typedef struct kiln_vta_resources {
    double lut, ff;
    uint32_t bram18, dsp; /* halves of a RAMB36; DSP48 */
} kiln_vta_resources;

/* A chip and its resources. */
typedef struct kiln_vta_device {
    const char *name, *doc;
    kiln_vta_resources has;
} kiln_vta_device;

/* NULL: no chip of that name. */
const kiln_vta_device *kiln_vta_device_find(const char *name);
/* Products with the last `lut_columns` columns of weights are in LUTs (vta/rtl/params.h). */
kiln_vta_resources kiln_vta_resources_of(const kiln_vta_config *config, uint32_t lut_columns);
/* Allows nine tenths of the chip's LUTs and flip-flops, because the model's error is up to a tenth.
 */
bool kiln_vta_resources_fit(const kiln_vta_resources *wanted, const kiln_vta_device *device);
/* The fewest columns in LUTs, an even number, with which the DSP blocks suffice; false: none. */
bool kiln_vta_lut_columns(const kiln_vta_config *config, const kiln_vta_device *device,
                          uint32_t *out_columns);
/* Clock of the machine in MHz by a model without measurements: a fixed path, plus the delay of an
 * adder for each level of the tree of sums without registers (`pipe`). */
double kiln_vta_clock_guess(const kiln_vta_config *config);

/* The rows of resources.def, for the fit: names, and a machine's amounts; returns how many. */
uint32_t kiln_vta_resource_amounts(const kiln_vta_config *config, uint32_t lut_columns,
                                   const char *const **out_name, double *out_amount);
/* LUTs used as memories, counted as Yosys maps them. */
uint32_t kiln_vta_memory_luts(const kiln_vta_config *config);

#endif
