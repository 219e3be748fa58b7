/* The half of calibrations that runs and times kernels. */
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/rand.h"
#include "deploy/runtime/calibrate.h"
#include "deploy/runtime/calibrate_kernels.h"
#include "deploy/runtime/pool.h"

#define LIMIT_NS (UINT64_C(2400) * KILN_NS_PER_MS) /* no kernel starts after that */
#define ROUND_NS                                               \
    25000u               /* of a kernel: far above the clock's \
                          * resolution */
#define WARM_NS 100000u  /* of multiply-adds before each WIDE_CLOCK */
#define RISE_NS 3000000u /* until the processor's clock has risen */
#define COUNT_MAX (UINT32_C(1) << 24)
/* Sizes of memory from here, four an octave up to the second and two beyond. */
#define CURVE_FIRST 16384.0
#define CURVE_DENSE_LAST 4194304.0
#define CURVE_LAST 67108864.0
#define CHASE_STEPS 16384u
#define CHASE_ROUNDS 4
#define SWEEPS 3       /* over all sizes, so that a short disturbance affects one of them */
#define LINE_BYTES 64u /* or a part of one */
#define PAGE_BYTES 4096u
/* Pages whose lines are visited in turns: the core caches the translations of so many, and the
 * prefetcher finds no order in their lines. */
#define PAGES_AT_ONCE 16u
#define READ_ROUNDS 16
#define READ_LEAST_NS 40000u
#define FORKS 20u
/* For all rounds: where another program has the second core, one fork takes milliseconds. */
#define FORK_LIMIT_NS (UINT64_C(100) * KILN_NS_PER_MS)
#define SEED 1

typedef struct bench {
    kiln_calibrate_readings *out;
    kiln_arena arena;
    uint64_t end_ns;
    char *memory; /* of kernels */
    char *large;  /* of reads and chases: [large_bytes] */
    size_t large_bytes;
} bench;

static bool is_late(const bench *b) { return kiln_clock_precise_ns() > b->end_ns; }

static void add(kiln_calibrate_times *t, double ns) {
    if (t->count < KILN_CALIBRATE_ROUNDS) t->ns[t->count++] = KILN_MAX(ns, 1);
}

static double time_of(const bench *b, const kiln_calibrate_kernel *k, uint32_t count) {
    const uint64_t begin_ns = kiln_clock_precise_ns();
    k->run(count, b->memory);
    return (double)(kiln_clock_precise_ns() - begin_ns);
}

/* The count for which a round takes about ROUND_NS. */
static uint32_t count_of(const bench *b, const kiln_calibrate_kernel *k) {
    uint32_t count = 64;
    while (count < COUNT_MAX && time_of(b, k, count) < ROUND_NS / 2.0) count *= 2;
    return count;
}

static void run_for(const bench *b, const kiln_calibrate_kernel *k, uint64_t ns) {
    const uint64_t end_ns = kiln_clock_precise_ns() + ns;
    do k->run(256, b->memory);
    while (kiln_clock_precise_ns() < end_ns);
}

static void measure_clock(const bench *b) {
    kiln_calibrate_times *t = &b->out->of[KILN_FIGURE_CLOCK];
    const kiln_calibrate_kernel k = kiln_calibrate_kernel_of(KILN_FIGURE_CLOCK);
    run_for(b, &k, RISE_NS);
    const uint32_t count = count_of(b, &k);
    t->work = k.work * count;
    for (uint32_t i = 0; i < KILN_CALIBRATE_ROUNDS; i++) add(t, time_of(b, &k, count));
}

/* In turns, so that a short disturbance affects one round of each. */
static void measure_instructions(const bench *b) {
    kiln_calibrate_kernel kernel[KILN_FIGURE_COUNT];
    uint32_t count[KILN_FIGURE_COUNT];
    for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++) {
        kernel[i] = kiln_calibrate_kernel_of((kiln_figure)i);
        if (i == KILN_FIGURE_CLOCK || !kernel[i].run) continue;
        count[i] = count_of(b, &kernel[i]);
        b->out->of[i].work = kernel[i].work * count[i];
    }
    const kiln_calibrate_kernel *wide = &kernel[KILN_FIGURE_VECTOR];
    for (uint32_t round = 0; round < KILN_CALIBRATE_ROUNDS && !is_late(b); round++)
        for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++) {
            if (i == KILN_FIGURE_CLOCK || !kernel[i].run) continue;
            if (i == KILN_FIGURE_WIDE_CLOCK && wide->run) run_for(b, wide, WARM_NS);
            add(&b->out->of[i], time_of(b, &kernel[i], count[i]));
        }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void shuffle(uint32_t *order, uint32_t count, kiln_rand *rand) {
    for (uint32_t i = 0; i < count; i++) order[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        const uint32_t k = (uint32_t)kiln_rand_below(rand, i), kept = order[i - 1];
        order[i - 1] = order[k];
        order[k] = kept;
    }
}

