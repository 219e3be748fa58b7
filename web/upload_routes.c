/* Routes of resumable uploads. A client creates one of a known length, sends its bytes in one or
 * more PATCH requests, each from the offset on that the server has, and asks for that offset by
 * HEAD when a request broke off. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "web/uploads_state.h"

#define OK 200u
#define CREATED 201u
#define NO_CONTENT 204u
#define SEND_NS \
    (UINT64_C(24) * 3600 * KILN_NS_PER_S) /* clients that send nothing are cut earlier */

static const char *person_of(const kiln_call *call) { return call->session.who.name; }

static void add_number(kiln_http_request *r, const char *name, uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    kiln_http_add_header(r, name, text);
}

static void add_headers(kiln_http_request *r, const kiln_upload *upload) {
    add_number(r, "Upload-Offset", kiln_upload_offset(upload));
    add_number(r, "Upload-Length", upload->size);
    kiln_http_add_header(r, "Cache-Control", "no-store");
}

static void answer_upload(kiln_http_request *r, unsigned status, const kiln_upload *upload) {
    char digest[KILN_DIGEST_TEXT] = "";
    add_headers(r, upload);
    if (upload->is_whole) kiln_digest_print(&upload->digest, digest);
    json_t *value =
        json_pack("{s:s, s:I, s:I}", "id", upload->id, "offset",
                  (json_int_t)kiln_upload_offset(upload), "size", (json_int_t)upload->size);
    if (upload->is_whole) json_object_set_new(value, "blob", json_string(digest));
    kiln_http_answer_json(r, status, value);
}

static kiln_upload *find(kiln_call *call) {
    kiln_upload *upload =
        kiln_upload_find(call->web->uploads, person_of(call), kiln_call_text(call, "id"));
    if (!upload)
        kiln_http_answer_error(call->request, KILN_ERROR(NOT_FOUND, "there is no such upload"));
    return upload;
}

void kiln_web_upload_create(kiln_call *call) {
    kiln_upload *upload = NULL;
    kiln_status st = kiln_upload_create(call->web->uploads, person_of(call),
                                        kiln_call_u64(call, "Upload-Length", 0), &upload);
    if (st) {
        kiln_http_answer_error(call->request, st);
        return;
    }
    kiln_http_add_header(
        call->request, "Location",
        kiln_arena_printf(kiln_call_arena(call), "/api/v1/uploads/%s", upload->id));
    answer_upload(call->request, CREATED, upload);
}

void kiln_web_upload_show(kiln_call *call) {
    const kiln_upload *upload = find(call);
    if (upload) answer_upload(call->request, OK, upload);
}

static kiln_status busy(void) {
    return KILN_ERROR(ABORTED, "another request sends bytes of this upload");
}

void kiln_web_upload_delete(kiln_call *call) {
    kiln_upload *upload = find(call);
    if (!upload) return;
    if (upload->call) {
        kiln_http_answer_error(call->request, busy());
        return;
    }
    kiln_upload_remove(upload);
    kiln_http_answer_empty(call->request, NO_CONTENT);
}

/* ---- PATCH ----------------------------------------------------------------------------------- */

static bool on_piece(void *context, kiln_http_request *r, kiln_str piece) {
    kiln_upload *upload = context;
    (void)r;
    kiln_upload_touch(upload);
    return kiln_spool_add(upload->spool, piece);
}

static void on_more(void *context) {
    kiln_upload *upload = context;
    if (upload->call) kiln_http_more(upload->call->request);
}

/* All that was sent is on the disk. */
static void on_flushed(void *context, const kiln_digest *digest, kiln_status st) {
    kiln_upload *upload = context;
    kiln_http_request *r = upload->call->request;
    if (!st && kiln_upload_offset(upload) == upload->size)
        st = kiln_upload_finish(upload, person_of(upload->call), digest);
    upload->call->user = NULL;
    upload->call = NULL;
    if (st) {
        kiln_http_answer_error(r, st);
        kiln_upload_remove(upload); /* what is missing cannot be sent any more */
        return;
    }
    answer_upload(r, OK, upload);
}

static void on_whole(kiln_call *call) {
    kiln_upload *upload = call->user;
    kiln_spool_flush(upload->spool, on_flushed, upload);
}

/* The client has left in the middle: what came stays. */
static void on_ended(kiln_call *call) {
    kiln_upload *upload = call->user;
    if (upload) upload->call = NULL;
}

static kiln_status check_offset(const kiln_call *call, const kiln_upload *upload) {
    const uint64_t offset = kiln_call_u64(call, "Upload-Offset", 0);
    if (upload->call) return busy();
    if (upload->is_whole) return KILN_ERROR(ABORTED, "the upload is whole already");
    if (offset != kiln_upload_offset(upload))
        return KILN_ERROR(ABORTED, "the upload continues at byte %llu, not at %llu",
                          (unsigned long long)kiln_upload_offset(upload),
                          (unsigned long long)offset);
    return KILN_OK;
}

void kiln_web_upload_send(kiln_call *call) {
    kiln_upload *upload = find(call);
    if (!upload) return;
    kiln_status st = check_offset(call, upload);
    if (st) {
        add_headers(call->request, upload);
        kiln_http_answer_error(call->request, st);
        return;
    }
    upload->call = call;
    call->user = upload;
    call->whole = on_whole;
    call->ended = on_ended;
    kiln_spool_on_more(upload->spool, on_more, upload);
    kiln_http_set_deadline(call->request, SEND_NS);
    kiln_http_take_pieces(call->request, upload->size - kiln_upload_offset(upload), on_piece,
                          upload);
}
