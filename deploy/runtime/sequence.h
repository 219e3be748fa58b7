/* Sequences of steps that a device can record: a module records each when it is opened and replays
 * it in its runs (deploy/runtime/device.h, `begin`). Used by module_run.c. Pure. */
#ifndef KILN_DEPLOY_SEQUENCE_H
#define KILN_DEPLOY_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "deploy/format.h"

/* Steps [begin, end), all in the queue of `device`. */
typedef struct kiln_sequence {
    uint32_t device, begin, end;
} kiln_sequence;

/* The longest sequences, in order: kernels, aliases and copies within one device, in one body,
 * whose arguments are the same in each iteration, and with no event before their last step.
 * Sequences of fewer than two launches are left out, because they save nothing.
 *
 * `launches`: [kernel_count] launches of a call of each kernel; `has_event`: [step_count] whether
 * an event is recorded after the step. `*out_sequence` is in `arena`. */
uint32_t kiln_sequences_find(const kiln_module_plan *plan, const uint32_t *launches,
                             const bool *has_event, kiln_arena *arena,
                             kiln_sequence **out_sequence);

#endif
