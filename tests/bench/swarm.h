/* Programs of a fleet that is made up: boards, tuners and clients by the thousand, on one loop,
 * each with a connection of its own to a real tracker and the real protocol on it (keys, HELLO,
 * link, heartbeats). Used by bench-fleet.
 *
 * A client opens a job and waits. A tuner asks for boards for the jobs that it is assigned, sends
 * the lease's trials one after the other, acknowledges each result and gives the board back. A
 * board answers a trial at once. All of them dial again when their connection ends (kiln_link). */
#ifndef KILN_TESTS_BENCH_SWARM_H
#define KILN_TESTS_BENCH_SWARM_H

#include "base/vec.h"
#include "proto/net.h"

typedef struct swarm_options {
    kiln_address address;
    const kiln_keys *keys; /* one each, named by swarm_name; NULL: plain text with `token` */
    uint8_t token[KILN_TOKEN_BYTES];
    uint32_t boards, tuners, clients;
    uint64_t seed;
} swarm_options;

/* What happened so far. */
typedef struct swarm_counts {
    uint32_t boards;   /* the tracker has taken their BOARD_UP and said something since */
    uint32_t opened;   /* jobs, as their client was told */
    uint32_t jobs;     /* assigned to a tuner that is connected */
    uint64_t grants;   /* LEASE_GRANT of a request that was out */
    uint64_t pongs;    /* PONG of one that was a PING */
    uint64_t results;  /* TRIAL_RESULT of a trial that was out */
    uint64_t refused;  /* requests that the tracker turned down */
    uint64_t lost;     /* leases that it ended */
    uint64_t closed;   /* connections that ended */
    uint64_t breaches; /* a board leased twice, a fence that went back: never to happen */
} swarm_counts;

typedef struct swarm swarm;

/* "board-7". `number` counts from 0. */
void swarm_name(kiln_peer_role role, uint32_t number, char out_name[32]);

/* Dials with all that `options` asks for but the boards, for which see swarm_add_boards. */
swarm *swarm_create(kiln_loop *loop, const swarm_options *options);
void swarm_add_boards(swarm *s);
/* Closes all connections. They end when the loop is destroyed; then comes swarm_free. */
void swarm_close(swarm *s);
void swarm_free(swarm *s);
const swarm_counts *swarm_counted(const swarm *s);

/* Asks so that `ahead` requests are always out, over all jobs, each for a lease of `trials` (0: it
 * is given back at once). `ahead` 0 stops the asking. */
void swarm_load_closed(swarm *s, uint32_t ahead, uint32_t trials);
/* Asks `per_s` times a second whatever the tracker does, at times drawn before (Poisson). */
void swarm_load_open(swarm *s, double per_s, uint32_t trials);
/* The same with a PING in the place of each request, on the same connections: what connections,
 * keys and the machine take where the tracker has nothing to decide and nothing to write. */
void swarm_load_pings(swarm *s, double per_s);
/* Nanoseconds from when a request was due to be asked to its answer: [count], since the load was
 * set. What waits longer in the generator than it should counts as waiting. */
const uint64_t *swarm_waits(const swarm *s, uint32_t *out_count);
/* Of these, what went by before an open load's request was asked at all: the generator's own. */
const uint64_t *swarm_late(const swarm *s, uint32_t *out_count);

/* Requests that are out. */
uint32_t swarm_out(const swarm *s);

/* Cuts every connection, as a network does. */
void swarm_cut(swarm *s);

#endif
