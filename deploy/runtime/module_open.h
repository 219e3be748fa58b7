/* Opening a module in steps, for Kiln's own programs; applications use deploy/module.h.
 *
 * A board shuts its contained child between kiln_module_link and kiln_module_pack, which runs the
 * first code of the module. A workstation looks at modules of boards, whose code it could not load.
 */
#ifndef KILN_DEPLOY_MODULE_OPEN_H
#define KILN_DEPLOY_MODULE_OPEN_H

#include "base/status.h"
#include "base/str.h"
#include "base/target.h"
#include "deploy/format.h"
#include "deploy/module.h"

/* kiln_module_open_memory up to the first code of the module: links every kernel, allocates what
 * runs need, starts the threads. Until it is packed the module must not run. Errors as there. */
KILN_MUST_USE kiln_status kiln_module_link(kiln_str bytes, const kiln_module_options *options,
                                           kiln_module **out_module);
/* Packs the weights. Allocates nothing unless it fails. INTERNAL: a kernel's `prepare` does. */
KILN_MUST_USE kiln_status kiln_module_pack(kiln_module *module);

/* A module for any machine, checked byte by byte, that answers what it is but cannot run: no code
 * is loaded. `bytes` outlives it. `threads`: that it says it uses; 0: as many as it was compiled
 * for. DATA_LOSS. */
KILN_MUST_USE kiln_status kiln_module_inspect(kiln_str bytes, uint32_t threads,
                                              kiln_module **out_module);

/* The same of a module of another form, whose plans have ports and metadata alone: no steps, no
 * kernels. `sizes` refers to what outlives it. */
KILN_MUST_USE kiln_status kiln_module_of_ports(const kiln_module_sizes *sizes,
                                               kiln_module **out_module);

/* What the module was read as, for people to look at; it lives as long as the module. */
const kiln_module_sizes *kiln_module_sizes_of(const kiln_module *module);

/* What the device is that its kernels run on; NULL: they run on the processor, or nowhere because
 * the module is only looked at. */
const kiln_target *kiln_module_device(const kiln_module *module);

#endif
