/* Whether an imported record can be true, given the program of its task: the checks that
 * db/plausible.h cannot make without the compiler. For kiln_db_import_options.implausible of `kiln
 * db import` and of records that a job brought, in `kiln` and in the tuner. */
#ifndef KILN_TUNER_PLAUSIBLE_H
#define KILN_TUNER_PLAUSIBLE_H

#include "compiler-core/core.h"

#include "db/import.h"

/* Bytes that one core, or another device, can write per second: twice the bandwidth of a
 * first-level cache. */
#define KILN_PLAUSIBLE_CORE_BYTES 2e12
#define KILN_PLAUSIBLE_DEVICE_BYTES 1e14

typedef struct kiln_plausible kiln_plausible;

/* A task whose program is at hand. */
typedef struct kiln_plausible_task {
    kiln_str key;
    const kiln_program *te;
} kiln_plausible_task;

/* By the program in the row of the record's task. */
kiln_plausible *kiln_plausible_create(void);
/* By these programs, which outlive it; records of other tasks pass. Programs of imported rows are
 * not parsed, which might take long. */
kiln_plausible *kiln_plausible_create_for(const kiln_plausible_task *known, uint32_t count);
void kiln_plausible_destroy(kiln_plausible *plausible); /* NULL is fine */
/* `context` is the kiln_plausible. NULL also where the task, its program or its target is unknown
 * to this version, or is not among those at hand. */
const char *kiln_plausible_why_not(void *context, const kiln_db_record *record,
                                   const kiln_db_task *task);

#endif
