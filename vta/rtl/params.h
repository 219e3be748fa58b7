/* Writes a configuration for the hardware of vta/rtl: vta_params.vh, macros that its Verilog
 * includes. For synthesis, simulation and the winners of a search. */
#ifndef KILN_VTA_RTL_PARAMS_H
#define KILN_VTA_RTL_PARAMS_H

#include "base/status.h"
#include "base/str.h"
#include "base/vta_config.h"

/* Appends the text. GEMM's products of the last `lut_columns` columns are in LUTs, the others in
 * DSP blocks.
 *
 * UNIMPLEMENTED     vta/rtl lacks a feature of the configuration, or cannot meet its timing
 * INVALID_ARGUMENT  lut_columns is odd, or more than there are */
KILN_MUST_USE kiln_status kiln_vta_rtl_params_print(const kiln_vta_config *config,
                                                    uint32_t lut_columns, kiln_strbuf *out);

#endif
