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

#define KILN_VTA_SEARCH "vta search" /* the one action that has options of its own */

/* kiln_command_line_parse of the command argv[0]: where `out->help` is true, it returns at once. */
KILN_MUST_USE kiln_status kiln_args_parse(const kiln_opt_table *table, int argc, char **argv,
                                          kiln_arena *process, kiln_args *out);

void kiln_print_version(void);
/* Prints text of others (files, models, errors) in its printable form. What peers said is printable
 * already (cli/common/client.h). */
void kiln_print_text(kiln_str text, kiln_text_form form, FILE *out);
/* The tensor of a .pb or a .npy file, in `process`. Errors of reading one. */
KILN_MUST_USE kiln_status kiln_read_tensor(const char *path, kiln_arena *process, kiln_tensor *out);

/* Prints one JSON object, its strings in their printable form, as a line of standard output, and
 * frees it. */
void kiln_json_line(json_t *object);

#endif
