/* Whether a caller's tensor is what a port of a module takes. Used by module_run.c. */
#ifndef KILN_DEPLOY_MODULE_TENSOR_H
#define KILN_DEPLOY_MODULE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>

#include "deploy/module.h"

/* Its element type, shape and strides; where it lies is not looked at. When it is another one,
 * `why` [why_bytes] says what differs. */
bool kiln_module_tensor_fits(const kiln_module_port *port, const kiln_module_tensor *tensor,
                             char *why, size_t why_bytes);

#endif
