/* A stranger at an HTTP port, on real sockets, for fuzzers whose server runs in the same thread. */
#ifndef KILN_TESTS_FUZZ_HTTP_PEER_H
#define KILN_TESTS_FUZZ_HTTP_PEER_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "proto/loop.h"

typedef struct http_peer {
    kiln_loop *loop;
    unsigned port;
    const char *good; /* a request that the server answers with 200, and then closes */
    uint32_t dialled;
} http_peer;

/* Sends the input in pieces over one connection, while a second one stops half-way and a third is
 * reset; the first byte chooses the pieces. Then `good` is asked, by which time what came before is
 * decided: it must be served. What came back for the pieces is empty, or HTTP; the caller frees it.
 */
kiln_strbuf http_peer_send(http_peer *peer, const uint8_t *data, size_t size);

#endif
