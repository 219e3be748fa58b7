/* What the daemons' mains have in common: options, --help, the log, the exit code. */
#ifndef KILN_BASE_PROGRAM_DAEMON_H
#define KILN_BASE_PROGRAM_DAEMON_H

#include "base/program/program.h"

typedef struct kiln_daemon {
    kiln_executable program;
    kiln_opt_table table; /* its own options; those of every daemon are added */
    kiln_status (*run)(const void *options, kiln_arena *process); /* to its orderly end */
    const void *options; /* what the table's options fill */
} kiln_daemon;

/* Parses, prints --help or runs. Errors go to standard error, once, with the program's name.
 * Returns the exit code. */
int kiln_daemon_main(const kiln_daemon *daemon, int argc, char **argv);

#endif
