/* Finds the steps of a plan that pack constants. Inside deploy/pack; pure. */
#ifndef KILN_DEPLOY_PACK_PREPARED_H
#define KILN_DEPLOY_PACK_PREPARED_H

#include "base/manifest.h"
#include "deploy/format.h"

/* [step_count] the first step that calls the same kernel with the same constants: it packs for all
 * of them, as other arguments do not affect packing. 0 for steps that call no kernel. In `arena`;
 * `kernel`: the plan's, decoded. */
uint32_t *kiln_prepared_find(const kiln_module_plan *plan, const kiln_artefact *kernel,
                             kiln_arena *arena);

#endif
