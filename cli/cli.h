/* `kiln`, the command a person types. Each command is a row of commands.def and a file cmd_NAME.c;
 * this header holds what they share. Results go to standard output, one JSON object per line with
 * --json; errors and progress go to standard error. */
#ifndef KILN_CLI_CLI_H
#define KILN_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/opt.h"
#include "base/status.h"
#include "base/tensor.h"
#include "base/text.h"

/* A command gets its own name as argv[0]. `process` lives as long as the program. */
typedef kiln_status (*kiln_command)(kiln_arena *process, int argc, char **argv);
#define X(name, function, doc) kiln_status function(kiln_arena *process, int argc, char **argv);
#include "cli/commands.def"
#undef X

/* What a command line gave. */
typedef struct kiln_args {
    const char **positional;
    size_t count;
    kiln_opt_given_list given; /* options, as they were given */
    bool help;                 /* help was printed: the command returns at once */
} kiln_args;

/* Reads options into the table's places; what is left over is positional. INVALID_ARGUMENT: an
 * unknown option or a bad value; the note names it. */
KILN_MUST_USE kiln_status kiln_args_parse(const kiln_opt_table *table, int argc, char **argv,
                                          kiln_arena *process, kiln_args *out);

/* Prints text of others (files, models, errors) in its printable form. What peers said is printable
 * already (cli/common/client.h). */
void kiln_print_text(kiln_str text, kiln_text_form form, FILE *out);
/* The tensor of a .pb or a .npy file, in `process`. Errors of reading one. */
KILN_MUST_USE kiln_status kiln_read_tensor(const char *path, kiln_arena *process, kiln_tensor *out);

/* Prints one JSON object, its strings in their printable form, as a line of standard output, and
 * frees it. */
void kiln_json_line(json_t *object);

#endif
