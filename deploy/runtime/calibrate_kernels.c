#include "deploy/runtime/calibrate_kernels.h"

#include <stdbool.h>

#include "base/macros.h"
#include "base/target.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__) || defined(__arm__)
#include <sys/auxv.h>
#define HWCAP_NEON (1UL << 12) /* the kernel's bit for it, on ARM */
#define HWCAP_DOT (1UL << 20)  /* ASIMDDP, on AArch64 */
#endif

/* A compiler barrier: loads are repeated, stores are done. */
#define FORGET() __asm__ volatile("" ::: "memory")
/* Hides the value from the compiler, and makes it appear used. */
#define KEEP(letter, value) __asm__ volatile("" : "+" letter(value));
#define USE(letter, value) __asm__ volatile("" ::letter(value));
#define VALUE(type, expression)         \
    {                                   \
        const type value_ = expression; \
        USE(REGISTER, value_)           \
    }

/* Unrolled by hand: a loop would be measured, too. */
#define EIGHT(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define TWELVE(M) EIGHT(M) M(8) M(9) M(10) M(11)

void kiln_calibrate_additions(uint32_t count, char *memory) {
    uint64_t sum = count;
    (void)memory;
    for (uint32_t round = 0; round < count; round++) {
#define STEP(i)   \
    sum += i + 1; \
    KEEP("r", sum) /* or the compiler merges them */
        EIGHT(STEP)
#undef STEP
    }
}

void *const *kiln_calibrate_chase(void *const *at, uint32_t steps) {
    for (uint32_t i = 0; i < steps; i++) at = *at;
    KEEP("r", at)
    return at;
}

typedef void kernel(uint32_t count, char *memory);
typedef void reader(const char *data, size_t size_bytes);

/* Kernels of one width. NULL: there is no such instruction. */
typedef struct level {
    kernel *multiply_add, *chain, *load, *store, *forward, *mix;
    reader *read;
    kernel *divide, *gather, *widen_f16, *widen_bf16, *widen_i8, *dot;
    uint32_t lanes;
} level;

/* `count` rounds of eight values of `type`, each computed by `expression` from another line `p`. */
#define VALUES(name, attribute, type, expression)              \
    attribute static void name(uint32_t count, char *memory) { \
        for (uint32_t round = 0; round < count; round++) {     \
            const char *p = memory;                            \
            EIGHT_OF(type, expression)                         \
            USE("r", p)                                        \
            FORGET();                                          \
        }                                                      \
    }
#define ONE_OF(type, expression) \
    VALUE(type, expression)      \
    p += 64;
#define EIGHT_OF(type, expression) \
    ONE_OF(type, expression)       \
    ONE_OF(type, expression)       \
    ONE_OF(type, expression)       \
    ONE_OF(type, expression)       \
    ONE_OF(type, expression)       \
    ONE_OF(type, expression) ONE_OF(type, expression) ONE_OF(type, expression)
/* Eight sums, of which `statement`(i) adds to sum##i. */
#define SUMS(name, attribute, type, statement)                                                     \
    attribute static void name(uint32_t count, char *memory) {                                     \
        type factor = {0}, sum0 = {0}, sum1 = {0}, sum2 = {0}, sum3 = {0}, sum4 = {0}, sum5 = {0}, \
             sum6 = {0}, sum7 = {0};                                                               \
        (void)memory;                                                                              \
        KEEP(REGISTER, factor)                                                                     \
        for (uint32_t round = 0; round < count; round++) {                                         \
            EIGHT(statement)                                                                       \
        }                                                                                          \
    }

#if defined(__x86_64__)

#define ATTRIBUTE_AVX512 KILN_TARGET("avx512f")
#define REGISTER "v"
#define NAME(x) x##_avx512
#define ATTRIBUTE ATTRIBUTE_AVX512
#define VECTOR __m512
#define SET _mm512_set1_ps
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define ADD_PRODUCT(s)                    \
    s = _mm512_fmadd_ps(s, factor, step); \
    KEEP("v", s)
