#include "deploy/runtime/peak.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/target.h"

/* Two FMA units with a latency of four or five cycles need ten sums at once; twelve leave room in
 * the sixteen registers of AVX2 for the two factors. */
#define PEAK_SUMS 12
/* Five of them find the count. Twice as many take 0.4 ms longer and give the same peak: the median
 * of 300. */
#define PEAK_ROUNDS 12
#define PEAK_ROUND_NS 40000

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__arm__)
#include <sys/auxv.h>
#define HWCAP_NEON (1UL << 12) /* the kernel's bit for it */
#endif

/* Unrolled by hand: a loop would keep the sums in memory and measure that. */
#define PEAK_SUM(sum, i, fma, factor, step) sum[i] = fma(sum[i], factor, step);
#define PEAK_FOUR_SUMS(sum, i, fma, factor, step) \
    PEAK_SUM(sum, i, fma, factor, step)           \
    PEAK_SUM(sum, (i) + 1, fma, factor, step)     \
    PEAK_SUM(sum, (i) + 2, fma, factor, step) PEAK_SUM(sum, (i) + 3, fma, factor, step)
#define PEAK_EACH_SUM(sum, fma, factor, step) \
    PEAK_FOUR_SUMS(sum, 0, fma, factor, step) \
    PEAK_FOUR_SUMS(sum, 4, fma, factor, step) PEAK_FOUR_SUMS(sum, 8, fma, factor, step)

/* `count` rounds of PEAK_SUMS independent multiply-adds; returns a value that depends on all of
 * them. The factors keep the sums small and away from 0, so that no denormal or infinity slows the
 * loop down. */
#define PEAK_KERNEL(name, attribute, vector, set, multiply_add, add, lowest)    \
    attribute static float name(uint32_t count) {                               \
        vector sum[PEAK_SUMS];                                                  \
        const vector factor = set(0.999F), step = set(0.001F);                  \
        for (int i = 0; i < PEAK_SUMS; i++) sum[i] = set((float)i / PEAK_SUMS); \
        for (uint32_t round = 0; round < count; round++) {                      \
            PEAK_EACH_SUM(sum, multiply_add, factor, step)                      \
        }                                                                       \
        for (int i = 1; i < PEAK_SUMS; i++) sum[0] = add(sum[0], sum[i]);       \
        return lowest(sum[0]);                                                  \
    }

typedef struct peak_kernel {
    float (*run)(uint32_t count);
    uint32_t lanes;
} peak_kernel;

#if defined(__x86_64__)
#define SSE_MULTIPLY_ADD(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
PEAK_KERNEL(peak_avx512, KILN_TARGET("avx512f"), __m512, _mm512_set1_ps, _mm512_fmadd_ps,
            _mm512_add_ps, _mm512_cvtss_f32)
PEAK_KERNEL(peak_avx2, KILN_TARGET("avx2,fma"), __m256, _mm256_set1_ps, _mm256_fmadd_ps,
            _mm256_add_ps, _mm256_cvtss_f32)
PEAK_KERNEL(peak_sse2, KILN_TARGET("sse2"), __m128, _mm_set1_ps, SSE_MULTIPLY_ADD, _mm_add_ps,
            _mm_cvtss_f32)

