/* How many connections an address may begin: a token bucket each. A token is taken when a
 * connection is accepted and given back when its handshake is done, so a fleet that comes back from
 * one address spends nothing, and silent crowds spend all. An address without tokens is not shut
 * out, as honest peers may share it: its connections are only the first that go
 * (proto/net/handshake.c).
 *
 * Memory is fixed. Of more addresses than there are places, those are forgotten that have spent
 * least. Pure: no clock, no sockets. */
#ifndef KILN_PROTO_NET_RATE_LIMIT_H
#define KILN_PROTO_NET_RATE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define KILN_RATE_LIMIT_SETS 1024u /* power of two */
#define KILN_RATE_LIMIT_WAYS 4u    /* addresses that share a hash and are known at a time */
#define KILN_RATE_LIMIT_RATE 64.0  /* tokens a second, of loops */

typedef struct kiln_rate_limit kiln_rate_limit;

/* `seed`: nobody may guess which addresses share a hash. `burst`: tokens of an address. `rate`:
 * those that it gets back in a second. */
kiln_rate_limit *kiln_rate_limit_create(uint64_t seed, uint32_t burst, double rate);
void kiln_rate_limit_destroy(kiln_rate_limit *limit); /* NULL is fine */

/* Names an address for the calls below, whatever its port: IPv4 by all of it (also in IPv6
 * clothes), IPv6 by the network of 64 bits that one host can have to itself. */
uint64_t kiln_rate_limit_key(const kiln_rate_limit *limit, const struct sockaddr_storage *address);
/* A connection came. False: the address has no tokens left. */
bool kiln_rate_limit_enter(kiln_rate_limit *limit, uint64_t key, uint64_t now_ns);
/* Its handshake is done: the token is given back, and the address is known from here on. */
void kiln_rate_limit_pass(kiln_rate_limit *limit, uint64_t key, uint64_t now_ns);
/* Whether somebody was let in from there, as far as is remembered. */
bool kiln_rate_limit_knows(const kiln_rate_limit *limit, uint64_t key);

#endif
