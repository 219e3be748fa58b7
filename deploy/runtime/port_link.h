/* Links the inputs and outputs of a module to its devices: callers may have them in memory of a
 * device, which saves the copy. Used by module_run.c. Pure. */
#ifndef KILN_DEPLOY_PORT_LINK_H
#define KILN_DEPLOY_PORT_LINK_H

#include <stdint.h>

#include "base/arena.h"
#include "deploy/format.h"

/* Of one input or output. */
typedef struct kiln_port_link {
    /* The device that copies from it or to it, if nothing else uses it, so that it may lie there;
     * 0: it must be in memory of the host. */
    uint32_t device;
    /* The buffer on that device (no alias) that has the same bytes and can lie in the caller's
     * memory; KILN_PLAN_NONE: there is none. `copy` is the only step between the two, and is then
     * skipped.
     */
    uint32_t stand_in, copy;
} kiln_port_link;

/* `*out_input`: [input_count], `*out_output`: [output_count], in `arena`. No two share a stand-in.
 * A buffer that has several writers, or aliases that begin inside of it, is none. */
void kiln_port_links_find(const kiln_module_plan *plan, kiln_arena *arena,
                          kiln_port_link **out_input, kiln_port_link **out_output);

#endif