static peak_kernel pick_kernel(void) {
    const uint32_t limit = kiln_target_native_limit(); /* kernels obey the limit as well */
    if ((!limit || limit >= 4) && __builtin_cpu_supports("avx512f"))
        return (peak_kernel){peak_avx512, 16};
    if ((!limit || limit >= 3) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (peak_kernel){peak_avx2, 8};
    return (peak_kernel){peak_sse2, 4};
}
#define READ_ATTRIBUTE
#elif defined(__aarch64__) || defined(__arm__)
/* The multiply-add of generated code: it accumulates in place, so no register is copied. */
#if defined(__aarch64__)
#define NEON_ATTRIBUTE
#define NEON_TEXT "fmla %0.4s, %1.4s, %2.4s"
#define HAS_NEON true
#else
#define NEON_ATTRIBUTE KILN_TARGET("fpu=neon")
#define NEON_TEXT "vmla.f32 %q0, %q1, %q2"
#define HAS_NEON ((getauxval(AT_HWCAP) & HWCAP_NEON) != 0)
#endif
typedef float neon __attribute__((vector_size(16)));
NEON_ATTRIBUTE static inline neon neon_multiply_add(neon sum, neon factor, neon step) {
    __asm__ volatile(NEON_TEXT : "+w"(sum) : "w"(factor), "w"(step));
    return sum;
}
#define NEON_SET(x) ((neon){x, x, x, x})
#define NEON_ADD(a, b) ((a) + (b))
#define NEON_LOWEST(v) ((v)[0])
PEAK_KERNEL(peak_neon, NEON_ATTRIBUTE, neon, NEON_SET, neon_multiply_add, NEON_ADD, NEON_LOWEST)

static peak_kernel pick_kernel(void) {
    return HAS_NEON ? (peak_kernel){peak_neon, 4} : (peak_kernel){0};
}
#define READ_ATTRIBUTE NEON_ATTRIBUTE
#else
#define SCALAR_SET(x) (x)
#define SCALAR_MULTIPLY_ADD(a, b, c)                             \
    ((a) * (b) + (c)) /* one instruction if the processor has it \
                       */
#define SCALAR_ADD(a, b) ((a) + (b))
PEAK_KERNEL(peak_scalar, , float, SCALAR_SET, SCALAR_MULTIPLY_ADD, SCALAR_ADD, SCALAR_SET)

static peak_kernel pick_kernel(void) { return (peak_kernel){peak_scalar, 1}; }
#define READ_ATTRIBUTE
#endif

double kiln_peak_flops(void) {
    const peak_kernel kernel = pick_kernel();
    const double flops_per_count = 2.0 * PEAK_SUMS * kernel.lanes;
    volatile float sink = 0; /* without it the compiler removes the work */
    uint32_t count = 1000;
    double best = 0;
    for (int round = 0; kernel.run && round < PEAK_ROUNDS; round++) {
        uint64_t begin = kiln_clock_precise_ns();
        sink += kernel.run(count);
        uint64_t elapsed = KILN_MAX(kiln_clock_precise_ns() - begin, 1);
        best = KILN_MAX(best, flops_per_count * count / (double)elapsed * 1e9);
        /* The first rounds find the count, and let the clock rise. */
        if (elapsed < PEAK_ROUND_NS / 2) count *= 2;
    }
    return best;
}

#define READ_STREAMS 8u
#define READ_NS 4000000u
#define READ_PASSES 8

/* Sixteen bytes of a register, at any alignment. */
typedef uint64_t lanes __attribute__((vector_size(16), aligned(1)));

/* One pass, in eight sums so that no addition waits for another; two loads of 16 bytes a cycle is
 * what the first two levels of cache of these processors deliver at most. */
READ_ATTRIBUTE static uint64_t read_once(const lanes *data, size_t count) {
    lanes sum[READ_STREAMS] = {{0}};
    for (size_t i = 0; i + READ_STREAMS <= count; i += READ_STREAMS) {
        sum[0] += data[i];
        sum[1] += data[i + 1];
        sum[2] += data[i + 2];
        sum[3] += data[i + 3];
        sum[4] += data[i + 4];
        sum[5] += data[i + 5];
        sum[6] += data[i + 6];
        sum[7] += data[i + 7];
    }
    for (uint32_t k = 1; k < READ_STREAMS; k++) sum[0] += sum[k];
    return sum[0][0];
}

double kiln_peak_read(const void *data, size_t size_bytes) {
    volatile uint64_t sink = 0; /* without it the compiler removes the work */
    uint64_t start_ns = kiln_clock_precise_ns(), end_ns = start_ns + READ_NS;
    double best = 0;
    for (int pass = 0; pass < READ_PASSES || kiln_clock_precise_ns() < end_ns; pass++) {
        uint64_t begin = kiln_clock_precise_ns();
        sink += read_once(data, size_bytes / sizeof(lanes));
        uint64_t elapsed = KILN_MAX(kiln_clock_precise_ns() - begin, 1);
        /* The first pass only loads the memory. */
        if (pass) best = KILN_MAX(best, (double)size_bytes / (double)elapsed * 1e9);
    }
    return best;
}
