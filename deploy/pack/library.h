/* Writes plans whose kernels are C text as the folder of a library, for build systems of
 * microcontrollers: an Arduino library, a Zephyr module and a CMake target. Used by `kiln compile
 * --emit library`; library.def lists the files. */
#ifndef KILN_DEPLOY_LIBRARY_H
#define KILN_DEPLOY_LIBRARY_H

#include "deploy/pack/static_c.h"

typedef enum kiln_library_file {
#define X(NAME, path, writer, doc) KILN_LIBRARY_##NAME,
#include "deploy/pack/library.def"
#undef X
    KILN_LIBRARY_FILES
} kiln_library_file;

/* Path of a file in the folder, in `arena`. `name`: the identifier of kiln_static_c. */
const char *kiln_library_path(kiln_library_file file, kiln_str name, kiln_arena *arena);
/* Appends the texts of all files. Errors of kiln_static_c. */
KILN_MUST_USE kiln_status kiln_library(const kiln_module_sizes *sizes, kiln_str name,
                                       kiln_arena *arena, kiln_strbuf out_text[KILN_LIBRARY_FILES],
                                       kiln_static_c_sizes *out_sizes);

#endif
