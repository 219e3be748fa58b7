#include "web/attempts.h"

#include <string.h>

#include "base/hash.h"
#include "base/macros.h"

static uint64_t hash_of(const char *address) { return kiln_hash64(address, strlen(address), 0); }

/* The row of that address, or the one to be used for it. */
static uint32_t row_of(const kiln_attempts *attempts, uint64_t address) {
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < KILN_ATTEMPTS_ADDRESSES; i++) {
        if (attempts->row[i].full_at_ns && attempts->row[i].address == address) return i;
        if (attempts->row[i].full_at_ns < attempts->row[oldest].full_at_ns) oldest = i;
    }
    return oldest;
}

bool kiln_attempts_allow(const kiln_attempts *attempts, const char *address, uint64_t now_ns) {
    const uint64_t hash = hash_of(address);
    const uint32_t i = row_of(attempts, hash);
    if (attempts->row[i].address != hash) return true;
    return attempts->row[i].full_at_ns <= now_ns + (KILN_ATTEMPTS_MAX - 1) * KILN_ATTEMPTS_NS;
}

void kiln_attempts_failed(kiln_attempts *attempts, const char *address, uint64_t now_ns) {
    const uint64_t hash = hash_of(address);
    const uint32_t i = row_of(attempts, hash);
    const uint64_t before =
        attempts->row[i].address == hash ? attempts->row[i].full_at_ns : UINT64_C(0);
    attempts->row[i].address = hash;
    attempts->row[i].full_at_ns = KILN_MAX(before, now_ns) + KILN_ATTEMPTS_NS;
}
