/* Layout assignment over a whole graph: for every kernel one of its ways, so that kernels
 * and the conversions between them take least time together. Inputs, outputs and what has its shape
 * changed are row-major. Beside a host, ways say as well where a kernel runs: values pass between
 * both memories by copies, and inputs, outputs and conversions are the host's. */
#ifndef KILN_COMPILER_CORE_LAYOUT_ASSIGN_H
#define KILN_COMPILER_CORE_LAYOUT_ASSIGN_H

#include "compiler-core/layout/ways.h"

typedef struct kiln_assignment {
    const kiln_graph *graph;
    const kiln_plan *plan;
    const kiln_ways *list; /* [tasks], each with at least one way */
    /* Time of converting `value` from one layout to another that puts elements elsewhere. */
    double (*conversion_ns)(void *context, kiln_value value, const kiln_layout *from,
                            const kiln_layout *to);
    /* Of copying `value` from one memory to the other; NULL: there is no host beside a device. */
    double (*copy_ns)(void *context, kiln_value value);
    void *context;
} kiln_assignment;

/* out_way: [steps], which way of its task each kernel takes (0 for aliases); *out_ns: what all of
 * it takes. Returns whether the answer is optimal (pbqp.h). A conversion that several readers share
 * is counted for each. */
bool kiln_layout_assign(const kiln_assignment *assignment, kiln_arena *arena, uint32_t *out_way,
                        double *out_ns);
/* Layout in which each value is written under `way`, [values]; row-major for inputs, constants,
 * aliases. */
void kiln_layout_of_values(const kiln_assignment *assignment, const uint32_t *way,
                           kiln_layout *out_layout);

#endif
