/* Runs byte code of the null device (base/null_code.h), a group of threads at a time: the threads
 * of a group run one after the other from barrier to barrier. Depends on base only; running
 * allocates nothing. Used by device_null.c. */
#ifndef KILN_DEPLOY_NULL_RUN_H
#define KILN_DEPLOY_NULL_RUN_H

#include "base/null_code.h"

/* How a launch ended. */
typedef enum kiln_null_end {
    KILN_NULL_OK,
    KILN_NULL_STRAY,    /* an index outside of its buffer, or an argument smaller than its buffer */
    KILN_NULL_DIVERGED, /* some threads of a group ended, or reached another barrier */
} kiln_null_end;

/* A function made ready for a size of group. */
typedef struct kiln_null_ready kiln_null_ready;

/* Memory of an argument of a launch. */
typedef struct kiln_null_memory {
    void *data;
    uint64_t size_bytes;
} kiln_null_memory;

/* `function` must be checked and outlive the result. RESOURCE_EXHAUSTED: registers and temps of
 * a group take more than KILN_NULL_TEMP_BYTES_MAX. */
KILN_MUST_USE kiln_status kiln_null_ready_create(const kiln_null_function *function,
                                                 const uint32_t group[3],
                                                 kiln_null_ready **out_ready);
void kiln_null_ready_destroy(kiln_null_ready *ready); /* accepts NULL */

/* Arguments that the function's buffers may name. */
uint32_t kiln_null_argument_count(const kiln_null_function *function);
/* Runs all groups of `grid`, x first. `argument` has kiln_null_argument_count entries. Adds the
 * ticks that the launch takes. */
kiln_null_end kiln_null_launch(kiln_null_ready *ready, const uint32_t grid[3],
                               const kiln_null_memory *argument, uint64_t *ticks);

#endif