/* A ring through all lines of the first `bytes`, pages and lines in random order: lines are missed,
 * but translations of addresses seldom. */
static void link_lines(const bench *b, size_t bytes, uint32_t *pages) {
    enum { LINES = PAGE_BYTES / LINE_BYTES };
    const uint32_t page_count = (uint32_t)(bytes / PAGE_BYTES);
    uint32_t line[LINES * PAGES_AT_ONCE];
    kiln_rand rand;
    void **first = NULL, **last = NULL;
    kiln_rand_init(&rand, SEED);
    shuffle(pages, page_count, &rand);
    for (uint32_t p = 0; p < page_count; p += PAGES_AT_ONCE) {
        const uint32_t count = KILN_MIN(page_count - p, PAGES_AT_ONCE) * LINES;
        shuffle(line, count, &rand);
        for (uint32_t i = 0; i < count; i++) {
            void **at =
                (void **)(void *)(b->large + (size_t)pages[p + line[i] / LINES] * PAGE_BYTES +
                                  (size_t)(line[i] % LINES) * LINE_BYTES);
            if (last)
                *last = at;
            else
                first = at;
            last = at;
        }
    }
    *last = first;
}

/* Nanoseconds from line to line, the minimum of some rounds. */
static double chase_ns(const bench *b, size_t bytes, uint32_t *pages) {
    double least = 0;
    link_lines(b, bytes, pages);
    void *const *at = (void *const *)(void *)(b->large + pages[0] * (size_t)PAGE_BYTES);
    at = kiln_calibrate_chase(at, (uint32_t)KILN_MIN(bytes / LINE_BYTES, 4 * CHASE_STEPS));
    for (int round = 0; round < CHASE_ROUNDS; round++) {
        const uint64_t begin_ns = kiln_clock_precise_ns();
        at = kiln_calibrate_chase(at, CHASE_STEPS);
        const double ns = (double)(kiln_clock_precise_ns() - begin_ns) / CHASE_STEPS;
        if (round == 0 || ns < least) least = ns;
    }
    return least;
}

static void list_sizes(const bench *b) {
    for (double octave = CURVE_FIRST; octave <= CURVE_LAST; octave *= 2)
        for (uint32_t quarter = 4; quarter < 8; quarter += octave < CURVE_DENSE_LAST ? 1 : 2) {
            const double bytes = octave * quarter / 4;
            if (bytes <= (double)b->large_bytes && b->out->point_count < KILN_CALIBRATE_POINTS)
                b->out->point_bytes[b->out->point_count++] = bytes;
        }
}

static void measure_latencies(bench *b) {
    kiln_calibrate_readings *out = b->out;
    uint32_t *pages = KILN_ARENA_ARRAY(&b->arena, uint32_t, b->large_bytes / PAGE_BYTES);
    list_sizes(b);
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (uint32_t i = 0; i < out->point_count; i++) {
            if (sweep > 0 && (out->point_bytes[i] > CURVE_DENSE_LAST || is_late(b))) break;
            const double ns = chase_ns(b, (size_t)out->point_bytes[i], pages);
            out->point_ns[i] = sweep ? KILN_MIN(out->point_ns[i], ns) : ns;
        }
}

/* Repeated for at least READ_LEAST_NS a round: shorter rounds would measure the clock itself. */
static void measure_read(const bench *b, kiln_figure figure, double bytes) {
    kiln_calibrate_times *t = &b->out->of[figure];
    const size_t size = (size_t)KILN_MIN(bytes, (double)b->large_bytes) / PAGE_BYTES * PAGE_BYTES;
    uint32_t passes = 1;
    if (size == 0) return;
    for (int round = 0; round < READ_ROUNDS && !is_late(b); round++) {
        const uint64_t begin_ns = kiln_clock_precise_ns();
        for (uint32_t i = 0; i < passes; i++) kiln_calibrate_read(b->large, size);
        const uint64_t ns = kiln_clock_precise_ns() - begin_ns;
        if (ns < READ_LEAST_NS && passes < COUNT_MAX) {
            passes *= 2;
            round--; /* the first round only loads the memory */
            continue;
        }
        if (round > 0) add(t, (double)ns / passes);
    }
    t->work = (double)size;
}

