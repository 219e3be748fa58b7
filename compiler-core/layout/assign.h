/* Layout assignment over a whole graph: chooses one way for every kernel, so that the total time of
 * kernels and the conversions between them is least. Inputs, outputs and reshaped values are
 * row-major. With a host beside a device, a way also says where the kernel runs: values are copied
 * between both memories, and inputs, outputs and conversions are on the host. */
#ifndef KILN_COMPILER_CORE_LAYOUT_ASSIGN_H
#define KILN_COMPILER_CORE_LAYOUT_ASSIGN_H

#include "compiler-core/layout/ways.h"

typedef struct kiln_assignment {
    const kiln_graph *graph;
    const kiln_plan *plan;
    const kiln_ways *list; /* [tasks], each with at least one way */
    /* Time to convert `value` from one layout to a different one. */
    double (*conversion_ns)(void *context, kiln_value value, const kiln_layout *from,
                            const kiln_layout *to);
    /* Time to copy `value` from one memory to the other; NULL: there is no host beside a device. */
    double (*copy_ns)(void *context, kiln_value value);
    void *context;
} kiln_assignment;

/* out_way: [steps], the index of each kernel's way in its task's list (0 for aliases); *out_ns: the
 * total time. Returns whether the answer is optimal (pbqp.h). A conversion that several readers
 * share is counted for each. */
bool kiln_layout_assign(const kiln_assignment *assignment, kiln_arena *arena, uint32_t *out_way,
                        double *out_ns);
/* Layout in which each value is written under `way`, [values]; row-major for inputs, constants,
 * aliases. */
void kiln_layout_of_values(const kiln_assignment *assignment, const uint32_t *way,
                           kiln_layout *out_layout);

#endif
