/* Services of the host for kernels: the functions that objects may leave undefined
 * (kernel_services.def, bound by the loader) and the services table of base/kernel_abi.h (threads
 * and scratch). */
#ifndef KILN_DEPLOY_SERVICES_H
#define KILN_DEPLOY_SERVICES_H

#include <stddef.h>
#include <stdint.h>

#include "base/kernel_abi.h"
#include "base/manifest.h"
#include "base/str.h"
#include "base/target.h"
#include "deploy/runtime/pool.h"

#define KILN_SERVICE_NONE UINT32_MAX

/* Index of a symbol in kernel_services.def that code for `arch` may name, or KILN_SERVICE_NONE. */
uint32_t kiln_service_find(kiln_arch arch, kiln_str symbol);
uint32_t kiln_service_count(void);
const char *kiln_service_name(uint32_t service);
/* Address of the function in this process; 0 for one that exists only on other processors. */
uintptr_t kiln_service_address(uint32_t service);

/* A services table with its state. It must not be moved, because `table.host` points to it. Serves
 * one call at a time. */
typedef struct kiln_services {
    kiln_kernel_services table; /* pass its address to entries */
    kiln_pool *pool;
} kiln_services;

/* Bytes of scratch that a call of this kernel needs with `worker_count` workers. */
size_t kiln_services_scratch_bytes(const kiln_manifest *manifest, uint32_t worker_count);

/* `pool` NULL: worker_count must be 1. Otherwise worker_count is at most the pool's. `scratch` must
 * have at least kiln_services_scratch_bytes of every kernel that will be called, and be aligned to
 * KILN_KERNEL_ALIGNMENT; the caller keeps it. */
void kiln_services_init(kiln_services *services, kiln_pool *pool, uint32_t worker_count,
                        void *scratch);

#endif
