/* Functions that kernels may call on a microcontroller: those that compilers insert, and the
 * services of base/kernel_abi.h. Freestanding: there is no C library. */
#ifndef KILN_DEPLOY_MONITOR_SUPPORT_H
#define KILN_DEPLOY_MONITOR_SUPPORT_H

#include "base/kernel_abi.h"

void *memcpy(void *to, const void *from, size_t count);
void *memmove(void *to, const void *from, size_t count);
void *memset(void *to, int value, size_t count);

/* Runs the whole range on the calling thread. */
int32_t kiln_support_parallel_for(void *host, int64_t count, kiln_kernel_body body, void *context);
/* Address of the function with that name (no NUL); 0: there is none. */
uint32_t kiln_support_find(const char *name, uint32_t size);

#endif
