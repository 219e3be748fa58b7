#include "base/program/config_text.h"

#include <ini.h>
#include <string.h>

typedef struct reading {
    kiln_str rest;
    uint32_t line;
    kiln_status failure; /* the first one */
    kiln_status (*take)(void *context, const char *section, const char *name, const char *value,
                        uint32_t line);
    void *context;
} reading;

/* ini_reader: a line with its end, as fgets. libinih does not tell the handler the line's number
 * and cuts long lines in two, so both are seen to here. */
static char *read_line(char *out, int size, void *context) {
    reading *r = context;
    if (!r->rest.size || r->failure) return NULL;
    const kiln_str line = kiln_str_cut(&r->rest, '\n');
    r->line++;
    if (line.size + 2 > (size_t)size) {
        r->failure = KILN_ERROR(INVALID_ARGUMENT, "the line has %zu bytes; at most %d are read",
                                line.size, size - 2);
        return NULL;
    }
    memcpy(out, line.data, line.size);
    memcpy(out + line.size, "\n", 2);
    return out;
}

/* ini_handler: 0 means an error. */
static int take_value(void *context, const char *section, const char *name, const char *value) {
    reading *r = context;
    if (!r->failure) r->failure = r->take(r->context, section, name, value, r->line);
    return r->failure == NULL;
}

kiln_status kiln_config_text_parse(const char *path, kiln_str text,
                                   kiln_status (*take)(void *context, const char *section,
                                                       const char *name, const char *value,
                                                       uint32_t line),
                                   void *context) {
    reading r = {.rest = text, .take = take, .context = context};
    const int bad_line = ini_parse_stream(read_line, &r, take_value, &r);
    if (bad_line < 0) return KILN_ERROR(RESOURCE_EXHAUSTED, "there is no memory to read it");
    if (!r.failure && bad_line == 0) return KILN_OK;
    if (r.failure && (bad_line == 0 || (uint32_t)bad_line == r.line))
        return kiln_status_note(r.failure, "%s:%u", path, r.line);
    kiln_status_free(r.failure); /* of a later line */
    return kiln_status_note(
        KILN_ERROR(INVALID_ARGUMENT, "this is neither [section] nor option = value"), "%s:%d", path,
        bad_line);
}
