/* Opening a module in steps, for Kiln's own programs; applications use deploy/module.h.
 *
 * A board restricts its contained child between kiln_module_link and kiln_module_pack, which runs
 * the first code of the module. A workstation inspects modules of boards, whose code it cannot
 * load.
 */
#ifndef KILN_DEPLOY_MODULE_OPEN_H
#define KILN_DEPLOY_MODULE_OPEN_H

#include "base/status.h"
#include "base/str.h"
#include "base/target.h"
#include "deploy/format.h"
#include "deploy/module.h"

/* kiln_module_open_memory without running code of the module: links every kernel, allocates the
 * memory of runs, starts the threads. The module must be packed before it runs. Same errors. */
KILN_MUST_USE kiln_status kiln_module_link(kiln_str bytes, const kiln_module_options *options,
                                           kiln_module **out_module);
/* Packs the weights. Allocates nothing unless it fails. INTERNAL: a kernel's `prepare` fails. */
KILN_MUST_USE kiln_status kiln_module_pack(kiln_module *module);

/* A module for any machine, checked byte by byte, that can be inspected but not run: no code is
 * loaded. `bytes` must outlive it. `threads`: the number that it reports; 0: as many as it was
 * compiled for. DATA_LOSS. */
KILN_MUST_USE kiln_status kiln_module_inspect(kiln_str bytes, uint32_t threads,
                                              kiln_module **out_module);

/* The same for a module of another form, whose plans have only ports and metadata: no steps, no
 * kernels. The data of `sizes` must outlive it. */
KILN_MUST_USE kiln_status kiln_module_of_ports(const kiln_module_sizes *sizes,
                                               kiln_module **out_module);

/* The decoded plans of the module, for display; valid as long as the module. */
const kiln_module_sizes *kiln_module_sizes_of(const kiln_module *module);

/* The target of the device that its kernels run on; NULL: they run on the processor, or the module
 * is only inspected. */
const kiln_target *kiln_module_device(const kiln_module *module);

#endif
