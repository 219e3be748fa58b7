/* Collects the unsupported parts that a reader of models finds, to report all of them in one
 * error. */
#ifndef KILN_COMPILER_CORE_FRONTEND_PROBLEMS_H
#define KILN_COMPILER_CORE_FRONTEND_PROBLEMS_H

#include "base/status.h"
#include "base/str.h"

/* Zero is an empty list. */
typedef struct kiln_problems {
    uint32_t count;
    kiln_strbuf text; /* a line each; those that do not fit into a status are only counted */
} kiln_problems;

void kiln_problems_add(kiln_problems *problems, const char *format, ...) KILN_PRINTF(2, 3);
/* Cuts the list back to `count` problems and `bytes` of text. */
void kiln_problems_cut(kiln_problems *problems, uint32_t count, size_t bytes);
/* UNIMPLEMENTED with all of them; OK when there are none. */
KILN_MUST_USE kiln_status kiln_problems_status(const kiln_problems *problems);
void kiln_problems_deinit(kiln_problems *problems);

#endif
