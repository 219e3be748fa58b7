/* HTTP requests and their answers, over libmicrohttpd on a kiln_loop. A request is handed to its
 * handler twice: when its head has arrived, to refuse it or say how its body is taken; and when all
 * of it is there, to be answered, at once or later. Everything runs on the loop's thread. Nothing
 * here knows routes, persons or rights (web/dispatch.h).
 *
 * A connection has KILN_HTTP_HEAD_NS to send a head, and then must send KILN_HTTP_BODY_BYTES of a
 * body every KILN_HTTP_BODY_NS. There are at most `connections_max` connections; when more come,
 * the oldest one that waits for a head is closed. */
#ifndef KILN_WEB_HTTP_H
#define KILN_WEB_HTTP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "proto/http.h"
#include "proto/loop.h"
#include "proto/net.h"

#define KILN_HTTP_CONNECTIONS_MAX 1024u
#define KILN_HTTP_HEAD_BYTES_MAX ((size_t)32 << 10)   /* memory of a connection, for its head */
#define KILN_HTTP_WHOLE_BYTES_MAX ((size_t)256 << 10) /* body that is handed over whole */
#define KILN_HTTP_HEAD_NS UINT64_C(10000000000)
#define KILN_HTTP_BODY_NS UINT64_C(10000000000)
#define KILN_HTTP_BODY_BYTES ((size_t)16 << 10)
#define KILN_HTTP_ANSWER_NS UINT64_C(30000000000) /* for a handler, unless it takes longer */
#define KILN_HTTP_SENT_NS UINT64_C(60000000000)   /* for a client, to take some of the answer */
#define KILN_HTTP_IDLE_S 30u                      /* between two requests of a connection */

typedef struct kiln_http_server kiln_http_server;
typedef struct kiln_http_request kiln_http_request;

typedef struct kiln_http_handler {
    /* The head is there. It may answer (the body is not read then), hold the request, or say how
     * its body is taken. Otherwise a body is refused. Required. */
    void (*head)(void *context, kiln_http_request *r);
    /* The body is there. It must answer, now or later. Required. */
    void (*whole)(void *context, kiln_http_request *r);
    /* The request is freed after this. May be NULL. */
    void (*ended)(void *context, kiln_http_request *r);
} kiln_http_handler;

typedef struct kiln_http_server_options {
    kiln_address address;           /* kiln_http_address_parse */
    bool anywhere;                  /* addresses other than loopback are allowed without TLS */
    const char *cert_pem, *key_pem; /* contents of the files; both or none; live as the server */
    uint32_t connections_max;       /* 0: KILN_HTTP_CONNECTIONS_MAX */
    const kiln_http_handler *handler;
    void *context;
} kiln_http_server_options;

/* PERMISSION_DENIED  beyond loopback with neither TLS nor `anywhere`; or the system refuses
 * ALREADY_EXISTS     the port or the socket is in use
 * INVALID_ARGUMENT   certificate or key cannot be used */
KILN_MUST_USE kiln_status kiln_http_server_create(kiln_loop *loop,
                                                  const kiln_http_server_options *options,
                                                  kiln_http_server **out_server);
unsigned kiln_http_server_port(const kiln_http_server *server); /* 0: a Unix socket */
uint32_t kiln_http_server_connections(const kiln_http_server *server);
/* Requests that their handlers have not answered yet stay valid until they are. Before the loop is
 * destroyed. NULL is fine. */
void kiln_http_server_destroy(kiln_http_server *server);

/* ---- What a request says ---- */

const char *kiln_http_method(const kiln_http_request *r); /* "GET"; of HEAD "HEAD" */
kiln_str kiln_http_uri(const kiln_http_request *r);       /* "/path?query", as it came */
/* Empty when it is absent. Valid until the request is answered. */
kiln_str kiln_http_header(const kiln_http_request *r, const char *name);
kiln_str kiln_http_body(const kiln_http_request *r); /* taken whole; else empty */
/* The client's address as text, "unix" for a Unix socket. */
const char *kiln_http_peer(const kiln_http_request *r);
bool kiln_http_is_tls(const kiln_http_request *r);
/* Lives as long as the request: until it is answered by its handler and its connection is done with
 * it. */
