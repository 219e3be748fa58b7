/* Machine code of NVIDIA's GPUs, of PTX that was printed for people, by programs of the vendor's.
 */
#ifndef KILN_CLI_COMMON_SASS_H
#define KILN_CLI_COMMON_SASS_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

typedef struct kiln_sass_tools {
    const char *ptxas, *nvdisasm;
} kiln_sass_tools;

/* FAILED_PRECONDITION: one or both are missing; the error says which and what to install. */
KILN_MUST_USE kiln_status kiln_sass_find(kiln_arena *arena, kiln_sass_tools *out_tools);
/* Replaces the PTX behind each line "# task ..." in `text` by what its registers and spills are,
 * and its machine code. Errors of kiln_ptxas_run and of running nvdisasm, with the task. */
KILN_MUST_USE kiln_status kiln_sass_print(const kiln_sass_tools *tools, kiln_str processor,
                                          kiln_str text, kiln_arena *arena, kiln_strbuf *out);

#endif
