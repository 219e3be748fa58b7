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

/* How a loop is distributed: worker 0 writes `loop` and the chunk count of each worker's share,
 * then publishes a new `ticket`, with the number of the loop in its upper bits and the number of
 * workers in its lower bits. Each worker takes the chunks of its own share, then unstarted ones of
 * others. A chunk is taken by an atomic change of the word with the number of chunks left in a
 * share, which also names the loop: a late worker finds another loop's word and takes none, so no
 * worker waits for it. `left` counts unfinished chunks; worker 0 changes `loop` only when it is
 * zero, and `loop` is read only by workers that hold a chunk and by worker 0, so there is no race
 * with the next loop. `sleepers` and `waiting` are written before, and read after, the word that
 * the other side waits for, all sequentially consistent, so a wake-up cannot be missed. */
#define TICKET_WORKERS 0x7ffu /* room for KILN_POOL_WORKERS_MAX */
#define TICKET_STEP (TICKET_WORKERS + 1u)
#define TICKET_STOP 0u /* no workers: they check `stopping` */
#define YIELD_AFTER 500u
#define YIELD_EVERY 64u
#define CACHE_LINE_BYTES 128 /* of the widest core, and the unit of prefetchers */

typedef struct loop_job {
    kiln_kernel_body body;
    void *context;
    int64_t count;
    uint32_t worker_count;
} loop_job;

typedef struct worker {
    kiln_pool *pool;
    pthread_t thread;
    uint32_t index;
    uint32_t core;
    /* The loop's ticket without its workers, and how many chunks of this worker's share are left.
     */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t chunks;
} worker;

struct kiln_pool {
    uint32_t worker_count, spin_count, started;
    bool pinned;
    worker *worker; /* [worker_count]; 0 is the caller and has no thread */
    loop_job loop;
    _Atomic uint64_t ticket;
    _Atomic uint32_t left;
    _Atomic int32_t status; /* first that is not zero */
    _Atomic uint32_t sleepers;
    atomic_bool waiting; /* worker 0 sleeps until `left` is zero */
    atomic_bool stopping;
    atomic_flag busy;
    uint32_t ready;       /* workers that found their core; under `lock` */
    pthread_mutex_t lock; /* for sleeping only */
    pthread_cond_t wake, done;
};

/* After a while yields the core now and then: the awaited worker may be scheduled on it.
 */
static void pause_briefly(uint32_t spun) {
    if (spun > YIELD_AFTER && spun % YIELD_EVERY == 0) sched_yield();
#if defined(__x86_64__)
    __asm__ volatile("pause");
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#endif
}

/* A ticket without its workers. */
static uint64_t loop_of(uint64_t ticket) { return ticket & ~(uint64_t)TICKET_WORKERS; }

/* count*w/n without overflow: quotient and remainder separately. */
static int64_t boundary(int64_t count, int64_t w, int64_t n) {
    return count / n * w + count % n * w / n;
}

static uint32_t chunk_count(int64_t share) { return (uint32_t)KILN_MIN(share, KILN_POOL_CHUNKS); }

/* Runs the first of the `left` last chunks of the share of worker `owner`. */
static void run_chunk(kiln_pool *pool, uint32_t owner, uint32_t left, uint32_t index) {
    const loop_job *loop = &pool->loop;
    const int64_t begin = boundary(loop->count, owner, loop->worker_count);
    const int64_t share = boundary(loop->count, owner + 1, loop->worker_count) - begin;
    const int64_t chunks = chunk_count(share), at = chunks - left;
    const int32_t status = loop->body(loop->context, begin + boundary(share, at, chunks),
                                      begin + boundary(share, at + 1, chunks), (int32_t)index);
    int32_t none = KILN_KERNEL_OK;
    if (status != KILN_KERNEL_OK) atomic_compare_exchange_strong(&pool->status, &none, status);
}

/* Runs chunks of a share until none of this loop is left; returns how many. */
static uint32_t run_share(kiln_pool *pool, uint64_t loop, uint32_t owner, uint32_t index) {
    _Atomic uint64_t *chunks = &pool->worker[owner].chunks;
    uint32_t ran = 0;
    uint64_t word = atomic_load_explicit(chunks, memory_order_acquire);
    while (word > loop && word < loop + TICKET_STEP)
        if (atomic_compare_exchange_weak_explicit(chunks, &word, word - 1, memory_order_acquire,
                                                  memory_order_acquire)) {
            run_chunk(pool, owner, (uint32_t)(word - loop), index);
            word = atomic_load_explicit(chunks, memory_order_acquire);
            ran++;
        }
    return ran;
}

static void finish_chunks(kiln_pool *pool, uint32_t count) {
    if (count == 0 || atomic_fetch_sub(&pool->left, count) != count || !atomic_load(&pool->waiting))
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->lock);
}

/* A worker's part in a loop: its own share first, in order, then chunks left in the others'. */
static void take_part(kiln_pool *pool, uint64_t ticket, uint32_t index) {
    const uint64_t loop = loop_of(ticket);
    const uint32_t worker_count = (uint32_t)(ticket & TICKET_WORKERS);
    uint32_t ran = 0;
    for (uint32_t i = 0; i < worker_count; i++)
        ran += run_share(pool, loop, (index + i) % worker_count, index);
    finish_chunks(pool, ran);
}

