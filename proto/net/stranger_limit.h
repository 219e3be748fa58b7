/* The limit on strangers: accepted connections whose handshake is not done. A new connection is
 * always accepted; beyond the limit the oldest stranger of the first rank that is not empty is
 * closed. The handshake may take KILN_NET_HANDSHAKE_NS. */
#ifndef KILN_PROTO_NET_STRANGER_LIMIT_H
#define KILN_PROTO_NET_STRANGER_LIMIT_H

#include "proto/net/conn.h"
#include "proto/net/rate_limit.h"

/* Descriptors that strangers never get, for files and for peers of known addresses. */
#define KILN_STRANGERS_RESERVE_SHARE 8u /* of all */
#define KILN_STRANGERS_RESERVE_MIN 32u
#define KILN_STRANGERS_RESERVE_MAX 1024u
#define KILN_STRANGERS_SHARE 4u          /* of the rest */
#define KILN_STRANGERS_SUSPECTS_SHARE 8u /* of the strangers' places: addresses without tokens */
#define KILN_STRANGERS_PLACES_MIN 4u
#define KILN_STRANGERS_WARN_NS UINT64_C(60000000000) /* between two warnings */

#define KILN_NET_STRANGERS_TRIM 256u /* after so many handshakes memory is given back */

typedef struct kiln_strangers {
    kiln_rate_limit *rate_limit;    /* made with the first listener */
    uint64_t descriptors_for_peers; /* those above are the reserve */
    uint32_t most;                  /* most strangers since there was none */
    kiln_net_stats told;            /* when a loss was last told */
    uint64_t told_ns;
} kiln_strangers;

/* Of so many descriptors: the limit on strangers, and the descriptors in reserve. */
uint32_t kiln_strangers_places(uint64_t descriptors);
uint32_t kiln_strangers_reserve(uint64_t descriptors);

/* Enters a connection that was just accepted into the list of its rank; may close another. */
void kiln_strangers_enter(kiln_conn *conn);
/* False: descriptors run out, and no stranger can be closed for it. */
bool kiln_strangers_has_descriptor(kiln_loop *loop, const kiln_socket *socket);
/* Its first bytes came: it is closed after silent ones. */
void kiln_strangers_speaks(kiln_conn *conn);
/* The handshake is done. */
void kiln_strangers_pass(kiln_conn *conn);
/* A new turn. After many strangers the pool gives their memory back, as this takes milliseconds. */
void kiln_strangers_turn(kiln_loop *loop);
/* Refuses the strangers of the listener with these options, as it closes. */
void kiln_strangers_drop(kiln_loop *loop, const kiln_listen_options *options);
uint32_t kiln_strangers_count(const kiln_loop *loop); /* strangers */
/* Calls `on_losses` when connections were lost, at most once in KILN_STRANGERS_WARN_NS. */
void kiln_strangers_warn(kiln_loop *loop, const kiln_listen_options *options);

#endif
