/* Answers: their bodies and headers. */
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "web/http_state.h"

#define BLOCK_BYTES ((size_t)64 << 10) /* of an answer that is made while it is sent */
#define DIGITS 17                      /* of a number: it comes back as it was */

unsigned kiln_http_status_of(kiln_code code) {
    switch (code) {
#define X(name, status) \
    case KILN_##name: return status;
#include "web/http_statuses.def"
#undef X
    }
    return MHD_HTTP_INTERNAL_SERVER_ERROR;
}

void kiln_http_add_header(kiln_http_request *r, const char *name, const char *value) {
    const kiln_str pair[2] = {kiln_str_from(name), kiln_str_from(value)};
    for (uint32_t i = 0; i < 2; i++) {
        const kiln_str copy = {kiln_str_dup(&r->arena, pair[i]), pair[i].size};
        kiln_vec_push_in(&r->arena, &r->headers, copy);
    }
}

static bool has_header(const kiln_http_request *r, const char *name) {
    for (uint32_t i = 0; i < r->headers.count; i += 2)
        if (kiln_str_is(r->headers.data[i], name)) return true;
    return false;
}

/* What every answer says, unless its handler said otherwise. */
static void add_usual_headers(kiln_http_request *r) {
    static const char *const usual[][2] = {
        {MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(usual); i++)
        if (!has_header(r, usual[i][0])) kiln_http_add_header(r, usual[i][0], usual[i][1]);
}

static void respond(kiln_http_request *r, unsigned status, const char *type,
                    struct MHD_Response *response) {
    add_usual_headers(r);
    kiln_http_set_response(r, status, type, response);
}

void kiln_http_answer(kiln_http_request *r, unsigned status, const char *type, kiln_strbuf *body) {
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback(
        body->size, body->data ? body->data : kiln_alloc(1), kiln_free);
    *body = (kiln_strbuf){0};
    respond(r, status, type, response);
}

void kiln_http_answer_constant(kiln_http_request *r, unsigned status, const char *type,
                               kiln_str data) {
    respond(r, status, type,
            MHD_create_response_from_buffer(data.size, (void *)(uintptr_t)data.data,
                                            MHD_RESPMEM_PERSISTENT));
}

void kiln_http_answer_empty(kiln_http_request *r, unsigned status) {
    kiln_http_answer_constant(r, status, NULL, KILN_STR(""));
}

static int append(const char *data, size_t size, void *out) {
    kiln_strbuf_append(out, data, size);
    return 0;
}

void kiln_http_answer_json(kiln_http_request *r, unsigned status, json_t *value) {
    kiln_strbuf body = {0};
    json_dump_callback(value, append, &body,
                       JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(DIGITS));
    json_decref(value);
    kiln_http_answer(r, status, "application/json", &body);
}

void kiln_http_answer_error_as(kiln_http_request *r, unsigned status, kiln_status st) {
    kiln_strbuf body = {0};
    kiln_strbuf_printf(
        &body, "{\"error\":{\"code\":\"%s\",\"message\":", kiln_code_name(kiln_status_code(st)));
    kiln_json_print_text(kiln_str_from(kiln_status_text(st)), &body);
    kiln_strbuf_text(&body, "}}");
    kiln_status_free(st);
    if (status == MHD_HTTP_UNAUTHORIZED && !has_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE))
        kiln_http_add_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    kiln_http_answer(r, status, "application/json", &body);
}

void kiln_http_answer_error(kiln_http_request *r, kiln_status st) {
    kiln_http_answer_error_as(r, kiln_http_status_of(kiln_status_code(st)), st);
}

/* ---- Answers that are made while they are sent ---- */

static ssize_t take_out(kiln_http_request *r, char *to, size_t max) {
    const size_t size = KILN_MIN(max, r->out.size - r->out_at);
    memcpy(to, r->out.data + r->out_at, size);
    r->out_at += size;
    return (ssize_t)size;
}

static ssize_t read_stream(void *context, uint64_t at, char *to, size_t max) {
    (void)at;
    kiln_http_request *r = context;
    kiln_http_set_link_deadline(r->link, KILN_HTTP_SENT_NS);
    if (r->out_at < r->out.size) return take_out(r, to, max);
    kiln_strbuf_reset(&r->out);
    r->out_at = 0;
    if (r->step == KILN_HTTP_MORE) r->step = r->stream.step(r->stream.state, &r->out);
    if (r->out.size) return take_out(r, to, max);
    if (r->step == KILN_HTTP_END) return MHD_CONTENT_READER_END_OF_STREAM;
    KILN_CHECK(r->step == KILN_HTTP_WAIT);
    kiln_http_suspend(r);
    return 0;
}

void kiln_http_answer_stream(kiln_http_request *r, unsigned status,
                             const kiln_http_stream *stream) {
    KILN_CHECK(stream->step != NULL && stream->end != NULL);
    r->stream = *stream;
    respond(r, status, stream->type,
            MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, r, NULL));
}

void kiln_http_wake(kiln_http_request *r) {
    if (r->step == KILN_HTTP_WAIT) r->step = KILN_HTTP_MORE;
    if (r->connection && r->stage == HTTP_SENT) kiln_http_resume(r);
}

typedef struct file_answer {
    kiln_http_request *request;
    int fd;
    uint64_t offset;
} file_answer;

static ssize_t read_file(void *context, uint64_t at, char *to, size_t max) {
    file_answer *file = context;
    kiln_http_set_link_deadline(file->request->link, KILN_HTTP_SENT_NS);
    const ssize_t size = pread(file->fd, to, max, (off_t)(file->offset + at));
    return size > 0 ? size : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void close_file(void *context) {
    file_answer *file = context;
    close(file->fd);
    kiln_free(file);
}

void kiln_http_answer_file(kiln_http_request *r, unsigned status, const char *type, int fd,
                           uint64_t offset, uint64_t size) {
    file_answer *file = kiln_alloc(sizeof *file);
    *file = (file_answer){r, fd, offset};
    respond(r, status, type,
            MHD_create_response_from_callback(size, BLOCK_BYTES, read_file, file, close_file));
}
