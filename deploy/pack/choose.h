/* Which schedule each kernel is packed with. Inside deploy/pack. */
#ifndef KILN_DEPLOY_PACK_CHOOSE_H
#define KILN_DEPLOY_PACK_CHOOSE_H

#include "deploy/pack/pack.h"

/* One way for each kernel: of the fastest record per combination of layouts and the default
 * schedules, those that take least time together with the conversions between them. A conversion
 * takes what its own record says, an estimate without one. Errors of kiln_compilation_choose and of
 * the database. */
KILN_MUST_USE kiln_status kiln_choose(kiln_compilation *compilation,
                                      const kiln_pack_options *options);

#endif
