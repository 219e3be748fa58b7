/* Which steps of a plan pack constants. Inside deploy/pack; pure. */
#ifndef KILN_DEPLOY_PACK_PREPARED_H
#define KILN_DEPLOY_PACK_PREPARED_H

#include "base/manifest.h"
#include "deploy/format.h"

/* [step_count] the first step that calls the same kernel with the same constants: it packs for all
 * of them; what else they give the kernel is no matter of packing. Of steps that call none: 0. In
 * `arena`; `kernel`: the plan's, decoded. */
uint32_t *kiln_prepared_find(const kiln_module_plan *plan, const kiln_artefact *kernel,
                             kiln_arena *arena);

#endif
