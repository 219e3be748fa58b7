/* The kernels that calibrations time: each a loop over instructions that the compiler can neither
 * remove nor merge. Private to deploy/runtime. */
#ifndef KILN_DEPLOY_CALIBRATE_KERNELS_H
#define KILN_DEPLOY_CALIBRATE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "base/figures.h"

/* Memory that kernels of instructions touch: it stays in the first cache. */
#define KILN_CALIBRATE_MEMORY_BYTES 4096u

typedef struct kiln_calibrate_kernel {
    /* `memory`: KILN_CALIBRATE_MEMORY_BYTES of f32 near 1, aligned to 64. NULL: this processor has
     * no such instruction. */
    void (*run)(uint32_t count, char *memory);
    double work; /* of one iteration of `count`: in the unit of the figure */
} kiln_calibrate_kernel;

/* For the widest vectors that this processor has and may use; figures of instructions alone. */
kiln_calibrate_kernel kiln_calibrate_kernel_of(kiln_figure figure);
/* Eight additions of integers, each of which waits for the one before, `count` times. */
void kiln_calibrate_additions(uint32_t count, char *memory);
/* f32 in a whole vector; 0: none are measured. */
uint32_t kiln_calibrate_lanes(void);
/* Reads `size_bytes` of `data`, a multiple of 4096, in order with whole vectors. */
void kiln_calibrate_read(const char *data, size_t size_bytes);
/* Follows `steps` pointers from `*at`, each in the line that the previous one points to. */
void *const *kiln_calibrate_chase(void *const *at, uint32_t steps);

#endif
