/* What the files of web/http.h share. */
#ifndef KILN_WEB_HTTP_STATE_H
#define KILN_WEB_HTTP_STATE_H

#include <microhttpd.h>

#include "web/http.h"

/* From accept to close. */
typedef struct http_connection {
    struct http_connection *next, *before; /* all of the server; the one longest idle is first */
    kiln_http_server *server;
    int fd;               /* libmicrohttpd's */
    bool is_busy;         /* a request's head has arrived, and its answer is not complete */
    uint64_t deadline_ns; /* then it is closed; UINT64_MAX: never */
    char peer[64];
} http_connection;

typedef enum http_stage {
    HTTP_NEW,   /* the address was read */
    HTTP_HEAD,  /* the head was handed over */
    HTTP_BODY,  /* its body comes */
    HTTP_WHOLE, /* the handler has it, and must answer */
    HTTP_SENT,  /* an answer was handed to libmicrohttpd */
} http_stage;

struct kiln_http_request {
    struct kiln_http_request *next, *before; /* all of the server */
    kiln_http_server *server;
    struct MHD_Connection *connection; /* NULL: done with the request */
    http_connection *link;
    kiln_arena arena;
    kiln_str uri;
    char method[16];
    http_stage stage;
    bool is_suspended;
    bool is_held;     /* in `head` */
    bool piece_waits; /* for kiln_http_more */
    bool is_answered; /* by its handler */
    bool is_late;     /* answered for its handler, because the deadline passed */
    uint64_t deadline_ns;
    void *user;
    /* The body. */
    uint64_t body_max, body_bytes, counted_bytes;
    bool is_too_large, takes_whole;
    kiln_strbuf body;
    bool (*piece)(void *context, kiln_http_request *r, kiln_str piece);
    void *piece_context;
    /* The answer. */
    struct MHD_Response *response; /* to be handed over; else NULL */
    unsigned status;
    KILN_VEC(kiln_str) headers; /* name, value, ...; in `arena`, with a NUL each */
    kiln_http_stream stream;    /* `step` NULL: none */
    kiln_http_step step;        /* the last one; MORE at first and after kiln_http_wake */
    kiln_strbuf out;            /* of the stream, `out_at` bytes of it sent */
    size_t out_at;
};

struct kiln_http_server {
    kiln_loop *loop;
    kiln_http_server_options options;
    struct MHD_Daemon *daemon;
    int listener; /* a Unix socket's path is in options.address.host */
    kiln_http_runner *runner;
    kiln_timer *tick;
    http_connection *first_connection, *last_connection;
    uint32_t connection_count;
    kiln_http_request *requests;
    bool is_closed; /* freed with the last request */
};

/* ---- web/http_requests.c: of libmicrohttpd ---- */
void *kiln_http_on_uri(void *server, const char *uri, struct MHD_Connection *connection);
enum MHD_Result kiln_http_on_request(void *server, struct MHD_Connection *connection,
                                     const char *path, const char *method, const char *version,
                                     const char *upload, size_t *upload_size, void **state);
void kiln_http_on_completed(void *server, struct MHD_Connection *connection, void **state,
                            enum MHD_RequestTerminationCode how);
/* Answers a request whose handler has not, when its deadline has passed. */
void kiln_http_check_deadline(kiln_http_request *r, uint64_t now_ns);
/* The server ends: its connections must not be suspended. */
void kiln_http_let_go(kiln_http_request *r);
/* Takes the response, and hands it over at the next turn; frees it where nobody waits for it. */
void kiln_http_set_response(kiln_http_request *r, unsigned status, const char *type,
                            struct MHD_Response *response);
/* The connection goes on; the loop runs libmicrohttpd soon. */
void kiln_http_resume(kiln_http_request *r);
void kiln_http_suspend(kiln_http_request *r);

/* ---- web/http_server.c ---- */
/* Its deadline is so long from now; UINT64_MAX: it has none. */
void kiln_http_set_link_deadline(http_connection *link, uint64_t after_ns);
/* It waits for a head again, the newest of those that do. */
void kiln_http_set_idle(http_connection *link);

#endif