#include "deploy/runtime/calibrate_kernels.def"
VALUES(divide_avx512, ATTRIBUTE_AVX512, __m512, _mm512_set1_ps(1.0F) / _mm512_loadu_ps(p))
VALUES(gather_avx512, ATTRIBUTE_AVX512, __m512,
       _mm512_mask_i32gather_ps(_mm512_setzero_ps(), 0xffff,
                                _mm512_setr_epi32(0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160,
                                                  176, 192, 208, 224, 240),
                                p, 4))
VALUES(widen_f16_avx512, ATTRIBUTE_AVX512, __m512,
       _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)))
VALUES(widen_bf16_avx512, ATTRIBUTE_AVX512, __m512i,
       _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p)), 16))
VALUES(widen_i8_avx512, ATTRIBUTE_AVX512, __m512,
       _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p))))
#define STEP(i)                                           \
    sum##i = _mm512_dpbusd_epi32(sum##i, factor, factor); \
    KEEP("v", sum##i)
SUMS(dot_avx512, KILN_TARGET("avx512f,avx512vnni"), __m512i, STEP)
#undef STEP
#undef REGISTER

#define ATTRIBUTE_AVX2 KILN_TARGET("avx2,fma")
#define REGISTER "x"
#define NAME(x) x##_avx2
#define ATTRIBUTE ATTRIBUTE_AVX2
#define VECTOR __m256
#define SET _mm256_set1_ps
#define LOAD(p) _mm256_loadu_ps((const float *)(p))
#define STORE(p, v) _mm256_storeu_ps((float *)(p), v)
#define ADD_PRODUCT(s)                    \
    s = _mm256_fmadd_ps(s, factor, step); \
    KEEP("x", s)
#include "deploy/runtime/calibrate_kernels.def"
VALUES(divide_avx2, ATTRIBUTE_AVX2, __m256,
       _mm256_set1_ps(1.0F) / _mm256_loadu_ps((const float *)p))
VALUES(gather_avx2, ATTRIBUTE_AVX2, __m256,
       _mm256_mask_i32gather_ps(_mm256_setzero_ps(), (const float *)p,
                                _mm256_setr_epi32(0, 16, 32, 48, 64, 80, 96, 112),
                                _mm256_castsi256_ps(_mm256_set1_epi32(-1)), 4))
VALUES(widen_f16_avx2, KILN_TARGET("avx2,f16c"), __m256,
       _mm256_cvtph_ps(_mm_loadu_si128((const void *)p)))
VALUES(widen_bf16_avx2, ATTRIBUTE_AVX2, __m256i,
       _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16))
VALUES(widen_i8_avx2, ATTRIBUTE_AVX2, __m256,
       _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p))))
