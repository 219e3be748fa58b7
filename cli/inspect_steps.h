/* The steps and buffers of a module, for `kiln inspect --steps`. */
#ifndef KILN_CLI_INSPECT_STEPS_H
#define KILN_CLI_INSPECT_STEPS_H

#include <stdbool.h>

#include "base/status.h"
#include "deploy/module.h"

/* Prints the steps of an inspected module and the buffers that they use, for people or as an object
 * per line; of a module of several sizes those of the largest. What the file does not say is null,
 * for people "unknown". DATA_LOSS: a kernel's manifest is damaged. */
KILN_MUST_USE kiln_status kiln_inspect_steps(const kiln_module *module, bool json);

#endif
