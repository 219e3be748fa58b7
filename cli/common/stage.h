/* The stages between a model and its machine code, as text: of `kiln explain` and `kiln compile
 * --emit`. */
#ifndef KILN_CLI_COMMON_STAGE_H
#define KILN_CLI_COMMON_STAGE_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "compiler-core/core.h"
#include "compiler-core/frontend/frontend.h"

typedef struct kiln_stage_options {
    const char *stage, *after; /* `after` NULL: all passes */
    const kiln_target *target;
    const char *db_path;             /* NULL: default schedules */
    const kiln_import_options *onnx; /* NULL: none */
    const char *task;                /* number or key prefix; NULL: all */
    bool refused;                    /* space: also what rules tried in vain */
    kiln_accuracy accuracy;          /* of the schedules that may be taken */
    bool omits_helpers;              /* C dialects: without types and helpers before the code */
} kiln_stage_options;
/* The text of a stage, made in processes without rights (model_work.h); it lasts until the program
 * ends. INVALID_ARGUMENT: no such stage, pass or task, the note lists those there are; `refused` of
 * another stage than space. */
KILN_MUST_USE kiln_status kiln_stage_make(const char *model_path, const kiln_stage_options *options,
                                          kiln_arena *process, kiln_str *out_text);

#endif
