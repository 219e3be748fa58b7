#include "rpc-server/reference_kernel.h"

#include <math.h>
#include <sched.h>

#include "base/clock.h"
#include "base/macros.h"
#include "deploy/runtime/pages.h"
#include "deploy/runtime/peak.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define PAGE_BYTES 4096u /* no machine has smaller ones */

/* ---- Dropping memory from the caches ---- */

#if defined(__x86_64__)
#define CLFLUSHOPT_BIT (1u << 23) /* CPUID leaf 7, EBX */

/* CLFLUSH exists on every x86-64, but each waits for the previous one: 64 KiB would take 30 us. */
static size_t find_line_bytes(void) {
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(ebx & CLFLUSHOPT_BIT)) return 0;
    __get_cpuid(1, &eax, &ebx, &ecx, &edx);
    return (size_t)(ebx >> 8 & 0xff) * 8;
}

static void drop_line(const char *line) {
    __asm__ volatile("clflushopt %0" ::"m"(*line) : "memory");
}

static void await_drops(void) { __asm__ volatile("mfence" ::: "memory"); }
#elif defined(__aarch64__)
/* Linux lets programs clean and invalidate by address (SCTLR_EL1.UCI), and read CTR_EL0. */
static size_t find_line_bytes(void) {
    uint64_t cache_type;
    __asm__("mrs %0, ctr_el0" : "=r"(cache_type));
    return (size_t)4 << (cache_type >> 16 & 15);
}

static void drop_line(const char *line) { __asm__ volatile("dc civac, %0" ::"r"(line) : "memory"); }

static void await_drops(void) { __asm__ volatile("dsb sy" ::: "memory"); }
#else
static size_t find_line_bytes(void) { return 0; }
static void drop_line(const char *line) { (void)line; }
static void await_drops(void) {}
#endif

static void drop_piece(const kiln_reference_kernel *reference, const uint64_t *piece) {
    if (reference->line_bytes == 0) return;
    for (size_t i = 0; i < KILN_REFERENCE_KERNEL_PIECE_BYTES; i += reference->line_bytes)
        drop_line((const char *)piece + i);
    await_drops();
}

/* ---- The parts ---- */

void kiln_reference_kernel_init(kiln_reference_kernel *reference, void *data) {
    *reference = (kiln_reference_kernel){
        .data = data, .line_bytes = find_line_bytes(), .sink = 1, .settled = 1};
    for (size_t i = 0; i < KILN_REFERENCE_KERNEL_BYTES; i += PAGE_BYTES)
        reference->data[i / sizeof *reference->data] = i;
}

/* Six independent chains of three operations; different shifts keep compilers from vectorising
 * them. */
static uint64_t compute(uint64_t start, uint32_t rounds) {
    uint64_t a = start + 1, b = start + 2, c = start + 3, d = start + 4, e = start + 5,
             f = start + 6;
    for (uint32_t i = 0; i < rounds; i++) {
        a ^= a << 13, a += 7;
        b ^= b >> 7, b += 11;
        c ^= c << 17, c += 13;
        d ^= d >> 9, d += 17;
        e ^= e << 5, e += 19;
        f ^= f >> 3, f += 23;
    }
    return a ^ b ^ c ^ d ^ e ^ f;
}

/* Four sums, so that no addition waits for the previous one. */
static uint64_t read_piece(const uint64_t *data) {
    uint64_t sum[4] = {0};
    for (size_t i = 0; i < KILN_REFERENCE_KERNEL_PIECE_BYTES / sizeof *data; i += 4)
        for (size_t k = 0; k < 4; k++) sum[k] += data[i + k];
    return sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
}

/* Touches the piece's pages, so that address translations, which kernels evict, are not timed. */
static uint64_t touch_pages(const uint64_t *data) {
    uint64_t sum = 0;
    for (size_t i = 0; i < KILN_REFERENCE_KERNEL_PIECE_BYTES; i += PAGE_BYTES)
        sum += data[i / sizeof *data];
    return sum;
}

static uint64_t time_compute(uint64_t *sink) {
    const uint64_t begin = kiln_clock_precise_ns();
    *sink ^= compute(*sink, KILN_REFERENCE_KERNEL_ROUNDS);
    return kiln_clock_precise_ns() - begin;
}

