/* The single operators of workloads.def. Private to zoo/. */
#ifndef KILN_COMPILER_CORE_FRONTEND_ZOO_WORKLOADS_H
#define KILN_COMPILER_CORE_FRONTEND_ZOO_WORKLOADS_H

#include "base/status.h"
#include "compiler-core/frontend/zoo/builder.h"

/* Adds the operator that `rest` describes. INVALID_ARGUMENT: it describes none, or an impossible
 * one. */
typedef kiln_status (*kiln_zoo_workload)(kiln_zoo_builder *b, kiln_str rest, kiln_zoo_value *out);

#define X(prefix, function, form, what)                                                        \
    KILN_MUST_USE kiln_status kiln_zoo_workload_##function(kiln_zoo_builder *b, kiln_str rest, \
                                                           kiln_zoo_value *out);
#include "compiler-core/frontend/zoo/workloads.def"
#undef X

/* One line per convolution that has a name. */
void kiln_zoo_list_convs(kiln_strbuf *out);

#endif
