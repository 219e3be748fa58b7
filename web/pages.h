/* The files of web/pages, which are built into the program. */
#ifndef KILN_WEB_PAGES_H
#define KILN_WEB_PAGES_H

#include "web/http.h"
#include "web/uri.h"

typedef struct kiln_page {
    const char *path; /* "fleet.js", "icons/board.svg" */
    const char *type; /* "text/javascript; charset=utf-8" */
    const char *etag; /* with its quotes; of the content */
    const char *data;
    size_t size;
} kiln_page;

/* Sorted by path; made by web/embed.py. */
extern const kiln_page kiln_pages[];
extern const uint32_t kiln_page_count;

/* Answers a GET or HEAD of a file; "/", and a path without a dot outside of /api, is "index.html",
 * so that views of the dashboard have addresses of their own. False: there is no such file. */
bool kiln_page_answer(kiln_http_request *r, const kiln_uri *uri);

#endif
