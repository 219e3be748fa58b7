#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/macros.h"
#include "deploy/runtime/pool.h"
#include "tests/support/test.h"

#define WORKERS 4u

static kiln_pool *create(uint32_t worker_count, uint32_t spin_count) {
    kiln_pool *pool = NULL;
    kiln_pool_options options = {.worker_count = worker_count, .spin_count = spin_count};
    assert_null(kiln_pool_create(&options, &pool));
    assert_int_equal(kiln_pool_worker_count(pool), worker_count);
    return pool;
}

/* How often each iteration was run, and by how many calls. */
#define COUNT_MAX 1000

typedef struct shares {
    _Atomic uint8_t times[COUNT_MAX];
    _Atomic uint32_t calls;
    int32_t failing_worker;
} shares;

static int32_t note_share(void *context, int64_t begin, int64_t end, int32_t worker) {
    shares *s = context;
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&s->times[i], 1);
    atomic_fetch_add(&s->calls, 1);
    return worker == s->failing_worker ? 40 + worker : KILN_KERNEL_OK;
}

static void each_iteration_is_run_once_in_few_pieces(void **state) {
    (void)state;
    kiln_pool *pool = create(WORKERS, 0);
    static const int64_t counts[] = {1, 3, 4, 10, 31, 33, 999};
    for (uint32_t n = 1; n <= WORKERS; n++) {
        for (size_t c = 0; c < KILN_ARRAY_COUNT(counts); c++) {
            shares s = {.failing_worker = -1};
            assert_int_equal(kiln_pool_run(pool, n, counts[c], note_share, &s), KILN_KERNEL_OK);
            for (int64_t i = 0; i < COUNT_MAX; i++) assert_int_equal(s.times[i], i < counts[c]);
            assert_true(s.calls <= (n == 1 ? 1 : n * KILN_POOL_CHUNKS));
        }
    }
    kiln_pool_destroy(pool);
}

/* The pieces of the largest range, which only have to fit together. */
typedef struct pieces {
    _Atomic int64_t sum, largest_end;
} pieces;

static int32_t add_piece(void *context, int64_t begin, int64_t end, int32_t worker) {
    pieces *p = context;
    (void)worker;
    atomic_fetch_add(&p->sum, end - begin);
    if (end == INT64_MAX) atomic_store(&p->largest_end, end);
    return begin < end ? KILN_KERNEL_OK : KILN_KERNEL_FAILED;
}

static void largest_range_does_not_overflow(void **state) {
    (void)state;
    kiln_pool *pool = create(3, 0);
    pieces p = {0};
    assert_int_equal(kiln_pool_run(pool, 3, INT64_MAX, add_piece, &p), KILN_KERNEL_OK);
    assert_true(p.sum == INT64_MAX);
    assert_true(p.largest_end == INT64_MAX);
    kiln_pool_destroy(pool);
}

/* One worker is held up in its first chunk until all else is done. */
typedef struct stalled {
    int32_t worker;
    int64_t iterations;
    _Atomic int64_t done;
    _Atomic bool held;
} stalled;

static int32_t hold_up(void *context, int64_t begin, int64_t end, int32_t worker) {
    stalled *s = context;
    if (worker == s->worker && !atomic_exchange(&s->held, true))
        while (atomic_load(&s->done) + end - begin < s->iterations) sched_yield();
    if (worker != s->worker) /* it must get a chunk at all */
        while (!atomic_load(&s->held)) sched_yield();
    atomic_fetch_add(&s->done, end - begin);
    return KILN_KERNEL_OK;
}

static void others_run_what_a_worker_has_not_begun(void **state) {
    (void)state;
    kiln_pool *pool = create(WORKERS, 0);
    for (int32_t w = 0; w < (int32_t)WORKERS; w++) {
        stalled s = {.worker = w, .iterations = 100};
        assert_int_equal(kiln_pool_run(pool, WORKERS, s.iterations, hold_up, &s), KILN_KERNEL_OK);
        assert_true(s.done == s.iterations);
    }
    kiln_pool_destroy(pool);
}

static void empty_loop_calls_nobody(void **state) {
    (void)state;
    kiln_pool *pool = create(2, 0);
    shares s = {.failing_worker = -1};
    assert_int_equal(kiln_pool_run(pool, 2, 0, note_share, &s), KILN_KERNEL_OK);
    assert_int_equal(kiln_pool_run(pool, 2, -5, note_share, &s), KILN_KERNEL_OK);
    assert_int_equal(s.calls, 0);
    kiln_pool_destroy(pool);
}

static int32_t fail_at(void *context, int64_t begin, int64_t end, int32_t worker) {
    shares *s = context;
    (void)worker;
    note_share(s, begin, end, -1);
    return begin <= s->failing_worker && s->failing_worker < end ? 40 : KILN_KERNEL_OK;
}

static void failure_anywhere_is_returned_and_all_finish(void **state) {
    (void)state;
    kiln_pool *pool = create(WORKERS, 0);
    for (int32_t at = 0; at < 100; at += 9) {
        shares s = {.failing_worker = at};
        assert_int_equal(kiln_pool_run(pool, WORKERS, 100, fail_at, &s), 40);
        assert_int_equal(s.calls, WORKERS * KILN_POOL_CHUNKS);
    }
    shares s = {.failing_worker = -1}; /* and is forgotten */
    assert_int_equal(kiln_pool_run(pool, WORKERS, 100, note_share, &s), KILN_KERNEL_OK);
    kiln_pool_destroy(pool);
}

