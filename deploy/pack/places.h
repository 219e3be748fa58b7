/* Places the buffers of a module in the arena of a device. Inside deploy/pack; pure. */
#ifndef KILN_DEPLOY_PACK_PLACES_H
#define KILN_DEPLOY_PACK_PLACES_H

#include "deploy/format.h"
#include "deploy/pack/memory.h"

typedef struct kiln_places {
    kiln_plan_buffer
        *buffer; /* [buffer_count] those of storage ARENA on the device get their offset */
    uint32_t buffer_count, step_count;
    const kiln_plan_step *step;
    /* [kernels][arguments] for results: the argument whose place it may take, + 1 */
    uint32_t *const *in_place;
    bool overwrite, reuse; /* results take places of inputs; values share bytes */
    uint32_t device;       /* the device of the arena: buffers of others do not change */
    uint32_t alignment;    /* of the arena's buffers, a multiple of KILN_KERNEL_ALIGNMENT; 0:
                            * KILN_KERNEL_ALIGNMENT */
} kiln_places;

/* A buffer lives from the first step that touches any part of it to the last one. A result takes
 * the place of an input that is read for the last time, where its kernel allows. `value_bytes` of
 * the result counts every buffer of the arena. Cost: that of kiln_memory_plan. */
kiln_memory_peak kiln_places_find(const kiln_places *places, kiln_arena *scratch);

#endif
