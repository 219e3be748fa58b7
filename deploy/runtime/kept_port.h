/* Memory of a module for an input that is, in each run, what an output was in the run before: state
 * that stays between runs. There are two places for it, one that a run reads and one that it
 * writes. Used by module_run.c, whose variants read and write there, and by module.c. */
#ifndef KILN_DEPLOY_KEPT_PORT_H
#define KILN_DEPLOY_KEPT_PORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "deploy/runtime/device.h"

typedef struct kiln_kept_port {
    uint32_t input, output; /* their indices */
    uint32_t device;        /* number of the device in the plan; 0: memory of the process */
    kiln_device *on;
    size_t size_bytes;
    kiln_device_memory memory[2];
    uint32_t now; /* which of them the next run reads */
} kiln_kept_port;

/* Allocates zeroed memory; `input`, `output`, `device`, `on` and `size_bytes` are set.
 * RESOURCE_EXHAUSTED: there is no more. */
KILN_MUST_USE kiln_status kiln_kept_port_init(kiln_kept_port *kept);
void kiln_kept_port_deinit(kiln_kept_port *kept);

/* Where a run reads the input, or writes the output. */
kiln_device_place kiln_kept_port_place(const kiln_kept_port *kept, bool is_output);

/* The functions below return a kernel status; the text is in kiln_device_error. */

/* After a run that succeeded: what it wrote is what the next one reads. In memory of the process
 * the two places swap. On a device they keep their addresses, which recordings have, and the device
 * copies. */
int32_t kiln_kept_port_advance(kiln_kept_port *kept);
/* Copies what the next run reads to memory of the process, `size_bytes` of it; done when it
 * returns.
 */
int32_t kiln_kept_port_read(const kiln_kept_port *kept, void *data);
/* Copies the other way; `data` NULL: zeros. */
int32_t kiln_kept_port_write(kiln_kept_port *kept, const void *data);

#endif
