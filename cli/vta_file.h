/* Programs of accelerators of the VTA class in a file: text, a blob, or a module, whose kernels for
 * such a device have one for each launch. Used by `kiln vta`. */
#ifndef KILN_CLI_VTA_FILE_H
#define KILN_CLI_VTA_FILE_H

#include "base/arena.h"
#include "base/status.h"
#include "vta/program.h"

typedef struct kiln_vta_file_program {
    kiln_str name; /* of a module: "conv2d+relu", what the kernel computes; else empty */
    kiln_vta_program program;
} kiln_vta_file_program;

/* The programs, in the order of the module's kernels; [*out_count], at least one, in `process`.
 * NOT_FOUND: the module has none. Errors of reading the file and of the decoders; texts give
 * programs that may be illegal (kiln_vta_program_check). */
KILN_MUST_USE kiln_status kiln_vta_file_read(const char *path, kiln_arena *process,
                                             kiln_vta_file_program **out_found,
                                             uint32_t *out_count);

#endif
