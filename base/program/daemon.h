/* The common main of daemons: options, --help, the log, the exit code. */
#ifndef KILN_BASE_PROGRAM_DAEMON_H
#define KILN_BASE_PROGRAM_DAEMON_H

#include "base/program/program.h"

typedef struct kiln_daemon {
    kiln_executable program;
    kiln_opt_table table; /* its own options; common ones are added */
    kiln_status (*run)(const void *options, kiln_arena *process); /* runs until it ends in order */
    const void *options; /* struct filled by the table's options */
} kiln_daemon;

/* Parses, prints --help or runs. Errors go to standard error, once, with the program's name.
 * Returns the exit code. */
int kiln_daemon_main(const kiln_daemon *daemon, int argc, char **argv);

#endif
