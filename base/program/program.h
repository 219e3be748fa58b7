/* Command lines of the programs that have configuration files: all but kiln-run. Options that each
 * of them has, and where values come from:
 *
 *     command line > environment > user's file > machine's file > default
 *
 * (docs/reference/command-line.md). */
#ifndef KILN_BASE_PROGRAM_PROGRAM_H
#define KILN_BASE_PROGRAM_PROGRAM_H

#include <stdint.h>

#include "base/log.h"
#include "base/opt.h"

typedef struct kiln_executable {
    const char *name;     /* "kiln-tracker": in the log, in --version, and its section of a file */
    kiln_log_level level; /* of its log, unless an option says another */
    uint32_t protocol_min, protocol_max; /* versions that it speaks; 0: none */
    const char *codegen;                 /* version of its compiler; NULL: it has none */
    /* Of a program with commands. Else NULL. */
    const char *command; /* the one whose options are parsed: "tune", of section [kiln tune] */
    const char *const *commands; /* all of them; NULL ends the list, as the next one */
    const char *const *shared;   /* options that section [kiln] may set for all commands whose
                                    table has them under the same kiln_opt.name */
} kiln_executable;

/* Parses a command line, after the values of environment and files, and sets the log's level.
 * Prints what --help, --version or --show-config ask for: `out->help` is true then, and nothing
 * else is to be done. `out->given` has the options of all sources that count, without those that
 * every program has. INVALID_ARGUMENT: an option or a value, wherever it stands: the note names the
 * file and the line. Errors of reading a file. */
KILN_MUST_USE kiln_status kiln_command_line_parse(const kiln_executable *program,
                                                  const kiln_opt_table *table, int argc,
                                                  char **argv, kiln_arena *process, kiln_args *out);
/* Notes the place of a value that turned out to be wrong later, where the text of INVALID_ARGUMENT
 * names its option and it is not from the command line. Other statuses stay as they are. */
KILN_MUST_USE kiln_status kiln_command_line_blame(const kiln_args *args, kiln_status st,
                                                  kiln_arena *process);
/* Prints what --version prints. */
void kiln_executable_print_version(const kiln_executable *program);

#endif
