/* A small HTTP server for machines that watch a tracker (libmicrohttpd on the tracker's own loop;
 * it appears nowhere else). It only reads: GET and HEAD of the pages that `page` knows; everything
 * else is refused. Pages are made a slice a turn, one page after another, so that a long one holds
 * the loop for no longer than a short one. Connections are few, short and bounded. Plain text and
 * for everybody who reaches it, so it listens on loopback unless that was waived. */
#ifndef KILN_TRACKER_HTTP_H
#define KILN_TRACKER_HTTP_H

#include <stdbool.h>

#include "base/status.h"
#include "base/str.h"
#include "proto/loop.h"

#define KILN_HTTP_CONNECTIONS_MAX 32u
#define KILN_HTTP_IDLE_S 10u
#define KILN_HTTP_REQUEST_BYTES_MAX ((size_t)32 << 10)

typedef struct kiln_http kiln_http;

/* A page that is made. Both functions are called on the loop's thread. */
typedef struct kiln_http_page {
    const char *type; /* "text/plain", ... */
    void *state;      /* of the two functions */
    /* Appends the next slice; false: that was all. One call a turn of the loop. */
    bool (*step)(void *state, kiln_strbuf *out);
    void (*end)(void *state); /* the page is whole, or nobody wants it any more; may be NULL */
} kiln_http_page;
/* Begins the page at `path`; false when there is none. */
typedef bool (*kiln_http_begin)(void *context, const char *path, kiln_http_page *out_page);

typedef struct kiln_http_options {
    const char
        *address;  /* "PORT" (on 127.0.0.1), "IP:PORT" or "localhost:PORT"; port 0 picks one */
    bool anywhere; /* also other than loopback */
    kiln_http_begin begin;
    void *context;
} kiln_http_options;

/* INVALID_ARGUMENT   not an address
 * PERMISSION_DENIED  beyond loopback, and that was not waived
 * ALREADY_EXISTS     the port is in use, or may not be used */
KILN_MUST_USE kiln_status kiln_http_create(kiln_loop *loop, const kiln_http_options *options,
                                           kiln_http **out_http);
unsigned kiln_http_port(const kiln_http *http);
void kiln_http_destroy(kiln_http *http); /* NULL is fine */

#endif
