/* One function per row of prims.def, for the dispatcher. Each may leave a half-changed program
 * behind when it fails: the dispatcher restores it. Private to sched/. */
#ifndef KILN_COMPILER_CORE_SCHED_PRIM_ALL_H
#define KILN_COMPILER_CORE_SCHED_PRIM_ALL_H

#include "compiler-core/sched/nest.h"
#include "compiler-core/sched/prim.h"

typedef kiln_status (*kiln_prim_function)(kiln_program *p, const kiln_prim_args *args);

/* prim_loop.c */
kiln_status kiln_prim_split(kiln_program *p, const kiln_prim_args *args);
kiln_status kiln_prim_divide(kiln_program *p, const kiln_prim_args *args);
kiln_status kiln_prim_fuse(kiln_program *p, const kiln_prim_args *args);
kiln_status kiln_prim_reorder(kiln_program *p, const kiln_prim_args *args);
kiln_status kiln_prim_vectorize(kiln_program *p, const kiln_prim_args *args);
kiln_status kiln_prim_unroll(kiln_program *p, const kiln_prim_args *args);
kiln_status kiln_prim_parallel(kiln_program *p, const kiln_prim_args *args);
kiln_status kiln_prim_bind(kiln_program *p, const kiln_prim_args *args);
kiln_status kiln_prim_annotate(kiln_program *p, const kiln_prim_args *args);
/* prim_place.c */
kiln_status kiln_prim_compute_at(kiln_program *p, const kiln_prim_args *args);
kiln_status kiln_prim_reverse_compute_at(kiln_program *p, const kiln_prim_args *args);
kiln_status kiln_prim_inline(kiln_program *p, const kiln_prim_args *args);
kiln_status kiln_prim_decompose_reduction(kiln_program *p, const kiln_prim_args *args);
/* prim_reduce.c */
kiln_status kiln_prim_rfactor(kiln_program *p, const kiln_prim_args *args);
/* prim_tensor.c */
kiln_status kiln_prim_tensorize(kiln_program *p, const kiln_prim_args *args);
/* prim_memory.c */
kiln_status kiln_prim_cache_read(kiln_program *p, const kiln_prim_args *args);
kiln_status kiln_prim_cache_write(kiln_program *p, const kiln_prim_args *args);
kiln_status kiln_prim_set_scope(kiln_program *p, const kiln_prim_args *args);
kiln_status kiln_prim_transform_layout(kiln_program *p, const kiln_prim_args *args);
kiln_status kiln_prim_prefetch(kiln_program *p, const kiln_prim_args *args);
kiln_status kiln_prim_pad(kiln_program *p, const kiln_prim_args *args);

#endif
