/* kiln db import --autotvm: schedules of AutoTVM's logs as hints (docs/how-to/autotvm.md). */
#ifndef KILN_CLI_AUTOTVM_IMPORT_H
#define KILN_CLI_AUTOTVM_IMPORT_H

#include "base/target.h"
#include "compiler-core/frontend/frontend.h"

typedef struct kiln_autotvm_options {
    const char *log;   /* file */
    const char *model; /* its kernels are those that the log may be of */
    const char *db;    /* made where it is missing */
    kiln_target target;
    kiln_import_options import; /* of the model */
    bool json;
} kiln_autotvm_options;

/* Imports and prints what became of the lines. All or nothing.
 * INVALID_ARGUMENT     a line is none of such a log, with file and line
 * others               of kiln_file_read, kiln_model_read, kiln_db_open */
KILN_MUST_USE kiln_status kiln_autotvm_import(const kiln_autotvm_options *options,
                                              kiln_arena *process);

#endif
