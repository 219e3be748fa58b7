/* Who sends a request: by a token, by a cookie, or by the header of a proxy. Used by web/dispatch.c
 * and by the routes about sessions.
 *
 * A cookie holds the person and its expiry, sealed (web/seal.h) with a key that follows from the
 * secret in the state folder, so that it outlives a restart. A request that changes something needs
 * the header X-Kiln-CSRF where the browser would send it for other pages, too: with a cookie, and
 * with a proxy's header. */
#ifndef KILN_WEB_SESSION_H
#define KILN_WEB_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/loop.h"
#include "web/http.h"
#include "web/people.h"

#define KILN_SESSION_S (UINT64_C(12) * 3600) /* a person signs in once a day */
#define KILN_SESSION_COOKIE "kiln_session"
#define KILN_CSRF_HEADER "X-Kiln-CSRF"
#define KILN_CSRF_TEXT 33u /* hexadecimal digits, and the NUL */
#define KILN_WEB_TOKEN_FILE "web-token"
#define KILN_WEB_TOKEN_BYTES_MAX ((size_t)256)

typedef struct kiln_sessions kiln_sessions;

typedef struct kiln_sessions_options {
    const char *home;  /* its file `web-token` (0600) signs in the owner (kiln_people_owner) */
    const char *state; /* folder with the secret; it exists */
    const char *trust_header; /* names the person; NULL: none does */
} kiln_sessions_options;

/* Makes the secret, and the owner's token, when they are missing. Errors of files; DATA_LOSS: one
 * of them is none. */
KILN_MUST_USE kiln_status kiln_sessions_create(kiln_loop *loop, kiln_people *people,
                                               const kiln_sessions_options *options,
                                               kiln_sessions **out_sessions);
void kiln_sessions_destroy(kiln_sessions *sessions); /* NULL is fine */

typedef struct kiln_session {
    kiln_identity_of_person who;
    char id[KILN_CSRF_TEXT]; /* of a cookie: random; else empty */
    uint64_t expires_s;      /* of a cookie: since 1970 */
    bool needs_csrf;         /* the browser sends it unasked */
    char csrf[KILN_CSRF_TEXT];
} kiln_session;

/* `found` is called once, perhaps from inside: with the session, which lasts until it returns, and
 * a NULL status; or with an owned status. UNAUTHENTICATED: none, or it has expired;
 * RESOURCE_EXHAUSTED: too many wrong tokens from this address; UNAVAILABLE: the tracker cannot be
 * asked about the token. `r` stays valid until then: the caller holds it. */
typedef void (*kiln_session_found)(void *context, const kiln_session *session, kiln_status st);
void kiln_sessions_find(kiln_sessions *sessions, kiln_http_request *r, kiln_session_found found,
                        void *context);
/* The same for a token that was handed in. */
void kiln_sessions_sign_in(kiln_sessions *sessions, kiln_http_request *r, kiln_str token,
                           kiln_session_found found, void *context);

/* The owner's token, in `arena`. NOT_FOUND: the server has no owner. Errors of kiln_file_read. */
KILN_MUST_USE kiln_status kiln_sessions_token(const kiln_sessions *sessions, kiln_arena *arena,
                                              kiln_str *out_token);

/* PERMISSION_DENIED: the request would change something, and may be of a page of somebody else. */
KILN_MUST_USE kiln_status kiln_sessions_check_origin(const kiln_session *session,
                                                     const kiln_http_request *r);

/* Adds the cookie of a new session to the answer, and fills its `id` and `csrf`. Errors of
 * kiln_seal. */
KILN_MUST_USE kiln_status kiln_sessions_begin(kiln_sessions *sessions, kiln_http_request *r,
                                              kiln_session *session);
/* Removes the cookie with the answer, and accepts it no more. `done` is called once, perhaps from
 * inside, when that outlives the server. `st` is owned: errors of kiln_sign_outs_add. */
void kiln_sessions_end(kiln_sessions *sessions, kiln_http_request *r, const kiln_session *session,
                       void (*done)(void *context, kiln_status st), void *context);

/* A cookie's value, as the server writes and reads it. For tests and the fuzzer. False: not made by
 * this server, or expired. */
bool kiln_session_parse(const kiln_sessions *sessions, kiln_str cookie, uint64_t now_s,
                        kiln_session *out_session);
/* The value of a cookie of that name in a Cookie header; empty: there is none. */
kiln_str kiln_cookie_find(kiln_str header, const char *name);

#endif
