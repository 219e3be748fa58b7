/* One iteration of a sum: arguments x, s (inputs), t, y, go (outputs), f32 but the last.
 * t = s + x, y = 2 t, go = t[0] < 10. */
#include "base/kernel_abi.h"

int32_t kiln_run(kiln_kernel_tensor *const *args, const kiln_kernel_services *services);

int32_t kiln_run(kiln_kernel_tensor *const *args, const kiln_kernel_services *services) {
    const float *x = args[0]->data, *s = args[1]->data;
    float *t = args[2]->data, *y = args[3]->data;
    uint8_t *go = args[4]->data;
    (void)services;
    for (int64_t i = 0; i < args[0]->shape[0]; i++) {
        t[i] = s[i] + x[i];
        y[i] = 2.0f * t[i];
    }
    go[0] = t[0] < 10.0f;
    return KILN_KERNEL_OK;
}
