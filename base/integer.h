/* Arithmetic on integers that C lacks. */
#ifndef KILN_BASE_INTEGER_H
#define KILN_BASE_INTEGER_H

#include <stdint.h>

/* The least multiple of `alignment` (> 0) that is at least `value`, in the type of the two; the sum
 * must not overflow. Evaluates both more than once. */
#define KILN_ALIGN_UP(value, alignment) (((value) + (alignment) - 1) / (alignment) * (alignment))

/* Division that rounds towards minus infinity; x / 0 = 0 and x mod 0 = 0. INT64_MIN / -1 wraps. */
int64_t kiln_floordiv(int64_t a, int64_t b);
int64_t kiln_floormod(int64_t a, int64_t b);

/* Two's complement addition that wraps on overflow, which C leaves undefined. */
static inline int64_t kiln_wrap_add(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t kiln_wrap_sub(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a - (uint64_t)b);
}
static inline int64_t kiln_wrap_mul(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* n where 2^n is the greatest power of two that is at most `value`; 0 of 0. */
static inline uint32_t kiln_log2(uint32_t value) {
    uint32_t log = 0;
    while (value >> log > 1) log++;
    return log;
}

/* The greatest common divisor of the magnitudes; 0 of 0 and 0, and 1 where it would be 2^63. */
int64_t kiln_gcd(int64_t a, int64_t b);

#endif
