/* The attribute column of ops.def. */
#ifndef KILN_COMPILER_CORE_GRAPH_ATTR_H
#define KILN_COMPILER_CORE_GRAPH_ATTR_H

#include "compiler-core/graph/op.h"

/* Kind and default of an attribute; false when the operator has no attribute of that name. */
bool kiln_attr_spec_find(kiln_op op, kiln_str name, kiln_attr *out_default, bool *out_has_default);
/* Checks that every attribute of the node is one of its operator's, of the right kind. */
KILN_MUST_USE kiln_status kiln_node_check_attrs(const kiln_node_info *node);

#endif
