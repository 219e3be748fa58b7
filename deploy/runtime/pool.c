#include "deploy/runtime/pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/macros.h"

/* How a loop is handed out: worker 0 writes `loop`, sets `pending` and publishes a new `ticket`,
 * which counts loops in its upper bits and says in its lower bits how many workers take part. A
 * worker that takes part runs its share and decrements `pending`; worker 0 touches `loop` again
 * only after that reached zero, so those who read `loop` never race with the next one, and those
 * who do not take part never read it. `sleepers` and `waiting` are written before, and read after,
 * the word that the other side waits for, all sequentially consistent, so a wake-up cannot be
 * missed. */
#define TICKET_WORKERS 0x7ffu /* room for KILN_POOL_WORKERS_MAX */
#define TICKET_STEP (TICKET_WORKERS + 1u)
#define TICKET_STOP 0u /* nobody takes part: workers look at `stopping` */

typedef struct loop_job {
    kiln_kernel_body body;
    void *context;
    int64_t count;
} loop_job;

typedef struct worker {
    kiln_pool *pool;
    pthread_t thread;
    uint32_t index;
    uint32_t core;
} worker;

struct kiln_pool {
    uint32_t worker_count, spin_count, started;
    bool pinned;
    worker *worker; /* [worker_count]; 0 is the caller and has no thread */
    loop_job loop;
    _Atomic uint64_t ticket;
    _Atomic uint32_t pending;
    _Atomic int32_t status; /* first that is not zero */
    _Atomic uint32_t sleepers;
    atomic_bool waiting; /* worker 0 sleeps until pending is zero */
    atomic_bool stopping;
    atomic_flag busy;
    pthread_mutex_t lock; /* for sleeping only */
    pthread_cond_t wake, done;
};

static void pause_briefly(void) {
#if defined(__x86_64__)
    __asm__ volatile("pause");
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#endif
}

static void run_share(kiln_pool *pool, uint32_t index, uint32_t worker_count) {
    /* count*w/n without overflow: quotient and remainder apart. */
    int64_t count = pool->loop.count, n = worker_count, w = index;
    int64_t whole = count / n, rest = count % n;
    int64_t begin = whole * w + rest * w / n;
    int64_t end = whole * (w + 1) + rest * (w + 1) / n;
    if (begin == end) return;
    int32_t status = pool->loop.body(pool->loop.context, begin, end, (int32_t)index);
    int32_t none = KILN_KERNEL_OK;
    if (status != KILN_KERNEL_OK) atomic_compare_exchange_strong(&pool->status, &none, status);
}