static void ask_sizes(kiln_calibrate_readings *out) {
#ifdef _SC_LEVEL1_DCACHE_SIZE
    static const int name[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE,
                               _SC_LEVEL3_CACHE_SIZE};
    for (int level = 0; level < 3; level++) {
        const long bytes = sysconf(name[level]);
        if (bytes > 0) out->told_bytes[level] = (double)bytes;
    }
#else
    (void)out; /* this C library reports no cache sizes */
#endif
}

static void measure_reads(const bench *b) {
    kiln_figures caches = {0};
    kiln_calibrate_find_caches(b->out, 1e9, &caches);
    const double l1 = caches.figure[KILN_FIGURE_L1_BYTES], l2 = caches.figure[KILN_FIGURE_L2_BYTES],
                 l3 = caches.figure[KILN_FIGURE_L3_BYTES];
    measure_read(b, KILN_FIGURE_L1_RATE, l1 / 2);
    if (l1 < l2) measure_read(b, KILN_FIGURE_L2_RATE, l2 / 2);
    if (l2 < l3) measure_read(b, KILN_FIGURE_L3_RATE, KILN_MIN(l3 / 2, l2 * 4));
    measure_read(b, KILN_FIGURE_MEMORY_RATE, (double)b->large_bytes);
}

/* ---- the pool -------------------------------------------------------------------------------- */

static int32_t do_nothing(void *context, int64_t begin, int64_t end, int32_t worker) {
    (void)context, (void)begin, (void)end, (void)worker;
    return 0;
}

static void measure_fork(const bench *b) {
    kiln_calibrate_times *t = &b->out->of[KILN_FIGURE_FORK];
    kiln_pool *pool = NULL;
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) return;
    kiln_status st = kiln_pool_create(&(kiln_pool_options){.worker_count = 2}, &pool);
    if (st) {
        kiln_status_free(st); /* no second thread: nothing forks here */
        return;
    }
    t->work = FORKS;
    const uint64_t end_ns = kiln_clock_precise_ns() + FORK_LIMIT_NS;
    for (uint32_t round = 0; round < KILN_CALIBRATE_ROUNDS; round++) {
        const uint64_t begin_ns = kiln_clock_precise_ns();
        if (begin_ns > end_ns) break;
        for (uint32_t i = 0; i < FORKS; i++) kiln_pool_run(pool, 2, 2, do_nothing, NULL);
        add(t, (double)(kiln_clock_precise_ns() - begin_ns));
    }
    kiln_pool_destroy(pool);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* An eighth of the machine's memory at most: boards are small. */
static size_t large_size(void) {
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return (size_t)KILN_MIN(2 * CURVE_LAST, memory / 8) / PAGE_BYTES * PAGE_BYTES;
}

kiln_calibrate_readings kiln_calibrate_measure(void) {
    kiln_calibrate_readings readings = {0};
    bench b = {.out = &readings, .end_ns = kiln_clock_precise_ns() + LIMIT_NS};
    kiln_arena_init(&b.arena, 0);
    b.memory = kiln_arena_alloc_aligned(&b.arena, PAGE_BYTES, KILN_CALIBRATE_MEMORY_BYTES);
    for (uint32_t i = 0; i < KILN_CALIBRATE_MEMORY_BYTES; i += sizeof(float))
        memcpy(b.memory + i, &(float){1.1F}, sizeof(float));
    measure_clock(&b);
    measure_instructions(&b);
    measure_fork(&b);
    b.large_bytes = large_size();
    b.large = kiln_arena_alloc_aligned(&b.arena, PAGE_BYTES, b.large_bytes);
    memset(b.large, 1, b.large_bytes); /* writes, so that pages are distinct: untouched ones share
                                        * one zero page */
    ask_sizes(&readings);
    measure_latencies(&b);
    measure_reads(&b);
    kiln_arena_deinit(&b.arena);
    return readings;
}
