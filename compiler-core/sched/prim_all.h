/* One function per row of prims.def, for the dispatcher. Each may leave a half-changed program
 * behind when it fails: the dispatcher restores it. Private to sched/. */
#ifndef KILN_COMPILER_CORE_SCHED_PRIM_ALL_H
#define KILN_COMPILER_CORE_SCHED_PRIM_ALL_H

#include "compiler-core/sched/nest.h"
#include "compiler-core/sched/prim.h"

typedef kiln_status (*kiln_prim_function)(kiln_program *p, const kiln_prim_args *args);

/* Declarations by kind of row: samplers and BEGIN rows have no function, trace_replay.c handles
 * them. */
#define KILN_PRIM_DECLARE_APPLY(name) \
    kiln_status kiln_prim_##name(kiln_program *p, const kiln_prim_args *args);
#define KILN_PRIM_DECLARE_SAMPLE(name)
#define KILN_PRIM_DECLARE_BEGIN(name)
#define X(NAME, name, number, operands, kind, moves) KILN_PRIM_DECLARE_##kind(name)
#include "compiler-core/sched/prims.def"
#undef X

#endif
