/* Checks a caller's tensor against a port of a module. Used by module_run.c. */
#ifndef KILN_DEPLOY_MODULE_TENSOR_H
#define KILN_DEPLOY_MODULE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>

#include "deploy/module.h"

/* Compares element type, shape and strides, not the place. When they differ, `why` [why_bytes] gets
 * the reason. */
bool kiln_module_tensor_fits(const kiln_module_port *port, const kiln_module_tensor *tensor,
                             char *why, size_t why_bytes);

#endif
