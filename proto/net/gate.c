#include "proto/net/gate.h"

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

struct kiln_gate {
    uint64_t seed;
    double burst, rate;
    bucket bucket[KILN_GATE_SETS][KILN_GATE_WAYS];
};

kiln_gate *kiln_gate_create(uint64_t seed, uint32_t burst, double rate) {
    kiln_gate *gate = kiln_alloc(sizeof *gate);
    gate->seed = seed;
    gate->burst = burst;
    gate->rate = rate;
    return gate;
}

void kiln_gate_destroy(kiln_gate *gate) { kiln_free(gate); }

uint64_t kiln_gate_key(const kiln_gate *gate, const struct sockaddr_storage *address) {
    static const uint8_t mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    uint8_t bytes[16] = {0}; /* IPv4 in IPv6 clothes */
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
    uint64_t key = kiln_hash64(bytes, size, gate->seed);
    return key ? key : 1;
}

static double tokens_at(const kiln_gate *gate, const bucket *b, uint64_t now_ns) {
    double passed_s = (double)(now_ns - b->at_ns) / (double)KILN_NS_PER_S;
    return KILN_MIN(gate->burst, b->tokens + passed_s * gate->rate);
}

static bucket *find(const kiln_gate *gate, uint64_t key) {
    const bucket *set = gate->bucket[key & (KILN_GATE_SETS - 1)];
    for (uint32_t i = 0; i < KILN_GATE_WAYS; i++)
        if (set[i].key == key) return (bucket *)(uintptr_t)&set[i];
    return NULL;
}

/* Free places count as full buckets, and strangers' are given away before those of the known. */
static double worth(const kiln_gate *gate, const bucket *b, uint64_t now_ns) {
    if (!b->key) return 3 * gate->burst;
    return tokens_at(gate, b, now_ns) + (b->known ? 0 : gate->burst);
}

static bucket *find_or_make(kiln_gate *gate, uint64_t key, uint64_t now_ns) {
    bucket *found = find(gate, key), *set = gate->bucket[key & (KILN_GATE_SETS - 1)];
    if (found) {
        found->tokens = tokens_at(gate, found, now_ns);
        found->at_ns = now_ns;
        return found;
    }
    found = &set[0];
    for (uint32_t i = 1; i < KILN_GATE_WAYS; i++)
        if (worth(gate, &set[i], now_ns) > worth(gate, found, now_ns)) found = &set[i];
    *found = (bucket){.key = key, .at_ns = now_ns, .tokens = gate->burst};
    return found;
}

bool kiln_gate_enter(kiln_gate *gate, uint64_t key, uint64_t now_ns) {
    bucket *b = find_or_make(gate, key, now_ns);
    if (b->tokens < 1) return false;
    b->tokens -= 1;
    return true;
}

void kiln_gate_pass(kiln_gate *gate, uint64_t key, uint64_t now_ns) {
    bucket *b = find_or_make(gate, key, now_ns);
    b->tokens = KILN_MIN(gate->burst, b->tokens + 1);
    b->known = true;
}

bool kiln_gate_knows(const kiln_gate *gate, uint64_t key) {
    const bucket *b = find(gate, key);
    return b && b->known;
}
