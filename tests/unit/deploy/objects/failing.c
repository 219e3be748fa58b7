/* A kernel that says that it failed. */
#include "base/kernel_abi.h"

int32_t kiln_run(kiln_kernel_tensor *const *args, const kiln_kernel_services *services);

int32_t kiln_run(kiln_kernel_tensor *const *args, const kiln_kernel_services *services) {
    (void)args;
    (void)services;
    return 7;
}
