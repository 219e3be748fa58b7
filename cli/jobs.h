/* What `kiln jobs` can do, for the command and for what serves it. */
#ifndef KILN_CLI_JOBS_H
#define KILN_CLI_JOBS_H

#include "cli/tracker_call.h"

extern const kiln_tracker_commands kiln_jobs_commands;

#endif
