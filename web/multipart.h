/* Bodies of multipart/form-data (RFC 7578), read in pieces. */
#ifndef KILN_WEB_MULTIPART_H
#define KILN_WEB_MULTIPART_H

#include "base/status.h"
#include "base/str.h"

#define KILN_MULTIPART_HEAD_MAX ((size_t)4096) /* bytes of a part's headers */
#define KILN_MULTIPART_PARTS_MAX 256u
#define KILN_MULTIPART_NAME_MAX 64u
#define KILN_MULTIPART_BOUNDARY_MAX 70u

typedef struct kiln_multipart_handler {
    /* A part begins; `name` is that of its form field. An error ends the reading. */
    kiln_status (*part)(void *context, kiln_str name);
    /* Some of its content. */
    kiln_status (*data)(void *context, kiln_str bytes);
    void *context;
} kiln_multipart_handler;

typedef struct kiln_multipart {
    kiln_multipart_handler handler;
    char delimiter[4 + KILN_MULTIPART_BOUNDARY_MAX]; /* CR LF "--" boundary */
    size_t delimiter_size;
    enum { MULTIPART_BEFORE, MULTIPART_AFTER, MULTIPART_HEAD, MULTIPART_BODY, MULTIPART_END } state;
    uint32_t part_count;
    kiln_strbuf rest; /* not understood yet */
} kiln_multipart;

/* `content_type`: the header, with the boundary. INVALID_ARGUMENT: it is no such type, or has no
 * valid boundary. */
KILN_MUST_USE kiln_status kiln_multipart_begin(kiln_str content_type,
                                               const kiln_multipart_handler *handler,
                                               kiln_multipart *out);
/* INVALID_ARGUMENT: the body has not this form; errors of the handler. */
KILN_MUST_USE kiln_status kiln_multipart_add(kiln_multipart *m, kiln_str piece);
/* INVALID_ARGUMENT: the body is cut off. */
KILN_MUST_USE kiln_status kiln_multipart_finish(const kiln_multipart *m);
void kiln_multipart_deinit(kiln_multipart *m); /* accepts a zeroed one */

#endif