kiln_arena *kiln_http_arena(kiln_http_request *r);
void kiln_http_set_user(kiln_http_request *r, void *user);
void *kiln_http_user(const kiln_http_request *r);

/* ---- In `head` ---- */

/* Nothing more is read from the client until kiln_http_go_on. */
void kiln_http_hold(kiln_http_request *r);
/* Calls `head` again. */
void kiln_http_go_on(kiln_http_request *r);
/* The body is collected, at most so many bytes (and KILN_HTTP_WHOLE_BYTES_MAX). A larger one is
 * answered with 413. */
void kiln_http_take_whole(kiln_http_request *r, size_t bytes_max);
/* Each piece of the body is handed to `piece`. False: it wants no more until kiln_http_more. After
 * an answer pieces are no longer handed over. The request still goes to `whole` at the end of the
 * body; where the client leaves before that, `ended` is called without it. */
void kiln_http_take_pieces(kiln_http_request *r, uint64_t bytes_max,
                           bool (*piece)(void *context, kiln_http_request *r, kiln_str piece),
                           void *context);
void kiln_http_more(kiln_http_request *r);

/* ---- The answer ----
 *
 * Exactly one of these calls for each request that `whole` got; or in `head`, to refuse it. May
 * come at any later time. An answer to a client that has left, or that came after the deadline, is
 * dropped. */

/* Before the answer; both are copied. */
void kiln_http_add_header(kiln_http_request *r, const char *name, const char *value);
/* Takes `body`, which is zeroed. */
void kiln_http_answer(kiln_http_request *r, unsigned status, const char *type, kiln_strbuf *body);
/* Takes `value`. */
void kiln_http_answer_json(kiln_http_request *r, unsigned status, json_t *value);
/* Without a body: 204, 304, ... */
void kiln_http_answer_empty(kiln_http_request *r, unsigned status);
/* {"error":{"code","message"}} with the HTTP status of the code. Takes `st`. */
void kiln_http_answer_error(kiln_http_request *r, kiln_status st);
/* The same with another HTTP status, such as 405. */
void kiln_http_answer_error_as(kiln_http_request *r, unsigned status, kiln_status st);
/* `data` lives as long as the program. */
void kiln_http_answer_constant(kiln_http_request *r, unsigned status, const char *type,
                               kiln_str data);
/* A part of a file. Takes `fd`. */
void kiln_http_answer_file(kiln_http_request *r, unsigned status, const char *type, int fd,
                           uint64_t offset, uint64_t size);

/* An answer of unknown length. */
typedef enum kiln_http_step { KILN_HTTP_MORE, KILN_HTTP_WAIT, KILN_HTTP_END } kiln_http_step;
typedef struct kiln_http_stream {
    const char *type;
    void *state;
    /* Appends what is there. Called when the client took what was appended before. MORE: there is
     * more, something was appended; WAIT: not now, kiln_http_wake comes later (what was appended is
     * sent); END: the answer is complete. */
    kiln_http_step (*step)(void *state, kiln_strbuf *out);
    void (*end)(void *state); /* called once: it is complete, or the client is gone. Required */
} kiln_http_stream;
void kiln_http_answer_stream(kiln_http_request *r, unsigned status, const kiln_http_stream *stream);
/* `step` may be called again. Not after `end`. */
void kiln_http_wake(kiln_http_request *r);

/* Gives the handler so long from now, instead of KILN_HTTP_ANSWER_NS; UINT64_MAX: no deadline. */
void kiln_http_set_deadline(kiln_http_request *r, uint64_t after_ns);
/* The client has left, or got an answer because the deadline passed. */
bool kiln_http_is_over(const kiln_http_request *r);

/* HTTP status of a code: 404 of NOT_FOUND (web/http_statuses.def). */
unsigned kiln_http_status_of(kiln_code code);

#endif
