/* Checks whether a compilation fits into a module (deploy/format.h) before anything is measured or
 * built. Used by pack and by `kiln tune` before the first trial. */
#ifndef KILN_DEPLOY_PACK_LIMITS_H
#define KILN_DEPLOY_PACK_LIMITS_H

#include "base/status.h"
#include "compiler-core/core.h"

/* For a compilation with a choice. RESOURCE_EXHAUSTED: too many inputs, outputs, kernels, steps or
 * buffers, or a name that is too long; names it and the limit. INVALID_ARGUMENT: a name with a NUL
 * in it. */
KILN_MUST_USE kiln_status kiln_limits_check(const kiln_compilation *compilation);

#endif
