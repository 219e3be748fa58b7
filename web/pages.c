#include "web/pages.h"

#include <string.h>

#define CONTENT_SECURITY                                                           \
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; " \
    "frame-ancestors 'none'; img-src 'self' data: blob:"
#define OK 200u
#define NOT_MODIFIED 304u

static const kiln_page *find(kiln_str path) {
    for (uint32_t i = 0; i < kiln_page_count; i++)
        if (kiln_str_is(path, kiln_pages[i].path)) return &kiln_pages[i];
    return NULL;
}

static const kiln_page *find_page(const kiln_uri *uri, kiln_arena *arena) {
    kiln_strbuf path = {0};
    for (uint32_t i = 0; i < uri->segment_count; i++) {
        if (i) kiln_strbuf_char(&path, '/');
        kiln_strbuf_str(&path, uri->segment[i]);
    }
    if (!uri->segment_count) kiln_strbuf_text(&path, "index.html");
    return find(kiln_strbuf_end(&path, arena));
}

bool kiln_page_answer(kiln_http_request *r, const kiln_uri *uri) {
    const char *method = kiln_http_method(r);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) return false;
    const kiln_page *page = find_page(uri, kiln_http_arena(r));
    if (!page) return false;
    kiln_http_add_header(r, "ETag", page->etag);
    kiln_http_add_header(r, "Cache-Control", "no-cache");
    kiln_http_add_header(r, "Content-Security-Policy", CONTENT_SECURITY);
    kiln_http_add_header(r, "X-Frame-Options", "DENY");
    kiln_http_add_header(r, "Cross-Origin-Opener-Policy", "same-origin");
    if (kiln_str_is(kiln_http_header(r, "If-None-Match"), page->etag))
        kiln_http_answer_empty(r, NOT_MODIFIED);
    else
        kiln_http_answer_constant(r, OK, page->type, (kiln_str){page->data, page->size});
    return true;
}
