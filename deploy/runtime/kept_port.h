/* Memory of a module for state that stays between runs: an input that is an output of the previous
 * run. It has two places, one that a run reads and one that it writes. Used by module_run.c, whose
 * variants read and write there, and by module.c. */
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
    uint32_t now; /* index of the place that the next run reads */
} kiln_kept_port;

/* Allocates zeroed memory; `input`, `output`, `device`, `on` and `size_bytes` are set.
 * RESOURCE_EXHAUSTED: not enough memory. */
KILN_MUST_USE kiln_status kiln_kept_port_init(kiln_kept_port *kept);
void kiln_kept_port_deinit(kiln_kept_port *kept);

/* The place where a run reads the input, or writes the output. */
kiln_device_place kiln_kept_port_place(const kiln_kept_port *kept, bool is_output);

/* The functions below return a kernel status; the text is in kiln_device_error. */

/* Call it after a run that succeeded: the written state becomes the input of the next run. In
 * memory of the process the two places swap. On a device they keep their addresses, which are in
 * recordings, and the device copies. */
int32_t kiln_kept_port_advance(kiln_kept_port *kept);
/* Copies the state that the next run reads, `size_bytes`, to memory of the process; done when it
 * returns.
 */
int32_t kiln_kept_port_read(const kiln_kept_port *kept, void *data);
/* Copies in the other direction; `data` NULL: zeros. */
int32_t kiln_kept_port_write(kiln_kept_port *kept, const void *data);

#endif