static uint64_t await_ticket(kiln_pool *pool, uint64_t seen) {
    for (uint32_t i = 0; i < pool->spin_count; i++) {
        uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
        if (ticket != seen) return ticket;
        pause_briefly();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    uint64_t ticket;
    while ((ticket = atomic_load(&pool->ticket)) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
    return ticket;
}

static void publish(kiln_pool *pool, uint32_t worker_count) {
    uint64_t next =
        (atomic_load_explicit(&pool->ticket, memory_order_relaxed) | TICKET_WORKERS) + 1;
    atomic_store(&pool->ticket, next | worker_count);
    if (atomic_load(&pool->sleepers) == 0) return;
    pthread_mutex_lock(&pool->lock); /* a sleeper is either in cond_wait or has seen the ticket */
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

static void finish_share(kiln_pool *pool) {
    if (atomic_fetch_sub(&pool->pending, 1) != 1 || !atomic_load(&pool->waiting)) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->lock);
}

static void await_done(kiln_pool *pool) {
    for (uint32_t i = 0; i < pool->spin_count; i++) {
        if (atomic_load_explicit(&pool->pending, memory_order_acquire) == 0) return;
        pause_briefly();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->waiting, true);
    while (atomic_load(&pool->pending) != 0) pthread_cond_wait(&pool->done, &pool->lock);
    atomic_store(&pool->waiting, false);
    pthread_mutex_unlock(&pool->lock);
}

static void pin_to(KILN_UNUSED uint32_t core) {
#ifdef __linux__
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    (void)sched_setaffinity(0, sizeof set,
                            &set); /* a core that is gone: runs anywhere, still correct */
#endif
}

static void *work(void *argument) {
    worker *self = argument;
    kiln_pool *pool = self->pool;
    if (pool->pinned) pin_to(self->core);
    uint64_t seen = 0;
    for (;;) {
        seen = await_ticket(pool, seen);
        if (atomic_load(&pool->stopping)) return NULL;
        uint32_t worker_count = (uint32_t)(seen & TICKET_WORKERS);
        if (self->index >= worker_count) continue;
        run_share(pool, self->index, worker_count);
        finish_share(pool);
    }
}

static kiln_status start_workers(kiln_pool *pool, const kiln_pool_options *options) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    int failed = 0;
    for (uint32_t i = 1; !failed && i < pool->worker_count; i++) {
        pool->worker[i] =
            (worker){.pool = pool, .index = i, .core = options->core ? options->core[i] : 0};
        failed = pthread_create(&pool->worker[i].thread, NULL, work, &pool->worker[i]);
        if (!failed) pool->started = i;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed) return KILN_OK;
    return KILN_ERROR(RESOURCE_EXHAUSTED, "starting worker %u of %u: %s", pool->started + 1,
                      pool->worker_count, strerror(failed));
}

kiln_status kiln_pool_create(const kiln_pool_options *options, kiln_pool **out_pool) {
    if (options->worker_count < 1 || options->worker_count > KILN_POOL_WORKERS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "%u worker threads: 1 to %u are allowed",
                          options->worker_count, KILN_POOL_WORKERS_MAX);
#ifdef __linux__
    for (uint32_t i = 1; options->core && i < options->worker_count; i++)
        if (options->core[i] >= CPU_SETSIZE)
            return KILN_ERROR(INVALID_ARGUMENT, "core %u is out of range", options->core[i]);
#endif
    kiln_pool *pool = kiln_alloc(sizeof *pool);
    pool->worker_count = options->worker_count;
    pool->spin_count = options->spin_count ? options->spin_count : KILN_POOL_SPIN_DEFAULT;
    pool->pinned = options->core != NULL;
    pool->worker = kiln_alloc(options->worker_count * sizeof *pool->worker);
    atomic_flag_clear(&pool->busy);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    kiln_status st = start_workers(pool, options);
    if (st) {
        kiln_pool_destroy(pool);
        return st;
    }
    *out_pool = pool;
    return KILN_OK;
}

void kiln_pool_destroy(kiln_pool *pool) {
    if (!pool) return;
    atomic_store(&pool->stopping, true);
    publish(pool, TICKET_STOP);
    for (uint32_t i = 1; i <= pool->started; i++) pthread_join(pool->worker[i].thread, NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    kiln_free(pool->worker);
    kiln_free(pool);
}

uint32_t kiln_pool_worker_count(const kiln_pool *pool) { return pool->worker_count; }

int32_t kiln_pool_run(kiln_pool *pool, uint32_t worker_count, int64_t count, kiln_kernel_body body,
                      void *context) {
    KILN_CHECK(worker_count >= 1 && worker_count <= pool->worker_count);
    if (count <= 0) return KILN_KERNEL_OK;
    if (atomic_flag_test_and_set(&pool->busy)) return KILN_KERNEL_FAILED;
    pool->loop = (loop_job){body, context, count};
    atomic_store_explicit(&pool->status, KILN_KERNEL_OK, memory_order_relaxed);
    if (worker_count > 1) {
        atomic_store_explicit(&pool->pending, worker_count - 1, memory_order_relaxed);
        publish(pool, worker_count);
    }
    run_share(pool, 0, worker_count);
    if (worker_count > 1) await_done(pool);
    int32_t status = atomic_load_explicit(&pool->status, memory_order_relaxed);
    atomic_flag_clear(&pool->busy);
    return status;
}
