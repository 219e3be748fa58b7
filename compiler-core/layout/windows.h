/* Finds values that lie inside of others, so that the kernels that would copy them are left out:
 * operands of a concatenation are written to their final place, slices are read in place. Used by
 * memory planning. */
#ifndef KILN_COMPILER_CORE_LAYOUT_WINDOWS_H
#define KILN_COMPILER_CORE_LAYOUT_WINDOWS_H

#include "compiler-core/layout/parts.h"
#include "compiler-core/layout/ways.h"

/* A value's place in a whole of the same layout; whole 0: the value has its own memory. A whole may
 * lie inside another one. */
typedef struct kiln_window {
    kiln_value whole;
    uint64_t offset_bytes;
} kiln_window;

typedef struct kiln_windows {
    kiln_window *of;         /* [values] */
    const kiln_parts **step; /* [steps] that need no kernel: their parts; NULL for all others */
} kiln_windows;

/* `way`: [steps] (NULL for aliases); `layout`: [values] in which each is written; !on: no windows.
 * An operand of a join without a window (another layout, not written by a kernel, an output of the
 * graph, used twice) must be copied to its place by the packer. */
void kiln_windows_find(const kiln_graph *graph, const kiln_plan *plan, const kiln_way *const *way,
                       const kiln_layout *layout, bool on, kiln_arena *arena,
                       kiln_windows *out_windows);

#endif
