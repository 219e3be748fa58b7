/* Routes of the HTTP API: the rows of web/routes.def, how a request finds its row, and its
 * parameters after they were checked. Handlers include this. */
#ifndef KILN_WEB_ROUTES_H
#define KILN_WEB_ROUTES_H

#include "web/http.h"
#include "web/uri.h"
#include "web/web.h"

typedef enum kiln_route_access {
    KILN_ACCESS_OPEN,   /* to everybody */
    KILN_ACCESS_PERSON, /* signed in; what this person may do is the tracker's decision */
} kiln_route_access;

typedef enum kiln_route_body {
    KILN_BODY_NONE,
    KILN_BODY_JSON, /* an object with the row's BODY parameters, checked before the handler runs */
    KILN_BODY_STREAM, /* the handler is called at the head; it calls kiln_http_take_whole or
                         kiln_http_take_pieces, and answers in kiln_call.whole */
} kiln_route_body;

typedef enum kiln_param_place {
    KILN_PLACE_PATH,
    KILN_PLACE_QUERY,
    KILN_PLACE_BODY,
    KILN_PLACE_HEADER
} kiln_param_place;

typedef enum kiln_param_kind {
    KILN_PARAM_TEXT,   /* at most `limit` bytes, on one line */
    KILN_PARAM_TEXTS,  /* several of them: a repeated query parameter, or an array of a body */
    KILN_PARAM_U64,    /* at most `limit` */
    KILN_PARAM_NUMBER, /* finite */
    KILN_PARAM_FLAG,   /* true or false */
    KILN_PARAM_DIGEST, /* SHA-256 as 64 hexadecimal digits */
    KILN_PARAM_ANY,    /* of a body: any JSON; its handler checks it */
} kiln_param_kind;

#define KILN_LIST_MAX 1000u /* items of one answer */
#define KILN_PARAMS_MAX 24u /* of one route */
#define KILN_PARAM_TEXTS_MAX 16u

typedef struct kiln_param_info {
    kiln_param_place place;
    const char *name;
    kiln_param_kind kind;
    bool is_required;
    uint64_t limit;
    const char *doc;
} kiln_param_info;

typedef struct kiln_call kiln_call;
typedef void (*kiln_route_handler)(kiln_call *call);

typedef struct kiln_route {
    const char *id; /* the operation */
    const char *method, *path;
    kiln_route_handler run;
    kiln_route_access access;
    kiln_route_body body;
    const char *answer; /* web/routes.def */
    const char *doc;
    const kiln_param_info *param;
    uint32_t param_count;
} kiln_route;

typedef struct kiln_param {
    bool is_given;
    kiln_str text; /* TEXT, DIGEST */
    kiln_str texts[KILN_PARAM_TEXTS_MAX];
    uint32_t text_count;
    uint64_t u64; /* U64, FLAG */
    double number;
    kiln_digest digest;
    json_t *json; /* ANY; belongs to the call's body */
} kiln_param;

/* A request that has found its route. Lives as long as the request. */
struct kiln_call {
    kiln_web *web;
    kiln_http_request *request;
    const kiln_route *route;
    kiln_uri uri;
    kiln_param param[KILN_PARAMS_MAX];
    json_t *body;             /* of KILN_BODY_JSON */
    kiln_person *person;      /* NULL where the route is open to everybody */
    kiln_session session;     /* where there is a person */
    kiln_route_handler whole; /* of KILN_BODY_STREAM: set by the handler; runs when all is there */
    void *user;               /* the handler's */
    void (*ended)(kiln_call *call); /* set by the handler, may be NULL: the request is freed next */
    /* Of web/dispatch.c. */
    bool is_checked, is_held;
    kiln_status refusal;
};

/* The route's parameter of that name, which it must have. */
const kiln_param *kiln_call_param(const kiln_call *call, const char *name);
/* Empty, or `otherwise`, where it is not given. */
kiln_str kiln_call_text(const kiln_call *call, const char *name);
uint64_t kiln_call_u64(const kiln_call *call, const char *name, uint64_t otherwise);
kiln_arena *kiln_call_arena(kiln_call *call);

/* All rows, in their order. */
const kiln_route *kiln_routes(uint32_t *out_count);
/* The row of that method and path. `*out_allowed`: the methods of the rows with that path, such as
 * "GET, POST", where none has that method; empty: there is no such path. */
const kiln_route *kiln_route_find(const char *method, const kiln_uri *uri, kiln_arena *arena,
                                  kiln_str *out_allowed);
/* Fills call->param from path and query; from the headers, before the other required ones are
 * checked; and from the body, which becomes call->body. INVALID_ARGUMENT naming the parameter. */
KILN_MUST_USE kiln_status kiln_params_read_address(kiln_call *call);
KILN_MUST_USE kiln_status kiln_params_read_headers(kiln_call *call);
KILN_MUST_USE kiln_status kiln_params_read_body(kiln_call *call, kiln_str text);

/* Handlers, one per row. */
#define ROUTE(id, method, path, handler, access, body, answer, doc) void handler(kiln_call *call);
#include "web/routes.def"

/* The document /api/v1/openapi.json, in OpenAPI 3.1. Made of routes.def, proto/messages.def and
 * web/schemas.h. */
void kiln_openapi_print(kiln_strbuf *out);

#endif
