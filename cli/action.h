/* Actions of a command, as `kiln fleet drain BOARD`: rows of one table, from which come help,
 * errors and the choice. */
#ifndef KILN_CLI_ACTION_H
#define KILN_CLI_ACTION_H

#include "cli/cli.h"

typedef struct kiln_action {
    const char *name;
    const char *arguments; /* "BOARD [TEXT]", "NAME SETTING=VALUE..."; "" for none */
    const char *help;
} kiln_action;

typedef struct kiln_actions {
    const char *command, *summary;
    const kiln_action *action;
    size_t count;
    bool has_default; /* the first one is done where none is named */
} kiln_actions;

/* Parses a command line whose first positional names an action; `args` then has its arguments
 * alone. `option`: those of all actions. --help prints the action that was named before it, or all.
 * INVALID_ARGUMENT: no such action (with the nearest one), or more or fewer arguments than it
 * takes; errors of kiln_args_parse. */
KILN_MUST_USE kiln_status kiln_action_parse(const kiln_actions *actions, const kiln_opt *option,
                                            size_t option_count, int argc, char **argv,
                                            kiln_arena *process, kiln_args *out_args,
                                            size_t *out_index);

#endif
