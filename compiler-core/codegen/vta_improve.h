/* Replaces calls by equivalent, faster ones. For vta_emit.c, before vta_order.h. */
#ifndef KILN_COMPILER_CORE_CODEGEN_VTA_IMPROVE_H
#define KILN_COMPILER_CORE_CODEGEN_VTA_IMPROVE_H

#include "compiler-core/codegen/vta_calls.h"

/* Operations on numbers become part of the call before them where that works on the same results,
 * as the ALU may do several in one pass (feature `chain`). */
void kiln_vta_join_operations(kiln_vta_calls *calls, kiln_arena *arena);
/* Puts every reset in front of the first call that needs it, so that it waits for nothing too soon.
 * With the feature `first`, a GEMM that adds to accumulators that one reset has just made 0
 * overwrites them instead; a reset that nothing needs any more goes. */
void kiln_vta_place_resets(kiln_vta_calls *calls, kiln_arena *arena);

#endif
