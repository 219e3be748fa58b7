/* A kernel of several launches: weights are doubled once, and a run goes through a temp and a table
 * of four. */
#include "base/kernel_abi.h"

int32_t double_weights(kiln_kernel_tensor *const *args, const kiln_kernel_services *services);
int32_t scale(kiln_kernel_tensor *const *args, const kiln_kernel_services *services);
int32_t square(kiln_kernel_tensor *const *args, const kiln_kernel_services *services);

/* w, p */
int32_t double_weights(kiln_kernel_tensor *const *args, const kiln_kernel_services *services) {
    const float *w = args[0]->data;
    float *p = args[1]->data;
    (void)services;
    for (int64_t i = 0; i < args[1]->shape[0]; i++) p[i] = 2.0f * w[i];
    return KILN_KERNEL_OK;
}

/* table, x, p, t */
int32_t scale(kiln_kernel_tensor *const *args, const kiln_kernel_services *services) {
    const float *table = args[0]->data, *x = args[1]->data, *p = args[2]->data;
    float *t = args[3]->data;
    (void)services;
    for (int64_t i = 0; i < args[3]->shape[0]; i++) t[i] = x[i] * table[i % 4] + p[i];
    return KILN_KERNEL_OK;
}

/* t, y */
int32_t square(kiln_kernel_tensor *const *args, const kiln_kernel_services *services) {
    const float *t = args[0]->data;
    float *y = args[1]->data;
    (void)services;
    for (int64_t i = 0; i < args[1]->shape[0]; i++) y[i] = t[i] * t[i];
    return KILN_KERNEL_OK;
}
