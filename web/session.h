/* Who sends a request. Used by web/dispatch.c and the routes about sessions. */
#ifndef KILN_WEB_SESSION_H
#define KILN_WEB_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/loop.h"
#include "web/http.h"
#include "web/people.h"

typedef struct kiln_sessions kiln_sessions;

typedef struct kiln_sessions_options {
    const char *home; /* its file `web-token` signs in the person that a single server speaks for */
} kiln_sessions_options;

#define KILN_WEB_TOKEN_FILE "web-token"
#define KILN_WEB_TOKEN_BYTES_MAX 256u

/* Makes the token of a single server when it is missing (0600). Errors of files. */
KILN_MUST_USE kiln_status kiln_sessions_create(kiln_loop *loop, kiln_people *people,
                                               const kiln_sessions_options *options,
                                               kiln_sessions **out_sessions);
void kiln_sessions_destroy(kiln_sessions *sessions); /* NULL is fine */

typedef struct kiln_session {
    char person[KILN_PERSON_MAX + 1];
} kiln_session;

/* `found` is called once, perhaps from inside, with the session of the request, or with an owned
 * status: UNAUTHENTICATED. `r` is held meanwhile. */
typedef void (*kiln_session_found)(void *context, const kiln_session *session, kiln_status st);
void kiln_sessions_find(kiln_sessions *sessions, kiln_http_request *r, kiln_session_found found,
                        void *context);

#endif