typedef struct nest {
    kiln_pool *pool;
    _Atomic int32_t inner_status;
    shares inner;
} nest;

static int32_t run_inside(void *context, int64_t begin, int64_t end, int32_t worker) {
    nest *n = context;
    (void)begin, (void)end, (void)worker;
    atomic_store(&n->inner_status, kiln_pool_run(n->pool, 2, 10, note_share, &n->inner));
    return KILN_KERNEL_OK;
}

static void loop_inside_a_loop_is_refused(void **state) {
    (void)state;
    nest n = {.pool = create(2, 0), .inner = {.failing_worker = -1}};
    assert_int_equal(kiln_pool_run(n.pool, 2, 10, run_inside, &n), KILN_KERNEL_OK);
    assert_int_equal(n.inner_status, KILN_KERNEL_FAILED);
    assert_int_equal(n.inner.calls, 0);
    kiln_pool_destroy(n.pool);
}

typedef struct sum {
    int64_t part[WORKERS];
    bool yield;
} sum;

static int32_t add_up(void *context, int64_t begin, int64_t end, int32_t worker) {
    sum *s = context;
    if (s->yield && worker == 0) sched_yield();
    for (int64_t i = begin; i < end; i++)
        s->part[worker] += i; /* a plain write: each loop must be over before the next begins */
    return KILN_KERNEL_OK;
}

/* Many short loops of changing width; with spin_count 1 the workers go to sleep in nearly all of
 * them, with the default in nearly none. */
static void many_loops(uint32_t spin_count, uint32_t rounds) {
    kiln_pool *pool = create(WORKERS, spin_count);
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t n = 1 + round % WORKERS;
        sum s = {.yield = round % 7 == 0};
        assert_int_equal(kiln_pool_run(pool, n, 100, add_up, &s), KILN_KERNEL_OK);
        int64_t total = 0;
        for (uint32_t w = 0; w < n; w++) total += s.part[w];
        assert_int_equal(total, 4950);
    }
    kiln_pool_destroy(pool);
}

static void sleeping_workers_are_woken(void **state) {
    (void)state;
    many_loops(1, 3000);
}

static void spinning_workers_keep_up(void **state) {
    (void)state;
    many_loops(200, 3000);
}

static void running_allocates_nothing(void **state) {
    (void)state;
    kiln_pool *pool = create(WORKERS, 1);
    sum s = {.yield = false};
    uint64_t before = kiln_alloc_count();
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(kiln_pool_run(pool, WORKERS, 100, add_up, &s), KILN_KERNEL_OK);
    assert_int_equal(kiln_alloc_count(), before);
    kiln_pool_destroy(pool);
}

/* Worker 0 waits for worker 1, which so takes the other chunk of two. */
static int32_t note_core(void *context, int64_t begin, int64_t end, int32_t worker) {
    (void)begin, (void)end;
    _Atomic int *pinned = context;
    cpu_set_t set;
    if (worker == 1 && sched_getaffinity(0, sizeof set, &set) == 0)
        atomic_store(pinned, CPU_COUNT(&set) == 1 && CPU_ISSET(0, &set) ? 1 : -1);
    while (worker == 0 && atomic_load(pinned) == 0) sched_yield();
    return KILN_KERNEL_OK;
}

static void worker_stays_on_its_core(void **state) {
    (void)state;
    cpu_set_t ours;
    assert_int_equal(sched_getaffinity(0, sizeof ours, &ours), 0);
    if (!CPU_ISSET(0, &ours)) skip_because("this process may not run on core 0");
    const uint32_t core[2] = {0, 0};
    kiln_pool *pool = NULL;
    kiln_pool_options options = {.worker_count = 2, .core = core};
    assert_null(kiln_pool_create(&options, &pool));
    _Atomic int pinned = 0;
    assert_int_equal(kiln_pool_run(pool, 2, 2, note_core, &pinned), KILN_KERNEL_OK);
    assert_int_equal(pinned, 1);
    kiln_pool_destroy(pool);
}

static void impossible_pool_is_refused(void **state) {
    (void)state;
    const uint32_t far_core[2] = {0, 1u << 30};
    const kiln_pool_options wrong[] = {{.worker_count = 0},
                                       {.worker_count = KILN_POOL_WORKERS_MAX + 1},
                                       {.worker_count = 2, .core = far_core}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wrong); i++) {
        kiln_pool *pool = NULL;
        kiln_status st = kiln_pool_create(&wrong[i], &pool);
        assert_int_equal(kiln_status_code(st), KILN_INVALID_ARGUMENT);
        kiln_status_free(st);
        assert_null(pool);
    }
    kiln_pool_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_iteration_is_run_once_in_few_pieces),
        cmocka_unit_test(largest_range_does_not_overflow),
        cmocka_unit_test(others_run_what_a_worker_has_not_begun),
        cmocka_unit_test(empty_loop_calls_nobody),
        cmocka_unit_test(failure_anywhere_is_returned_and_all_finish),
        cmocka_unit_test(loop_inside_a_loop_is_refused),
        cmocka_unit_test(sleeping_workers_are_woken),
        cmocka_unit_test(spinning_workers_keep_up),
        cmocka_unit_test(running_allocates_nothing),
        cmocka_unit_test(worker_stays_on_its_core),
        cmocka_unit_test(impossible_pool_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
