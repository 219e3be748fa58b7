/* Whether a record from elsewhere can be true, by the program of its task: what db/plausible.h
 * cannot know without the compiler. For kiln_db_import_options.implausible of `kiln db import` and
 * of records that a job brought. The tuner's loop leaves it out: there a stranger's program may
 * take no time, and its records are measured again. */
#ifndef KILN_CLI_PLAUSIBLE_H
#define KILN_CLI_PLAUSIBLE_H

#include "db/import.h"

/* Bytes that one core, or what is no processor, writes in a second at most: twice what its first
 * level of cache takes. */
#define KILN_PLAUSIBLE_CORE_BYTES 2e12
#define KILN_PLAUSIBLE_DEVICE_BYTES 1e14

typedef struct kiln_plausible kiln_plausible;

kiln_plausible *kiln_plausible_create(void);
void kiln_plausible_destroy(kiln_plausible *plausible); /* NULL is fine */
/* `context` is the kiln_plausible. NULL also where the task, its program or its target is unknown
 * to this version. */
const char *kiln_plausible_why_not(void *context, const kiln_db_record *record,
                                   const kiln_db_task *task);

#endif
