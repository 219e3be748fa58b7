/* Which values lie inside of others, so that the kernels that would copy them are left out:
 * operands of a concatenation are written where they end up, slices are read where they lie. Used
 * by whoever plans memory. */
#ifndef KILN_COMPILER_CORE_LAYOUT_WINDOWS_H
#define KILN_COMPILER_CORE_LAYOUT_WINDOWS_H

#include "compiler-core/layout/parts.h"
#include "compiler-core/layout/ways.h"

/* A value's place in the layout that both have; whole 0: the value has memory of its own. Wholes
 * may lie inside of others in turn. */
typedef struct kiln_window {
    kiln_value whole;
    uint64_t offset_bytes;
} kiln_window;

typedef struct kiln_windows {
    kiln_window *of;         /* [values] */
    const kiln_parts **step; /* [steps] that need no kernel: their parts; NULL for all others */
} kiln_windows;

/* `way`: [steps] (NULL for aliases); `layout`: [values] in which each is written; !on: there are
 * none. An operand of a join that has no window (another layout, not written by a kernel, an output
 * of the graph, there twice) has to be brought into its place by whoever packs. */
void kiln_windows_find(const kiln_graph *graph, const kiln_plan *plan, const kiln_way *const *way,
                       const kiln_layout *layout, bool on, kiln_arena *arena,
                       kiln_windows *out_windows);

#endif
