/* Layout conversions: y = x with both layouts as part of the task. A conversion is an ordinary
 * task: it has a key, a default schedule, and records once it was measured. */
#ifndef KILN_COMPILER_CORE_LAYOUT_CONVERT_H
#define KILN_COMPILER_CORE_LAYOUT_CONVERT_H

#include "compiler-core/ir/ir.h"

/* The tensor expression, in `arena`. */
kiln_program *kiln_conversion_te(kiln_dtype dtype, const kiln_shape *shape, const kiln_layout *from,
                                 const kiln_layout *to, kiln_arena *arena);
/* Estimated time of a conversion that was not measured; 0 where the layouts put every element at
 * the same place. */
double kiln_conversion_estimate_ns(kiln_dtype dtype, const kiln_shape *shape,
                                   const kiln_layout *from, const kiln_layout *to);

#endif
