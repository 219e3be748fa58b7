#include "base/rand.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"

static uint64_t splitmix64(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void kiln_rand_init(kiln_rand *r, uint64_t seed) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(r->state); i++) r->state[i] = splitmix64(&seed);
}

kiln_rand kiln_rand_split(const kiln_rand *r, uint64_t stream) {
    uint64_t seed = stream;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(r->state); i++) {
        seed ^= r->state[i];
        seed = splitmix64(&seed);
    }
    kiln_rand child;
    kiln_rand_init(&child, seed);
    return child;
}

static uint64_t rotate_left(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

uint64_t kiln_rand_u64(kiln_rand *r) {
    uint64_t *s = r->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t kiln_rand_below(kiln_rand *r, uint64_t bound) {
    KILN_CHECK(bound > 0);
    /* 2^64 mod bound values at the bottom would be drawn once too often; they are drawn again. */
    uint64_t threshold = (0 - bound) % bound;
    for (;;) {
        uint64_t value = kiln_rand_u64(r);
        if (value >= threshold) return value % bound;
    }
}

int64_t kiln_rand_range(kiln_rand *r, int64_t low, int64_t high) {
    KILN_CHECK(low <= high);
    uint64_t span = (uint64_t)high - (uint64_t)low + 1;
    uint64_t offset = span ? kiln_rand_below(r, span) : kiln_rand_u64(r);
    return (int64_t)((uint64_t)low + offset);
}

double kiln_rand_unit(kiln_rand *r) { return (double)(kiln_rand_u64(r) >> 11) * 0x1.0p-53; }

double kiln_rand_normal(kiln_rand *r) {
    double radius = sqrt(-2.0 * log(1.0 - kiln_rand_unit(r))); /* Box and Muller; 1-u is never 0 */
    return radius * cos(6.283185307179586 * kiln_rand_unit(r));
}

kiln_status kiln_rand_system(void *out_bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        /* The system call: Android's C library has had a function for it since level 28 only. */
        const long got = syscall(SYS_getrandom, (uint8_t *)out_bytes + done, size - done, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return KILN_ERROR(UNAVAILABLE, "no random bytes from the system: %s", strerror(errno));
        done += (size_t)got;
    }
    return KILN_OK;
}
