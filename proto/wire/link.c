/* When to dial, ping and give up; see proto.h. */
#include "base/check.h"
#include "proto/proto.h"

void kiln_link_init(kiln_link *link, uint64_t now_ns, uint64_t seed) {
    *link = (kiln_link){
        .state = KILN_LINK_DOWN,
        .dial_at_ns = now_ns,
        .down_since_ns = now_ns,
        .backoff_ns = KILN_LINK_BACKOFF_MIN_NS,
    };
    kiln_rand_init(&link->rand, seed);
}

void kiln_link_opened(kiln_link *link, uint64_t now_ns) {
    link->state = KILN_LINK_UP;
    link->up_since_ns = link->heard_ns = link->ticked_ns = now_ns;
    /* Spreads the pings of all programs that reconnect to a restarted tracker at once. */
    uint64_t jitter = kiln_rand_below(&link->rand, KILN_LINK_HEARTBEAT_NS / 2 + 1);
    link->ping_at_ns = now_ns + KILN_LINK_HEARTBEAT_NS - jitter;
}

void kiln_link_closed(kiln_link *link, uint64_t now_ns) {
    if (link->state == KILN_LINK_DOWN) return;
    if (link->state == KILN_LINK_UP) {
        link->down_since_ns = now_ns;
        /* Only a connection that lasted resets the backoff: one that breaks at once must not be
         * dialled in a tight loop. */
        if (now_ns - link->up_since_ns >= KILN_LINK_HEARTBEAT_NS)
            link->backoff_ns = KILN_LINK_BACKOFF_MIN_NS;
    }
    link->state = KILN_LINK_DOWN;
    uint64_t jitter = kiln_rand_below(&link->rand, link->backoff_ns / 4 + 1);
    link->dial_at_ns = now_ns + link->backoff_ns - jitter;
    link->backoff_ns = KILN_MIN(link->backoff_ns * 2, KILN_LINK_BACKOFF_MAX_NS);
}

void kiln_link_heard(kiln_link *link, uint64_t now_ns) { link->heard_ns = now_ns; }

kiln_link_want kiln_link_tick(kiln_link *link, uint64_t now_ns) {
    if (link->state == KILN_LINK_DOWN && now_ns >= link->dial_at_ns) {
        link->state = KILN_LINK_DIALLING;
        return KILN_LINK_DIAL;
    }
    if (link->state != KILN_LINK_UP) return KILN_LINK_NOTHING;
    if (now_ns - link->ticked_ns >= KILN_LINK_GAP_NS) link->heard_ns = now_ns;
    link->ticked_ns = now_ns;
    if (now_ns - link->heard_ns >= KILN_LINK_SILENCE_NS) {
        kiln_link_closed(link, now_ns);
        return KILN_LINK_HANG_UP;
    }
    if (now_ns < link->ping_at_ns) return KILN_LINK_NOTHING;
    link->ping_at_ns = now_ns + KILN_LINK_HEARTBEAT_NS;
    return KILN_LINK_PING;
}

uint64_t kiln_link_next_ns(const kiln_link *link) {
    if (link->state == KILN_LINK_DOWN) return link->dial_at_ns;
    if (link->state == KILN_LINK_DIALLING) return UINT64_MAX; /* the shell reports the outcome */
    return KILN_MIN(link->ping_at_ns, link->heard_ns + KILN_LINK_SILENCE_NS);
}
