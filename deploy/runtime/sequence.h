/* Runs of steps that a device can do as one: a module records each when it is opened and repeats it
 * in its runs (deploy/runtime/device.h, `begin`). Used by module_run.c. Pure. */
#ifndef KILN_DEPLOY_SEQUENCE_H
#define KILN_DEPLOY_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "deploy/format.h"

/* Steps `begin` to `end`, without the latter, all in the queue of `device`. */
typedef struct kiln_sequence {
    uint32_t device, begin, end;
} kiln_sequence;

/* The longest ones, in order: kernels, aliases and copies within one device, in one body, whose
 * arguments are the same in each iteration, and with no event before their last step. Those of
 * fewer than two launches are left out, as nothing is won by them.
 *
 * `launches`: [kernel_count] of a call of each; `has_event`: [step_count] whether an event is
 * recorded after the step. `*out_sequence` is in `arena`. */
uint32_t kiln_sequences_find(const kiln_module_plan *plan, const uint32_t *launches,
                             const bool *has_event, kiln_arena *arena,
                             kiln_sequence **out_sequence);

#endif
