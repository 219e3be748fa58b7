/* Options of `kiln compile`: of its command line, and settings of its request. */
#ifndef KILN_CLI_COMMON_COMPILE_OPTIONS_H
#define KILN_CLI_COMMON_COMPILE_OPTIONS_H

#include "cli/common/options.h"

typedef struct kiln_compile_options {
    const char *model, *target, *db, *output, *without;
    const char *schedule;   /* file of schedules; NULL: none */
    const char *model_name; /* NULL: of the file */
    const char *emit;       /* what is made; never NULL */
    uint64_t threads;
    kiln_opt_list dim;
    kiln_import_options import; /* without the sizes of `dim` */
    kiln_accuracy_options accuracy;
    bool json;
} kiln_compile_options;

/* Sets the defaults; `model` is the caller's to set. The table's places are in `*out_options`, its
 * rows in `process`. */
kiln_opt_table kiln_compile_options_init(kiln_compile_options *out_options, kiln_arena *process);

#endif
