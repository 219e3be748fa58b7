/* The keys of a listener: keyring.c finds those that are valid today, keyring_watch.c
 * reads and writes their file. */
#ifndef KILN_PROTO_NET_KEYRING_H
#define KILN_PROTO_NET_KEYRING_H

#include <sys/stat.h>

#include "proto/net.h"

/* Looks at the connections of a loop again after the good keys of a ring have changed. */
typedef void (*kiln_keyring_recheck)(kiln_loop *loop, const kiln_keyring *ring);

struct kiln_keyring {
    kiln_keys keys;
    uint32_t today; /* keys whose last day is before it are no longer good */
    kiln_loop *loop;
    char *path;
    kiln_arena arena;
    struct stat seen; /* the file at the last look */
    kiln_timer *timer;
    kiln_keyring_changed changed;
    kiln_keyring_settled settled;
    void *context;
    kiln_keyring_recheck recheck;       /* set by the first listener; NULL before */
    struct kiln_key_settling *settling; /* the first is under way; NULL: none is */
};

/* ---- keyring.c ---- */

/* NULL when there is none that is good today. */
const kiln_key *kiln_keyring_find(const kiln_keyring *ring, const kiln_key *name);
/* Why a key is not taken, for the log. */
kiln_status kiln_keyring_refusal(const kiln_keyring *ring, const kiln_key *name);
/* A generation that the node with this key is to take; NULL. */
const kiln_key *kiln_keyring_offer(const kiln_keyring *ring, const kiln_key *key);

/* ---- keyring_watch.c ---- */

void kiln_keyring_on_recheck(kiln_keyring *ring, kiln_keyring_recheck recheck);
/* Sets the day, and closes connections whose key has expired. Called twice a second. */
void kiln_keyring_set_day(kiln_keyring *ring, uint32_t today);
/* Writes into the file what came of an offer, on the pool, after what was settled before. What a
 * failure or the end of the ring keeps from the file is written when the key is next used. */
void kiln_keyring_settle(kiln_keyring *ring, const kiln_key *name, kiln_key_state outcome,
                         const char *why);

#endif
