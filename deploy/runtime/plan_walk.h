/* Walks through the steps of a module's plan and checks that values are written before they are
 * read, in valid places. Private to the check of plans (plan.c), which checks each step alone
 * before. */
#ifndef KILN_DEPLOY_PLAN_WALK_H
#define KILN_DEPLOY_PLAN_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "deploy/format.h"
#include "deploy/runtime/plan_flow.h"

/* The last step of a loop's body. */
static inline uint32_t kiln_plan_loop_end(const kiln_module_plan *plan, uint32_t loop) {
    return loop + plan->step[loop].body_count;
}
/* Whether the step is in the body of the loop. `loop_of`: [steps] the innermost loop around each,
 * KILN_PLAN_NONE for none. */
bool kiln_plan_is_in_loop(const uint32_t *loop_of, uint32_t step, uint32_t loop);

/* Checks the rules of kiln_module_plan_check between steps. Notes in `recorder` where values come
 * from and how long they live; NULL: nowhere. Errors: INVALID_ARGUMENT. */
KILN_MUST_USE kiln_status kiln_plan_walk(const kiln_module_plan *plan, const uint32_t *loop_of,
                                         kiln_flow_recorder *recorder, kiln_arena *scratch);
/* Of buffers in the memory of a device. */
uint32_t kiln_plan_alignment(const kiln_module_plan *plan, uint32_t device);

#endif
