/* The kernel of the board's self-check (rpc-server/golden.h), compiled to an object as code
 * generation emits them and kept inside the program. y = x w on integers modulo 2^32: exact in any
 * order, so that a single wrong bit of a failing board shows. */
#include "base/kernel_abi.h"

int32_t kiln_run(kiln_kernel_tensor *const *args, const kiln_kernel_services *services);

int32_t kiln_run(kiln_kernel_tensor *const *args, const kiln_kernel_services *services) {
    const int64_t size = args[0]->shape[0];
    const uint32_t *x = args[0]->data, *w = args[1]->data;
    uint32_t *y = args[2]->data;
    (void)services;
    for (int64_t i = 0; i < size; i++) {
        for (int64_t j = 0; j < size; j++) y[i * size + j] = 0;
        for (int64_t k = 0; k < size; k++)
            for (int64_t j = 0; j < size; j++) y[i * size + j] += x[i * size + k] * w[k * size + j];
    }
    return 0;
}