/* Of `count` >= 2. */
static double second_least(const double *ns, uint32_t count) {
    double least = ns[0], second = INFINITY;
    for (uint32_t i = 1; i < count; i++) {
        second = KILN_MIN(second, KILN_MAX(least, ns[i]));
        least = KILN_MIN(least, ns[i]);
    }
    return second;
}

static double time_arithmetic(kiln_reference_kernel *reference) {
    double short_ns[KILN_REFERENCE_KERNEL_SHORTS];
    /* Adds a nanosecond, so that the loop ends even if the clock steps coarsely. */
    for (uint64_t spent_ns = 0; spent_ns < KILN_REFERENCE_KERNEL_SETTLE_NS;)
        spent_ns += time_compute(&reference->settled) + 1;
    for (uint32_t i = 0; i < KILN_REFERENCE_KERNEL_SHORTS; i++)
        short_ns[i] = (double)time_compute(&reference->sink) + 1;
    return second_least(short_ns, KILN_REFERENCE_KERNEL_SHORTS);
}

static double time_memory(kiln_reference_kernel *reference) {
    const uint64_t *piece = reference->data + reference->at;
    drop_piece(reference, piece);
    reference->sink ^= touch_pages(piece);
    const uint64_t begin = kiln_clock_precise_ns();
    reference->sink ^= read_piece(piece);
    const uint64_t end = kiln_clock_precise_ns();
    reference->at = (reference->at + KILN_REFERENCE_KERNEL_PIECE_BYTES / sizeof *piece) %
                    (KILN_REFERENCE_KERNEL_BYTES / sizeof *piece);
    return (double)(end - begin) + 1;
}

kiln_reference_kernel_times kiln_reference_kernel_take(kiln_reference_kernel *reference) {
    const double arithmetic_ns = time_arithmetic(reference);
    return (kiln_reference_kernel_times){arithmetic_ns, time_memory(reference)};
}

/* ---- States ---- */

static void pass_over(kiln_reference_kernel *reference) {
    for (size_t i = 0; i < KILN_REFERENCE_KERNEL_BYTES; i += KILN_REFERENCE_KERNEL_PIECE_BYTES)
        reference->sink ^= read_piece(reference->data + i / sizeof *reference->data);
}

kiln_reference_kernel_round kiln_reference_kernel_measure(kiln_reference_kernel *reference) {
    kiln_reference_kernel_round round = {0};
    kiln_clock_wait_until(kiln_clock_ns() + KILN_REFERENCE_KERNEL_PAUSE_NS);
    round.reading[KILN_REFERENCE_KERNEL_AFTER_PAUSE] = kiln_reference_kernel_take(reference);
    round.peak_flops = kiln_peak_flops();
    round.reading[KILN_REFERENCE_KERNEL_AFTER_ARITHMETIC] = kiln_reference_kernel_take(reference);
    pass_over(reference);
    round.reading[KILN_REFERENCE_KERNEL_AFTER_MEMORY] = kiln_reference_kernel_take(reference);
    round.reading[KILN_REFERENCE_KERNEL_AFTER_READING] = kiln_reference_kernel_take(reference);
    return round;
}

static void watch(void *data, uint32_t count, kiln_reference_kernel_round *out_round) {
    kiln_reference_kernel reference;
    kiln_reference_kernel_init(&reference, data);
    for (uint32_t i = 0; i < count; i++) out_round[i] = kiln_reference_kernel_measure(&reference);
}

kiln_status kiln_reference_kernel_watch(uint32_t core, uint32_t count,
                                        kiln_reference_kernel_round *out_round) {
    cpu_set_t before, wanted;
    CPU_ZERO(&wanted);
    CPU_SET(core, &wanted);
    kiln_pages data = {0};
    kiln_status st = kiln_pages_create(KILN_REFERENCE_KERNEL_BYTES, KILN_GUARD_NONE, &data);
    if (!st && (sched_getaffinity(0, sizeof before, &before) != 0 ||
                sched_setaffinity(0, sizeof wanted, &wanted) != 0))
        st = KILN_ERROR(RESOURCE_EXHAUSTED, "cannot pin to core %u for measuring", core);
    if (!st) {
        watch(data.data, count, out_round);
        (void)sched_setaffinity(0, sizeof before, &before); /* these cores were allowed before */
    }
    kiln_pages_destroy(&data);
    return st;
}
