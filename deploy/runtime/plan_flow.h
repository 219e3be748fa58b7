/* Where the values of a module's plan come from, and how long each buffer's bytes are in use: what
 * the check of plans finds out on its way (plan_walk.h), kept for those who show modules to people.
 */
#ifndef KILN_DEPLOY_PLAN_FLOW_H
#define KILN_DEPLOY_PLAN_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "deploy/format.h"

#define KILN_PLAN_SOURCES_MAX (1u << 22) /* that are noted of one plan */

typedef struct kiln_plan_step_flow {
    uint32_t loop; /* the innermost loop around the step; KILN_PLAN_NONE: none */
    /* [source_count] ascending, all before the step: the steps whose results it reads; for an
     * event the one that it waits for. What a loop carries to its next iteration is a source of
     * steps behind the carry only. KILN_PLAN_NONE and NULL: not noted, the plan has more than
     * KILN_PLAN_SOURCES_MAX. */
    uint32_t source_count;
    uint32_t *source;
    /* [device_count + 1] bytes of each arena that are in use while the step runs, sizes rounded up
     * to the alignment. At most the arena's size; less where buffers leave gaps. */
    uint64_t *in_use;
} kiln_plan_step_flow;

typedef struct kiln_plan_buffer_flow {
    /* The first and last step at which its bytes must be kept; KILN_PLAN_NONE: no step uses it.
     * Inputs and constants are alive from step 0, constants and outputs to the last step. An alias
     * lives as long as its source. */
    uint32_t first, last;
    /* The alias step that is the first to name these bytes as this buffer: it is a result of that
     * step. KILN_PLAN_NONE: there is none. */
    uint32_t renamed_by;
} kiln_plan_buffer_flow;

typedef struct kiln_plan_flow {
    kiln_plan_step_flow *step;     /* [step_count] */
    kiln_plan_buffer_flow *buffer; /* [buffer_count] */
} kiln_plan_flow;

/* Checks a plan as kiln_module_plan_check does, with the same errors, and tells its flow. The
 * result lives in `arena`. */
KILN_MUST_USE kiln_status kiln_module_plan_follow(const kiln_module_plan *plan, kiln_arena *arena,
                                                  kiln_plan_flow *out_flow);

/* ---- for plan.c and plan_walk.c, which find it out ---- */

typedef struct kiln_flow_recorder kiln_flow_recorder;
/* `arena` for the result, `scratch` for the recorder. */
kiln_flow_recorder *kiln_flow_begin(const kiln_module_plan *plan, kiln_arena *arena,
                                    kiln_arena *scratch);
/* Step `index` reads `buffer`. True: an alias step made it, so that the steps that wrote its bytes
 * are none of its sources; or it is a result of this very step. */
bool kiln_flow_reads(kiln_flow_recorder *r, uint32_t buffer, uint32_t index);
/* Step `from` is a source of step `to`, which comes behind it. */
void kiln_flow_add(kiln_flow_recorder *r, uint32_t from, uint32_t to);
/* A root, no alias, is alive from step `first` to `last`. Ignored if no step names it. */
void kiln_flow_lives(kiln_flow_recorder *r, uint32_t root, uint32_t first, uint32_t last);
/* The place of a root in its arena is in use from now on (`alive`), or no longer. */
void kiln_flow_count(kiln_flow_recorder *r, uint32_t root, bool alive);
/* All places that are in use at step `index` are counted. */
void kiln_flow_end_step(kiln_flow_recorder *r, uint32_t index);
kiln_plan_flow kiln_flow_end(kiln_flow_recorder *r, const uint32_t *loop_of);

#endif