static uint64_t await_ticket(kiln_pool *pool, uint64_t seen) {
    for (uint32_t i = 0; i < pool->spin_count; i++) {
        uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
        if (ticket != seen) return ticket;
        pause_briefly(i);
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

static uint64_t next_ticket(const kiln_pool *pool, uint32_t worker_count) {
    return ((atomic_load_explicit(&pool->ticket, memory_order_relaxed) | TICKET_WORKERS) + 1) |
           worker_count;
}

static void publish(kiln_pool *pool, uint64_t ticket) {
    atomic_store(&pool->ticket, ticket);
    if (atomic_load(&pool->sleepers) == 0) return;
    pthread_mutex_lock(&pool->lock); /* a sleeper is either in cond_wait or has seen the ticket */
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

static void await_done(kiln_pool *pool) {
    for (uint32_t i = 0; i < pool->spin_count; i++) {
        if (atomic_load_explicit(&pool->left, memory_order_acquire) == 0) return;
        pause_briefly(i);
    }
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->waiting, true);
    while (atomic_load(&pool->left) != 0) pthread_cond_wait(&pool->done, &pool->lock);
    atomic_store(&pool->waiting, false);
    pthread_mutex_unlock(&pool->lock);
}

static void pin_to(KILN_UNUSED uint32_t core) {
#ifdef __linux__
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    (void)sched_setaffinity(0, sizeof set,
                            &set); /* the core no longer exists: run anywhere, still correct */
#endif
}

static void *work(void *argument) {
    worker *self = argument;
    kiln_pool *pool = self->pool;
    if (pool->pinned) pin_to(self->core);
    pthread_mutex_lock(&pool->lock);
    pool->ready++;
    pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->lock);
    uint64_t seen = 0;
    for (;;) {
        seen = await_ticket(pool, seen);
        if (atomic_load(&pool->stopping)) return NULL;
        if (self->index < (seen & TICKET_WORKERS)) take_part(pool, seen, self->index);
    }
}

static kiln_status start_workers(kiln_pool *pool, const kiln_pool_options *options) {
    /* Workers block signals, which are for the program's threads, except faults of the worker
     * itself: the program's handler is not called for a blocked one. */
    static const int fault[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof fault / sizeof *fault; i++) sigdelset(&all, fault[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = 0;
    for (uint32_t i = 1; !failed && i < pool->worker_count; i++) {
        pool->worker[i].pool = pool;
        pool->worker[i].index = i;
        pool->worker[i].core = options->core ? options->core[i] : 0;
        failed = pthread_create(&pool->worker[i].thread, NULL, work, &pool->worker[i]);
        if (!failed) pool->started = i;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_mutex_lock(&pool->lock);
    while (pool->ready < pool->started) pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
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
    pool->worker =
        kiln_alloc_aligned(CACHE_LINE_BYTES, options->worker_count * sizeof *pool->worker);
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
    publish(pool, next_ticket(pool, TICKET_STOP));
    for (uint32_t i = 1; i <= pool->started; i++) pthread_join(pool->worker[i].thread, NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    kiln_free(pool->worker);
    kiln_free(pool);
}

uint32_t kiln_pool_worker_count(const kiln_pool *pool) { return pool->worker_count; }

static void hand_out(kiln_pool *pool, const loop_job *loop, uint64_t ticket) {
    const int64_t n = loop->worker_count;
    uint32_t left = 0;
    pool->loop = *loop;
    for (int64_t w = 0; w < n; w++)
        left += chunk_count(boundary(loop->count, w + 1, n) - boundary(loop->count, w, n));
    atomic_store_explicit(&pool->left, left, memory_order_relaxed);
    for (int64_t w = 0; w < n; w++) {
        const int64_t share = boundary(loop->count, w + 1, n) - boundary(loop->count, w, n);
        atomic_store_explicit(&pool->worker[w].chunks, loop_of(ticket) + chunk_count(share),
                              memory_order_release);
    }
}

int32_t kiln_pool_run(kiln_pool *pool, uint32_t worker_count, int64_t count, kiln_kernel_body body,
                      void *context) {
    KILN_CHECK(worker_count >= 1 && worker_count <= pool->worker_count);
    if (count <= 0) return KILN_KERNEL_OK;
    if (atomic_flag_test_and_set(&pool->busy)) return KILN_KERNEL_FAILED;
    atomic_store_explicit(&pool->status, KILN_KERNEL_OK, memory_order_relaxed);
    int32_t status = KILN_KERNEL_OK;
    if (worker_count == 1) {
        status = body(context, 0, count, 0);
    } else {
        const uint64_t ticket = next_ticket(pool, worker_count);
        hand_out(pool, &(loop_job){body, context, count, worker_count}, ticket);
        publish(pool, ticket);
        take_part(pool, ticket, 0);
        await_done(pool);
        status = atomic_load_explicit(&pool->status, memory_order_relaxed);
    }
    atomic_flag_clear(&pool->busy);
    return status;
}
