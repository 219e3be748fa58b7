/* Which schedule each kernel is packed with. Inside deploy/pack. */
#ifndef KILN_DEPLOY_PACK_CHOOSE_H
#define KILN_DEPLOY_PACK_CHOOSE_H

#include "deploy/pack/pack.h"

/* For each step of the plan that is a kernel, one way to run its task ([steps]; NULL for aliases):
 * of the fastest record per combination of layouts and the default schedules, those that take least
 * time together with the conversions between them (compiler-core/layout/assign.h). A conversion
 * takes what its own record says, an estimate without one. Steps that share a way share the
 * pointer. out_layout: [values], in which each is written. */
KILN_MUST_USE kiln_status kiln_choose(const kiln_graph *graph, const kiln_plan *plan,
                                      const kiln_pack_options *options, kiln_arena *arena,
                                      const kiln_alternative **out_way, kiln_layout *out_layout);

#endif
