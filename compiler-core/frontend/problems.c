#include "compiler-core/frontend/problems.h"

#include <stdarg.h>

#define TEXT_BYTES_MAX 3000 /* a status holds 4096 bytes */

void kiln_problems_add(kiln_problems *problems, const char *format, ...) {
    problems->count++;
    if (problems->text.size > TEXT_BYTES_MAX) return;
    va_list args;
    va_start(args, format);
    kiln_strbuf_text(&problems->text, "\n  ");
    kiln_strbuf_vprintf(&problems->text, format, args);
    va_end(args);
}

void kiln_problems_cut(kiln_problems *problems, uint32_t count, size_t bytes) {
    problems->count = count;
    problems->text.size = bytes;
    if (problems->text.data) problems->text.data[bytes] = 0;
}

kiln_status kiln_problems_status(const kiln_problems *problems) {
    if (problems->count == 0) return KILN_OK;
    const bool one = problems->count == 1;
    return KILN_ERROR(UNIMPLEMENTED, "%u thing%s of this model %s not supported:%.*s%s",
                      problems->count, one ? "" : "s", one ? "is" : "are", (int)problems->text.size,
                      problems->text.data, problems->text.size > TEXT_BYTES_MAX ? "\n  ..." : "");
}

void kiln_problems_deinit(kiln_problems *problems) { kiln_strbuf_deinit(&problems->text); }
