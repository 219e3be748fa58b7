/* Chooses the schedule of each kernel. Inside deploy/pack. */
#ifndef KILN_DEPLOY_PACK_CHOOSE_H
#define KILN_DEPLOY_PACK_CHOOSE_H

#include "deploy/pack/pack.h"

/* Chooses one way for each kernel, from the fastest record per combination of layouts and the
 * default schedules, so that kernels and conversions together take the least time. The time of a
 * conversion is that of its record, or an estimate. Errors of kiln_compilation_choose and of the
 * database. */
KILN_MUST_USE kiln_status kiln_choose(kiln_compilation *compilation,
                                      const kiln_pack_options *options);

#endif
