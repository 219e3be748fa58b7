/* The only source of randomness in Kiln's decisions: a seeded, splittable generator (xoshiro256**
 * seeded by splitmix64, Blackman and Vigna 2018). Same seed, same numbers, on every machine. */
#ifndef KILN_BASE_RAND_H
#define KILN_BASE_RAND_H

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "base/status.h"

typedef struct kiln_rand {
    uint64_t state[4];
} kiln_rand;

/* The same seed gives the same numbers on every machine. */
void kiln_rand_init(kiln_rand *r, uint64_t seed);
/* An independent generator named by `stream`; `r` does not advance. */
kiln_rand kiln_rand_split(const kiln_rand *r, uint64_t stream);
uint64_t kiln_rand_u64(kiln_rand *r);
/* Uniform in [0, bound); bound > 0. No modulo bias. */
uint64_t kiln_rand_below(kiln_rand *r, uint64_t bound);
int64_t kiln_rand_range(kiln_rand *r, int64_t low, int64_t high); /* inclusive */
double kiln_rand_unit(kiln_rand *r);                              /* [0, 1) */
double kiln_rand_normal(kiln_rand *r);                            /* mean 0, deviation 1 */

/* Unpredictable bytes from the operating system, for tokens and identities. */
KILN_MUST_USE kiln_status kiln_rand_system(void *out_bytes, size_t size);

#endif
