/* How many connections an address may begin: a token bucket each. Accepting a connection takes a
 * token, and the end of its handshake gives it back: a fleet that reconnects from one address
 * spends none, and silent connections spend all. An address without tokens is not blocked, as
 * honest peers may share it; its connections are the first to be closed (stranger_limit.c).
 *
 * Memory is fixed: the addresses that have spent least are forgotten. Pure: no clock, no sockets.
 */
#ifndef KILN_PROTO_NET_RATE_LIMIT_H
#define KILN_PROTO_NET_RATE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define KILN_RATE_LIMIT_SETS 1024u /* power of two */
#define KILN_RATE_LIMIT_WAYS 4u    /* addresses that share a hash and are known at a time */
#define KILN_RATE_LIMIT_RATE 64.0  /* tokens a second, of loops */

typedef struct kiln_rate_limit kiln_rate_limit;

/* `seed`: keeps it unknown which addresses share a hash. `burst`: tokens of an address. `rate`:
 * those that it gets back in a second. */
kiln_rate_limit *kiln_rate_limit_create(uint64_t seed, uint32_t burst, double rate);
void kiln_rate_limit_destroy(kiln_rate_limit *limit); /* NULL is fine */

/* Names an address for the calls below, without its port: IPv4 (also mapped into IPv6) by all of
 * it, IPv6 by its network of 64 bits, which one host can have to itself. */
uint64_t kiln_rate_limit_key(const kiln_rate_limit *limit, const struct sockaddr_storage *address);
/* A connection came. False: the address has no tokens left. */
bool kiln_rate_limit_enter(kiln_rate_limit *limit, uint64_t key, uint64_t now_ns);
/* Its handshake is done: gives the token back; the address is known from now on. */
void kiln_rate_limit_pass(kiln_rate_limit *limit, uint64_t key, uint64_t now_ns);
/* Whether a handshake from there succeeded, as far as is remembered. */
bool kiln_rate_limit_knows(const kiln_rate_limit *limit, uint64_t key);

#endif
