/* A configuration as the hardware of vta/rtl takes it: vta_params.vh, macros that its Verilog
 * includes. For synthesis, simulation and the winners of a search. */
#ifndef KILN_VTA_RTL_PARAMS_H
#define KILN_VTA_RTL_PARAMS_H

#include "base/status.h"
#include "base/str.h"
#include "base/vta_config.h"

/* Appends the text. UNIMPLEMENTED: vta/rtl lacks a feature of the configuration, or cannot keep the
 * times that it states. */
KILN_MUST_USE kiln_status kiln_vta_rtl_params_print(const kiln_vta_config *config,
                                                    kiln_strbuf *out);

#endif
