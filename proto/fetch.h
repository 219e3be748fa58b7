/* HTTP requests of a client, for commands that talk to a web server. Each call blocks until the
 * answer is there. The code is in proto/depot, which has libcurl. */
#ifndef KILN_PROTO_FETCH_H
#define KILN_PROTO_FETCH_H

#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

#define KILN_FETCH_HEADERS_MAX 4u
#define KILN_FETCH_ANSWER_MAX ((size_t)64 << 20) /* bytes of an answer that is not a file */

typedef struct kiln_fetch {
    const char *method, *url;
    const char *token;                          /* sent as "Authorization: Bearer TOKEN" */
    const char *header[KILN_FETCH_HEADERS_MAX]; /* "Name: value"; NULL behind the last */
    kiln_str body;                              /* empty: there is none */
    int answer_fd; /* an answer of status 200 is written there; -1: to `answer` */
} kiln_fetch;

/* `*out_status`: of HTTP, such as 404; `*out_answer` in `arena`. Redirections are not followed.
 * UNAVAILABLE     the server cannot be reached, or does not go on for 60 s
 * DATA_LOSS       the answer is too long, or cannot be written
 * UNIMPLEMENTED   this build has no libcurl */
KILN_MUST_USE kiln_status kiln_fetch_send(const kiln_fetch *fetch, kiln_arena *arena,
                                          unsigned *out_status, kiln_str *out_answer);

#endif
