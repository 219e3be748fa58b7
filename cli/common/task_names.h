/* What people call the tasks of a model. */
#ifndef KILN_CLI_COMMON_TASK_NAMES_H
#define KILN_CLI_COMMON_TASK_NAMES_H

#include "base/arena.h"
#include "base/status.h"
#include "compiler-core/core.h"

/* "conv+relu 64x56x56 over 64x3x3": operators, and the extents of the largest computation. */
const char *kiln_task_label(const kiln_task *task, kiln_arena *arena);
/* Whether this is the task that a person names: by its number, by the beginning of its key, or not
 * at all (NULL: every task is). */
bool kiln_task_is(const kiln_task *task, uint32_t number, const char *wanted);
/* INVALID_ARGUMENT saying which tasks there are. */
KILN_MUST_USE kiln_status kiln_no_such_task(const kiln_tasks *tasks, const char *wanted);

#endif
