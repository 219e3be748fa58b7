/* `kiln explain --stage plan`: how each layer of a model is computed, and how exact that is. */
#ifndef KILN_CLI_PLAN_H
#define KILN_CLI_PLAN_H

#include "cli/cli.h"
#include "cli/common/stage.h"

/* The schedules that packing would take: of the database of `options`, else the default ones. The
 * model is compiled in a process without rights. Appends a table to `out`; with `json` prints one
 * object instead. Errors of kiln_stage_make. */
KILN_MUST_USE kiln_status kiln_plan_print(const char *model_path, const kiln_stage_options *options,
                                          bool json, kiln_arena *process, kiln_strbuf *out);

#endif
