#include "proto/net/rate_limit.h"

#include <netinet/in.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/macros.h"

typedef struct bucket {
    uint64_t key; /* 0: free */
    uint64_t at_ns;
    double tokens; /* at at_ns */
    bool known;
} bucket;

struct kiln_rate_limit {
    uint64_t seed;
    double burst, rate;
    bucket bucket[KILN_RATE_LIMIT_SETS][KILN_RATE_LIMIT_WAYS];
};

kiln_rate_limit *kiln_rate_limit_create(uint64_t seed, uint32_t burst, double rate) {
    kiln_rate_limit *limit = kiln_alloc(sizeof *limit);
    limit->seed = seed;
    limit->burst = burst;
    limit->rate = rate;
    return limit;
}

void kiln_rate_limit_destroy(kiln_rate_limit *limit) { kiln_free(limit); }

uint64_t kiln_rate_limit_key(const kiln_rate_limit *limit, const struct sockaddr_storage *address) {
    static const uint8_t mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    uint8_t bytes[16] = {0}; /* IPv4 is mapped into IPv6 */
    size_t size = sizeof bytes;
    memcpy(bytes, mapped, sizeof mapped);
    if (address->ss_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        memcpy(bytes + sizeof mapped, &v4.sin_addr, sizeof v4.sin_addr);
    } else if (address->ss_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        memcpy(bytes, &v6.sin6_addr, sizeof bytes);
        if (memcmp(bytes, mapped, sizeof mapped) != 0) size = 8;
    }
    uint64_t key = kiln_hash64(bytes, size, limit->seed);
    return key ? key : 1;
}

static double tokens_at(const kiln_rate_limit *limit, const bucket *b, uint64_t now_ns) {
    double passed_s = (double)(now_ns - b->at_ns) / (double)KILN_NS_PER_S;
    return KILN_MIN(limit->burst, b->tokens + passed_s * limit->rate);
}

static bucket *find(const kiln_rate_limit *limit, uint64_t key) {
    const bucket *set = limit->bucket[key & (KILN_RATE_LIMIT_SETS - 1)];
    for (uint32_t i = 0; i < KILN_RATE_LIMIT_WAYS; i++)
        if (set[i].key == key) return (bucket *)(uintptr_t)&set[i];
    return NULL;
}

/* Which bucket to replace first: a free one, then the fullest; known addresses last. */
static double worth(const kiln_rate_limit *limit, const bucket *b, uint64_t now_ns) {
    if (!b->key) return 3 * limit->burst;
    return tokens_at(limit, b, now_ns) + (b->known ? 0 : limit->burst);
}

static bucket *find_or_make(kiln_rate_limit *limit, uint64_t key, uint64_t now_ns) {
    bucket *found = find(limit, key), *set = limit->bucket[key & (KILN_RATE_LIMIT_SETS - 1)];
    if (found) {
        found->tokens = tokens_at(limit, found, now_ns);
        found->at_ns = now_ns;
        return found;
    }
    found = &set[0];
    for (uint32_t i = 1; i < KILN_RATE_LIMIT_WAYS; i++)
        if (worth(limit, &set[i], now_ns) > worth(limit, found, now_ns)) found = &set[i];
    *found = (bucket){.key = key, .at_ns = now_ns, .tokens = limit->burst};
    return found;
}

bool kiln_rate_limit_enter(kiln_rate_limit *limit, uint64_t key, uint64_t now_ns) {
    bucket *b = find_or_make(limit, key, now_ns);
    if (b->tokens < 1) return false;
    b->tokens -= 1;
    return true;
}

void kiln_rate_limit_pass(kiln_rate_limit *limit, uint64_t key, uint64_t now_ns) {
    bucket *b = find_or_make(limit, key, now_ns);
    b->tokens = KILN_MIN(limit->burst, b->tokens + 1);
    b->known = true;
}

bool kiln_rate_limit_knows(const kiln_rate_limit *limit, uint64_t key) {
    const bucket *b = find(limit, key);
    return b && b->known;
}
