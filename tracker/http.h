/* A small HTTP server for monitoring (libmicrohttpd on the tracker's loop; it is used nowhere
 * else). It answers GET and HEAD of the pages that `begin` knows and refuses everything else. Pages
 * are made one after another, one slice in a turn of the loop, so that a long page does not hold
 * the loop. Number and duration of connections are bounded. It is plain text and has no access
 * control, so that it listens on loopback only, unless `anywhere` is set. */
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

/* A page. Both functions are called on the loop's thread. */
typedef struct kiln_http_page {
    const char *type; /* "text/plain", ... */
    void *state;      /* passed to the two functions */
    /* Appends the next slice; false: the page is complete. Called once in a turn of the loop. */
    bool (*step)(void *state, kiln_strbuf *out);
    void (*end)(void *state); /* the page is complete, or the connection is gone; may be NULL */
} kiln_http_page;
/* Begins the page at `path`; false when there is none. */
typedef bool (*kiln_http_begin)(void *context, const char *path, kiln_http_page *out_page);

typedef struct kiln_http_options {
    const char
        *address;  /* "PORT" (on 127.0.0.1), "IP:PORT" or "localhost:PORT"; port 0 picks one */
    bool anywhere; /* addresses other than loopback are allowed */
    kiln_http_begin begin;
    void *context;
} kiln_http_options;

/* INVALID_ARGUMENT   not an address
 * PERMISSION_DENIED  beyond loopback, and `anywhere` is not set
 * ALREADY_EXISTS     the port is in use, or may not be used */
KILN_MUST_USE kiln_status kiln_http_create(kiln_loop *loop, const kiln_http_options *options,
                                           kiln_http **out_http);
unsigned kiln_http_port(const kiln_http *http);
void kiln_http_destroy(kiln_http *http); /* NULL is fine */

#endif
