/* From a request to its route's handler: path and method, the person, the parameters. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "web/pages.h"
#include "web/routes.h"

#define METHOD_NOT_ALLOWED 405u
#define UNSUPPORTED_MEDIA_TYPE 415u

static kiln_call *call_of(kiln_http_request *r) { return kiln_http_user(r); }

static void refuse(kiln_call *call, kiln_status st) { kiln_http_answer_error(call->request, st); }

/* ---- The route ---- */

static void answer_without_route(kiln_call *call, kiln_str allowed) {
    kiln_http_request *r = call->request;
    if (allowed.size) {
        kiln_http_add_header(r, "Allow", kiln_str_dup(kiln_http_arena(r), allowed));
        kiln_http_answer_error_as(
            r, METHOD_NOT_ALLOWED,
            KILN_ERROR(UNIMPLEMENTED, "this address takes %.*s only", KILN_STR_ARG(allowed)));
    } else if (!kiln_page_answer(r, &call->uri)) {
        refuse(call, KILN_ERROR(NOT_FOUND, "there is nothing at this address"));
    }
}

/* ---- The body ---- */

static bool is_json(kiln_str type) {
    kiln_str name = kiln_str_trim(kiln_str_cut(&type, ';'));
    return kiln_str_is(name, "application/json");
}

static void begin_body(kiln_call *call) {
    kiln_http_request *r = call->request;
    switch (call->route->body) {
    case KILN_BODY_NONE: return;
    case KILN_BODY_JSON:
        if (is_json(kiln_http_header(r, "Content-Type")))
            kiln_http_take_whole(r, KILN_HTTP_WHOLE_BYTES_MAX);
        else
            kiln_http_answer_error_as(
                r, UNSUPPORTED_MEDIA_TYPE,
                KILN_ERROR(INVALID_ARGUMENT, "the Content-Type is not application/json"));
        return;
    case KILN_BODY_STREAM: call->route->run(call); return;
    }
}

/* ---- The person ---- */

static void on_session(void *context, const kiln_session *session, kiln_status st) {
    kiln_call *call = context;
    if (!st) st = kiln_sessions_check_origin(session, call->request);
    if (!st) st = kiln_person_get(call->web->people, &session->who, &call->person);
    if (!st) call->session = *session;
    call->refusal = st;
    call->is_checked = true;
    if (call->is_held) kiln_http_go_on(call->request);
}

/* False: the request is held until the person is known. */
static bool find_person(kiln_call *call) {
    if (!call->is_checked) kiln_sessions_find(call->web->sessions, call->request, on_session, call);
    if (call->is_checked) return true;
    call->is_held = true;
    kiln_http_hold(call->request);
    return false;
}

/* ---- kiln_http_handler ---- */

static kiln_call *begin_call(kiln_web *web, kiln_http_request *r) {
    kiln_call *call = kiln_arena_alloc(kiln_http_arena(r), sizeof *call);
    call->web = web;
    call->request = r;
    kiln_http_set_user(r, call);
    return call;
}

static void on_head(void *context, kiln_http_request *r) {
    kiln_call *call = call_of(r);
    if (!call) {
        call = begin_call(context, r);
        kiln_str allowed = {0};
        kiln_status st = kiln_uri_parse(kiln_http_uri(r), kiln_http_arena(r), &call->uri);
        if (st) {
            refuse(call, st);
            return;
        }
        call->route =
            kiln_route_find(kiln_http_method(r), &call->uri, kiln_http_arena(r), &allowed);
        if (!call->route) {
            answer_without_route(call, allowed);
            return;
        }
    }
    if (call->route->access == KILN_ACCESS_PERSON && !find_person(call)) return;
    kiln_status st = call->refusal;
    call->refusal = NULL;
    if (!st) st = kiln_params_read_address(call);
    if (!st) st = kiln_params_read_headers(call);
    if (st)
        refuse(call, st);
    else
        begin_body(call);
}

static void on_whole(void *context, kiln_http_request *r) {
    (void)context;
    kiln_call *call = call_of(r);
    kiln_status st = call->route->body == KILN_BODY_JSON
                         ? kiln_params_read_body(call, kiln_http_body(r))
                         : KILN_OK;
    if (st)
        refuse(call, st);
    else if (call->route->body == KILN_BODY_STREAM)
        call->whole(call);
    else
        call->route->run(call);
}

static void on_ended(void *context, kiln_http_request *r) {
    (void)context;
    kiln_call *call = call_of(r);
    if (!call) return;
    if (call->ended) call->ended(call);
    json_decref(call->body);
    kiln_status_free(call->refusal);
    kiln_person_release(call->person);
}

const kiln_http_handler kiln_web_dispatch = {on_head, on_whole, on_ended};
