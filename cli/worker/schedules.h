/* Schedules written by hand, as --schedule takes them: for each task a line "task KEY" and the
 * lines of its trace (docs/reference/trace-text.md). */
#ifndef KILN_CLI_WORKER_SCHEDULES_H
#define KILN_CLI_WORKER_SCHEDULES_H

#include "compiler-core/core.h"
#include "deploy/pack/pack.h"
#include "proto/proto.h"

typedef struct kiln_schedules {
    const char *path; /* NULL: there are none */
    kiln_str text;
} kiln_schedules;

/* Reads the file; `path` NULL: none. Errors of kiln_file_read. */
KILN_MUST_USE kiln_status kiln_schedules_read(const char *path, kiln_arena *arena,
                                              kiln_schedules *out);
/* *out_list [*out_count], in the file's order.
 * INVALID_ARGUMENT: a line is neither; notes name the file and the task */
KILN_MUST_USE kiln_status kiln_schedules_parse(const kiln_schedules *schedules, kiln_arena *arena,
                                               const kiln_pack_given **out_list,
                                               uint32_t *out_count);
/* As a job takes them; each is checked on its task of the compilation, as
 * far as that can be done without measuring. NOT_FOUND            the model has no such task, or
 * none that is tuned ILLEGAL_SCHEDULE     a step is refused RESOURCE_EXHAUSTED   more registers
 * than the target has, or more or larger ones than a job takes
 */
KILN_MUST_USE kiln_status kiln_schedules_check(const kiln_schedules *schedules,
                                               const kiln_compilation *compilation,
                                               const kiln_target *target,
                                               const kiln_accuracy *accuracy, kiln_arena *arena,
                                               kiln_msg_hand_schedules *out);

#endif
