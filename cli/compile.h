/* Options of `kiln compile`, for the command and for what serves it. */
#ifndef KILN_CLI_COMPILE_H
#define KILN_CLI_COMPILE_H

#include "base/opt.h"
#include "cli/cli.h"

typedef struct kiln_compile_options {
    const char *model, *target, *db, *output, *without;
    const char *schedule; /* file of schedules; NULL: none */
    const char *emit;     /* what is made; never NULL */
    uint64_t threads, loop_max, model_memory_mib;
    kiln_opt_list dim;
    kiln_accuracy_options accuracy;
    bool json;
} kiln_compile_options;

/* Parses the command line. Errors of kiln_args_parse. */
KILN_MUST_USE kiln_status kiln_compile_options_parse(int argc, char **argv, kiln_arena *process,
                                                     kiln_compile_options *out,
                                                     kiln_args *out_args);

#endif
