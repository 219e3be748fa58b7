/* Tasks that only move elements: they put their inputs side by side in one result (a
 * concatenation), or cut their results out of one input (a split, a slice). Where every part is one
 * run of bytes of the whole in the chosen layout, no kernel has to run: the parts can be windows
 * into the whole. Derived from the tensor expression alone. */
#ifndef KILN_COMPILER_CORE_LAYOUT_PARTS_H
#define KILN_COMPILER_CORE_LAYOUT_PARTS_H

#include "compiler-core/ir/ir.h"

/* Elements [begin, begin + extent of the part) of `whole` along `axis`, all along the others. */
typedef struct kiln_part {
    uint32_t arg, whole; /* arguments of the task */
    uint32_t axis;
    int64_t begin;
} kiln_part;

typedef struct kiln_parts {
    uint32_t count; /* 0: the task is not of this kind */
    bool joins;     /* the parts are inputs and fill the one result; else they are all results */
    kiln_part *part;
} kiln_parts;

/* The parts of a task, in `arena`. */
kiln_parts kiln_parts_of(const kiln_program *te, kiln_arena *arena);

/* Where a part of a tensor of shape `whole` begins in memory when both have `layout`, in bytes.
 * False: there it is no run of bytes, or not one that begins at a multiple of
 * KILN_KERNEL_ALIGNMENT. */
bool kiln_part_offset(const kiln_part *part, const kiln_shape *whole, int64_t extent,
                      kiln_dtype dtype, const kiln_layout *layout, uint64_t *out_bytes);
/* Whether a task with these parts needs no kernel when its arguments have these layouts: [arguments
 * of the task's program]. Constants are row-major and are always copied into their places.
 */
bool kiln_parts_are_windows(const kiln_parts *parts, const kiln_program *te,
                            const kiln_layout *layout);

#endif
