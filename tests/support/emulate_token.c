#include "tests/support/emulate_token.h"

#include <stdint.h>
#include <string.h>

#include "base/vec.h"

#define WARPS_MAX (32 * EMULATE_CLUSTER_MAX)

/* PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier": the phase ends when
 * the count of pending arrivals comes to zero, which is set to the expected one again. */
typedef struct place {
    const void *at;
    unsigned expected, pending;
    /* That are expected and have not landed. Those that others send may land before they are
     * expected: then it is less than 0 until the phase can end. */
    long long bytes;
    unsigned phase;              /* phases that have ended */
    bool is_seen;                /* a barrier of the cluster stands behind its making */
    unsigned in_warp[WARPS_MAX]; /* threads of each warp that have come */
} place;

struct emulate_tokens {
    kiln_arena *arena;
    KILN_VEC(place) place;
};

static place *find(const emulate_tokens *t, const void *at) {
    for (uint32_t i = 0; i < t->place.count; i++)
        if (t->place.data[i].at == at) return &t->place.data[i];
    return NULL;
}

emulate_tokens *emulate_tokens_create(kiln_arena *arena) {
    emulate_tokens *t = KILN_ARENA_NEW(arena, emulate_tokens);
    *t = (emulate_tokens){.arena = arena};
    return t;
}

void emulate_tokens_reset(emulate_tokens *t) { t->place.count = 0; }
bool emulate_tokens_exist(const emulate_tokens *t) { return t->place.count > 0; }

const char *emulate_tokens_place(emulate_tokens *t, const void *at, unsigned arrivals) {
    if ((uintptr_t)at % 8 != 0) return "a token's place is not aligned to 8 bytes";
    if (find(t, at)) return "a token has its place there already";
    if (arrivals == 0) return "nobody comes to the token";
    const place one = {.at = at, .expected = arrivals, .pending = arrivals};
    kiln_vec_push_in(t->arena, &t->place, one);
    return NULL;
}

static const char *end_phase(place *p) {
    if (p->pending > 0 || p->bytes > 0) return NULL;
    if (p->bytes < 0) return "more bytes land than the token expects";
    p->pending = p->expected;
    p->phase++;
    return NULL;
}

const char *emulate_tokens_arrive(emulate_tokens *t, const void *at) {
    place *p = find(t, at);
    if (!p) return "no token has its place there";
    if (p->pending == 0) return "more threads come to a token than it waits for";
    p->pending--;
    return end_phase(p);
}

const char *emulate_tokens_expect(emulate_tokens *t, const void *at, unsigned bytes) {
    place *p = find(t, at);
    if (!p) return "no token has its place there";
    p->bytes += bytes;
    return NULL;
}

const char *emulate_tokens_land(emulate_tokens *t, const void *at, unsigned bytes) {
    place *p = find(t, at);
    if (!p) return "no token has its place there";
    p->bytes -= bytes;
    return end_phase(p);
}

void emulate_tokens_show(emulate_tokens *t) {
    for (uint32_t i = 0; i < t->place.count; i++) t->place.data[i].is_seen = true;
}

const char *emulate_tokens_check_seen(const emulate_tokens *t, const void *at) {
    const place *p = find(t, at);
    if (!p) return "no token has its place there";
    return p->is_seen ? NULL : "no barrier of the cluster stands behind the making of the token";
}

const char *emulate_tokens_arrive_in_warp(emulate_tokens *t, const void *at, unsigned warp) {
    place *p = find(t, at);
    if (!p) return "no token has its place there";
    if (++p->in_warp[warp] < EMULATE_WARP) return NULL;
    p->in_warp[warp] = 0;
    return emulate_tokens_arrive(t, at);
}

const char *emulate_tokens_has_ended(const emulate_tokens *t, const void *at, unsigned parity,
                                     bool *out_has) {
    const place *p = find(t, at);
    if (!p) return "no token has its place there";
    *out_has = (p->phase & 1) != parity;
    return parity > 1 ? "a parity is 0 or 1" : NULL;
}