#define STEP(i)                                 \
    sum##i = _mm256_madd_epi16(sum##i, factor); \
    KEEP("x", sum##i)
SUMS(dot_avx2, ATTRIBUTE_AVX2, __m256i, STEP)
#undef STEP

#define NAME(x) x##_sse2
#define ATTRIBUTE
#define VECTOR __m128
#define SET _mm_set1_ps
#define LOAD(p) _mm_loadu_ps((const float *)(p))
#define STORE(p, v) _mm_storeu_ps((float *)(p), v)
#define ADD_PRODUCT(s)                           \
    s = _mm_add_ps(_mm_mul_ps(s, factor), step); \
    KEEP("x", s)
#include "deploy/runtime/calibrate_kernels.def"
VALUES(divide_sse2, , __m128, _mm_set1_ps(1.0F) / _mm_loadu_ps((const float *)p))
VALUES(gather_sse2, , __m128,
       _mm_setr_ps(*(const float *)p, *(const float *)(p + 64), *(const float *)(p + 128),
                   *(const float *)(p + 192)))
VALUES(widen_bf16_sse2, , __m128i,
       _mm_unpacklo_epi16(_mm_setzero_si128(), _mm_loadl_epi64((const void *)p)))

#define LEVEL(name, lanes_)               \
    {.multiply_add = multiply_add_##name, \
     .chain = chain_##name,               \
     .load = load_##name,                 \
     .store = store_##name,               \
     .forward = forward_##name,           \
     .mix = mix_##name,                   \
     .read = read_##name,                 \
     .divide = divide_##name,             \
     .gather = gather_##name,             \
     .widen_bf16 = widen_bf16_##name,     \
     .lanes = (lanes_)}

static level pick_level(void) {
    const uint32_t limit = kiln_target_native_limit(); /* kernels obey the limit as well */
    level found = LEVEL(sse2, 4);
    if ((!limit || limit >= 4) && __builtin_cpu_supports("avx512f")) {
        found = (level)LEVEL(avx512, 16);
        found.widen_f16 = widen_f16_avx512;
        found.widen_i8 = widen_i8_avx512;
        if (!limit && __builtin_cpu_supports("avx512vnni")) found.dot = dot_avx512;
    } else if ((!limit || limit >= 3) && __builtin_cpu_supports("avx2") &&
               __builtin_cpu_supports("fma")) {
        found = (level)LEVEL(avx2, 8);
        if (__builtin_cpu_supports("f16c")) found.widen_f16 = widen_f16_avx2;
        found.widen_i8 = widen_i8_avx2;
        found.dot = dot_avx2;
    }
    return found;
}

#elif defined(__aarch64__) || defined(__arm__)

typedef float neon __attribute__((vector_size(16)));
typedef int8_t bytes __attribute__((vector_size(16)));
#if defined(__aarch64__)
#define ATTRIBUTE_NEON
#define PRODUCT_TEXT "fmla %0.4s, %1.4s, %2.4s"
#define HAS_NEON true
#else
#define ATTRIBUTE_NEON KILN_TARGET("fpu=neon")
#define PRODUCT_TEXT "vmla.f32 %q0, %q1, %q2"
#define HAS_NEON ((getauxval(AT_HWCAP) & HWCAP_NEON) != 0)
#endif

#define REGISTER "w"
#define NAME(x) x##_neon
#define ATTRIBUTE ATTRIBUTE_NEON
#define VECTOR neon
#define SET(x) ((neon){x, x, x, x})
#define LOAD(p) (*(const neon *)(const void *)(p))
#define STORE(p, v) (*(neon *)(void *)(p) = (v))
#define ADD_PRODUCT(s) __asm__ volatile(PRODUCT_TEXT : "+w"(s) : "w"(factor), "w"(step));
#include "deploy/runtime/calibrate_kernels.def"
VALUES(gather_neon, ATTRIBUTE_NEON, neon,
       ((neon){*(const float *)(const void *)p, *(const float *)(const void *)(p + 64),
               *(const float *)(const void *)(p + 128), *(const float *)(const void *)(p + 192)}))
#if defined(__aarch64__)
#define ONE ((neon){1, 1, 1, 1})
static inline neon widened_f16(const char *p) {
    neon value;
    __asm__("ldr %d0, %1\n fcvtl %0.4s, %0.4h"
            : "=w"(value)
            : "m"(*(const uint64_t *)(const void *)p));
    return value;
}
static inline neon widened_bf16(const char *p) {
    neon value;
    __asm__("ldr %d0, %1\n shll %0.4s, %0.4h, #16"
            : "=w"(value)
            : "m"(*(const uint64_t *)(const void *)p));
    return value;
}
static inline neon widened_i8(const char *p) {
    neon value;
    __asm__("ldr %s0, %1\n sshll %0.8h, %0.8b, #0\n sshll %0.4s, %0.4h, #0\n scvtf %0.4s, %0.4s"
            : "=w"(value)
            : "m"(*(const uint32_t *)(const void *)p));
    return value;
}
VALUES(divide_neon, , neon, ONE / *(const neon *)(const void *)memory)
VALUES(widen_f16_neon, , neon, widened_f16(p))
VALUES(widen_bf16_neon, , neon, widened_bf16(p))
VALUES(widen_i8_neon, , neon, widened_i8(p))
#define STEP(i) __asm__ volatile("sdot %0.4s, %1.16b, %1.16b" : "+w"(sum##i) : "w"(factor));
SUMS(dot_neon, KILN_TARGET("arch=armv8.2-a+dotprod"), bytes, STEP)
#undef STEP
#endif

static level pick_level(void) {
    if (!HAS_NEON) return (level){0};
    level found = {.multiply_add = multiply_add_neon,
                   .chain = chain_neon,
                   .load = load_neon,
                   .store = store_neon,
                   .forward = forward_neon,
                   .mix = mix_neon,
                   .read = read_neon,
                   .gather = gather_neon,
                   .lanes = 4};
#if defined(__aarch64__)
    found.divide = divide_neon;
    found.widen_f16 = widen_f16_neon;
    found.widen_bf16 = widen_bf16_neon;
    found.widen_i8 = widen_i8_neon;
    if (getauxval(AT_HWCAP) & HWCAP_DOT) found.dot = dot_neon;
#endif
    return found;
}

#else
/* Code for this processor is scalar: vectors are not measured. */
static level pick_level(void) { return (level){0}; }
#endif

/* For processors without measured vectors. */
static void read_words(const char *data, size_t size_bytes) {
    for (const uint64_t *p = (const void *)data;
         p < (const uint64_t *)(const void *)(data + size_bytes); p += 8) {
#define STEP(i)                     \
    {                               \
        const uint64_t word = p[i]; \
        USE("r", word)              \
    }
        EIGHT(STEP)
#undef STEP
    }
}

uint32_t kiln_calibrate_lanes(void) { return pick_level().lanes; }

kiln_calibrate_kernel kiln_calibrate_kernel_of(kiln_figure figure) {
    const level l = pick_level();
    switch ((int)figure) {
    case KILN_FIGURE_CLOCK:
    case KILN_FIGURE_WIDE_CLOCK: return (kiln_calibrate_kernel){kiln_calibrate_additions, 8};
    case KILN_FIGURE_VECTOR: return (kiln_calibrate_kernel){l.multiply_add, 12};
    case KILN_FIGURE_LATENCY: return (kiln_calibrate_kernel){l.chain, 8};
    case KILN_FIGURE_LOADS: return (kiln_calibrate_kernel){l.load, 8};
    case KILN_FIGURE_STORES: return (kiln_calibrate_kernel){l.store, 8};
    case KILN_FIGURE_FORWARD: return (kiln_calibrate_kernel){l.forward, 1};
    case KILN_FIGURE_ISSUE: return (kiln_calibrate_kernel){l.mix, 34}; /* plus the loop's two */
    case KILN_FIGURE_DIVIDE: return (kiln_calibrate_kernel){l.divide, 8};
    case KILN_FIGURE_GATHER: return (kiln_calibrate_kernel){l.gather, 8 * l.lanes};
    case KILN_FIGURE_CONVERT_F16: return (kiln_calibrate_kernel){l.widen_f16, 8};
    case KILN_FIGURE_CONVERT_BF16: return (kiln_calibrate_kernel){l.widen_bf16, 8};
    case KILN_FIGURE_CONVERT_I8: return (kiln_calibrate_kernel){l.widen_i8, 8};
    case KILN_FIGURE_DOT: return (kiln_calibrate_kernel){l.dot, 8};
    default: return (kiln_calibrate_kernel){0};
    }
}

void kiln_calibrate_read(const char *data, size_t size_bytes) {
    const level l = pick_level();
    if (l.read)
        l.read(data, size_bytes);
    else
        read_words(data, size_bytes);
}
