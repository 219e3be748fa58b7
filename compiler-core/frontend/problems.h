/* What a reader of models finds that is not supported: all of it is told in one error. */
#ifndef KILN_COMPILER_CORE_FRONTEND_PROBLEMS_H
#define KILN_COMPILER_CORE_FRONTEND_PROBLEMS_H

#include "base/status.h"
#include "base/str.h"

/* Zero is an empty list. */
typedef struct kiln_problems {
    uint32_t count;
    kiln_strbuf text; /* a line each; those that find no room in a status are only counted */
} kiln_problems;

void kiln_problems_add(kiln_problems *problems, const char *format, ...) KILN_PRINTF(2, 3);
/* Forgets what was added after there were `count` of them in `bytes` of text. */
void kiln_problems_cut(kiln_problems *problems, uint32_t count, size_t bytes);
/* UNIMPLEMENTED with all of them; OK when there are none. */
KILN_MUST_USE kiln_status kiln_problems_status(const kiln_problems *problems);
void kiln_problems_deinit(kiln_problems *problems);

#endif
