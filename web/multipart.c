#include "web/multipart.h"

#include <string.h>

#include "base/check.h"

static bool is_prefix(kiln_str text, const char *prefix) {
    const size_t size = strlen(prefix);
    return text.size >= size && strncasecmp(text.data, prefix, size) == 0;
}

/* The value of `name=` among parameters "; a=b; c=\"d\""; empty: it is not there. Escapes within
 * quotes are not used by browsers or curl for names, and are refused. */
static kiln_str parameter(kiln_str text, const char *name) {
    kiln_str_cut(&text, ';');
    while (text.size) {
        kiln_str one = kiln_str_trim(kiln_str_cut(&text, ';'));
        if (!is_prefix(one, name) || one.size <= strlen(name) || one.data[strlen(name)] != '=')
            continue;
        one = kiln_str_slice(one, strlen(name) + 1, one.size);
        if (one.size >= 2 && one.data[0] == '"' && one.data[one.size - 1] == '"')
            one = kiln_str_slice(one, 1, one.size - 1);
        return memchr(one.data, '"', one.size) || memchr(one.data, '\\', one.size) ? (kiln_str){0}
                                                                                   : one;
    }
    return (kiln_str){0};
}

static bool is_boundary_character(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           memchr("'()+_,-./:=?", c, 12);
}

kiln_status kiln_multipart_begin(kiln_str content_type, const kiln_multipart_handler *handler,
                                 kiln_multipart *out) {
    const kiln_str boundary = parameter(content_type, "boundary");
    bool is_valid = boundary.size > 0 && boundary.size <= KILN_MULTIPART_BOUNDARY_MAX;
    for (size_t i = 0; i < boundary.size; i++) is_valid &= is_boundary_character(boundary.data[i]);
    if (!is_prefix(content_type, "multipart/form-data") || !is_valid)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "the Content-Type is not multipart/form-data with a boundary");
    *out = (kiln_multipart){.handler = *handler, .delimiter_size = 4 + boundary.size};
    memcpy(out->delimiter, "\r\n--", 4);
    memcpy(out->delimiter + 4, boundary.data, boundary.size);
    kiln_strbuf_text(&out->rest, "\r\n"); /* the first delimiter needs none before it */
    return KILN_OK;
}

void kiln_multipart_deinit(kiln_multipart *m) { kiln_strbuf_deinit(&m->rest); }

static void drop(kiln_multipart *m, size_t count) {
    memmove(m->rest.data, m->rest.data + count, m->rest.size - count);
    m->rest.size -= count;
}

/* Lines of a part's headers: the name of its field. */
static kiln_status read_head(kiln_multipart *m, kiln_str head) {
    kiln_str name = {0};
    while (head.size) {
        const kiln_str line = kiln_str_trim(kiln_str_cut(&head, '\n'));
        if (is_prefix(line, "Content-Disposition:")) name = parameter(line, "name");
        if (is_prefix(line, "Content-Transfer-Encoding:"))
            return KILN_ERROR(INVALID_ARGUMENT, "a part of the form has a transfer encoding");
    }
    if (!name.size || name.size > KILN_MULTIPART_NAME_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "a part of the form has no name");
    if (++m->part_count > KILN_MULTIPART_PARTS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "the form has more than %u parts",
                          KILN_MULTIPART_PARTS_MAX);
    return m->handler.part(m->handler.context, name);
}

/* Content up to the delimiter, or so far that the rest may be its beginning. */
static kiln_status read_body(kiln_multipart *m, bool is_content, bool *out_more) {
    const char *found = memmem(m->rest.data, m->rest.size, m->delimiter, m->delimiter_size);
    size_t size = 0;
    if (found)
        size = (size_t)(found - m->rest.data);
    else if (m->rest.size >= m->delimiter_size)
        size = m->rest.size - (m->delimiter_size - 1);
    kiln_status st = KILN_OK;
    if (size && is_content)
        st = m->handler.data(m->handler.context, (kiln_str){m->rest.data, size});
    drop(m, found ? size + m->delimiter_size : size);
    if (found) m->state = MULTIPART_AFTER;
    *out_more = found != NULL;
    return st;
}

/* Behind a delimiter: the end, or a part. */
static kiln_status read_after(kiln_multipart *m, bool *out_more) {
    *out_more = m->rest.size >= 2;
    if (!*out_more) return KILN_OK;
    const bool is_end = memcmp(m->rest.data, "--", 2) == 0;
    if (!is_end && memcmp(m->rest.data, "\r\n", 2) != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "the form is broken behind a boundary");
    drop(m, 2);
    m->state = is_end ? MULTIPART_END : MULTIPART_HEAD;
    return KILN_OK;
}

static kiln_status read_part(kiln_multipart *m, bool *out_more) {
    const char *end = memmem(m->rest.data, m->rest.size, "\r\n\r\n", 4);
    const size_t size = end ? (size_t)(end - m->rest.data) : m->rest.size;
    *out_more = end != NULL;
    if (size > KILN_MULTIPART_HEAD_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "a part of the form has too long headers");
    if (!end) return KILN_OK;
    kiln_status st = read_head(m, (kiln_str){m->rest.data, size});
    drop(m, size + 4);
    m->state = MULTIPART_BODY;
    return st;
}

kiln_status kiln_multipart_add(kiln_multipart *m, kiln_str piece) {
    kiln_status st = KILN_OK;
    bool more = true;
    kiln_strbuf_str(&m->rest, piece);
    while (!st && more && m->rest.size) {
        switch (m->state) {
        case MULTIPART_BEFORE: st = read_body(m, false, &more); break;
        case MULTIPART_AFTER: st = read_after(m, &more); break;
        case MULTIPART_HEAD: st = read_part(m, &more); break;
        case MULTIPART_BODY: st = read_body(m, true, &more); break;
        case MULTIPART_END: /* what follows is ignored */ kiln_strbuf_reset(&m->rest); break;
        }
    }
    return st;
}

kiln_status kiln_multipart_finish(const kiln_multipart *m) {
    return m->state == MULTIPART_END ? KILN_OK
                                     : KILN_ERROR(INVALID_ARGUMENT, "the form is cut off");
}
