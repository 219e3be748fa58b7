/* Connections that a listener took: strangers, in the order in which they go when places run out,
 * and those who are known. A stranger may be there for KILN_NET_HANDSHAKE_NS. Newcomers always get
 * in; when there is no place, the oldest of the first rank that is not empty goes. */
#ifndef KILN_PROTO_NET_STRANGER_LIMIT_H
#define KILN_PROTO_NET_STRANGER_LIMIT_H

#include "proto/net/conn.h"
#include "proto/net/rate_limit.h"

/* Descriptors that strangers never get: the program's files, and peers of known addresses. */
#define KILN_STRANGERS_RESERVE_SHARE 8u /* of all */
#define KILN_STRANGERS_RESERVE_MIN 32u
#define KILN_STRANGERS_RESERVE_MAX 1024u
#define KILN_STRANGERS_SHARE 4u          /* of the rest */
#define KILN_STRANGERS_SUSPECTS_SHARE 8u /* of the strangers' places: those without tokens */
#define KILN_STRANGERS_PLACES_MIN 4u
#define KILN_STRANGERS_WARN_NS UINT64_C(60000000000) /* between two warnings */

#define KILN_NET_STRANGERS_TRIM \
    256u /* handshakes of so many leave memory that is worth giving back */

typedef struct kiln_strangers {
    kiln_rate_limit *rate_limit;    /* made with the first listener */
    uint64_t descriptors_for_peers; /* those above are the reserve */
    uint32_t most;                  /* most strangers since there was none */
    kiln_net_stats told;            /* when a loss was last told */
    uint64_t told_ns;
} kiln_strangers;

/* How many strangers there may be with so many descriptors, and how many descriptors are kept. */
uint32_t kiln_strangers_places(uint64_t descriptors);
uint32_t kiln_strangers_reserve(uint64_t descriptors);

/* Takes a connection that was just accepted into the list of its rank, for which another may have
 * to go. */
void kiln_strangers_enter(kiln_conn *conn);
/* False: descriptors run out, and there is no stranger whose place it could take. */
bool kiln_strangers_has_descriptor(kiln_loop *loop, const kiln_socket *socket);
/* Its first bytes came: it goes last. */
void kiln_strangers_speaks(kiln_conn *conn);
/* The handshake is done. */
void kiln_strangers_pass(kiln_conn *conn);
/* A new turn: a large crowd that is gone leaves memory, which the pool gives back, as that takes
 * milliseconds. */
void kiln_strangers_turn(kiln_loop *loop);
/* Turns away who is still in the handshake with the listener that has these options: what they
 * point to goes with it. */
void kiln_strangers_drop(kiln_loop *loop, const kiln_listen_options *options);
uint32_t kiln_strangers_count(const kiln_loop *loop); /* strangers */
/* Tells the listener's owner, now and then, that connections are lost. */
void kiln_strangers_warn(kiln_loop *loop, const kiln_listen_options *options);

#endif
