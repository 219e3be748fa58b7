/* Threads for the parallel loops of kernels: fork and join. Each worker has a share of a loop, the
 * same in every run, cut into chunks; one that is done takes the chunks that another has not begun,
 * so that a worker without its core delays one chunk at most. Idle workers spin for a
 * while, so that loops that follow each other closely start at once, then sleep. Nothing is
 * allocated after creation. */
#ifndef KILN_DEPLOY_POOL_H
#define KILN_DEPLOY_POOL_H

#include <stdint.h>

#include "base/kernel_abi.h"
#include "base/status.h"

#define KILN_POOL_WORKERS_MAX 1024u

typedef struct kiln_pool kiln_pool;

typedef struct kiln_pool_options {
    uint32_t worker_count; /* 1..KILN_POOL_WORKERS_MAX, the calling thread included */
    const uint32_t *core;  /* [worker_count] worker i > 0 runs on core[i] only; NULL: anywhere.
                              Worker 0 is  the caller's thread and stays as it is */
    uint32_t spin_count;   /* polls before an idle worker sleeps; 0: KILN_POOL_SPIN_DEFAULT */
} kiln_pool_options;

/* About 50 us of polling: longer than the gap between two kernels of a network, too short to matter
 * for a battery. */
#define KILN_POOL_SPIN_DEFAULT 5000u

#define KILN_POOL_CHUNKS 8 /* of a worker's share; fewer where it has fewer iterations */

/* When it returns each worker is on its core: later system calls are only those of sleeping.
 * INVALID_ARGUMENT: a worker count or core out of range. RESOURCE_EXHAUSTED: a thread cannot be
 * created.
 */
KILN_MUST_USE kiln_status kiln_pool_create(const kiln_pool_options *options, kiln_pool **out_pool);
/* Joins all threads; accepts NULL. No loop may be running. */
void kiln_pool_destroy(kiln_pool *pool);
uint32_t kiln_pool_worker_count(const kiln_pool *pool);

/* Runs `body` over [0, count) on the first `worker_count` workers, each iteration once. The share
 * of worker w is [count*w/n, count*(w+1)/n); it is run in KILN_POOL_CHUNKS chunks, in order, each
 * by the next free worker: `body` is called once per chunk, or once in all with one worker. Returns
 * after all are done: 0, or a non-zero status of one of them. One loop at a time: a call from a
 * body or a second thread returns KILN_KERNEL_FAILED and runs nothing. */
int32_t kiln_pool_run(kiln_pool *pool, uint32_t worker_count, int64_t count, kiln_kernel_body body,
                      void *context);

#endif
